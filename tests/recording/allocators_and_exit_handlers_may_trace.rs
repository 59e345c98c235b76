//! A program's allocator and its handlers of `atexit` may trace.

#[cfg(unix)]
use support::MAIN;
use support::Scenario;
use trace_format::meta::EndReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn records_of_atexit_handlers_are_kept() {
    let traced = Scenario::new(SCENARIO, &["at-exit"]).run().succeeded();
    let main = traced.main_thread();
    let expected = ["the first record", "registered after it", "registered before the first record"];
    assert_eq!((main.texts(), main.end().reason), (expected.to_vec(), EndReason::Exit));
    let all = traced.messages();
    assert!(all.len() == 4 && all.contains(&"a thread of the handler".to_string()), "{all:?}");
    traced.assert_whole();
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}

/// Returns the number of the thread's allocation in a message that the allocator traces.
#[cfg(unix)]
fn number(text: &str) -> Option<u64> {
    text.strip_prefix("allocated ")?.split(' ').next()?.parse().ok()
}

/// Runs on Unix only: on Windows, a thread has no name yet when its first allocation traces.
#[cfg(unix)]
#[test]
fn an_allocator_may_trace_every_allocation() {
    let traced = Scenario::new(SCENARIO, &["tracing-allocator"]).run().succeeded();
    for name in [MAIN, "one", "two", "three"] {
        let file = traced.thread(name);
        let texts = file.texts();
        let numbers: Vec<u64> = texts.iter().filter_map(|text| number(text)).collect();
        // None of the program's own allocations is missing. The first one starts the tracer. The tracer's own
        // allocations during its start cannot be in the trace, but are counted as lost.
        let missing = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1);
        let missing: Vec<_> = missing.map(|pair| (pair[0], pair[1] - pair[0] - 1)).collect();
        let lost = file.end().lost;
        match name {
            MAIN => assert_eq!(missing, [(1, lost)]),
            _ => assert_eq!((missing, lost), (vec![], 0), "{name}"),
        }
        assert_eq!(numbers[0], 1, "{name}");
        let own = |n: usize| format!(" {}", 1000 + n);
        let sizes: Vec<&str> = texts.iter().copied().filter(|text| number(text).is_some()).collect();
        let mut at = sizes.iter();
        for n in 0..1000 {
            assert!(at.any(|text| text.ends_with(&own(n))), "{name}: allocation {n}");
        }
        // One in ten is followed by a record whose message allocates while the record is made.
        let messages = texts.iter().filter(|text| text.contains("xxx")).count();
        let inside = sizes.iter().filter(|text| text.ends_with(" 321")).count();
        assert_eq!((messages, inside), (100, 100), "{name}");
    }
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}
