//! Runs of other users, which only root can see.
//!
//! Any user may leave directories of runs that claim to be runs of any program. So each process has a time budget for
//! runs that are not requested, for all other users together and including waits. Runs that exceed the budget are
//! skipped and reported, and the exit status is 1. Runs whose traces are requested are read and recovered completely;
//! for these, only waits for locks that other processes hold count against the budget.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use trace_format::manifest::Manifest;
use trace_format::meta::{Cause, Run};
use trace_store::inspect::{self, OtherUsersRuns, RunInMemory};
use trace_store::recovery::{
    Limits, OtherUsersRun, Outcome, Recovered, recover_other_users, runtime_directories,
};

use crate::find::choose::Choice;
use crate::find::dead_runs::report_to_user;
use crate::find::header::Trace;
use crate::find::owners::{Owners, Rank};
use crate::ui::messages::{Messages, count, shown, were};

/// The total time that may be spent on runs of other users, except on those that the user has requested.
pub(crate) const BUDGET: Duration = Duration::from_secs(2);

/// The part of the budget that this process has used.
static USED: Mutex<Duration> = Mutex::new(Duration::ZERO);

/// Calls `work` with the time at which the budget will be used up, and subtracts the elapsed time from the budget.
pub(crate) fn spend<T>(work: impl FnOnce(Instant) -> T) -> T {
    let begun = Instant::now();
    let result = work(begun + left());
    use_up(begun.elapsed());
    result
}

fn left() -> Duration {
    BUDGET.saturating_sub(*USED.lock())
}

fn use_up(time: Duration) {
    let mut used = USED.lock();
    *used = used.saturating_add(time);
}

/// The runs of other users that are skipped: their number by user, directory and reason.
#[derive(Debug, Default)]
pub(crate) struct Skipped(BTreeMap<(u32, PathBuf, &'static str), u64>);

/// The reason for skipping a run: another process holds the lock for recovering runs of other users.
const BUSY: &str = "another process was recovering runs of other users all the time";
/// The reason for skipping a run: the budget is used up.
const OUT_OF_TIME: &str = "the 2 seconds for other users' runs are used up";
/// The reason for skipping a run: this process cannot get the rights of the run's user.
const NO_RIGHTS: &str = "this process cannot get the rights of that user";

impl Skipped {
    fn add(&mut self, run: &RunInMemory, why: &'static str) {
        let place = run.directory.parent().unwrap_or(Path::new("")).to_owned();
        *self.0.entry((run.user(), place, why)).or_default() += 1;
    }

    /// Reports the skipped runs as warnings, which make the exit status 1.
    fn report_to_user(&self, messages: &mut Messages) {
        for ((user, place, why), runs) in &self.0 {
            messages.warn(format_args!(
                "{} of user {user} in {} {} skipped: {why}; tracemerge reads them if that user runs it",
                count(*runs, "run"),
                shown(place),
                were(*runs),
            ));
        }
    }
}

/// The runs of other users whose traces are requested, and the results of recovering dead runs of other users.
#[derive(Debug, Default)]
pub(crate) struct RunsOfOtherUsers {
    /// The runs whose traces are requested. If such a run was not recovered, its rings still have to be read.
    pub requested_runs: Vec<RunInMemory>,
    /// The dead runs, with the results of their recovery.
    pub recovered: Vec<Recovered>,
}

/// Finds the runs of other users that `wanted` accepts, within the budget, and reports the users and directories for
/// which the budget was too short.
pub(crate) fn runs(
    wanted: impl Fn(&Run, Option<&Manifest>) -> bool,
    messages: &mut Messages,
) -> Vec<RunInMemory> {
    let OtherUsersRuns { runs, unknown, unread_directories } =
        spend(|until| inspect::find_other_users_runs(&runtime_directories(), wanted, until));
    unknown.iter().for_each(|error| messages.warn(error));
    for (user, place) in unread_directories {
        messages.warn(format_args!(
            "not all runs of user {user} in {} were read: {OUT_OF_TIME}; tracemerge reads them if that user runs it",
            shown(&place),
        ));
    }
    runs
}

/// Recovers the dead runs among `runs`. Runs that `requested_runs` accepts are recovered completely, all others as far
/// as the budget allows. `cause` gives the cause of the end of a run's process, if known.
pub(crate) fn recover(
    runs: Vec<RunInMemory>,
    requested_runs: impl Fn(&RunInMemory) -> bool,
    cause: impl Fn(&Run) -> Cause,
    messages: &mut Messages,
) -> RunsOfOtherUsers {
    let mut skipped = Skipped::default();
    let mut others = RunsOfOtherUsers::default();
    let (requested_runs, beside): (Vec<_>, Vec<_>) = runs.into_iter().partition(requested_runs);
    let other = |run: &RunInMemory| OtherUsersRun {
        user: run.user(),
        directory: run.directory.clone(),
        cause: cause(&run.manifest.run),
    };
    let to_recover = |runs: &[RunInMemory]| runs.iter().map(other).collect::<Vec<_>>();
    if !requested_runs.is_empty() {
        let begun = Instant::now();
        let limits = Limits { wait: begun + left(), work: None };
        let outcomes = recover_other_users(&to_recover(&requested_runs), limits);
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Busy)) {
            use_up(limits.wait - begun);
        }
        for (run, outcome) in requested_runs.iter().zip(outcomes) {
            take(run, outcome, true, &mut others.recovered, &mut skipped, messages);
        }
    }
    if !beside.is_empty() {
        let outcomes = spend(|until| {
            recover_other_users(&to_recover(&beside), Limits { wait: until, work: Some(until) })
        });
        for (run, outcome) in beside.iter().zip(outcomes) {
            take(run, outcome, false, &mut others.recovered, &mut skipped, messages);
        }
    }
    skipped.report_to_user(messages);
    others.requested_runs = requested_runs;
    others
}

/// Reports the result of recovering a run, and adds it to `recovered` or to `skipped`. `is_asked_for` says whether the
/// traces of the run are requested.
fn take(
    run: &RunInMemory,
    outcome: Outcome,
    is_asked_for: bool,
    recovered: &mut Vec<Recovered>,
    skipped: &mut Skipped,
    messages: &mut Messages,
) {
    match outcome {
        Outcome::Recovered(found) => {
            report_to_user(&found, messages);
            if let Some(error) = found.errors.first().filter(|_| !is_asked_for) {
                messages.warn(format_args!(
                    "process {} of user {} is dead, but its records in {} are not in its trace files yet: {error}",
                    found.run.pid,
                    run.user(),
                    shown(&run.directory)
                ));
            }
            recovered.push(found);
        }
        Outcome::Nothing => {}
        Outcome::Unknown(error) => messages.warn(error),
        Outcome::Busy => skipped.add(run, BUSY),
        Outcome::OutOfTime => skipped.add(run, OUT_OF_TIME),
        Outcome::NoRights => skipped.add(run, NO_RIGHTS),
    }
}

/// Returns the directories of those runs of other users whose traces `choice` selects. `nearer` are the trace files of
/// the caller and of the executable's owner, and `own` the caller's runs in memory.
pub(crate) fn requested_runs(
    runs: &[RunInMemory],
    choice: Choice,
    owners: &Owners,
    own: &[&Run],
    nearer: &[Trace],
) -> HashSet<PathBuf> {
    let named: Vec<&RunInMemory> = runs.iter().filter(|run| run.has_its_name()).collect();
    let own_files = nearer.iter().filter(|trace| owners.rank(trace.owner) == Rank::Own);
    let own: Vec<&Run> =
        own.iter().copied().chain(own_files.filter_map(|trace| trace.run.as_ref())).collect();
    let is_recent = |run: &Run, pid, since| run.pid == pid && run.wall >= since;
    let of_tree = |pid, since| {
        let all = own.iter().copied().chain(named.iter().map(|run| &run.manifest.run));
        let roots: HashSet<(Vec<u8>, u32)> =
            all.filter(|run| is_recent(run, pid, since)).map(|run| (run.boot.clone(), run.root)).collect();
        move |run: &Run| roots.contains(&(run.boot.clone(), run.root)) && run.wall >= since
    };
    let rank = |run: &RunInMemory| owners.rank(run.user());
    // The rank of the users whose traces are shown if the caller has none.
    let nearest =
        named.iter().map(|run| rank(run)).chain(nearer.iter().map(|trace| owners.rank(trace.owner))).min();
    let nearest = nearest.filter(|_| own.is_empty());
    let newest = named
        .iter()
        .filter(|run| Some(rank(run)) == nearest)
        .max_by_key(|run| run.manifest.run.wall)
        .map(|run| run.user());
    let is_asked_for: Box<dyn Fn(&RunInMemory) -> bool> = match choice {
        Choice::All => Box::new(|_| true),
        Choice::Alone { pid, since } => Box::new(move |run| is_recent(&run.manifest.run, pid, since)),
        Choice::Process { pid, since } => {
            let of_tree = of_tree(pid, since);
            Box::new(move |run| of_tree(&run.manifest.run))
        }
        // A run of the caller's whose process became another user's has a directory for each user.
        Choice::Newest => Box::new(move |run| own.contains(&&run.manifest.run) || Some(run.user()) == newest),
    };
    named.into_iter().filter(|run| is_asked_for(run)).map(|run| run.directory.clone()).collect()
}
