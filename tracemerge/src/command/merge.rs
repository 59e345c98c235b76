//! The merge of traces, in these steps: it finds the traces, opens them as inputs, plans which of their lines are
//! wanted, and merges and writes these lines. A view takes the same steps as a merge of all lines.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::{Meta, Thread};

use crate::find::app::{App, without_merged_suffix};
use crate::find::choose::{Choice, Chosen};
#[cfg(feature = "tui")]
use crate::find::find_traces_of_all;
use crate::find::{Found, find_part_of_all, threads};
use crate::input::inputs::{Inputs, Origin};
use crate::input::site_catalog::SiteCatalog;
#[cfg(any(feature = "tui", feature = "parquet"))]
use crate::merge::Stop;
use crate::output::target::Target;
use crate::symbols::Settings;
use crate::ui::colour::Palette;
use crate::ui::console::{Content, Stream};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count, shown};
use crate::view::delivery::Delivery;
use crate::view::export::format::OutputFormat;
use crate::view::export::named_lines::NamedLines;
use crate::view::export::show::ShowLayout;
use crate::view::export::summary::SummaryLayout;
use crate::view::export::time_column::{TimeColumn, TimeMode};
use crate::view::function_names::{SharedNames, lock};
use crate::view::layout::{Context, Destination, Layout, Needs};
use crate::view::long_waits::long_waits_in_words;
use crate::view::plan::Plan;
use crate::view::request::{ClosingView, Request, View, is_terminal};
use crate::view::select::{Amount, Selection};
use crate::view::sites::SiteSelection;
use crate::view::thread_labels::{RecordedName, has_several_names, thread_labels, thread_labels_in_time};
use crate::view::thread_states::ThreadStates;
use crate::view::unmatched::unmatched_in_words;

/// The applications and runs to merge, and the user's request.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// The applications whose traces are merged; at least one.
    pub apps: &'a [App],
    /// The request of the user.
    pub request: &'a Request,
    /// The choice of the runs to merge.
    pub choice: Choice,
}

/// Merges the traces of a job and writes the result, in the layout that the request names.
///
/// # Errors
/// If nothing could be merged, or if the output could not be written.
pub(crate) fn run(job: &Job, messages: &mut Messages) -> Result<(), Error> {
    let Request { output, verbose, with, sync, .. } = job.request;
    let layout = &*job.request.layout;
    let (needs, destination) = (layout.needs(), layout.destination());
    refuse_missing(destination)?;
    let mut view = job.request.view.clone();
    if needs.sites {
        let sites = view.selection.sites.get_or_insert_default();
        if needs.values {
            sites.catalog = Arc::new(SiteCatalog::with_values());
        }
    }
    if *verbose {
        messages.show_details();
    }
    let Found { chosen, inputs: input_ids, completeness, merged_path, .. } =
        find_part_of_all(job.apps, job.choice, &job.request.part(), messages)?;
    completeness.report_to_user(false, messages);
    let is_merge = matches!(destination, Destination::Merged);
    let is_view = view.is_asked_for() || !is_merge;
    let is_shown = is_view && !matches!(destination, Destination::Exported(_));
    let named = &job.request.default_output;
    let stdout = (output.is_none() && named.is_none() && is_shown).then_some(OsStr::new("-"));
    let default = named.clone().unwrap_or_else(|| default_path(destination, &merged_path));
    let target = match destination {
        Destination::Exported(format) if format.is_directory() => {
            Target::directory(output.as_deref(), &default, format.name)?
        }
        _ => Target::new(output.as_deref().or(stdout), &default, job.apps, &input_ids)?,
    };
    refuse_terminal(destination, &target)?;
    let closing =
        if is_view { ClosingView::Nothing } else { closing_view(job.request.closing_view, &target) };
    let with_names = *verbose || !view.thread.is_empty() || !is_merge || closing != ClosingView::Nothing;
    let mut inputs = Inputs::open(&chosen, with, sync, with_names, messages)?;
    if view.selection.sites.is_some() {
        report_missing_sites(&inputs, messages);
    }
    let mut plan = Plan::new(&mut inputs, &view, needs, messages)?;
    if *verbose {
        plan.show_details(&inputs, messages);
    }
    // If records are counted, short calls count, too.
    if view.selection.takes_all() {
        inputs.leave_out_shorter_calls(layout.min_duration());
    }
    let in_colours = view.colours(&target);
    let symbols = symbols_of(&job.request.symbols, &chosen);
    let mut context = context_of(needs, &view, &inputs, &plan, symbols);
    context.apps = given(job.apps);
    context.depth = job.request.depth;
    context.palette = in_colours.then(Palette::colours);
    context.on_terminal = is_terminal(&target);
    let names = &context.names.clone();
    let names_in_lines = job.request.puts_names_into_lines();
    learn_needed_names(&mut context, &inputs, &view, needs, names_in_lines || needs.calls);
    let format = || {
        let format = layout.format(&context);
        if names_in_lines { Box::new(NamedLines::new(format, names.clone())) } else { format }
    };
    let delivery = Delivery {
        inputs: &mut inputs,
        plan: &mut plan,
        selection: &view.selection,
        format: &format,
        target: &target,
        content: job.request.content(in_colours),
        paged: view.pages(&target)
            && !layout.is_summary()
            && !matches!(destination, Destination::Exported(_)),
    };
    let written = delivery.write(messages)?;
    lock(names).take_warnings().into_iter().for_each(|warning| messages.warn(warning));
    lock(names).take_notes().into_iter().for_each(|note| messages.note(note));
    let Some(lines) = written else { return Ok(()) };
    if lines == 0 && view.has_period() {
        plan.show_times(&inputs, messages);
    }
    if lines == 0 && !view.selecting_options().is_empty() {
        let (files, options) =
            (count(inputs.files().count() as u64, "file"), view.selecting_options().join(" and "));
        let of_sites = || view.selection.sites.as_ref().map(SiteSelection::alternatives);
        let unmatched = unmatched_in_words(&mut inputs, &mut plan, &view.selection);
        let alternatives = unmatched.or_else(of_sites).unwrap_or_default();
        messages.note(format_args!(
            "no records found: none of the records in {files} fits {options}{alternatives}"
        ));
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
        let symbols = symbols_of(&job.request.symbols, &chosen);
        show_closing(closing, (&mut inputs, job.apps), &view, symbols, messages);
    } else if !is_terminal(&target) && !matches!(target, Target::Stdout if !is_merge) {
        let runs = count(chosen.runs as u64, "run");
        messages.done(format_args!("selected {lines} of {runs} into {name}"));
    }
    if !layout.reports_waits() && !view.has_period() {
        long_waits_in_words(&mut inputs).into_iter().for_each(|waits| messages.done(waits));
    }
    // The process ends soon, and its end unmaps thousands of files faster than a drop would.
    std::mem::forget(inputs);
    Ok(())
}

/// Returns the path of the output that is used if the user names none. `merged` is the default path for merged lines.
pub(crate) fn default_path(destination: Destination, merged: &Path) -> PathBuf {
    let Destination::Exported(format) = destination else { return merged.to_owned() };
    let mut name = without_merged_suffix(merged);
    name.push(".");
    name.push(format.extension);
    merged.with_file_name(name)
}

/// Returns an error if this command was built without the requested format. The error says how to build it with the
/// format.
fn refuse_missing(destination: Destination) -> Result<(), Error> {
    match destination {
        Destination::Exported(OutputFormat { name, make: None, .. }) => Err(Error::plain(format!(
            "this tracemerge was built without {name}; to build it with that, run in a checkout: cargo install \
             --path tracemerge --features {name}"
        ))),
        _ => Ok(()),
    }
}

/// Returns an error if a format that is not text would be written to a terminal. The error says what to do instead.
fn refuse_terminal(destination: Destination, target: &Target) -> Result<(), Error> {
    match destination {
        Destination::Exported(format) if !format.is_text() && is_terminal(target) => {
            let name = format.name;
            Err(Error::plain(format!(
                "the format {name} is not text, so it is not written to a terminal: name a file with -o FILE"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the settings by which the names of functions in the chosen traces are looked up.
fn symbols_of(settings: &Settings, chosen: &Chosen) -> Settings {
    settings.for_traces(chosen.boots.iter().flatten().map(|trace| trace.path.as_path()))
}

/// Returns what formats need to know to write this view, such as times and labels. Colours are left out.
fn context_of(needs: Needs, view: &View, inputs: &Inputs, plan: &Plan<'_>, symbols: Settings) -> Context {
    let Selection { pattern, invert, sites, .. } = &view.selection;
    let time = TimeColumn::new(view.time, plan.times.steady.0, plan.zone.clone());
    let labels = if needs.labels { thread_labels(inputs) } else { Vec::new() };
    Context {
        labels,
        last: plan.times.steady.1,
        untils: plan.untils(inputs),
        ends: if needs.ends { process_ends(inputs) } else { Vec::new() },
        states: Arc::new(if needs.states { ThreadStates::read(inputs) } else { ThreadStates::default() }),
        catalog: sites.as_ref().map(|sites| sites.catalog.clone()).unwrap_or_default(),
        found: pattern.clone().filter(|_| !invert),
        ..Context::new(time, symbols)
    }
}

/// Returns, for each origin, the time of the last line of its process, in nanoseconds of steady time.
fn process_ends(inputs: &Inputs) -> Vec<u64> {
    let process = |origin: &Origin| origin.run.as_ref().map(|run| (run.pid, run.id));
    let mut ends = HashMap::new();
    for (origin, source) in inputs.files() {
        let end = source.ends().map_or(0, |(_, last)| origin.clock.steady(Ticks(last)));
        let of_process = ends.entry(process(origin)).or_insert(end);
        *of_process = end.max(*of_process);
    }
    inputs.origins.iter().map(|origin| ends.get(&process(origin)).copied().unwrap_or(u64::MAX)).collect()
}

/// Reads names from the lines of all inputs into `context`, as far as the view needs them: the modules if
/// `of_functions`, and the times at which threads got their labels. Without this, the view would miss some of these
/// names, because it leaves out their lines or reaches them too late. If the view misses none, nothing is read.
fn learn_needed_names(context: &mut Context, inputs: &Inputs, view: &View, needs: Needs, of_functions: bool) {
    let are_left_out = view.leaves_out();
    let of_threads = needs.labels_in_time && (are_left_out || has_several_names(inputs));
    if of_threads || (of_functions && are_left_out) {
        learn_names(context, inputs, of_threads);
    }
}

/// Reads names from the lines of all inputs into `context`: the modules and, if `also_labels`, the times at which
/// threads got their labels.
pub(crate) fn learn_names(context: &mut Context, inputs: &Inputs, also_labels: bool) {
    let recorded = learn_from_all(inputs, &context.names);
    if also_labels {
        let in_time = thread_labels_in_time(inputs, &context.labels, recorded);
        context.labels_in_time = Some(Arc::new(in_time));
    }
}

/// Reads the lines about modules and about names of threads in all inputs. Adds the modules to `names`, and returns the
/// names of threads.
fn learn_from_all(inputs: &Inputs, names: &SharedNames) -> Vec<RecordedName> {
    let mut names = lock(names);
    let mut recorded = Vec::new();
    let boots = inputs.boots.iter().enumerate().flat_map(|(boot, sources)| sources.iter().map(move |_| boot));
    for (number, (boot, (origin, source))) in boots.zip(inputs.files()).enumerate() {
        let process = names.process(origin);
        source.each_meta(&mut |payload| {
            names.take_meta(process, payload);
            if payload.starts_with(b"name ") || payload.starts_with(b"thread ") {
                let (ticks, name) = match Meta::parse(payload) {
                    Some(Meta::Name { ticks, name }) => (Some(ticks), name),
                    Some(Meta::Thread(Thread { name, .. })) => (None, name),
                    _ => return,
                };
                recorded.push(RecordedName { boot, ticks, origin: number, name });
            }
        });
    }
    recorded
}

/// Tells the user how many traces do not record the call sites of their messages, if there are any.
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

/// The number of last records that a merge may show on the terminal when it is done.
const END: usize = 5;
/// The maximum size of the traces, in bytes, for which a merge shows a summary when it is done. For text of this size,
/// a summary took half a second on two processors.
const MOST_SUMMED_UP: usize = 128 << 20;

/// Returns the names of applications as the user wrote them.
fn given(apps: &[App]) -> Vec<String> {
    apps.iter().map(|app| app.given.to_string_lossy().into_owned()).collect()
}

/// Returns the view that a merge into `target` shows when it is done: the view `wanted` if the target is a file and
/// standard error is a terminal; otherwise no view.
fn closing_view(wanted: ClosingView, target: &Target) -> ClosingView {
    let may_print = matches!(target, Target::File { .. }) && Stream::Error.is_terminal();
    if may_print { wanted } else { ClosingView::Nothing }
}

/// Shows a closing view after a merge of `apps`, on standard error: a summary, or the last records. Does not report
/// problems with the inputs, because the merge has reported them.
fn show_closing(
    closing: ClosingView,
    (inputs, apps): (&mut Inputs, &[App]),
    view: &View,
    symbols: Settings,
    messages: &mut Messages,
) {
    let size = |inputs: &Inputs| inputs.files().map(|(_, source)| source.size()).sum::<usize>();
    let (layout, amount): (Box<dyn Layout>, Amount) = match closing {
        ClosingView::Nothing => return,
        ClosingView::Summary if size(inputs) > MOST_SUMMED_UP => {
            let apps: Vec<String> = apps.iter().map(|app| shown(&app.given)).collect();
            let apps = apps.join(" ");
            return messages.done(format_args!("tracemerge summary {apps} shows this run on one screen"));
        }
        ClosingView::Summary => (Box::new(SummaryLayout::default()), Amount::All),
        ClosingView::LastRecords => (Box::new(ShowLayout::default()), Amount::Last(END)),
    };
    let selection = Selection { amount, ..Selection::default() };
    let view = View { selection, time: TimeMode::Offset, ..view.clone() };
    let silent = &mut Messages::silent();
    let needs = layout.needs();
    let Ok(mut plan) = Plan::new(inputs, &view, needs, silent) else { return };
    let mut context = context_of(needs, &view, inputs, &plan, symbols);
    context.palette = view.color.is_now(true).then(Palette::colours);
    context.apps = given(apps);
    learn_from_all(inputs, &context.names);
    let format = || layout.format(&context);
    let mut text = Vec::new();
    let selection = &view.selection;
    let target = &Target::Stdout;
    let (format, content) = (&format, Content::Text);
    let delivery = Delivery { inputs, plan: &mut plan, selection, format, target, content, paged: false };
    if delivery.write_into(&mut text).is_ok() {
        messages.show(&text);
    }
}

/// Returns the traces of a job as text in the layout of its request. Does not report problems with the inputs, because
/// the caller has done so.
///
/// # Errors
/// If there are no traces, or if they cannot be read.
#[cfg(feature = "tui")]
pub(crate) fn text_of(job: &Job) -> Result<Vec<u8>, Error> {
    let silent = &mut Messages::silent();
    let chosen = find_traces_of_all(job.apps, job.choice, silent)?.chosen;
    let mut text = Vec::new();
    write_chosen(&chosen, job.apps, job.request, silent, |delivery, _| delivery.write_into(&mut text))?;
    Ok(text)
}

/// Prepares the merge of the chosen traces in the layout of `request`, and calls `write` with it, which executes the
/// merge and writes the result.
///
/// # Errors
/// If the traces cannot be read, or the output cannot be written.
#[cfg(any(feature = "tui", feature = "parquet"))]
pub(crate) fn write_chosen(
    chosen: &Chosen,
    apps: &[App],
    request: &Request,
    messages: &mut Messages,
    write: impl FnOnce(Delivery<'_, '_>, &mut Messages) -> Result<(), Stop>,
) -> Result<(), Error> {
    let (layout, mut view) = (&*request.layout, request.view.clone());
    let needs = layout.needs();
    if needs.sites {
        let sites = view.selection.sites.get_or_insert_default();
        if needs.values {
            sites.catalog = Arc::new(SiteCatalog::with_values());
        }
    }
    let mut inputs = Inputs::open(chosen, &request.with, &request.sync, true, messages)?;
    let mut plan = Plan::new(&mut inputs, &view, needs, messages)?;
    let mut context = context_of(needs, &view, &inputs, &plan, symbols_of(&request.symbols, chosen));
    context.apps = given(apps);
    context.depth = request.depth;
    learn_needed_names(&mut context, &inputs, &view, needs, needs.calls);
    // What is not in order is known before.
    plan.check_all_bytes(&mut inputs)?;
    let format = || layout.format(&context);
    let (selection, target, format) = (&view.selection, &Target::Stdout, &format);
    let (inputs, plan, content) = (&mut inputs, &mut plan, Content::Text);
    let delivery = Delivery { inputs, plan, selection, format, target, content, paged: false };
    match write(delivery, messages) {
        Ok(()) => Ok(()),
        Err(Stop::Write(error)) => Err(Error::plain(error.to_string())),
        Err(Stop::Backward { path }) => Err(Error::plain(format!(
            "{} was changed while it was read: run the command again",
            shown(&path)
        ))),
    }
}

/// Returns a text with the numbers of files and of rings that are merged.
fn merged(inputs: &Inputs) -> String {
    let rings = inputs.files().filter(|(_, source)| source.is_ring()).count() as u64;
    let files = inputs.files().count() as u64 - rings;
    match (count(files, "file"), count(rings, "ring")) {
        (files, _) if rings == 0 => files,
        (_, of_rings) if files == 0 => of_rings,
        (files, of_rings) => format!("{files} and {of_rings}"),
    }
}
