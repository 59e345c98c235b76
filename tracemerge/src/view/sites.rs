//! Selects messages by the sites that made them, where the traces tell these.

use std::sync::Arc;

use trace_format::sites::Site;

use crate::input::site_catalog::SiteCatalog;

/// The sites whose messages are wanted.
#[derive(Clone, Debug, Default)]
pub struct SiteSelection {
    /// The sites of the merge, by the marks of its records.
    pub catalog: Arc<SiteCatalog>,
    /// Whether the messages of each origin are marked by their sites.
    pub marked: Arc<[bool]>,
    /// The modules that are wanted; if this and `places` are empty, all sites are.
    pub modules: Vec<String>,
    /// The places in source files that are wanted.
    pub places: Vec<SourcePlace>,
}

/// A place in a source file, as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// The end of the file's path, from the beginning of a name in it.
    file: String,
    /// The line; without one, all of the file is meant.
    line: Option<u32>,
}

impl SiteSelection {
    /// Returns whether the messages of all sites are wanted, and those without a site.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.modules.is_empty() && self.places.is_empty()
    }

    /// Returns whether the messages of a site are wanted: its module is one of those that are, or in one, and
    /// its place is.
    #[must_use]
    pub fn takes(&self, site: &Site) -> bool {
        let is_in = |module: &String| {
            let rest = site.module.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        (self.modules.is_empty() || self.modules.iter().any(is_in))
            && (self.places.is_empty() || self.places.iter().any(|place| place.is_of(site)))
    }
}

impl SourcePlace {
    /// Reads `file` or `file:line`.
    ///
    /// # Errors
    /// There is no file; the error says what is wanted.
    pub fn parse(text: &str) -> Result<SourcePlace, String> {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
                (file, Some(line.parse().map_err(|_| format!("no file has a line {line}"))?))
            }
            _ => (text, None),
        };
        if file.is_empty() {
            return Err(
                "a source file is wanted, such as src/main.rs, or a line of one: main.rs:12".to_owned()
            );
        }
        Ok(SourcePlace { file: file.to_owned(), line })
    }

    fn is_of(&self, site: &Site) -> bool {
        let before = site.file.strip_suffix(self.file.as_str());
        before.is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']))
            && self.line.is_none_or(|line| line == site.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(module: &str, file: &str, line: u32) -> Site {
        Site { module: module.to_owned(), file: file.to_owned(), line, ..Site::default() }
    }

    fn selection(modules: &[&str], places: &[&str]) -> SiteSelection {
        SiteSelection {
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            places: places.iter().map(|place| SourcePlace::parse(place).unwrap()).collect(),
            ..SiteSelection::default()
        }
    }

    #[test]
    fn a_module_means_all_that_is_in_it_and_a_file_may_be_named_by_its_end() {
        let here = site("app::net::tcp", "src/net/tcp.rs", 12);
        for (modules, places, wanted) in [
            (&["app"][..], &[][..], true),
            (&["app::net"], &[], true),
            (&["app::ne"], &[], false),
            (&["other", "app::net::tcp"], &[], true),
            (&[], &["tcp.rs"], true),
            (&[], &["net/tcp.rs:12"], true),
            (&[], &["src/net/tcp.rs:13"], false),
            (&[], &["cp.rs"], false),
            (&["app"], &["udp.rs", "tcp.rs:12"], true),
            (&["other"], &["tcp.rs"], false),
        ] {
            assert_eq!(selection(modules, places).takes(&here), wanted, "{modules:?} {places:?}");
        }
        for wrong in ["", ":12", "a.rs:99999999999"] {
            assert!(SourcePlace::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(SourcePlace::parse("C:\\a.rs").unwrap().line, None);
    }
}
