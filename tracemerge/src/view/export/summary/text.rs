//! The summary as text for a screen of 80 columns and 24 lines.

use crate::ui::messages::{Grouped, count};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::table::Columns;
use crate::ui::units::duration;
use crate::view::export::summary::{Summary, ThreadRow};

/// The number of threads whose lanes are shown.
const LANES: usize = 4;
/// The number of open waits and calls that are shown.
const OPEN: usize = 2;
/// The number of columns for the labels of threads.
const LABEL: usize = 20;
/// The columns and the lines of a screen, one of which has the prompt.
const SCREEN: (usize, usize) = (80, 23);

/// Returns the text.
pub fn of(summary: &Summary, apps: &[String], waits: u64) -> String {
    let mut above = head(summary, apps);
    if waits > 0 {
        let all = duration(summary.tracer_ns);
        above.push(format!("{} for the tracer, {all} in all: in no number below", count(waits, "wait")));
    }
    above.extend(summary.threads.iter().take(LANES).map(lane));
    let mut below = open(summary);
    let before = |number: usize| if number == 0 { "next: " } else { "      " };
    below
        .extend(summary.next.iter().enumerate().map(|(number, command)| before(number).to_owned() + command));
    // The heading of the functions, and their number.
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
    let facts = format!("{} over {}, {lost}", parts.join(", "), duration(summary.span_ns));
    match apps {
        [app] if app.chars().count() + facts.chars().count() + 2 <= SCREEN.0 => {
            vec![format!("{app}: {facts}")]
        }
        [app] => vec![app.clone(), facts],
        _ => vec![facts],
    }
}

fn lane(row: &ThreadRow) -> String {
    let label: String = match row.thread.chars().count() {
        0..=LABEL => row.thread.clone(),
        _ => row.thread.chars().take(LABEL - 1).chain(['\u{2026}']).collect(),
    };
    format!("{label:<LABEL$} |{}|", row.lane)
}

/// Returns the table of at most `room` functions.
fn functions(summary: &Summary, room: usize) -> Vec<String> {
    let mut columns = Columns::new(&[
        ("self", Right),
        ("waiting", Right),
        ("calls", Right),
        ("max", Right),
        ("function", Left),
    ]);
    let shown = summary.functions.len().min(room);
    for row in &summary.functions[..shown] {
        let waiting = if row.waiting_ns == 0 { "-".to_owned() } else { duration(row.waiting_ns) };
        let mut name = row.function.clone();
        // The other columns take half of the screen.
        if name.chars().count() > SCREEN.0 / 2 {
            name = name.chars().take(SCREEN.0 / 2 - 1).chain(['\u{2026}']).collect();
        }
        let (calls, max) = (Grouped(row.calls).to_string(), duration(row.max_ns));
        columns.row([duration(row.self_ns), waiting, calls, max, name]);
    }
    let mut lines: Vec<String> = columns.text("").lines().map(str::to_owned).collect();
    let more = summary.more_functions + (summary.functions.len() - shown) as u64;
    if more > 0 {
        lines.push(format!("and {}", count(more, "more function")));
    }
    if summary.functions.is_empty() { Vec::new() } else { lines }
}

/// Returns the lines about what has not ended.
fn open(summary: &Summary) -> Vec<String> {
    let waits = summary.open_waits.iter();
    let waits = waits
        .map(|wait| format!("NOT ENDED: {} waits for {}, {}", wait.thread, wait.what, duration(wait.ns)));
    let calls = summary.open_calls.iter();
    let calls = calls
        .map(|call| format!("not ended: {} is in {}, {}", call.thread, call.function, duration(call.ns)));
    let all: Vec<String> = waits.chain(calls).collect();
    let more = all.len().saturating_sub(OPEN) as u64;
    let mut lines: Vec<String> = all.into_iter().take(OPEN).collect();
    if let Some(last) = lines.last_mut().filter(|_| more > 0) {
        last.push_str(&format!("; and {} more", Grouped(more)));
    }
    if summary.silent_notifications > 0 {
        let silent = count(summary.silent_notifications, "notification");
        lines.push(format!("{silent} found no waiting thread"));
    }
    lines
}

/// Returns commands that show more about what is in the trace, ready to be copied.
pub fn next_commands(summary: &Summary, apps: &[String]) -> Vec<String> {
    let apps: Vec<String> = apps.iter().map(|app| quoted(app)).collect();
    let apps = apps.join(" ");
    let waits = !summary.open_waits.is_empty() || summary.has_waits;
    // Calls that take most of the time are the thread's own functions.
    let longest = summary.functions.iter().map(|row| row.max_ns).filter(|max| *max < summary.span_ns / 2);
    let longest = longest.max().unwrap_or(0);
    let min = match longest / 2 {
        0 => "1ms".to_owned(),
        1..1_000 => "1us".to_owned(),
        ns @ 1_000..1_000_000 => format!("{}us", ns / 1_000),
        ns => format!("{}ms", ns / 1_000_000),
    };
    let all = [
        (waits, format!("tracemerge locks {apps}")),
        (summary.polls > 0, format!("tracemerge spans {apps}")),
        (summary.calls > 0, format!("tracemerge report {apps}")),
        (summary.calls > 0, format!("tracemerge tree --min-duration {min} {apps}")),
        (summary.messages > 0, format!("tracemerge stats {apps}")),
        (summary.records > 0, format!("tracemerge show --last 20 {apps}")),
        (summary.records > 0, format!("tracemerge --format perfetto {apps}")),
    ];
    all.into_iter().filter(|(fits, _)| *fits).map(|(_, command)| command).take(3).collect()
}

/// Returns a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
