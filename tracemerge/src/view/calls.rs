//! The open calls of a thread, derived from its enter and leave records.
//!
//! A leave record belongs to the innermost open call of the same place: both records have the address of the entered
//! function, or the site. Hooks of some compilers do not name the function in the leave record, which then belongs to
//! the innermost open call of a hook. The name of a function may have become known between the two records. A leave
//! record without an open call is ignored: its enter record was lost, or is before the examined part of the trace. So
//! the computed depth stays right.
//!
//! If a call is left while calls inside it are still open, there are two explanations:
//! * The inner calls have no leave record of their own, because it was lost, or because a `longjmp` or an unwinding
//!   that runs no code has ended them. Then they end with the enclosing call.
//! * The inner calls *outlive* the enclosing call, because its guard is dropped before they end. Then they are moved
//!   below the enclosing call in the stack, overlap with it, and have their leave records later.
//!
//! [`OpenCalls::outlives`] decides which explanation holds for a call.
//!
//! If nested calls are shown, those beyond a [`Depth`] are folded: [`OpenCalls::pop_shown`] returns them as one call,
//! with the count of the folded calls, for every view and format.
//!
//! Calls without a leave record end with their thread, or when tracing is switched off ([`cut`]). If their thread still
//! runs or was killed, they are counted until the last sign of life of their process
//! ([`Threads::last`](crate::view::threads::Threads::last)).

use trace_format::line::Ticks;
use trace_format::meta::{EndReason, Meta};

use crate::file::fast_map::FastMap;
use crate::ui::messages::Grouped;
use crate::view::by_number::ByNumber;
use crate::view::function_names::FunctionId;
use crate::view::work_time::WorkTime;

/// The maximum depth to which nested calls are shown one by one. Deeper calls are folded into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The default depth: as many nested calls as people can read, and as viewers can lay out.
    #[default]
    Usual,
    /// At most this many nested calls, as the user has asked.
    AtMost(usize),
    /// All nested calls: none is folded.
    All,
}

/// The default maximum count of nested calls that are shown.
const USUAL: usize = 64;

impl Depth {
    /// Returns the maximum count of nested calls that are shown.
    #[must_use]
    pub(crate) fn most(self) -> usize {
        match self {
            Depth::Usual => USUAL,
            Depth::AtMost(most) => most,
            Depth::All => usize::MAX,
        }
    }
}

/// Calls that are shown as one call, because they are nested too deeply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folded {
    /// The count of folded calls of each function.
    calls: FastMap<FunctionId, u64>,
    /// The count of folded calls that have no leave record.
    pub unseen: u64,
}

impl Folded {
    /// Adds `calls` to the count of folded calls of a function.
    pub(crate) fn add(&mut self, function: FunctionId, calls: u64) {
        *self.calls.entry(function).or_default() += calls;
    }

    /// Adds the folded calls of `other`.
    pub(crate) fn add_all(&mut self, other: &Folded) {
        other.calls.iter().for_each(|(function, calls)| self.add(*function, *calls));
    }

    /// Returns the count of all folded calls.
    #[must_use]
    pub(crate) fn calls(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Returns the text that is shown in place of the calls: `… 261,791 more calls of f`, or, if several functions were
    /// called, `… 261,791 more calls (261,700 of f)`, with the function that has the most calls.
    #[must_use]
    pub(crate) fn text<'n>(&self, name: impl Fn(FunctionId) -> &'n str) -> String {
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

/// The note that a view of calls prints if it has found no calls.
pub(crate) const NO_CALLS: &str = "there are no calls of functions in the shown records; tracer::scope!, #[tracer::traced] and \
     programs that cargo tracer builds record them (docs/functions.md)";

/// The first character of a text that stands for folded calls.
pub(crate) const MORE: char = '\u{2026}';

/// An open call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    /// The place that is common to the enter and the leave record of the call.
    place: CallPlace,
    /// The function that was called.
    pub function: FunctionId,
    /// The id of the span, if the call is part of a span.
    pub span: Option<u64>,
    /// The time of the enter record, in nanoseconds.
    pub entered: u64,
    /// The time that the calls inside this call have taken so far, in nanoseconds.
    pub inner: u64,
    /// The depth at which the call is shown: one more than the depth of the innermost call that was open when this
    /// call was entered; 0 if no call was open.
    pub depth: usize,
    /// Whether this call outlives another call: a call around it was left earlier.
    pub outlives: bool,
    /// The time up to which this call's duration was already added to `inner` of the call around it, in nanoseconds.
    counted_until: u64,
    /// The number of times that the thread had reported lost records before the call was entered.
    losses: u64,
}

impl OpenCall {
    /// Returns the time up to which this call's duration was already added to `inner` of the call around it, in
    /// nanoseconds.
    #[must_use]
    pub(crate) fn counted_until(&self) -> u64 {
        self.counted_until
    }

    /// Returns the duration of the call if it ends at `now`, and the part of the duration that is not spent in calls
    /// inside it. Both are in nanoseconds and leave out the waits of the thread.
    #[inline]
    #[must_use]
    pub(crate) fn taken(&self, now: u64, work: &WorkTime) -> (u64, u64) {
        let total = work.between(self.entered, now);
        (total, total.saturating_sub(self.inner))
    }
}

/// The place that is common to the enter and the leave record of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallPlace {
    /// An address inside a function that records its calls by a guard.
    Address(u64),
    /// An address inside a function that records its calls by a compiler's hook: the call is a frame of the stack.
    Frame(u64),
    /// The place of a leave record of a hook that names no function: it belongs to the innermost open call of a hook.
    Last,
    /// A site: the function that the site names, and the number of the site if it shares its line with an earlier site,
    /// otherwise 0.
    Site(FunctionId, u32),
}

impl CallPlace {
    fn is_frame(self) -> bool {
        matches!(self, CallPlace::Frame(_) | CallPlace::Last)
    }
}

/// The way in which a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The call has a leave record.
    Left,
    /// The call has no leave record, and ended because an enclosing call ended.
    Unseen,
}

/// An ended call that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The ended call; of several folded calls, the outermost one.
    pub call: OpenCall,
    /// The way in which the call has ended.
    pub ending: Ending,
    /// If the call stands for folded calls: the counts of these calls, including this call.
    pub folded: Option<Folded>,
}

/// The open calls of a thread, the outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCalls {
    calls: Vec<OpenCall>,
    /// The count of open calls of each function.
    of_function: ByNumber<u32>,
    /// The count of leave records that belong to no open call.
    pub unmatched: u64,
    /// The count of open calls of each place and span. Created when a search through many calls finds no call for a
    /// leave record.
    by_place: Option<FastMap<(CallPlace, Option<u64>), u32>>,
    /// The calls that have ended inside an open call and are shown as one call, because they are nested too deeply.
    folded: Folded,
    /// The limit that a view sets: if more calls than this are open, no call may outlive the call around it. `None`
    /// stands for [`MOST_OVERLAPPING`], and a greater limit counts as this number.
    overlap_up_to: Option<usize>,
    /// The number of times that the thread has reported lost records so far.
    losses: u64,
    /// How the last leave record has reordered the open calls: for each call, from the first outliving call inwards,
    /// its former index, counted from the call that was left. Empty if no call has outlived the call that was left.
    order: Vec<usize>,
    /// The count of calls that have outlived the call that was left last.
    outliving: usize,
    /// The index of the open call that is directly around the call removed last.
    around: Option<usize>,
}

/// The number of open calls up to which every leave record may search them. If a search through more calls fails, the
/// calls are also counted by place, and later searches look there first.
const MAX_SEARCHED_CALLS: usize = 64;

/// The number of open calls above which no call may outlive the call around it. The search for outliving calls examines
/// all calls inside the call that is left, which would take long.
const MOST_OVERLAPPING: usize = 1000;

impl OpenCalls {
    /// Limits overlapping calls: a call may outlive the call around it only if at most `most` calls are open. For views
    /// that fold deeper calls.
    pub(crate) fn overlap_up_to(&mut self, most: usize) {
        self.overlap_up_to = Some(most);
    }

    /// Returns the depth at which the next record is shown: one more than the depth of the innermost open call; 0 if
    /// no call is open.
    #[inline]
    #[must_use]
    pub(crate) fn depth(&self) -> usize {
        self.calls.last().map_or(0, |around| around.depth + 1)
    }

    /// Counts a loss of records of the thread: calls that are open now may have no leave record.
    pub(crate) fn note_loss(&mut self) {
        self.losses += 1;
    }

    /// Returns the calls that have outlived the call of the last leave record; `left` is the count that
    /// [`leave`](OpenCalls::leave) has returned for this record. Until the call of the record is removed, the outliving
    /// calls come directly before it.
    #[must_use]
    pub(crate) fn outliving(&self, left: usize) -> &[OpenCall] {
        let first = left.saturating_sub(self.outliving);
        self.calls.get(first..left).unwrap_or_default()
    }

    /// Reorders `values`, which has one element for each open call, in the way in which the last leave record has
    /// reordered the calls. `left` is the count that [`leave`](OpenCalls::leave) has returned for this record.
    pub(crate) fn reorder<T: Clone>(&self, left: usize, values: &mut [T]) {
        let Some(values) = values.get_mut(left.saturating_sub(self.outliving)..) else { return };
        let former = values.to_vec();
        for (value, from) in values.iter_mut().zip(&self.order) {
            former.get(*from).into_iter().for_each(|former| value.clone_from(former));
        }
    }

    /// Returns the index of the open call that is directly around the call removed last, if there is one.
    #[must_use]
    pub(crate) fn around(&self) -> Option<usize> {
        self.around
    }

    /// Returns how the last leave record has reordered the open calls: for each call, from the first outliving call
    /// inwards, its former index, counted from the call that was left.
    #[must_use]
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns pairs of indices: each outliving call that was directly inside a call which ends now, and this ending
    /// call.
    #[must_use]
    pub(crate) fn overlaps(&self, left: usize) -> Vec<(usize, usize)> {
        let first = left.saturating_sub(self.outliving);
        let mut now_at = vec![0; self.order.len()];
        for (at, former) in self.order.iter().enumerate() {
            now_at.get_mut(*former).into_iter().for_each(|of| *of = at);
        }
        let outliving = self.order.iter().take(self.outliving).enumerate();
        let around = outliving.filter_map(|(at, former)| Some((at, *now_at.get(former.checked_sub(1)?)?)));
        let ending = around.filter(|(_, around)| *around >= self.outliving);
        ending.map(|(at, around)| (first + at, first + around)).collect()
    }

    /// Adds the time that the outliving calls have taken until `now` to the inner time of the ending calls around
    /// them. Must be called before the ending calls are removed.
    pub(crate) fn count_overlaps(&mut self, left: usize, now: u64, work: &WorkTime) {
        for (outliving, around) in self.overlaps(left) {
            let Some(call) = self.calls.get_mut(outliving) else { continue };
            let time = work.between(call.counted_until, now);
            call.counted_until = now;
            if let Some(around) = self.calls.get_mut(around) {
                around.inner = around.inner.saturating_add(time);
            }
        }
    }

    /// Returns whether `call` outlives the call around it, at index `left`, which is left now: whether the leave record
    /// of `call` comes later.
    ///
    /// * A frame of the stack cannot outlive another frame.
    /// * If records of the thread were lost since `call` was entered, its leave record may be among them, and the
    ///   result is false.
    /// * A guard always writes a leave record, unless a `longjmp` of C skips it. So the call of a guard that is known
    ///   only by its address outlives only one other call, and none if another call of the same place already outlives
    ///   one.
    fn outlives(&self, call: &OpenCall, left: usize) -> bool {
        let (around, outer) = (self.calls[left], &self.calls[..left]);
        call.losses == self.losses
            && match call.place {
                CallPlace::Site(..) => true,
                CallPlace::Frame(_) | CallPlace::Last => !around.place.is_frame(),
                CallPlace::Address(_) => {
                    !call.outlives && !outer.iter().any(|other| other.outlives && other.place == call.place)
                }
            }
    }

    /// Moves the calls that outlive the call at index `at` before this call. Returns the new index of the call that is
    /// left.
    #[cold]
    fn keep_outliving(&mut self, at: usize) -> usize {
        let outlives = |call: &OpenCall| self.outlives(call, at);
        let inside = || (1..).zip(&self.calls[at + 1..]);
        let outliving: Vec<usize> =
            inside().filter(|(_, call)| outlives(call)).map(|(place, _)| place).collect();
        if outliving.is_empty() {
            return at;
        }
        let others = inside().filter(|(_, call)| !outlives(call)).map(|(place, _)| place);
        self.order = outliving.iter().copied().chain([0]).chain(others).collect();
        self.outliving = outliving.len();
        let left = at + self.outliving;
        let mut calls = std::mem::take(&mut self.calls);
        self.reorder(left, &mut calls);
        calls[at..left].iter_mut().for_each(|call| call.outlives = true);
        self.calls = calls;
        left
    }

    /// Adds the enter record of a call.
    #[inline]
    pub(crate) fn enter(&mut self, place: CallPlace, function: FunctionId, span: Option<u64>, now: u64) {
        let (depth, losses) = (self.depth(), self.losses);
        self.calls.push(OpenCall {
            place,
            function,
            span,
            entered: now,
            inner: 0,
            depth,
            outlives: false,
            counted_until: now,
            losses,
        });
        self.note_open(function);
        if let Some(by_place) = &mut self.by_place {
            count_place(by_place, place, span, 1);
        }
    }

    #[inline]
    fn note_open(&mut self, function: FunctionId) {
        *self.of_function.get_mut(function) += 1;
    }

    /// Finds the open call that a leave record ends. Returns the count of calls that remain open; the caller must
    /// [remove](OpenCalls::pop) the calls beyond this count, the innermost first. Returns `None` if the record ends no
    /// open call. Sets the function of the call to `function`, which may have become known since the call was entered.
    /// Calls that outlive the ended call remain open: see [`outliving`](OpenCalls::outliving).
    #[inline]
    pub(crate) fn leave(
        &mut self,
        place: CallPlace,
        function: FunctionId,
        span: Option<u64>,
    ) -> Option<usize> {
        let is_last = place == CallPlace::Last;
        let is_it = |call: &OpenCall| {
            (call.place == place || (is_last && call.place.is_frame())) && call.span == span
        };
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
        if self.outliving > 0 {
            (self.order, self.outliving) = (Vec::new(), 0);
        }
        let most = self.overlap_up_to.map_or(MOST_OVERLAPPING, |most| most.min(MOST_OVERLAPPING));
        let has_calls_inside = |at: &usize| at + 1 < self.calls.len() && self.calls.len() <= most;
        match found.filter(has_calls_inside) {
            Some(at) => Some(self.keep_outliving(at)),
            None => found,
        }
    }

    /// Counts a leave record that belongs to no open call. If many calls are open, also begins to count them by place,
    /// so that no further leave record without an open call searches all of them.
    #[cold]
    fn not_found(&mut self) {
        self.unmatched += 1;
        if self.by_place.is_none() && self.calls.len() > MAX_SEARCHED_CALLS {
            let mut by_place = FastMap::default();
            self.calls.iter().for_each(|call| count_place(&mut by_place, call.place, call.span, 1));
            self.by_place = Some(by_place);
        }
    }

    /// Removes and returns the innermost open call, which ends at `now`; returns `None` if at most `left` calls are
    /// open. If `left` calls remain, the removed call is the one with a leave record. `work` has the waits of the
    /// thread, which the call's time leaves out.
    #[inline]
    pub(crate) fn pop(&mut self, left: usize, now: u64, work: &WorkTime) -> Option<(OpenCall, Ending)> {
        let call = (self.calls.len() > left).then(|| self.calls.pop()).flatten()?;
        *self.of_function.get_mut(call.function) -= 1;
        if let Some(by_place) = &mut self.by_place {
            count_place(by_place, call.place, call.span, -1);
        }
        // The calls that outlive the left call are below it in the stack, but not around it.
        let outliving = if self.calls.len() == left { self.outliving } else { 0 };
        self.around = self.calls.len().checked_sub(outliving + 1);
        if let Some(outer) = self.around.and_then(|around| self.calls.get_mut(around)) {
            let counted = work.between(call.entered, call.counted_until);
            outer.inner = outer.inner.saturating_add(call.taken(now, work).0.saturating_sub(counted));
        }
        Some((call, if self.calls.len() == left { Ending::Left } else { Ending::Unseen }))
    }

    /// Works like [`OpenCalls::pop`], but folds calls that are nested inside `most` or more other calls: returns them
    /// as one call when the outermost of them ends. Only those of them that have taken at least `min` nanoseconds are
    /// counted; if there are none, no folded call is returned.
    pub(crate) fn pop_shown(
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

    /// Returns whether a call of this place and span is open now.
    #[must_use]
    pub(crate) fn has_open_at(&self, place: CallPlace, span: Option<u64>) -> bool {
        match &self.by_place {
            Some(by_place) => by_place.contains_key(&(place, span)),
            None => self.calls.iter().rev().any(|call| call.place == place && call.span == span),
        }
    }

    /// Returns whether a call of this function is open now.
    #[inline]
    #[must_use]
    pub(crate) fn has_open(&self, function: FunctionId) -> bool {
        self.of_function.get(function) > 0
    }

    /// Returns the function that has the most open calls, and the count of these calls.
    #[must_use]
    pub(crate) fn most_open(&self) -> Option<(FunctionId, u32)> {
        let open = self.of_function.each().filter(|(_, calls)| *calls > 0);
        open.max_by_key(|(function, calls)| (*calls, *function))
    }

    /// Returns the open calls, the outermost first.
    #[must_use]
    pub(crate) fn open(&self) -> &[OpenCall] {
        &self.calls
    }
}

/// Adds `by` to the count of open calls of a place and span. Calls of hooks also count for [`CallPlace::Last`].
fn count_place(
    by_place: &mut FastMap<(CallPlace, Option<u64>), u32>,
    place: CallPlace,
    span: Option<u64>,
    by: i32,
) {
    let as_last = (place.is_frame() && place != CallPlace::Last).then_some((CallPlace::Last, span));
    for key in [(place, span)].into_iter().chain(as_last) {
        let number = by_place.entry(key).or_default();
        *number = number.saturating_add_signed(by);
        if *number == 0 {
            by_place.remove(&key);
        }
    }
}

/// Why all open calls of a thread end without leave records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The thread has ended.
    ThreadEnded,
    /// Tracing was switched off, so nothing records the ends of the calls.
    SwitchedOff,
}

/// If a `#` line of a thread ends all open calls of the thread, returns the reason and the time at which the calls end;
/// otherwise `None`. The calls may end long before the line's `ticks`, because a thread may be late to record that
/// tracing was switched off.
#[must_use]
pub(crate) fn cut(meta: &Meta, ticks: Ticks) -> Option<(Cut, Ticks)> {
    match meta {
        Meta::End(end) if end.reason == EndReason::Thread => Some((Cut::ThreadEnded, ticks)),
        Meta::Switched { on: false, ticks } => Some((Cut::SwitchedOff, *ticks)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
