//! The spans: calls of async functions and spans of `tracing`, which are entered and left several times, on any
//! threads. A span is *busy* while a thread is in it, and *idle* otherwise.

pub(crate) mod arguments;
mod chain;
pub(crate) mod rows;
mod steps;

use std::sync::Arc;

use clap::Args;

use crate::ui::console::Content;
use crate::view::calls::Depth;
use crate::view::export::Export;
use crate::view::export::events::{Event, EventContent, EventExport, EventFormat, Inventory};
use crate::view::export::spans::rows::{NameRow, SlowRow, write_names, write_slowest};
use crate::view::export::spans::steps::Steps;
use crate::view::export::time_column::TimeMode;
use crate::view::known_spans::KnownSpans;
use crate::view::layout::{Context, Layout, Needs, Subcommand};
use crate::view::rows::{RowForm, help};
use crate::view::span_message::SpanMessage;
use trace_format::locks::LockRecord;

/// The layout of `spans`: how long spans took, and what they waited for.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpansLayout {
    /// The N spans that took longest, with their fields, one by one
    #[arg(long, value_name = "N", conflicts_with = "id")]
    pub slow: Option<usize>,
    /// All steps of the span with this number: when it was busy and on which thread, and what happened while it was idle
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["json", "csv"])]
    pub id: Option<u64>,
    /// The form in which the rows are printed: a table, JSON or CSV.
    #[command(flatten)]
    pub form: RowForm,
}

impl Subcommand for SpansLayout {
    const NAME: &'static str = "spans";
    const ABOUT: &'static str = "Show how long spans took, were busy and were idle";
    const FOLLOW: Option<&'static str> = None;
    const HELP: &'static str = "\
A span is one call of an async function with #[traced], or a span of tracing (with the
package tracer-tracing). Its wall time is that from its beginning to its end. It is busy
while a thread is in it, and idle otherwise: it waits for a lock, a timer, a socket, or for
a thread that continues it. A wait of the thread for the tracer is neither. A span that has
not ended lasts until the last sign of life of its process. If tracemerge run has recorded
the states of threads (TRACER_SCHED=1), busy is divided into the time on a processor (cpu),
waiting for something, and preempted by other threads.

Without an option there is a row for each name of spans and each span that opened them,
with the median (p50), the 99th percentile (to 1 %) and the maximum of each time. --slow
lists single spans. --id shows the steps of one span: for each time in which it was idle, the
spans that were busy meanwhile, and the span that a thread left last before this one was resumed,
which is often the span that it waited for. For the longest idle time, the chain of these spans
follows: which span that one had waited for, and so on.

Examples:
  tracemerge spans ./app
  tracemerge spans --slow 10 ./app
  tracemerge spans --id 12 ./app

Exit status: that of a merge";

    fn rows_help() -> String {
        format!("{}\nWith --slow:\n{}", help::<NameRow>(), help::<SlowRow>())
    }
}

impl Layout for SpansLayout {
    fn needs(&self) -> Needs {
        Needs { times: true, calls: true, labels: true, states: true, ..Needs::default() }
    }

    fn format(&self, context: &Context) -> Box<dyn Export> {
        let format = SpansFormat::new(*self, context.time.first);
        Box::new(EventExport::new(format, Depth::All, context.threads(), Arc::default()))
    }

    fn content(&self, _time: TimeMode, _in_colours: bool) -> Content {
        self.form.content()
    }

    fn is_summary(&self) -> bool {
        true
    }
}

/// The format that counts spans.
#[derive(Debug)]
struct SpansFormat {
    layout: SpansLayout,
    steps: Option<Steps>,
}

impl SpansFormat {
    fn new(layout: SpansLayout, first: u64) -> SpansFormat {
        SpansFormat { layout, steps: layout.id.map(|id| Steps::new(id, first)) }
    }
}

impl EventFormat for SpansFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, _out: &mut Vec<u8>) {
        let process = inventory.threads()[event.thread].process;
        let Some(steps) = &mut self.steps else { return };
        match event.what {
            EventContent::Message { text, .. } => {
                if let Some(record) = LockRecord::parse(text) {
                    steps.lock(event, process, &record, inventory);
                } else if let Some(message) = SpanMessage::parse(text) {
                    steps.message(event, process, &message);
                }
            }
            EventContent::Enter(call) => {
                let Some(span) = call.span else { return };
                let name = &inventory.function(call.called.function).name;
                steps.enter(event, (process, span), name, inventory);
            }
            EventContent::Leave(call, _) => {
                let Some(span) = call.span else { return };
                steps.leave(event, (process, span), KnownSpans::ending(call).is_some(), inventory);
            }
            _ => {}
        }
    }

    fn spans(&self) -> Option<KnownSpans> {
        Some(KnownSpans::new(self.layout.slow.unwrap_or(0), false))
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        let note = inventory.registry.states().in_words().filter(|_| self.layout.form.is_table());
        let note = note.map_or_else(String::new, |note| note + "\n");
        if let Some(steps) = &self.steps {
            let ends: Vec<u64> = (0..inventory.processes().len())
                .map(|process| inventory.registry.last_time(process))
                .collect();
            steps.write(inventory, &ends, out);
            return out.extend_from_slice(note.as_bytes());
        }
        let Some(sums) = inventory.spans.as_ref().map(KnownSpans::sums) else { return };
        match self.layout.slow {
            Some(_) => write_slowest(sums, self.layout.form, inventory, out),
            None => write_names(sums, self.layout.form, out),
        }
        out.extend_from_slice(note.as_bytes());
    }

    fn omissions(&self, _inventory: &Inventory) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
