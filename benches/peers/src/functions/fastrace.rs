//! fastrace's local spans around a function. A reporter in this program writes a line for each span.
//!
//! As for messages, a batch is a task under a root span; the figures do not include opening and closing the root span.

use super::{FunctionRecorder, Recorded};
use crate::Outcome;
use crate::loggers::Recorder;
use crate::loggers::fastrace::{report_to, under_a_root_span};
use fastrace::local::LocalSpan;
use std::path::Path;

/// The name of the span that a call of the function makes.
const NAME: &str = "with_span";

/// The recorder of a function with a local span.
pub struct LocalSpans;

#[inline(never)]
fn with_span(n: u64) -> u64 {
    let _span = LocalSpan::enter_with_local_parent(NAME);
    n + 1
}

impl Recorder for LocalSpans {
    fn start(directory: &Path) -> Outcome<LocalSpans> {
        report_to(&directory.join("fastrace.spans"), |file, span| {
            writeln!(file, "{} {} {}", span.begin_time_unix_ns, span.duration_ns, span.name)
        })?;
        Ok(LocalSpans)
    }

    fn task(&self, body: impl FnOnce()) {
        under_a_root_span(body);
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

/// Counts the spans of the function in the reporter's file. A span is recorded with both ends, or not at all.
pub fn recorded(text: &str) -> Recorded {
    let spans = text.lines().filter(|line| line.split(' ').nth(2) == Some(NAME)).count() as u64;
    Recorded { entered: spans, left: spans, wrong: 0 }
}
