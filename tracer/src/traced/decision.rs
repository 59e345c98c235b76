//! The decision whether this process traces: made once, by the first record or by the program.
//!
//! The code runs on any thread. The hot path only loads [`STATE`].

use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use trace_store::modules;

use super::{fork, guest, record, startup};
use crate::copies::{self, interface};
use crate::ring::clock;
use crate::shared::process::{self, SETTLED, STATE, announce, current, stand};
use crate::shared::run::Run;
use crate::shared::{pause, sites, switched};
use crate::stack;
use crate::sys;
use crate::user::config::{self, Config, Switch};
use crate::user::relay;
use crate::words::exclusion::Excluded;
use crate::words::switch::{Attempt, TracingState};

/// The time, in nanoseconds, that a thread waits for another thread's decision before it takes the decision over.
/// Taking over is necessary because a signal handler may have jumped out of the decider's code: then the decider never
/// ends the decision.
const MAX_WAIT: u64 = 1_000_000_000;

/// The time, in nanoseconds of the monotonic clock, until which threads do not wait for a decision. It is set when a
/// decision that cannot be taken over has not ended within [`MAX_WAIT`], so that later records do not wait as long.
/// Relaxed: the value only saves time.
static NO_WAIT_UNTIL: AtomicU64 = AtomicU64::new(0);

/// The most room on the stack, in bytes, that the start of a run takes, because it reads the environment and makes
/// threads. A build without optimisation needs several times as much.
const START_STACK_BYTES: usize = if cfg!(debug_assertions) { 48 << 10 } else { 12 << 10 };
/// The room on the stack, in bytes, that a thread needs if it lets a helper thread start the run.
const HELPER_STACK_BYTES: usize = if cfg!(debug_assertions) { 4 << 10 } else { 2 << 10 };

/// The id of the process in which a helper thread currently decides on behalf of a thread whose stack is too small, or
/// 0.
static HELPER_PROCESS: AtomicU32 = AtomicU32::new(0);

/// The question that was published last by `Question::publish`: a thread that takes a decision over decides this
/// question. The pointer is null, or leads to a leaked value that never changes.
static LAST_QUESTION: AtomicPtr<Question> = AtomicPtr::new(std::ptr::null_mut());

/// The question whether the process traces: how it is answered, and with which settings a run starts if the answer is
/// yes.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// The environment variable that decides; without one, the answer is yes.
    variable: Option<String>,
    /// The settings of the run if the answer is yes. The settings of the environment override them, except in a forked
    /// child.
    config: Config,
    /// In a forked child: the id of the run at the root of its tree of forks. The child goes on tracing as its parent
    /// did, with exactly the settings in `config`. `None` in any other process.
    root: Option<u32>,
}

impl Question {
    /// Makes the question that is decided when the process makes its first record.
    fn by_default() -> Question {
        Question { variable: Some(config::DEFAULT_VARIABLE.into()), config: Config::of_process(), root: None }
    }

    /// Publishes this question for threads that take the decision over. The question is leaked, unless it equals the
    /// one that was published last.
    fn publish(self) -> &'static Question {
        if let Some(last_question) = Question::last_question().filter(|last_question| **last_question == self)
        {
            return last_question;
        }
        let question: &'static Question = Box::leak(Box::new(self));
        LAST_QUESTION.store(std::ptr::from_ref(question).cast_mut(), Ordering::Release);
        question
    }

    fn last_question() -> Option<&'static Question> {
        let last_question = LAST_QUESTION.load(Ordering::Acquire);
        #[allow(unsafe_code, reason = "a leaked box, never freed")]
        // SAFETY: null, or a leaked box that is never freed and only ever used by shared reference.
        unsafe {
            last_question.as_ref()
        }
    }
}

/// Returns whether this process traces; decides that if it is undecided.
pub(crate) fn is_on() -> bool {
    match stand() {
        TracingState::On => true,
        TracingState::Off => false,
        _ => Excluded::enter().is_some_and(|excluded| settle(&excluded)),
    }
}

/// Makes a forked child trace as its parent did. The child gets a run of its own, with the settings of the parent's run
/// (`inherited`), and in the same tree of forks. Does not touch the inherited run.
pub(super) fn decide_in_child(excluded: &Excluded, inherited: &Run) {
    if !stack::has_room(START_STACK_BYTES) {
        settle_on_helper_thread();
        return;
    }
    let question =
        Question { variable: None, config: inherited.config.clone(), root: Some(inherited.root) }.publish();
    let seen = STATE.see();
    let begun =
        (seen.stand(sys::process_id) == TracingState::On).then(|| STATE.begin(seen, sys::process_id()));
    match begun.flatten() {
        Some(attempt) => decide(attempt, question),
        None => settle(excluded),
    };
}

/// Returns whether the process traces. If that is undecided, decides it by the default variable; if another thread is
/// deciding, waits for that thread.
pub(super) fn settle(excluded: &Excluded) -> bool {
    match stand() {
        TracingState::On => true,
        TracingState::Off => false,
        _ if !stack::has_room(START_STACK_BYTES) => settle_on_helper_thread(),
        TracingState::Undecided if guest::owner().is_some() => settle_as_guest(excluded),
        _ => match take_decision(excluded, |stand| stand == TracingState::Undecided) {
            Some(OwnDecision { attempt, is_first_attempt: true }) => decide(attempt, &Question::by_default()),
            Some(OwnDecision { attempt, is_first_attempt: false }) => match Question::last_question() {
                Some(question) => decide(attempt, question),
                None => decide(attempt, &Question::by_default()),
            },
            None => stand() == TracingState::On,
        },
    }
}

/// Starts a helper thread that decides whether the process traces, and waits for that thread for a bounded time. Called
/// if the stack has too little room, as the stack of a signal handler or of a small thread may. Returns whether the
/// process traces.
#[cold]
fn settle_on_helper_thread() -> bool {
    let _errno = sys::keep_errno();
    let (pid, start) = (sys::process_id(), sys::monotonic_ns());
    if start < NO_WAIT_UNTIL.load(Ordering::Relaxed) || !stack::has_room(HELPER_STACK_BYTES) {
        return false;
    }
    loop {
        let settled = SETTLED.load(Ordering::Acquire);
        if let Some(run) = current().filter(|_| stand() == TracingState::On) {
            if run.is_of_this_process() {
                return true;
            }
        } else if stand() == TracingState::Off {
            return false;
        }
        // Relaxed: only the number matters. A forked process has not inherited another process's helper.
        if HELPER_PROCESS.swap(pid, Ordering::Relaxed) != pid && sys::spawn_hidden(Box::new(help)).is_err() {
            HELPER_PROCESS.store(0, Ordering::Relaxed);
            return false;
        }
        let waited = sys::monotonic_ns().saturating_sub(start);
        if waited >= MAX_WAIT {
            NO_WAIT_UNTIL.store(start + waited + MAX_WAIT, Ordering::Relaxed);
            return false;
        }
        sys::wait_word(&SETTLED, settled, Duration::from_nanos((MAX_WAIT - waited).min(MAX_WAIT / 50)));
    }
}

/// Decides on behalf of a thread that has too little room on its stack. This runs on the helper thread.
fn help() {
    if let Some(excluded) = Excluded::enter() {
        fork::run_of_this_process(&excluded);
    }
    HELPER_PROCESS.store(0, Ordering::Relaxed);
}

/// Takes over, in a guest copy of the library, the decision of the copy that owns the process. Returns whether the
/// process traces.
#[cold]
fn settle_as_guest(excluded: &Excluded) -> bool {
    let Some(owner) = guest::owner() else { return false };
    let terms = owner.decide(config::expects_every_function());
    // No decision is possible now: this copy runs inside of the owner's code that decides.
    if terms.stand == interface::UNDECIDED {
        return false;
    }
    if let Some(OwnDecision { attempt, .. }) =
        take_decision(excluded, |stand| stand == TracingState::Undecided)
    {
        guest::join(attempt, owner, terms);
        guest::listen(owner);
    }
    stand() == TracingState::On
}

/// Decides again whether to trace, in this copy of the library, which is a guest of the copy that owns the process. The
/// environment variable `variable` decides; if it is `None`, the answer is yes. If the answer is no, tracing is off in
/// this copy only.
fn decide_as_guest(excluded: &Excluded, owner: copies::Owner, variable: Option<&str>) -> bool {
    let from = |stand| !matches!(stand, TracingState::Deciding | TracingState::Settling);
    if config::wanted(variable) == Switch::Off {
        let own = take_decision(excluded, from);
        if own.is_some_and(|OwnDecision { attempt, .. }| STATE.end_off(attempt)) {
            announce();
            sites::end();
        }
        return false;
    }
    let terms = owner.start();
    if terms.stand == interface::UNDECIDED {
        return false;
    }
    if let Some(OwnDecision { attempt, .. }) = take_decision(excluded, from) {
        if guest::join(attempt, owner, terms) {
            sites::go_on();
        }
        guest::listen(owner);
    }
    stand() == TracingState::On
}

/// A decision that the calling thread has begun, and has to make.
struct OwnDecision {
    attempt: Attempt,
    /// True if no other thread of this process, or of the process from which it was forked, had begun the decision.
    is_first_attempt: bool,
}

/// Begins a decision if `from` accepts the current state. While another thread decides, waits; if the wait takes longer
/// than [`MAX_WAIT`], takes the decision over. Returns `None` in two cases: `from` does not accept the state that the
/// other thread's decision has led to, or the wait is over and the decision cannot be taken over.
#[cold]
fn take_decision(_: &Excluded, from: impl Fn(TracingState) -> bool) -> Option<OwnDecision> {
    let _errno = sys::keep_errno();
    let pid = sys::process_id();
    let start = sys::monotonic_ns();
    let (mut seen, mut since) = (STATE.see(), start);
    loop {
        let settled = SETTLED.load(Ordering::Acquire);
        let (now, found) = (sys::monotonic_ns(), STATE.see());
        if found != seen {
            (seen, since) = (found, now);
        }
        let stand = found.stand(|| pid);
        let is_overdue = stand == TracingState::Deciding && now.saturating_sub(since) >= MAX_WAIT;
        if from(stand) || is_overdue {
            if let Some(attempt) = STATE.begin(found, pid) {
                let is_first_attempt = !is_overdue && !found.is_inherited(pid);
                return Some(OwnDecision { attempt, is_first_attempt });
            }
            continue;
        }
        if !matches!(stand, TracingState::Deciding | TracingState::Settling | TracingState::Undecided) {
            return None;
        }
        if now < NO_WAIT_UNTIL.load(Ordering::Relaxed) {
            return None;
        }
        // It settles for too long, or the decider renews its attempt again and again: the record of the first caller
        // is lost, and those of others for a while; otherwise every call of every thread would take as long.
        let is_stuck = stand == TracingState::Settling && now.saturating_sub(since) >= MAX_WAIT;
        if is_stuck || now.saturating_sub(start) >= 2 * MAX_WAIT {
            NO_WAIT_UNTIL.store(now + MAX_WAIT, Ordering::Relaxed);
            return None;
        }
        let left = MAX_WAIT.saturating_sub(now.saturating_sub(since)).max(MAX_WAIT / 100);
        sys::wait_word(&SETTLED, settled, Duration::from_nanos(left));
    }
}

/// Decides again whether the process traces: by the environment variable `variable`; if that is `None`, the answer is
/// yes. Returns whether the process traces now.
pub(crate) fn decide_again(variable: Option<&str>, config: Config) -> bool {
    let Some(excluded) = Excluded::enter() else { return false };
    let on = decide_excluded(&excluded, variable, config);
    drop(excluded);
    switched::call_listeners();
    on
}

fn decide_excluded(excluded: &Excluded, variable: Option<&str>, config: Config) -> bool {
    if let Some(owner) = guest::owner() {
        if config != Config::of_process() {
            relay::say(format_args!(
                "the settings that a library makes for its copy of the tracer are ignored: the program's copy writes \
                 the trace"
            ));
        }
        return decide_as_guest(excluded, owner, variable);
    }
    // Published before the decision is begun: a thread that takes it over at any moment decides this question.
    let question = Question { variable: variable.map(Into::into), config, root: None }.publish();
    match take_decision(excluded, |stand| !matches!(stand, TracingState::Deciding | TracingState::Settling)) {
        Some(OwnDecision { attempt, .. }) => decide(attempt, question),
        None => stand() == TracingState::On,
    }
}

/// Decides `question` and ends the decision. If another thread takes the decision over meanwhile, that thread's answer
/// counts. Returns whether the process traces.
fn decide(mut attempt: Attempt, question: &Question) -> bool {
    let wanted = config::wanted(question.variable.as_deref());
    let on = question.root.is_some() || wanted != Switch::Off;
    let running = process::running();
    if !on {
        if !STATE.end_off(attempt) {
            return outcome();
        }
        announce();
        process::begin_era();
        sites::end();
        if let Some(run) = running {
            let _ = run.shut_down();
        }
        return false;
    }
    let config = question.config.clone();
    let mut config = if question.root.is_some() { config } else { config.with_environment() };
    config.paused = question.root.is_none() && wanted == Switch::Paused;
    match running {
        Some(run) if question.root.is_some() || run.config.same_settings(&config) => {
            // A run that is paused, or was switched on from outside, keeps that state.
            if !STATE.end_on(attempt, pause::was_paused()) {
                return outcome();
            }
            announce();
            stand() == TracingState::On
        }
        running => {
            if let Some(run) = running {
                // This takes as long as the disk does.
                let _ = run.shut_down_while(|| {
                    STATE.renew(&mut attempt);
                });
            }
            let begun = sys::monotonic_ns();
            if question.root.is_none() {
                guest::warn_of_incompatible_copies();
            }
            startup::start(attempt, config, question.root);
            let on = outcome();
            if let Some(run) = current().filter(|run| on && run.is_of_this_process()) {
                run.note_decision_time(sys::monotonic_ns().saturating_sub(begun));
            }
            on
        }
    }
}

/// Waits, for a bounded time, until the decision has ended, which another thread (the flusher, or one that has taken
/// the decision over) has to do. Returns whether the process traces.
fn outcome() -> bool {
    let _errno = sys::keep_errno();
    let start = sys::monotonic_ns();
    loop {
        let settled = SETTLED.load(Ordering::Acquire);
        let stand = stand();
        let now = sys::monotonic_ns();
        let waited = now.saturating_sub(start);
        if !matches!(stand, TracingState::Deciding | TracingState::Settling) {
            return stand == TracingState::On;
        }
        if waited >= MAX_WAIT {
            NO_WAIT_UNTIL.store(now + MAX_WAIT, Ordering::Relaxed);
            return false;
        }
        sys::wait_word(&SETTLED, settled, Duration::from_nanos(MAX_WAIT - waited));
    }
}

/// Ends the run, if there is one; tracing is off afterwards.
pub(crate) fn shut_down() -> io::Result<()> {
    if copies::joined().is_some() {
        // The trace is the owner's; only this copy stops recording.
        if STATE.shut_down() {
            sites::end();
            switched::call_listeners();
        }
        return flush();
    }
    if process::running().is_none() || !STATE.shut_down() {
        return Ok(());
    }
    process::begin_era();
    sites::end();
    // Looked up again: another thread may have ended that run and begun one in between.
    let result = process::running().map_or(Ok(()), Run::shut_down);
    switched::call_listeners();
    result
}

/// Brings the run's table of loaded modules up to date, and waits for that. Does nothing if the process does not trace,
/// or if no module can have been loaded or unloaded since the last time. Called by the thread that loads or unloads a
/// module.
pub(crate) fn look_at_modules() {
    let _errno = sys::keep_errno();
    let Some(_excluded) = Excluded::enter() else { return };
    match (copies::joined(), process::running()) {
        (Some(owner), _) => owner.look_at_modules(),
        (None, Some(run)) if modules::may_have_changed(clock::now) => {
            let (start, begin) = (sys::monotonic_ns(), clock::now());
            run.look_at_modules();
            record::note_wait_for_modules(start, begin);
        }
        _ => {}
    }
}

/// Waits until all records that were made before this call are in the files.
pub(crate) fn flush() -> io::Result<()> {
    match copies::joined() {
        Some(owner) => owner.flush(),
        None => process::running().map_or(Ok(()), Run::flush),
    }
}
