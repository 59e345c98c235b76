//! The calls that are left out because they are short, and the entries that wait until the duration of their calls is
//! known.

use crate::line::Ticks;
use crate::record::{Flags, Record};

/// The state of a decoder that leaves out short calls.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortCalls {
    /// The least duration of a shown call, in ticks; 0 if all calls are shown.
    pub(super) least: u64,
    /// The entries whose lines are not written yet, because their calls may still be short: word 0 and the
    /// ticks of each.
    held: Vec<(u64, Ticks)>,
    /// The entry and the exit of the call that was left out last: word 0 and the ticks of each.
    left_out: [(u64, Ticks); 2],
    /// Whether `left_out` contains a call, and no record has followed it.
    has_left_out: bool,
}

impl ShortCalls {
    /// Holds back the record of an entry: its call may be short.
    #[inline(always)]
    pub(super) fn enter(&mut self, record: &Record<'_>) {
        self.held.push((record.word(), record.ticks));
        self.has_left_out = false;
    }

    /// Returns whether `left` is the exit of a short call, which is left out: then the record of its entry is no longer
    /// held back.
    #[inline(always)]
    pub(super) fn leave(&mut self, left: &Record<'_>) -> bool {
        let Some(&entered) = self.held.last() else { return false };
        let is_it = Record::call(entered.0, entered.1).is_some_and(|entered| {
            let are_hooks = [&entered, left].map(|record| record.flags().has(Flags::HOOK));
            are_hooks[0] == are_hooks[1]
                && (entered.address() == left.address() || are_hooks[0] && left.address() == 0)
        });
        let is_short = left.ticks.0 - entered.1.0 < self.least;
        let is_left_out = is_it && is_short;
        if is_left_out {
            self.held.pop();
            self.left_out = [entered, (left.word(), left.ticks)];
            self.has_left_out = true;
        }
        is_left_out
    }

    /// Passes the entries that are held back to `take`, and forgets them. At the end of a range (`is_end`), also passes
    /// the entry and the exit of the call that was left out last, if no record has followed that call: the last record
    /// of a range is never left out.
    #[inline]
    pub(super) fn give_back(&mut self, is_end: bool, mut take: impl FnMut(&Record<'_>)) {
        if self.held.is_empty() && !self.has_left_out {
            return;
        }
        let last = if is_end && self.has_left_out { &self.left_out[..] } else { &[] };
        for record in self.held.iter().chain(last).filter_map(|&(word, ticks)| Record::call(word, ticks)) {
            take(&record);
        }
        self.held.clear();
        self.has_left_out = false;
    }
}
