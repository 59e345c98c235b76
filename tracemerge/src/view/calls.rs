//! The open calls of a thread, derived from its enter and leave records.
//!
//! A leave record belongs to the innermost open call of the same place: both records have the address of the
//! entered function, or the site. Hooks of some compilers do not name the function in the leave record, which
//! then belongs to the innermost open call. The name of a function may have become known between the two
//! records. The calls further in have no leave record of their own: the record was lost, or a `longjmp` or an
//! unwinding that runs no code has ended them. They end with the enclosing call. A leave record without an
//! open call is ignored: its enter record was lost, or is before the examined part. So the depth never
//! drifts.
//!
//! If nested calls are shown, those beyond a [`Depth`] are folded: [`OpenCalls::pop_shown`] returns them as
//! one call with their number, for every view and format.
//!
//! Calls without a leave record end with their thread, or when tracing is switched off ([`cut`]). If their
//! thread still runs or was killed, they are counted until the last sign of life of their process
//! ([`Threads::last`](crate::view::threads::Threads::last)).

use trace_format::line::Ticks;
use trace_format::meta::{EndReason, Meta};

use crate::file::fast_map::FastMap;
use crate::ui::messages::Grouped;
use crate::view::by_number::ByNumber;
use crate::view::function_names::FunctionId;
use crate::view::work_time::WorkTime;

/// The number of nested calls that are shown. Calls further in are folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The default: as many as people can read, and as viewers can lay out.
    #[default]
    Usual,
    /// At most this many, as the user has asked, for an overview.
    AtMost(usize),
    /// All: no call is folded.
    All,
}

/// The default number of nested calls that are shown.
const USUAL: usize = 64;

impl Depth {
    /// Returns the number of nested calls that are shown.
    #[must_use]
    pub fn most(self) -> usize {
        match self {
            Depth::Usual => USUAL,
            Depth::AtMost(most) => most,
            Depth::All => usize::MAX,
        }
    }
}

/// Calls that are folded into one: all calls nested too deeply.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// The number of calls of each function.
    calls: FastMap<FunctionId, u64>,
    /// The number of these calls that have no leave record.
    pub unseen: u64,
}

impl Folded {
    /// Adds calls of a function.
    pub fn add(&mut self, function: FunctionId, calls: u64) {
        *self.calls.entry(function).or_default() += calls;
    }

    /// Adds the calls of another thread.
    pub fn add_all(&mut self, other: &Folded) {
        other.calls.iter().for_each(|(function, calls)| self.add(*function, *calls));
    }

    /// Returns the total number of calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Returns the text that is shown in place of the calls: `… 261,791 more calls of f`, or, if several
    /// functions were called, `… 261,791 more calls (261,700 of f)`, which names the function that was called
    /// most.
    #[must_use]
    pub fn text<'n>(&self, name: impl Fn(FunctionId) -> &'n str) -> String {
        let all = self.calls();
        let head = format!("{MORE} {} more {}", Grouped(all), if all == 1 { "call" } else { "calls" });
        let named = self.calls.iter().map(|(function, calls)| (*calls, name(*function)));
        // Among functions with equally many calls, takes the first by name: the order in which they were met
        // may differ.
        let most = named.max_by(|one, other| one.0.cmp(&other.0).then_with(|| other.1.cmp(one.1)));
        match most {
            Some((calls, name)) if calls == all => format!("{head} of {name}"),
            Some((calls, name)) => format!("{head} ({} of {name})", Grouped(calls)),
            None => head,
        }
    }
}

/// The note of a view of calls that found none.
pub const NO_CALLS: &str = "there are no calls of functions in the shown records; tracer::scope!, #[tracer::traced] and \
     programs that cargo tracer builds record them (docs/functions.md)";

/// The first character of a text that stands for folded calls.
pub const MORE: char = '\u{2026}';

/// An open call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The place that is common to both records of the call.
    place: CallPlace,
    /// The function.
    pub function: FunctionId,
    /// The id of the span, if the call is part of a span.
    pub span: Option<u64>,
    /// The time of the enter record, in nanoseconds.
    pub entered: u64,
    /// The time that calls inside this call have taken so far, in nanoseconds.
    pub inner: u64,
}

impl OpenCall {
    /// Returns the total time of the call, and its time without the calls inside it, both in nanoseconds and
    /// without the waits of its thread, if it ends at `now`.
    #[inline]
    #[must_use]
    pub fn taken(&self, now: u64, work: &WorkTime) -> (u64, u64) {
        let total = work.between(self.entered, now);
        (total, total.saturating_sub(self.inner))
    }
}

/// The place that is common to the enter and the leave record of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallPlace {
    /// An address in the function.
    Address(u64),
    /// The innermost open call, for a leave record that names no function.
    Last,
    /// A site, which is identified by the function that it names.
    Site(FunctionId),
}

/// The way in which a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The call has a leave record.
    Left,
    /// The call has no leave record, and an enclosing call has ended.
    Unseen,
}

/// An ended call that is shown.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The call; of several folded calls, the outermost one.
    pub call: OpenCall,
    /// The way in which it has ended.
    pub ending: Ending,
    /// The calls that are folded into one: this call and those inside it.
    pub folded: Option<Folded>,
}

/// The open calls of a thread, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct OpenCalls {
    calls: Vec<OpenCall>,
    /// The number of open calls of each function.
    of_function: ByNumber<u32>,
    /// The number of leave records that belong to no open call.
    pub unmatched: u64,
    /// The number of open calls of each place and span. Created when a search through many calls finds none
    /// for a leave record.
    by_place: Option<FastMap<(CallPlace, Option<u64>), u32>>,
    /// The calls that have ended inside an open folded call.
    folded: Folded,
}

/// The maximum number of open calls that are searched for a leave record without a count of each place.
const MAX_SEARCHED_CALLS: usize = 64;

impl OpenCalls {
    /// Adds the enter record of a call.
    #[inline]
    pub fn enter(&mut self, place: CallPlace, function: FunctionId, span: Option<u64>, now: u64) {
        self.calls.push(OpenCall { place, function, span, entered: now, inner: 0 });
        self.note_open(function);
        if let Some(by_place) = &mut self.by_place {
            count_place(by_place, place, span, 1);
        }
    }

    #[inline]
    fn note_open(&mut self, function: FunctionId) {
        *self.of_function.get_mut(function) += 1;
    }

    /// Finds the open call of a leave record. Returns the number of calls that remain open; the caller must
    /// [remove](OpenCalls::pop) the others, the innermost first. Returns `None` if the record ends no open
    /// call. Sets the function of the call to `function`, which is its function as now known.
    #[inline]
    pub fn leave(&mut self, place: CallPlace, function: FunctionId, span: Option<u64>) -> Option<usize> {
        let is_it = |call: &OpenCall| (call.place == place || place == CallPlace::Last) && call.span == span;
        let is_known = |by_place: &FastMap<_, u32>| by_place.contains_key(&(place, span));
        let found = if self.by_place.as_ref().is_none_or(is_known) {
            self.calls.iter().rposition(is_it)
        } else {
            None
        };
        if found.is_none() {
            self.not_found();
        }
        let named = found.filter(|_| place != CallPlace::Last);
        if let Some(call) = named.and_then(|at| self.calls.get_mut(at)) {
            let known = std::mem::replace(&mut call.function, function);
            if known != function {
                *self.of_function.get_mut(known) -= 1;
                self.note_open(function);
            }
        }
        found
    }

    /// Counts a leave record that belongs to no open call. However many such records there are, each open
    /// call is searched only once for them.
    #[cold]
    fn not_found(&mut self) {
        self.unmatched += 1;
        if self.by_place.is_none() && self.calls.len() > MAX_SEARCHED_CALLS {
            let mut by_place = FastMap::default();
            self.calls.iter().for_each(|call| count_place(&mut by_place, call.place, call.span, 1));
            self.by_place = Some(by_place);
        }
    }

    /// Removes and returns the innermost open call, which ends at `now`; returns `None` if at most `left`
    /// calls are open. The last removed call is the one that has a leave record. `work` has the waits that the
    /// call's time leaves out.
    #[inline]
    pub fn pop(&mut self, left: usize, now: u64, work: &WorkTime) -> Option<(OpenCall, Ending)> {
        let call = (self.calls.len() > left).then(|| self.calls.pop()).flatten()?;
        *self.of_function.get_mut(call.function) -= 1;
        if let Some(by_place) = &mut self.by_place {
            count_place(by_place, call.place, call.span, -1);
        }
        if let Some(outer) = self.calls.last_mut() {
            outer.inner = outer.inner.saturating_add(call.taken(now, work).0);
        }
        Some((call, if self.calls.len() == left { Ending::Left } else { Ending::Unseen }))
    }

    /// Works like [`OpenCalls::pop`], but returns only calls that are shown if `most` nested calls are shown.
    /// Returns all calls further in as one call, when the outermost of them ends. Counts only those that have
    /// taken at least `min` nanoseconds, and returns none of them if no call has.
    pub fn pop_shown(
        &mut self,
        left: usize,
        (now, work): (u64, &WorkTime),
        most: usize,
        min: u64,
    ) -> Option<Ended> {
        loop {
            let (call, ending) = self.pop(left, now, work)?;
            let depth = self.calls.len();
            if depth < most {
                return Some(Ended { call, ending, folded: None });
            }
            if call.taken(now, work).0 >= min {
                self.folded.add(call.function, 1);
                self.folded.unseen += u64::from(ending == Ending::Unseen);
            }
            if depth == most && self.folded.calls() > 0 {
                let folded = Some(std::mem::take(&mut self.folded));
                return Some(Ended { call, ending, folded });
            }
        }
    }

    /// Returns whether a call of this function is open now.
    #[inline]
    #[must_use]
    pub fn has_open(&self, function: FunctionId) -> bool {
        self.of_function.get(function) > 0
    }

    /// Returns the function that has the most open calls, and the number of these calls.
    #[must_use]
    pub fn most_open(&self) -> Option<(FunctionId, u32)> {
        let open = self.of_function.each().filter(|(_, calls)| *calls > 0);
        open.max_by_key(|(function, calls)| (*calls, *function))
    }

    /// Returns the open calls, the outermost first.
    #[must_use]
    pub fn open(&self) -> &[OpenCall] {
        &self.calls
    }
}

/// Changes the number of open calls of a place by `by`. Each call also counts for [`CallPlace::Last`].
fn count_place(
    by_place: &mut FastMap<(CallPlace, Option<u64>), u32>,
    place: CallPlace,
    span: Option<u64>,
    by: i32,
) {
    for key in [(place, span), (CallPlace::Last, span)] {
        let number = by_place.entry(key).or_default();
        *number = number.saturating_add_signed(by);
        if *number == 0 {
            by_place.remove(&key);
        }
    }
}

/// The reason for which all open calls of a thread end without leave records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The thread has ended.
    ThreadEnded,
    /// Tracing was switched off, so nothing records the ends of the calls.
    SwitchedOff,
}

/// Returns the reason for which a `#` line of a thread, with these `ticks`, ends its open calls, and the time
/// at which they end; `None` if they go on. A thread may record long afterwards that tracing was switched
/// off.
#[must_use]
pub fn cut(meta: &Meta, ticks: Ticks) -> Option<(Cut, Ticks)> {
    match meta {
        Meta::End(end) if end.reason == EndReason::Thread => Some((Cut::ThreadEnded, ticks)),
        Meta::Switched { on: false, ticks } => Some((Cut::SwitchedOff, *ticks)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO_WAITS: WorkTime = WorkTime::WITHOUT_WAITS;

    fn enter(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>, now: u64) {
        calls.enter(CallPlace::Site(function), function, span, now);
    }

    fn leave(calls: &mut OpenCalls, function: FunctionId, span: Option<u64>) -> Option<usize> {
        calls.leave(CallPlace::Site(function), function, span)
    }

    #[test]
    fn a_call_that_is_named_while_open_ends_under_that_name() {
        let mut calls = OpenCalls::default();
        calls.enter(CallPlace::Address(0x1f), 1, None, 10);
        assert_eq!(calls.leave(CallPlace::Address(0x2f), 1, None), None);
        assert_eq!(calls.leave(CallPlace::Address(0x1f), 2, None), Some(0));
        assert_eq!([1, 2, 3].map(|function| calls.has_open(function)), [false, true, false]);
        assert_eq!(
            calls.pop(0, 20, &NO_WAITS).map(|(call, how)| (call.function, how)),
            Some((2, Ending::Left))
        );
        assert!(!calls.has_open(2));
    }

    #[test]
    fn calls_without_a_leave_record_end_with_their_caller() {
        let mut calls = OpenCalls::default();
        enter(&mut calls, 1, None, 10);
        enter(&mut calls, 2, None, 20);
        enter(&mut calls, 3, None, 30);
        assert_eq!(leave(&mut calls, 9, None), None, "nobody has entered it");
        let left = leave(&mut calls, 1, None).expect("it is open");
        let mut told = Vec::new();
        while let Some((call, how)) = calls.pop(left, 50, &NO_WAITS) {
            told.push((calls.open().len(), call.function, call.taken(50, &NO_WAITS), how));
        }
        use Ending::{Left, Unseen};
        assert_eq!(told, [(2, 3, (20, 20), Unseen), (1, 2, (30, 10), Unseen), (0, 1, (40, 10), Left)]);
        assert_eq!((calls.open().len(), calls.unmatched), (0, 1));
    }

    #[test]
    fn calls_nested_too_deeply_are_folded_and_keep_their_times() {
        let mut calls = OpenCalls::default();
        for function in 0..5 {
            enter(&mut calls, function % 2, None, u64::from(function) * 10);
        }
        let left = leave(&mut calls, 1, None).expect("it is open");
        assert!(
            calls.pop_shown(left, (50, &NO_WAITS), 2, 0).is_none(),
            "what is left is inside of what is folded"
        );
        let left = leave(&mut calls, 0, None).expect("it is open");
        let ended =
            calls.pop_shown(left, (60, &NO_WAITS), 2, 0).expect("the outermost of the folded ones is left");
        assert_eq!((ended.call.entered, ended.ending), (20, Ending::Left));
        let text = ended.folded.map(|folded| folded.text(|function| if function == 0 { "f" } else { "g" }));
        assert_eq!(text.as_deref(), Some("\u{2026} 3 more calls (2 of f)"));
        let left = leave(&mut calls, 0, None).expect("it is open");
        let ended: Vec<_> = std::iter::from_fn(|| calls.pop_shown(left, (100, &NO_WAITS), 2, 0)).collect();
        let told = ended.iter().map(|ended| (ended.call.taken(100, &NO_WAITS), ended.folded.is_some()));
        assert_eq!(told.collect::<Vec<_>>(), [((90, 50), false), ((100, 10), false)]);
    }

    #[test]
    fn unmatched_leave_records_are_handled_fast_at_any_depth() {
        let mut calls = OpenCalls::default();
        for now in 0..200_000 {
            enter(&mut calls, 1, None, now);
        }
        for _ in 0..200_000 {
            assert_eq!(leave(&mut calls, 2, None), None);
        }
        enter(&mut calls, 2, None, 200_000);
        assert_eq!(leave(&mut calls, 2, None), Some(200_000));
        assert_eq!(calls.unmatched, 200_000);
    }

    #[test]
    fn spans_of_one_function_are_distinguished() {
        let mut calls = OpenCalls::default();
        enter(&mut calls, 1, Some(7), 1);
        enter(&mut calls, 1, Some(8), 2);
        assert_eq!([leave(&mut calls, 1, Some(7)), leave(&mut calls, 1, Some(8))], [Some(0), Some(1)]);
    }

    #[test]
    fn a_leave_record_without_a_function_ends_the_innermost_call() {
        let mut calls = OpenCalls::default();
        calls.enter(CallPlace::Address(0x1f), 1, None, 10);
        calls.enter(CallPlace::Address(0x2f), 2, None, 20);
        assert_eq!(calls.leave(CallPlace::Last, 9, None), Some(1));
        assert_eq!(
            calls.pop(1, 30, &NO_WAITS).map(|(call, how)| (call.function, how)),
            Some((2, Ending::Left))
        );
        assert_eq!(calls.leave(CallPlace::Last, 9, None), Some(0));
        assert_eq!(
            calls.pop(0, 40, &NO_WAITS).map(|(call, how)| (call.function, how)),
            Some((1, Ending::Left))
        );
        assert_eq!((calls.leave(CallPlace::Last, 9, None), calls.unmatched), (None, 1));
    }

    proptest! {
        #[test]
        fn lost_records_do_not_end_the_outermost_call_early(
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
                    while left.is_some_and(|left| calls.pop(left, now, &NO_WAITS).is_some()) {}
                }
                prop_assert!(!calls.open().is_empty(), "the outermost call is left by its own leaving only");
            }
            prop_assert_eq!(leave(&mut calls, 99, None), Some(0));
        }
    }
}
