//! The first record of a process, and the first of a thread, have the ticks of their calls, however long the tracer
//! takes to start or to get a ring.

use support::{Scenario, ThreadTrace, Traced};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The least share of a call's measured time that the call's ticks must span. The program spends the rest between
/// reading its own clock and the call.
const SHARE: f64 = 0.6;

/// Returns the nanoseconds between two messages by their ticks, and the nanoseconds that the call of the first
/// message took, which the second message states.
fn apart(thread: &ThreadTrace, ns_per_tick: f64) -> (f64, f64) {
    let [(first, _), (second, text), ..] = &thread.messages[..] else { panic!("{thread:?}") };
    let took = text.split_whitespace().next_back().expect("a number").parse().expect("a number");
    ((second.ticks.0 - first.ticks.0) as f64 * ns_per_tick, took)
}

/// Returns the nanoseconds per tick, from two messages of the main thread that are 50 ms apart.
fn ns_per_tick(main: &ThreadTrace) -> f64 {
    let find = |text: &str| main.messages.iter().find(|(_, message)| message.starts_with(text));
    let (from, _) = find("calibration begins").expect("the message");
    let (to, text) = find("calibration ends").expect("the message");
    let ns: f64 = text.split_whitespace().next_back().expect("a number").parse().expect("a number");
    ns / (to.ticks.0 - from.ticks.0) as f64
}

fn main_thread(traced: &Traced) -> &ThreadTrace {
    let main = traced
        .files
        .values()
        .find(|thread| thread.messages.iter().any(|(_, m)| m.starts_with("calibration")));
    main.expect("the file of the main thread")
}

#[test]
fn first_records_have_the_ticks_of_their_calls() {
    let (mut processes, mut threads, mut of_threads) = (0, 0, 0);
    for clock in ["ordered", "fast", "ordered", "ordered", "fast"] {
        let traced = Scenario::new(SCENARIO, &["first-records"]).env("TRACER_CLOCK", clock).run().succeeded();
        let main = main_thread(&traced);
        let ns_per_tick = ns_per_tick(main);
        let (apart_by_ticks, took) = apart(main, ns_per_tick);
        processes += u32::from(apart_by_ticks >= SHARE * took);
        // A thread's first call is short, but if it read its clock last, its ticks would span no time at all.
        for thread in traced.files.values().filter(|thread| !std::ptr::eq(*thread, main)) {
            let (apart_by_ticks, took) = apart(thread, ns_per_tick);
            of_threads += 1;
            threads += u32::from(apart_by_ticks >= SHARE * took);
        }
        for thread in traced.files.values() {
            let run =
                thread.metas.iter().find_map(|meta| if let Meta::Run(run) = meta { Some(run) } else { None });
            assert!(
                run.expect("a run line").ticks <= thread.messages[0].0.ticks,
                "the run line stands first"
            );
        }
    }
    // The system may take the processor away between a program's own clock and its call.
    assert!(processes >= 3, "{processes} of 5 processes");
    assert!(of_threads == 50 && threads >= 30, "{threads} of {of_threads} threads");
}
