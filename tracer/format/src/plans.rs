//! The sites of a run, ready to be rendered, by number.

use crate::fields::SitePlan;
use crate::function;
use crate::locks;
use crate::record::MAX_PAYLOAD;
use crate::sites::Site;

/// The least number of a site that is ignored: a program numbers its sites one by one, so its numbers are
/// smaller.
const MAX_SITE_NUMBER: usize = 1 << 20;

/// The plans that turn the captured arguments of each site into text.
#[derive(Clone, Debug, Default)]
pub struct Plans(Vec<Option<Box<PlannedSite>>>);

#[derive(Clone, Debug)]
struct PlannedSite {
    plan: SitePlan,
    /// The place of the site, as it stands in the line of a function's entry.
    place: Box<[u8]>,
    /// The site's entry in a site table.
    entry: Box<[u8]>,
    /// Whether the site is one of the tracer's locks.
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
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        let is_lock = locks::is_lock_site(site);
        if is_lock {
            plan.is_lock_site();
        }
        let mut place = Vec::new();
        function::write_site(site, &mut place);
        let planned = PlannedSite { plan, place: place.into(), entry: entry.into(), is_lock };
        self.0[index] = Some(Box::new(planned));
        true
    }

    /// Returns the place of a site, as it stands in the line of a function's entry.
    #[must_use]
    pub(crate) fn place(&self, site: u32) -> Option<&[u8]> {
        Some(&self.known(site)?.place)
    }

    /// Returns whether a site is one of the tracer's locks.
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
        self.0.get(site as usize)?.as_deref()
    }
}
