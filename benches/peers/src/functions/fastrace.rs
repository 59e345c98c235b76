//! fastrace's local spans. A reporter of ours writes a line for each span.
//!
//! As for messages, a batch is a task under a root span, whose opening and closing is not in the figures.

use super::{FunctionRecorder, Recorded};
use crate::Outcome;
use crate::loggers::Recorder;
use fastrace::Span;
use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::local::LocalSpan;
use fastrace::prelude::SpanContext;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The name of the span.
const NAME: &str = "with_span";

/// A function with a local span.
pub struct LocalSpans;

#[inline(never)]
fn with_span(n: u64) -> u64 {
    let _span = LocalSpan::enter_with_local_parent(NAME);
    n + 1
}

impl Recorder for LocalSpans {
    fn start(directory: &Path) -> Outcome<LocalSpans> {
        let file = File::create(directory.join("fastrace.spans"))?;
        fastrace::set_reporter(ToFile(BufWriter::with_capacity(64 * 1024, file)), Config::default());
        Ok(LocalSpans)
    }

    fn task(&self, body: impl FnOnce()) {
        let root = Span::root("task", SpanContext::random());
        let _parent = root.set_local_parent();
        body();
    }

    fn finish(self) -> Outcome<()> {
        fastrace::flush();
        Ok(())
    }
}

impl FunctionRecorder for LocalSpans {
    #[inline(always)]
    fn call(&self, n: u64) -> u64 {
        with_span(n)
    }
}

/// A reporter that writes spans as lines.
struct ToFile(BufWriter<File>);

impl ToFile {
    fn write(&mut self, spans: &[SpanRecord]) -> io::Result<()> {
        for span in spans {
            writeln!(self.0, "{} {} {}", span.begin_time_unix_ns, span.duration_ns, span.name)?;
        }
        self.0.flush()
    }
}

impl Reporter for ToFile {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        if let Err(error) = self.write(&spans) {
            eprintln!("peers: fastrace's file: {error}");
        }
    }
}

/// Counts the spans of the function. A span has both ends, or there is none.
pub fn recorded(text: &str) -> Recorded {
    let spans = text.lines().filter(|line| line.split(' ').nth(2) == Some(NAME)).count() as u64;
    Recorded { entered: spans, left: spans, wrong: 0 }
}
