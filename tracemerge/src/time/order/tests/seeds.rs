//! For many seeds: the truth is inside the limits, and no message that counts is received before it is sent.

#![expect(clippy::disallowed_macros, reason = "the results of a run by name are for its reader")]

use super::super::{Assumptions, Order, Verdict, solve};
use super::baseline::trace_compass;
use super::world::{Case, Drift, Net, Random, World};

/// The result of solving a case.
struct Result {
    /// The number of messages that are judged wrong although they were matched rightly.
    wrongly_named: usize,
    /// The number of all messages.
    messages: usize,
    /// The median error of times, in nanoseconds.
    error: f64,
    /// The median width of the limits, in nanoseconds; infinite widths are not counted.
    width: f64,
    order: Order,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Makes a random case, of any kind, with at most `most` machines.
fn random_case(seed: u64, most: usize) -> Case {
    let random = &mut Random::new(seed);
    let net = [Net::Star, Net::Chain, Net::Ring, Net::Tree, Net::Random, Net::Random][random.below(6)];
    let machines = match random.below(4) {
        0 => 2 + random.below(3),
        1 | 2 => 2 + random.below(most.min(20) - 1),
        _ => 2 + random.below(most - 1),
    };
    let machines = if net == Net::Ring { machines.clamp(3, 12) } else { machines };
    let links = if net == Net::Random { 3 * machines } else { machines };
    let seconds = random.between(40.0, 400.0);
    let rate = (random.between(0.0, 5.0).exp()).min(40_000.0 / links as f64 / seconds).max(0.5);
    let drift = [Drift::Constant, Drift::Walk, Drift::Temperature][random.below(3)];
    let mut case = Case::new(net, machines, rate, seconds, drift);
    case.one_way = [0.0, 0.0, 0.5][random.below(3)];
    case.wrong = [0.0, 0.001, 0.01][random.below(3)];
    if random.below(3) == 0 && machines > 2 && rate * seconds > 200.0 {
        // Steps that are nearer to each other than three windows are not distinguished.
        let steps = if seconds > 150.0 { 1 + random.below(2) } else { 1 };
        for step in 0..steps {
            let size = random.between(0.3e6f64.ln(), 60e9f64.ln()).exp();
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            let at = (random.between(0.3, 0.35) + step as f64 * random.between(0.25, 0.35)) * seconds;
            case.steps.push((1 + random.below(machines - 1), at, sign * size));
        }
    }
    if random.below(3) == 0 {
        let late = 1 + random.below(machines - 1);
        // A step is seen if there are messages for some windows before it.
        let before_steps = case.steps.iter().filter(|step| step.0 == late).map(|step| step.1 - 30.0);
        case.comes[late] = before_steps.fold(random.between(0.0, 0.6) * seconds, f64::min).max(0.0);
    }
    if random.below(4) == 0 {
        case.wall_error = Some(random.between(0.1e6f64.ln(), 5e6f64.ln()).exp());
        // Nothing shows that the clock of a silent machine steps.
        if machines > 3 && random.below(2) == 0 && case.steps.iter().all(|step| step.0 != machines - 1) {
            case.silent.push(machines - 1);
        }
    }
    case
}

/// Solves a case and checks the promises: that no message that counts is received before it is sent, and that the truth
/// is inside the limits. The error in the result is taken over all machines at many times.
fn checked(case: Case, seed: u64) -> (World, std::result::Result<Result, String>) {
    let world = World::new(case, &mut Random::new(seed ^ 0x5eed));
    let (machines, messages) = world.messages();
    let order = solve(machines.len() as u32, &messages, &world.walls(), &Assumptions::default());
    let mut wrongly_named = 0;
    for (id, message) in messages.iter().enumerate() {
        let verdict = order.verdicts[id];
        let sent = order.time(message.from, message.sent);
        let received = order.time(message.to, message.received);
        if verdict == Verdict::Kept && received <= sent {
            return (
                world,
                Err(format!("message {id} is received {} ns before it is sent", sent - received)),
            );
        }
        let is_right = world.sent.get(id).is_none_or(|sent| !sent.is_wrong);
        wrongly_named += usize::from(verdict == Verdict::Wrong && is_right);
    }
    // The first and the last reading of each clock.
    let mut ends = vec![(f64::INFINITY, f64::NEG_INFINITY); machines.len()];
    for (message, sent) in messages.iter().zip(&world.sent) {
        for (clock, t) in [(message.from, sent.times.0), (message.to, sent.times.1)] {
            let ends = &mut ends[clock as usize];
            *ends = (ends.0.min(t), ends.1.max(t));
        }
    }
    let (mut errors, mut widths) = (Vec::new(), Vec::new());
    for (clock, &machine) in machines.iter().enumerate() {
        let (from, until) =
            if world.case.silent.contains(&machine) { (0.0, world.case.seconds - 1.0) } else { ends[clock] };
        for n in 0..60 {
            let t = from + (until - from) * (f64::from(n) + 0.5) / 60.0;
            if !t.is_finite() {
                continue;
            }
            let (reading, truth) = (world.clock(machine, t), world.clock(0, t));
            let (earliest, latest) = order.limits(clock as u32, reading);
            let time = order.time(clock as u32, reading);
            let outside = (earliest.saturating_sub(truth)).max(truth.saturating_sub(latest));
            if outside > 1 {
                let said = format!(
                    "clock {clock} of machine {machine} is {outside} ns outside its limits at {t:.1} s: {}..{} around {}",
                    earliest - truth,
                    latest - truth,
                    time - truth
                );
                return (world, Err(said));
            }
            if machine != 0 {
                errors.push((time - truth).abs() as f64);
                if earliest != i64::MIN && latest != i64::MAX {
                    widths.push((latest - earliest) as f64);
                }
            }
        }
    }
    let result = Result {
        wrongly_named,
        messages: messages.len(),
        error: median(errors),
        width: median(widths),
        order,
    };
    (world, Ok(result))
}

fn check_seeds(seeds: std::ops::Range<u64>, most: usize) {
    let mut failures = Vec::new();
    let (mut wrongly, mut all) = (0, 0);
    let print = std::env::var_os("ORDER_PRINT").is_some();
    for seed in seeds.clone() {
        let case = random_case(seed, most);
        let begin = std::time::Instant::now();
        let (world, result) = checked(case, seed);
        if print {
            let took = begin.elapsed().as_millis();
            match &result {
                Ok(result) => println!(
                    "{seed}: {} messages {took} ms, error {:.0}, width {:.0}, wrongly {}, steps {:?}",
                    result.messages, result.error, result.width, result.wrongly_named, result.order.steps
                ),
                Err(error) => println!("{seed}: {took} ms {error} {:?}", world.case),
            }
        }
        match result {
            Ok(result) => {
                wrongly += result.wrongly_named;
                all += result.messages;
            }
            Err(error) => failures.push(format!("seed {seed}: {error}; {:?}", world.case)),
        }
    }
    println!("{} seeds, {all} messages, {wrongly} right messages named wrong", seeds.end - seeds.start);
    assert!(failures.is_empty(), "{} seeds fail:\n{}", failures.len(), failures.join("\n"));
    assert!(wrongly * 200 < all, "{wrongly} right messages of {all} are named wrong");
}

#[test]
fn the_truth_is_inside_the_limits_and_nothing_is_received_before_it_is_sent() {
    let seeds: u64 = std::env::var("ORDER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(24);
    let first: u64 = std::env::var("ORDER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let most = std::env::var("ORDER_MACHINES").ok().and_then(|most| most.parse().ok());
    check_seeds(first..first + seeds, most.unwrap_or(if seeds > 100 { 200 } else { 12 }));
}

#[test]
fn the_errors_are_smaller_than_those_of_a_hull_for_each_pair() {
    // On graphs with loops the other clocks help; on trees the asymmetry of delays is the floor of any method.
    let cases = [
        (0.4, vec![(Net::Random, 20, 5.0, 300.0, Drift::Temperature)]),
        (
            0.7,
            vec![(Net::Random, 20, 10.0, 100.0, Drift::Constant), (Net::Random, 20, 5.0, 200.0, Drift::Walk)],
        ),
        (
            1.1,
            vec![
                (Net::Star, 10, 20.0, 100.0, Drift::Constant),
                (Net::Chain, 8, 20.0, 100.0, Drift::Walk),
                (Net::Tree, 12, 20.0, 100.0, Drift::Temperature),
            ],
        ),
    ];
    let seeds: u64 =
        std::env::var("ORDER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(3).min(20);
    let mut failures = Vec::new();
    for (limit, cases) in cases {
        for (net, machines, rate, seconds, drift) in cases {
            let mut ratios = Vec::new();
            for seed in 0..seeds {
                let (world, result) = checked(Case::new(net, machines, rate, seconds, drift), seed + 1000);
                let result = result.unwrap();
                ratios.push(result.error / error_of_trace_compass(&world));
            }
            let ratio = median(ratios.clone());
            println!("{net:?} {machines} {drift:?}: {ratio:.2} of the other method's error, {ratios:.2?}");
            if ratio > limit {
                failures.push(format!("{net:?} {machines} {drift:?}: {ratio:.2}, not {limit}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// Returns the median error of the method of Trace Compass at the same times.
fn error_of_trace_compass(world: &World) -> f64 {
    let machines = world.case.machines;
    let origins: Vec<i64> = (0..machines).map(|machine| world.clock(machine, 0.0)).collect();
    let messages: Vec<_> = world
        .sent
        .iter()
        .map(|sent| {
            let sent_at = world.clock(sent.from, sent.times.0) - origins[sent.from];
            (sent.from, sent.to, sent_at, world.clock(sent.to, sent.times.1) - origins[sent.to])
        })
        .collect();
    let lines = trace_compass(machines, &messages);
    let mut errors = Vec::new();
    for machine in 1..machines {
        let Some((alpha, beta)) = lines[machine] else { continue };
        for n in 0..60 {
            let t = (world.case.seconds - 1.0) * (f64::from(n) + 0.5) / 60.0;
            let own = (world.clock(machine, t) - origins[machine]) as f64;
            let truth = (world.clock(0, t) - origins[0]) as f64;
            errors.push((alpha * own + beta - truth).abs());
        }
    }
    median(errors)
}
