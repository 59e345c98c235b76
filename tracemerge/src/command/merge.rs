//! The merge into a file, room by room: find the traces, open them as inputs, merge, write. Where a part is asked for, or
//! another look, the way goes through [`crate::view`] instead.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use trace_format::meta::Run;

use crate::command::options::Options;
use crate::find::choose::{Choice, Chosen};
use crate::find::discover::App;
use crate::find::header::Trace;
use crate::find::{Found, find_traces_of_all, threads};
use crate::input::align::align;
use crate::input::foreign;
use crate::input::source::Source;
use crate::merge::attempt::{open, write};
use crate::output::target::Target;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};
use crate::view;

/// What is to be merged, and where to.
#[derive(Debug)]
pub struct Job<'a> {
    /// The applications whose traces are merged; at least one.
    pub apps: &'a [App],
    /// Where the output goes, and what is shown.
    pub options: &'a Options,
    /// Which runs.
    pub choice: Choice,
}

/// Does the whole work.
///
/// # Errors
/// Where nothing could be merged, or the output could not be written.
pub fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    let Options { output, view, verbose, with, .. } = job.options;
    if *verbose {
        messages.tell_details();
    }
    let Found { chosen, inputs, completeness, .. } = find_traces_of_all(job.apps, job.choice, messages)?;
    completeness.tell(false, messages);
    let screen = (output.is_none() && view.is_asked_for()).then_some(OsStr::new("-"));
    let target = Target::new(output.as_deref().or(screen), job.apps, &inputs)?;
    if !view.is_plain(&target) {
        return view::show(view, with, &chosen, &target, messages);
    }
    let threads = threads(&chosen);
    let mut boots = open(&chosen, messages)?;
    foreign::add(with, &chosen, &mut boots, messages)?;
    if boots.len() > 1 {
        let runs_open = runs_of(&boots, &chosen);
        align(&mut boots, &runs_open, messages)?;
    }
    let sources = || boots.iter().flatten();
    for source in sources().filter(|_| *verbose) {
        let bytes = count(source.size() as u64, "byte");
        messages.detail(format_args!("{}: {bytes}", shown(&source.path)));
    }
    let rings = sources().filter(|source| source.is_ring()).count();
    let (files, runs) = ((sources().count() - rings) as u64, chosen.runs as u64);
    let Some(lines) = write(&mut boots, &target, messages)? else { return Ok(()) };
    let merged = match (count(files, "file"), count(rings as u64, "ring")) {
        (files, _) if rings == 0 => files,
        (_, of_rings) if files == 0 => of_rings,
        (files, rings) => format!("{files} and {rings}"),
    };
    let logs = if with.is_empty() { String::new() } else { format!(", {}", count(with.len() as u64, "log")) };
    let runs = if runs == 0 { "an unknown run".to_owned() } else { count(runs, "run") };
    let (threads, lines, target) = (count(threads, "thread"), count(lines, "line"), target.name());
    // The process ends soon, which unmaps thousands of files sooner than this would.
    std::mem::forget(boots);
    messages.done(format_args!("merged {merged} of {runs} ({threads}{logs}, {lines}) into {target}"));
    Ok(())
}

/// The runs of what is open.
fn runs_of(boots: &[Vec<Source>], chosen: &Chosen) -> Vec<Vec<Option<Run>>> {
    let mut known: HashMap<&Path, &Trace> = HashMap::new();
    for trace in chosen.boots.iter().flatten() {
        known.insert(&trace.path, trace);
        if let Some(held) = &trace.held {
            known.insert(&held.ring, trace);
        }
    }
    let run = |source: &Source| known.get(&*source.path).and_then(|trace| trace.run.clone());
    boots.iter().map(|sources| sources.iter().map(run).collect()).collect()
}
