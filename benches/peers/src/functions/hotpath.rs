//! hotpath's `#[measure]`, which by default times every call. It keeps no record of a call: its result at the end is a
//! report with the number of calls and a histogram of their durations.
//!
//! Its server for live metrics and its monitoring of threads are off.

use super::{FunctionRecorder, Recorded};
use crate::Outcome;
use crate::loggers::Recorder;
use hotpath::json::JsonReport;
use hotpath::{HotpathGuard, HotpathGuardBuilder, Section};
use std::path::Path;

/// Returns the environment variables of a process that measures with hotpath.
pub fn environment() -> Vec<(&'static str, String)> {
    vec![("HOTPATH_METRICS_SERVER_OFF", "1".into())]
}

/// The recorder of a function with `#[measure]`.
pub struct Measure(HotpathGuard);

#[hotpath::measure]
#[inline(never)]
fn with_measure(n: u64) -> u64 {
    n + 1
}

impl Recorder for Measure {
    fn start(directory: &Path) -> Outcome<Measure> {
        let builder = HotpathGuardBuilder::new("main").format(hotpath::Format::Json);
        let builder = builder.sections(vec![Section::FunctionsTiming]).functions_limit(0);
        Ok(Measure(builder.output_path(directory.join("hotpath.json")).build()))
    }

    fn finish(self) -> Outcome<()> {
        drop(self.0);
        Ok(())
    }
}

impl FunctionRecorder for Measure {
    #[inline(always)]
    fn call(&self, n: u64) -> u64 {
        with_measure(n)
    }
}

/// Counts the calls of the function in hotpath's report; calls that were not timed are wrong.
pub fn recorded(text: &str) -> Outcome<Recorded> {
    let report: JsonReport = serde_json::from_str(text)?;
    let functions = report.functions_timing.map(|list| list.data).unwrap_or_default();
    let ours: Vec<_> = functions.iter().filter(|entry| entry.name.ends_with("with_measure")).collect();
    let calls = ours.iter().map(|entry| entry.calls).sum();
    let timed: u64 = ours.iter().map(|entry| entry.sampled_calls).sum();
    Ok(Recorded { entered: calls, left: calls, wrong: calls.abs_diff(timed) })
}
