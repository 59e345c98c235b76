//! Selects messages by the sites that made them, if the traces record the sites.

use std::collections::BTreeSet;
use std::sync::Arc;

use similar::get_close_matches;

use trace_format::sites::{Level, Site};

use crate::input::site_catalog::SiteCatalog;
use crate::ui::messages::{count, shown_name};
use crate::view::export::fields::level;

/// The sites whose messages are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteSelection {
    /// The sites of the merge, by the numbers with which the merged records refer to their sites.
    pub catalog: Arc<SiteCatalog>,
    /// The conditions that wanted sites must satisfy.
    pub wanted: WantedSites,
}

/// Conditions for sites. An empty list, or no level, admits all sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedSites {
    /// The paths of the wanted modules.
    pub modules: Vec<String>,
    /// The wanted targets. A site without a target of its own has its module as target.
    pub targets: Vec<String>,
    /// The least urgent level that is wanted: messages of this level and of more urgent ones are wanted. If it is set,
    /// sites without a level are not wanted.
    pub level: Option<Level>,
    /// The wanted places in source files.
    pub places: Vec<SourcePlace>,
}

/// A place in a source file, as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    /// The end of the file's path: one name or more, each complete.
    file: String,
    /// The line; `None` means all lines of the file.
    line: Option<u32>,
}

impl WantedSites {
    /// Returns whether all messages are wanted, even those without a site.
    #[must_use]
    pub(crate) fn is_all(&self) -> bool {
        self.modules.is_empty() && self.targets.is_empty() && self.places.is_empty() && self.level.is_none()
    }

    /// Returns whether the messages of a site are wanted: its module and its target are equal to or inside
    /// wanted ones, its level is at least as urgent as the wanted level, and its place is wanted.
    #[must_use]
    pub(crate) fn takes(&self, site: &Site) -> bool {
        is_in_one(&site.module, &self.modules)
            && is_in_one(target_of(site), &self.targets)
            && self.level.is_none_or(|least| site.level != Level::None && site.level <= least)
            && (self.places.is_empty() || self.places.iter().any(|place| place.matches_site_place(site)))
    }
}

/// Returns the target of a site, or its module if it has no target of its own.
fn target_of(site: &Site) -> &str {
    if site.target.is_empty() { &site.module } else { &site.target }
}

/// The maximum number of names that are listed for a user whose conditions fit no site.
const LISTED_NAMES: usize = 3;
/// The maximum number of existing names that are compared with a wanted name. `COMPARED_BYTES` is the maximum length of
/// such a name, because the time of a comparison grows with the product of both lengths.
const COMPARED_NAMES: usize = 4096;
const COMPARED_BYTES: usize = 256;

impl SiteSelection {
    /// Returns a text about the sites that were seen, for a user whose conditions fit none of them. For each property
    /// that the user has set a condition for, it lists the values that the sites have; of many names, those most
    /// similar to the wanted ones. The text is empty if no site was seen, or if there are no conditions.
    #[must_use]
    pub(crate) fn alternatives(&self) -> String {
        let (sites, wanted) = (self.catalog.sites(), &self.wanted);
        if sites.is_empty() || wanted.is_all() {
            return String::new();
        }
        let levels: BTreeSet<Level> = sites.iter().map(|site| site.level).collect();
        let levels: Vec<&str> = levels.into_iter().filter_map(level).collect();
        let levels = if levels.is_empty() {
            "no level".to_owned()
        } else {
            format!("the levels {}", levels.join(", "))
        };
        let files: Vec<String> = wanted.places.iter().map(|place| place.file.clone()).collect();
        let of = |kind: &str, name: fn(&Site) -> String, wanted: &[String]| {
            let names = || near(sites.iter().map(|site| name(site)), wanted);
            (!wanted.is_empty()).then(|| format!("the {kind} {}", names()))
        };
        let parts = [
            wanted.level.map(|_| levels),
            of("targets", |site| target_of(site).to_owned(), &wanted.targets),
            of("modules", |site| site.module.clone(), &wanted.modules),
            of("places", |site| format!("{}:{}", site.file, site.line), &files),
        ];
        format!("; the records have {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

/// Returns a text that lists a few of the `names`, those that are most similar to the `wanted` ones, and says how many
/// others there are.
fn near(names: impl Iterator<Item = String>, wanted: &[String]) -> String {
    let names: BTreeSet<String> = names.collect();
    let compared: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| name.len() <= COMPARED_BYTES)
        .take(COMPARED_NAMES)
        .collect();
    let mut listed: Vec<&str> = Vec::new();
    for name in
        wanted.iter().flat_map(|wanted| get_close_matches(wanted.as_str(), &compared, LISTED_NAMES, 0.0))
    {
        if listed.len() < LISTED_NAMES && !listed.contains(&name) {
            listed.push(name);
        }
    }
    let shown: Vec<String> = listed.iter().map(|name| shown_name(name.as_bytes())).collect();
    match names.len() - listed.len() {
        0 => shown.join(", "),
        others => format!("{} and {}", shown.join(", "), count(others as u64, "other")),
    }
}

/// Returns whether a module path is one of the `wanted` paths or lies inside one of them. An empty list admits all
/// paths.
fn is_in_one(path: &str, wanted: &[String]) -> bool {
    let is_in = |outer: &String| {
        path.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    wanted.is_empty() || wanted.iter().any(is_in)
}

impl SourcePlace {
    /// Parses `file` or `file:line`.
    ///
    /// # Errors
    /// Returns an error if the file is missing or the line number is too large. The error describes the
    /// expected form.
    pub(crate) fn parse(text: &str) -> Result<SourcePlace, String> {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) if !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()) => {
                (file, Some(line.parse().map_err(|_| format!("the line number {line} is too large"))?))
            }
            _ => (text, None),
        };
        if file.is_empty() {
            return Err("expected a source file, such as src/main.rs, or a line in it: main.rs:12".to_owned());
        }
        Ok(SourcePlace { file: file.to_owned(), line })
    }

    fn matches_site_place(&self, site: &Site) -> bool {
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

    fn selection(modules: &[&str], places: &[&str]) -> WantedSites {
        WantedSites {
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            places: places.iter().map(|place| SourcePlace::parse(place).unwrap()).collect(),
            ..WantedSites::default()
        }
    }

    #[test]
    fn a_level_includes_more_urgent_ones_and_a_module_is_a_target() {
        let of_level = |level| Site { level, ..site("app::net", "net.rs", 1) };
        let wanted = WantedSites { level: Some(Level::Info), ..WantedSites::default() };
        let all = [Level::None, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
        let taken = all.map(|level| wanted.takes(&of_level(level)));
        assert_eq!(taken, [false, true, true, true, false, false]);
        let named = Site { target: "wire".to_owned(), ..site("app::net", "net.rs", 1) };
        for (target, of_named, of_other) in
            [("wire", true, false), ("app", false, true), ("wir", false, false)]
        {
            let wanted = WantedSites { targets: vec![target.to_owned()], ..WantedSites::default() };
            assert_eq!(wanted.takes(&named), of_named, "{target}");
            assert_eq!(wanted.takes(&site("app::net", "net.rs", 1)), of_other, "{target}");
        }
    }

    #[test]
    fn a_module_includes_its_submodules_and_a_file_matches_by_its_end() {
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
