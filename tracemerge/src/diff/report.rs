//! What differs between two traces, for people.

use crate::columns::{Align, Columns};
use crate::messages::{Grouped, count, shown, shown_name};
use crate::units::duration;

use super::compare::Pair;
use super::input::{Input, Thread};
use super::latency::Latencies;
use super::shape::{ShapeId, Shapes};

/// So many messages that are alike are shown before the first that is not, and so many from there on.
const CONTEXT: (usize, usize) = (2, 2);
/// So much of a message is shown.
const WIDTH: usize = 100;

/// The report: threads, then at most `rows` sorts of messages.
pub fn of(a: &Input, b: &Input, pairs: &[Pair<'_>], shapes: &Shapes, rows: usize) -> String {
    let mut text = format!("A  {}\nB  {}\n\n", shown(&a.given), shown(&b.given));
    let same = pairs.iter().filter(|pair| pair.is_same());
    let records: u64 = same.clone().map(|pair| pair.alike as u64).sum();
    let same = same.count() as u64;
    if same > 0 {
        text.push_str(&format!("{} the same, {}\n", count(same, "thread"), count(records, "record")));
    }
    for pair in pairs.iter().filter(|pair| !pair.is_same()) {
        text.push_str(&of_pair(a, b, pair));
    }
    text.push('\n');
    text.push_str(&table(a, b, shapes, rows));
    text
}

fn of_pair(a: &Input, b: &Input, pair: &Pair<'_>) -> String {
    let name = pair.a.or(pair.b).and_then(|thread| thread.name.as_deref());
    let name = name.map_or("first thread".to_owned(), |name| format!("thread \"{}\"", shown_name(name)));
    let records = |thread: &Thread| count(thread.shapes.len() as u64, "record");
    let (of_a, of_b) = match (pair.a, pair.b) {
        (Some(a), Some(b)) => (a, b),
        (Some(only), None) => return format!("{name} ({}) is only in A: {}\n", only.tid, records(only)),
        (None, Some(only)) => return format!("{name} ({}) is only in B: {}\n", only.tid, records(only)),
        (None, None) => return String::new(),
    };
    let mut text = format!(
        "{name} (A {}, B {}): A has {}, B {}; the first {} alike, {} only in A, {} only in B\n",
        of_a.tid,
        of_b.tid,
        records(of_a),
        Grouped(of_b.shapes.len() as u64),
        Grouped(pair.alike as u64),
        Grouped(pair.only_a as u64),
        Grouped(pair.only_b as u64),
    );
    for number in pair.alike.saturating_sub(CONTEXT.0)..pair.alike {
        text.push_str(&message(" ", a, of_a, number));
    }
    for (side, input, thread) in [("A", a, of_a), ("B", b, of_b)] {
        for number in pair.alike..pair.alike + CONTEXT.1 {
            text.push_str(&message(side, input, thread, number));
        }
        if pair.alike >= thread.shapes.len() {
            text.push_str(&format!("  {side} ends here\n"));
        }
    }
    text
}

fn message(side: &str, input: &Input, thread: &Thread, number: usize) -> String {
    let Some(message) = input.message(thread, number) else { return String::new() };
    let file = message.path.file_name().map(|name| shown_name(name.as_encoded_bytes())).unwrap_or_default();
    let since = message.since.map_or("?".to_owned(), |ns| format!("+{}", duration(ns)));
    format!("  {side} {file}:{} {since}  {}\n", message.line, cut(&message.text))
}

/// The first line of a text, not too long. What is in a trace is escaped.
fn cut(text: &[u8]) -> String {
    let line = text.split(|&b| b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.into_owned(),
    }
}

/// What is known of one sort of messages in one trace.
struct Side {
    count: u64,
    /// Nanoseconds since the message before.
    median: Option<u64>,
    p99: Option<u64>,
    measured: u64,
}

impl Side {
    fn of(input: &Input, shape: ShapeId) -> Side {
        let latencies = input.latencies.get(&shape);
        let ns = |percent| input.ns(latencies?.percentile(percent)?);
        Side {
            count: input.counts.get(&shape).copied().unwrap_or(0),
            median: ns(50),
            p99: ns(99),
            measured: latencies.map_or(0, Latencies::count),
        }
    }
}

/// How remarkable the difference is: by how many standard deviations the counts differ, or how many times the medians,
/// the more the more often they were measured.
fn significance(a: &Side, b: &Side) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let float = |number: u64| number as f64;
    let counts = float(a.count.abs_diff(b.count)) / float(a.count + b.count).sqrt().max(1.0);
    let medians = match (a.median, b.median) {
        (Some(a_ns), Some(b_ns)) => {
            let times = (float(a_ns.max(1)) / float(b_ns.max(1))).log2().abs();
            times * float(a.measured.min(b.measured)).sqrt()
        }
        _ => 0.0,
    };
    counts.max(medians)
}

fn table(a: &Input, b: &Input, shapes: &Shapes, rows: usize) -> String {
    use Align::{Left, Right};
    let mut all: Vec<ShapeId> = a.counts.keys().chain(b.counts.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    let mut sorts: Vec<(f64, ShapeId, Side, Side)> = all
        .into_iter()
        .map(|shape| {
            let (a, b) = (Side::of(a, shape), Side::of(b, shape));
            (significance(&a, &b), shape, a, b)
        })
        .collect();
    sorts.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
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
    for (_, shape, a, b) in sorts.iter().take(rows) {
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
        columns.row([
            Grouped(a.count).to_string(),
            Grouped(b.count).to_string(),
            time(a.median),
            time(b.median),
            ratio(a.median, b.median),
            time(a.p99),
            time(b.p99),
            ratio(a.p99, b.p99),
            cut(shapes.text(*shape)),
        ]);
    }
    let mut text = columns.text("");
    if sorts.len() > rows {
        let more = count((sorts.len() - rows) as u64, "more sort");
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
