//! Whether this process traces, decided once, and the run if it does.
//!
//! Runs on any thread. The hot path only loads [`STATE`].

use crate::config::{self, Config, Switch};
use crate::report;
use crate::run::Run;
use crate::site;
use crate::sys;
use crate::thread::Excluded;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// The decision.
///
/// ```text
///                first record or is_enabled()      no, or no flusher
///   UNDECIDED ──────────────────────────► DECIDING ─────────────────► OFF
///                                           ▲ ▲  │                     │
///         startup(), or the first record of │ │  │ yes                 │ startup()
///         a forked child                    │ │  ▼                     │
///   ON ─────────────────────────────────────┘ └─(─)────────────────────┘
///   ▲  │ shutdown(): OFF                           │
///   └──(───────────────────────────────────────────┘
/// ```
///
/// Only the thread that moved it to DECIDING moves it on; in a forked child, which does not have that thread,
/// DECIDING of the parent is as good as UNDECIDED. ON is stored with Release after [`RUN`]; the hot
/// path's load is relaxed, for all that it then uses comes from its own thread.
static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);

const UNDECIDED: u32 = 0;
const DECIDING: u32 = 1;
const OFF: u32 = 2;
const ON: u32 = 3;

/// DECIDING with the process that is: a child forked meanwhile must not wait for a thread that it does not have.
fn deciding() -> u32 {
    sys::process_id().wrapping_shl(2) | DECIDING
}

fn is_deciding(state: u32) -> bool {
    state & 3 == DECIDING
}

/// Whether a state that says so is another process's, inherited: as good as undecided.
fn is_inherited(state: u32) -> bool {
    is_deciding(state) && state != deciding()
}

/// The current run. Never freed, so a reference to it is good for ever.
static RUN: AtomicPtr<Run> = AtomicPtr::new(std::ptr::null_mut());

/// Whether a call may return at once. One relaxed load.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    STATE.load(Ordering::Relaxed) == OFF
}

/// Whether this process traces; decides if nobody has.
pub(crate) fn is_on() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        OFF => false,
        _ => Excluded::enter().is_some_and(|excluded| settle(&excluded)),
    }
}

/// The run of this process, if it traces; a forked child gets one of its own. `None` where none can be had.
pub(crate) fn run(excluded: &Excluded) -> Option<&'static Run> {
    if !settle(excluded) {
        return None;
    }
    let run = current()?;
    if run.is_of_this_process() {
        return Some(run);
    }
    // A forked child: what was inherited is left alone, the child becomes a run of the same tree.
    if STATE.compare_exchange(ON, deciding(), Ordering::AcqRel, Ordering::Acquire).is_ok() {
        if current().is_some_and(Run::is_of_this_process) {
            // Another thread of the child has been here since we looked: ON is its, not the parent's.
            STATE.store(ON, Ordering::Release);
        } else {
            start(run.config.clone(), Some(run.root));
        }
    } else {
        settle(excluded);
    }
    current().filter(|run| run.is_of_this_process())
}

/// The run, dead or alive, of this process or of the one it was forked from.
pub(crate) fn current() -> Option<&'static Run> {
    let run = RUN.load(Ordering::Acquire);
    // The pointer is null or was leaked by `start`, and is never freed.
    #[allow(unsafe_code, reason = "a leaked box, never freed")]
    // SAFETY: null, or a leaked box that is never freed and only ever used by shared reference.
    unsafe {
        run.as_ref()
    }
}

/// Decides by the default variable if nobody has, or waits for whoever does. Returns whether it is yes.
fn settle(excluded: &Excluded) -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        OFF => false,
        _ => {
            if take_decision(excluded, |state| state == UNDECIDED) {
                decide(Some(config::DEFAULT_VARIABLE), Config::default());
            }
            STATE.load(Ordering::Acquire) == ON
        }
    }
}

/// Moves to DECIDING from a state that `from` accepts, or from one inherited; waits while another thread
/// decides. False where the state is or becomes another one, or a decision takes too long: a thread that is
/// stopped in one must not stop the others for ever.
#[cold]
fn take_decision(_: &Excluded, from: impl Fn(u32) -> bool) -> bool {
    for _ in 0..20_000 {
        let state = STATE.load(Ordering::Acquire);
        if from(state) || is_inherited(state) {
            if STATE.compare_exchange(state, deciding(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        } else if is_deciding(state) {
            std::thread::sleep(Duration::from_micros(50));
        } else {
            return false;
        }
    }
    false
}

/// Decides again, by `variable` or, without one, for yes. Returns whether the process traces now.
pub(crate) fn decide_anew(variable: Option<&str>, config: Config) -> bool {
    let Some(excluded) = Excluded::enter() else { return false };
    if take_decision(&excluded, |state| !is_deciding(state)) {
        decide(variable, config)
    } else {
        STATE.load(Ordering::Acquire) == ON
    }
}

/// Moves from DECIDING on.
fn decide(variable: Option<&str>, config: Config) -> bool {
    let on = !sys::privileged() && variable.is_none_or(is_switched_on);
    let running = current().filter(|run| run.is_of_this_process() && !run.is_closed());
    if !on {
        STATE.store(OFF, Ordering::Release);
        site::end();
        if let Some(run) = running {
            let _ = run.shut_down();
        }
        return false;
    }
    let config = config.with_environment();
    match running {
        Some(run) if run.config.same_settings(&config) => {
            STATE.store(ON, Ordering::Release);
            true
        }
        running => {
            if let Some(run) = running {
                let _ = run.shut_down();
            }
            start(config, None)
        }
    }
}

fn is_switched_on(variable: &str) -> bool {
    let value = std::env::var_os(variable);
    match config::parse_switch(value.as_ref()) {
        Switch::On => true,
        Switch::Off => false,
        Switch::Unclear => {
            let value = value.unwrap_or_default();
            report::say(format_args!(
                "{variable}={value:?} is neither on (1, true, on, yes) nor off (0, false, off, no); tracing stays off"
            ));
            false
        }
    }
}

/// Starts a run; moves from DECIDING to ON, or to OFF where it cannot.
fn start(config: Config, root: Option<u32>) -> bool {
    match Run::start(config, root) {
        Ok(run) => {
            RUN.store(std::ptr::from_ref(run).cast_mut(), Ordering::Release);
            site::begin(run.config.filter.clone());
            STATE.store(ON, Ordering::Release);
            true
        }
        Err(e) => {
            report::say(format_args!("cannot start the flusher thread: {e}; tracing is off"));
            STATE.store(OFF, Ordering::Release);
            false
        }
    }
}

/// Ends the run, if there is one; tracing is off afterwards.
pub(crate) fn shut_down() -> std::io::Result<()> {
    let running = || current().filter(|run| run.is_of_this_process() && !run.is_closed());
    if running().is_none() || STATE.compare_exchange(ON, OFF, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Ok(());
    }
    site::end();
    // Asked again: another thread may have ended that run and begun one in between.
    running().map_or(Ok(()), Run::shut_down)
}
