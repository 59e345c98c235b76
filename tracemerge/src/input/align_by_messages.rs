//! Puts the traces of several machines on one scale of ticks, by the messages that the machines have sent to each
//! other.

use std::sync::Arc;

use trace_format::line::Ticks;
use trace_format::meta::Run;
use trace_format::wall::Wall;

use crate::input::source::Source;
use crate::input::sync::{Matcher, SyncMessages, SyncPatterns};
use crate::time::clocks::{Clocks, TickClock};
use crate::time::order::{Assumptions, Knot, Message, Order, Verdict, WallReading, solve};
use crate::ui::messages::{Grouped, Messages, count, shown_name};
use crate::ui::units::duration;

/// The greatest number of contradictory matches, and of steps of clocks, that are named in messages to the user.
const NAMED: usize = 3;

/// The greatest number of machines that are compared by messages.
const MOST_MACHINES: usize = 1000;

/// The result of aligning the clocks of several machines by messages: the order of the clocks, and the messages that
/// prove it.
#[derive(Debug)]
pub(super) struct Alignment {
    /// The index of the boot to whose ticks all lines are converted.
    pub reference: usize,
    /// The times of all clocks, on the scale of the reference clock.
    pub order: Arc<Order>,
    /// The number in `order` of each boot's clock; `None` if the boot's clock is not known.
    pub numbers: Vec<Option<u32>>,
    /// The messages between boots. Each message names its boots by their indices; [`Order::verdicts`] has the verdict
    /// on each message, in the same order.
    pub messages: Vec<Message>,
}

impl Alignment {
    /// Returns by how many nanoseconds the times of the boot with the index `place` may be wrong, in ascending order.
    /// There is one value for each knot of the boot's clock (a reading for which a time was computed), except for knots
    /// whose error has no limit on one side.
    pub(super) fn errors(&self, place: usize) -> Vec<u64> {
        let number = self.numbers.get(place).copied().flatten();
        number.map_or_else(Vec::new, |number| self.order.errors(number))
    }

    /// Returns the knots of the clock of the boot with the index `place`: the readings of the clock for which times
    /// were computed. The list is empty if the clock is not known.
    pub(super) fn knots(&self, place: usize) -> &[Knot] {
        let number = self.numbers.get(place).copied().flatten();
        number.and_then(|number| self.order.knots.get(number as usize)).map_or(&[], |knots| knots)
    }

    /// Returns whether the order of the lines of the boot with the index `place` is based on an assumption, at least in
    /// part.
    pub(super) fn is_assumed(&self, place: usize) -> bool {
        let number = self.numbers.get(place).copied().flatten();
        number.is_some_and(|number| self.order.assumed.get(number as usize) == Some(&true))
    }
}

/// Aligns `boots` by the messages that `patterns` find in them, and by their wall clocks. Returns `None` if no messages
/// between boots are found, or if there are too many boots.
pub(super) fn align_by_messages(
    boots: &[Vec<Source>],
    runs: &[Vec<Option<Run>>],
    clocks: &Clocks,
    patterns: &[SyncPatterns],
    messages: &mut Messages,
) -> Option<Alignment> {
    let own: Vec<Option<&Arc<TickClock>>> = runs
        .iter()
        .map(|runs| clocks.of(runs.iter().flatten().next()?).filter(|clock| clock.rate_is_known()))
        .collect();
    if boots.len() > MOST_MACHINES {
        messages.warn(format_args!(
            "--sync compares at most {MOST_MACHINES} machines, and there are {}; name fewer traces. Their lines are put \
             in order by the wall clock",
            boots.len(),
        ));
        return None;
    }
    let mut matcher = Matcher::new(patterns);
    for (place, (sources, runs)) in boots.iter().zip(runs).enumerate() {
        let Some(clock) = own[place] else { continue };
        let reading = |ticks: Ticks| steady(clock, ticks);
        // A log of another program has no run, and no times that are exact.
        for (source, _) in sources.iter().zip(runs).filter(|(_, run)| run.is_some()) {
            matcher.read(source, place as u32, &reading);
        }
    }
    let found = matcher.finish();
    report_matches(&found, messages);
    if found.messages.is_empty() {
        return None;
    }
    let walls: Vec<Vec<WallReading>> =
        own.iter().map(|clock| clock.map_or_else(Vec::new, |clock| wall_readings(clock))).collect();
    let mut reference = own.iter().position(Option::is_some)?;
    let mut solved = solved_by(reference, &own, &found, &walls);
    // No ticks are before 0: if a line is earlier, the machine with the earliest line is the reference.
    let earliest = |place: usize| {
        let clock = own[place]?;
        let first = boots[place].iter().filter_map(Source::ends).map(|ends| ends.0).min()?;
        Some(solved.order.time(solved.numbers[place]?, steady(clock, Ticks(first))))
    };
    let first = (0..boots.len()).filter_map(|place| Some((earliest(place)?, place))).min();
    if let (Some((time, place)), Some(clock)) = (first, own[reference]) {
        if place != reference && time < steady(clock, Ticks(1)) {
            reference = place;
            solved = solved_by(reference, &own, &found, &walls);
        }
    }
    report_order(&solved, runs, &found, messages);
    solved.messages = found.messages;
    Some(solved)
}

/// Returns the steady time of a clock at `ticks`, in nanoseconds.
pub(super) fn steady(clock: &TickClock, ticks: Ticks) -> i64 {
    i64::try_from(clock.steady(ticks)).unwrap_or(i64::MAX)
}

/// Computes the order of all clocks on the scale of the boot with the index `reference`, to whose ticks all lines will
/// be converted.
fn solved_by(
    reference: usize,
    own: &[Option<&Arc<TickClock>>],
    found: &SyncMessages,
    walls: &[Vec<WallReading>],
) -> Alignment {
    let swapped = |place: usize| match place {
        0 => reference,
        place if place == reference => 0,
        place => place,
    } as u32;
    let mut all = found.messages.clone();
    for message in &mut all {
        (message.from, message.to) = (swapped(message.from as usize), swapped(message.to as usize));
    }
    let walls: Vec<WallReading> = walls
        .iter()
        .enumerate()
        .flat_map(|(place, walls)| {
            walls.iter().map(move |wall| WallReading { clock: swapped(place), ..*wall })
        })
        .collect();
    // A line has whole ticks, so two times that are nearer than these may have the same.
    let tick_ns = own[reference].map_or(1.0, |clock| 1e9 / clock.exact_ticks_per_second());
    let assumptions = Assumptions { least_apart: 50f64.max(2.0 * tick_ns + 2.0), ..Assumptions::default() };
    let order = solve(own.len() as u32, &all, &walls, &assumptions);
    let numbers = own.iter().enumerate().map(|(place, clock)| clock.map(|_| swapped(place))).collect();
    Alignment { reference, order: Arc::new(order), numbers, messages: Vec::new() }
}

/// Returns the readings of the wall clock in a boot's traces.
fn wall_readings(clock: &TickClock) -> Vec<WallReading> {
    let reading = |anchor: &crate::time::anchor::Anchor| {
        let read_in = clock.steady(Ticks(anchor.ticks.0.saturating_add(anchor.within)));
        let within = read_in.saturating_sub(clock.steady(anchor.ticks));
        Some(WallReading {
            clock: 0,
            at: steady(clock, anchor.ticks),
            wall: i64::try_from(anchor.wall.0).ok()?,
            error: anchor.error.and_then(|error| i64::try_from(error.saturating_add(within)).ok()),
        })
    };
    clock.anchors().iter().filter_map(reading).collect()
}

fn report_matches(found: &SyncMessages, messages: &mut Messages) {
    let [sent, received] = found.lines.map(Grouped);
    if found.messages.is_empty() {
        messages.warn(format_args!(
            "no message of --sync goes from one machine to another: {sent} lines match the patterns for sending and \
             {received} those for receiving; the lines of machines are put in order by the wall clock"
        ));
    }
    if found.repeated > 0 {
        messages.note(format_args!(
            "{} of --sync identify several messages, which are ignored therefore: choose groups in the patterns \
             that match a different text in each message",
            count(found.repeated, "id"),
        ));
    }
    if found.is_cut {
        messages.note("only the first 8,000,000 ids of --sync were compared; the others are ignored");
    }
}

/// Reports how certain the order of machines is, and which facts contradict it.
fn report_order(
    alignment: &Alignment,
    runs: &[Vec<Option<Run>>],
    found: &SyncMessages,
    messages: &mut Messages,
) {
    let order = &alignment.order;
    let boot = |place: usize| {
        let run = runs[place].iter().flatten().next();
        run.map_or_else(|| "unknown".to_owned(), |run| shown_name(&run.boot))
    };
    let place_of = |number: u32| alignment.numbers.iter().position(|own| *own == Some(number)).unwrap_or(0);
    let certain = (0..runs.len()).filter(|place| *place != alignment.reference).filter_map(|place| {
        alignment.numbers[place]?;
        Some(format!("boot {} {}", boot(place), certainty(alignment, place)))
    });
    let machines = alignment.numbers.iter().flatten().count() as u64;
    messages.note(format_args!(
        "{}: their lines are put in order by {} between them, in ticks of boot {}; {}",
        count(machines, "machine"),
        count(found.messages.len() as u64, "message"),
        boot(alignment.reference),
        certain.collect::<Vec<_>>().join(", "),
    ));
    let unused =
        order.verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Unsupported | Verdict::AtStep));
    let unused = unused.count() as u64;
    if unused > 0 {
        messages.note(format_args!(
            "{} of --sync are ignored, because their delay is far less than that of the others in their direction, \
             or because a clock was set near them",
            count(unused, "matched message"),
        ));
    }
    for step in order.steps.iter().take(NAMED) {
        messages.note(format_args!(
            "the clock of boot {} jumped by {}{} at {}, as messages between {} of machines show",
            boot(place_of(step.clock)),
            if step.ns < 0 { "-" } else { "" },
            duration(step.ns.unsigned_abs()),
            Wall(step.between.0.max(0) as u64),
            count(step.pairs as u64, "pair"),
        ));
    }
    for (&(a, b), &contradictory) in &order.contradictory {
        let of_pair = order.verdicts.iter().zip(&found.messages).filter(|(verdict, message)| {
            let ends =
                [message.from, message.to].map(|place| alignment.numbers[place as usize].unwrap_or(u32::MAX));
            **verdict == Verdict::Wrong && (ends == [a, b] || ends == [b, a])
        });
        let named: Vec<String> = of_pair
            .take(NAMED)
            .map(|(_, message)| {
                format!(
                    "the message that boot {} sent at {}",
                    boot(message.from as usize),
                    Wall(message.sent.max(0) as u64)
                )
            })
            .collect();
        messages.warn(format_args!(
            "{} of --sync between the boots {} and {} contradict the others and are ignored: {}{}",
            count(contradictory, "matched message"),
            boot(place_of(a)),
            boot(place_of(b)),
            named.join(", "),
            if contradictory > named.len() as u64 { ", ..." } else { "" },
        ));
    }
    for (&number, &readings) in &order.contradictory_walls {
        messages.note(format_args!(
            "{} of the wall clock of boot {} contradict the messages or other wall clocks: the error of that clock \
             is larger than its operating system says",
            count(readings, "reading"),
            boot(place_of(number)),
        ));
    }
}

/// Returns a text that says how exact the times of a boot are, such as `±12 us`: the median of the errors in the trace.
fn certainty(alignment: &Alignment, place: usize) -> String {
    let errors = alignment.errors(place);
    let unlimited = match (alignment.is_assumed(place), errors.is_empty()) {
        (true, true) => return "with an error that nothing limits".to_owned(),
        (true, false) => ", in part with an error that nothing limits",
        _ => "",
    };
    let median = errors.get(errors.len() / 2).copied().unwrap_or(0);
    format!("±{}{unlimited}", duration(median))
}
