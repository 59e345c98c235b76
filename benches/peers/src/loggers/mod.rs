//! The measured loggers, with their names and their common interface.

pub mod fastrace;
mod ftlog;
mod spdlog;
mod ticklog;
pub mod tracer;
mod tracing;

use crate::Outcome;
use crate::arguments::Calls;
use crate::report::Report;
use crate::{call, throughput};
use clap::ValueEnum;
use std::path::Path;

/// The greatest number of messages that a [`Logger::task`] logs. fastrace collects at most 10,240 in one task.
pub const TASK: u64 = 4000;

/// A recorder that writes into a file in a directory, and is the only one of its process.
pub trait Recorder: Sized {
    /// Starts the recorder.
    fn start(directory: &Path) -> Outcome<Self>;

    /// Runs `body`, which makes at most [`TASK`] calls, as one task if the recorder has tasks.
    fn task(&self, body: impl FnOnce()) {
        body();
    }

    /// Returns after all records are in the file.
    fn finish(self) -> Outcome<()>;
}

/// A recorder of messages.
pub trait Logger: Recorder + Sync {
    /// Logs [`FIXED`](crate::message::FIXED).
    fn fixed(&self);

    /// Logs the message that begins with [`NUMBERS`](crate::message::NUMBERS), with these numbers.
    fn numbers(&self, i: u64, int: i32, double: f64);

    /// Logs the message that consists of `text`, by the format string `"{}"`.
    fn text(&self, text: &str);
}

/// A logger that does nothing.
pub struct Nothing;

impl Recorder for Nothing {
    fn start(_: &Path) -> Outcome<Nothing> {
        Ok(Nothing)
    }
    fn finish(self) -> Outcome<()> {
        Ok(())
    }
}

impl Logger for Nothing {
    fn fixed(&self) {}
    fn numbers(&self, _: u64, _: i32, _: f64) {}
    fn text(&self, _: &str) {}
}

/// The format in which this tracer writes its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of text.
    Text,
    /// Records in the form that rings have, which `tracemerge` reads.
    Raw,
}

/// The loggers, with the names they have on the command line and in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// This tracer: `Tracer::get().trace(format_args!(..))`
    Tracer,
    /// This tracer with `TRACER_CLOCK=fast`: `Tracer::get().trace(format_args!(..))`
    TracerFast,
    /// This tracer: `trace!(..)`
    TracerMacro,
    /// This tracer with `TRACER_CLOCK=fast`: `trace!(..)`
    TracerMacroFast,
    /// ticklog, `Backpressure::Block`
    Ticklog,
    /// spdlog-rs, asynchronous
    Spdlog,
    /// ftlog, which waits if its queue is full
    Ftlog,
    /// fastrace: events of spans
    Fastrace,
    /// tracing with tracing-appender, which waits if its queue is full
    Tracing,
    /// tracing with tracing-appender, set up as in its documentation: it drops
    TracingDefault,
}

impl Peer {
    /// Returns the logger's name on the command line and in tables.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the packages whose versions the tables state for this logger.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Peer::Ticklog => &["ticklog"],
            Peer::Spdlog => &["spdlog-rs"],
            Peer::Ftlog => &["ftlog"],
            Peer::Fastrace => &["fastrace"],
            Peer::Tracing | Peer::TracingDefault => &["tracing", "tracing-appender", "tracing-subscriber"],
            _ => &["tracer"],
        }
    }

    /// Returns whether this project's tracer is the logger.
    pub fn is_ours(self) -> bool {
        self.packages() == ["tracer"]
    }

    /// Returns whether the logger is set up to lose messages rather than to wait.
    pub fn may_drop(self) -> bool {
        self == Peer::TracingDefault
    }

    /// Returns the environment variables of a process that measures the logger.
    pub fn environment(self, directory: &Path, format: Format) -> Vec<(&'static str, String)> {
        if !self.is_ours() {
            return Vec::new();
        }
        let clock = if self.name().ends_with("-fast") { "fast" } else { "ordered" };
        tracer::environment(directory, clock, format)
    }

    /// Measures calls of the logger, in this process.
    pub fn call(self, directory: &Path, calls: &Calls) -> Outcome<Report> {
        struct Call<'a>(&'a Calls);
        impl Measure for Call<'_> {
            fn measure<L: Logger>(self, directory: &Path) -> Outcome<Report> {
                call::measure(L::start(directory)?, directory, self.0)
            }
        }
        self.measure(directory, Call(calls))
    }

    /// Measures the throughput of the logger, in this process.
    pub fn throughput(self, directory: &Path, threads: usize, messages: u64) -> Outcome<Report> {
        struct Throughput(usize, u64);
        impl Measure for Throughput {
            fn measure<L: Logger>(self, directory: &Path) -> Outcome<Report> {
                throughput::measure(L::start(directory)?, directory, self.0, self.1)
            }
        }
        self.measure(directory, Throughput(threads, messages))
    }

    fn measure(self, directory: &Path, what: impl Measure) -> Outcome<Report> {
        match self {
            Peer::Tracer | Peer::TracerFast => what.measure::<tracer::Formatted>(directory),
            Peer::TracerMacro | Peer::TracerMacroFast => what.measure::<tracer::Macro>(directory),
            Peer::Ticklog => what.measure::<ticklog::Ticklog>(directory),
            Peer::Spdlog => what.measure::<spdlog::Spdlog>(directory),
            Peer::Ftlog => what.measure::<ftlog::Ftlog>(directory),
            Peer::Fastrace => what.measure::<fastrace::Fastrace>(directory),
            Peer::Tracing => what.measure::<tracing::Waiting>(directory),
            Peer::TracingDefault => what.measure::<tracing::Documented>(directory),
        }
    }
}

/// A measurement that can be made with any logger.
trait Measure {
    fn measure<L: Logger>(self, directory: &Path) -> Outcome<Report>;
}
