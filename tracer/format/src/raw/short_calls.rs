//! Calls that are left out because they are short: which enterings wait for what becomes of their calls.

use crate::line::Ticks;
use crate::record::{Flags, Record};

/// What is known of calls where short ones are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortCalls {
    /// The least ticks of a call that is shown; 0: all are.
    pub(super) least: u64,
    /// The enterings whose lines are not written yet, for nothing tells so far that their calls are long: word 0 and the
    /// ticks of each.
    held: Vec<(u64, Ticks)>,
    /// The entering and the leaving of the call that was left out last...
    left_out: [(u64, Ticks); 2],
    /// ...and whether no record is behind it.
    has_left_out: bool,
}

impl ShortCalls {
    /// Takes an entering, whose line is held back.
    #[inline(always)]
    pub(super) fn enter(&mut self, record: &Record<'_>) {
        self.held.push((record.word(), record.ticks));
        self.has_left_out = false;
    }

    /// Takes a leaving; returns whether the call is left out.
    #[inline(always)]
    pub(super) fn leave(&mut self, left: &Record<'_>) -> bool {
        let Some(&entered) = self.held.last() else { return false };
        let is_it = Record::call(entered.0, entered.1)
            .is_some_and(|entered| entered.address() == left.address())
            || left.address() == 0 && left.flags().has(Flags::HOOK);
        let is_short = left.ticks.0 - entered.1.0 < self.least;
        let is_left_out = is_it && is_short;
        if is_left_out {
            self.held.pop();
            self.left_out = [entered, (left.word(), left.ticks)];
            self.has_left_out = true;
        }
        is_left_out
    }

    /// Calls `take` with the enterings that are held, which are not any longer then; at the end of a range also with the
    /// records of the call that was left out last, if no other record is behind it.
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
