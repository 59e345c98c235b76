//! `TRACER_FILTER`: which sites are on, by the path of their module. The grammar of `RUST_LOG`.
//!
//! `directive,directive,...`, each `path`, `path=level` or `level`. A level is `off`, or one of those that
//! are on: `on`, `trace`, `debug`, `info`, `warn`, `error`; records have none of their own. The directive
//! with the longest path that is the module's or one above it decides. Where none does, the bare level
//! decides; without one, sites are on unless some directive has switched something on: `other` alone means
//! that and nothing else.

use super::teller;

/// The directives of `TRACER_FILTER`, longest path first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    paths: Vec<(String, bool)>,
    otherwise: Option<bool>,
}

impl Filter {
    /// Reads directives. Of those that cannot be read the first is said on stderr; the rest applies.
    pub(crate) fn parse(text: &str) -> Filter {
        let mut filter = Filter::default();
        let mut bad = None;
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            if !filter.add(directive) {
                bad.get_or_insert(directive);
            }
        }
        if let Some(bad) = bad {
            teller::say(format_args!(
                "TRACER_FILTER: {bad:?} is no directive such as my::module=off or other; it is ignored"
            ));
        }
        filter.paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        filter
    }

    /// Adds a directive. Returns false where it is none.
    fn add(&mut self, directive: &str) -> bool {
        match directive.split_once('=') {
            None => match level(directive) {
                Some(on) => self.otherwise = Some(on),
                None if is_path(directive) => self.set(directive, true),
                None => return false,
            },
            Some((path, word)) => {
                let (path, Some(on)) = (path.trim(), level(word.trim())) else { return false };
                if !is_path(path) {
                    return false;
                }
                self.set(path, on);
            }
        }
        true
    }

    /// Sets what holds for a path, of which the last directive counts.
    fn set(&mut self, path: &str, on: bool) {
        self.paths.retain(|(known, _)| known != path);
        self.paths.push((path.to_owned(), on));
    }

    /// Returns whether sites in `module` are on.
    pub(crate) fn allows(&self, module: &str) -> bool {
        let is_in = |path: &str| {
            module.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let decided = self.paths.iter().find(|(path, _)| is_in(path)).map(|(_, on)| *on);
        decided.or(self.otherwise).unwrap_or_else(|| self.paths.iter().all(|(_, on)| !on))
    }
}

fn level(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "off" => Some(false),
        "on" | "trace" | "debug" | "info" | "warn" | "error" => Some(true),
        _ => None,
    }
}

/// Returns whether this may be the path of a module: names and `::`; a crate may have hyphens in other
/// places.
fn is_path(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split("::").all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(filter: &str, module: &str) -> bool {
        Filter::parse(filter).allows(module)
    }

    #[test]
    fn the_longest_path_decides() {
        let filter = "app=on,app::net=off,app::net::http";
        assert!(allows(filter, "app"));
        assert!(allows(filter, "app::db"));
        assert!(!allows(filter, "app::net"));
        assert!(!allows(filter, "app::net::dns::cache"));
        assert!(allows(filter, "app::net::http"));
        assert!(!allows(filter, "other"));
        assert!(!allows(filter, "app_two"), "a path is no prefix of a name");
    }

    #[test]
    fn what_no_directive_names_is_on_unless_something_was_switched_on() {
        assert!(allows("", "app"));
        assert!(allows("app::net=off", "app::db"));
        assert!(!allows("my::module=off,other", "app"));
        assert!(allows("my::module=off,other", "other::inner"));
        assert!(allows("trace,app=off", "other"));
        assert!(!allows("off,app=debug", "other"));
        assert!(allows("off,app=debug", "app"));
    }

    #[test]
    fn bad_directives_are_left_out_and_the_rest_applies() {
        let filter = Filter::parse("app=loud, ,=off,3x,a b,app::net = off ,OFF");
        assert_eq!(filter.paths, [("app::net".to_owned(), false)]);
        assert_eq!(filter.otherwise, Some(false));
        assert_eq!(Filter::parse("app,app=off").paths, [("app".to_owned(), false)]);
    }
}
