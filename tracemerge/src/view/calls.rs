//! The calls of a thread that are open, by the records of their entering and leaving.
//!
//! A leaving belongs to the innermost open call of the same place: both records have the address of the entering,
//! or the site. Hooks of some compilers do not tell what is left: it is the innermost open call. The name of that may have become known only in between. Calls that are further in have no
//! leaving of their own: the record was lost, or a `longjmp` or an unwinding that runs no code has left them.
//! They end with the call around them. A leaving without an open call is left aside: its entering was lost, or
//! was before the part that is looked at. So the depth never drifts.
//!
//! Calls that are never left end with their thread, or when tracing is switched off ([`cut`]); those of a thread that
//! still runs, or was killed, are counted until the last record of their process ([`LastRecords`]).

use trace_format::line::Ticks;
use trace_format::meta::{EndReason, Meta};

use crate::view::function_names::FunctionId;

/// An open call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The place that both records have.
    place: CallPlace,
    /// The function.
    pub function: FunctionId,
    /// The id of the span that the call is a part of, if it is one.
    pub span: Option<u64>,
    /// The time of the entering, in nanoseconds.
    pub entered: u64,
    /// The time that calls inside of this one have taken so far, in nanoseconds.
    pub inner: u64,
}

impl OpenCall {
    /// Returns how long the call has taken, and how long without the calls inside of it, in nanoseconds, if it
    /// ends now.
    #[must_use]
    pub fn taken(&self, now: u64) -> (u64, u64) {
        let total = now.saturating_sub(self.entered);
        (total, total.saturating_sub(self.inner))
    }
}

/// The place that the records of a call's entering and leaving have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// An address in the function.
    Address(u64),
    /// What was entered last, by the record of its leaving.
    Last,
    /// A site, which is told by the function that it names.
    Site(FunctionId),
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was left.
    Left,
    /// No record tells that it was left, and a call around it was left.
    Unseen,
}

/// The open calls of a thread, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct OpenCalls {
    calls: Vec<OpenCall>,
    /// The number of open calls of each function.
    of_function: Vec<u32>,
    /// The number of leavings that no open call belongs to.
    pub unmatched: u64,
}

impl OpenCalls {
    /// Takes the entering of a function.
    #[inline]
    pub fn enter(&mut self, place: CallPlace, function: FunctionId, span: Option<u64>, now: u64) {
        self.calls.push(OpenCall { place, function, span, entered: now, inner: 0 });
        self.note_open(function);
    }

    #[inline]
    fn note_open(&mut self, function: FunctionId) {
        let function = function as usize;
        if function >= self.of_function.len() {
            self.of_function.resize(function + 1, 0);
        }
        self.of_function[function] += 1;
    }

    /// Takes the leaving of a function; returns the number of the calls that are open behind it. Those beyond that
    /// are to be [taken](OpenCalls::pop), the innermost first. `None`: no open call is left by this. The call's
    /// function is the one that is known now.
    #[inline]
    pub fn leave(&mut self, place: CallPlace, function: FunctionId, span: Option<u64>) -> Option<usize> {
        let is_it = |call: &OpenCall| (call.place == place || place == CallPlace::Last) && call.span == span;
        let found = self.calls.iter().rposition(is_it);
        self.unmatched += u64::from(found.is_none());
        let named = found.filter(|_| place != CallPlace::Last);
        if let Some(call) = named.and_then(|at| self.calls.get_mut(at)) {
            let known = std::mem::replace(&mut call.function, function);
            if known != function {
                self.of_function[known as usize] -= 1;
                self.note_open(function);
            }
        }
        found
    }

    /// Takes the innermost open call, which ends now; `None` where no more than `left` are open. The one that
    /// is taken last has been left.
    #[inline]
    pub fn pop(&mut self, left: usize, now: u64) -> Option<(OpenCall, Ending)> {
        let call = (self.calls.len() > left).then(|| self.calls.pop()).flatten()?;
        self.of_function[call.function as usize] -= 1;
        if let Some(outer) = self.calls.last_mut() {
            outer.inner = outer.inner.saturating_add(call.taken(now).0);
        }
        Some((call, if self.calls.len() == left { Ending::Left } else { Ending::Unseen }))
    }

    /// Returns whether a call of this function is open now.
    #[inline]
    #[must_use]
    pub fn has_open(&self, function: FunctionId) -> bool {
        self.of_function.get(function as usize).is_some_and(|open| *open > 0)
    }

    /// Returns the function that has the most open calls now, and how many these are.
    #[must_use]
    pub fn most_open(&self) -> Option<(FunctionId, u32)> {
        (0..)
            .zip(self.of_function.iter().copied())
            .max_by_key(|(_, calls)| *calls)
            .filter(|(_, calls)| *calls > 0)
    }

    /// Returns the calls that are open now, the outermost first.
    #[must_use]
    pub fn open(&self) -> &[OpenCall] {
        &self.calls
    }
}

/// What ends all open calls of a thread although no record tells that they are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The thread has ended.
    ThreadEnded,
    /// Tracing was switched off: nobody sees when they are left.
    SwitchedOff,
}

/// Returns what ends the open calls of a thread by one of its `#` lines, which has these `ticks`, and when they end;
/// `None` where they go on. A thread may tell long after it that tracing was switched off.
#[must_use]
pub fn cut(meta: &Meta, ticks: Ticks) -> Option<(Cut, Ticks)> {
    match meta {
        Meta::End(end) if end.reason == EndReason::Thread => Some((Cut::ThreadEnded, ticks)),
        Meta::Switched { on: false, ticks } => Some((Cut::SwitchedOff, *ticks)),
        _ => None,
    }
}

/// The ticks of the last record of each process, by its number: the calls that are open behind all records are counted
/// until then, for nothing is known of a process behind its last record.
#[derive(Clone, Debug, Default)]
pub struct LastRecords(Vec<Ticks>);

impl LastRecords {
    /// Takes a record of a process.
    pub fn see(&mut self, process: usize, ticks: Ticks) {
        match self.0.get_mut(process) {
            Some(last) => *last = (*last).max(ticks),
            None => {
                self.0.resize(process, Ticks(0));
                self.0.push(ticks);
            }
        }
    }

    /// Takes the last records that were seen elsewhere.
    pub fn add(&mut self, others: &LastRecords) {
        (0..).zip(&others.0).for_each(|(process, ticks)| self.see(process, *ticks));
    }

    /// Returns the ticks of the last record of a process; 0 where there was none.
    #[must_use]
    pub fn of(&self, process: usize) -> Ticks {
        self.0.get(process).copied().unwrap_or(Ticks(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn enter(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>, now: u64) {
        calls.enter(CallPlace::Site(function), function, span, now);
    }

    fn leave(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>) -> Option<usize> {
        calls.leave(CallPlace::Site(function), function, span)
    }

    #[test]
    fn a_call_whose_name_becomes_known_while_it_is_open_is_left_by_that_name() {
        let mut calls = OpenCalls::default();
        calls.enter(CallPlace::Address(0x1f), 1, None, 10);
        assert_eq!(calls.leave(CallPlace::Address(0x2f), 1, None), None);
        assert_eq!(calls.leave(CallPlace::Address(0x1f), 2, None), Some(0));
        assert_eq!([1, 2, 3].map(|function| calls.has_open(function)), [false, true, false]);
        assert_eq!(calls.pop(0, 20).map(|(call, how)| (call.function, how)), Some((2, Ending::Left)));
        assert!(!calls.has_open(2));
    }

    #[test]
    fn calls_without_a_leaving_end_with_the_call_around_them() {
        let mut calls = OpenCalls::default();
        enter(&mut calls, 1, None, 10);
        enter(&mut calls, 2, None, 20);
        enter(&mut calls, 3, None, 30);
        assert_eq!(leave(&mut calls, 9, None), None, "nobody has entered it");
        let left = leave(&mut calls, 1, None).expect("it is open");
        let mut told = Vec::new();
        while let Some((call, how)) = calls.pop(left, 50) {
            told.push((calls.open().len(), call.function, call.taken(50), how));
        }
        use Ending::{Left, Unseen};
        assert_eq!(told, [(2, 3, (20, 20), Unseen), (1, 2, (30, 10), Unseen), (0, 1, (40, 10), Left)]);
        assert_eq!((calls.open().len(), calls.unmatched), (0, 1));
    }

    #[test]
    fn the_last_record_of_a_process_is_that_of_the_highest_ticks() {
        let mut last = LastRecords::default();
        for (process, ticks) in [(2, 5), (0, 7), (2, 9), (2, 8)] {
            last.see(process, Ticks(ticks));
        }
        assert_eq!([0, 1, 2, 3].map(|process| last.of(process).0), [7, 0, 9, 0]);
    }

    #[test]
    fn spans_of_one_function_are_told_apart() {
        let mut calls = OpenCalls::default();
        enter(&mut calls, 1, Some(7), 1);
        enter(&mut calls, 1, Some(8), 2);
        assert_eq!([leave(&mut calls, 1, Some(7)), leave(&mut calls, 1, Some(8))], [Some(0), Some(1)]);
    }

    #[test]
    fn a_leaving_that_does_not_say_of_what_is_that_of_the_innermost_call() {
        let mut calls = OpenCalls::default();
        calls.enter(CallPlace::Address(0x1f), 1, None, 10);
        calls.enter(CallPlace::Address(0x2f), 2, None, 20);
        assert_eq!(calls.leave(CallPlace::Last, 9, None), Some(1));
        assert_eq!(calls.pop(1, 30).map(|(call, how)| (call.function, how)), Some((2, Ending::Left)));
        assert_eq!(calls.leave(CallPlace::Last, 9, None), Some(0));
        assert_eq!(calls.pop(0, 40).map(|(call, how)| (call.function, how)), Some((1, Ending::Left)));
        assert_eq!((calls.leave(CallPlace::Last, 9, None), calls.unmatched), (None, 1));
    }

    proptest! {
        #[test]
        fn whatever_was_lost_the_depth_is_that_of_the_program_where_its_outermost_call_is_left(
            steps in prop::collection::vec((0u32..4, any::<bool>(), 0u8..8), 0..200)
        ) {
            let (mut calls, mut truth, mut now) = (OpenCalls::default(), Vec::new(), 0);
            enter(&mut calls, 99, None, 0);
            for (function, enters, lost) in steps {
                now += 1;
                if enters {
                    truth.push(function);
                    if lost > 0 {
                        enter(&mut calls, function, None, now);
                    }
                } else if let Some(function) = truth.pop() {
                    let left = if lost > 0 { leave(&mut calls, function, None) } else { None };
                    while left.is_some_and(|left| calls.pop(left, now).is_some()) {}
                }
                prop_assert!(!calls.open().is_empty(), "the outermost call is left by its own leaving only");
            }
            prop_assert_eq!(leave(&mut calls, 99, None), Some(0));
        }
    }
}
