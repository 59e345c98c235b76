//! The search for traces, and the choice among them.
//!
//! [`app`] is the executable or directory that the user named, or [`newest`] finds one. The other modules are used in
//! this order: [`dead_runs`] and, for runs of other users, [`strangers`] write the records that dead runs left in their
//! rings into files; [`rings`] reads the rings that are still in memory; [`named_places`] and [`mod@search`] find the
//! files; [`header`] reads their headers; [`owners`] and [`identity`] determine their owners and runs; [`choose`] picks
//! the runs to show; [`copies`] leaves out copies of files; [`completeness`] determines whether all files of these runs
//! are present.

pub(crate) mod app;
pub(crate) mod choose;
pub(crate) mod completeness;
pub(crate) mod copies;
#[cfg(feature = "parquet")]
mod data_set;
pub(crate) mod dead_runs;
pub(crate) mod executable;
pub(crate) mod header;
pub(crate) mod identity;
pub(crate) mod library;
pub(crate) mod liveness;
pub(crate) mod marks;
pub(crate) mod named_places;
pub(crate) mod newest;
pub(crate) mod owners;
pub(crate) mod part;
pub(crate) mod rings;
pub(crate) mod search;
#[cfg(feature = "parquet")]
pub(crate) mod set_files;
#[cfg(feature = "parquet")]
pub(crate) mod set_runs;
pub(crate) mod strangers;
pub(crate) mod untraced;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use trace_format::meta::{Cause, Run};
use trace_format::places::Place;
use trace_store::inspect::RunInMemory;
use trace_store::recovery::{Recovered, path_from_bytes};

use crate::find::app::{App, directory_of, without_merged_suffix};
use crate::find::choose::{Choice, Chosen, choose_runs};
use crate::find::completeness::Completeness;
use crate::find::dead_runs::{causes, is_of, recover_own};
use crate::find::header::{HeaderRefusal, Trace, read_all, read_own};
use crate::find::named_places::Places;
use crate::find::owners::{Owners, of_users, recorded};
use crate::find::part::Part;
use crate::find::search::{Search, app_of_trace, search};
use crate::find::strangers::RunsOfOtherUsers;
use crate::os::environment::trace_directory;
use crate::os::sys::{FileId, effective_user};
use crate::ui::error::Error;
use crate::ui::few::FirstItems;
use crate::ui::messages::{Grouped, Messages, count, shown};
use crate::ui::subcommands::subcommand_like;

/// The smallest difference between the clocks of two runs that is reported, in nanoseconds. Adjustments of the wall
/// clock in small steps cause smaller differences.
const CLOCKS_APART_NS: u64 = 1_000_000_000;

/// Finds the trace files of `app`, also in the `places` that its runs have named for them, and reads their headers.
/// `held` are the traces that were read from rings.
///
/// Reads files of other users after the caller's own: all of them if the caller has none or if `all` is set;
/// otherwise as many as the time budget for other users allows.
pub(crate) fn find_files(
    app: &App,
    places: &[PathBuf],
    held: &[Trace],
    all: bool,
    messages: &mut Messages,
) -> (Vec<Trace>, Search) {
    let mut search = search(app, places);
    search.errors.iter().for_each(|error| messages.warn(error));
    let candidates = std::mem::take(&mut search.candidates);
    // A live run may be about to write the first line; or the ring has the line, and recovery failed.
    let excused = |refusal: &HeaderRefusal| match refusal {
        HeaderRefusal::Empty(path) | HeaderRefusal::NoTrace(path) => {
            rings::have(held, path) || liveness::is_being_written(path)
        }
        HeaderRefusal::Unreadable(_) | HeaderRefusal::ChangedLineEnds(_) => false,
    };
    let (traces, unreadable) = read_all(candidates, app, all, messages, excused);
    search.unreadable = unreadable;
    (traces, search)
}

/// The traces that are to be merged or checked.
#[derive(Debug)]
pub(crate) struct Found {
    /// The traces that were chosen.
    pub chosen: Chosen,
    /// The default path of the merged file, of the first application that has traces. It applies unless the user names
    /// a path.
    pub merged_path: PathBuf,
    /// The identities of all files that were found, so that the merge does not overwrite them by its output.
    pub inputs: HashSet<FileId>,
    /// The runs that this command has recovered, if they are chosen or have no file.
    pub recovered: Vec<Recovered>,
    /// The completeness of the chosen runs.
    pub completeness: Completeness,
}

/// Recovers dead runs, reads the rings that are still in memory, finds the files, and chooses runs.
///
/// # Errors
/// If no traces are found.
pub(crate) fn find_traces(app: &App, choice: Choice, messages: &mut Messages) -> Result<Found, Error> {
    let found = find_traces_of(app, choice, &Part::default(), messages)?;
    report_clocks(&found.chosen, messages);
    Ok(found)
}

/// Finds traces as [`find_traces`] does, but does not report runs whose clocks disagree.
fn find_traces_of(app: &App, choice: Choice, part: &Part, messages: &mut Messages) -> Result<Found, Error> {
    let choice = if app.is_directory() { Choice::All } else { choice };
    if app.is_data_set() {
        return find_in_data_set(app, part, messages);
    }
    // This comes first: records that are traced from here on may be missing in the merge.
    let mut runs = rings::runs(|manifest| match choice {
        Choice::Alone { pid, .. } => manifest.run.pid == pid && app.is_of(manifest),
        _ => app.is_of(manifest),
    });
    let said = Places::of(app);
    let alone = matches!(choice, Choice::Alone { .. });
    let cause = causes(app);
    // Files that are created from here on may be missing, too.
    let mut made = files_made(&runs);
    let mut recovered = if alone { Vec::new() } else { recover_own(app, &cause, messages) };
    let mut others = recover_other_users_runs(app, choice, (&runs, &recovered, &said), &cause, messages);
    made.extend(files_made(&others.requested_runs));
    runs.append(&mut others.requested_runs);
    recovered.append(&mut others.recovered);
    let mut places = rings::places(&runs);
    places.extend(said.directories());
    // The list of files found before is needed only if rings are read.
    let before = if runs.is_empty() { Vec::new() } else { search(app, &places).candidates };
    let held = rings::read(&runs, &recovered, messages);
    let (traces, search) = find_files(app, &places, &held, choice == Choice::All, messages);
    let traces = without_other_programs(app, traces, messages);
    let traces = rings::join(traces, held, &before);
    let id = |run: &Run| (run.pid, run.id);
    let known: HashSet<_> = traces.iter().filter_map(|trace| trace.run.as_ref()).map(id).collect();
    let inputs: HashSet<FileId> = traces.iter().filter_map(|trace| trace.id.clone()).collect();
    if choice == Choice::Newest {
        check_newest_run(&said, &traces)?;
    }
    let chosen = choose_runs(traces, choice, &Owners::of(app), recorded);
    if chosen.boots.is_empty() {
        let others = strangers::spend(|until| Places::of_other_users(app, until));
        let newest = others.newest().filter(|_| matches!(choice, Choice::Newest | Choice::All));
        return Err(newest.map_or_else(|| no_traces(app, choice, &search), files_out_of_reach));
    }
    report_choice(&chosen, choice, messages);
    rings::report_unread_runs(&chosen.boots.iter().flatten().collect::<Vec<_>>(), &runs, messages);
    let chosen_runs = chosen.boots.iter().flatten().filter_map(|trace| trace.run.as_ref());
    let chosen_runs: HashSet<_> = chosen_runs.map(id).collect();
    recovered.retain(|of| chosen_runs.contains(&id(&of.run)) || !known.contains(&id(&of.run)));
    let completeness = Completeness::of(&chosen, &made);
    Ok(Found { chosen, merged_path: app.merged_path(), inputs, recovered, completeness })
}

/// If the executable does not exist, leaves out traces in shared directories that name another program. Does so only if
/// at least one trace names the executable's path: otherwise the traces may have been copied from another place, and
/// only their file names decide.
fn without_other_programs(app: &App, traces: Vec<Trace>, messages: &Messages) -> Vec<Trace> {
    let Some(exe) = app.named_exe().filter(|_| app.exe().is_none()) else { return traces };
    let names_it = |run: &Run| run.exe == exe.as_os_str().as_encoded_bytes();
    if !traces.iter().filter_map(|trace| trace.run.as_ref()).any(names_it) {
        return traces;
    }
    let beside = directory_of(&app.found);
    let (own, others): (Vec<Trace>, Vec<Trace>) = traces
        .into_iter()
        .partition(|trace| trace.path.parent() == Some(&beside) || trace.run.as_ref().is_none_or(names_it));
    if !others.is_empty() {
        let files = count(others.len() as u64, "trace file");
        messages.note(format_args!("left out {files} of other programs of that name"));
    }
    own
}

/// Finds the runs of a data set, which has no files of living runs.
#[cfg(feature = "parquet")]
fn find_in_data_set(app: &App, part: &Part, messages: &mut Messages) -> Result<Found, Error> {
    let traces = data_set::traces(&app.given, part, messages)?;
    let chosen = choose_runs(traces, Choice::All, &Owners::of(app), recorded);
    if chosen.boots.is_empty() {
        return Err(Error::plain(format!(
            "the data set {} has no records; tracemerge dataset add adds runs to it",
            shown(&app.given)
        )));
    }
    report_choice(&chosen, Choice::All, messages);
    let completeness = Completeness::of(&chosen, &HashMap::new());
    let (inputs, recovered) = (HashSet::new(), Vec::new());
    Ok(Found { chosen, merged_path: app.merged_path(), inputs, recovered, completeness })
}

/// Returns the error which says that this command was built without support for data sets.
#[cfg(not(feature = "parquet"))]
fn find_in_data_set(app: &App, _part: &Part, _messages: &mut Messages) -> Result<Found, Error> {
    let given = shown(&app.given);
    Err(Error::plain(format!(
        "cannot read the data set {given}, because this tracemerge was built without parquet; to build it with \
         that, run in a checkout: cargo install --path tracemerge --features parquet"
    )))
}

/// Returns two numbers for each run in memory, by run id: of the files that the run has created, and of those that it
/// has dropped.
fn files_made(runs: &[RunInMemory]) -> HashMap<u32, (u64, u64)> {
    runs.iter().filter_map(|run| Some((run.manifest.run.id, run.files()?))).collect()
}

/// Finds the runs of other users, if the caller is root, and recovers the dead ones. `own` are the caller's runs in
/// memory, `recovered` the runs that were recovered for the caller, and `said` the directories that runs have named.
fn recover_other_users_runs(
    app: &App,
    choice: Choice,
    (own, recovered, said): (&[RunInMemory], &[Recovered], &Places),
    cause: impl Fn(&Run) -> Cause,
    messages: &mut Messages,
) -> RunsOfOtherUsers {
    let is_of = is_of(app);
    let runs = match choice {
        Choice::Alone { pid, .. } => {
            strangers::runs(|run, manifest| run.pid == pid && is_of(run, manifest), messages)
        }
        _ => strangers::runs(is_of, messages),
    };
    if runs.is_empty() {
        return RunsOfOtherUsers::default();
    }
    let owners = Owners::of(app);
    let mut places = rings::places(own);
    places.extend(said.directories());
    let candidates = search(app, &places).candidates;
    let files = read_own(&candidates, app, &owners);
    let own: Vec<&Run> =
        own.iter().map(|run| &run.manifest.run).chain(recovered.iter().map(|of| &of.run)).collect();
    let requested_runs = strangers::requested_runs(&runs, choice, &owners, &own, &files);
    if matches!(choice, Choice::Alone { .. }) {
        // The process is alive.
        let requested_runs = runs.into_iter().filter(|run| requested_runs.contains(&run.directory)).collect();
        return RunsOfOtherUsers { requested_runs, recovered: Vec::new() };
    }
    strangers::recover(runs, |run| requested_runs.contains(&run.directory), cause, messages)
}

/// Checks that `traces` include the newest run that has named a directory for its files, or a newer run.
///
/// # Errors
/// The traces lack that run: an older one must not be shown in its place.
fn check_newest_run(said: &Places, traces: &[Trace]) -> Result<(), Error> {
    let Some(newest) = said.newest() else { return Ok(()) };
    let mut runs = traces.iter().filter_map(|trace| trace.run.as_ref());
    if runs.any(|run| run.id == newest.id || run.wall >= newest.wall) {
        return Ok(());
    }
    let remedy = "--all-runs merges the files of older runs; 'tracemerge clean' deletes all files and forgets all runs";
    Err(Error::plain(format!("{}. {remedy}", files_out_of_reach(newest))))
}

/// Returns the error which says that the run `newest` has put its trace files where this user cannot read them.
fn files_out_of_reach(newest: &Place) -> Error {
    let place = path_from_bytes(&newest.directory);
    let why = match std::fs::read_dir(&place) {
        Ok(_) => "none of them can be read there".to_owned(),
        Err(error) => format!("this directory cannot be read: {error}"),
    };
    Error::plain(format!(
        "the newest known run, of process {}, begun {}, has put its trace files into {}, but {why}",
        newest.pid,
        newest.wall,
        shown(&place),
    ))
}

/// Finds the traces of several applications. If some of the applications have traces, reports the others with a
/// warning.
///
/// # Errors
/// If no traces are found.
pub(crate) fn find_traces_of_all(
    apps: &[App],
    choice: Choice,
    messages: &mut Messages,
) -> Result<Found, Error> {
    find_part_of_all(apps, choice, &Part::default(), messages)
}

/// Finds traces as [`find_traces_of_all`] does, but reads from data sets only what is needed for `part`.
///
/// # Errors
/// If no traces are found.
pub(crate) fn find_part_of_all(
    apps: &[App],
    choice: Choice,
    part: &Part,
    messages: &mut Messages,
) -> Result<Found, Error> {
    if let [app] = apps {
        let found = find_traces_of(app, choice, part, messages)?;
        report_clocks(&found.chosen, messages);
        return Ok(found);
    }
    let (mut inputs, mut completeness) = (HashSet::new(), Completeness::default());
    let (mut chosen, mut recovered, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let mut merged_path = None;
    for app in apps {
        match find_traces_of(app, choice, part, messages) {
            Ok(found) => {
                merged_path.get_or_insert(found.merged_path);
                inputs.extend(found.inputs);
                recovered.extend(found.recovered);
                completeness.append(found.completeness);
                chosen.push(found.chosen);
            }
            Err(error) => errors.push(error),
        }
    }
    // If nothing is found at all, the caller reports the last reason.
    let last = if chosen.is_empty() { errors.pop() } else { None };
    errors.iter().for_each(|error| messages.warn(error));
    if let Some(last) = last {
        return Err(last);
    }
    let known = chosen.iter().map(|of_one| of_one.copies.len()).sum();
    let chosen = Chosen::together(chosen, &Owners::of(&apps[0]));
    copies::report(&chosen.copies[known..], messages);
    report_clocks(&chosen, messages);
    let merged_path = merged_path.unwrap_or_default();
    Ok(Found { chosen, merged_path, inputs, recovered, completeness })
}

/// Checks the first word of a command line without a subcommand: it must be an application. If the application
/// `may_come` later, because the command waits for it, refuses only words that resemble a subcommand.
///
/// # Errors
/// If the word is neither a path with a directory, nor the name of a file, nor the name of an application with
/// traces.
pub(crate) fn check_first_word(app: &App, may_come: bool) -> Result<(), Error> {
    let is_word =
        app.given.components().count() == 1 && app.given.file_name().is_some_and(|name| name == app.given);
    let meant = subcommand_like(&app.given);
    if !is_word || app.real_path().is_some() || (may_come && meant.is_none()) {
        return Ok(());
    }
    let runs = rings::runs(|manifest| app.is_of(manifest));
    let has_runs = !runs.is_empty() || !strangers::runs(is_of(app), &mut Messages::silent()).is_empty();
    let search = search(app, &Places::of(app).directories());
    // A search that could not read everything does not show that there are no traces.
    if has_runs || !search.candidates.is_empty() || !search.errors.is_empty() {
        return Ok(());
    }
    let given = shown(&app.given);
    let neither = format!("{given} is neither a command nor an application with traces");
    Err(Error::plain(match meant {
        Some(name) => format!("{neither}; did you mean '{name}'?"),
        None => format!("{neither}. {}", search_and_remedy(app, &search)),
    }))
}

/// Returns a text for users whose traces were not found: the searched places, and the way to make traces.
fn search_and_remedy(app: &App, search: &Search) -> String {
    let (given, name) = (shown(&app.given), app.name().to_string_lossy());
    let places: Vec<String> = search.places.iter().map(|place| format!("\n  {}", shown(place))).collect();
    let set = if trace_directory().is_some() { "" } else { " (TRACER_DIR is not set)" };
    format!(
        "Looked for {name}.trace.<thread id> in{}{set}\n\
         To make some, run it with TRACER_ENABLE=1 in its environment, or as: tracemerge run {given}",
        places.concat(),
    )
}

fn no_traces(app: &App, choice: Choice, search: &Search) -> Error {
    let given = shown(&app.given);
    // A search that could not read everything does not show that there are no traces.
    if let Some(first) = search.unreadable.first() {
        let more = search.unreadable.len() as u64 - 1;
        let more =
            if more == 0 { String::new() } else { format!("; neither can {}", count(more, "other file")) };
        return Error::plain(format!("no trace file of {given} can be read: {first}{more}"));
    }
    if let Some(first) = search.errors.first() {
        return Error::plain(format!(
            "found nothing of {given}, but not all places can be searched: {first}"
        ));
    }
    if app.is_directory() {
        return Error::plain(format!("no trace files in {given}: none is called <name>.trace.<thread id>"));
    }
    match choice {
        Choice::Process { .. } => {
            return Error::plain(format!("{given} wrote no trace: {}", untraced::reason(app)));
        }
        Choice::Alone { pid, .. } => {
            return Error::plain(format!("process {pid} ({given}) has not traced anything yet"));
        }
        Choice::Newest | Choice::All => {}
    }
    if let Some(program) = program_of_trace_file(&app.given) {
        return Error::plain(format!(
            "{given} is a file of a trace. Name the program that made it: {}",
            shown(&program)
        ));
    }
    let meant = subcommand_like(&app.given)
        .map_or_else(String::new, |name| format!(" Did you mean the command '{name}'?"));
    Error::plain(format!("no trace files of {given}.{meant} {}", search_and_remedy(app, search)))
}

/// Returns the path of the program to which the trace file, or the merged file, at `path` belongs according to its
/// name. Returns `None` if the file does not exist, or if its name is not one of a trace or of a merged file.
fn program_of_trace_file(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().filter(|_| path.is_file())?;
    let merged = without_merged_suffix(path);
    let program = app_of_trace(name).or((merged != name && !merged.is_empty()).then_some(merged))?;
    Some(path.with_file_name(program))
}

/// Reports runs of one boot whose clocks disagree.
fn report_clocks(chosen: &Chosen, messages: &mut Messages) {
    let apart = chosen.system_clocks_differ_by();
    if apart >= CLOCKS_APART_NS {
        messages.note(format_args!(
            "the clocks of runs with TRACER_CLOCK=system differ by {} s when compared with the wall clock: either \
             the wall clock was set meanwhile, or a run was in a time namespace. Their lines are in the order of \
             the system's clock, which is wrong if it was a time namespace",
            Grouped(apart.saturating_add(500_000_000) / 1_000_000_000),
        ));
    }
}

fn report_choice(chosen: &Chosen, choice: Choice, messages: &mut Messages) {
    if choice == Choice::Newest && chosen.left_out_runs > 0 {
        let runs = count(chosen.left_out_runs as u64, "older run");
        let files = count(chosen.left_out_files as u64, "file");
        let them = if chosen.left_out_runs == 1 { "it" } else { "them" };
        messages.note(format_args!("left out {runs} ({files}); --all-runs merges {them} too"));
    }
    if !chosen.others.is_empty() {
        messages.note(format_args!(
            "left out files of other users: {}; --all-runs includes them, and so does tracemerge if these users \
             run it",
            of_users(&chosen.others)
        ));
    }
    let mut not_own = chosen.owners.clone();
    not_own.remove(&effective_user());
    if !not_own.is_empty() {
        messages.note(format_args!("some files shown belong to other users: {}", of_users(&not_own)));
    }
    chosen.doubts.iter().for_each(|doubt| doubt.report_to_user(messages));
    copies::report(&chosen.copies, messages);
    let mut unknown: FirstItems<&Path> = FirstItems::default();
    for trace in chosen.boots.iter().flatten() {
        if trace.holes > 0 {
            messages.warn(format_args!(
                "{} has {} in holes (ranges that were never written): these are skipped, and offsets in messages \
                 do not count them",
                shown(&trace.path),
                count(trace.holes, "byte")
            ));
        }
        match &trace.run {
            // The damage has been reported.
            None if trace.claim.is_some() => {}
            None => unknown.push(&trace.path),
            Some(run) if run.version > trace_format::VERSION => messages.warn(format_args!(
                "{} has format version {}, newer than this tracemerge knows ({}): install a newer tracemerge",
                shown(&trace.path),
                run.version,
                trace_format::VERSION
            )),
            Some(_) => {}
        }
    }
    for (path, more) in unknown.each() {
        messages.warn(format_args!(
            "{} does not begin with a readable '# run' line, so its run is unknown; it is merged anyway{more}",
            shown(path)
        ));
    }
}

/// Returns the number of threads that the chosen files belong to. All files of a thread begin with the same ticks,
/// which distinguish the thread from a later one with the same id. Files of thread states belong to no thread.
pub(crate) fn threads(chosen: &Chosen) -> u64 {
    let thread = |trace: &Trace| {
        let run = trace.run.as_ref();
        (trace.owner, run.map(|run| (run.boot.clone(), run.pid, run.id)), trace.tid, trace.first)
    };
    let of_threads = chosen.boots.iter().flatten().filter(|trace| !trace.marks.has_states());
    of_threads.map(thread).collect::<HashSet<_>>().len() as u64
}
