//! The subcommand `check`: proves that a trace is complete, or reports the gaps.
//!
//! It recovers dead runs as a merge does. Then it reads every thread's trace, its file and its ring, and compares the
//! records found with what the trace states about itself and with the ring's counts.

use std::collections::BTreeMap;

use trace_format::meta::{EndReason, LossReason, Run};

use crate::command::thread_audit::{Audit, PartOffset};
use crate::find::app::App;
use crate::find::choose::{Choice, Chosen};
use crate::find::header::Trace;
use crate::find::liveness::liveness_check;
use crate::find::{Found, find_traces, threads};
use crate::input::source::{Content, Source};
use crate::os::processors::map_on_all_processors;
use crate::time::clocks::TickClock;
use crate::ui::cause::in_words;
use crate::ui::console::{self, print};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, Status, are, count, shown, shown_name};

/// A thread's trace, and the result of reading it.
struct Checked<'a> {
    trace: &'a Trace,
    audit: Audit,
    alive: bool,
    /// Whether the thread's file is in raw form, not text.
    raw: bool,
    /// The number of the thread's messages that this command has recovered.
    recovered: u64,
}

/// Checks the traces of `app`, and writes the result to standard output. If `verbose`, the result lists every thread.
///
/// # Errors
/// If there is no trace, if no trace can be read, or if standard output does not accept the result.
pub(crate) fn check(
    app: &App,
    choice: Choice,
    quiet: bool,
    verbose: bool,
    messages: &mut Messages,
) -> Result<(), Error> {
    let found = find_traces(app, choice, messages)?;
    let checked = audit_all(&found, messages);
    found.completeness.report_to_user(true, messages);
    checked.iter().for_each(|thread| thread.report_to_user(messages));
    report_missing_records(&found, &checked, messages);
    if !quiet {
        let whole = messages.status() == Status::Complete;
        let report = report(&found.chosen, &checked, whole, verbose || !whole);
        print(console::Content::Text, report.as_bytes())?;
    }
    Ok(())
}

/// Reads all chosen traces, and compares what they state about themselves with the records in them.
fn audit_all<'a>(found: &'a Found, messages: &mut Messages) -> Vec<Checked<'a>> {
    let mut traces = Vec::new();
    let mut is_alive = liveness_check();
    for trace in found.chosen.boots.iter().flatten() {
        let alive = is_alive(trace);
        match Source::open(trace, alive) {
            Ok(parts) => traces.push((trace, alive, parts)),
            Err(error) => messages.warn(error),
        }
    }
    let bytes = |(_, _, parts): &(&Trace, bool, Vec<Source>)| parts.iter().map(Source::size).sum();
    let audits = map_on_all_processors(&traces, bytes, |(_, _, parts)| Audit::of(parts));
    let checked = traces.into_iter().zip(audits).map(|((trace, alive, parts), audit)| {
        let raw = parts.first().is_some_and(|part| matches!(part.content(), Content::Rendered(_)));
        let run = |run: &Run| Some(run) == trace.run.as_ref();
        let of_run = found.recovered.iter().filter(|recovered| run(&recovered.run));
        let threads = of_run.flat_map(|run| &run.threads).filter(|thread| thread.tid == trace.tid);
        let recovered = threads.map(|thread| thread.records).sum();
        Checked { trace, audit, alive, raw, recovered }
    });
    checked.collect()
}

impl Checked<'_> {
    /// Reports each reason why the trace is not complete.
    fn report_to_user(&self, messages: &mut Messages) {
        let (audit, path) = (&self.audit, shown(&self.trace.path));
        let at = |place: &PartOffset| self.at(*place);
        for ((place, bytes), more) in audit.damaged.each() {
            let (bytes, are) = (count(*bytes as u64, "byte"), are(*bytes as u64));
            let at = self.in_file(*place);
            messages.warn(format_args!("{at}: {bytes} {are} damaged: no line of this thread's trace{more}"));
        }
        for (place, more) in audit.breaks.each() {
            messages.warn(format_args!("{}: ticks go back{more}", at(place)));
        }
        for (place, more) in audit.backward.each() {
            messages.warn(format_args!(
                "{}: the processor's counter went back, so the order is not certain{more}",
                at(place)
            ));
        }
        for ((place, end, records, lost, apart), more) in audit.wrong_ends.each() {
            for (as_reported, there, what) in [
                (end.apart.others, apart.others, "lines of unknown kinds"),
                (end.apart.waits, apart.waits, "'# wait' lines"),
                (end.apart.states, apart.states, "thread states"),
            ] {
                if as_reported != there {
                    messages.warn(format_args!(
                        "{}: the '# end' line counts {} {what}, but the file has {} before it{more}",
                        at(place),
                        Grouped(as_reported),
                        Grouped(there),
                    ));
                }
            }
            if (end.records, end.lost) == (*records, *lost) {
                continue;
            }
            messages.warn(format_args!(
                "{}: the '# end' line counts {} and {} lost ones, but the file has {} and {} lost ones before \
                 it{more}",
                at(place),
                count(end.records, "record"),
                Grouped(end.lost),
                Grouped(*records),
                Grouped(*lost),
            ));
        }
        if audit.torn {
            messages.warn(format_args!("{path}: the last line has no line end and may be incomplete"));
        }
        let lost = audit.all_lost();
        if lost > 0 {
            let (lost, reasons) = (count(lost, "record"), reasons(audit.losses()));
            messages.warn(format_args!("{path}: {lost} lost ({reasons})"));
        }
        if audit.other_kinds.states() > 0 {
            let states = count(audit.other_kinds.states(), "thread state");
            messages.detail(format_args!("{path}: {states}"));
        }
        let lost = audit.other_kinds.lost_states();
        if lost > 0 {
            messages.warn(format_args!("{path}: the kernel has lost {}", count(lost, "thread state")));
        }
        if let Some(as_reported) = audit.other_kinds.as_reported() {
            messages.note(format_args!("{path}: {as_reported}"));
        }
        if audit.lost_unread > 0 {
            let places = count(audit.lost_unread, "place");
            messages.warn(format_args!(
                "{path}: the '# lost' lines in {places} have no readable number of lost records"
            ));
        }
        self.report_end(&path, messages);
    }

    fn report_end(&self, path: &str, messages: &mut Messages) {
        match (&self.audit.end, self.alive, self.audit.is_private()) {
            (None, true, true) => messages.warn(format_args!(
                "{path}: records may be missing, because those that are not yet in the file are in memory that \
                 only their process can read (ring=private)"
            )),
            // Completeness does not consider a file that does not name its thread, so its missing end is reported
            // here.
            (None, false, _) if self.trace.marks.thread.is_none() || self.trace.marks.end.is_some() => {
                messages
                    .warn(format_args!("{path}: no '# end' line: the end of the thread's trace is missing"))
            }
            _ => {}
        }
    }

    /// Returns a text for messages: the path of the file or the ring that contains a line, and the line's offset in it.
    fn at(&self, (part, offset): PartOffset) -> String {
        if self.raw && part == 0 {
            return format!("{}, offset {offset} of its text", shown(&self.trace.path));
        }
        self.in_file((part, offset))
    }

    fn in_file(&self, (part, offset): PartOffset) -> String {
        let ring = self.trace.held.as_ref().filter(|held| part > 0 || held.file().is_empty());
        format!("{}, offset {offset}", shown(ring.map_or(&self.trace.path, |held| &held.ring)))
    }

    fn state(&self) -> String {
        let mut state = match &self.audit.end {
            Some(end) => match &end.reason {
                EndReason::Exit => "exited".to_owned(),
                EndReason::Shutdown => "shut down".to_owned(),
                EndReason::Thread => "ended".to_owned(),
                EndReason::Killed | EndReason::Panic => "killed".to_owned(),
                EndReason::Full => "file is full".to_owned(),
                EndReason::Other(name) => format!("ended ({name})"),
            },
            None if self.alive => "living".to_owned(),
            None => "no end".to_owned(),
        };
        let cause = self.audit.end.as_ref().map_or_else(String::new, |end| in_words(&end.cause));
        state.push_str(&cause);
        let in_memory = self.trace.held.as_ref().map_or(0, |held| held.records);
        for (records, how) in [(self.recovered, "recovered now"), (in_memory, "in memory")] {
            if records > 0 {
                state.push_str(&format!(", {} {how}", Grouped(records)));
            }
        }
        if self.audit.is_private() {
            state.push_str(", ring=private");
        }
        state
    }
}

/// Returns a text with the number of lost records for each reason.
fn reasons<'a>(losses: impl Iterator<Item = (&'a str, u64)>) -> String {
    losses.map(|(reason, records)| format!("{reason}: {}", Grouped(records))).collect::<Vec<_>>().join(", ")
}

/// The identity of a thread of a run: boot, process id, run id and thread id.
type ThreadId<'a> = (&'a [u8], u32, u32, u64);

fn thread_id(run: &Run, tid: u64) -> ThreadId<'_> {
    (&run.boot, run.pid, run.id, tid)
}

/// Compares the number of records that each thread's ring has counted with the records found, and reports threads with
/// missing records. A thread may have several files.
fn report_missing_records(found: &Found, checked: &[Checked<'_>], messages: &mut Messages) {
    let mut counted: BTreeMap<ThreadId<'_>, u64> = BTreeMap::new();
    let mut count_in = |run, tid, committed: u64| {
        let sum = counted.entry(thread_id(run, tid)).or_default();
        *sum = sum.saturating_add(committed);
    };
    for run in &found.recovered {
        run.threads.iter().for_each(|thread| count_in(&run.run, thread.tid, thread.committed));
    }
    let mut there: BTreeMap<ThreadId<'_>, u64> = BTreeMap::new();
    for thread in checked {
        let Some(run) = &thread.trace.run else { continue };
        if let Some(held) = &thread.trace.held {
            count_in(run, thread.trace.tid, held.committed);
        }
        let sum = there.entry(thread_id(run, thread.trace.tid)).or_default();
        *sum = sum.saturating_add(thread.audit.committed());
    }
    for (id, committed) in counted {
        let missing = committed.saturating_sub(there.get(&id).copied().unwrap_or(0));
        let (_, pid, _, tid) = id;
        if missing > 0 {
            let (committed, missing) = (count(committed, "record"), Grouped(missing));
            messages.warn(format_args!(
                "thread {tid} of process {pid} has put {committed} into its ring, but {missing} of them are \
                 in no file and in no ring"
            ));
        }
    }
}

/// Returns the text that `check` writes to standard output; if `each`, the text has a line for each thread.
fn report(chosen: &Chosen, checked: &[Checked<'_>], whole: bool, each: bool) -> String {
    let mut report = String::new();
    let mut rest = checked;
    while let Some(first) = rest.first() {
        let run = &first.trace.run;
        let is_same = |trace: &Trace| trace.run == *run && trace.owner == first.trace.owner;
        let same = rest.iter().take_while(|thread| is_same(thread.trace)).count();
        let (threads, others) = rest.split_at(same);
        rest = others;
        report.push_str(&of_run(run.as_ref(), threads, each));
    }
    let totals = CheckTotals::of(checked);
    let in_order = checked.iter().all(|c| c.audit.breaks.count == 0 && c.audit.backward.count == 0);
    report.push_str(&format!(
        "{}: {}, {}, {}, {} lost, {} torn, {}\n",
        match (whole, totals.pauses > 0) {
            (true, false) => "whole",
            (true, true) => "whole except for the time in which tracing was switched off",
            (false, _) => "not whole",
        },
        count(chosen.runs as u64, "run"),
        count(threads(chosen), "thread"),
        count(totals.records, "record"),
        Grouped(totals.lost),
        Grouped(totals.torn),
        if in_order { "in order" } else { "not in order" },
    ));
    report
}

/// Returns one line about the run and, if `each`, one line about each of its threads.
fn of_run(run: Option<&Run>, threads: &[Checked<'_>], each: bool) -> String {
    let totals = CheckTotals::of(threads);
    let mut text = run.map_or("unknown run: ".to_owned(), |run| {
        format!("process {}, run {:08x}, begun {}: ", run.pid, run.id, run.wall)
    });
    text.push_str(&format!(
        "{} ({} recovered now, {} in memory), {} lost",
        count(totals.records, "record"),
        Grouped(totals.recovered),
        Grouped(totals.in_memory),
        Grouped(totals.lost)
    ));
    let lost = reasons(totals.by_reason.iter().map(|(reason, lost)| (&**reason, *lost)));
    text.push_str(&if lost.is_empty() { String::new() } else { format!(" ({lost})") });
    text.push_str(match totals.pauses {
        0 => "\n",
        1 => "; tracing was switched off once\n",
        _ => "; tracing was switched off several times\n",
    });
    if each {
        let anchors = threads.iter().flat_map(|thread| thread.audit.anchors.iter().copied());
        let clock = run.map(|run| TickClock::of_run(run, anchors));
        for step in clock.iter().flat_map(TickClock::steps) {
            text.push_str(&format!("  {step}\n"));
        }
        text.push_str(&format!("  {:<16} {:>10} {:>14} {:>10}  state\n", "thread", "id", "records", "lost"));
        for thread in threads {
            let name = thread.audit.thread.as_ref().map_or(String::new(), |thread| shown_name(&thread.name));
            let id = match thread.trace.number {
                0 | u32::MAX => thread.trace.tid.to_string(),
                number => format!("{}.{number}", thread.trace.tid),
            };
            let (records, lost) = (Grouped(thread.audit.records), Grouped(thread.audit.all_lost()));
            let state = thread.state();
            text.push_str(&format!("  {name:<16} {id:>10} {records:>14} {lost:>10}  {state}\n"));
        }
    }
    text
}

/// The sums over the traces of several threads.
#[derive(Default)]
struct CheckTotals {
    records: u64,
    recovered: u64,
    in_memory: u64,
    lost: u64,
    torn: u64,
    /// The number of times that tracing was switched off: the greatest number that one of the traces states.
    pauses: u64,
    by_reason: Vec<(String, u64)>,
}

impl CheckTotals {
    fn of(threads: &[Checked<'_>]) -> CheckTotals {
        let mut totals = CheckTotals::default();
        for thread in threads {
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut totals.records, thread.audit.records);
            add(&mut totals.recovered, thread.recovered);
            add(&mut totals.in_memory, thread.trace.held.as_ref().map_or(0, |held| held.records));
            add(&mut totals.lost, thread.audit.all_lost());
            add(&mut totals.torn, thread.audit.lost[LossReason::Torn as usize]);
            add(&mut totals.torn, u64::from(thread.audit.torn));
            totals.pauses = totals.pauses.max(thread.audit.pauses);
            for (reason, lost) in thread.audit.losses() {
                match totals.by_reason.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, sum)) => add(sum, lost),
                    None => totals.by_reason.push((reason.to_owned(), lost)),
                }
            }
        }
        totals
    }
}
