//! ftlog, with a queue of 100,000 messages, the default. Callers wait if it is full. Times are in UTC and come from
//! the processor's counter (feature `tsc`), as the authors of ftlog recommend for speed, and `random_drop` is off.

use super::{Logger, Recorder};
use crate::Outcome;
use ftlog::LoggerGuard;
use ftlog::appender::FileAppender;
use std::path::Path;

/// The logger ftlog, which runs until this is dropped.
pub struct Ftlog(LoggerGuard);

impl Recorder for Ftlog {
    fn start(directory: &Path) -> Outcome<Ftlog> {
        let guard = ftlog::builder()
            .bounded(100_000, true)
            .utc()
            .root(FileAppender::new(directory.join("ftlog.log")))
            .try_init()
            .map_err(|error| error.to_string())?;
        Ok(Ftlog(guard))
    }

    fn finish(self) -> Outcome<()> {
        drop(self.0);
        Ok(())
    }
}

impl Logger for Ftlog {
    #[inline(always)]
    fn fixed(&self) {
        ftlog::info!("a fixed string");
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        ftlog::info!("Iteration: {} int: {} double: {}", i, int, double);
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        ftlog::info!("{}", text);
    }
}
