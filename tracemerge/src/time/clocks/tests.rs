use super::*;
use crate::time::steps::StepCause;
use proptest::prelude::*;

fn anchor(ticks: u64, wall: u64) -> Anchor {
    Anchor::new(Ticks(ticks), Wall(wall))
}

fn clock(anchors: &[(u64, u64)]) -> TickClock {
    TickClock::of(ClockKind::Ordered, anchors.iter().map(|&(ticks, wall)| anchor(ticks, wall)))
}

const S: u64 = 1_000_000_000;

#[test]
fn time_is_interpolated_between_anchors_and_extrapolated_outside() {
    // The rate is 2 ticks a nanosecond at first, then a thousandth more.
    let clock = clock(&[(1000, 50 * S), (1000 + 20 * S, 60 * S), (1000 + 20 * S + 20_020_000_000, 70 * S)]);
    for wall in [
        |clock: &TickClock, ticks| clock.wall(Ticks(ticks)).0,
        |clock: &TickClock, ticks| clock.steady(Ticks(ticks)),
    ] {
        assert_eq!(wall(&clock, 1000), 50 * S);
        assert_eq!(wall(&clock, 1000 + 10 * S), 55 * S);
        assert_eq!(wall(&clock, 1000 + 20 * S + 10_010_000_000), 65 * S);
        // Outside, it is the average.
        assert_eq!(wall(&clock, 1000 + 20 * S + 20_020_000_000 + 40_020_000_000), 90 * S);
        assert_eq!(wall(&clock, 0), 50 * S - 500);
    }
    assert_eq!(clock.ticks(Wall(65 * S)).0, 1000 + 20 * S + 10_010_000_000);
    // Without the middle anchor, 9.995002 s would have passed there, not 10.
    assert_eq!(clock.uncertainty_ns(), 4_997_502);
}

#[test]
fn one_anchor_has_no_rate_unless_ticks_are_nanoseconds() {
    assert!(!clock(&[(5, 7)]).rate_is_known());
    assert!(!clock(&[]).rate_is_known());
    assert!(!clock(&[(5, 7), (6, 7)]).rate_is_known());
    let system = TickClock::of(ClockKind::System, [anchor(5, 70)]);
    assert!(system.rate_is_known());
    assert_eq!(system.wall(Ticks(15)), Wall(80));
    assert!(!TickClock::of(ClockKind::System, []).rate_is_known());
}

/// Returns the clock of a counter with one tick per nanosecond that was read every ten seconds, with the wall times
/// `walls` in seconds.
fn every_ten_seconds(walls: &[u64]) -> TickClock {
    let reading = |(number, wall): (usize, &u64)| (1000 + 10 * S * number as u64, wall * S);
    clock(&walls.iter().enumerate().map(reading).collect::<Vec<_>>())
}

#[test]
fn one_wrong_reading_is_skipped_and_counted() {
    let clock = every_ten_seconds(&[100, 110, 3, 130, 140]);
    assert_eq!(clock.wall(Ticks(1000 + 20 * S)).0, 120 * S);
    assert_eq!(clock.uncertainty_ns(), 117 * S);
    assert_eq!(clock.steps(), []);
}

#[test]
fn a_wall_clock_that_is_set_changes_no_duration() {
    for set in [874, 2, -2, -90] {
        let shown = |wall: u64| wall.saturating_add_signed(set);
        let clock = every_ten_seconds(&[100, 110, 120, shown(130), shown(140), shown(150)]);
        let time = |s: u64| clock.steady(Ticks(1000 + s * S));
        assert_eq!((time(0), time(15), time(25), time(55)), (100 * S, 115 * S, 125 * S, 155 * S), "{set}");
        // The clock was set at some time between the two readings: times count as before.
        let wall = |s: u64| clock.wall(Ticks(1000 + s * S)).0;
        assert_eq!((wall(19), wall(29), wall(30)), (119 * S, 129 * S, shown(130) * S), "{set}");
        assert!((0..60 * 4).all(|quarter| {
            let ascending = |quarter: u64| clock.ascending_wall(Ticks(1000 + quarter * S / 4));
            ascending(quarter) <= ascending(quarter + 1)
        }));
        let [step] = clock.steps() else { panic!("{:?}", clock.steps()) };
        assert_eq!((step.cause, step.ns), (StepCause::Set, set * 1_000_000_000));
        assert_eq!((step.before.0, step.after.0), (120 * S, shown(130) * S));
    }
}

#[test]
fn a_time_of_day_that_comes_twice_is_found_where_it_comes_first() {
    let clock = every_ten_seconds(&[100, 110, 120, 90, 100, 110, 120, 130]);
    assert_eq!(clock.ticks(Wall(110 * S)).0, 1000 + 10 * S);
    assert_eq!(clock.ticks(Wall(125 * S)).0, 1000 + 25 * S);
    assert_eq!(clock.ticks(Wall(130 * S)).0, 1000 + 70 * S);
    // Time went on from 120 s at most until the clock was set.
    assert_eq!(clock.ticks(Wall(129 * S + S / 2)).0, 1000 + 29 * S + S / 2);
    // The clock was set back from 130 s at most to 90 s. Before the first reading, nothing is known to have been shown.
    let errors = [(89, 0), (99, 0), (101, 40), (125, 40), (129, 40), (131, 0)];
    for (second, error) in errors {
        assert_eq!(clock.place(Wall(second * S), None).error_ns, error * S, "{second} s");
    }
    let forward = every_ten_seconds(&[100, 110, 120, 874, 884, 894]);
    assert!((80..900).all(|second| forward.place(Wall(second * S), None).error_ns == 0));
}

/// A clock that is read every ten seconds, by a trace and by a log, and that is set at a known moment between two
/// readings: the place of each line is compared with the moment at which it was written.
#[test]
fn the_lines_of_a_log_around_a_step_are_placed_where_they_were_written() {
    const TICKS: u64 = 3;
    let mut random = Random(26);
    let (mut before, mut now) = (Vec::new(), Vec::new());
    for round in 0..500 {
        let length = S + random.below(if round % 2 == 0 { 15 * S } else { 4000 * S });
        let ahead = round % 4 < 2;
        let stepped = (20 + random.below(10)) * S + 1 + random.below(S - 1);
        let shown = |moment: u64| match (moment >= stepped, ahead) {
            (false, _) => 10_000 * S + moment,
            (true, true) => 10_000 * S + moment + length,
            (true, false) => 10_000 * S + moment - length,
        };
        let clock = clock(&[0, 1, 2, 3, 4, 5].map(|ten| (TICKS * (ten * 10 * S), shown(ten * 10 * S))));
        assert_eq!(clock.steps().len(), 1);
        let (mut moment, mut last) = (0, None);
        while moment < 50 * S {
            let wall = Wall(shown(moment));
            let place = clock.place(wall, last);
            assert!(last.is_none_or(|last: WallPlace| last.ticks <= place.ticks), "{last:?} {place:?}");
            let error = |ticks: Ticks| (ticks.0 / TICKS).abs_diff(moment);
            // Only a clock that was set forward by less than ten seconds leaves a doubt.
            let limit =
                if ahead && (stepped..30 * S).contains(&moment) { (30 * S - stepped).min(length) } else { 1 };
            assert!(error(place.ticks) <= limit, "{} {limit}", error(place.ticks));
            assert!(error(place.ticks) <= place.error_ns + 1, "{place:?}");
            if (stepped..30 * S).contains(&moment) {
                before.push(error(clock.ticks(wall)));
                now.push(error(place.ticks));
                assert!(now.last() <= before.last());
            }
            last = Some(place);
            // A line that is written only after the step's length does not show that the clock was set back.
            moment += 1 + random.below(2 * S.min(length / 3));
        }
    }
    let median = |errors: &mut Vec<u64>| {
        errors.sort_unstable();
        errors[errors.len() / 2]
    };
    assert!(
        (median(&mut now), median(&mut before) > S) == (0, true),
        "{} {}",
        median(&mut now),
        median(&mut before)
    );
}

#[test]
fn a_late_line_of_a_log_is_no_step_and_a_skipped_time_is_at_the_step() {
    let back = every_ten_seconds(&[100, 110, 120, 90, 100, 110, 120, 130]);
    let after = |clock: &TickClock, before: u64, wall: u64| {
        let before = clock.place(Wall(before * S / 10), None);
        (clock.place(Wall(wall * S / 10), Some(before)).ticks.0 - 1000) / (S / 10)
    };
    assert_eq!(after(&back, 1250, 1249), 249);
    assert_eq!(after(&back, 1250, 1000), 400);
    let forward = every_ten_seconds(&[100, 110, 120, 874, 884, 894]);
    assert_eq!(after(&forward, 1250, 8690), 250);
    assert_eq!(after(&forward, 1210, 8690), 250);
    assert_eq!(after(&forward, 8690, 1249), 249);
    assert_eq!(after(&forward, 1210, 5000), 210);
}

#[test]
fn a_suspended_machine_is_distinguished_from_a_clock_that_was_set() {
    let readings = [(0, 0), (10, 0), (20, 500), (30, 500)].map(|(s, asleep)| Anchor {
        within: 100,
        raw: Some(s * S),
        since_boot: Some((s + asleep) * S),
        ..anchor(1000 + s * S, (1000 + s + asleep) * S)
    });
    // One counter stands still in a suspended machine; the other one goes on.
    for goes_on in [false, true] {
        let counted = |reading: &Anchor| {
            let asleep = reading.since_boot.unwrap() - reading.raw.unwrap();
            Anchor { ticks: Ticks(reading.ticks.0 + if goes_on { asleep } else { 0 }), ..*reading }
        };
        let clock = TickClock::of(ClockKind::Ordered, readings.iter().map(counted));
        let [step] = clock.steps() else { panic!("{:?}", clock.steps()) };
        assert_eq!((step.cause, step.ns), (StepCause::Suspended, 500_000_000_000));
        let last = counted(&readings[3]).ticks.0;
        assert_eq!(clock.steady(Ticks(last)) - clock.steady(Ticks(last - 7 * S)), 7 * S);
        assert_eq!(clock.wall(Ticks(last)).0, 1530 * S);
    }
}

#[test]
fn a_reader_reads_the_same_as_the_clock() {
    let clock = Arc::new(every_ten_seconds(&[100, 110, 120, 90, 100, 111, 120, 400, 410]));
    let (mut steady, mut wall) = (clock.steady_reader(), clock.wall_reader());
    let moments = (0..400).map(|tenth| 1000 + tenth * S / 4).chain([0, 999, u64::MAX, 1001]);
    let moments: Vec<u64> = moments.collect();
    for &ticks in moments.iter().chain(moments.iter().rev()) {
        assert_eq!(steady.at(Ticks(ticks)), clock.steady(Ticks(ticks)), "{ticks}");
        assert_eq!(wall.at(Ticks(ticks)), clock.wall(Ticks(ticks)).0, "{ticks}");
    }
}

#[test]
fn close_anchors_do_not_distort_the_clock() {
    let close = [(0, 100 * S), (9_999_999_000, 110 * S), (10 * S, 110 * S + 999)];
    assert_eq!(clock(&close).wall(Ticks(20 * S)).0, 120 * S + 1998);
}

proptest! {
    #[test]
    fn any_anchors_give_an_ascending_and_invertible_clock(
        anchors in prop::collection::vec((edgy(), edgy(), prop::option::of(edgy()), edgy()), 0..12),
        mut ticks in prop::collection::vec(edgy(), 2..20),
    ) {
        let anchors = anchors.into_iter().map(|(ticks, wall, raw, within)| Anchor {
            within,
            raw,
            since_boot: raw.map(|raw| raw.saturating_add(wall)),
            ..anchor(ticks, wall)
        });
        let clock = TickClock::of(ClockKind::Ordered, anchors);
        ticks.sort_unstable();
        for pair in ticks.windows(2) {
            prop_assert!(clock.steady(Ticks(pair[0])) <= clock.steady(Ticks(pair[1])));
            prop_assert!(clock.ascending_wall(Ticks(pair[0])) <= clock.ascending_wall(Ticks(pair[1])));
        }
        let (to_wall, to_ticks) = (clock.lines_to_wall(), clock.lines_to_ticks());
        for time in ticks {
            if (1..u64::MAX).contains(&time) {
                prop_assert_eq!(along(&to_wall, time, false), clock.ascending_wall(Ticks(time)).0);
                prop_assert_eq!(along(&to_ticks, time, true), clock.ticks(Wall(time)).0);
            }
            let first = clock.ticks(Wall(time));
            prop_assert!(first.0 == u64::MAX || clock.wall(first).0 >= time);
            prop_assert!(first.0 == 0 || clock.wall(Ticks(first.0 - 1)).0 < time);
            let first = clock.ticks_at_steady(time);
            prop_assert!(first.0 == u64::MAX || clock.steady(first) >= time);
            prop_assert!(first.0 == 0 || clock.steady(Ticks(first.0 - 1)) < time);
        }
    }
}

/// Returns the value at `x` of the line that holds at `x`, computed as by a program that has only the lines.
fn along(lines: &[ClockLine], x: u64, to_ticks: bool) -> u64 {
    let line = lines.iter().rfind(|line| line.from <= x).copied().unwrap();
    let ClockLine { ticks, ns, rate_ticks, rate_ns, floor, .. } = line;
    let (of, at, by, over) =
        if to_ticks { (ns, ticks, rate_ticks, rate_ns) } else { (ticks, ns, rate_ns, rate_ticks) };
    let value = match x.checked_sub(of) {
        Some(after) => at.saturating_add(Rate::scale(after, by, over, to_ticks)),
        None => at.saturating_sub(Rate::scale(of - x, by, over, !to_ticks)),
    };
    value.max(floor)
}

fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..5u64, (u64::MAX - 5)..=u64::MAX, (0..100u64).prop_map(|s| s * S)]
}

/// Random numbers: SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Returns a number of millionths between `-most` and `most`.
    fn millionths(&mut self, most: u64) -> f64 {
        (self.below(2 * most + 1) as f64 - most as f64) / 1e6
    }
}

/// The state of a simulated machine at one moment: its clocks, and the nanoseconds for which it has really run, without
/// those for which it was suspended.
#[derive(Clone, Copy)]
struct Moment {
    true_ns: f64,
    ticks: f64,
    raw: f64,
    asleep: f64,
    wall: f64,
    /// The number of times that the wall clock was set or the machine was suspended so far.
    steps: u32,
}

/// A machine whose wall clock is corrected by adjustments of its rate and by steps, and that is suspended at times.
struct Machine {
    now: Moment,
    random: Random,
    ticks_per_ns: f64,
    raw_rate: f64,
    wall_rate: f64,
    counter_goes_on: bool,
}

impl Machine {
    fn new(seed: u64) -> Machine {
        let mut random = Random(seed);
        let ticks_per_ns = 0.02 + random.below(5000) as f64 / 1000.0;
        let raw_rate = 1.0 + random.millionths(50);
        let counter_goes_on = random.below(2) == 0;
        let now = Moment { true_ns: 0.0, ticks: 1e9, raw: 1e9, asleep: 0.0, wall: 1.8e18, steps: 0 };
        Machine { now, random, ticks_per_ns, raw_rate, wall_rate: 1.0, counter_goes_on }
    }

    fn pass(&mut self, ns: f64) {
        self.now.true_ns += ns;
        self.now.ticks += ns * self.ticks_per_ns;
        self.now.raw += ns * self.raw_rate;
        self.now.wall += ns * self.wall_rate;
    }

    /// Lets one random event happen to the clocks, or none: a change of rate, a step, or a suspension.
    fn happen(&mut self) {
        match self.random.below(12) {
            0 | 1 => self.wall_rate = 1.0 + self.random.millionths(500),
            2 => {
                let size = [2e7, 1e9, 3.6e12][self.random.below(3) as usize];
                self.now.wall += size
                    * (1.0 + self.random.millionths(500_000))
                    * [1.0, -1.0][self.random.below(2) as usize];
                self.now.steps += 1;
            }
            3 => {
                let asleep = 1e9 * (1 + self.random.below(10_000)) as f64;
                self.now.asleep += asleep;
                self.now.wall += asleep;
                self.now.ticks += if self.counter_goes_on { asleep * self.ticks_per_ns } else { 0.0 };
                self.now.steps += 1;
            }
            _ => {}
        }
    }

    /// Reads the clocks, one after the other. Some readings are interrupted; only newer traces show that.
    fn read(&mut self, has_raw: bool) -> Anchor {
        let before = self.now.ticks;
        let interrupted = if has_raw && self.random.below(20) == 0 { 3e7 } else { 0.0 };
        let gap =
            |random: &mut Random| random.below(200) as f64 + interrupted * random.below(100) as f64 / 100.0;
        let (raw, asleep) = (self.now.raw, self.now.asleep);
        let pause = gap(&mut self.random);
        self.pass(pause);
        let wall = self.now.wall;
        let pause = gap(&mut self.random);
        self.pass(pause);
        let within = (self.now.ticks - before) as u64;
        let read = anchor(before as u64 + within / 2, wall as u64);
        match has_raw {
            true => Anchor { within, raw: Some(raw as u64), since_boot: Some((raw + asleep) as u64), ..read },
            false => read,
        }
    }
}

/// Traces a simulated machine. Returns the clock of the trace, and moments between the readings.
fn simulate(seed: u64, has_raw: bool) -> (TickClock, Vec<Moment>) {
    let mut machine = Machine::new(seed);
    // Each trace begins with a reading of two clocks, as `# run` lines have.
    let mut anchors = vec![machine.read(false)];
    let mut moments = Vec::new();
    for _ in 0..6 + machine.random.below(60) {
        anchors.push(machine.read(has_raw));
        for _ in 0..4 {
            let pause = 1e9 + machine.random.below(2_000_000_000) as f64;
            machine.pass(pause);
            moments.push(machine.now);
            if moments.len() % 4 == 2 {
                machine.happen();
                moments.push(machine.now);
            }
        }
    }
    anchors.push(machine.read(has_raw));
    (TickClock::of(ClockKind::Ordered, anchors), moments)
}

/// Returns the largest error of durations between neighbouring moments, and over `apart` moments, less a microsecond,
/// in millionths. Leaves out durations in which the machine was suspended or, if not `over_steps`, in which the wall
/// clock was set or the readings before and after may show that.
fn largest_error(clock: &TickClock, moments: &[Moment], over_steps: bool) -> f64 {
    let mut largest: f64 = 0.0;
    for distance in [1, 3, 17] {
        for (at, from) in moments.iter().enumerate() {
            let Some(to) = moments.get(at + distance) else { break };
            let around = &moments[at.saturating_sub(12)..moments.len().min(at + distance + 12)];
            let was_set = around.first().map(|first| first.steps) != around.last().map(|last| last.steps);
            if from.asleep != to.asleep || (was_set && !over_steps) {
                continue;
            }
            let steady = |moment: &Moment| clock.steady(Ticks(moment.ticks as u64)) as f64;
            let (measured, truth) = (steady(to) - steady(from), to.true_ns - from.true_ns);
            if truth > 0.0 {
                largest = largest.max(((measured - truth).abs() - 1000.0) / truth * 1e6);
            }
        }
    }
    largest
}

#[test]
fn durations_of_a_thousand_simulated_machines_are_those_that_passed() {
    for seed in 0..1000 {
        let (clock, moments) = simulate(seed, true);
        let error = largest_error(&clock, &moments, true);
        assert!(error <= 200.0, "seed {seed}: {error} ppm");
        assert!(moments.windows(2).all(|two| {
            clock.steady(Ticks(two[0].ticks as u64)) <= clock.steady(Ticks(two[1].ticks as u64))
        }));
    }
}

#[test]
fn durations_without_a_raw_clock_are_right_except_near_steps() {
    let mut tried = 0;
    for seed in 0..1000 {
        let (clock, moments) = simulate(seed, false);
        // The rate is not known if the wall clock was set all the time.
        let steps = moments.last().map_or(0, |last| last.steps) as usize;
        if steps * 5 * 4 > moments.len() {
            continue;
        }
        tried += 1;
        let error = largest_error(&clock, &moments, false);
        assert!(error <= 600.0, "seed {seed}: {error} ppm");
    }
    assert!(tried > 500, "{tried} machines");
}
