//! The recovery of dead runs before anything is read: the records that they left in their rings go into their files.
//! [`trace_store::recovery`] does the work; this module reports it to the user.

use std::path::PathBuf;

use trace_format::manifest::Manifest;
use trace_format::meta::{Cause, Run};
use trace_store::inspect;
use trace_store::recovery::{self, Recovered, Recovery};

use crate::find::app::App;
use crate::find::strangers;
use crate::ui::messages::{Messages, count, shown};

/// Recovers the dead runs of `app` and reports the results. Recovers the caller's runs first, and then runs of other
/// users within their time budget, see [`crate::find::strangers`]. Reports runs of other versions here, because no
/// later stage can read them. The stage that reads rings reports the rings that could not be recovered.
pub(crate) fn recover_dead_runs(app: &App, messages: &mut Messages) -> Vec<Recovered> {
    let cause = causes(app);
    let mut recovered = recover_own(app, &cause, messages);
    let others = strangers::runs(is_of(app), messages);
    recovered.extend(strangers::recover(others, |_| false, &cause, messages).recovered);
    recovered
}

/// Recovers the caller's own dead runs of `app`.
pub(crate) fn recover_own(
    app: &App,
    cause: impl Fn(&Run) -> Cause,
    messages: &mut Messages,
) -> Vec<Recovered> {
    let Recovery { runs, unknown } = recovery::recover(&recovery::runtime_directories(), is_of(app), cause);
    runs.iter().for_each(|run| report_to_user(run, messages));
    unknown.iter().for_each(|error| messages.warn(error));
    runs
}

/// Returns a function that tells whether a run is one of `app`, even if its manifest has an unknown version.
pub(crate) fn is_of(app: &App) -> impl Fn(&Run, Option<&Manifest>) -> bool {
    |run, manifest| match manifest {
        Some(manifest) => app.is_of(manifest),
        None => app.exe() == Some(&run.exe[..]),
    }
}

/// Returns a function that gives the cause of the end of a run's process, if this command knows it.
pub(crate) fn causes(app: &App) -> impl Fn(&Run) -> Cause {
    let ended = ended_run(app, &recovery::runtime_directories());
    move |run| match &ended {
        Some((ended, cause)) if ended == run => *cause,
        _ => Cause::default(),
    }
}

/// Returns the last run of the process that this command has started and that has ended, and the cause of the process's
/// end; `None` if its runs have left no directory. A process may have had several runs, by `exec` or `shutdown`: its
/// end is the end of its last run.
fn ended_run(app: &App, directories: &[PathBuf]) -> Option<(Run, Cause)> {
    let ended = app.ended?;
    let is_of = |run: &Run| run.pid == ended.pid && run.wall >= ended.since;
    let runs = inspect::runs(directories, |manifest| app.is_of(manifest) && is_of(&manifest.run));
    let last = runs.into_iter().map(|run| run.manifest.run).max_by_key(|run| run.wall)?;
    Some((last, ended.cause))
}

/// Reports for each thread how many of its records were recovered, and what was lost.
pub(crate) fn report_to_user(run: &Recovered, messages: &mut Messages) {
    if run.missing_rings > 0 {
        messages.warn(format_args!(
            "process {}, run {:08x}: the files of {} in memory were removed before the process died, so the \
             records that were only there are lost",
            run.run.pid,
            run.run.id,
            count(run.missing_rings, "ring"),
        ));
    }
    let place = run.directories.first().map_or_else(String::new, |place| format!(" into {}", shown(place)));
    for thread in run.threads.iter().filter(|thread| thread.records > 0) {
        let how = if thread.killed { "was killed" } else { "has ended" };
        messages.note(format_args!(
            "recovered {} of thread {} ({:?}){place}; its process {} {how}",
            count(thread.records, "record"),
            thread.tid,
            String::from_utf8_lossy(&thread.name),
            run.run.pid,
        ));
    }
}
