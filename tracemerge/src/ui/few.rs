//! The first few of many similar items, for messages that name some and count all.

use crate::ui::messages::count;

/// The greatest number of items that are kept.
const MAX_KEPT_ITEMS: usize = 3;

/// The first few of many items, and the count of all of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FirstItems<T> {
    /// The first items, at most three.
    pub first: Vec<T>,
    /// The number of all items, kept or not.
    pub count: u64,
}

impl<T> Default for FirstItems<T> {
    fn default() -> FirstItems<T> {
        FirstItems { first: Vec::new(), count: 0 }
    }
}

impl<T> FirstItems<T> {
    /// Counts an item, and keeps it if it is among the first.
    pub(crate) fn push(&mut self, item: T) {
        self.count += 1;
        if self.first.len() < MAX_KEPT_ITEMS {
            self.first.push(item);
        }
    }

    /// Returns the kept items, each with a text to append to its message. The text for the last kept item states how
    /// many items are not kept, if any; all other texts are empty.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&T, String)> {
        let last = self.first.len();
        self.first.iter().zip(1..).map(move |(item, n)| match self.more() {
            more if more > 0 && n == last => (item, format!("; and {} more", count(more, "such place"))),
            _ => (item, String::new()),
        })
    }

    /// Returns the number of items that are not kept.
    pub(crate) fn more(&self) -> u64 {
        self.count - self.first.len() as u64
    }

    /// Appends the items of `later`, as far as there is room, and adds the count of `later` to the count.
    pub(crate) fn append(&mut self, later: FirstItems<T>) {
        self.count += later.count;
        self.first.extend(later.first);
        self.first.truncate(MAX_KEPT_ITEMS);
    }
}
