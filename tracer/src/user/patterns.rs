//! `TRACER_FUNCTIONS` and `TRACER_TRIGGER`: which functions are meant, by their names.
//!
//! `pattern,pattern,...`, each a name in which `*` stands for any characters, with `-` in front where it takes out what
//! earlier ones have put in. The last pattern that a name matches decides; where none does, a function is meant only if
//! the first pattern takes out. A pattern is compared with the whole path of a function and with its last segments:
//! `parse*` means `my_crate::parse_line`, too. A comma between `<` and `>`, or between parentheses, belongs to the name.

/// The patterns of a variable, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    name: String,
    puts_in: bool,
}

impl Patterns {
    /// Reads patterns. Every text is one.
    pub(crate) fn parse(text: &str) -> Patterns {
        let (mut patterns, mut nested, mut from) = (Vec::new(), 0u32, 0);
        let mut add = |pattern: &str| {
            let pattern = pattern.trim();
            let (name, puts_in) = match pattern.strip_prefix('-') {
                Some(name) => (name.trim_start(), false),
                None => (pattern, true),
            };
            if !name.is_empty() {
                patterns.push(Pattern { name: name.to_owned(), puts_in });
            }
        };
        for (at, c) in text.char_indices() {
            match c {
                '<' | '(' => nested += 1,
                '>' | ')' => nested = nested.saturating_sub(1),
                ',' if nested == 0 => {
                    add(&text[from..at]);
                    from = at + 1;
                }
                _ => {}
            }
        }
        add(&text[from..]);
        Patterns(patterns)
    }

    /// Returns whether a function is meant that has these names, which is none where it is not known.
    pub(crate) fn mean<S: AsRef<str>>(&self, names: &[S]) -> bool {
        let matches = |pattern: &&Pattern| names.iter().any(|name| pattern.is_of(name.as_ref()));
        match self.0.iter().rev().find(matches) {
            Some(pattern) => pattern.puts_in,
            None => self.0.first().is_none_or(|first| !first.puts_in),
        }
    }
}

impl Pattern {
    /// Returns whether the pattern is that of a path, or of its last segments.
    fn is_of(&self, path: &str) -> bool {
        let segments = path.match_indices("::").map(|(at, separator)| at + separator.len());
        std::iter::once(0).chain(segments).any(|at| is_like(&path[at..], &self.name))
    }
}

/// Returns whether `text` is `pattern`, in which `*` stands for any characters.
fn is_like(text: &str, pattern: &str) -> bool {
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

    fn mean(patterns: &str, name: &str) -> bool {
        Patterns::parse(patterns).mean(&[name])
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let patterns = "net::*,-net::dns::*,net::dns::query";
        assert!(mean(patterns, "net::http::get") && mean(patterns, "app::net::http::get"));
        assert!(!mean(patterns, "net::dns::cache") && mean(patterns, "net::dns::query"));
        assert!(!mean(patterns, "disk::read"), "what none names is not meant");
        assert!(mean("-net::*", "disk::read") && !mean("-net::*", "net::get"));
        assert!(mean("", "anything") && mean(" , ", "anything"));
    }

    #[test]
    fn a_pattern_is_a_path_or_its_last_segments() {
        for name in ["parse", "my_crate::parse", "my_crate::mod::parse"] {
            assert!(mean("parse", name), "{name}");
        }
        for name in ["parse_line", "my_crate::parse::inner", "sparse", ""] {
            assert!(!mean("parse", name), "{name}");
        }
        assert!(mean("parse*", "my_crate::parse_line") && mean("*line*", "my_crate::parse_line_of"));
        assert!(mean("p*e*e", "parse_line") && !mean("p*e*x", "parse_line") && !mean("ab*ba", "aba"));
        assert!(Patterns::parse("b").mean(&["a", "b"]), "one of several names");
        assert!(!Patterns::parse("b").mean::<&str>(&[]) && Patterns::parse("-b").mean::<&str>(&[]));
    }

    #[test]
    fn a_comma_inside_of_brackets_belongs_to_the_name() {
        let patterns = "std::map<int, int>::*,add(int, int)";
        assert!(mean(patterns, "std::map<int, int>::insert") && mean(patterns, "add(int, int)"));
        assert!(!mean(patterns, "add(int)"));
    }
}
