//! The sorts of messages. The messages of one site are one sort. If the site is not known, messages that
//! differ only in their numbers are one sort.

use std::collections::HashMap;
use std::sync::Arc;

use trace_format::sites::Site;

use crate::file::record_text::RecordText;
use crate::input::site_catalog::SiteCatalog;
use crate::view::shape::{ShapeId, Shapes};

/// The id of a sort: its index among all sorts that were seen.
pub(crate) type SortId = u32;

/// All sorts that were seen.
#[derive(Debug)]
pub(crate) struct Sorts {
    catalog: Arc<SiteCatalog>,
    shapes: Shapes,
    /// The sort of each site, by the number of the site in `catalog`, minus 1.
    of_sites: Vec<Option<SortId>>,
    /// The sort of each shape, by the id of the shape.
    of_shapes: Vec<Option<SortId>>,
    /// All sorts, by their ids.
    known: Vec<Sort>,
    by_template: HashMap<TemplateKey, SortId>,
    /// A buffer for the text of a message, whose lines it joins.
    text: Vec<u8>,
}

/// The parts of a site that usually stay the same from build to build: its module, its function and its
/// template.
type TemplateKey = (String, String, String);

/// A sort of messages.
#[derive(Clone, Debug)]
pub(crate) enum Sort {
    /// The messages of a site.
    Site(Arc<Site>),
    /// The messages with this shape.
    Shape(ShapeId),
}

impl Sorts {
    /// Makes an empty set of sorts; `catalog` has the sites to which records refer.
    #[must_use]
    pub(crate) fn new(catalog: Arc<SiteCatalog>) -> Sorts {
        Sorts {
            catalog,
            shapes: Shapes::default(),
            of_sites: Vec::new(),
            of_shapes: Vec::new(),
            known: Vec::new(),
            by_template: HashMap::new(),
            text: Vec::new(),
        }
    }

    /// Returns the sort of a message. Sites of the same module and function with the same template are one
    /// sort, so that two builds of a program can be compared.
    pub(crate) fn of(&mut self, record: &RecordText<'_>) -> SortId {
        if let Some(Some(sort)) = (record.site as usize).checked_sub(1).and_then(|n| self.of_sites.get(n)) {
            return *sort;
        }
        match self.catalog.site(record.site) {
            Some(site) if !site.template.is_empty() => {
                let key = (site.module.clone(), site.function.clone(), site.template.clone());
                let fresh = SortId::try_from(self.known.len()).unwrap_or(SortId::MAX);
                let sort = *self.by_template.entry(key).or_insert(fresh);
                if sort == fresh {
                    self.known.push(Sort::Site(site));
                }
                put(&mut self.of_sites, record.site as usize - 1, sort);
                sort
            }
            _ => self.of_shape(record),
        }
    }

    fn of_shape(&mut self, record: &RecordText<'_>) -> SortId {
        self.text.clear();
        for (number, line) in record.parsed().enumerate() {
            if number > 0 {
                self.text.push(b'\n');
            }
            self.text.extend_from_slice(line.payload);
        }
        let shape = self.shapes.of(&self.text);
        if let Some(Some(sort)) = self.of_shapes.get(shape as usize) {
            return *sort;
        }
        let fresh = SortId::try_from(self.known.len()).unwrap_or(SortId::MAX);
        self.known.push(Sort::Shape(shape));
        put(&mut self.of_shapes, shape as usize, fresh);
        fresh
    }

    /// Returns the sort with the id `id`.
    #[must_use]
    pub(crate) fn get(&self, id: SortId) -> Option<&Sort> {
        self.known.get(id as usize)
    }

    /// Returns the text that is common to all messages of a sort: a template, or a shape with `#` for
    /// numbers.
    #[must_use]
    pub(crate) fn text(&self, id: SortId) -> String {
        match self.get(id) {
            Some(Sort::Site(site)) => site.template.clone(),
            Some(Sort::Shape(shape)) => String::from_utf8_lossy(self.shapes.text(*shape)).into_owned(),
            None => String::new(),
        }
    }

    /// Returns the site of a sort, if known.
    #[must_use]
    pub(crate) fn site(&self, id: SortId) -> Option<&Site> {
        match self.get(id)? {
            Sort::Site(site) => Some(site),
            Sort::Shape(_) => None,
        }
    }
}

fn put(sorts: &mut Vec<Option<SortId>>, index: usize, sort: SortId) {
    sorts.resize(sorts.len().max(index + 1), None);
    sorts[index] = Some(sort);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(site: u32, text: &str) -> String {
        format!("{:016x}-00000007 : {text}\n", u64::from(site))
    }

    #[test]
    fn messages_are_grouped_by_call_site_or_else_by_shape() {
        let catalog = Arc::new(SiteCatalog::default());
        let site = |line, template: &str| Site { line, template: template.to_owned(), ..Site::default() };
        // The first two sites are one call in two builds: it has moved by some lines.
        let marks =
            [site(3, "got {x}"), site(9, "got {x}"), site(4, "lost {x}")].map(|site| catalog.number(&site));
        let mut sorts = Sorts::new(catalog);
        let mut of = |mark: u32, text: &str| {
            let lines = record(mark, text);
            sorts.of(&RecordText { site: mark, ..RecordText::new(0, lines.as_bytes()) })
        };
        let found = [
            of(marks[0], "got a cat"),
            of(marks[1], "got 12"),
            of(marks[2], "lost 12"),
            of(0, "got 12"),
            of(0, "got 13"),
            of(77, "got 14"),
            of(marks[0], "got 1"),
        ];
        assert_eq!(found, [0, 0, 1, 2, 2, 2, 0]);
        let texts = [0, 1, 2, 3].map(|sort| sorts.text(sort));
        assert_eq!(texts, ["got {x}", "lost {x}", "got #", ""]);
        assert_eq!((sorts.site(1).map(|site| site.line), sorts.site(2)), (Some(4), None));
    }
}
