//! Writes the clocks of the runs of a data set: for each clock, the piecewise linear function between its ticks and the
//! wall clock. Programs that put the rows of a set in the order of a merge, such as extras/spark, convert ticks by
//! these functions, and so exactly as a merge does.
//!
//! Each line of the input describes a run:
//! `{"run": any, "readings": ["run ...", "clock ...", ...], "first": ticks, "last": ticks}`, where `readings` are the
//! contents of its `# run` line and its `# clock` lines. All runs of a boot have to be in one input. Each line of the
//! output describes a clock, and names the runs whose ticks come from it. `period` is null if the clock's rate is not
//! known, and `error_ns` is null if the system states no error of its wall clock.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use serde::Deserialize;
use serde_json::{Value, json};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, Run};

use crate::input::align::stated_error;
use crate::time::anchor::Anchor;
use crate::time::clocks::{ClockLine, Clocks};
use crate::ui::console::{Content, print};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count};

/// The greatest number of bytes of a line of the input.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// A run, as a line of the input describes it.
#[derive(Deserialize)]
struct GivenRun {
    /// The name of the run, which the output repeats.
    run: Value,
    readings: Vec<String>,
    /// The ticks of the run's first record.
    first: u64,
    /// The ticks of the run's last record.
    last: u64,
}

/// The runs of one boot whose ticks come from the same clock.
#[derive(Debug)]
struct Boot {
    run: Run,
    /// The wall time at which the first of the runs began, in nanoseconds.
    began: u64,
    first: u64,
    last: u64,
    names: Vec<Value>,
}

/// Reads runs on standard input, and writes their clocks to standard output.
///
/// # Errors
/// If the input cannot be read or is of another form, or if the output cannot be written.
pub(super) fn clocks(messages: &mut Messages) -> Result<(), Error> {
    let mut input = io::stdin().lock();
    let (mut boots, mut runs, mut without) = (BTreeMap::<_, Boot>::new(), Vec::new(), 0);
    for number in 1_u64.. {
        let mut line = Vec::new();
        let failed = |error: &dyn std::fmt::Display| {
            Error::plain(format!("cannot read runs on standard input: line {number}: {error}"))
        };
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|e| failed(&e))?;
        if read == 0 {
            break;
        }
        let given: GivenRun = serde_json::from_slice(&line).map_err(|error| failed(&error))?;
        let metas: Vec<Meta> =
            given.readings.iter().filter_map(|text| Meta::parse(text.as_bytes())).collect();
        let run =
            metas.iter().find_map(|meta| if let Meta::Run(run) = meta { Some(run.clone()) } else { None });
        let Some(run) = run else {
            without += 1;
            continue;
        };
        let boot = boots.entry((run.boot.clone(), run.clock == ClockKind::System)).or_insert_with(|| Boot {
            run: run.clone(),
            began: u64::MAX,
            first: u64::MAX,
            last: 0,
            names: Vec::new(),
        });
        boot.began = boot.began.min(run.wall.0);
        (boot.first, boot.last) = (boot.first.min(given.first), boot.last.max(given.last));
        boot.names.push(given.run);
        runs.push((run, metas.iter().filter_map(Anchor::of_meta).collect::<Vec<_>>()));
    }
    if without > 0 {
        messages
            .warn(format_args!("left out {}, whose readings have no '# run' line", count(without, "run")));
    }
    let clocks = Clocks::through(runs.iter().map(|(run, anchors)| (run, anchors.iter().copied())));
    print(Content::Json, &lines_of(&boots, &clocks))
}

/// Returns the output: a line for each clock, which names the runs whose ticks come from it.
fn lines_of(boots: &BTreeMap<(Vec<u8>, bool), Boot>, clocks: &Clocks) -> Vec<u8> {
    let mut out = Vec::new();
    for ((name, is_system), boot) in boots {
        let Some(clock) = clocks.of(&boot.run) else { continue };
        let period =
            clock.rate_is_known().then(|| [clock.wall(Ticks(boot.first)).0, clock.wall(Ticks(boot.last)).0]);
        let line = json!({
            "boot": String::from_utf8_lossy(name),
            "is_system": is_system,
            "runs": boot.names,
            "began": boot.began,
            "period": period,
            "ticks": [boot.first, boot.last],
            "error_ns": stated_error(clock),
            "to_wall": rows(clock.lines_to_wall()),
            "to_ticks": rows(clock.lines_to_ticks()),
        });
        out.extend(format!("{line}\n").bytes());
    }
    out
}

fn rows(lines: Vec<ClockLine>) -> Vec<[u64; 6]> {
    let row = |line: ClockLine| {
        let ClockLine { from, ticks, ns, rate_ticks, rate_ns, floor } = line;
        [from, ticks, ns, rate_ticks, rate_ns, floor]
    };
    lines.into_iter().map(row).collect()
}
