//! The ways to record that a function is entered and left, with the name of each way, and the check of its records.
//!
//! Each way has the same function, which is not inlined and adds one to its argument; only the code in or above the
//! function that records it differs. This tracer writes raw files, as its guide recommends for functions.

mod fastrace;
mod hotpath;
mod tracer;

use crate::Outcome;
use crate::arguments::Calls;
use crate::call::{self, FUNCTION};
use crate::loggers::{self, Format, Recorder};
use crate::report::Report;
use crate::verification::Findings;
use clap::ValueEnum;
use std::fs;
use std::path::Path;

/// A recorder that records how a function is entered and left.
pub trait FunctionRecorder: Recorder {
    /// Calls the function that this recorder records.
    fn call(&self, n: u64) -> u64;
}

/// The ways to record a function, with the names they have on the command line and in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// This tracer: `tracer::scope()`
    Scope,
    /// This tracer with `TRACER_CLOCK=fast`: `tracer::scope()`
    ScopeFast,
    /// This tracer: `scope!()`
    ScopeMacro,
    /// This tracer with `TRACER_CLOCK=fast`: `scope!()`
    ScopeMacroFast,
    /// This tracer: `#[traced]`
    Traced,
    /// This tracer with `TRACER_CLOCK=fast`: `#[traced]`
    TracedFast,
    /// fastrace: a local span
    FastraceSpan,
    /// hotpath: `#[measure]`
    Hotpath,
}

impl Way {
    /// Returns the way's name on the command line and in tables.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the packages whose versions the tables state for this way.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Way::FastraceSpan => &["fastrace"],
            Way::Hotpath => &["hotpath"],
            _ => &["tracer"],
        }
    }

    /// Returns whether this project's tracer is the recorder.
    pub fn is_ours(self) -> bool {
        self.packages() == ["tracer"]
    }

    /// Returns how the recorder is set up: its clock, the memory between the caller and the background thread, and its
    /// output.
    pub fn set_up(self) -> [&'static str; 3] {
        match self {
            Way::FastraceSpan => ["`rdtsc`", "10,240 spans a task", "a line for each span"],
            Way::Hotpath => ["`rdtsc`", "as much as it takes", "a report at the end"],
            _ if self.clock() == "fast" => ["`rdtsc`", "a ring of 1 MiB", "raw files"],
            _ => ["`lfence; rdtsc`", "a ring of 1 MiB", "raw files"],
        }
    }

    fn clock(self) -> &'static str {
        if self.name().ends_with("-fast") { "fast" } else { "ordered" }
    }

    /// Returns the environment variables of a process that measures this way.
    pub fn environment(self, directory: &Path) -> Vec<(&'static str, String)> {
        match self {
            Way::FastraceSpan => Vec::new(),
            Way::Hotpath => hotpath::environment(),
            _ => loggers::tracer::environment(directory, self.clock(), Format::Raw),
        }
    }

    /// Measures calls of the function that is recorded in this way, in this process.
    pub fn measure(self, directory: &Path, calls: &Calls) -> Outcome<Report> {
        match self {
            Way::Scope | Way::ScopeFast => measure::<tracer::Guard>(directory, calls),
            Way::ScopeMacro | Way::ScopeMacroFast => measure::<tracer::Macro>(directory, calls),
            Way::Traced | Way::TracedFast => measure::<tracer::Attribute>(directory, calls),
            Way::FastraceSpan => measure::<fastrace::LocalSpans>(directory, calls),
            Way::Hotpath => measure::<hotpath::Measure>(directory, calls),
        }
    }

    /// Compares the records in `directory` (for this tracer, in the merged file) with the calls of `report`.
    pub fn check(self, report: &Report, directory: &Path) -> Outcome<Findings> {
        let mut recorded = Recorded::default();
        for entry in fs::read_dir(directory)? {
            let text = String::from_utf8(fs::read(entry?.path())?)?;
            recorded = recorded.and(match self {
                Way::FastraceSpan => fastrace::recorded(&text),
                Way::Hotpath => hotpath::recorded(&text)?,
                Way::Scope | Way::ScopeFast => tracer::recorded(&text, tracer::ADDRESS),
                _ => tracer::recorded(&text, tracer::NAME),
            });
        }
        Ok(recorded.findings(report.sent.get(FUNCTION).copied().unwrap_or_default()))
    }
}

fn measure<R: FunctionRecorder>(directory: &Path, calls: &Calls) -> Outcome<Report> {
    call::measure_function(R::start(directory)?, directory, calls)
}

/// The numbers of the records of entering and of leaving in files, and of the wrong records among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Recorded {
    entered: u64,
    left: u64,
    wrong: u64,
}

impl Recorded {
    fn and(self, other: Recorded) -> Recorded {
        Recorded {
            entered: self.entered + other.entered,
            left: self.left + other.left,
            wrong: self.wrong + other.wrong,
        }
    }

    /// Compares these numbers with `sent`, the number of calls.
    fn findings(self, sent: u64) -> Findings {
        let (fewest, most) = (self.entered.min(self.left), self.entered.max(self.left));
        Findings {
            sent,
            lost: sent.saturating_sub(fewest),
            doubled: most.saturating_sub(sent),
            garbled: self.wrong,
            late: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enter_record_without_a_leave_record_is_a_lost_call() {
        let recorded = Recorded { entered: 5, left: 4, wrong: 0 };
        let expected = Findings { sent: 5, lost: 1, ..Findings::default() };
        assert_eq!(recorded.findings(5), expected);
        assert!(Recorded { entered: 5, left: 5, wrong: 0 }.findings(5).is_complete());
        assert!(!Recorded { entered: 6, left: 6, wrong: 0 }.findings(5).is_complete());
        assert!(!Recorded { entered: 5, left: 5, wrong: 1 }.findings(5).is_complete());
    }
}
