//! The differences of two traces, as text for people.

use std::path::Path;

use crate::command::diff::functions::{FunctionSide, Functions};
use crate::command::diff::model::{
    Comparison, MessageLine, PoolComparison, SortText, SuccessionDifference, ThreadComparison, ThreadSide,
};
use crate::ui::messages::{Grouped, count};
use crate::ui::table::{Alignment, Columns};
use crate::ui::units::duration;

/// The maximum number of characters of a message that tables show.
const WIDTH: usize = 100;
/// The maximum number of pairs of successive messages that are shown for a pool, and the maximum number of characters
/// of each message.
const ORDERS: (usize, usize) = (3, 40);

/// Returns the comparison as text: first threads and pools, then sorts of messages, then functions.
pub(super) fn of(comparison: &Comparison) -> String {
    let head = format!("A  '{}'\nB  '{}'\n", comparison.a, comparison.b);
    let messages = if comparison.sorts > 0 { table(comparison) } else { String::new() };
    let functions = comparison.calls.as_ref().map(functions_text).unwrap_or_default();
    let mut parts = vec![head, threads_text(comparison), messages, functions];
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn threads_text(comparison: &Comparison) -> String {
    let mut text = String::new();
    let same = comparison.threads.iter().filter(|thread| thread.same);
    let records: u64 = same.clone().map(|thread| thread.alike).sum();
    let same = same.count() as u64;
    if same > 0 {
        text.push_str(&format!("{} the same, {}\n", count(same, "thread"), count(records, "record")));
    }
    for thread in comparison.threads.iter().filter(|thread| !thread.same) {
        text.push_str(&thread_text(thread));
    }
    comparison.pools.iter().for_each(|pool| text.push_str(&pool_text(pool, comparison.by_site)));
    text
}

/// Returns a text with a table of functions, and the waits that its times leave out.
fn functions_text(calls: &Functions) -> String {
    use Alignment::{Left, Right};
    let mut columns = Columns::new(&[
        ("calls A", Right),
        ("B", Right),
        ("self A", Right),
        ("B", Right),
        ("median A", Right),
        ("noise", Right),
        ("B", Right),
        ("noise", Right),
        ("change", Right),
        ("beyond noise", Left),
        ("function", Left),
    ]);
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
    for row in &calls.rows {
        let noise = |side: &FunctionSide| {
            let noise = side.median().and_then(|median| median.noise_percent());
            noise.map_or("-".to_owned(), percent)
        };
        let verdict = match (row.a.calls, row.b.calls, row.significant) {
            (0, ..) => "only in B",
            (_, 0, _) => "only in A",
            (.., Some(true)) => "yes",
            (.., Some(false)) => "no",
            (.., None) => "-",
        };
        columns.row([
            Grouped(row.a.calls).to_string(),
            Grouped(row.b.calls).to_string(),
            time(row.a.self_ns),
            time(row.b.self_ns),
            time(row.a.median_ns),
            noise(&row.a),
            time(row.b.median_ns),
            noise(&row.b),
            row.change_percent.map_or("-".to_owned(), |change| {
                format!("{}{}", if change < 0.0 { "-" } else { "+" }, percent(change.abs()))
            }),
            verdict.to_owned(),
            short(&row.function),
        ]);
    }
    let (a, b) = (&calls.a, &calls.b);
    let counts = [a, b].map(|side| Grouped(side.calls).to_string());
    let times = [a, b].map(|side| time(side.self_ns));
    let empty = [""; 6].map(str::to_owned);
    let sums = [&counts[..], &times, &empty, &["all functions".to_owned()]].concat();
    columns.row(sums);
    let mut text = columns.text("");
    let hidden = calls.functions - calls.rows.len() as u64;
    if hidden > 0 {
        text.push_str(&format!("and {}; --rows shows more\n", count(hidden, "more function")));
    }
    for (name, side) in [("A", a), ("B", b)] {
        if side.waited_ns > 0 {
            let waited = duration(side.waited_ns);
            text.push_str(&format!(
                "{name}: the times leave out {waited} in which the tracer made threads wait\n"
            ));
        }
        if side.waited_inside_ns > 0 {
            let waited = duration(side.waited_inside_ns);
            text.push_str(&format!(
                "{name}: the times include {waited} in which the tracer made threads wait, because the trace does \
                 not record when these waits were\n"
            ));
        }
    }
    text
}

/// Returns a percentage as text. A small number gets a digit after the decimal point.
fn percent(percent: f64) -> String {
    if percent < 99.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn thread_text(thread: &ThreadComparison) -> String {
    let name = thread.name.as_ref().map_or("first thread".to_owned(), |name| format!("thread \"{name}\""));
    let records = |side: &ThreadSide| count(side.records, "record");
    let (a, b) = match (&thread.a, &thread.b) {
        (Some(a), Some(b)) => (a, b),
        (Some(only), None) => return format!("{name} ({}) is only in A: {}\n", only.tid, records(only)),
        (None, Some(only)) => return format!("{name} ({}) is only in B: {}\n", only.tid, records(only)),
        (None, None) => return String::new(),
    };
    let most = if thread.exact { "" } else { "at most " };
    let mut text = format!(
        "{name} (A {}, B {}): A has {}, B {}; the first {} alike, {most}{} only in A, {most}{} only in B\n",
        a.tid,
        b.tid,
        records(a),
        Grouped(b.records),
        Grouped(thread.alike),
        Grouped(thread.only_a),
        Grouped(thread.only_b),
    );
    for message in &thread.before {
        text.push_str(&message_text(" ", message));
    }
    for (name, side) in [("A", a), ("B", b)] {
        for message in &side.next {
            text.push_str(&message_text(name, message));
        }
        if thread.alike >= side.records {
            text.push_str(&format!("  {name} ends here\n"));
        }
    }
    text
}

fn pool_text(pool: &PoolComparison, by_site: bool) -> String {
    let name = pool
        .name
        .as_ref()
        .map_or("first threads of other processes".to_owned(), |name| format!("pool \"{name}\""));
    let (a, b) = (&pool.a, &pool.b);
    let records = count(a.records, "record");
    for (side, only, other) in [("A", a, b), ("B", b, a)] {
        if other.threads == 0 {
            let (threads, records) = (count(only.threads, "thread"), count(only.records, "record"));
            return format!("{name} ({threads}) is only in {side}: {records}\n");
        }
    }
    let threads = format!("A {}, B {}", count(a.threads, "thread"), Grouped(b.threads));
    let mut text = if pool.same {
        format!("{name} ({threads}): the same {records}\n")
    } else {
        let (only_a, only_b) = (Grouped(pool.only_a), Grouped(pool.only_b));
        let b = Grouped(b.records);
        format!("{name} ({threads}): A has {records}, B {b}; {only_a} only in A, {only_b} only in B\n")
    };
    if !pool.messages.is_empty() {
        let heading = message_heading(by_site);
        let mut columns =
            Columns::new(&[("A", Alignment::Right), ("B", Alignment::Right), (heading, Alignment::Left)]);
        for sort in &pool.messages {
            columns.row([Grouped(sort.a).to_string(), Grouped(sort.b).to_string(), sort_text(&sort.sort)]);
        }
        text.push_str(&columns.text("  "));
    }
    let hidden = pool.sorts - pool.messages.len() as u64;
    text.push_str(&more_sorts("  ", hidden, [pool.once_a, pool.once_b, 0]));
    text.push_str(&orders_text(&pool.successions, pool.orders));
    text
}

/// Returns a text about `orders`, pairs of successive messages that occur in this order in only one trace. `all` is the
/// number of all such pairs, also of those that are not shown.
fn orders_text(orders: &[SuccessionDifference], all: u64) -> String {
    let mut text = String::new();
    let (most, width) = ORDERS;
    for order in orders.iter().take(most) {
        let side = if order.b == 0 { "A" } else { "B" };
        let [first, second] =
            [&order.first, &order.second].map(|sort| shortened(&on_one_line(&sort.message), width));
        let times = count(order.a.max(order.b), "time");
        text.push_str(&format!("  only in {side}, {times}: '{first}', then '{second}' in the same thread\n"));
    }
    let more = all - orders.len().min(most) as u64;
    if more > 0 {
        let more = count(more, "more order");
        text.push_str(&format!("  and {more} of two messages that occur in only one of the traces\n"));
    }
    text
}

/// Returns a text about the `hidden` sorts of messages that are not shown. `once` are the numbers of sorts that occur
/// only once, which get lines of their own: once in the first trace only, once in the second only, and once in each.
fn more_sorts(indent: &str, hidden: u64, once: [u64; 3]) -> String {
    // All of these are shown, or none, because they are the last.
    let once = if hidden >= once.iter().sum() { once } else { [0; 3] };
    let more = hidden - once.iter().sum::<u64>();
    let mut text = String::new();
    if more > 0 {
        let more = count(more, "more sort");
        text.push_str(&format!("{indent}and {more} of messages; --rows shows more\n"));
    }
    for (number, where_so) in
        once.into_iter().zip(["in A and never in B", "in B and never in A", "in A and once in B"])
    {
        if number > 0 {
            let (sorts, come) = (count(number, "sort"), if number == 1 { "comes" } else { "come" });
            text.push_str(&format!("{indent}{sorts} of messages {come} once {where_so}\n"));
        }
    }
    text
}

/// Returns the heading of the column of a table that lists sorts of messages.
fn message_heading(by_site: bool) -> &'static str {
    if by_site { "message" } else { "message, # for numbers" }
}

/// Returns the text of a sort, with its call site if it is known.
fn sort_text(sort: &SortText) -> String {
    let text = short(&sort.message);
    match (&sort.file, sort.line) {
        (Some(file), Some(line)) => {
            let file = file.rsplit(['/', '\\']).next().unwrap_or_default();
            format!("{text}  ({file}:{line})")
        }
        _ => text,
    }
}

/// Returns a text on one line, shortened to the width that tables show.
pub(super) fn short(text: &str) -> String {
    shortened(&on_one_line(text), WIDTH)
}

/// Returns a text with spaces in place of control characters, including line feeds.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn message_text(side: &str, message: &MessageLine) -> String {
    let file = Path::new(&message.file).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let since = message.since_ns.map_or("?".to_owned(), |ns| format!("+{}", duration(ns)));
    format!("  {side} {file}:{} {since}  {}\n", message.line, shortened(&message.text, WIDTH))
}

/// Returns a line with at most `width` characters; if it is longer, dots replace the rest. Control characters in a
/// trace are already escaped.
fn shortened(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
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
        (message_heading(comparison.by_site), Left),
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
            sort_text(&sort.sort),
        ]);
    }
    let hidden = comparison.sorts - comparison.messages.len() as u64;
    let once = [comparison.once_a, comparison.once_b, comparison.once_both];
    columns.text("") + &more_sorts("", hidden, once)
}

fn ratio(a: Option<u64>, b: Option<u64>) -> String {
    match (a, b) {
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        (Some(a), Some(b)) if a > 0 => format!("{:.2}", b as f64 / a as f64),
        _ => "-".to_owned(),
    }
}
