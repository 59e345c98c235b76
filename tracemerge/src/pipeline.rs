//! The stages in a row: recover, discover, read, choose, merge, write. The only file that knows them all.

use std::collections::HashSet;
use std::env;
use std::ffi::OsString;
use std::io;

use crate::choose::{Choice, Chosen, choose};
use crate::discover::{App, Search, search};
use crate::error::Error;
use crate::findings::Findings;
use crate::header::{Refusal, Trace, read_all};
use crate::liveness;
use crate::merge::{Stop, merge};
use crate::messages::{Messages, count, shown};
use crate::recover::recover;
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
}

/// Finds the trace files of `app` and reads their headers.
pub fn find(app: &App, messages: &mut Messages) -> (Vec<Trace>, Search) {
    let mut search = search(app, messages);
    let candidates = std::mem::take(&mut search.candidates);
    // A live run may be about to write the first line.
    let excused = |refusal: &Refusal| match refusal {
        Refusal::Empty(path) | Refusal::NoTrace(path) => liveness::is_being_written(path),
        Refusal::Unreadable(_) => false,
    };
    (read_all(candidates, app, messages, excused), search)
}

/// Does the whole work.
///
/// # Errors
/// Where nothing could be merged, or the output could not be written.
pub fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    recover(job.app, messages);
    let (traces, search) = find(job.app, messages);
    if traces.is_empty() {
        return Err(no_traces(job, &search));
    }
    let inputs: HashSet<FileId> = traces.iter().map(|trace| trace.id.clone()).collect();
    let chosen = choose(traces, job.choice);
    if chosen.boots.is_empty() {
        return Err(no_traces(job, &search));
    }
    let target = Target::new(job.output.as_deref(), job.app, &inputs)?;
    tell_choice(&chosen, job.choice, messages);
    let threads = threads(&chosen);
    let boots = open(&chosen, messages)?;
    let (files, runs) = (boots.iter().map(Vec::len).sum::<usize>() as u64, chosen.runs as u64);
    let Some(lines) = write(&boots, &target, messages)? else { return Ok(()) };
    let files = count(files, "file");
    let runs = if runs == 0 { "an unknown run".to_owned() } else { count(runs, "run") };
    let (threads, lines, target) = (count(threads, "thread"), count(lines, "line"), target.name());
    messages.done(format_args!("merged {files} of {runs} ({threads}, {lines}) into {target}"));
    Ok(())
}

fn no_traces(job: &Job, search: &Search) -> Error {
    let app = shown(&job.app.given);
    if matches!(job.choice, Choice::Process { .. }) {
        return Error::plain(format!(
            "{app} wrote no trace: is the tracer crate linked in, and does the program call it?"
        ));
    }
    let places: Vec<String> = search.places.iter().map(|place| format!("\n  {}", shown(place))).collect();
    let set = if env::var_os("TRACER_DIR").is_some() { "" } else { " (TRACER_DIR is not set)" };
    Error::plain(format!(
        "no trace files of {app}. Looked for {}.trace.<thread id> in{}{set}\n\
         To make some, run it with TRACER_ENABLE=1 in its environment, or as: tracemerge run {app}",
        job.app.name().to_string_lossy(),
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
fn threads(chosen: &Chosen) -> u64 {
    let thread = |trace: &Trace| {
        let run = trace.run.as_ref();
        (run.map(|run| (run.boot.clone(), run.pid, run.id)), trace.tid)
    };
    chosen.boots.iter().flatten().map(thread).collect::<HashSet<_>>().len() as u64
}

/// Maps the files, of each run after asking whether it lives: what a live run writes later does not count.
fn open(chosen: &Chosen, messages: &mut Messages) -> Result<Vec<Vec<Source>>, Error> {
    let mut boots = Vec::with_capacity(chosen.boots.len());
    let mut asked: Option<((u32, u32), bool)> = None;
    for files in &chosen.boots {
        let mut sources = Vec::with_capacity(files.len());
        for trace in files {
            let alive = trace.run.as_ref().is_some_and(|run| {
                // Files of a run stand together.
                let id = (run.pid, run.id);
                match asked {
                    Some((known, alive)) if known == id => alive,
                    _ => asked.insert((id, liveness::is_alive(run))).1,
                }
            });
            match Source::open(trace, alive) {
                Ok(source) => sources.push(source),
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
