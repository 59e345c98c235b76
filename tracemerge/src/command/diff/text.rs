//! The differences of two traces, for people.

use std::path::Path;

use crate::command::diff::model::{Comparison, MessageLine, ThreadComparison, ThreadSide};
use crate::ui::columns::{Alignment, Columns};
use crate::ui::messages::{Grouped, count};
use crate::ui::units::duration;

/// The number of characters of a message that are shown.
const WIDTH: usize = 100;

/// Writes the comparison as text: threads, then sorts of messages.
pub fn of(comparison: &Comparison) -> String {
    let mut text = format!("A  '{}'\nB  '{}'\n\n", comparison.a, comparison.b);
    let same = comparison.threads.iter().filter(|thread| thread.same);
    let records: u64 = same.clone().map(|thread| thread.alike).sum();
    let same = same.count() as u64;
    if same > 0 {
        text.push_str(&format!("{} the same, {}\n", count(same, "thread"), count(records, "record")));
    }
    for thread in comparison.threads.iter().filter(|thread| !thread.same) {
        text.push_str(&of_thread(thread));
    }
    text.push('\n');
    text.push_str(&table(comparison));
    text
}

fn of_thread(thread: &ThreadComparison) -> String {
    let name = thread.name.as_ref().map_or("first thread".to_owned(), |name| format!("thread \"{name}\""));
    let records = |side: &ThreadSide| count(side.records, "record");
    let (a, b) = match (&thread.a, &thread.b) {
        (Some(a), Some(b)) => (a, b),
        (Some(only), None) => return format!("{name} ({}) is only in A: {}\n", only.tid, records(only)),
        (None, Some(only)) => return format!("{name} ({}) is only in B: {}\n", only.tid, records(only)),
        (None, None) => return String::new(),
    };
    let mut text = format!(
        "{name} (A {}, B {}): A has {}, B {}; the first {} alike, {} only in A, {} only in B\n",
        a.tid,
        b.tid,
        records(a),
        Grouped(b.records),
        Grouped(thread.alike),
        Grouped(thread.only_a),
        Grouped(thread.only_b),
    );
    for message in &thread.before {
        text.push_str(&of_message(" ", message));
    }
    for (name, side) in [("A", a), ("B", b)] {
        for message in &side.next {
            text.push_str(&of_message(name, message));
        }
        if thread.alike >= side.records {
            text.push_str(&format!("  {name} ends here\n"));
        }
    }
    text
}

fn of_message(side: &str, message: &MessageLine) -> String {
    let file = Path::new(&message.file).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let since = message.since_ns.map_or("?".to_owned(), |ns| format!("+{}", duration(ns)));
    format!("  {side} {file}:{} {since}  {}\n", message.line, shortened(&message.text))
}

/// Returns the first line of a text, shortened. Control characters in a trace are escaped already.
fn shortened(line: &str) -> String {
    let line = line.split('\n').next().unwrap_or_default();
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

fn table(comparison: &Comparison) -> String {
    use Alignment::{Left, Right};
    let mut columns = Columns::new(&[
        ("count A", Right),
        ("B", Right),
        ("median A", Right),
        ("B", Right),
        ("B/A", Right),
        ("p99 A", Right),
        ("B", Right),
        ("B/A", Right),
        ("message, # for numbers", Left),
    ]);
    for sort in &comparison.messages {
        let (a, b) = (&sort.a, &sort.b);
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
        columns.row([
            Grouped(a.count).to_string(),
            Grouped(b.count).to_string(),
            time(a.median_ns),
            time(b.median_ns),
            ratio(a.median_ns, b.median_ns),
            time(a.p99_ns),
            time(b.p99_ns),
            ratio(a.p99_ns, b.p99_ns),
            shortened(&sort.message),
        ]);
    }
    let mut text = columns.text("");
    let more = comparison.sorts - comparison.messages.len() as u64;
    if more > 0 {
        let more = count(more, "more sort");
        text.push_str(&format!("and {more} of messages; --rows shows more\n"));
    }
    text
}

fn ratio(a: Option<u64>, b: Option<u64>) -> String {
    match (a, b) {
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        (Some(a), Some(b)) if a > 0 => format!("{:.2}", b as f64 / a as f64),
        _ => "-".to_owned(),
    }
}
