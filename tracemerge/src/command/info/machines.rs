//! The machines of the traces, as rows of a table: how the clock of each machine relates to that of the reference
//! machine, and with which error.

use serde::{Serialize, Serializer};
use trace_format::meta::Run;

use crate::input::machines::{Machine, PairOfMachines, PlacedBy};
use crate::input::source::Source;
use crate::input::sync::SyncPatterns;
use crate::ui::messages::{Grouped, Messages, count, shown_name};
use crate::ui::table::Alignment::{Left, Right};
use crate::ui::units::{duration, signed_duration};
use crate::view::rows::{self, Column, JsonRow, Row, Value};

/// A machine, with the errors of its times and its messages to other machines.
#[derive(Debug)]
pub(super) struct MachineInfo {
    /// The id of the machine's boot.
    boot: String,
    machine: Machine,
    pairs: Vec<PairInfo>,
}

/// The counts of messages between a machine and another machine, matched by sending and receiving.
#[derive(Debug, Serialize)]
struct PairInfo {
    /// The id of the other machine's boot.
    boot: String,
    /// The number of matched messages that agree with each other.
    kept: u64,
    /// The number of matched messages that were not used: no other messages support them, or a clock was set near them.
    unused: u64,
    /// The number of matched messages that contradict other messages.
    contradictory: u64,
}

impl MachineInfo {
    fn error(&self, place: usize) -> Option<u64> {
        self.machine.error_ns.map(|errors| errors[place])
    }

    fn sum(&self, of: fn(&PairInfo) -> u64) -> u64 {
        self.pairs.iter().map(of).sum()
    }

    fn error_in_words(&self, place: usize) -> String {
        match (self.machine.placed_by, self.error(place)) {
            (PlacedBy::Reference | PlacedBy::Boot, _) => "-".to_owned(),
            (_, None) => "unknown".to_owned(),
            (_, Some(ns)) => format!("±{}", duration(ns)),
        }
    }
}

impl Row for MachineInfo {
    const NAME: &'static str = "machines";
    const FACTS: &'static [(&'static str, &'static str)] = &[];
    const COLUMNS: &'static [Column<MachineInfo>] = &[
        Column::text(
            "boot",
            ("machine", Left),
            "the id of the machine's boot",
            |row| row.boot.as_str().into(),
            |row| row.boot.clone(),
        ),
        Column::text(
            "placed_by",
            ("placed by", Left),
            "how its lines are put in order among those of other machines: reference (the others get its ticks), limits (by \
             messages and stated errors of wall clocks), assumption (likewise, but in part without a limit on one side), \
             wall_clock (by wall clocks alone), or boot (before or after all others: no other machine traced at that time)",
            |row| row.machine.placed_by.name().into(),
            |row| row.machine.placed_by.name().replace('_', " "),
        ),
        Column::text(
            "offset_ns",
            ("ahead", Right),
            "how far its wall clock is ahead of that of the reference machine: the median over the trace",
            |row| row.machine.offset_ns.into(),
            |row| row.machine.offset_ns.map_or_else(|| "-".to_owned(), signed_duration),
        ),
        Column::text(
            "error_least_ns",
            ("least", Right),
            "the least error of its times beside those of the reference machine",
            |row| row.error(0).into(),
            |row| row.error_in_words(0),
        ),
        Column::text(
            "error_median_ns",
            ("median", Right),
            "the median error of its times beside those of the reference machine",
            |row| row.error(1).into(),
            |row| row.error_in_words(1),
        ),
        Column::text(
            "error_most_ns",
            ("greatest", Right),
            "the greatest error of its times beside those of the reference machine",
            |row| row.error(2).into(),
            |row| row.error_in_words(2),
        ),
        Column::known_time(
            "wall_error_ns",
            "wall clock",
            "the largest error of its wall clock, as its operating system states it",
            |row| row.machine.wall_error_ns.into(),
        ),
        Column::count(
            "matches",
            "matches",
            "the number of matched messages that agree with each other",
            |row| row.sum(|pair| pair.kept).into(),
        ),
        Column::count(
            "unused",
            "unused",
            "the number of matched messages that were not used: no others support them, or a clock was set near them",
            |row| row.sum(|pair| pair.unused).into(),
        ),
        Column::count(
            "contradictory",
            "contradictory",
            "the number of matched messages that contradict others",
            |row| row.sum(|pair| pair.contradictory).into(),
        ),
        Column::hidden(
            "pairs",
            "the same three numbers for its messages with each of the other machines",
            |row| Value::nested(&row.pairs),
        ),
    ];
}

impl Serialize for MachineInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        JsonRow(self).serialize(serializer)
    }
}

/// Returns the machines of the traces. `sources` are the files of each boot, and `runs` the run of each of these files.
pub(super) fn of(
    sources: &[Vec<Source>],
    runs: &[Vec<Option<Run>>],
    sync: &[SyncPatterns],
    messages: &mut Messages,
) -> Vec<MachineInfo> {
    let all = crate::input::machines::machines(sources, runs, sync, messages);
    let boots: Vec<String> = all.iter().map(|machine| shown_name(&machine.boot)).collect();
    let info = |(machine, boot): (Machine, &String)| {
        let pair = |pair: &PairOfMachines| PairInfo {
            boot: boots[pair.other].clone(),
            kept: pair.kept,
            unused: pair.unused,
            contradictory: pair.contradictory,
        };
        MachineInfo { boot: boot.clone(), pairs: machine.pairs.iter().map(pair).collect(), machine }
    };
    all.into_iter().zip(&boots).map(info).collect()
}

/// Returns the machines as a table, followed by a line for each pair of machines.
pub(super) fn table(machines: &[MachineInfo]) -> String {
    let mut text = rows::table(machines, "");
    for machine in machines {
        // Each pair has two machines, and is listed once.
        for pair in machine.pairs.iter().filter(|pair| machine.boot < pair.boot) {
            text.push_str(&format!("  {} and {}: {}", machine.boot, pair.boot, count(pair.kept, "match")));
            for (number, word) in [(pair.unused, "unused"), (pair.contradictory, "contradictory")] {
                if number > 0 {
                    text.push_str(&format!(", {} {word}", Grouped(number)));
                }
            }
            text.push('\n');
        }
    }
    text
}
