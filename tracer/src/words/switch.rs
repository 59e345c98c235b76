//! The word that says whether this process traces, and the transfer of a decision from thread to thread.
//!
//! The functions run on any thread; [`SwitchWord::is_off`] is hot. This module has only the word: the code that
//! decides, and that waits for another thread's decision, is in `traced/decision.rs`.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The word that holds the decision whether a process traces.
///
/// ```text
///                first record or is_enabled()           no, or no flusher
///   UNDECIDED ──────────────────────────► DECIDING(n) ────────────────────► OFF
///                                         │ ▲  ▲  │ a flusher thread         │
///   a waiter's patience ends, or the      └─┘  │  │ is there for n           │
///   decider says that it lives: n is new       │  ▼                          │
///                                              │ SETTLING(n)                 │
///                                              │  │ that flusher has         │
///         startup(), or the first record of    │  ▼ published its run        │
///   ┌──── a forked child ──────────────────────┼─ ON ── pause() ──► PAUSED   │
///   └──────────────────────────────────────────┤  │ ◄── go_on() ─────┘       │
///                        startup()             │  │ shutdown()       │       │
///                                              │  ▼                  ▼       │
///                                              └─ OFF ◄──────────────────────┘
/// ```
///
/// DECIDING also goes to ON, or to PAUSED, at once if the existing run has the right settings; SETTLING goes to PAUSED
/// if that is requested.
///
/// Every decision and every takeover has an attempt number of its own, so each step out of DECIDING(n) is one
/// compare-exchange that only one thread can win. When it fails, a decider learns that another thread has taken the
/// decision over; the flusher thread that this decider has started ends, and has changed nothing before. SETTLING(n)
/// cannot be overtaken: it belongs to the flusher thread, which takes no signals, so no handler can jump out of it, and
/// which has only a few stores to do.
///
/// The word contains the process id: in a forked child, which does not have the thread that decides, DECIDING and
/// SETTLING of the parent count as UNDECIDED.
///
/// ON is stored with Release after the run's pointer, and loaded with Acquire by a thread that needs the run; the hot
/// path's load is relaxed, because all that it uses afterwards comes from its own thread.
#[derive(Debug)]
pub(crate) struct SwitchWord {
    word: AtomicU64,
    /// The number of the next attempt to decide. Only the lowest bits, those in [`ATTEMPT`], are put into the word.
    attempts: AtomicU32,
}

const UNDECIDED: u64 = 0;
const DECIDING: u64 = 1;
const OFF: u64 = 2 | QUIET;
const ON: u64 = 3;
const PAUSED: u64 = ON | QUIET;
/// The bits of the word that hold one of UNDECIDED, DECIDING, OFF and ON.
const STATE: u64 = 3;
/// The bit that is set in the states in which a call of `trace` may return at once: OFF and PAUSED.
const QUIET: u64 = 1 << 31;
/// The bit that turns the state DECIDING into SETTLING.
const SETTLING: u64 = 4;
/// The position, in the word of a [`SwitchWord`], of the number of the attempt to decide whether the process traces.
const ATTEMPT_SHIFT: u32 = 3;
/// The position of the process id in the word of a [`SwitchWord`]: the id is in the upper half.
const PID_SHIFT: u32 = 32;
const ATTEMPT: u64 = (1 << (PID_SHIFT - 1 - ATTEMPT_SHIFT)) - 1;

/// An attempt to decide whether the process traces, identified by the value that [`SwitchWord`] has during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt(u64);

/// The state of tracing in a process, as [`SwitchWord`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TracingState {
    /// No thread of this process has decided.
    Undecided,
    /// A thread of this process is deciding. (A `longjmp` may have taken that thread out of the code that decides, so
    /// that it never ends the decision.)
    Deciding,
    /// The decision is made, and the flusher thread is about to publish it.
    Settling,
    /// The process does not trace.
    Off,
    /// The process traces. A forked child of such a process has this state, too, until it has decided for itself.
    On,
    /// The process has a run, but records nothing now. A forked child of such a process has this state, too, until it
    /// has decided for itself.
    Paused,
}

/// A value that the word of a `SwitchWord` had when it was loaded. The word may have changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Returns the state of tracing that this value means for the calling process. `pid` returns the id of that
    /// process, and is called only if the state depends on it.
    pub(crate) fn stand(self, pid: impl FnOnce() -> u32) -> TracingState {
        match self.0 & STATE {
            state if state == OFF & STATE => TracingState::Off,
            ON if self.0 & QUIET != 0 => TracingState::Paused,
            ON => TracingState::On,
            DECIDING if self.is_inherited(pid()) => TracingState::Undecided,
            DECIDING if self.0 & SETTLING != 0 => TracingState::Settling,
            DECIDING => TracingState::Deciding,
            _ => TracingState::Undecided,
        }
    }

    /// Returns whether this value is one of a decision in progress in an ancestor of the process `pid`, of which the
    /// process has a copy because it was forked meanwhile.
    pub(crate) fn is_inherited(self, pid: u32) -> bool {
        self.0 & STATE == DECIDING && self.0 >> PID_SHIFT != u64::from(pid)
    }
}

impl SwitchWord {
    /// Makes the word for a process that has not decided whether it traces.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> SwitchWord {
        SwitchWord { word: AtomicU64::new(UNDECIDED), attempts: AtomicU32::new(0) }
    }

    /// Makes the word for a process that has not decided whether it traces. Not `const`, because Loom's atomics cannot
    /// be made in constants.
    #[cfg(loom)]
    pub(crate) fn new() -> SwitchWord {
        SwitchWord { word: AtomicU64::new(UNDECIDED), attempts: AtomicU32::new(0) }
    }

    /// Returns whether a call of `trace` may return at once: the process does not trace, or is paused. This is one
    /// relaxed load.
    #[inline(always)]
    pub(crate) fn is_off(&self) -> bool {
        self.word.load(Ordering::Relaxed) & QUIET != 0
    }

    /// Loads the word. Acquire: a thread that sees ON sees the run.
    pub(crate) fn see(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    fn step(&self, from: u64, to: u64) -> bool {
        // AcqRel: a thread that takes over sees the actions of those before it, and others see the actions of this
        // one.
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Begins a decision for process `pid`, or takes over a decision that another thread has begun. Returns `None` if
    /// the word no longer has the value `seen`.
    pub(crate) fn begin(&self, seen: Seen, pid: u32) -> Option<Attempt> {
        // Relaxed: numbers only have to differ. They repeat after a quarter of a billion decisions.
        let number = u64::from(self.attempts.fetch_add(1, Ordering::Relaxed)) & ATTEMPT;
        let deciding = u64::from(pid) << PID_SHIFT | number << ATTEMPT_SHIFT | DECIDING;
        self.step(seen.0, deciding).then_some(Attempt(deciding))
    }

    /// Gives the attempt another number, by which other threads see that the decider is still at work although it has
    /// to wait. Returns false if another thread has taken the decision over.
    pub(crate) fn renew(&self, attempt: &mut Attempt) -> bool {
        let renewed = self.begin(Seen(attempt.0), (attempt.0 >> PID_SHIFT) as u32);
        renewed.map(|renewed| *attempt = renewed).is_some()
    }

    /// Ends the decision with the answer that the process does not trace. Returns false if another thread has taken the
    /// decision over.
    pub(crate) fn end_off(&self, attempt: Attempt) -> bool {
        self.step(attempt.0, OFF)
    }

    /// Ends the decision with the answer that the process traces, in the existing run, which may be paused. Returns
    /// false if another thread has taken the decision over.
    pub(crate) fn end_on(&self, attempt: Attempt, paused: bool) -> bool {
        self.step(attempt.0, if paused { PAUSED } else { ON })
    }

    /// Hands the decision over to a flusher thread, which exists for this attempt: DECIDING becomes SETTLING, and no
    /// other thread can take the decision over any more. Returns false if another thread has taken it over before. Both
    /// the decider that has started the flusher thread and the flusher thread call this; the first call changes the
    /// word.
    pub(crate) fn hand_over(&self, attempt: Attempt) -> bool {
        self.step(attempt.0, attempt.0 | SETTLING) || self.see() == Seen(attempt.0 | SETTLING)
    }

    /// Ends the decision of an attempt that was handed over: SETTLING becomes ON, or PAUSED if `paused` is true. Only
    /// the attempt's flusher thread calls it, after it has published its run. Returns false if the word has changed.
    pub(crate) fn settle(&self, attempt: Attempt, paused: bool) -> bool {
        self.step(attempt.0 | SETTLING, if paused { PAUSED } else { ON })
    }

    /// Pauses tracing. Returns false if tracing was not on.
    pub(crate) fn pause(&self) -> bool {
        self.step(ON, PAUSED)
    }

    /// Resumes tracing. Returns false if tracing was not paused.
    pub(crate) fn go_on(&self) -> bool {
        self.step(PAUSED, ON)
    }

    /// Ends tracing. Returns false if tracing was neither on nor paused.
    pub(crate) fn shut_down(&self) -> bool {
        self.step(ON, OFF) || self.step(PAUSED, OFF)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_of_two_deciders_can_end_the_decision() {
        let word = SwitchWord::new();
        let slow = word.begin(word.see(), 7).expect("nobody else decides");
        assert_eq!(word.see().stand(|| 7), TracingState::Deciding);
        assert_eq!(word.see().stand(|| 8), TracingState::Undecided, "a forked child decides for itself");
        let next = word.begin(word.see(), 7).expect("it is taken over");
        assert_ne!(slow, next);
        assert!(
            !word.end_off(slow)
                && !word.end_on(slow, false)
                && !word.hand_over(slow)
                && !word.settle(slow, false)
        );
        assert!(!word.renew(&mut slow.clone()));
        assert!(word.hand_over(next) && word.hand_over(next), "by its decider and by its flusher");
        assert_eq!(
            (word.see().stand(|| 7), word.see().stand(|| 8)),
            (TracingState::Settling, TracingState::Undecided)
        );
        assert!(!word.end_off(next) && word.settle(next, false));
        assert_eq!(word.see().stand(|| 7), TracingState::On);
        assert!(word.shut_down() && word.is_off());
    }

    #[test]
    fn a_paused_switch_is_off_and_can_resume_or_shut_down() {
        for paused in [false, true] {
            let word = SwitchWord::new();
            let attempt = word.begin(word.see(), 7).expect("nobody else decides");
            assert!(!word.pause() && !word.is_off());
            assert!(word.hand_over(attempt) && word.settle(attempt, paused));
            assert_eq!((word.is_off(), word.pause()), (paused, !paused));
            assert_eq!((word.see().stand(|| 7), word.is_off()), (TracingState::Paused, true));
            assert!(word.go_on() && !word.go_on() && !word.is_off());
            assert_eq!(word.see().stand(|| 7), TracingState::On);
            assert!(word.pause() && word.shut_down() && !word.go_on() && word.is_off());
            assert_eq!(word.see().stand(|| 7), TracingState::Off);
        }
    }
}
