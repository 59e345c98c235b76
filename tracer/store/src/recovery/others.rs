//! Recovery of other users' runs, by root. While root recovers the runs of a user, it has only that user's rights to
//! files, so that the user's data cannot make root do more than the user may do. The recovery runs on threads for which
//! the caller waits only for a limited time.
//!
//! The rings and life files of these users are copied, never mapped (see [`crate::memory`]). If the time is used up,
//! the caller abandons a thread. The effect is that of a killed recoverer: the next recoverer continues.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use trace_format::meta::Cause;

use super::{BusyPolicy, DeadRun, Recovered, TakeResult};
use crate::sys;

/// The time between two attempts to take the locks of runs on which other recoverers work.
const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A run of another user, which is to be recovered if it is dead.
#[derive(Clone, Debug)]
pub struct OtherUsersRun {
    /// The user id of the run's owner.
    pub user: u32,
    /// The run's directory.
    pub directory: PathBuf,
    /// The cause of the end of the run's process, as far as the caller knows it.
    pub cause: Cause,
}

/// The times at which a recoverer of other users' runs gives up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time at which the recoverer stops waiting for locks.
    pub wait: Instant,
    /// The time at which the recoverer stops working; `None` for no limit.
    pub work: Option<Instant>,
}

/// The result of the attempt to recover a run of another user.
#[derive(Debug)]
pub enum Outcome {
    /// The run was dead, and was recovered, except for the rings with an error.
    Recovered(Recovered),
    /// There is nothing to recover: the run is alive, or was removed.
    Nothing,
    /// The version of the run's manifest is unknown; the run was left unchanged.
    Unknown(io::Error),
    /// The run was not recovered, because another recoverer held its locks up to the time limit.
    Busy,
    /// The run was not recovered, because the time was used up.
    OutOfTime,
    /// The run was not recovered, because this process could not take on the rights of the run's user.
    NoRights,
}

/// Recovers the dead runs among `runs`. The runs of each user are recovered on a thread of their own. Returns the
/// outcomes in the order of `runs`.
#[must_use]
pub fn recover_other_users(runs: &[OtherUsersRun], limits: Limits) -> Vec<Outcome> {
    let mut users: BTreeMap<u32, Vec<(usize, OtherUsersRun)>> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        users.entry(run.user).or_default().push((place, run.clone()));
    }
    let (sender, outcomes) = channel();
    for (user, runs) in users {
        let sender = sender.clone();
        // If no thread can be made, nothing is sent.
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

/// Recovers runs of one user, and sends the outcomes. Runs on which another recoverer works are tried again after all
/// other runs.
fn recover_of_user(runs: Vec<(usize, OtherUsersRun)>, limits: Limits, outcomes: &Sender<(usize, Outcome)>) {
    // The receiver is dropped when the time is used up, so errors of `send` are ignored.
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
            match DeadRun::take(&run.directory, |_, _| true, BusyPolicy::SkipRun) {
                Ok(TakeResult::Dead(dead)) => {
                    send(place, Outcome::Recovered(dead.recover(run.cause, may_go_on)))
                }
                Ok(TakeResult::Nothing) => send(place, Outcome::Nothing),
                Ok(TakeResult::Busy) => busy.push((place, run)),
                Err(error) => send(place, Outcome::Unknown(error)),
            }
        }
        if busy.is_empty() {
            return;
        }
        if Instant::now() >= limits.wait {
            return busy.iter().for_each(|(place, _)| send(*place, Outcome::Busy));
        }
        sleep(RECHECK_INTERVAL);
        left = busy;
    }
}
