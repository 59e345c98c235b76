//! The differences of two traces, as `--json` writes them. The names of the fields are part of the interface.
//! Times are nanoseconds; an unknown value is `null`.

use serde::Serialize;

use crate::command::diff::compare::Pair;
use crate::command::diff::input::{Input, ThreadMessages};
use crate::ui::error::Error;
use crate::ui::messages::shown_name;
use crate::view::latency::Latencies;
use crate::view::shape::{ShapeId, Shapes};

/// The version of the layout. It grows when a field changes its meaning or goes; new fields may come at any
/// time.
pub const VERSION: u32 = 1;
/// The numbers of messages that are shown before the first one that differs, and from there on.
const CONTEXT: (usize, usize) = (2, 2);

/// All differences of two traces.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The version of this layout.
    pub version: u32,
    /// The first trace, as the user wrote it.
    pub a: String,
    /// The second trace, as the user wrote it.
    pub b: String,
    /// Whether all threads have the same messages in the same order, numbers aside.
    pub same: bool,
    /// The threads of the first trace in their order, then those that only the second has.
    pub threads: Vec<ThreadComparison>,
    /// The number of sorts of messages.
    pub sorts: u64,
    /// The first of these sorts; those that differ most are first.
    pub messages: Vec<SortComparison>,
}

/// Two threads that have the same part in both traces, or one that has none in the other.
#[derive(Debug, Serialize)]
pub struct ThreadComparison {
    /// The name of the thread, escaped as in the trace; a process's first thread has none.
    pub name: Option<String>,
    /// Whether the messages are the same, in the same order.
    pub same: bool,
    /// The thread in the first trace.
    pub a: Option<ThreadSide>,
    /// The thread in the second trace.
    pub b: Option<ThreadSide>,
    /// The number of messages with which both begin.
    pub alike: u64,
    /// The number of messages that are only in the first trace.
    pub only_a: u64,
    /// The number of messages that are only in the second trace.
    pub only_b: u64,
    /// The last messages before the first that differs, of the first trace; none where a side is missing or
    /// all messages are the same.
    pub before: Vec<MessageLine>,
}

/// A thread in one of the traces.
#[derive(Debug, Serialize)]
pub struct ThreadSide {
    /// The operating system's id.
    pub tid: u64,
    /// The number of messages of the thread.
    pub records: u64,
    /// A few messages from the first that differs on; none where a side is missing or all messages are the
    /// same.
    pub next: Vec<MessageLine>,
}

/// A message, and the place where it stands.
#[derive(Debug, Serialize)]
pub struct MessageLine {
    /// The file of the message.
    pub file: String,
    /// The number of the message's line in the file, from 1; in a raw file, the line of the text that it
    /// would be.
    pub line: u64,
    /// The time since the first message of the trace, in nanoseconds.
    pub since_ns: Option<u64>,
    /// The first line of the message, escaped as in the trace.
    pub text: String,
}

/// One sort of messages in both traces.
#[derive(Debug, Serialize)]
pub struct SortComparison {
    /// The shape of the messages, with `#` for numbers.
    pub message: String,
    /// The messages in the first trace.
    pub a: SortSide,
    /// The messages in the second trace.
    pub b: SortSide,
}

/// One sort of messages in one trace.
#[derive(Debug, Serialize)]
pub struct SortSide {
    /// The number of messages of this sort.
    pub count: u64,
    /// The number of these messages that have one of the same thread before them.
    pub measured: u64,
    /// The median time since that one, in nanoseconds, to 1 %.
    pub median_ns: Option<u64>,
    /// The 99th percentile of these times, in nanoseconds.
    pub p99_ns: Option<u64>,
}

impl Comparison {
    /// Compares two traces, with at most `rows` sorts of messages.
    pub fn of(a: &Input, b: &Input, pairs: &[Pair<'_>], shapes: &Shapes, rows: usize) -> Comparison {
        let given = |input: &Input| shown_name(input.given.as_os_str().as_encoded_bytes());
        let sorts = sorts(a, b);
        let message = |shape| String::from_utf8_lossy(shapes.text(shape)).into_owned();
        let of_sort = |(shape, a, b)| SortComparison { message: message(shape), a, b };
        Comparison {
            version: VERSION,
            a: given(a),
            b: given(b),
            same: pairs.iter().all(Pair::is_same),
            threads: pairs.iter().map(|pair| ThreadComparison::of(a, b, pair)).collect(),
            sorts: sorts.len() as u64,
            messages: sorts.into_iter().take(rows).map(of_sort).collect(),
        }
    }

    /// Returns the comparison for programs: JSON on several lines.
    ///
    /// # Errors
    /// No error is known.
    pub fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::plain(format!("cannot write JSON: {error}")))
    }
}

impl ThreadComparison {
    fn of(a: &Input, b: &Input, pair: &Pair<'_>) -> ThreadComparison {
        let name = pair.a.or(pair.b).and_then(|thread| thread.name.as_deref());
        // Where one thread goes another way than the other there is something to show.
        let differs = pair.a.is_some() && pair.b.is_some() && !pair.is_same();
        let from = |input: &Input, thread: &ThreadMessages, first: usize, count: usize| {
            let numbers = first..first + if differs { count } else { 0 };
            numbers.filter_map(|number| MessageLine::of(input, thread, number)).collect()
        };
        let side = |input, thread: Option<&ThreadMessages>| {
            thread.map(|thread| ThreadSide {
                tid: thread.tid,
                records: thread.shapes.len() as u64,
                next: from(input, thread, pair.alike, CONTEXT.1),
            })
        };
        let first = pair.alike.saturating_sub(CONTEXT.0);
        ThreadComparison {
            name: name.map(shown_name),
            same: pair.is_same(),
            a: side(a, pair.a),
            b: side(b, pair.b),
            alike: pair.alike as u64,
            only_a: pair.only_a as u64,
            only_b: pair.only_b as u64,
            before: pair.a.map_or_else(Vec::new, |thread| from(a, thread, first, pair.alike - first)),
        }
    }
}

impl MessageLine {
    fn of(input: &Input, thread: &ThreadMessages, number: usize) -> Option<MessageLine> {
        let message = input.message(thread, number)?;
        let line = message.text.split(|&b| b == b'\n').next().unwrap_or_default();
        Some(MessageLine {
            file: shown_name(message.path.as_os_str().as_encoded_bytes()),
            line: message.line as u64,
            since_ns: message.since,
            text: String::from_utf8_lossy(line).into_owned(),
        })
    }
}

impl SortSide {
    fn of(input: &Input, shape: ShapeId) -> SortSide {
        let latencies = input.latencies.get(&shape);
        let ns = |percent| input.ns(latencies?.percentile(percent)?);
        SortSide {
            count: input.counts.get(&shape).copied().unwrap_or(0),
            measured: latencies.map_or(0, Latencies::count),
            median_ns: ns(50),
            p99_ns: ns(99),
        }
    }
}

/// Returns all sorts of messages; those that differ most are first.
fn sorts(a: &Input, b: &Input) -> Vec<(ShapeId, SortSide, SortSide)> {
    let mut all: Vec<ShapeId> = a.counts.keys().chain(b.counts.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    let sort = |shape| {
        let (a, b) = (SortSide::of(a, shape), SortSide::of(b, shape));
        (significance(&a, &b), (shape, a, b))
    };
    let mut sorts: Vec<_> = all.into_iter().map(sort).collect();
    sorts.sort_by(|(x, (of_x, ..)), (y, (of_y, ..))| y.total_cmp(x).then(of_x.cmp(of_y)));
    sorts.into_iter().map(|(_, sort)| sort).collect()
}

/// The significance of a difference: by how many standard deviations the counts differ, or by which factor
/// the medians, with more weight the more often they were measured.
fn significance(a: &SortSide, b: &SortSide) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let float = |number: u64| number as f64;
    let counts = float(a.count.abs_diff(b.count)) / float(a.count + b.count).sqrt().max(1.0);
    let medians = match (a.median_ns, b.median_ns) {
        (Some(a_ns), Some(b_ns)) => {
            let times = (float(a_ns.max(1)) / float(b_ns.max(1))).log2().abs();
            times * float(a.measured.min(b.measured)).sqrt()
        }
        _ => 0.0,
    };
    counts.max(medians)
}
