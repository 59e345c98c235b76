//! The merge: finds the traces, opens them as inputs, plans which of their lines are wanted, merges these, and writes
//! them. A view takes the same steps as the merge of all lines.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::find::app::{App, without_merged_suffix};
use crate::find::choose::{Choice, Chosen};
use crate::find::{Found, find_traces_of_all, threads};
use crate::input::inputs::Inputs;
use crate::input::site_catalog::SiteCatalog;
use crate::output::target::Target;
use crate::symbols::Settings;
use crate::ui::colour::Palette;
use crate::ui::console::{Content, Stream};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count};
use crate::view::calls::Depth;
use crate::view::delivery::Delivery;
use crate::view::export::Export;
use crate::view::export::events::EventExport;
use crate::view::export::locks::LocksFormat;
use crate::view::export::named_lines::NamedLines;
use crate::view::export::report::ReportFormat;
use crate::view::export::show::{Column, ShowFormat, ShowStyle};
use crate::view::export::stats::StatsFormat;
use crate::view::export::text::{TextFormat, TextStyle};
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::export::tree::TreeFormat;
use crate::view::function_names::{FunctionNames, SharedNames, lock};
use crate::view::plan::Plan;
use crate::view::request::{Layout, Request, View, is_terminal};
use crate::view::select::{Amount, Selection};
use crate::view::thread_labels::thread_labels;

/// The applications and runs to merge, and the user's request.
#[derive(Debug)]
pub struct Job<'a> {
    /// The applications whose traces are merged; at least one.
    pub apps: &'a [App],
    /// The request of the user.
    pub request: &'a Request,
    /// The choice of the applications' runs.
    pub choice: Choice,
}

/// Does a job completely.
///
/// # Errors
/// If nothing could be merged, or if the output could not be written.
pub fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    let Request { output, verbose, with, layout, .. } = job.request;
    refuse_missing(layout)?;
    let mut view = job.request.view.clone();
    if layout.contains_sites() {
        let sites = view.selection.sites.get_or_insert_default();
        if layout.contains_values() {
            sites.catalog = Arc::new(SiteCatalog::with_values());
        }
    }
    if layout.contains_times() && view.time == TimeMode::Ticks {
        // Durations need the clocks.
        view.time = TimeMode::Offset;
    }
    if *verbose {
        messages.show_details();
    }
    let Found { chosen, inputs: input_ids, completeness, merged_path, .. } =
        find_traces_of_all(job.apps, job.choice, messages)?;
    completeness.report_to_user(false, messages);
    let is_view = view.is_asked_for() || *layout != Layout::Trace;
    let is_shown = layout.is_shown() || (view.is_asked_for() && *layout == Layout::Trace);
    let named = &job.request.default_output;
    let stdout = (output.is_none() && named.is_none() && is_shown).then_some(OsStr::new("-"));
    let default = named.clone().unwrap_or_else(|| default_path(layout, &merged_path));
    let target = match layout {
        Layout::Other(format) if format.is_directory() => {
            Target::directory(output.as_deref(), &default, format.named().0)?
        }
        _ => Target::new(output.as_deref().or(stdout), &default, job.apps, &input_ids)?,
    };
    refuse_terminal(layout, &target)?;
    let shows_end = job.request.shows_end && !is_view && shows_end_of(&target);
    let with_names = *verbose || !view.thread.is_empty() || *layout != Layout::Trace || shows_end;
    let mut inputs = Inputs::open(&chosen, with, with_names, messages)?;
    if view.selection.sites.is_some() {
        report_missing_sites(&inputs, messages);
    }
    let mut plan = Plan::new(&mut inputs, &view, messages)?;
    if *verbose {
        plan.show_details(&inputs, messages);
    }
    if let Layout::Tree(style) = layout {
        // If records are counted, short calls count, too.
        if view.selection.takes_all() {
            inputs.leave_out_shorter_calls(style.min_duration);
        }
    }
    let names = names_of(&job.request.symbols, &chosen);
    let names_in_lines = job.request.names_in_lines;
    if (names_in_lines || layout.contains_calls()) && view.leaves_out() {
        learn_modules(&inputs, &names);
    }
    let in_colours = view.colours(&target);
    let palette = in_colours.then(Palette::colours);
    let format = format_of(layout, &view, &inputs, &plan, palette, (&names, job.request.depth));
    let format = if names_in_lines { naming(format, &names) } else { format };
    let delivery = Delivery {
        inputs: &mut inputs,
        plan: &mut plan,
        selection: &view.selection,
        format: &*format,
        target: &target,
        content: job.request.content(in_colours),
        paged: view.pages(&target) && !layout.is_summary() && !matches!(layout, Layout::Other(_)),
    };
    let written = delivery.write(messages)?;
    lock(&names).take_warnings().into_iter().for_each(|warning| messages.warn(warning));
    let Some(lines) = written else { return Ok(()) };
    if lines == 0 && view.has_period() {
        plan.show_times(&inputs, messages);
    }
    let (lines, name) = (count(lines, "line"), target.name());
    if !is_view && !is_terminal(&target) {
        let merged = merged(&inputs);
        let runs =
            if chosen.runs == 0 { "an unknown run".to_owned() } else { count(chosen.runs as u64, "run") };
        let logs =
            if with.is_empty() { String::new() } else { format!(", {}", count(with.len() as u64, "log")) };
        let threads = count(threads(&chosen), "thread");
        messages.done(format_args!("merged {merged} of {runs} ({threads}{logs}, {lines}) into {name}"));
        if shows_end {
            show_end(&mut inputs, &view, messages);
        }
    } else if !is_terminal(&target) && !matches!(target, Target::Stdout if *layout != Layout::Trace) {
        let runs = count(chosen.runs as u64, "run");
        messages.done(format_args!("selected {lines} of {runs} into {name}"));
    }
    // The process ends soon, and its end unmaps thousands of files faster than a drop would.
    std::mem::forget(inputs);
    Ok(())
}

/// Returns the path of the output if the user names none; `merged` is that of the merged file.
pub fn default_path(layout: &Layout, merged: &Path) -> PathBuf {
    let Layout::Other(format) = layout else { return merged.to_owned() };
    let mut name = without_merged_suffix(merged);
    name.push(".");
    name.push(format.extension());
    merged.with_file_name(name)
}

/// Returns an error for a format that this command was built without, with the way to get it.
fn refuse_missing(layout: &Layout) -> Result<(), Error> {
    let Layout::Other(format) = layout else { return Ok(()) };
    let Some(feature) = format.missing_feature() else { return Ok(()) };
    Err(Error::plain(format!(
        "this tracemerge was built without {}: in a checkout, cargo install --path tracemerge --features {feature}",
        format.named().0
    )))
}

/// Returns an error with a remedy if a format that is not text would go to a terminal.
fn refuse_terminal(layout: &Layout, target: &Target) -> Result<(), Error> {
    match layout {
        Layout::Other(format) if !format.is_text() && is_terminal(target) => {
            let name = format.named().0;
            Err(Error::plain(format!("{name} is not text for a terminal; name a file with -o FILE")))
        }
        _ => Ok(()),
    }
}

/// Returns the names of functions, which are looked up on request. Binaries may be in the directories of the traces.
fn names_of(settings: &Settings, chosen: &Chosen) -> SharedNames {
    let mut settings = settings.clone();
    let directories = chosen.boots.iter().flatten().filter_map(|trace| trace.path.parent());
    settings.trace_dirs = directories.map(Path::to_path_buf).collect::<BTreeSet<_>>().into_iter().collect();
    Arc::new(Mutex::new(FunctionNames::new(settings)))
}

/// Adds all modules that the inputs record to `names`. Needed if the view may leave out the lines that record them.
fn learn_modules(inputs: &Inputs, names: &SharedNames) {
    let mut names = lock(names);
    for (origin, source) in inputs.files() {
        let process = names.process(origin);
        source.each_meta(&mut |payload| names.take_meta(process, payload));
    }
}

/// A function that creates the format of an output.
type FormatMaker = Box<dyn Fn() -> Box<dyn Export>>;

/// Returns a function that creates a format whose lines have the names of functions after their addresses.
fn naming(format: FormatMaker, names: &SharedNames) -> FormatMaker {
    let names = names.clone();
    Box::new(move || Box::new(NamedLines::new(format(), names.clone())))
}

/// Returns a function that creates the format of a layout.
fn format_of(
    layout: &Layout,
    view: &View,
    inputs: &Inputs,
    plan: &Plan<'_>,
    palette: Option<Palette>,
    (names, depth): (&SharedNames, Depth),
) -> FormatMaker {
    let Selection { pattern, invert, sites, .. } = &view.selection;
    let found = pattern.clone().filter(|_| !invert);
    let time = TimeColumn::new(view.time, plan.times.first, plan.zone.clone());
    let catalog = || sites.as_ref().map(|sites| sites.catalog.clone()).unwrap_or_default();
    match layout {
        Layout::Trace => {
            let style = TextStyle { time, palette, found };
            Box::new(move || Box::new(TextFormat::new(style.clone())))
        }
        Layout::Show(columns) => {
            let (columns, threads) = (columns.clone(), thread_labels(inputs));
            let style = ShowStyle { columns, time, threads, catalog: catalog(), palette, found };
            Box::new(move || Box::new(ShowFormat::new(style.clone())))
        }
        Layout::Stats(style) => {
            let (style, catalog) = (style.clone(), catalog());
            Box::new(move || Box::new(StatsFormat::new(style.clone(), catalog.clone())))
        }
        Layout::Tree(style) => {
            let (style, names, labels) = (style.clone(), names.clone(), thread_labels(inputs));
            Box::new(move || {
                Box::new(TreeFormat::new(style.clone(), time.clone(), names.clone(), labels.clone()))
            })
        }
        Layout::Report(style) => {
            let (style, names, labels) = (*style, names.clone(), thread_labels(inputs));
            Box::new(move || Box::new(ReportFormat::new(style, names.clone(), labels.clone())))
        }
        Layout::Locks(style) => {
            let (style, names, labels) = (*style, names.clone(), thread_labels(inputs));
            Box::new(move || {
                let format = LocksFormat::new(style);
                Box::new(EventExport::new(format, Depth::All, names.clone(), Arc::default(), labels.clone()))
            })
        }
        Layout::Other(format) => {
            let (format, names, labels) = (*format, names.clone(), thread_labels(inputs));
            let catalog = catalog();
            Box::new(move || format.export(depth, names.clone(), catalog.clone(), labels.clone()))
        }
    }
}

/// Reports the number of traces that do not record the call sites of their messages.
fn report_missing_sites(inputs: &Inputs, messages: &mut Messages) {
    let traces = || inputs.origins.iter().filter(|origin| !origin.is_log);
    let without = traces().filter(|origin| !origin.has_sites).count() as u64;
    if without > 0 {
        messages.note(format_args!(
            "text files and rings do not record where messages come from ({} of {} here); raw files do \
             (TRACER_FORMAT=raw)",
            Grouped(without),
            Grouped(traces().count() as u64)
        ));
    }
}

/// The number of records that a merge shows at its end on a terminal.
const END: usize = 5;

/// Returns whether a merge into `target` may end with its last records on standard error.
fn shows_end_of(target: &Target) -> bool {
    matches!(target, Target::File { .. }) && Stream::Error.is_terminal()
}

/// Shows the last records on standard error. Problems with them were reported before.
fn show_end(inputs: &mut Inputs, view: &View, messages: &mut Messages) {
    let selection = Selection { amount: Amount::Last(END), ..Selection::default() };
    let view = View { selection, time: TimeMode::Offset, ..view.clone() };
    let silent = &mut Messages::silent();
    let Ok(mut plan) = Plan::new(inputs, &view, silent) else { return };
    let palette = view.color.is_now(true).then(Palette::colours);
    let layout = Layout::Show(Column::USUAL.to_vec());
    let names = Arc::new(Mutex::new(FunctionNames::new(Settings::default())));
    let format = format_of(&layout, &view, inputs, &plan, palette, (&names, Depth::default()));
    let mut text = Vec::new();
    let selection = &view.selection;
    let target = &Target::Stdout;
    let (format, content) = (&*format, Content::Text);
    let delivery = Delivery { inputs, plan: &mut plan, selection, format, target, content, paged: false };
    if delivery.write_into(&mut text).is_ok() {
        messages.show(&text);
    }
}

/// Returns a text with the number of merged files and rings.
fn merged(inputs: &Inputs) -> String {
    let rings = inputs.files().filter(|(_, source)| source.is_ring()).count() as u64;
    let files = inputs.files().count() as u64 - rings;
    match (count(files, "file"), count(rings, "ring")) {
        (files, _) if rings == 0 => files,
        (_, of_rings) if files == 0 => of_rings,
        (files, of_rings) => format!("{files} and {of_rings}"),
    }
}
