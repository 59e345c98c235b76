//! fastrace, a tracer of spans and not a logger. Its closest equivalent of a message is an event of the current span,
//! whose name is the text, formatted by the caller. A reporter in this file writes a line per event, with its time.
//!
//! fastrace collects in memory, which must be large enough for all messages, because no caller waits. A span takes
//! 10,240 events and silently drops others. A thread's queue takes as many commands, four for each root span, and
//! drops further ones at the thread's end. So messages are logged in tasks of some thousands, each under a root span,
//! as the authors of fastrace recommend ("create root spans for short tasks").
//!
//! If calls are measured, a task is a batch, and the figures do not include opening and closing its root span. If
//! throughput is measured, they do.

use super::{Logger, Recorder};
use crate::Outcome;
use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::local::LocalSpan;
use fastrace::prelude::SpanContext;
use fastrace::{Event, Span};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The logger fastrace, whose state is global.
pub struct Fastrace;

/// Sets a reporter that writes into a file; `line` writes the wanted parts of one span.
pub fn report_to(
    path: &Path,
    line: impl Fn(&mut dyn Write, &SpanRecord) -> io::Result<()> + Send + 'static,
) -> Outcome<()> {
    let file = BufWriter::with_capacity(64 * 1024, File::create(path)?);
    fastrace::set_reporter(ToFile { file, line }, Config::default());
    Ok(())
}

/// Runs `body` as a task under a root span.
pub fn under_a_root_span(body: impl FnOnce()) {
    let root = Span::root("task", SpanContext::random());
    let _parent = root.set_local_parent();
    body();
}

impl Recorder for Fastrace {
    fn start(directory: &Path) -> Outcome<Fastrace> {
        report_to(&directory.join("fastrace.log"), |file, span| {
            span.events
                .iter()
                .try_for_each(|event| writeln!(file, "{} {}", event.timestamp_unix_ns, event.name))
        })?;
        Ok(Fastrace)
    }

    fn task(&self, body: impl FnOnce()) {
        under_a_root_span(body);
    }

    fn finish(self) -> Outcome<()> {
        fastrace::flush();
        Ok(())
    }
}

impl Logger for Fastrace {
    #[inline(always)]
    fn fixed(&self) {
        LocalSpan::add_event(Event::new("a fixed string"));
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        LocalSpan::add_event(Event::new(format!("Iteration: {} int: {} double: {}", i, int, double)));
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        LocalSpan::add_event(Event::new(text.to_owned()));
    }
}

/// A reporter that calls `line` with its file for each span.
struct ToFile<L> {
    file: BufWriter<File>,
    line: L,
}

impl<L: Fn(&mut dyn Write, &SpanRecord) -> io::Result<()>> ToFile<L> {
    fn write(&mut self, spans: &[SpanRecord]) -> io::Result<()> {
        spans.iter().try_for_each(|span| (self.line)(&mut self.file, span))?;
        self.file.flush()
    }
}

impl<L: Fn(&mut dyn Write, &SpanRecord) -> io::Result<()> + Send + 'static> Reporter for ToFile<L> {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        if let Err(error) = self.write(&spans) {
            eprintln!("peers: fastrace's file: {error}");
        }
    }
}
