//! spdlog-rs, with an `AsyncPoolSink` before a `FileSink`, as in its example for asynchronous loggers and in its own
//! benchmark. All settings are defaults: the queue has 8192 records, and callers wait if it is full.
//!
//! The feature `flexible-string` is on, which the authors of spdlog-rs offer for speed. There is no flush
//! after every record, as their example has it.

use super::{Logger, Recorder};
use crate::Outcome;
use spdlog::ThreadPool;
use spdlog::sink::{AsyncPoolSink, FileSink, OverflowPolicy, Sink};
use std::path::Path;
use std::sync::Arc;

/// The logger spdlog-rs, with the sink that is flushed at its end.
pub struct Spdlog {
    logger: spdlog::Logger,
    sink: Arc<AsyncPoolSink>,
}

impl Recorder for Spdlog {
    fn start(directory: &Path) -> Outcome<Spdlog> {
        let file = FileSink::builder().path(directory.join("spdlog.log")).build_arc()?;
        let sink = AsyncPoolSink::builder()
            .sink(file)
            .overflow_policy(OverflowPolicy::Block)
            .thread_pool(ThreadPool::builder().build_arc()?)
            .build_arc()?;
        let logger = spdlog::Logger::builder().sink(sink.clone()).build()?;
        Ok(Spdlog { logger, sink })
    }

    /// Flushes the sink in the way in which the logger itself does at the end of a process; `flush` would only queue
    /// the request.
    fn finish(self) -> Outcome<()> {
        Ok(self.sink.flush_on_exit()?)
    }
}

impl Logger for Spdlog {
    #[inline(always)]
    fn fixed(&self) {
        spdlog::info!(logger: self.logger, "a fixed string");
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        spdlog::info!(logger: self.logger, "Iteration: {} int: {} double: {}", i, int, double);
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        spdlog::info!(logger: self.logger, "{}", text);
    }
}
