//! The rows of `--csv`: one for each thread, pool, sort of messages and function that is compared.

use crate::command::diff::functions::FunctionComparison;
use crate::command::diff::model::{Comparison, PoolComparison, SortComparison, ThreadComparison, ThreadSide};
use crate::command::diff::noise::Median;
use crate::view::rows::{Column, Row, list_of_columns};

/// A row of the comparison: a thread, a pool of threads, a sort of messages, or a function, with its values in both
/// traces. Times are in nanoseconds; unknown values are `None`.
#[derive(Debug, Default)]
pub(super) struct ComparedRow {
    kind: &'static str,
    name: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    same: Option<bool>,
    a: Compared,
    b: Compared,
}

/// The values of a row in one of the two traces.
#[derive(Debug, Default)]
struct Compared {
    count: u64,
    /// The number of messages that have no counterpart in the other trace.
    only: Option<u64>,
    median: Option<Median>,
    p99: Option<u64>,
    own: Option<u64>,
}

impl ComparedRow {
    /// Returns the rows of a comparison: threads, pools, sorts of messages and functions, each in the order of the text
    /// output.
    pub(super) fn of(comparison: &Comparison) -> Vec<ComparedRow> {
        let functions = comparison.calls.iter().flat_map(|calls| &calls.rows);
        let threads = comparison.threads.iter().map(ComparedRow::from);
        threads
            .chain(comparison.pools.iter().map(ComparedRow::from))
            .chain(comparison.messages.iter().map(ComparedRow::from))
            .chain(functions.map(ComparedRow::from))
            .collect()
    }

    fn change(&self) -> Option<f64> {
        Some(self.a.median?.change_to(&self.b.median?).percent)
    }

    fn is_significant(&self) -> Option<bool> {
        self.a.median?.change_to(&self.b.median?).is_significant
    }
}

impl From<&ThreadComparison> for ComparedRow {
    fn from(thread: &ThreadComparison) -> ComparedRow {
        let side = |side: &Option<_>, only| Compared {
            count: side.as_ref().map_or(0, |side: &ThreadSide| side.records),
            only: Some(only),
            ..Compared::default()
        };
        ComparedRow {
            kind: "thread",
            name: thread.name.clone(),
            same: Some(thread.same),
            a: side(&thread.a, thread.only_a),
            b: side(&thread.b, thread.only_b),
            ..ComparedRow::default()
        }
    }
}

impl From<&PoolComparison> for ComparedRow {
    fn from(pool: &PoolComparison) -> ComparedRow {
        let side = |count, only| Compared { count, only: Some(only), ..Compared::default() };
        ComparedRow {
            kind: "pool",
            name: pool.name.clone(),
            same: Some(pool.same),
            a: side(pool.a.records, pool.only_a),
            b: side(pool.b.records, pool.only_b),
            ..ComparedRow::default()
        }
    }
}

impl From<&SortComparison> for ComparedRow {
    fn from(sort: &SortComparison) -> ComparedRow {
        let [a, b] = [&sort.a, &sort.b].map(|side| Compared {
            count: side.count,
            median: side.median,
            p99: side.p99_ns,
            ..Compared::default()
        });
        ComparedRow {
            kind: "message",
            name: Some(sort.sort.message.clone()),
            file: sort.sort.file.clone(),
            line: sort.sort.line,
            a,
            b,
            ..ComparedRow::default()
        }
    }
}

impl From<&FunctionComparison> for ComparedRow {
    fn from(function: &FunctionComparison) -> ComparedRow {
        let [a, b] = [&function.a, &function.b].map(|side| Compared {
            count: side.calls,
            median: side.median(),
            own: side.self_ns,
            ..Compared::default()
        });
        ComparedRow {
            kind: "function",
            name: Some(function.function.clone()),
            a,
            b,
            ..ComparedRow::default()
        }
    }
}

impl Row for ComparedRow {
    const NAME: &'static str = "rows";
    const FACTS: &'static [(&'static str, &'static str)] = &[];
    const COLUMNS: &'static [Column<ComparedRow>] = &[
        Column::hidden("kind", "what the row compares: thread, pool, message or function", |row| {
            row.kind.into()
        }),
        Column::hidden(
            "name",
            "the name, or the text of the messages; empty for the first thread of a process",
            |row| row.name.as_deref().into(),
        ),
        Column::hidden("file", "the source file of the messages", |row| row.file.as_deref().into()),
        Column::hidden("line", "the line in that file", |row| row.line.into()),
        Column::hidden("same", "whether the thread or the pool has the same messages in A and B", |row| {
            row.same.into()
        }),
        Column::hidden("a_count", "the number of messages, or of calls of the function, in A", |row| {
            row.a.count.into()
        }),
        Column::hidden("b_count", "... in B", |row| row.b.count.into()),
        Column::hidden(
            "a_only",
            "of the messages of the thread or the pool, the number that only A has",
            |row| row.a.only.into(),
        ),
        Column::hidden("b_only", "... that only B has", |row| row.b.only.into()),
        Column::hidden(
            "a_median_ns",
            "the median time of a call, or since the message before, in A",
            |row| row.a.median.map(|median| median.median).into(),
        ),
        Column::hidden("b_median_ns", "... in B", |row| row.b.median.map(|median| median.median).into()),
        Column::hidden(
            "change_percent",
            "the difference of the medians, in per cent of the median of A",
            |row| row.change().into(),
        ),
        Column::hidden("significant", "whether the difference is beyond the noise of both medians", |row| {
            row.is_significant().into()
        }),
        Column::hidden(
            "a_p99_ns",
            "the 99th percentile of the times since the message before, in A",
            |row| row.a.p99.into(),
        ),
        Column::hidden("b_p99_ns", "... in B", |row| row.b.p99.into()),
        Column::hidden("a_self_ns", "the time of all calls without the calls inside, in A", |row| {
            row.a.own.into()
        }),
        Column::hidden("b_self_ns", "... in B", |row| row.b.own.into()),
    ];
}

/// Returns the help text about the columns of `--csv`.
#[must_use]
pub(crate) fn columns_help() -> String {
    format!(
        "\
--csv writes a row for each thread, pool, sort of messages and function. Its columns (times
are in nanoseconds; the cell of an unknown value is empty):
{}",
        list_of_columns::<ComparedRow>()
    )
}
