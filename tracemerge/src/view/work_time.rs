//! The work time of a thread: a clock that stands still while the tracer makes the thread wait.
//!
//! A `# wait` line says when a wait began and ended. A call that was open during the wait may have its enter record
//! before this line, or after it if the enter record itself had to wait. So all waits are kept, and each duration
//! leaves out the parts of waits that lie in it. A thread is in one wait at a time: if a wait overlaps with one that
//! was read earlier, the trace is damaged, and the overlapping part does not count.

use std::sync::Arc;

use trace_format::line::Ticks;

use crate::view::thread_states::{OffSum, OffTimes};

/// The waits of a thread for the tracer, and its periods off the processor. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkTime {
    /// The waits, in the order of time. They do not overlap.
    waits: Vec<StandStill>,
    /// The periods off the processor; `None` if the trace has no states of this thread.
    off: Option<Arc<OffTimes>>,
}

/// A wait of a thread for the tracer.
#[derive(Clone, Copy, Debug)]
struct StandStill {
    begin: u64,
    end: u64,
    /// The sum of the durations of all earlier waits of the thread.
    before: u64,
    /// The part of `before` for which the thread was off the processor.
    off_before: OffSum,
}

impl WorkTime {
    /// The work time of a thread that never waits for the tracer.
    pub(crate) const WITHOUT_WAITS: WorkTime = WorkTime { waits: Vec::new(), off: None };

    /// Makes the work time of a thread without waits yet; `off` has its periods off the processor.
    #[must_use]
    pub(crate) fn with_states(off: Option<Arc<OffTimes>>) -> WorkTime {
        WorkTime { off, ..WorkTime::default() }
    }

    /// Returns the periods for which the thread was off the processor; `None` if the trace has no states of this
    /// thread.
    #[must_use]
    pub(crate) fn off(&self) -> Option<&Arc<OffTimes>> {
        self.off.as_ref()
    }

    /// Returns how long the thread was off the processor between two times, not counting its waits for the tracer;
    /// `None` if the trace has no states of this thread.
    #[must_use]
    pub(crate) fn off_between(&self, from: u64, until: u64) -> Option<OffSum> {
        let off = self.off.as_ref()?.between(from, until);
        Some(off.without(&self.waited_off_until(until).without(&self.waited_off_until(from))))
    }

    /// Returns how long the thread was off the processor during its waits for the tracer, up to a time.
    fn waited_off_until(&self, time: u64) -> OffSum {
        let Some(last) = self.last_begun(time) else { return OffSum::default() };
        let mut sum = last.off_before;
        sum.add(&self.off_in(last.begin, time.min(last.end)));
        sum
    }

    fn off_in(&self, from: u64, until: u64) -> OffSum {
        self.off.as_ref().map_or_else(OffSum::default, |off| off.between(from, until))
    }

    /// Returns the last wait that has begun before a time.
    fn last_begun(&self, time: u64) -> Option<&StandStill> {
        let begun = self.waits.partition_point(|wait| wait.begin < time);
        self.waits.get(begun.checked_sub(1)?)
    }

    /// Adds a wait from `begin` to `end`, without the part that overlaps with earlier waits. Returns the duration of
    /// the added part.
    pub(crate) fn wait(&mut self, begin: u64, end: u64) -> u64 {
        let (last, before) = self.waits.last().map_or((0, 0), |last| (last.end, last.total()));
        let begin = begin.max(last);
        if begin >= end {
            return 0;
        }
        let off_before = self.waited_off_until(begin);
        self.waits.push(StandStill { begin, end, before, off_before });
        end - begin
    }

    /// Returns the begin and the end of the last wait.
    #[must_use]
    pub(crate) fn last_wait(&self) -> Option<(u64, u64)> {
        self.waits.last().map(|wait| (wait.begin, wait.end))
    }

    /// Returns the time that has passed between `from` and `until`, without the thread's waits for the tracer.
    #[inline]
    #[must_use]
    pub(crate) fn between(&self, from: u64, until: u64) -> u64 {
        let whole = until.saturating_sub(from);
        match self.waits.last() {
            Some(last) if last.end > from && from < until => whole - self.waited_between(from, until),
            _ => whole,
        }
    }

    /// Returns the time for which the thread waited for the tracer between `from` and `until`.
    #[must_use]
    pub(crate) fn waits_between(&self, from: u64, until: u64) -> u64 {
        until.saturating_sub(from) - self.between(from, until)
    }

    #[cold]
    fn waited_between(&self, from: u64, until: u64) -> u64 {
        self.waited_until(until) - self.waited_until(from)
    }

    /// Returns the sum of the waits for the tracer before a time.
    fn waited_until(&self, time: u64) -> u64 {
        self.last_begun(time).map_or(0, |last| last.before + (time.min(last.end) - last.begin))
    }
}

impl StandStill {
    fn total(&self) -> u64 {
        self.before + (self.end - self.begin)
    }
}

/// The waits of all threads of a view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitSum {
    /// The number of waits that the shown durations leave out.
    pub waits: u64,
    /// The total time of the waits that durations leave out, in nanoseconds.
    pub ns: u64,
    /// The longest wait that durations leave out.
    pub longest: Option<LongestWait>,
    /// The total time, in nanoseconds, of waits of which the trace does not say when they were, so that the shown
    /// durations include them.
    pub without_place: u64,
}

/// The longest of the waits in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongestWait {
    /// The duration of the wait, in nanoseconds.
    pub ns: u64,
    /// The ticks when the wait began.
    pub begin: Ticks,
    /// The index of the thread that waited.
    pub thread: usize,
}

impl WaitSum {
    /// Adds one wait of a thread.
    pub(crate) fn add_wait(&mut self, wait: LongestWait) {
        self.add(&WaitSum { waits: 1, ns: wait.ns, longest: Some(wait), without_place: 0 });
    }

    /// Adds the waits of other threads.
    pub(crate) fn add(&mut self, other: &WaitSum) {
        self.waits += other.waits;
        self.ns = self.ns.saturating_add(other.ns);
        self.without_place = self.without_place.saturating_add(other.without_place);
        // Of equally long waits, the first one is taken, whatever the order in which threads are read.
        let order = |wait: &LongestWait| (std::cmp::Reverse(wait.ns), wait.begin, wait.thread);
        self.longest = self.longest.into_iter().chain(other.longest).min_by_key(order);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::view::calls::{CallPlace, OpenCalls};
    use crate::view::thread_states::Off;

    /// The latest time of the tests.
    const END: usize = 120;

    /// The oracle: whether the thread stood still in each nanosecond.
    struct Oracle([bool; END], usize);

    impl Oracle {
        /// Marks the time from `begin` to `end` as a wait, without the part before the end of an earlier wait. Returns
        /// the length of the rest.
        fn wait(&mut self, begin: usize, end: usize) -> u64 {
            let from = begin.max(self.1);
            for ns in from..end {
                (self.0[ns], self.1) = (true, end);
            }
            end.saturating_sub(from) as u64
        }

        fn between(&self, from: usize, until: usize) -> u64 {
            (from..until).filter(|ns| !self.0[*ns]).count() as u64
        }
    }

    /// A step of a thread, with the time that has passed before it.
    #[derive(Clone, Debug)]
    enum Step {
        Enter(usize),
        Leave(usize),
        /// A `# wait` line, whose wait began at this time and took so long: before the line, or after it.
        Wait(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let passed = || 0..8usize;
        prop_oneof![
            passed().prop_map(Step::Enter),
            passed().prop_map(Step::Leave),
            (0..END / 2, 0..15usize).prop_map(|(begin, took)| Step::Wait(begin, took)),
        ]
    }

    proptest! {
        #[test]
        fn durations_leave_out_each_nanosecond_of_a_wait(
            waits in prop::collection::vec((0..END, 0..20usize), 0..12),
            from in 0..END, until in 0..END,
        ) {
            let (mut work, mut oracle) = (WorkTime::default(), Oracle([false; END], 0));
            for (begin, took) in waits {
                let end = (begin + took).min(END);
                prop_assert_eq!(work.wait(begin as u64, end as u64), oracle.wait(begin, end));
            }
            prop_assert_eq!(work.between(from as u64, until as u64), oracle.between(from, until));
        }

        #[test]
        fn times_off_the_processor_leave_out_each_nanosecond_of_a_wait(
            waits in prop::collection::vec((0..END, 0..20usize), 0..6),
            off in prop::collection::vec((0..END, 0..20usize, any::<bool>()), 0..6),
            from in 0..END, until in 0..END,
        ) {
            let (mut times, mut states) = (OffTimes::default(), [None; END]);
            let mut last = 0;
            for (begin, took, is_preempted) in off {
                let end = (begin + took).min(END);
                let why = if is_preempted { Off::Preempted } else { Off::Waiting };
                times.push(begin as u64, end as u64, why);
                let begin = begin.max(last);
                if begin < end {
                    states[begin..end].fill(Some(why));
                    last = end;
                }
            }
            let (mut work, mut oracle) =
                (WorkTime::with_states(Some(Arc::new(times))), Oracle([false; END], 0));
            for (begin, took) in waits {
                let end = (begin + took).min(END);
                work.wait(begin as u64, end as u64);
                oracle.wait(begin, end);
            }
            let count = |why| (from..until).filter(|ns| states[*ns] == Some(why) && !oracle.0[*ns]).count();
            let sum = work.off_between(from as u64, until as u64).unwrap();
            let expected = (count(Off::Waiting) as u64, count(Off::Preempted) as u64, 0);
            prop_assert_eq!((sum.waiting, sum.preempted, sum.unknown), expected);
        }

        #[test]
        fn each_call_leaves_out_the_waits_that_were_read_before_its_end(
            steps in prop::collection::vec(step(), 0..30)
        ) {
            let (mut work, mut oracle) = (WorkTime::default(), Oracle([false; END], 0));
            let (mut calls, mut entered, mut now) = (OpenCalls::default(), Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Enter(passed) => {
                        now = (now + passed).min(END);
                        calls.enter(CallPlace::Address(1), 1, None, now as u64);
                        entered.push(now);
                    }
                    Step::Leave(passed) => {
                        now = (now + passed).min(END);
                        let Some(since) = entered.pop() else { continue };
                        let left = calls.leave(CallPlace::Address(1), 1, None).unwrap();
                        let (call, _) = calls.pop(left, now as u64, &work).unwrap();
                        prop_assert_eq!(call.taken(now as u64, &work).0, oracle.between(since, now));
                    }
                    Step::Wait(begin, took) => {
                        let (begin, end) = (begin as u64, (begin + took) as u64);
                        work.wait(begin, end);
                        oracle.wait(begin as usize, end as usize);
                    }
                }
            }
        }
    }
}
