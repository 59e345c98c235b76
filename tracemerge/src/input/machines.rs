//! The machines of traces, and how certain their times are beside each other, without a merge.

use trace_format::meta::Run;

use crate::input::align::{join_groups, note_one_machine, stated_error};
use crate::input::align_by_messages::{Alignment, align_by_messages};
use crate::input::source::{Source, clocks_of};
use crate::input::sync::SyncPatterns;
use crate::time::order::Verdict;
use crate::ui::messages::Messages;

/// A machine and the certainty of its times.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The id of the machine's boot; empty if no file names it.
    pub boot: Vec<u8>,
    /// The way in which the machine's lines get their places among those of others.
    pub placed_by: PlacedBy,
    /// The nanoseconds by which its wall clock is ahead of that of the reference: the median over the trace. Unknown
    /// without messages.
    pub offset_ns: Option<i64>,
    /// The least, the median and the greatest error of its times, in nanoseconds; `None` if nothing limits them.
    pub error_ns: Option<[u64; 3]>,
    /// The largest error of its wall clock that its system states, in nanoseconds.
    pub wall_error_ns: Option<u64>,
    /// The messages that it exchanged with other machines, by the place of the other one in the list of machines.
    pub pairs: Vec<PairOfMachines>,
}

/// The way in which the lines of a machine get their places among those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedBy {
    /// The machine whose ticks are those of the merge.
    Reference,
    /// Messages, and wall clocks as far as their systems state errors.
    Limits,
    /// Messages that leave one side without limit, at least in part.
    Assumption,
    /// The wall clock alone.
    WallClock,
    /// Behind or before the others, because it did not trace at the same time.
    Boot,
}

impl PlacedBy {
    /// Returns the name for programs.
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

/// The messages between a machine and another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairOfMachines {
    /// The place of the other machine in the list of machines.
    pub other: usize,
    /// The matches that limit the two clocks or agree with the limits.
    pub kept: u64,
    /// The matched messages that were not used: no others support them, or a clock was set near them.
    pub unused: u64,
    /// The matches that contradict others.
    pub contradictory: u64,
}

/// Returns the machines of `boots`, in their order; `runs` are the runs of the files. Messages that `sync` finds place
/// them, or otherwise the wall clocks.
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

/// Fills in the facts about a machine that an alignment has.
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
