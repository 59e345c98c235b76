//! The differences of two traces, in the form of `--json`. The names of the fields are part of the interface. Times
//! are nanoseconds; an unknown value is `null`.

use std::cmp::Reverse;

use serde::Serialize;

use crate::command::diff::DiffOptions;
use crate::command::diff::fail_over::FailOver;
use crate::command::diff::functions::Functions;
use crate::command::diff::input::{Input, ThreadMessages};
use crate::command::diff::noise::Median;
use crate::command::diff::pool::{Pool, SortCounts};
use crate::command::diff::thread_pairs::{MatchedThreads, Pair};
use crate::ui::error::Error;
use crate::ui::messages::shown_name;
use crate::view::sorts::{SortId, Sorts};

/// The version of this JSON layout. It increases when a field changes its meaning or is removed; new fields may be
/// added at any time.
pub(super) const VERSION: u32 = 3;
/// The numbers of messages of a thread that are shown around the first difference: before it, and from it on.
const CONTEXT: (usize, usize) = (2, 2);
/// The least number of measured times that each trace must have for a comparison of their medians: with fewer times,
/// the medians are not compared.
const MEASURED: u64 = 5;

/// All differences of two traces.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// The version of this JSON layout, `VERSION`.
    pub version: u32,
    /// The first trace, as the user wrote it.
    pub a: String,
    /// The second trace, as the user wrote it.
    pub b: String,
    /// Whether all single threads have the same messages in the same order, and all pools the same messages in any
    /// order.
    pub same: bool,
    /// Whether messages of the same site have the same sort; otherwise messages of the same shape have the same sort.
    pub by_site: bool,
    /// The threads whose names, apart from numbers, are unique in their traces: the threads of the first trace in their
    /// order, then the threads that only the second trace has.
    pub threads: Vec<ThreadComparison>,
    /// The pools of the first trace, then the pools that only the second trace has.
    pub pools: Vec<PoolComparison>,
    /// The number of sorts of messages in both traces together.
    pub sorts: u64,
    /// The number of sorts that occur once in the first trace and never in the second.
    pub once_a: u64,
    /// The number of sorts that occur once in the second trace and never in the first.
    pub once_b: u64,
    /// The number of sorts that occur once in each trace.
    pub once_both: u64,
    /// The sorts of messages that are listed; those that differ most come first. Sorts that occur at most once in each
    /// trace come last, and are left out unless all fit.
    pub messages: Vec<SortComparison>,
    /// The calls of functions, if both traces have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Functions>,
    /// The result of `--fail-over`, if the user has given this option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_over: Option<FailOver>,
}

/// A thread that is compared: two threads, one of each trace, that have the same name without numbers or are the first
/// threads of their traces; or a thread that has no counterpart in the other trace.
#[derive(Debug, Serialize)]
pub(super) struct ThreadComparison {
    /// The name of the thread, escaped as in the trace; a process's first thread has none.
    pub name: Option<String>,
    /// Whether both threads have the same messages in the same order.
    pub same: bool,
    /// The thread in the first trace.
    pub a: Option<ThreadSide>,
    /// The thread in the second trace.
    pub b: Option<ThreadSide>,
    /// The number of equal messages with which both threads begin.
    pub alike: u64,
    /// The number of the thread's messages that are only in the first trace.
    pub only_a: u64,
    /// The number of the thread's messages that are only in the second trace.
    pub only_b: u64,
    /// Whether `only_a` and `only_b` are the least possible numbers; otherwise they may be larger than necessary.
    pub exact: bool,
    /// The last messages of the first trace before the first difference; empty if one thread is missing or all
    /// messages are the same.
    pub before: Vec<MessageLine>,
}

/// A thread in one of the traces.
#[derive(Debug, Serialize)]
pub(super) struct ThreadSide {
    /// The operating system's id of the thread.
    pub tid: u64,
    /// The number of messages of the thread.
    pub records: u64,
    /// A few messages from the first difference on; empty if one thread is missing or all messages are the same.
    pub next: Vec<MessageLine>,
}

/// A message, with its position.
#[derive(Debug, Serialize)]
pub(super) struct MessageLine {
    /// The path of the file that contains the message.
    pub file: String,
    /// The number of the message's line in the file, from 1; in a raw file, the number of the line in its text.
    pub line: u64,
    /// The time between the first message of the trace and this message, in nanoseconds.
    pub since_ns: Option<u64>,
    /// The first line of the message, escaped as in the trace.
    pub text: String,
}

/// A pool: threads whose names are equal except for numbers, of which at least one trace has several.
#[derive(Debug, Serialize)]
pub(super) struct PoolComparison {
    /// The name of the threads, escaped as in the trace, with `#` for numbers in which the names differ. `None` for the
    /// pool of nameless threads: the first threads of all processes except the first process.
    pub name: Option<String>,
    /// Whether the names of the threads differ in their numbers.
    pub numbered: bool,
    /// Whether the messages are the same, in any order and on any of the threads.
    pub same: bool,
    /// The threads in the first trace.
    pub a: PoolSide,
    /// The threads in the second trace.
    pub b: PoolSide,
    /// The number of messages of the pool that are only in the first trace.
    pub only_a: u64,
    /// The number of messages of the pool that are only in the second trace.
    pub only_b: u64,
    /// The number of sorts of messages of which one trace has more messages than the other.
    pub sorts: u64,
    /// The number of sorts that occur once in the first trace and never in the second.
    pub once_a: u64,
    /// The number of sorts that occur once in the second trace and never in the first.
    pub once_b: u64,
    /// The first sorts of which one trace has more messages than the other; the sorts that differ most come first.
    pub messages: Vec<SortDifference>,
    /// The number of pairs of sorts whose messages follow each other in this order, within a thread, in only one trace.
    pub orders: u64,
    /// The most frequent pairs of sorts whose messages follow each other in this order in only one trace.
    pub successions: Vec<SuccessionDifference>,
}

/// The threads of a pool in one of the traces.
#[derive(Debug, Serialize)]
pub(super) struct PoolSide {
    /// The number of threads.
    pub threads: u64,
    /// The number of messages of the pool's threads.
    pub records: u64,
}

/// The text of a sort of messages and its place in the program.
#[derive(Debug, Serialize)]
pub(super) struct SortText {
    /// The template of the messages, or their shape, with `#` for numbers.
    pub message: String,
    /// The source file of the site that made the messages, if it is known.
    pub file: Option<String>,
    /// The line of the site in the source file.
    pub line: Option<u32>,
}

/// A sort of messages of which one trace has more messages than the other.
#[derive(Debug, Serialize)]
pub(super) struct SortDifference {
    /// The text of the sort, and its place in the program.
    #[serde(flatten)]
    pub sort: SortText,
    /// The number of messages of the sort in the first trace.
    pub a: u64,
    /// The number of messages of the sort in the second trace.
    pub b: u64,
}

/// Two successive messages of one thread, in an order that only one of the traces has.
#[derive(Debug, Serialize)]
pub(super) struct SuccessionDifference {
    /// The sort of the first message.
    pub first: SortText,
    /// The sort of the second message.
    pub second: SortText,
    /// The number of times that the two messages follow each other in the first trace.
    pub a: u64,
    /// The number of times that the two messages follow each other in the second trace.
    pub b: u64,
}

/// One sort of messages in both traces.
#[derive(Debug, Serialize)]
pub(super) struct SortComparison {
    /// The text of the sort, and its place in the program.
    #[serde(flatten)]
    pub sort: SortText,
    /// The messages in the first trace.
    pub a: SortSide,
    /// The messages in the second trace.
    pub b: SortSide,
}

/// One sort of messages in one trace.
#[derive(Debug, Default, Serialize)]
pub(super) struct SortSide {
    /// The number of messages of this sort.
    pub count: u64,
    /// The number of messages of this sort for which the time since the previous message of the thread is known: all
    /// except the first message of each thread.
    pub measured: u64,
    /// The median time since the previous message of the same thread, in nanoseconds, with an error of up to 1 %.
    pub median_ns: Option<u64>,
    /// The median time since the previous message of the same thread, with its confidence interval.
    #[serde(skip)]
    pub median: Option<Median>,
    /// The 99th percentile of the times since the previous message of the same thread, in nanoseconds.
    pub p99_ns: Option<u64>,
}

impl Comparison {
    /// Returns the results of the comparison. Each table gets at most as many rows as `options` allow.
    pub(super) fn of(
        a: &Input,
        b: &Input,
        compared: &MatchedThreads<'_>,
        (sorts, by_site): (&Sorts, bool),
        mut calls: Option<Functions>,
        options: &DiffOptions,
    ) -> Self {
        let rows = options.rows;
        let all = sorts_by_significance(a, b, sorts);
        let (once_a, once_b) = once(all.iter().map(|(counts, ..)| counts));
        let once_both = all.iter().filter(|(counts, ..)| (counts.a, counts.b) == (1, 1)).count() as u64;
        let listed = listed(all.len(), once_a + once_b + once_both, rows);
        let number_of_sorts = all.len() as u64;
        let sort = |(counts, a, b): (SortCounts, SortSide, SortSide)| {
            let sort = SortText::of(sorts, counts.sort);
            SortComparison { sort, a, b }
        };
        let mut messages: Vec<SortComparison> = all.into_iter().map(sort).collect();
        let functions = calls.as_ref().map_or(&[][..], |calls| &calls.rows);
        let fail_over = options.fail_over.map(|limit| FailOver::of(limit, functions, &messages));
        // All are compared, and the first are shown.
        messages.truncate(listed);
        if let Some(calls) = &mut calls {
            calls.rows.truncate(rows);
        }
        Comparison {
            version: VERSION,
            a: shown_name(a.given.as_os_str().as_encoded_bytes()),
            b: shown_name(b.given.as_os_str().as_encoded_bytes()),
            same: compared.is_same(),
            by_site,
            threads: compared.pairs.iter().map(|pair| ThreadComparison::of(a, b, pair)).collect(),
            pools: compared.pools.iter().map(|pool| PoolComparison::of(pool, sorts, rows)).collect(),
            sorts: number_of_sorts,
            once_a,
            once_b,
            once_both,
            messages,
            calls,
            fail_over,
        }
    }

    /// Returns the comparison for programs: JSON on several lines.
    ///
    /// # Errors
    /// None are known.
    pub(super) fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::plain(format!("cannot write JSON: {error}")))
    }
}

impl ThreadComparison {
    fn of(a: &Input, b: &Input, pair: &Pair<'_>) -> ThreadComparison {
        let name = pair.a.or(pair.b).and_then(|thread| thread.name.as_deref());
        // Messages are shown only if both threads exist and differ.
        let differs = pair.a.is_some() && pair.b.is_some() && !pair.is_same();
        let from = |input: &Input, thread: &ThreadMessages, first: usize, count: usize| {
            let numbers = first..first + if differs { count } else { 0 };
            numbers.filter_map(|number| MessageLine::of(input, thread, number)).collect()
        };
        let side = |input, thread: Option<&ThreadMessages>| {
            thread.map(|thread| ThreadSide {
                tid: thread.tid,
                records: thread.sorts.len() as u64,
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
            exact: pair.exact,
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

impl PoolComparison {
    fn of(pool: &Pool<'_>, sorts: &Sorts, rows: usize) -> PoolComparison {
        let [records_a, records_b] = pool.records();
        let [threads_a, threads_b] = pool.threads.each_ref().map(|threads| threads.len() as u64);
        let (once_a, once_b) = once(&pool.sorts);
        let listed = listed(pool.sorts.len(), once_a + once_b, rows);
        let difference = |counts: &SortCounts| SortDifference {
            sort: SortText::of(sorts, counts.sort),
            a: counts.a,
            b: counts.b,
        };
        let successions = pool.successions.iter().take(rows).map(|found| SuccessionDifference {
            first: SortText::of(sorts, found.first),
            second: SortText::of(sorts, found.second),
            a: found.a,
            b: found.b,
        });
        PoolComparison {
            name: pool.name.as_deref().map(shown_name),
            numbered: pool.is_numbered(),
            same: pool.is_same(),
            a: PoolSide { threads: threads_a, records: records_a },
            b: PoolSide { threads: threads_b, records: records_b },
            only_a: pool.sorts.iter().map(|counts| counts.a.saturating_sub(counts.b)).sum(),
            only_b: pool.sorts.iter().map(|counts| counts.b.saturating_sub(counts.a)).sum(),
            sorts: pool.sorts.len() as u64,
            once_a,
            once_b,
            messages: pool.sorts.iter().take(listed).map(difference).collect(),
            orders: pool.successions.len() as u64,
            successions: successions.collect(),
        }
    }
}

impl SortText {
    fn of(sorts: &Sorts, id: SortId) -> SortText {
        let site = sorts.site(id);
        SortText {
            message: sorts.text(id),
            file: site.map(|site| site.file.clone()),
            line: site.map(|site| site.line),
        }
    }
}

impl SortSide {
    fn of(input: &Input, sort: SortId) -> SortSide {
        let Some(measured) = input.measured(sort) else { return SortSide::default() };
        let latencies = &measured.latencies;
        let median = Median::of(latencies).and_then(|median| median.converted(|ticks| input.ns(ticks)));
        SortSide {
            count: measured.count,
            measured: latencies.count(),
            median_ns: median.map(|median| median.median),
            median,
            p99_ns: latencies.percentile(99).and_then(|ticks| input.ns(ticks)),
        }
    }
}

/// Counts the sorts with a single message in both traces together. Returns the number of sorts whose message is in the
/// first trace, and the number of sorts whose message is in the second.
fn once<'a>(counts: impl IntoIterator<Item = &'a SortCounts>) -> (u64, u64) {
    let once = counts.into_iter().filter(|counts| counts.is_once());
    once.fold((0, 0), |(a, b), counts| (a + counts.a, b + counts.b))
}

/// Returns how many of `all` sorts a table lists. If not all fit into `rows` rows, the last `once` sorts, which occur
/// at most once in each trace, are not listed, because their number says more than an incomplete list.
fn listed(all: usize, once: u64, rows: usize) -> usize {
    if all <= rows { all } else { rows.min(all.saturating_sub(usize::try_from(once).unwrap_or(all))) }
}

/// Returns all sorts of messages, in three groups: first the sorts with several messages in a trace, then the sorts
/// with one message in each trace, then the sorts with a single message in only one trace. In each group, the sorts
/// that differ most come first.
fn sorts_by_significance(a: &Input, b: &Input, sorts: &Sorts) -> Vec<(SortCounts, SortSide, SortSide)> {
    let ids = (0..).take_while(|id| sorts.get(*id).is_some());
    let sort = |sort| {
        let (a, b) = (SortSide::of(a, sort), SortSide::of(b, sort));
        let counts = SortCounts { sort, a: a.count, b: b.count };
        (significance(&counts, &a, &b), (counts, a, b))
    };
    let mut sorts: Vec<_> = ids.map(sort).collect();
    sorts.sort_by(|(x, (of_x, ..)), (y, (of_y, ..))| {
        let comes_twice = |counts: &SortCounts| Reverse(counts.a.max(counts.b) > 1);
        let class = |counts: &SortCounts| (comes_twice(counts), counts.is_once());
        class(of_x).cmp(&class(of_y)).then(y.total_cmp(x)).then(of_x.sort.cmp(&of_y.sort))
    });
    sorts.into_iter().map(|(_, sort)| sort).collect()
}

/// Returns how significant the difference of a sort is between the traces. It is the greater of two values: the
/// difference of the counts, in standard deviations; and the ratio of the median times, weighted by the number of
/// measurements.
fn significance(counts: &SortCounts, a: &SortSide, b: &SortSide) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let float = |number: u64| number as f64;
    let measured = a.measured.min(b.measured);
    let medians = match (a.median_ns, b.median_ns) {
        (Some(a_ns), Some(b_ns)) if measured >= MEASURED => {
            let times = (float(a_ns.max(1)) / float(b_ns.max(1))).log2().abs();
            times * float(measured).sqrt()
        }
        _ => 0.0,
    };
    counts.significance().max(medians)
}
