//! The rows about spans: by name, and the slowest ones.

use std::collections::BTreeMap;

use crate::ui::messages::count;
use crate::ui::table::Alignment::Left;
use crate::view::export::events::Inventory;
use crate::view::known_spans::{AllSums, How, SlowSpan, Sums};
use crate::view::latency::Latencies;
use crate::view::rows::{Column, Row, RowForm, Value, table};
use crate::view::thread_states::OffSum;

/// The text that is printed if the trace has no spans.
pub(crate) const NO_SPANS: &str = "no spans: calls of async functions with #[traced], and spans of tracing with the package \
    tracer-tracing, are spans\n";

/// A row about all spans that have one name and were opened by spans of one name.
#[derive(Debug)]
pub(crate) struct NameRow {
    name: String,
    opened_by: Option<String>,
    sums: Sums,
}

/// Returns the nanoseconds of the busy time `busy` that were spent on a processor; `None` if the trace has no states of
/// threads.
fn cpu(off: Option<OffSum>, busy: u64) -> Option<u64> {
    Some(busy.saturating_sub(off?.all()))
}

/// Returns the percentile `percent` of `times`; 100 stands for the maximum.
fn part(times: &Latencies, percent: u64) -> Value {
    if percent == 100 { times.most().into() } else { times.percentile(percent).into() }
}

impl Row for NameRow {
    const NAME: &'static str = "names";
    const FACTS: &'static [(&'static str, &'static str)] = &[
        ("spans", "the number of spans"),
        ("cancelled", "the number of spans whose future was dropped before its end"),
        ("open", "the number of spans that have not ended"),
    ];
    const COLUMNS: &'static [Column<NameRow>] = &[
        Column::count("spans", "spans", "the number of spans", |row| row.sums.wall.count().into()),
        Column::time("wall_p50_ns", "wall p50", "the median of the wall times", |row| {
            part(&row.sums.wall, 50)
        }),
        Column::time("wall_p99_ns", "p99", "the 99th percentile of the wall times", |row| {
            part(&row.sums.wall, 99)
        }),
        Column::time("wall_max_ns", "max", "the longest wall time", |row| part(&row.sums.wall, 100)),
        Column::time("busy_p50_ns", "busy p50", "the median of the busy times", |row| {
            part(&row.sums.busy, 50)
        }),
        Column::time("busy_p99_ns", "p99", "the 99th percentile of the busy times", |row| {
            part(&row.sums.busy, 99)
        }),
        Column::time("busy_max_ns", "max", "the longest busy time", |row| part(&row.sums.busy, 100)),
        Column::known_time("cpu_ns", "cpu", "the part of all busy times on a processor", |row| {
            cpu(row.sums.off, row.sums.busy_total).into()
        }),
        Column::known_time(
            "waiting_ns",
            "waiting",
            "the part of all busy times in which the thread waited for something",
            |row| row.sums.off.map(|off| off.waiting).into(),
        ),
        Column::known_time(
            "preempted_ns",
            "preempted",
            "the part of all busy times in which another thread had the processor",
            |row| row.sums.off.map(|off| off.preempted).into(),
        ),
        Column::time("idle_p50_ns", "idle p50", "the median of the idle times", |row| {
            part(&row.sums.idle, 50)
        }),
        Column::time("idle_p99_ns", "p99", "the 99th percentile of the idle times", |row| {
            part(&row.sums.idle, 99)
        }),
        Column::time("idle_max_ns", "max", "the longest idle time", |row| part(&row.sums.idle, 100)),
        Column::hidden("wall_total_ns", "the sum of the wall times", |row| row.sums.total.into()),
        Column::hidden("polls", "how often the spans were entered, all together", |row| {
            row.sums.polls.into()
        }),
        Column::hidden("cancelled", "the number of spans whose future was dropped before its end", |row| {
            row.sums.cancelled.into()
        }),
        Column::hidden("open", "the number of spans that have not ended", |row| row.sums.open.into()),
        Column::text(
            "name",
            ("name", Left),
            "the name",
            |row| row.name.as_str().into(),
            |row| row.name.clone(),
        ),
        Column::text(
            "opened_by",
            ("opened by", Left),
            "the name of the span that opened these spans; unknown if no span has",
            |row| row.opened_by.as_deref().into(),
            |row| row.opened_by.clone().unwrap_or_default(),
        ),
    ];
}

/// A row about all spans of one name, for reports.
#[derive(Debug)]
pub(crate) struct SpanRow {
    name: String,
    sums: Sums,
}

impl SpanRow {
    /// Returns a row for each name, those with the greatest wall times first.
    pub(crate) fn all(sums: AllSums) -> Vec<SpanRow> {
        let mut by_name: BTreeMap<String, Sums> = BTreeMap::new();
        sums.by_name.iter().for_each(|(name, _, of)| by_name.entry(name.clone()).or_default().add(of));
        let mut rows: Vec<SpanRow> = by_name.into_iter().map(|(name, sums)| SpanRow { name, sums }).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.sums.total));
        rows
    }
}

impl Row for SpanRow {
    const NAME: &'static str = "spans";
    const FACTS: &'static [(&'static str, &'static str)] = &[];
    const COLUMNS: &'static [Column<SpanRow>] = &[
        Column::count("spans", "spans", "the number of spans", |row| row.sums.wall.count().into()),
        Column::time("wall_total_ns", "wall", "the sum of the wall times", |row| row.sums.total.into()),
        Column::time("wall_p50_ns", "p50", "the median of the wall times", |row| part(&row.sums.wall, 50)),
        Column::time("wall_max_ns", "max", "the longest wall time", |row| part(&row.sums.wall, 100)),
        Column::time("busy_total_ns", "busy", "the sum of the busy times", |row| row.sums.busy_total.into()),
        Column::time("busy_p50_ns", "p50", "the median of the busy times", |row| part(&row.sums.busy, 50)),
        Column::time("busy_max_ns", "max", "the longest busy time", |row| part(&row.sums.busy, 100)),
        Column::known_time("cpu_ns", "cpu", "the part of all busy times on a processor", |row| {
            cpu(row.sums.off, row.sums.busy_total).into()
        }),
        Column::known_time(
            "waiting_ns",
            "waiting",
            "the part of all busy times in which the thread waited for something",
            |row| row.sums.off.map(|off| off.waiting).into(),
        ),
        Column::known_time(
            "preempted_ns",
            "preempted",
            "the part of all busy times in which another thread had the processor",
            |row| row.sums.off.map(|off| off.preempted).into(),
        ),
        Column::text(
            "name",
            ("span", Left),
            "the name",
            |row| row.name.as_str().into(),
            |row| row.name.clone(),
        ),
    ];
}

/// A row about a single span.
#[derive(Debug)]
pub(crate) struct SlowRow {
    slow: SlowSpan,
    /// The id of the span's process; `None` if all spans are of one process.
    pid: Option<u32>,
}

impl SlowRow {
    fn title(&self) -> String {
        let SlowSpan { key: (_, id), name, fields, how, .. } = &self.slow;
        let mut title = format!("{name} #{id}");
        if let Some(pid) = self.pid {
            title = format!("{pid}/{title}");
        }
        if !fields.is_empty() {
            title.push_str(&format!("  {{{fields}}}"));
        }
        match how {
            How::Ended => {}
            How::Cancelled => title.push_str("  cancelled"),
            How::Open => title.push_str("  has not ended"),
        }
        title
    }
}

impl Row for SlowRow {
    const NAME: &'static str = "slowest";
    const FACTS: &'static [(&'static str, &'static str)] = NameRow::FACTS;
    const COLUMNS: &'static [Column<SlowRow>] = &[
        Column::time("wall_ns", "wall", "the time from the beginning of the span to its end", |row| {
            row.slow.wall.into()
        }),
        Column::time("busy_ns", "busy", "the time for which a thread was in the span", |row| {
            row.slow.span.busy.into()
        }),
        Column::known_time("cpu_ns", "cpu", "the part of busy on a processor", |row| {
            cpu(row.slow.span.off, row.slow.span.busy).into()
        }),
        Column::known_time(
            "waiting_ns",
            "waiting",
            "the part of busy in which the thread waited for something",
            |row| row.slow.span.off.map(|off| off.waiting).into(),
        ),
        Column::known_time(
            "preempted_ns",
            "preempted",
            "the part of busy in which another thread had the processor",
            |row| row.slow.span.off.map(|off| off.preempted).into(),
        ),
        Column::time("idle_ns", "idle", "the time for which no thread was in the span", |row| {
            row.slow.span.idle(row.slow.wall).into()
        }),
        Column::count("polls", "polls", "how often the span was entered", |row| row.slow.span.polls.into()),
        Column::text("name", ("span", Left), "the name", |row| row.slow.name.as_str().into(), SlowRow::title),
        Column::hidden("span", "the number of the span in its process, for --id", |row| {
            row.slow.key.1.into()
        }),
        Column::hidden("pid", "the process id, if there are several processes", |row| row.pid.into()),
        Column::hidden("fields", "the values of the span's fields", |row| row.slow.fields.as_str().into()),
        Column::hidden("end", "the state of the span: ended, cancelled or open", |row| {
            row.slow.how.name().into()
        }),
        Column::hidden("parent", "the number of the parent: the span that opened this one", |row| {
            row.slow.span.parent.into()
        }),
        Column::text(
            "opened_by",
            ("opened by", Left),
            "the name of the parent",
            |row| row.slow.opened_by.as_deref().into(),
            |row| match (&row.slow.opened_by, row.slow.span.parent) {
                (Some(name), Some(id)) => format!("{name} #{id}"),
                (None, Some(id)) => format!("#{id}"),
                (_, None) => String::new(),
            },
        ),
    ];
}

/// Returns the numbers of all, of cancelled and of open spans, as values for programs and as a line of text for people.
fn facts(sums: &AllSums) -> ([Value; 3], String) {
    let all = |number: fn(&Sums) -> u64| sums.by_name.iter().map(|(.., sums)| number(sums)).sum::<u64>();
    let (spans, cancelled, open) =
        (all(|sums| sums.wall.count()), all(|sums| sums.cancelled), all(|sums| sums.open));
    let mut line = count(spans, "span");
    for (number, what) in [(cancelled, "cancelled"), (open, "not ended")] {
        if number > 0 {
            line.push_str(&format!(", {} {what}", crate::ui::messages::Grouped(number)));
        }
    }
    line.push('\n');
    ([spans, cancelled, open].map(Value::Count), line)
}

/// Writes `facts`, which are about all spans, and `rows` in the chosen form.
fn write<T: Row>(facts: ([Value; 3], String), rows: &[T], form: RowForm, out: &mut Vec<u8>) {
    if !form.is_table() {
        return form.write(&facts.0, rows, out);
    }
    if rows.is_empty() {
        return out.extend_from_slice(NO_SPANS.as_bytes());
    }
    out.extend_from_slice(facts.1.as_bytes());
    out.extend_from_slice(table(rows, "").as_bytes());
}

/// Writes a row for each name of spans.
pub(crate) fn write_names(sums: AllSums, form: RowForm, out: &mut Vec<u8>) {
    let facts = facts(&sums);
    let rows: Vec<NameRow> =
        sums.by_name.into_iter().map(|(name, opened_by, sums)| NameRow { name, opened_by, sums }).collect();
    write(facts, &rows, form, out);
}

/// Writes a row for each of the slowest spans.
pub(crate) fn write_slowest(sums: AllSums, form: RowForm, inventory: &Inventory, out: &mut Vec<u8>) {
    let facts = facts(&sums);
    let pid = |process: usize| {
        let process = inventory.processes().get(process).filter(|_| inventory.processes().len() > 1);
        process.map(|process| process.pid())
    };
    let rows: Vec<SlowRow> =
        sums.slowest.into_iter().map(|slow| SlowRow { pid: pid(slow.key.0), slow }).collect();
    write(facts, &rows, form, out);
}
