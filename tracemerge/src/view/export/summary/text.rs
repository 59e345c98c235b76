//! The summary as text for a screen of 80 columns and 24 lines.

use crate::ui::messages::{Grouped, count};
use crate::ui::shorten::{keep_end, keep_ends, keep_start};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::export::summary::{Summary, ThreadRow};
use crate::view::thread_states::table_of_totals;
use crate::view::threads::Threads;

/// The maximum number of threads whose lanes are shown.
const LANES: usize = 4;
/// The maximum number of open waits and open calls, counted together, that are shown.
const OPEN: usize = 2;
/// The maximum number of characters that a thread's label takes.
const LABEL: usize = 20;
/// The size of a screen: the number of characters in a line, and the number of lines besides the line for the prompt.
const SCREEN: (usize, usize) = (80, 23);

/// Returns the text of the summary.
pub(super) fn of(summary: &Summary, apps: &[String], threads: &Threads) -> String {
    let mut above = head(summary, apps);
    let waits = threads.waits().waits;
    if waits > 0 {
        let all = duration(summary.tracer_ns);
        above.push(format!(
            "{} for the tracer, {all} in all, which the times below leave out",
            count(waits, "wait")
        ));
    }
    above.extend(summary.threads.iter().take(LANES).map(lane));
    if let Some(why) = threads.states().refused() {
        above.push(keep_start(&format!("no states of threads: {why}"), SCREEN.0).into_owned());
    }
    let totals = threads.states().totals();
    if !totals.is_empty() {
        let table = table_of_totals(totals, LANES);
        above.extend(table.lines().map(|line| keep_start(line, SCREEN.0).into_owned()));
    }
    let mut below = open(summary);
    let before = |number: usize| if number == 0 { "next: " } else { "      " };
    below
        .extend(summary.next.iter().enumerate().map(|(number, command)| before(number).to_owned() + command));
    // Two lines are for the headings of the functions, and for the number of further functions.
    let room = SCREEN.1.saturating_sub(above.len() + below.len() + 2);
    let functions = functions(summary, room.max(1));
    above.into_iter().chain(functions).chain(below).map(|line| line + "\n").collect()
}

fn head(summary: &Summary, apps: &[String]) -> Vec<String> {
    let mut parts = Vec::new();
    if summary.processes > 1 {
        parts.push(format!("{} processes", Grouped(summary.processes)));
    }
    parts.push(count(summary.threads.len() as u64, "thread"));
    parts.push(count(summary.records, "record"));
    if summary.calls > 0 {
        parts.push(count(summary.calls, "call"));
    }
    let lost = match summary.lost {
        0 => "nothing lost".to_owned(),
        lost => format!("{} LOST", count(lost, "record")),
    };
    let killed = match (summary.killed, summary.processes) {
        (0, _) => String::new(),
        (1, 1) => ", killed".to_owned(),
        (killed, _) => format!(", {} killed", Grouped(killed)),
    };
    let facts = format!("{} over {}, {lost}{killed}", parts.join(", "), duration(summary.span_ns));
    match apps {
        [app] if app.chars().count() + facts.chars().count() + 2 <= SCREEN.0 => {
            vec![format!("{app}: {facts}")]
        }
        [app] => vec![keep_end(app, SCREEN.0).into_owned(), facts],
        _ => vec![facts],
    }
}

fn lane(row: &ThreadRow) -> String {
    format!("{:<LABEL$} |{}|", keep_ends(&row.thread, LABEL), row.lane)
}

/// Returns the lines of the table of functions, which has at most `room` functions.
fn functions(summary: &Summary, room: usize) -> Vec<String> {
    let numbers = ["self", "waiting", "calls", "max"];
    let shown = summary.functions.len().min(room);
    let rows: Vec<[String; 4]> = summary.functions[..shown]
        .iter()
        .map(|row| {
            let waiting = if row.waiting_ns == 0 { "-".to_owned() } else { duration(row.waiting_ns) };
            [duration(row.self_ns), waiting, Grouped(row.calls).to_string(), duration(row.max_ns)]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let taken: usize = (0..4).map(|column| width(column).max(numbers[column].len()) + 2).sum();
    let headings = numbers.map(|heading| (heading, Right)).into_iter().chain([("function", Left)]);
    let mut columns = Columns::new(&headings.collect::<Vec<_>>());
    for (numbers, row) in rows.into_iter().zip(&summary.functions) {
        let name = keep_start(&row.function, SCREEN.0.saturating_sub(taken)).into_owned();
        columns.row(numbers.into_iter().chain([name]).collect::<Vec<_>>());
    }
    let mut lines: Vec<String> = columns.text("").lines().map(str::to_owned).collect();
    let more = summary.more_functions + (summary.functions.len() - shown) as u64;
    if more > 0 {
        lines.push(format!("and {}", count(more, "more function")));
    }
    if summary.functions.is_empty() { Vec::new() } else { lines }
}

/// Returns the lines about waits and calls that have not ended, and about notifications that reached no thread.
fn open(summary: &Summary) -> Vec<String> {
    let waits = summary.open_waits.iter().map(|wait| {
        let before = format!("NOT ENDED: {} waits for ", keep_ends(&wait.thread, LABEL));
        (before, wait.what.clone(), wait.ns)
    });
    let calls = summary.open_calls.iter().map(|call| {
        let before = format!("not ended: {} is in ", keep_ends(&call.thread, LABEL));
        (before, call.function.clone(), call.ns)
    });
    let all: Vec<_> = waits.chain(calls).collect();
    let more = all.len().saturating_sub(OPEN) as u64;
    let shown = all.len().min(OPEN);
    let line = |(number, (before, what, ns)): (usize, (String, String, u64))| {
        let mut behind = format!(", {}", duration(ns));
        if number + 1 == shown && more > 0 {
            behind.push_str(&format!("; and {} more", Grouped(more)));
        }
        let room = SCREEN.0.saturating_sub(before.chars().count() + behind.chars().count());
        before + &fitted(&what, room) + &behind
    };
    let mut lines: Vec<String> = all.into_iter().take(OPEN).enumerate().map(line).collect();
    if summary.silent_notifications > 0 {
        let silent = count(summary.silent_notifications, "notification");
        lines.push(format!("{silent} found no waiting thread"));
    }
    lines
}

/// Returns the text `what`, shortened to `columns` characters. Of a text like `lock 5 at src/main.rs:10`, the source
/// path after ` at ` loses its beginning; any other text loses its end.
fn fitted(what: &str, columns: usize) -> String {
    match what.split_once(" at ") {
        Some((name, place)) if name.chars().count() + 4 < columns => {
            format!("{name} at {}", keep_end(place, columns - name.chars().count() - 4))
        }
        _ => keep_start(what, columns).into_owned(),
    }
}

/// Returns commands, ready to be copied, that show more about this trace.
pub(super) fn next_commands(summary: &Summary, apps: &[String]) -> Vec<String> {
    let apps: Vec<String> = apps.iter().map(|app| quoted(app)).collect();
    let apps = apps.join(" ");
    let waits = !summary.open_waits.is_empty() || summary.has_waits;
    // Calls that last for half of the trace or more are probably the main functions of threads, and do not count here.
    let longest = summary.functions.iter().map(|row| row.max_ns).filter(|max| *max < summary.span_ns / 2);
    let shortest = match longest.max().unwrap_or(0) / 2 {
        // A hundredth of the trace, as a power of ten.
        0 => (summary.span_ns / 100).checked_ilog10().map_or(0, |digits| 10u64.pow(digits)),
        half => half,
    };
    let min = match shortest {
        0 => String::new(),
        ns @ 1..1_000 => format!(" --min-duration {ns}ns"),
        ns @ 1_000..1_000_000 => format!(" --min-duration {}us", ns / 1_000),
        ns => format!(" --min-duration {}ms", ns / 1_000_000),
    };
    let all = [
        (waits, format!("tracemerge locks {apps}")),
        (summary.polls > 0, format!("tracemerge spans {apps}")),
        (summary.calls > 0, format!("tracemerge report {apps}")),
        (summary.calls > 0, format!("tracemerge tree{min} {apps}")),
        (summary.messages > 0, format!("tracemerge stats {apps}")),
        (summary.records > 0, format!("tracemerge show --last 20 {apps}")),
        (summary.records > 0, format!("tracemerge --format perfetto {apps}")),
    ];
    all.into_iter().filter(|(fits, _)| *fits).map(|(_, command)| command).take(3).collect()
}

/// Returns a word in the form that a shell reads as one word, in quotes if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
