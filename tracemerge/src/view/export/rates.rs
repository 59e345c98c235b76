//! The view `rates`: the number of records of each thread in each second, or in each period of another length.

use std::collections::BTreeMap;

use clap::Args;

use crate::file::record_text::RecordText;
use crate::input::inputs::Origin;
use crate::ui::console::Content;
use crate::ui::table::Alignment::Left;
use crate::ui::units::nanoseconds;
use crate::view::export::Export;
use crate::view::export::time_column::TimeMode;
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::rows::{self, Column, Row, RowForm, Value, table};
use crate::view::thread_labels::Label;

/// The layout of `rates`: the records by period and thread.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RatesLayout {
    /// The length of a period
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "1s")]
    pub every: u64,
    /// The form in which the rows are printed: a table, JSON or CSV.
    #[command(flatten)]
    pub form: RowForm,
}

impl Subcommand for RatesLayout {
    const NAME: &'static str = "rates";
    const ABOUT: &'static str = "Count the records of each thread in each second";
    const FOLLOW: Option<&'static str> = None;
    const HELP: &'static str = "\
Shows when which thread has recorded how much: a row for each period and each thread with
records in it. Periods begin with the first line of the chosen runs. The lines of other
logs (--with) count as records of their log.

Exit status: that of a merge";

    fn rows_help() -> String {
        rows::help::<RateRow>()
    }
}

impl Layout for RatesLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, labels: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let (first, labels) = (context.time.first, context.labels.clone());
        Box::new(RatesFormat { layout: *self, first, labels, counts: BTreeMap::new() })
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        self.form.content()
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// The count of a thread's records in a period.
#[derive(Debug)]
struct RateRow {
    from_ns: u64,
    records: u64,
    thread: String,
}

impl Row for RateRow {
    const NAME: &'static str = "periods";
    const FACTS: &'static [(&'static str, &'static str)] = &[("every_ns", "the length of a period")];
    const COLUMNS: &'static [Column<RateRow>] = &[
        Column::time(
            "from_ns",
            "from",
            "the beginning of the period, counted from the first line of the chosen runs",
            |row| row.from_ns.into(),
        ),
        Column::count("records", "records", "the number of records of the thread in the period", |row| {
            row.records.into()
        }),
        Column::text(
            "thread",
            ("thread", Left),
            "the thread",
            |row| row.thread.as_str().into(),
            |row| row.thread.clone(),
        ),
    ];
}

/// The writer of the view `rates`, which counts records by period and thread.
#[derive(Debug)]
struct RatesFormat {
    layout: RatesLayout,
    first: u64,
    labels: Vec<Label>,
    /// The number of records, by the index of the period and the index of the origin.
    counts: BTreeMap<(u64, usize), u64>,
}

impl Export for RatesFormat {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        if record.is_traced() {
            let since = origin.clock.steady(record.ticks).saturating_sub(self.first);
            *self.counts.entry((since / self.layout.every.max(1), record.origin)).or_default() += 1;
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        let every = self.layout.every.max(1);
        // A thread may have several files.
        let mut by_thread: BTreeMap<(u64, &str), u64> = BTreeMap::new();
        for ((period, origin), records) in &self.counts {
            let thread = self.labels.get(*origin).map_or("", Label::full);
            *by_thread.entry((*period, thread)).or_default() += records;
        }
        let row = |((period, thread), records): ((u64, &str), u64)| RateRow {
            from_ns: period.saturating_mul(every),
            records,
            thread: thread.to_owned(),
        };
        let rows: Vec<RateRow> = by_thread.into_iter().map(row).collect();
        match self.layout.form.is_table() {
            true => out.extend_from_slice(table(&rows, "").as_bytes()),
            false => self.layout.form.write(&[Value::Count(every)], &rows, out),
        }
    }
}
