//! What `info` says, as it is written with `--json`: the names of the fields are part of the interface. Times are
//! nanoseconds; `..._wall_ns` since 1970, `first_ns` and `last_ns` since the run began. What is unknown is `null`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ui::error::Error;

/// Grows when a field changes its meaning or goes; new ones may come at any time.
pub const VERSION: u32 = 1;

/// All that was found.
#[derive(Debug, Serialize)]
pub struct TraceInfo {
    /// The version of this layout.
    pub version: u32,
    /// The application, as the user wrote it.
    pub app: String,
    /// When the first message was traced ...
    pub first_wall_ns: Option<u64>,
    /// ... and the last.
    pub last_wall_ns: Option<u64>,
    /// The time between the first and the last message, in nanoseconds.
    pub span_ns: Option<u64>,
    /// How many threads there are in all.
    pub threads: u64,
    /// Over all runs.
    #[serde(flatten)]
    pub sums: Sums,
    /// The trees of forked processes, each a program and its forks.
    pub trees: Vec<ForkTree>,
    /// The runs, by boot and pid.
    pub runs: Vec<RunInfo>,
}

/// A program and its forks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ForkTree {
    /// The id of the run at the root.
    pub root: String,
    /// Its process, where it is among the runs.
    pub root_pid: Option<u32>,
    /// The id of the machine's boot.
    pub boot: String,
    /// The ids of the runs, in the order of these.
    pub runs: Vec<String>,
}

/// One process's life.
#[derive(Debug, Serialize)]
pub struct RunInfo {
    /// The id of the run, 8 hex digits.
    pub run: Option<String>,
    /// The id of the run at the root of the tree of forked processes.
    pub root: Option<String>,
    /// The process of that run, where it is among the runs.
    pub root_pid: Option<u32>,
    /// The process.
    pub pid: Option<u32>,
    /// The executable's path.
    pub exe: Option<String>,
    /// The id of the machine's boot.
    pub boot: Option<String>,
    /// Version of the files' format.
    pub format_version: Option<u32>,
    /// `alive`, `ended`, `killed`, or `unknown` where no file has an end.
    pub state: &'static str,
    /// When the run began.
    pub start_wall_ns: Option<u64>,
    /// The time of the first message, in nanoseconds since the run began.
    pub first_ns: Option<i64>,
    /// The time of the last message, in nanoseconds since the run began.
    pub last_ns: Option<i64>,
    /// The time of the first message, in nanoseconds since 1970.
    pub first_wall_ns: Option<u64>,
    /// The time of the last message, in nanoseconds since 1970.
    pub last_wall_ns: Option<u64>,
    /// The time between the first and the last message, in nanoseconds.
    pub span_ns: Option<u64>,
    /// How well ticks are known as times.
    pub clock: ClockInfo,
    /// Over all threads.
    #[serde(flatten)]
    pub sums: Sums,
    /// The threads, by when they began.
    pub threads: Vec<ThreadInfo>,
}

/// How well a run's ticks are known as times.
#[derive(Debug, Serialize)]
pub struct ClockInfo {
    /// `ordered`, `fast` or `system`.
    pub kind: Option<&'static str>,
    /// `null` where one moment only is known by both clocks and the machine has been started anew since.
    pub ticks_per_second: Option<f64>,
    /// How many moments are known by both clocks.
    pub readings: u64,
    /// How much faster the counter is against the wall clock in the last interval between such moments than in the
    /// first, in parts per million; `null` where there are not two intervals.
    pub drift_ppm: Option<f64>,
    /// The largest error that times would have at one of these moments if it were not known; `null` likewise.
    pub uncertainty_ns: Option<u64>,
}

/// One thread.
#[derive(Debug, Serialize)]
pub struct ThreadInfo {
    /// The operating system's id.
    pub tid: u64,
    /// Its name, escaped as in the trace.
    pub name: String,
    /// `shared` or `private`.
    pub ring: Option<&'static str>,
    /// How its trace ends: `exit`, `shutdown`, `thread`, `killed`, or a word of a later version; `null` where it does
    /// not.
    pub end: Option<String>,
    /// The time of the first message, in nanoseconds since the run began.
    pub first_ns: Option<i64>,
    /// The time of the last message, in nanoseconds since the run began.
    pub last_ns: Option<i64>,
    /// The time of the first message, in nanoseconds since 1970.
    pub first_wall_ns: Option<u64>,
    /// The time of the last message, in nanoseconds since 1970.
    pub last_wall_ns: Option<u64>,
    /// The sums over the thread's files.
    #[serde(flatten)]
    pub sums: Sums,
}

/// Amounts.
#[derive(Debug, Default, Serialize)]
pub struct Sums {
    /// Trace files, or rings whose text is in no file yet.
    pub files: u64,
    /// Messages.
    pub records: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// How often it is told that a thread waited for room in its ring ...
    pub stalls: u64,
    /// ... and for how long in all.
    pub stall_ns: u64,
    /// Messages told lost.
    pub lost: u64,
    /// The lost messages by reason.
    pub lost_by_reason: BTreeMap<String, u64>,
    /// Places that are no line of the thread's trace.
    pub damaged: u64,
}

impl Sums {
    /// Adds another's.
    pub fn add(&mut self, other: &Sums) {
        for (sum, more) in [
            (&mut self.files, other.files),
            (&mut self.records, other.records),
            (&mut self.bytes, other.bytes),
            (&mut self.stalls, other.stalls),
            (&mut self.stall_ns, other.stall_ns),
            (&mut self.lost, other.lost),
            (&mut self.damaged, other.damaged),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (reason, lost) in &other.lost_by_reason {
            let sum = self.lost_by_reason.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*lost);
        }
    }
}

impl TraceInfo {
    /// The same for programs: JSON on several lines.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::plain(format!("cannot write JSON: {error}")))
    }
}
