//! The facts that `info` prints, in the form of `--json`: the names of the fields are part of the interface. Times
//! are nanoseconds: `..._wall_ns` since 1970, `first_ns` and `last_ns` since the run began. An unknown value is
//! `null`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use trace_format::meta::Cause;

use crate::command::info::machines::MachineInfo;
use crate::input::other_kinds::OtherKinds;
use crate::time::steps::ClockStep;
use crate::ui::error::Error;
use crate::ui::messages::Grouped;
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::units::{bytes, duration, signed_duration};
use crate::view::rows::{Column, JsonRow, Row, Value};

/// The version of the JSON. It increases when a field changes its meaning or is removed; new fields may be added at
/// any time.
pub(super) const VERSION: u32 = 1;

/// All facts about the traces of an application.
#[derive(Debug, Serialize)]
pub(super) struct TraceInfo {
    /// The version of this JSON layout, `VERSION`.
    pub version: u32,
    /// The application, as the user wrote it.
    pub app: String,
    /// The time of the first message, in nanoseconds since 1970.
    pub first_wall_ns: Option<u64>,
    /// The time of the last message, in nanoseconds since 1970.
    pub last_wall_ns: Option<u64>,
    /// The time between the first and the last message, in nanoseconds.
    pub span_ns: Option<u64>,
    /// The number of threads in all runs.
    pub threads: u64,
    /// Counts of messages, waits and losses, summed over the files of all runs.
    #[serde(flatten)]
    pub sums: Sums,
    /// The trees of forked processes: each consists of a program's run and the runs of its forks.
    pub trees: Vec<ForkTree>,
    /// The machines, one for each boot.
    pub machines: Vec<MachineInfo>,
    /// The runs, by boot and pid.
    pub runs: Vec<RunInfo>,
}

/// A program and its forks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ForkTree {
    /// The id of the run at the root of the tree.
    pub root: String,
    /// The process id of the run at the root of the tree, if this run is listed, too.
    pub root_pid: Option<u32>,
    /// The id of the machine's boot.
    pub boot: String,
    /// The ids of the tree's runs, in the order in which [`TraceInfo`] lists them.
    pub runs: Vec<String>,
}

/// A run: a process from its first record to its end.
#[derive(Debug, Serialize)]
pub(super) struct RunInfo {
    /// The id of the run, 8 hex digits.
    pub run: Option<String>,
    /// The id of the run at the root of the tree of forked processes.
    pub root: Option<String>,
    /// The process id of the run at the root of the tree, if this run is listed, too.
    pub root_pid: Option<u32>,
    /// The process id.
    pub pid: Option<u32>,
    /// The executable's path.
    pub exe: Option<String>,
    /// The id of the machine's boot.
    pub boot: Option<String>,
    /// The version of the files' format.
    pub format_version: Option<u32>,
    /// The state of the run: `alive`, `ended`, `killed`, or `unknown` if no thread's trace states how it ended.
    pub state: &'static str,
    /// The id of the thread whose panic ended the process; `null` if no panic did, or if it is unknown.
    pub panic_tid: Option<u64>,
    /// The name or the number of the signal that ended the process; `null` if no signal did, or if it is unknown.
    pub signal: Option<String>,
    /// The status with which the process exited; `null` if it is unknown, or if it was 0 and the trace ends with the
    /// reason `exit`.
    pub status: Option<u32>,
    /// The cause of the process's end: its panic, signal and exit status.
    #[serde(skip)]
    pub cause: Cause,
    /// The time when the run began, in nanoseconds since 1970.
    pub start_wall_ns: Option<u64>,
    /// The time for which the start of the tracer delayed the program's threads, in nanoseconds; `null` if no file
    /// states it.
    pub start_ns: Option<u64>,
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
    /// The quality of the run's clock.
    pub clock: ClockInfo,
    /// Counts of messages, waits and losses, summed over the files of the run.
    #[serde(flatten)]
    pub sums: Sums,
    /// The threads, sorted by the ticks at which they began.
    pub threads: Vec<ThreadInfo>,
}

/// The quality of a run's clock: how exactly ticks convert to times.
#[derive(Debug, Serialize)]
pub(super) struct ClockInfo {
    /// The clock that the ticks come from: `ordered`, `fast` or `system`.
    pub kind: Option<&'static str>,
    /// The number of ticks in a second; `null` if there is only one reading of both clocks and the machine has been
    /// restarted since.
    pub ticks_per_second: Option<f64>,
    /// The number of readings of the clocks; each reading states ticks and wall time at the same moment.
    pub readings: u64,
    /// The drift of the tick counter against the wall clock, in parts per million: how much faster the counter is in
    /// the last interval between two readings than in the first. `null` if there are fewer than two intervals.
    pub drift_ppm: Option<f64>,
    /// An estimate of the error of times, in nanoseconds: the largest error that a time at a reading of the clocks
    /// would have without this reading. `null` if there are fewer than two intervals between readings.
    pub uncertainty_ns: Option<u64>,
    /// The steps of the wall clock, in order: it was set, or the machine was suspended.
    pub steps: Vec<StepInfo>,
}

/// A step of the wall clock between two readings.
#[derive(Debug, Serialize)]
pub(super) struct StepInfo {
    /// The cause of the step: the clock was `set`, or the machine was `suspended`.
    pub cause: &'static str,
    /// The size of the step in nanoseconds: by how much the wall clock was set (negative: back), or for how long the
    /// machine was suspended.
    pub ns: i64,
    /// The wall clock at the last reading before the step, in nanoseconds since 1970.
    pub before_wall_ns: u64,
    /// The wall clock at the first reading after the step, in nanoseconds since 1970.
    pub after_wall_ns: u64,
    /// A description of the step in words.
    #[serde(skip)]
    pub text: String,
}

impl StepInfo {
    /// Returns the facts about `step`.
    #[must_use]
    pub(super) fn of(step: &ClockStep) -> StepInfo {
        let (before_wall_ns, after_wall_ns) = (step.before.0, step.after.0);
        StepInfo {
            cause: step.cause.name(),
            ns: step.ns,
            before_wall_ns,
            after_wall_ns,
            text: step.to_string(),
        }
    }
}

/// A thread of a run.
#[derive(Debug)]
pub(super) struct ThreadInfo {
    /// The id of the run that the thread belongs to, 8 hex digits.
    pub run: Option<String>,
    /// The id of the process that the thread belongs to.
    pub pid: Option<u32>,
    /// The operating system's id of the thread.
    pub tid: u64,
    /// The thread's name, escaped as in the trace.
    pub name: String,
    /// The thread's label: its name in all views.
    pub label: String,
    /// The kind of memory that the thread's ring is in: `shared` or `private`.
    pub ring: Option<&'static str>,
    /// Whether the thread's process still runs.
    pub alive: bool,
    /// How the thread's trace ends: the reason in its `# end` line; `None` if the trace has no end.
    pub end: Option<String>,
    /// The time of the first message, in nanoseconds since the run began.
    pub first_ns: Option<i64>,
    /// The time of the last message, in nanoseconds since the run began.
    pub last_ns: Option<i64>,
    /// The time of the first message, in nanoseconds since 1970.
    pub first_wall_ns: Option<u64>,
    /// The time of the last message, in nanoseconds since 1970.
    pub last_wall_ns: Option<u64>,
    /// Counts of messages, waits and losses, summed over the thread's files.
    pub sums: Sums,
}

impl Row for ThreadInfo {
    const NAME: &'static str = "threads";
    const FACTS: &'static [(&'static str, &'static str)] = &[];
    const COLUMNS: &'static [Column<ThreadInfo>] = &[
        Column::hidden("run", "the id of the run, 8 hex digits", |thread| thread.run.as_deref().into()),
        Column::hidden("pid", "the process id", |thread| thread.pid.into()),
        Column::text(
            "label",
            ("thread", Left),
            "the thread's name in all views, which --thread accepts",
            |thread| thread.label.as_str().into(),
            |thread| thread.label.clone(),
        ),
        Column::text(
            "tid",
            ("id", Right),
            "the operating system's id of the thread",
            |thread| thread.tid.into(),
            |thread| thread.tid.to_string(),
        ),
        Column::hidden(
            "name",
            "the latest name that the operating system had for the thread, escaped as in the trace",
            |thread| thread.name.as_str().into(),
        ),
        Column::count("records", "records", "the number of messages", |thread| thread.sums.records.into()),
        Column::text(
            "bytes",
            ("bytes", Right),
            "the number of bytes of the messages' text",
            |thread| thread.sums.bytes.into(),
            |thread| bytes(thread.sums.bytes),
        ),
        Column::text(
            "first_ns",
            ("first", Right),
            "when the first message was recorded, counted from the begin of the run",
            |thread| thread.first_ns.into(),
            |thread| thread.first_ns.map_or_else(none, signed_duration),
        ),
        Column::text(
            "last_ns",
            ("last", Right),
            "when the last message was recorded, counted from the begin of the run",
            |thread| thread.last_ns.into(),
            |thread| thread.last_ns.map_or_else(none, signed_duration),
        ),
        Column::hidden(
            "first_wall_ns",
            "when the first message was recorded, in nanoseconds since 1970 (UTC)",
            |thread| thread.first_wall_ns.into(),
        ),
        Column::hidden(
            "last_wall_ns",
            "when the last message was recorded, in nanoseconds since 1970 (UTC)",
            |thread| thread.last_wall_ns.into(),
        ),
        Column::hidden("stalls", "how often the thread waited for room in its ring", |thread| {
            thread.sums.stalls.into()
        }),
        Column::text(
            "stall_ns",
            ("stalled", Right),
            "how long the thread waited for room in its ring",
            |thread| thread.sums.stall_ns.into(),
            |thread| if thread.sums.stalls == 0 { none() } else { duration(thread.sums.stall_ns) },
        ),
        Column::text(
            "lost",
            ("lost", Right),
            "the number of messages that are reported lost",
            |thread| thread.sums.lost.into(),
            |thread| if thread.sums.lost == 0 { none() } else { Grouped(thread.sums.lost).to_string() },
        ),
        Column::hidden("lost_by_reason", "the lost messages by reason", |thread| {
            Value::nested(&thread.sums.lost_by_reason)
        }),
        Column::hidden(
            "damaged",
            "the number of damaged places in the files: bytes that are no line of the thread's trace",
            |thread| thread.sums.damaged.into(),
        ),
        Column::hidden(
            "files",
            "the number of the thread's trace files; a ring whose records are in no file yet counts as one",
            |thread| thread.sums.files.into(),
        ),
        Column::hidden(
            "ring",
            "the kind of memory that the thread's ring is in: shared or private",
            |thread| thread.ring.into(),
        ),
        Column::text(
            "end",
            ("end", Left),
            "exit, shutdown, thread, killed, panic, or a word of a later version; unknown if the trace has no end",
            |thread| thread.end.as_deref().into(),
            ThreadInfo::end_in_words,
        ),
        Column::hidden(
            "other_kinds",
            "how many lines there are of each unknown kind, by the mark of the kind",
            |thread| {
                let kinds = &thread.sums.other_kinds;
                if kinds.is_empty() { Value::Absent } else { Value::nested(kinds) }
            },
        ),
    ];
}

impl ThreadInfo {
    /// Returns a text about the end of the thread's trace. The text also mentions a private ring, and the number of
    /// files if there are several.
    fn end_in_words(&self) -> String {
        let none_yet = if self.alive { "alive" } else { "no end" };
        let mut end = self.end.as_deref().unwrap_or(none_yet).to_owned();
        if self.ring == Some("private") {
            end.push_str(", ring=private");
        }
        if self.sums.files > 1 {
            end.push_str(&format!(", {} files", self.sums.files));
        }
        end
    }
}

impl Serialize for ThreadInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JsonRow(self).serialize(serializer)
    }
}

/// Returns what a table shows in place of a time or a number that is not known.
fn none() -> String {
    "-".to_owned()
}

/// Counts of messages, waits and losses, summed over the trace files of a thread, of a run, or of all runs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Sums {
    /// The number of trace files; a ring whose records are in no file yet counts as a file.
    pub files: u64,
    /// The number of messages.
    pub records: u64,
    /// The number of bytes of the messages' text.
    pub bytes: u64,
    /// The number of times that threads waited for room in their rings, as far as the files report it.
    pub stalls: u64,
    /// The total time for which threads waited for room in their rings, in nanoseconds, as far as the files report it.
    pub stall_ns: u64,
    /// The number of messages that the files report as lost.
    pub lost: u64,
    /// The number of lost messages for each reason.
    pub lost_by_reason: BTreeMap<String, u64>,
    /// The number of damaged places in the files: sequences of bytes that are not lines of the thread's trace.
    pub damaged: u64,
    /// The number of lines of each kind that this version does not know, because a later version has written them.
    #[serde(skip_serializing_if = "OtherKinds::is_empty")]
    pub other_kinds: OtherKinds,
}

impl Sums {
    /// Adds the sums `other` to these sums.
    pub(super) fn add(&mut self, other: &Sums) {
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
        self.other_kinds.add(&other.other_kinds);
    }
}

impl TraceInfo {
    /// Returns the facts for programs: JSON on several lines.
    ///
    /// # Errors
    /// None are known.
    pub(super) fn to_json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::plain(format!("cannot write JSON: {error}")))
    }
}
