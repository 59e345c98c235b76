//! tracing, with the subscriber of tracing-subscriber and the non-blocking writer of tracing-appender, twice.
//!
//! In [`Waiting`], callers wait if the queue (128,000 lines, the default) is full. The file is behind a `BufWriter`,
//! which makes it faster: the writer's thread flushes it whenever its queue is empty. [`Documented`] is set up as in
//! the documentation of tracing-appender: with a rolling file without a buffer, and lines that find the queue full
//! are dropped. Both have no colours, because they write to a file, and otherwise the subscriber's default format.

use super::{Logger, Recorder};
use crate::Outcome;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// The logger tracing, set up so that callers wait if the queue is full, and nothing is dropped.
pub struct Waiting(WorkerGuard);

/// The logger tracing, set up as its documentation shows, so that lines are dropped if the queue is full.
pub struct Documented(WorkerGuard);

impl Waiting {
    fn guard(directory: &Path) -> Outcome<WorkerGuard> {
        let file = BufWriter::new(File::create(directory.join("tracing.log"))?);
        subscribe(NonBlockingBuilder::default().lossy(false).finish(file))
    }
}

impl Documented {
    fn guard(directory: &Path) -> Outcome<WorkerGuard> {
        let file = tracing_appender::rolling::daily(directory, "tracing.log");
        subscribe(tracing_appender::non_blocking(file))
    }
}

fn subscribe((writer, guard): (NonBlocking, WorkerGuard)) -> Outcome<WorkerGuard> {
    tracing_subscriber::fmt().with_writer(writer).with_ansi(false).try_init()?;
    Ok(guard)
}

macro_rules! logger {
    ($name:ident) => {
        impl Recorder for $name {
            fn start(directory: &Path) -> Outcome<$name> {
                $name::guard(directory).map($name)
            }

            fn finish(self) -> Outcome<()> {
                drop(self.0);
                Ok(())
            }
        }

        impl Logger for $name {
            #[inline(always)]
            fn fixed(&self) {
                tracing::info!("a fixed string");
            }

            #[inline(always)]
            fn numbers(&self, i: u64, int: i32, double: f64) {
                tracing::info!("Iteration: {} int: {} double: {}", i, int, double);
            }

            #[inline(always)]
            fn text(&self, text: &str) {
                tracing::info!("{}", text);
            }
        }
    };
}

logger!(Waiting);
logger!(Documented);
