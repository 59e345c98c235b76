//! The sites of a run, by their numbers, each with a plan that turns its captured arguments into text.

use crate::fields::SitePlan;
use crate::function;
use crate::locks;
use crate::record::MAX_PAYLOAD;
use crate::sites::{Site, SiteKind};

/// The limit for the numbers of sites: a site with this number or a greater one is ignored. A program numbers its sites
/// one by one, so the numbers of real sites are smaller.
const MAX_SITE_NUMBER: usize = 1 << 20;

/// The plans that turn the captured arguments of each site into text.
#[derive(Clone, Debug, Default)]
pub struct Plans {
    sites: Vec<Option<Box<PlannedSite>>>,
    /// For each element of `sites`, the source line if the site is that of a function, otherwise 0. A new site is
    /// compared only with the sites that have the same line, so that a run may have thousands of sites.
    function_lines: Vec<u32>,
}

#[derive(Clone, Debug)]
struct PlannedSite {
    plan: SitePlan,
    /// The text of the site's place in the source, as it stands in a `>` line.
    place: Box<[u8]>,
    /// The site's entry in a site table.
    entry: Box<[u8]>,
    /// Whether the site is in the tracer's own code that records locks.
    is_lock: bool,
}

impl Plans {
    /// Returns the plans of a table's sites. Leaves out the sites for which no plan can be made.
    #[must_use]
    pub fn of(sites: &[Site]) -> Plans {
        let mut plans = Plans::default();
        for site in sites {
            plans.add(site);
        }
        plans
    }

    /// Adds a site; returns false if no plan can be made from its entry, or the entry is too long for one
    /// record of a raw file.
    pub fn add(&mut self, site: &Site) -> bool {
        let mut entry = Vec::new();
        site.write(&mut entry);
        if entry.len() > MAX_PAYLOAD {
            return false;
        }
        let Ok(mut plan) = SitePlan::new(&site.format, &site.descriptor) else { return false };
        let Some(index) = usize::try_from(site.id).ok().filter(|index| *index < MAX_SITE_NUMBER) else {
            return false;
        };
        if self.sites.len() <= index {
            self.sites.resize(index + 1, None);
            self.function_lines.resize(index + 1, 0);
        }
        let is_lock = locks::is_lock_site(site);
        if is_lock {
            plan.is_lock_site();
        }
        let mut place = Vec::new();
        function::write_site(site, &mut place);
        self.function_lines[index] = if site.kind == SiteKind::Function { site.line } else { 0 };
        self.sites[index] =
            Some(Box::new(PlannedSite { plan, place: place.into(), entry: entry.into(), is_lock }));
        true
    }

    /// Adds a site as [`Plans::add`] does, and sets the field [`Site::shares_line`] of the site. Only the run that has
    /// made the site calls this, because only that run knows all of its sites, in one order.
    pub fn add_of_run(&mut self, site: &mut Site) -> bool {
        if site.kind == SiteKind::Function {
            site.shares_line = false;
            let mut place = Vec::new();
            function::write_site(site, &mut place);
            let mut others = (0..).zip(&self.function_lines);
            site.shares_line = others.any(|(id, line)| {
                *line == site.line && id != site.id && self.place(id) == Some(place.as_slice())
            });
        }
        self.add(site)
    }

    /// Returns the text of a site's place in the source, as it stands in a `>` line.
    #[must_use]
    pub(crate) fn place(&self, site: u32) -> Option<&[u8]> {
        Some(&self.known(site)?.place)
    }

    /// Returns whether a site is in the tracer's own code that records locks.
    #[must_use]
    pub(crate) fn is_lock_site(&self, site: u32) -> bool {
        self.known(site).is_some_and(|site| site.is_lock)
    }

    /// Returns the plan of a site.
    #[must_use]
    #[inline]
    pub fn get(&self, site: u32) -> Option<&SitePlan> {
        Some(&self.known(site)?.plan)
    }

    /// Returns the entry of a site, as it stands in a site table.
    #[must_use]
    pub fn entry(&self, site: u32) -> Option<&[u8]> {
        Some(&self.known(site)?.entry)
    }

    #[inline]
    fn known(&self, site: u32) -> Option<&PlannedSite> {
        self.sites.get(site as usize)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_site_of_a_function_in_the_same_line_has_its_number() {
        let site = |id, line, kind| Site {
            id,
            line,
            kind,
            function: "f".into(),
            file: "a".into(),
            ..Site::default()
        };
        let mut plans = Plans::default();
        let function = SiteKind::Function;
        // A site may be added again, with more of its description.
        for (id, line, kind, shown) in [
            (1, 7, SiteKind::Message, "f at a:7"),
            (4, 7, function, "f at a:7"),
            (2, 7, function, "f at a:7 site 2"),
            (3, 8, function, "f at a:8"),
            (2, 7, function, "f at a:7 site 2"),
            (4, 7, function, "f at a:7"),
            (5, 7, SiteKind::Span, "f at a:7"),
        ] {
            let mut site = site(id, line, kind);
            assert!(plans.add_of_run(&mut site));
            assert_eq!(plans.place(id).map(String::from_utf8_lossy), Some(shown.into()));
            // Readers of a file find the sites in another order.
            let read = Site::parse(plans.entry(id).expect("an entry")).expect("a site");
            assert_eq!(Plans::of(&[read]).place(id), plans.place(id));
        }
    }
}
