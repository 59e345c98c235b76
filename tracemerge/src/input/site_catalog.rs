//! The catalog of sites: a list of all sites in programs from which the records of a merge come. A site that several
//! files or runs record is listed once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use trace_format::raw::SiteNumbers;
use trace_format::sites::Site;

/// The sites that were seen so far. A site that several processes have recorded is in the catalog once.
#[derive(Debug, Default)]
pub(crate) struct SiteCatalog {
    known: Mutex<Known>,
    /// Whether the values of messages are wanted. If they are, recorded sites at the same position in a program count
    /// as different sites if their values have different types or names.
    with_values: bool,
}

#[derive(Debug, Default)]
struct Known {
    sites: Vec<Arc<Site>>,
    /// The number in the catalog of each site. The key is the site without those details that do not distinguish sites.
    numbers: HashMap<Site, u32>,
}

/// Returns a site without the details that may differ although the position in the program is the same: the number of
/// the site, whether another site is in the same line, and the format, types and names of the captured values.
fn place_of(site: &Site) -> Site {
    Site {
        id: 0,
        format: String::new(),
        descriptor: Vec::new(),
        names: Vec::new(),
        shares_line: false,
        ..site.clone()
    }
}

impl SiteCatalog {
    /// Makes a catalog for a merge in which the values of messages are wanted. Sites at the same position in a program,
    /// for example in a generic function, are different if their values have different types or names.
    #[must_use]
    pub(crate) fn with_values() -> SiteCatalog {
        SiteCatalog { with_values: true, ..SiteCatalog::default() }
    }

    /// Returns whether the values of messages are wanted, too.
    #[must_use]
    pub(crate) fn has_values(&self) -> bool {
        self.with_values
    }

    /// Returns the number in the catalog of a site, from 1. It is the same for all processes, even if they number the
    /// site differently.
    pub(crate) fn number(&self, site: &Site) -> u32 {
        let place = if self.with_values {
            Site { id: 0, shares_line: false, ..site.clone() }
        } else {
            place_of(site)
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.numbers.get(&place) {
            return *number;
        }
        known.sites.push(Arc::new(site.clone()));
        let number = u32::try_from(known.sites.len()).unwrap_or(0);
        known.numbers.insert(place, number);
        number
    }

    /// Returns the site that has this number in the catalog; `None` if no site has it.
    pub(crate) fn site(&self, number: u32) -> Option<Arc<Site>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sites.get((number as usize).checked_sub(1)?).cloned()
    }

    /// Returns all sites that were seen so far.
    pub(crate) fn sites(&self) -> Vec<Arc<Site>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).sites.clone()
    }

    /// Returns a function that gives each site its number in the catalog.
    #[must_use]
    pub(crate) fn numbers(catalog: &Arc<SiteCatalog>) -> SiteNumbers {
        let catalog = catalog.clone();
        SiteNumbers(Arc::new(move |site| catalog.number(site)))
    }
}

/// A cache, for one thread, of a value for each site of the catalog. Each value is computed at its first request.
#[derive(Clone, Debug)]
pub(crate) struct PerSite<T> {
    catalog: Arc<SiteCatalog>,
    made: Vec<Option<T>>,
}

impl<T> PerSite<T> {
    /// Makes an empty cache for the sites of `catalog`.
    #[must_use]
    pub(crate) fn new(catalog: Arc<SiteCatalog>) -> PerSite<T> {
        PerSite { catalog, made: Vec::new() }
    }

    /// Returns the cached value for the site with this number in the catalog; `make` computes it from the site if it is
    /// not in the cache. Returns `None` if no site has the number.
    pub(crate) fn get(&mut self, number: u32, make: impl FnOnce(&Site) -> T) -> Option<&mut T> {
        let index = (number as usize).checked_sub(1)?;
        if self.made.get(index).is_none_or(Option::is_none) {
            let site = self.catalog.site(number)?;
            self.made.resize_with(self.made.len().max(index + 1), || None);
            self.made[index] = Some(make(&site));
        }
        self.made.get_mut(index)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(id: u32, line: u32) -> Site {
        Site { id, line, ..Site::default() }
    }

    #[test]
    fn one_call_site_has_one_number_across_processes() {
        let catalog = SiteCatalog::default();
        assert_eq!([site(3, 10), site(1, 20), site(4, 10)].map(|site| catalog.number(&site)), [1, 2, 1]);
        assert_eq!(catalog.site(2).map(|site| site.line), Some(20));
        assert!(catalog.site(0).is_none() && catalog.site(3).is_none());
    }

    #[test]
    fn the_value_of_a_site_is_computed_once() {
        let catalog = Arc::new(SiteCatalog::default());
        let numbers = [5, 6, 5].map(|line| catalog.number(&site(0, line)));
        let (mut lines, mut made) = (PerSite::new(catalog), 0);
        for (number, line) in numbers.into_iter().zip([5, 6, 5]) {
            let found = lines.get(number, |site| {
                made += 1;
                site.line
            });
            assert_eq!(found, Some(&mut { line }));
        }
        assert_eq!(made, 2);
        assert!(lines.get(9, |site| site.line).is_none() && lines.get(0, |site| site.line).is_none());
    }
}
