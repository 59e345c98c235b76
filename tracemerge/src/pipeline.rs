//! The stages in a row: recover, read rings, discover, read files, choose, merge, write. The only file that knows them
//! all.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use trace_format::meta::Run;
use tracer::recovery::Recovered;

use crate::choose::{Choice, Chosen, choose};
use crate::discover::{App, Search, search};
use crate::error::Error;
use crate::findings::Findings;
use crate::foreign;
use crate::header::{Refusal, Trace, read_all};
use crate::liveness;
use crate::merge::{Stop, merge};
use crate::messages::{Messages, count, shown};
use crate::recover::recover;
use crate::rings;
use crate::source::{Source, split, whole};
use crate::sys::FileId;
use crate::write::{Output, Target};

/// What is to be merged, and where to.
#[derive(Debug)]
pub struct Job<'a> {
    /// Whose traces.
    pub app: &'a App,
    /// What stands behind `-o`.
    pub output: Option<OsString>,
    /// Which runs.
    pub choice: Choice,
    /// Logs of others that are put between.
    pub with: Vec<PathBuf>,
}

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
    /// What is merged.
    pub chosen: Chosen,
    /// All files that were found: nothing is written over them.
    pub inputs: HashSet<FileId>,
    /// What was recovered now, of the chosen runs and of those that have no file.
    pub recovered: Vec<Recovered>,
}

/// The first stages: recovers, reads what is still in memory, finds the files, chooses.
///
/// # Errors
/// Where nothing is found.
pub fn gather(app: &App, choice: Choice, messages: &mut Messages) -> Result<Found, Error> {
    // Before anything else: what is traced from here on need not be there.
    let runs = rings::runs(|manifest| match choice {
        Choice::Alone { pid, .. } => manifest.run.pid == pid && app.is_of(manifest),
        _ => app.is_of(manifest),
    });
    let alone = matches!(choice, Choice::Alone { .. });
    let mut recovered = if alone { Vec::new() } else { recover(app, messages) };
    let places = rings::places(&runs);
    let before = search(app, &places).candidates;
    let held = rings::read(&runs, &recovered, messages);
    let (traces, search) = find(app, &places, &held, messages);
    let traces = rings::join(traces, held, &before);
    let id = |run: &Run| (run.pid, run.id);
    let known: HashSet<_> = traces.iter().filter_map(|trace| trace.run.as_ref()).map(id).collect();
    let inputs: HashSet<FileId> = traces.iter().filter_map(|trace| trace.id.clone()).collect();
    let chosen = choose(traces, choice);
    if chosen.boots.is_empty() {
        return Err(no_traces(app, choice, &search));
    }
    tell_choice(&chosen, choice, messages);
    rings::tell_unread(&chosen.boots.iter().flatten().collect::<Vec<_>>(), &runs, messages);
    let chosen_runs = chosen.boots.iter().flatten().filter_map(|trace| trace.run.as_ref());
    let chosen_runs: HashSet<_> = chosen_runs.map(id).collect();
    recovered.retain(|of| chosen_runs.contains(&id(&of.run)) || !known.contains(&id(&of.run)));
    Ok(Found { chosen, inputs, recovered })
}

/// Does the whole work.
///
/// # Errors
/// Where nothing could be merged, or the output could not be written.
pub fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    let Found { chosen, inputs, .. } = gather(job.app, job.choice, messages)?;
    let target = Target::new(job.output.as_deref(), job.app, &inputs)?;
    let threads = threads(&chosen);
    let mut boots = open(&chosen, messages)?;
    let sources = || boots.iter().flatten();
    let rings = sources().filter(|source| source.is_ring()).count();
    let (files, runs) = ((sources().count() - rings) as u64, chosen.runs as u64);
    foreign::add(&job.with, &chosen, &mut boots, messages)?;
    let Some(lines) = write(&boots, &target, messages)? else { return Ok(()) };
    let merged = match (count(files, "file"), count(rings as u64, "ring")) {
        (files, _) if rings == 0 => files,
        (_, of_rings) if files == 0 => of_rings,
        (files, rings) => format!("{files} and {rings}"),
    };
    let logs = if job.with.is_empty() {
        String::new()
    } else {
        format!(", {}", count(job.with.len() as u64, "log"))
    };
    let runs = if runs == 0 { "an unknown run".to_owned() } else { count(runs, "run") };
    let (threads, lines, target) = (count(threads, "thread"), count(lines, "line"), target.name());
    messages.done(format_args!("merged {merged} of {runs} ({threads}{logs}, {lines}) into {target}"));
    Ok(())
}

fn no_traces(app: &App, choice: Choice, search: &Search) -> Error {
    let (given, name) = (shown(&app.given), app.name().to_string_lossy());
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
    for trace in chosen.boots.iter().flatten() {
        match &trace.run {
            None => messages.warn(format_args!(
                "{} does not begin with a readable '# run' line: nobody knows which run it is of; merged all the same",
                shown(&trace.path)
            )),
            Some(run) if run.version > trace_format::VERSION => messages.warn(format_args!(
                "{} is of format version {}, newer than this tracemerge knows ({})",
                shown(&trace.path),
                run.version,
                trace_format::VERSION
            )),
            Some(_) => {}
        }
    }
}

/// How many threads the chosen files are of: a thread may have several.
pub fn threads(chosen: &Chosen) -> u64 {
    let thread = |trace: &Trace| {
        let run = trace.run.as_ref();
        (run.map(|run| (run.boot.clone(), run.pid, run.id)), trace.tid)
    };
    chosen.boots.iter().flatten().map(thread).collect::<HashSet<_>>().len() as u64
}

/// Asks whether the run of a trace is alive, of neighbours of the same run once: files of a run stand together.
pub fn asking_once() -> impl FnMut(&Trace) -> bool {
    let mut asked: Option<((u32, u32), bool)> = None;
    move |trace| {
        trace.run.as_ref().is_some_and(|run| match asked {
            Some((known, alive)) if known == (run.pid, run.id) => alive,
            _ => asked.insert(((run.pid, run.id), liveness::is_alive(run))).1,
        })
    }
}

/// Maps the files, of each run after asking whether it lives: what a live run writes later does not count.
///
/// # Errors
/// Where none can be mapped.
fn open(chosen: &Chosen, messages: &mut Messages) -> Result<Vec<Vec<Source>>, Error> {
    let mut boots = Vec::with_capacity(chosen.boots.len());
    let mut is_alive = asking_once();
    for files in &chosen.boots {
        let mut sources = Vec::with_capacity(files.len());
        for trace in files {
            match Source::open(trace, is_alive(trace)) {
                Ok(parts) => sources.extend(parts),
                Err(error) => messages.warn(error),
            }
        }
        boots.push(sources);
    }
    if boots.iter().all(Vec::is_empty) {
        return Err(Error::plain("none of the trace files can be read"));
    }
    Ok(boots)
}

/// Merges and writes, and tells what was found on the way; returns the number of lines, or `None` where the
/// reader of a pipe went away.
fn write(boots: &[Vec<Source>], target: &Target, messages: &mut Messages) -> Result<Option<u64>, Error> {
    // Where bytes cannot be taken back, the files are looked through before the first is written.
    let mut split_first = !target.can_restart();
    loop {
        let mut output = target.begin()?;
        let stop = match attempt(boots, split_first, &mut output) {
            Ok(findings) => match target.finish(output) {
                Ok(()) => {
                    boots.iter().zip(&findings).for_each(|(files, found)| found.tell(files, messages));
                    return Ok(Some(findings.iter().map(|found| found.lines).sum()));
                }
                Err(error) => Stop::Write(error),
            },
            Err(stop) => {
                output.abandon();
                stop
            }
        };
        match stop {
            Stop::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
            Stop::Write(error) => return Err(target.error(error)),
            Stop::Backward { .. } if !split_first => split_first = true,
            Stop::Backward { path } => {
                return Err(Error::plain(format!("{} was changed while it was read", shown(&path))));
            }
        }
    }
}

/// Merges boot after boot; ticks of different boots do not compare.
fn attempt(boots: &[Vec<Source>], split_first: bool, output: &mut Output) -> Result<Vec<Findings>, Stop> {
    let one = |sources: &Vec<Source>| {
        let mut findings = Findings::default();
        let pieces = if split_first { split(sources, &mut findings) } else { whole(sources) };
        merge(sources, &pieces, output, &mut findings)?;
        Ok(findings)
    };
    boots.iter().map(one).collect()
}
