//! Lines of kinds that only later versions know: how many there are of which.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_format::line::OtherKind;

use crate::ui::messages::{Grouped, count};

/// The numbers of lines, by the characters of their kinds.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct OtherKinds(BTreeMap<char, u64>);

impl OtherKinds {
    /// Counts a line.
    #[cold]
    pub fn see(&mut self, kind: OtherKind) {
        *self.0.entry(char::from(kind.byte())).or_default() += 1;
    }

    /// Adds other numbers to these.
    pub fn add(&mut self, others: &OtherKinds) {
        for (kind, lines) in &others.0 {
            *self.0.entry(*kind).or_default() += lines;
        }
    }

    /// Returns whether there are no such lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of the lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns how many lines are of such kinds, and which kinds these are; `None` where there are none.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        let named: Vec<String> =
            self.0.iter().map(|(kind, n)| format!("'{kind}': {}", Grouped(*n))).collect();
        let lines = count(self.lines(), "line");
        (!self.is_empty())
            .then(|| format!("{lines} of kinds that this version does not know ({})", named.join(", ")))
    }

    /// Returns a sentence for an output that leaves these lines out, if there are any.
    #[must_use]
    pub fn untold(&self) -> Option<String> {
        self.told().map(|told| format!("left out: {told}"))
    }
}
