//! Counts of the lines that views leave out: lines of kinds that this version does not know, by kind, and thread
//! states.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_format::line::OtherKind;

use crate::ui::messages::{Grouped, count};

/// The counts of lines that views leave out.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct OtherKinds {
    /// The numbers of lines of kinds that this version does not know, by the character of the kind.
    unknown: BTreeMap<char, u64>,
    /// The number of lines with a state of a thread.
    #[serde(skip)]
    states: u64,
    /// The number of thread states that the kernel has lost.
    #[serde(skip)]
    lost_states: u64,
}

impl OtherKinds {
    /// Counts a line of an unknown kind.
    #[cold]
    pub(crate) fn see(&mut self, kind: OtherKind) {
        *self.unknown.entry(char::from(kind.byte())).or_default() += 1;
    }

    /// Counts a line with a state of a thread.
    #[cold]
    pub(crate) fn see_state(&mut self) {
        self.states += 1;
    }

    /// Returns the number of lines with a state of a thread.
    #[must_use]
    pub(crate) fn states(&self) -> u64 {
        self.states
    }

    /// Adds `lost` to the number of thread states that the kernel reports lost.
    #[cold]
    pub(crate) fn see_lost_states(&mut self, lost: u32) {
        self.lost_states = self.lost_states.saturating_add(lost.into());
    }

    /// Returns the number of thread states that the kernel has lost.
    #[must_use]
    pub(crate) fn lost_states(&self) -> u64 {
        self.lost_states
    }

    /// Adds the counts in `others` to these.
    pub(crate) fn add(&mut self, others: &OtherKinds) {
        self.states += others.states;
        self.lost_states = self.lost_states.saturating_add(others.lost_states);
        for (kind, lines) in &others.unknown {
            *self.unknown.entry(*kind).or_default() += lines;
        }
    }

    /// Returns whether no line of an unknown kind was counted.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Returns the number of all lines of unknown kinds.
    #[must_use]
    pub(crate) fn lines(&self) -> u64 {
        self.unknown.values().sum()
    }

    /// Returns a text for the user with the number of lines of unknown kinds, and these kinds; `None` if there are no
    /// such lines.
    #[must_use]
    pub(crate) fn as_reported(&self) -> Option<String> {
        let named: Vec<String> =
            self.unknown.iter().map(|(kind, n)| format!("'{kind}': {}", Grouped(*n))).collect();
        let lines = count(self.lines(), "line");
        (!self.is_empty())
            .then(|| format!("{lines} of kinds that this version does not know ({})", named.join(", ")))
    }

    /// Returns the sentences with which an output says that it leaves out lines of unknown kinds or states of threads,
    /// if there are any.
    pub(crate) fn omissions(&self) -> impl Iterator<Item = String> + use<> {
        let states = (self.states > 0).then(|| count(self.states, "thread state"));
        self.as_reported().into_iter().chain(states).map(|as_reported| format!("left out: {as_reported}"))
    }
}
