//! Ten thousand threads, fifty alive at a time: the tracer reuses rings and descriptors, and no record is missing.

use support::Scenario;

/// The number of threads. Wine starts threads and creates files at a tenth of the speed.
const THREADS: usize = if cfg!(windows) { 1000 } else { 10_000 };

#[test]
fn ten_thousand_threads_leak_no_ring_and_no_descriptor() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["short-lived", &THREADS.to_string()]);
    let traced = traced.env("TRACER_RING_SIZE", "64K").run().succeeded();
    let numbers: Vec<usize> = traced.stdout().split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let [descriptors, rings, most] = numbers[..] else { panic!("{}", traced.stdout()) };
    // The open descriptors are the standard streams, the list itself, the manifest, and at most one file for each
    // thread whose ring is being drained. Windows counts threads, events and mappings, too.
    let limit = if cfg!(windows) { 400 } else { 60 };
    assert!(descriptors < limit, "{descriptors} descriptors are open at the end");
    assert!(most <= 200 && rings <= 80, "{rings} rings at the end, {most} at most, for 50 threads at a time");
    assert_eq!(traced.files.len(), THREADS, "one file per thread");
    let mut seen = vec![[0; 2]; THREADS];
    for (name, file) in &traced.files {
        assert_eq!(file.messages.len(), 2, "{name}");
        for (place, text) in file.texts().into_iter().enumerate() {
            let (which, number) = text.split_once(' ').expect("two words");
            assert_eq!(which, ["first", "last"][place]);
            seen[number.parse::<usize>().expect("a number")][place] += 1;
        }
    }
    assert!(seen.iter().all(|s| *s == [1, 1]), "each record once");
    traced.assert_whole();
    assert!(traced.left_in_runtime().is_empty());
}
