//! Counts of calls by names of functions, as several tools print them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of calls of each function, by its name. Functions with the same name are counted together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts(BTreeMap<String, u64>);

impl<S: Into<String>> FromIterator<(S, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(counts: I) -> Self {
        let mut sums = BTreeMap::new();
        for (name, count) in counts {
            *sums.entry(name.into()).or_default() += count;
        }
        Self(sums)
    }
}

impl Counts {
    /// Parses a report of tracemerge. Its columns have two spaces between them; the first column has the number of
    /// calls, and the eighth the function, with all its names if it has several.
    pub fn of_report(report: &str) -> Self {
        let row = |line: &str| {
            let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
            let count = number(columns.next()?)?;
            Some((columns.nth(6)?.to_owned(), count))
        };
        report.lines().filter_map(row).collect()
    }

    /// Parses a report of uftrace, and leaves out the periods in which a thread was not running. Parts and versions of
    /// a function, which gcc gives names of their own, are counted with the function.
    pub fn of_uftrace(report: &str) -> Self {
        let row = |line: &str| {
            let (fields, name) = split_fields::<5>(line)?;
            (!name.starts_with("linux:")).then_some(())?;
            Some((without_clones(name).to_owned(), fields[4].parse().ok()?))
        };
        report.lines().skip(2).filter_map(row).collect()
    }

    /// Parses a file of callgrind: how often each function has called `hook` or, without a hook, how often it was
    /// called. The names are still mangled. Returns `None` if a line cannot be parsed.
    pub fn of_callgrind(file: &str, hook: Option<&str>) -> Option<Self> {
        let mut names = HashMap::new();
        // A name stands in parentheses by its number, and the first time in full behind it.
        let mut named = |text: &str| {
            let (number, name) = text.strip_prefix('(')?.split_once(')')?;
            if let Some(name) = name.strip_prefix(' ') {
                names.insert(number.to_owned(), name.to_owned());
            }
            names.get(number).cloned()
        };
        let (mut caller, mut callee, mut counts) = (String::new(), String::new(), Vec::new());
        for line in file.lines() {
            if let Some(text) = line.strip_prefix("fn=") {
                caller = named(text)?;
            } else if let Some(text) = line.strip_prefix("cfn=") {
                callee = named(text)?;
            } else if let Some(text) = line.strip_prefix("calls=") {
                let count = text.split(' ').next()?.parse().ok()?;
                match hook {
                    None => counts.push((without_numbers(&callee).to_owned(), count)),
                    Some(hook) if callee == hook => counts.push((without_numbers(&caller).to_owned(), count)),
                    Some(_) => {}
                }
            }
        }
        Some(counts.into_iter().collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn calls(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// Returns the counts, in the order of `names`.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.values().copied()
    }

    /// Leaves out the functions whose names are not `wanted`.
    pub fn only(self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.into_iter().filter(|(name, _)| wanted(name)).collect()
    }

    /// Leaves out functions that were never called.
    pub fn only_called(&self) -> Self {
        self.0.iter().filter(|(_, count)| **count > 0).map(|(name, count)| (name.as_str(), *count)).collect()
    }

    /// Shortens long names and adds the counts of names that are then equal: tracemerge does not show the rest of very
    /// long names.
    pub fn clipped(self) -> Self {
        self.0.into_iter().map(|(name, count)| (name.chars().take(3000).collect::<String>(), count)).collect()
    }

    /// Gives each function the name that `theirs` has for it: one of its own names, which `a = b` separates, or another
    /// name for the same code, from the pairs in `shared`.
    pub fn named_as(self, theirs: &Self, shared: &BTreeSet<(String, String)>) -> Self {
        let known = |name: &str| theirs.0.contains_key(name);
        let other = |name: &str| shared.iter().rfind(|(ours, theirs)| ours == name && known(theirs));
        let name_of = |name: String| {
            let one =
                if known(&name) { Some(name.as_str()) } else { name.split(" = ").find(|one| known(one)) };
            one.or_else(|| other(&name).map(|(_, theirs)| theirs.as_str())).unwrap_or(&name).to_owned()
        };
        self.0.into_iter().map(|(name, count)| (name_of(name), count)).collect()
    }

    /// Returns a line for each function whose counts differ, or that is in one of the two only.
    pub fn differences(&self, theirs: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(theirs.0.keys()).collect();
        let differs = |name: &&&String| self.0.get(**name) != theirs.0.get(**name);
        let shown = |count: Option<&u64>| count.map_or_else(|| "not there".to_owned(), u64::to_string);
        let line =
            |name| format!("{name}: ours {}, theirs {}", shown(self.0.get(name)), shown(theirs.0.get(name)));
        names.iter().filter(differs).map(|name| line(*name)).collect()
    }
}

/// Parses a number with commas between thousands.
pub fn number(text: &str) -> Option<u64> {
    text.replace(',', "").parse().ok()
}

/// Splits the first `N` fields, which spaces separate, off a line. Returns them and the rest of the line.
pub fn split_fields<const N: usize>(line: &str) -> Option<([&str; N], &str)> {
    let mut rest = line;
    let mut fields = [""; N];
    for field in &mut fields {
        (*field, rest) = rest.trim_start().split_once(' ')?;
    }
    Some((fields, rest.trim_start()))
}

/// Removes `mark` and the digits after it from the end of a name, if the name has both.
fn without_number<'a>(name: &'a str, mark: &str) -> &'a str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix(mark).unwrap_or(name)
}

/// Removes callgrind's number of a recursive call, and the number that the compiler has added, from the end of a name.
fn without_numbers(name: &str) -> &str {
    ["'", ".llvm.", "."].iter().fold(name, |name, mark| without_number(name, mark))
}

/// Removes the marks that gcc adds to the names of parts and versions of a function.
fn without_clones(name: &str) -> &str {
    let mut name = name;
    loop {
        let shorter =
            [".isra.", ".part.", ".constprop."].iter().fold(name, |name, mark| without_number(name, mark));
        if shorter == name {
            break;
        }
        name = shorter;
    }
    if name.ends_with(']') { name.rfind(" [clone ").map_or(name, |at| &name[..at]) } else { name }
}

/// Removes the hashes of Rust from a name: `::h` with 16 digits at the end, and 8 to 16 digits in brackets.
pub fn without_hashes(name: &str) -> String {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let end = name.rfind("::h").filter(|at| name.len() == at + 19 && is_hex(&name[at + 3..]));
    let mut parts = name[..end.unwrap_or(name.len())].split('[');
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((hash, rest)) if (8..=16).contains(&hash.len()) && is_hex(hash) => short += rest,
            _ => {
                short.push('[');
                short += part;
            }
        }
    }
    short
}

/// The symbols of a program, as `nm` prints them: address, type and name, in the order of addresses.
pub struct Symbols<'a>(Vec<(&'a str, &'a str, &'a str)>);

impl<'a> Symbols<'a> {
    /// Parses lines of an address, a type and a name. Symbols without an address are left out.
    pub fn parse(listing: &'a str) -> Self {
        let symbol = |line: &'a str| {
            let mut fields = line.split_whitespace();
            Some((fields.next()?, fields.next()?, fields.next()?))
        };
        let mut symbols: Vec<_> = listing.lines().filter_map(symbol).collect();
        symbols.sort_unstable();
        Self(symbols)
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.0.iter().map(|(_, _, name)| *name).collect()
    }

    /// Returns the names of the program's own functions.
    pub fn functions(&self) -> BTreeSet<&'a str> {
        let own =
            self.0.iter().filter(|(_, kind, name)| matches!(*kind, "t" | "T") && !name.starts_with('_'));
        own.map(|(_, _, name)| *name).collect()
    }

    /// Returns the pairs of names of the same address. `names` has the demangled names, in the order of `names()`.
    pub fn shared(&self, names: &[String]) -> BTreeSet<(String, String)> {
        let both = self.0.iter().zip(names).zip(self.0.iter().zip(names).skip(1));
        let same = both.filter(|((one, _), (other, _))| one.0 == other.0);
        same.flat_map(|((_, one), (_, other))| [(one.clone(), other.clone()), (other.clone(), one.clone())])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> Counts {
        list.iter().map(|(name, count)| (*name, *count)).collect()
    }

    #[test]
    fn a_report_has_calls_and_names() {
        let report = "functions of 1 thread\n\
            \x20  calls  total  share  self  mean  min  max  function  (place)\n\
            \x201,200  5 ms  10 %  1 ms  2 us  1 us  3 us  core::ops::f = g  (a.rs:3)\n\
            \x20   3  5 ms  10 %  1 ms  2 us  1 us  3 us  h\n";
        assert_eq!(Counts::of_report(report), counts(&[("core::ops::f = g", 1200), ("h", 3)]));
    }

    #[test]
    fn a_report_of_uftrace_has_parts_of_functions_with_them() {
        let report = "  Total time   Self time       Calls  Function\n  ==========  ==========  ==========  ====\n\
            \x20   1.000 us    1.000 us          12  std::vector<int, a>::at\n\
            \x20   1.000 us    1.000 us           2  f.isra.0.part.1\n\
            \x20   1.000 us    1.000 us           1  f [clone .constprop.0]\n\
            \x20   1.000 us    1.000 us           9  linux:schedule\n";
        assert_eq!(Counts::of_uftrace(report), counts(&[("std::vector<int, a>::at", 12), ("f", 3)]));
    }

    #[test]
    fn a_file_of_callgrind_has_calls_of_functions_and_of_the_hook() {
        let file = "fn=(1) main\n0 1\ncfn=(2) f'2\ncalls=3 0\n0 1\ncfn=(3) hook\ncalls=1 0\n\nfn=(2)\ncfn=(3)\ncalls=7 0\n\
            fn=(4) f.llvm.123\ncfn=(3)\ncalls=2 0\n";
        assert_eq!(Counts::of_callgrind(file, None), Some(counts(&[("f", 3), ("hook", 10)])));
        assert_eq!(Counts::of_callgrind(file, Some("hook")), Some(counts(&[("main", 1), ("f", 9)])));
    }

    #[test]
    fn hashes_are_no_part_of_a_name() {
        assert_eq!(without_hashes("a::b::h0123456789abcdef"), "a::b");
        assert_eq!(
            without_hashes("<a[0123456789abcdef]::T as b[01234567]::U>::[u8]::f"),
            "<a::T as b[01234567]::U>::[u8]::f".replace("[01234567]", "")
        );
        assert_eq!(without_hashes("a::b::h0123"), "a::b::h0123");
    }

    #[test]
    fn a_missing_name_and_another_count_are_differences() {
        let (ours, theirs) =
            (counts(&[("f", 1), ("g", 2), ("h", 3)]), counts(&[("f", 1), ("g", 3), ("i", 4)]));
        let found = ours.differences(&theirs);
        assert_eq!(
            found,
            ["g: ours 2, theirs 3", "h: ours 3, theirs not there", "i: ours not there, theirs 4"]
        );
        assert!(ours.differences(&ours).is_empty());
    }

    #[test]
    fn a_function_gets_the_name_that_the_other_tool_has() {
        let symbols = Symbols::parse("0010 T one\n0010 t two\n0020 T three\n     U other\n");
        let names: Vec<String> = symbols.names().into_iter().map(str::to_owned).collect();
        let theirs = counts(&[("two", 5), ("b", 2)]);
        let ours = counts(&[("one", 5), ("a = b = c", 2), ("three", 1)]);
        assert_eq!(
            ours.named_as(&theirs, &symbols.shared(&names)),
            counts(&[("two", 5), ("b", 2), ("three", 1)])
        );
    }
}
