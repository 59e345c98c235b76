//! Which traces there are, and which of them are wanted.
//!
//! In the order of their use: [`mod@recover`] takes in what dead runs left in their rings, [`rings`] reads what is still in
//! memory, [`places`] and [`discover`] give the files, [`header`] what they say of themselves, [`owners`] and [`identity`]
//! whose they are and of which run, [`mod@choose`] the runs that are shown, [`completeness`] whether all of these is there.

pub mod choose;
pub mod completeness;
pub mod discover;
pub mod header;
pub mod identity;
pub mod liveness;
pub mod marks;
pub mod owners;
pub mod places;
pub mod recover;
pub mod rings;

use std::collections::HashSet;
use std::env;
use std::path::{Path, PathBuf};

use trace_format::meta::Run;
use trace_store::recovery::{Recovered, path_from_bytes};

use crate::find::choose::{Choice, Chosen, choose};
use crate::find::completeness::Completeness;
use crate::find::discover::{App, Search, search};
use crate::find::header::{Refusal, Trace, read_all};
use crate::find::owners::{Owners, of_users, recorded};
use crate::find::places::Places;
use crate::find::recover::recover;
use crate::os::sys::{FileId, effective_user};
use crate::ui::error::Error;
use crate::ui::few::Few;
use crate::ui::messages::{Messages, count, shown};

/// Finds the trace files of `app`, also where its runs have named a place for them, and reads their headers. `held` is
/// what rings have told.
pub fn find(app: &App, places: &[PathBuf], held: &[Trace], messages: &mut Messages) -> (Vec<Trace>, Search) {
    let mut search = search(app, places);
    search.errors.iter().for_each(|error| messages.warn(error));
    let candidates = std::mem::take(&mut search.candidates);
    // A live run may be about to write the first line; or a ring has it, and recovery could not.
    let excused = |refusal: &Refusal| match refusal {
        Refusal::Empty(path) | Refusal::NoTrace(path) => {
            rings::have(held, path) || liveness::is_being_written(path)
        }
        Refusal::Unreadable(_) => false,
    };
    (read_all(candidates, app, messages, excused), search)
}

/// What there is to merge or to check.
#[derive(Debug)]
pub struct Found {
    /// The traces that are merged.
    pub chosen: Chosen,
    /// All files that were found: nothing is written over them.
    pub inputs: HashSet<FileId>,
    /// What was recovered now, of the chosen runs and of those that have no file.
    pub recovered: Vec<Recovered>,
    /// Whether all of the chosen runs is there.
    pub completeness: Completeness,
}

/// The first stages: recovers, reads what is still in memory, finds the files, chooses.
///
/// # Errors
/// Nothing is found.
pub fn gather(app: &App, choice: Choice, messages: &mut Messages) -> Result<Found, Error> {
    let choice = if app.is_directory() { Choice::All } else { choice };
    // Before anything else: what is traced from here on need not be there.
    let runs = rings::runs(|manifest| match choice {
        Choice::Alone { pid, .. } => manifest.run.pid == pid && app.is_of(manifest),
        _ => app.is_of(manifest),
    });
    // Files that are made from here on need not be there either.
    let made = runs.iter().filter_map(|run| Some((run.manifest.run.id, run.files()?))).collect();
    let alone = matches!(choice, Choice::Alone { .. });
    let mut recovered = if alone { Vec::new() } else { recover(app, messages) };
    let said = Places::of(app);
    let mut places = rings::places(&runs);
    places.extend(said.directories());
    // Needed only where rings are read.
    let before = if runs.is_empty() { Vec::new() } else { search(app, &places).candidates };
    let held = rings::read(&runs, &recovered, messages);
    let (traces, search) = find(app, &places, &held, messages);
    let traces = rings::join(traces, held, &before);
    let id = |run: &Run| (run.pid, run.id);
    let known: HashSet<_> = traces.iter().filter_map(|trace| trace.run.as_ref()).map(id).collect();
    let inputs: HashSet<FileId> = traces.iter().filter_map(|trace| trace.id.clone()).collect();
    if choice == Choice::Newest {
        is_newest_there(&said, &traces)?;
    }
    let chosen = choose(traces, choice, &Owners::of(app), recorded);
    if chosen.boots.is_empty() {
        return Err(no_traces(app, choice, &search));
    }
    tell_choice(&chosen, choice, messages);
    rings::tell_unread(&chosen.boots.iter().flatten().collect::<Vec<_>>(), &runs, messages);
    let chosen_runs = chosen.boots.iter().flatten().filter_map(|trace| trace.run.as_ref());
    let chosen_runs: HashSet<_> = chosen_runs.map(id).collect();
    recovered.retain(|of| chosen_runs.contains(&id(&of.run)) || !known.contains(&id(&of.run)));
    let completeness = Completeness::of(&chosen, &made);
    Ok(Found { chosen, inputs, recovered, completeness })
}

/// Whether the newest run that has said where its files are is among what was found, or something newer is.
///
/// # Errors
/// It is not: an older one must not be shown in its place.
fn is_newest_there(said: &Places, traces: &[Trace]) -> Result<(), Error> {
    let Some(newest) = said.newest() else { return Ok(()) };
    let mut runs = traces.iter().filter_map(|trace| trace.run.as_ref());
    if runs.any(|run| run.id == newest.id || run.wall >= newest.wall) {
        return Ok(());
    }
    let place = path_from_bytes(&newest.directory);
    let why = match std::fs::read_dir(&place) {
        Ok(_) => "none of them is there, or may be read".to_owned(),
        Err(error) => format!("that cannot be looked into: {error}"),
    };
    Err(Error::plain(format!(
        "the newest run that is known, of process {}, begun {}, has put its trace files into {}, but {why}. \
         --all-runs merges what older runs have left; 'tracemerge clean' forgets all",
        newest.pid,
        newest.wall,
        shown(&place),
    )))
}

/// Gathers what several applications have traced. One that has not traced is a loss, if others have.
///
/// # Errors
/// Nothing is found.
pub fn gather_all(apps: &[App], choice: Choice, messages: &mut Messages) -> Result<Found, Error> {
    if let [app] = apps {
        return gather(app, choice, messages);
    }
    let (mut inputs, mut completeness) = (HashSet::new(), Completeness::default());
    let (mut chosen, mut recovered, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for app in apps {
        match gather(app, choice, messages) {
            Ok(found) => {
                inputs.extend(found.inputs);
                recovered.extend(found.recovered);
                completeness.append(found.completeness);
                chosen.push(found.chosen);
            }
            Err(error) => errors.push(error),
        }
    }
    // If there is nothing at all, the last reason is the caller's to tell.
    let last = if chosen.is_empty() { errors.pop() } else { None };
    errors.iter().for_each(|error| messages.warn(error));
    if let Some(last) = last {
        return Err(last);
    }
    Ok(Found { chosen: Chosen::together(chosen), inputs, recovered, completeness })
}

fn no_traces(app: &App, choice: Choice, search: &Search) -> Error {
    let (given, name) = (shown(&app.given), app.name().to_string_lossy());
    if app.is_directory() {
        return Error::plain(format!("no trace files in {given}: none is called <name>.trace.<thread id>"));
    }
    match choice {
        Choice::Process { .. } => {
            return Error::plain(format!(
                "{given} wrote no trace: is the tracer crate linked in, and does the program call it?"
            ));
        }
        Choice::Alone { pid, .. } => {
            return Error::plain(format!("process {pid} ({given}) has not traced anything yet"));
        }
        Choice::Newest | Choice::All => {}
    }
    let places: Vec<String> = search.places.iter().map(|place| format!("\n  {}", shown(place))).collect();
    let set = if env::var_os("TRACER_DIR").is_some() { "" } else { " (TRACER_DIR is not set)" };
    Error::plain(format!(
        "no trace files of {given}. Looked for {name}.trace.<thread id> in{}{set}\n\
         To make some, run it with TRACER_ENABLE=1 in its environment, or as: tracemerge run {given}",
        places.concat(),
    ))
}

fn tell_choice(chosen: &Chosen, choice: Choice, messages: &mut Messages) {
    if choice == Choice::Newest && chosen.left_out_runs > 0 {
        let runs = count(chosen.left_out_runs as u64, "older run");
        let files = count(chosen.left_out_files as u64, "file");
        let them = if chosen.left_out_runs == 1 { "it" } else { "them" };
        messages.note(format_args!("left out {runs} ({files}); --all-runs merges {them} too"));
    }
    if !chosen.others.is_empty() {
        messages.note(format_args!(
            "left out what belongs to others: {}; it is shown to these users, and by --all-runs",
            of_users(&chosen.others)
        ));
    }
    let mut not_own = chosen.owners.clone();
    not_own.remove(&effective_user());
    if !not_own.is_empty() {
        messages.note(format_args!("not all that is shown is your own: {}", of_users(&not_own)));
    }
    chosen.doubts.iter().for_each(|doubt| doubt.tell(messages));
    let mut unknown: Few<&Path> = Few::default();
    for trace in chosen.boots.iter().flatten() {
        match &trace.run {
            // It was told.
            None if trace.claim.is_some() => {}
            None => unknown.push(&trace.path),
            Some(run) if run.version > trace_format::VERSION => messages.warn(format_args!(
                "{} is of format version {}, newer than this tracemerge knows ({})",
                shown(&trace.path),
                run.version,
                trace_format::VERSION
            )),
            Some(_) => {}
        }
    }
    for (path, more) in unknown.each() {
        messages.warn(format_args!(
            "{} does not begin with a readable '# run' line: nobody knows which run it is of; merged all the same{more}",
            shown(path)
        ));
    }
}

/// How many threads the chosen files are of: a thread may have several.
pub fn threads(chosen: &Chosen) -> u64 {
    let thread = |trace: &Trace| {
        let run = trace.run.as_ref();
        (trace.owner, run.map(|run| (run.boot.clone(), run.pid, run.id)), trace.tid)
    };
    chosen.boots.iter().flatten().map(thread).collect::<HashSet<_>>().len() as u64
}
