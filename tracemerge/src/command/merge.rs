//! The merge: find the traces, open them as inputs, plan which of their lines are wanted, merge these, and
//! write them. A view goes the same way as the merge of all lines.

use std::ffi::OsStr;

use crate::find::choose::Choice;
use crate::find::discover::App;
use crate::find::{Found, find_traces_of_all, threads};
use crate::input::inputs::Inputs;
use crate::output::target::Target;
use crate::ui::colour::Palette;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count};
use crate::view::delivery::Delivery;
use crate::view::export::text::{TextFormat, TextStyle};
use crate::view::export::time_column::TimeColumn;
use crate::view::plan::Plan;
use crate::view::request::{Request, is_terminal};

/// The applications and runs that are merged, and the request for it.
#[derive(Debug)]
pub struct Job<'a> {
    /// The applications whose traces are merged; at least one.
    pub apps: &'a [App],
    /// The request of the user.
    pub request: &'a Request,
    /// The choice of the applications' runs.
    pub choice: Choice,
}

/// Does a job from its beginning to its end.
///
/// # Errors
/// Nothing could be merged, or the output could not be written.
pub fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    let Request { output, view, verbose, with, .. } = job.request;
    if *verbose {
        messages.tell_details();
    }
    let Found { chosen, inputs: input_ids, completeness, merged_path, .. } =
        find_traces_of_all(job.apps, job.choice, messages)?;
    completeness.tell(false, messages);
    let stdout = (output.is_none() && view.is_asked_for()).then_some(OsStr::new("-"));
    let target = Target::new(output.as_deref().or(stdout), &merged_path, job.apps, &input_ids)?;
    let with_names = *verbose || !view.thread.is_empty();
    let mut inputs = Inputs::open(&chosen, with, with_names, messages)?;
    let mut plan = Plan::new(&mut inputs, view, messages)?;
    if *verbose {
        plan.tell_details(&inputs, messages);
    }
    let selection = &view.selection;
    let style = TextStyle {
        time: TimeColumn::new(view.time, plan.times.first, plan.zone.clone()),
        palette: view.colours(&target).then(Palette::colours),
        found: selection.pattern.clone().filter(|_| !selection.invert),
    };
    let delivery = Delivery {
        inputs: &mut inputs,
        plan: &mut plan,
        selection,
        format: &|| Box::new(TextFormat::new(style.clone())),
        target: &target,
        paged: view.pages(&target),
    };
    let Some(lines) = delivery.write(messages)? else { return Ok(()) };
    if lines == 0 && view.is_of_a_time() {
        plan.tell_times(&inputs, messages);
    }
    let (lines, name) = (count(lines, "line"), target.name());
    if !view.is_asked_for() && !is_terminal(&target) {
        let merged = merged(&inputs);
        let runs =
            if chosen.runs == 0 { "an unknown run".to_owned() } else { count(chosen.runs as u64, "run") };
        let logs =
            if with.is_empty() { String::new() } else { format!(", {}", count(with.len() as u64, "log")) };
        let threads = count(threads(&chosen), "thread");
        messages.done(format_args!("merged {merged} of {runs} ({threads}{logs}, {lines}) into {name}"));
    } else if !is_terminal(&target) {
        let runs = count(chosen.runs as u64, "run");
        messages.done(format_args!("selected {lines} of {runs} into {name}"));
    }
    // The process ends soon, and its end unmaps thousands of files sooner than a drop would.
    std::mem::forget(inputs);
    Ok(())
}

/// Returns the number of merged files and rings in words.
fn merged(inputs: &Inputs) -> String {
    let rings = inputs.files().filter(|(_, source)| source.is_ring()).count() as u64;
    let files = inputs.files().count() as u64 - rings;
    match (count(files, "file"), count(rings, "ring")) {
        (files, _) if rings == 0 => files,
        (_, of_rings) if files == 0 => of_rings,
        (files, of_rings) => format!("{files} and {of_rings}"),
    }
}
