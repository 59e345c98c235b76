//! Patterns that select functions by their names: `TRACER_FUNCTIONS` and `TRACER_TRIGGER` when a program runs,
//! `--include` and `--exclude` when it is built.
//!
//! The form is `pattern,pattern,...`. A pattern is a name in which `*` stands for any characters; it includes the
//! functions that it matches, or excludes them if it begins with `-`. The last pattern that matches a name decides. If
//! no pattern matches a function, the function is selected only if the first pattern excludes, or if there are no
//! patterns. A pattern is compared with the whole path of a function and with its last segments: `parse*` matches
//! `my_crate::parse_line`, too. A comma between `<` and `>`, or between parentheses, belongs to the name.

/// A list of patterns that select functions, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    name: String,
    is_inclusion: bool,
}

impl Patterns {
    /// Reads patterns. Every text is a valid pattern.
    #[must_use]
    pub fn parse(text: &str) -> Patterns {
        let read = |text: &str| match text.strip_prefix('-') {
            Some(name) => Pattern { name: name.trim_start().to_owned(), is_inclusion: false },
            None => Pattern { name: text.to_owned(), is_inclusion: true },
        };
        Patterns(texts(text).map(read).filter(|pattern| !pattern.name.is_empty()).collect())
    }

    /// Returns whether the patterns select a function with these names; `names` is empty if no name is known.
    #[must_use]
    pub fn matches_function<S: AsRef<str>>(&self, names: &[S]) -> bool {
        let matches = |pattern: &&Pattern| names.iter().any(|name| pattern.matches_path(name.as_ref()));
        match self.0.iter().rev().find(matches) {
            Some(pattern) => pattern.is_inclusion,
            None => self.0.first().is_none_or(|first| !first.is_inclusion),
        }
    }
}

/// Returns the texts between commas, without blanks around them and without empty ones. A comma inside brackets does
/// not separate texts.
pub fn texts(text: &str) -> impl Iterator<Item = &str> {
    let mut nested = 0u32;
    let texts = text.split(move |c| {
        match c {
            '<' | '(' => nested += 1,
            '>' | ')' => nested = nested.saturating_sub(1),
            _ => {}
        }
        c == ',' && nested == 0
    });
    texts.map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the name of a function without a suffix such as `.cold` or `.part.0`, which compilers add if they split or
/// specialize a function.
#[must_use]
pub fn without_suffix(path: &str) -> &str {
    let known = [".cold", ".part.", ".isra.", ".constprop.", ".llvm."];
    known.iter().filter_map(|suffix| path.find(suffix)).min().map_or(path, |end| &path[..end])
}

/// Returns the ways to write the path of a Rust function, each of which a pattern may match: the path itself, the path
/// without generic arguments at its end, and the path with only the type or only the trait in place of `<Type as
/// Trait>`.
#[must_use]
pub fn spellings(path: &str) -> Vec<String> {
    let mut all = vec![path.to_owned()];
    if let Some(generic) = path.strip_suffix('>').and_then(|_| path.rfind("::<")) {
        all.push(path[..generic].to_owned());
    }
    for path in all.clone() {
        let Some((types, method)) = path.strip_prefix('<').and_then(|rest| rest.split_once(">::")) else {
            continue;
        };
        all.extend(types.split(" as ").map(|of| format!("{of}::{method}")));
    }
    all
}

impl Pattern {
    /// Returns whether the pattern matches a path, or its last segments.
    fn matches_path(&self, path: &str) -> bool {
        let segments = path.match_indices("::").map(|(at, separator)| at + separator.len());
        std::iter::once(0).chain(segments).any(|at| matches_wildcard(&path[at..], &self.name))
    }
}

/// Returns whether `text` matches `pattern`, in which `*` stands for any characters.
fn matches_wildcard(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches_function(patterns: &str, name: &str) -> bool {
        Patterns::parse(patterns).matches_function(&[name])
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let patterns = "net::*,-net::dns::*,net::dns::query";
        assert!(
            matches_function(patterns, "net::http::get") && matches_function(patterns, "app::net::http::get")
        );
        assert!(
            !matches_function(patterns, "net::dns::cache") && matches_function(patterns, "net::dns::query")
        );
        assert!(!matches_function(patterns, "disk::read"), "what none names is not meant");
        assert!(matches_function("-net::*", "disk::read") && !matches_function("-net::*", "net::get"));
        assert!(matches_function("", "anything") && matches_function(" , ", "anything"));
    }

    #[test]
    fn a_pattern_is_a_path_or_its_last_segments() {
        for name in ["parse", "my_crate::parse", "my_crate::mod::parse"] {
            assert!(matches_function("parse", name), "{name}");
        }
        for name in ["parse_line", "my_crate::parse::inner", "sparse", ""] {
            assert!(!matches_function("parse", name), "{name}");
        }
        assert!(
            matches_function("parse*", "my_crate::parse_line")
                && matches_function("*line*", "my_crate::parse_line_of")
        );
        assert!(
            matches_function("p*e*e", "parse_line")
                && !matches_function("p*e*x", "parse_line")
                && !matches_function("ab*ba", "aba")
        );
        assert!(Patterns::parse("b").matches_function(&["a", "b"]), "one of several names");
        assert!(
            !Patterns::parse("b").matches_function::<&str>(&[])
                && Patterns::parse("-b").matches_function::<&str>(&[])
        );
    }

    #[test]
    fn a_comma_inside_of_brackets_belongs_to_the_name() {
        let patterns = "std::map<int, int>::*,add(int, int)";
        assert!(
            matches_function(patterns, "std::map<int, int>::insert")
                && matches_function(patterns, "add(int, int)")
        );
        assert!(!matches_function(patterns, "add(int)"));
        assert_eq!(texts(" a<b, c> ,, -d ").collect::<Vec<_>>(), ["a<b, c>", "-d"]);
    }

    #[test]
    fn a_trait_method_matches_by_its_type_and_by_its_trait() {
        let names = spellings("<app::parser::Words as core::iter::Iterator>::next");
        for pattern in ["app::parser::*", "Words::next", "Iterator::next", "next", "core::*"] {
            assert!(Patterns::parse(pattern).matches_function(&names), "{pattern}");
        }
        assert!(!Patterns::parse("app::printer::*").matches_function(&names));
        assert!(Patterns::parse("app::sum").matches_function(&spellings("app::sum::<u8>")));
    }
}
