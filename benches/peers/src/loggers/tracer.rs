//! This tracer, with its defaults: each thread has a ring of 1 MiB, and waits if the ring is full.
//!
//! Only the limit of such a wait is raised, from a second to an hour, so that nothing is dropped on a machine that is
//! busy with other work. Each thread has a file, with ticks.

use super::{Format, Logger, Recorder};
use crate::Outcome;
use std::path::Path;
use tracer::Tracer;

/// Returns the environment variables of a process that traces into `directory`.
pub fn environment(directory: &Path, clock: &str, format: Format) -> Vec<(&'static str, String)> {
    let format = match format {
        Format::Text => "text",
        Format::Raw => "raw",
    };
    vec![
        ("TRACER_ENABLE", "1".into()),
        ("TRACER_DIR", directory.display().to_string()),
        ("TRACER_CLOCK", clock.into()),
        ("TRACER_FORMAT", format.into()),
        ("TRACER_FULL", "block".into()),
        ("TRACER_MAX_STALL", "3600000".into()),
    ]
}

/// This tracer, called by `Tracer::get().trace(format_args!(..))`.
pub struct Formatted;

impl Recorder for Formatted {
    fn start(_: &Path) -> Outcome<Formatted> {
        enabled().map(|()| Formatted)
    }

    fn finish(self) -> Outcome<()> {
        Ok(Tracer::get().flush()?)
    }
}

impl Logger for Formatted {
    #[inline(always)]
    fn fixed(&self) {
        Tracer::get().trace(format_args!("a fixed string"));
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        Tracer::get().trace(format_args!("Iteration: {} int: {} double: {}", i, int, double));
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        Tracer::get().trace(format_args!("{}", text));
    }
}

/// This tracer, called by `trace!(..)`.
pub struct Macro;

impl Recorder for Macro {
    fn start(_: &Path) -> Outcome<Macro> {
        enabled().map(|()| Macro)
    }

    fn finish(self) -> Outcome<()> {
        Ok(Tracer::get().flush()?)
    }
}

impl Logger for Macro {
    #[inline(always)]
    fn fixed(&self) {
        tracer::trace!("a fixed string");
    }

    #[inline(always)]
    fn numbers(&self, i: u64, int: i32, double: f64) {
        tracer::trace!("Iteration: {} int: {} double: {}", i, int, double);
    }

    #[inline(always)]
    fn text(&self, text: &str) {
        tracer::trace!("{}", text);
    }
}

fn enabled() -> Outcome<()> {
    if Tracer::get().is_enabled() { Ok(()) } else { Err("the tracer is off".into()) }
}
