//! `TRACER_FILTER`: the sites that are on, by the path of their module or by their target. The grammar is that of
//! `RUST_LOG`.
//!
//! The text is a list `directive,directive,...`. Each directive is `path`, `path=level` or `level`. The level `off`
//! switches sites off; the levels `on`, `trace`, `debug`, `info`, `warn` and `error` switch them on. Records that have
//! a level, which come from `log` and `tracing`, are on up to the level of the directive; records of `trace!` have no
//! level, and are on unless the directive says `off`. Of the directives whose path is the site's path or contains it,
//! the one with the longest path decides. If there is no such directive, the directive without a path decides. If there
//! is no such directive either, the site is off if some directive switches a path on, and on otherwise: so
//! `TRACER_FILTER=my_module` switches all other modules off.

use trace_format::sites::Level;

use super::relay;

/// The directives of `TRACER_FILTER`, longest path first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    paths: Vec<(String, Limit)>,
    otherwise: Option<Limit>,
}

/// The largest level of records that are on; `None` if no level is on.
type Limit = Option<Level>;

impl Filter {
    /// Parses the directives of a filter. Directives that cannot be understood are left out; the first of them is
    /// reported on stderr.
    pub(crate) fn parse(text: &str) -> Filter {
        let mut filter = Filter::default();
        let mut bad = None;
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            if !filter.add(directive) {
                bad.get_or_insert(directive);
            }
        }
        if let Some(bad) = bad {
            relay::say(format_args!(
                "TRACER_FILTER: {bad:?} is not a directive such as my::module=off or my::module; it is ignored"
            ));
        }
        // No path occurs twice.
        trace_store::sorting::sort(&mut filter.paths, |a, b| a.0.len() > b.0.len());
        filter
    }

    /// Adds a directive. Returns false if the text is not a directive.
    fn add(&mut self, directive: &str) -> bool {
        match directive.split_once('=') {
            None => match level(directive) {
                Some(limit) => self.otherwise = Some(limit),
                None if is_path(directive) => self.set(directive, Some(Level::Trace)),
                None => return false,
            },
            Some((path, word)) => {
                let (path, Some(limit)) = (path.trim(), level(word.trim())) else { return false };
                if !is_path(path) {
                    return false;
                }
                self.set(path, limit);
            }
        }
        true
    }

    /// Sets the limit of a path; the last directive for a path counts.
    fn set(&mut self, path: &str, limit: Limit) {
        self.paths.retain(|(known, _)| known != path);
        self.paths.push((path.to_owned(), limit));
    }

    /// Returns whether the filter allows sites with this name (a module path or a target) and this level, which may be
    /// [`Level::None`].
    pub(crate) fn allows(&self, name: &str, level: Level) -> bool {
        let is_in = |path: &str| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let decided = self.paths.iter().find(|(path, _)| is_in(path)).map(|(_, limit)| *limit);
        decided.unwrap_or_else(|| self.unnamed()).is_some_and(|limit| level <= limit)
    }

    /// Returns the largest level that the filter allows for any site; `None` if it allows no site.
    pub(crate) fn largest_level(&self) -> Option<Level> {
        self.paths.iter().map(|(_, limit)| *limit).chain([self.unnamed()]).max().flatten()
    }

    /// Returns the largest level that is on for sites to which no directive with a path applies.
    fn unnamed(&self) -> Limit {
        let is_all = || self.paths.iter().all(|(_, limit)| limit.is_none()).then_some(Level::Trace);
        self.otherwise.unwrap_or_else(is_all)
    }
}

fn level(word: &str) -> Option<Limit> {
    Some(match word.to_ascii_lowercase().as_str() {
        "off" => None,
        "on" | "trace" => Some(Level::Trace),
        "debug" => Some(Level::Debug),
        "info" => Some(Level::Info),
        "warn" => Some(Level::Warn),
        "error" => Some(Level::Error),
        _ => return None,
    })
}

/// Returns whether `text` may be the path of a module: names with `::` between them. Hyphens are allowed, because the
/// names of packages may have them.
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
        Filter::parse(filter).allows(module, Level::None)
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
    fn modules_that_no_directive_names_are_on_unless_others_are_enabled() {
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
        assert_eq!(filter.paths, [("app::net".to_owned(), None)]);
        assert_eq!(filter.otherwise, Some(None));
        assert_eq!(Filter::parse("app,app=off").paths, [("app".to_owned(), None)]);
    }

    #[test]
    fn a_level_applies_to_records_that_have_one() {
        let filter = Filter::parse("warn,app=debug,app::net=off,lib::x");
        let allows = |name, level| filter.allows(name, level);
        assert!(allows("app", Level::Debug) && !allows("app", Level::Trace) && allows("app", Level::None));
        assert!(!allows("app::net", Level::Error) && !allows("app::net", Level::None));
        assert!(allows("lib::x", Level::Trace));
        assert!(
            allows("other", Level::Warn) && !allows("other", Level::Info) && allows("other", Level::None)
        );
        assert!(Filter::parse("").allows("other", Level::Trace));
    }

    #[test]
    fn the_largest_level_is_that_of_a_directive() {
        let largest = |filter| Filter::parse(filter).largest_level();
        assert_eq!(largest(""), Some(Level::Trace));
        assert_eq!(largest("warn"), Some(Level::Warn));
        assert_eq!(largest("warn,app=debug"), Some(Level::Debug));
        assert_eq!(largest("off"), None);
        assert_eq!(largest("app=off"), Some(Level::Trace));
        assert_eq!(largest("app=info"), Some(Level::Info), "nothing else is on");
    }
}
