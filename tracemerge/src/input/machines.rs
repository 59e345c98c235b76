//! The machines from which traces come, and how exactly the times of each machine are known relative to the others.
//! This is computed without a merge.

use trace_format::meta::Run;

use crate::input::align::{join_groups, note_one_machine, stated_error};
use crate::input::align_by_messages::{Alignment, align_by_messages};
use crate::input::source::{Source, clocks_of};
use crate::input::sync::SyncPatterns;
use crate::time::order::Verdict;
use crate::ui::messages::Messages;

/// A machine, and how exactly its times are known relative to the other machines.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The id of the machine's boot; empty if no file names it.
    pub boot: Vec<u8>,
    /// The way in which the machine's lines were ordered among those of the other machines.
    pub placed_by: PlacedBy,
    /// The median over the trace of the nanoseconds by which the machine's clock is ahead of the reference's. `None` if
    /// no messages were found, or if this machine is the reference.
    pub offset_ns: Option<i64>,
    /// The smallest, the median and the largest error of the machine's times, in nanoseconds. `None` if nothing limits
    /// the errors, or if this machine is the reference.
    pub error_ns: Option<[u64; 3]>,
    /// The largest error that the operating system states for the machine's wall clock, in nanoseconds; `None` if it
    /// states no error.
    pub wall_error_ns: Option<u64>,
    /// The counts of the messages that the machine exchanged with each other machine, in the order of the other
    /// machines.
    pub pairs: Vec<PairOfMachines>,
}

/// The way in which the lines of a machine were ordered among those of the other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedBy {
    /// The machine is the reference: the lines of other machines are converted to its ticks.
    Reference,
    /// By the messages between machines, and by the wall clocks whose operating systems state an error.
    Limits,
    /// By the messages between machines, and by an assumption, because at least in a part of the trace no message
    /// limits the time on one side.
    Assumption,
    /// By the wall clocks of the machines only, not by messages.
    WallClock,
    /// Behind or before all lines of the other machines, because this machine did not trace at the same time.
    Boot,
}

impl PlacedBy {
    /// Returns the name of this way of ordering lines, in output for other programs.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            PlacedBy::Reference => "reference",
            PlacedBy::Limits => "limits",
            PlacedBy::Assumption => "assumption",
            PlacedBy::WallClock => "wall_clock",
            PlacedBy::Boot => "boot",
        }
    }
}

/// The counts of the messages between a machine and another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairOfMachines {
    /// The index of the other machine in the list of all machines.
    pub other: usize,
    /// The number of matched messages that limit the offset between the two clocks, or that agree with its limits.
    pub kept: u64,
    /// The number of matched messages that were not used, because no other messages support them, or because a clock
    /// was set near them.
    pub unused: u64,
    /// The number of matched messages that contradict other messages.
    pub contradictory: u64,
}

/// Returns the machines of `boots`, in the order of `boots`; `runs` are the runs of the files. The lines of different
/// machines are ordered by the messages that `sync` finds or, if it finds none, by the wall clocks.
pub(crate) fn machines(
    boots: &[Vec<Source>],
    runs: &[Vec<Option<Run>>],
    sync: &[SyncPatterns],
    messages: &mut Messages,
) -> Vec<Machine> {
    let files = boots.iter().zip(runs).flat_map(|(sources, runs)| runs.iter().zip(sources));
    let clocks = clocks_of(files.filter_map(|(run, source)| Some((run.as_ref()?, source))));
    let first_run = |place: usize| runs[place].iter().flatten().next();
    let wall_errors: Vec<Option<u64>> =
        (0..boots.len()).map(|place| stated_error(clocks.of(first_run(place)?)?)).collect();
    let machine = |place: usize| Machine {
        boot: first_run(place).map_or_else(Vec::new, |run| run.boot.clone()),
        placed_by: PlacedBy::Boot,
        offset_ns: None,
        error_ns: None,
        wall_error_ns: wall_errors[place],
        pairs: Vec::new(),
    };
    let mut all: Vec<Machine> = (0..boots.len()).map(machine).collect();
    if boots.len() < 2 {
        note_one_machine(sync, messages);
    }
    let is_aligned = boots.len() > 1 && !sync.is_empty();
    let alignment = if is_aligned { align_by_messages(boots, runs, &clocks, sync, messages) } else { None };
    if let Some(alignment) = alignment {
        all.iter_mut().enumerate().for_each(|(place, machine)| place_by(&alignment, place, machine));
        return all;
    }
    let groups = join_groups(boots, runs, &clocks);
    for (place, reference) in groups.into_iter().enumerate() {
        if reference == place {
            all[place].placed_by = PlacedBy::Reference;
            continue;
        }
        all[place].placed_by = PlacedBy::WallClock;
        let both = wall_errors[place].zip(wall_errors[reference]);
        all[place].error_ns = both.map(|(own, other)| [own.saturating_add(other); 3]);
    }
    all
}

/// Stores in `machine` the results of the `alignment` for the boot with the index `place`.
fn place_by(alignment: &Alignment, place: usize, machine: &mut Machine) {
    let errors = alignment.errors(place);
    let mut offsets: Vec<i64> =
        alignment.knots(place).iter().map(|knot| knot.reading.saturating_sub(knot.time)).collect();
    offsets.sort_unstable();
    let is_reference = place == alignment.reference;
    machine.placed_by = match alignment.numbers[place] {
        _ if is_reference => PlacedBy::Reference,
        None => PlacedBy::WallClock,
        Some(_) if alignment.is_assumed(place) => PlacedBy::Assumption,
        Some(_) => PlacedBy::Limits,
    };
    machine.offset_ns = offsets.get(offsets.len() / 2).copied().filter(|_| !is_reference);
    let ends = errors.first().zip(errors.last());
    machine.error_ns =
        ends.map(|(least, most)| [*least, errors[errors.len() / 2], *most]).filter(|_| !is_reference);
    for (message, verdict) in alignment.messages.iter().zip(&alignment.order.verdicts) {
        let other = match [message.from as usize, message.to as usize] {
            [from, to] if from == place => to,
            [from, to] if to == place => from,
            _ => continue,
        };
        let at = match machine.pairs.binary_search_by_key(&other, |pair| pair.other) {
            Ok(at) => at,
            Err(at) => {
                machine.pairs.insert(at, PairOfMachines { other, ..PairOfMachines::default() });
                at
            }
        };
        let pair = &mut machine.pairs[at];
        let counter = match verdict {
            Verdict::Kept => &mut pair.kept,
            Verdict::Unsupported | Verdict::AtStep => &mut pair.unused,
            Verdict::Wrong => &mut pair.contradictory,
        };
        *counter += 1;
    }
}
