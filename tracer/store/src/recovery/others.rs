//! Recovery of other users' runs, by root: with those users' rights to files, so that what they say can do no more than they
//! may, and on threads for which nobody waits longer than they are worth.
//!
//! Their rings and life files are copied, never mapped (see [`crate::memory`]). A thread that is left alone at the end of
//! the time is as a recoverer that was killed: the next one goes on.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use trace_format::meta::Cause;

use super::{DeadRun, OtherRecoverer, Recovered, Taken};
use crate::sys;

/// The time between two looks at locks that others hold.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A run of another user that is to be recovered if it is dead.
#[derive(Clone, Debug)]
pub struct OtherRun {
    /// The user whose run it is.
    pub user: u32,
    /// The run's directory.
    pub directory: PathBuf,
    /// What the caller knows of how the run's process has ended.
    pub cause: Cause,
}

/// How long other users may keep a recoverer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time up to which locks are waited for.
    pub wait: Instant,
    /// The time up to which anything is done; `None` where that may take as long as it takes.
    pub work: Option<Instant>,
}

/// What became of a run of another user.
#[derive(Debug)]
pub enum Outcome {
    /// The run is dead, and was recovered as far as its errors say.
    Recovered(Recovered),
    /// There is nothing to recover: the run lives, or is gone.
    Nothing,
    /// The version of the run's manifest is not known, as the error says; all is left as it is.
    Unknown(io::Error),
    /// Somebody else has held the locks of a recoverer for all of the time.
    Busy,
    /// The time was used up before.
    OutOfTime,
    /// The user's rights cannot be had.
    NoRights,
}

/// Recovers the dead ones among `runs`, those of each user on a thread of their own. The outcomes stand in the same order.
#[must_use]
pub fn recover_others(runs: &[OtherRun], limits: Limits) -> Vec<Outcome> {
    let mut users: BTreeMap<u32, Vec<(usize, OtherRun)>> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        users.entry(run.user).or_default().push((place, run.clone()));
    }
    let (sender, outcomes) = channel();
    for (user, runs) in users {
        let sender = sender.clone();
        // Where there is no thread, nothing is sent.
        let _ = sys::begin_as_user(user, move || recover_of_user(runs, limits, &sender));
    }
    drop(sender);
    let mut found: Vec<Outcome> = runs.iter().map(|_| Outcome::NoRights).collect();
    loop {
        let next = match limits.work {
            None => outcomes.recv().ok(),
            Some(end) => outcomes.recv_timeout(end.saturating_duration_since(Instant::now())).ok(),
        };
        let Some((place, outcome)) = next else { return found };
        if let Some(of_run) = found.get_mut(place) {
            *of_run = outcome;
        }
    }
}

/// Recovers runs of one user, those first that nobody else is recovering.
fn recover_of_user(runs: Vec<(usize, OtherRun)>, limits: Limits, outcomes: &Sender<(usize, Outcome)>) {
    // Nobody listens any more when the time is used up.
    let send = |place, outcome| drop(outcomes.send((place, outcome)));
    let may_go_on = || limits.work.is_none_or(|end| Instant::now() < end);
    runs.iter().for_each(|(place, _)| send(*place, Outcome::OutOfTime));
    let mut left = runs;
    loop {
        let mut busy = Vec::new();
        for (place, run) in left {
            if !may_go_on() {
                return;
            }
            match DeadRun::take(&run.directory, |_, _| true, OtherRecoverer::IsLeftAlone) {
                Ok(Taken::Dead(dead)) => send(place, Outcome::Recovered(dead.recover(run.cause, may_go_on))),
                Ok(Taken::Nothing) => send(place, Outcome::Nothing),
                Ok(Taken::Busy) => busy.push((place, run)),
                Err(error) => send(place, Outcome::Unknown(error)),
            }
        }
        if busy.is_empty() {
            return;
        }
        if Instant::now() >= limits.wait {
            return busy.iter().for_each(|(place, _)| send(*place, Outcome::Busy));
        }
        sleep(LOOK_AGAIN);
        left = busy;
    }
}
