//! Signals: a handler may trace wherever it interrupts the program, and the flusher takes no signal that the
//! program waits for.
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use support::processes::{Running, merge};
use support::{Scenario, read_directory};
use trace_format::meta::EndReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn the_flusher_takes_no_signal_that_the_program_waits_for() {
    let mut scenario = Scenario::new(SCENARIO, &["sigwait"]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    running.signal(libc::SIGTERM);
    let (status, _) = running.wait();
    assert!(status.success(), "{status}");
    let files = read_directory(scenario.directory.path());
    let file = files.values().next().expect("a file");
    assert_eq!(file.texts(), ["the first record", "signal 15 was waited for"]);
}

#[test]
fn frequent_tracing_signals_lose_and_double_nothing() {
    const SIGNALS: u64 = 10_000;
    let traced = Scenario::new(SCENARIO, &["storm", &SIGNALS.to_string()]).run().succeeded();
    let numbers: Vec<u64> = traced.stdout().split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [records, signals, milliseconds] = numbers[..] else { panic!("{}", traced.stdout()) };
    eprintln!("{signals} signals in {milliseconds} ms, {records} records of the interrupted thread");
    traced.assert_whole();
    let (mut handled, mut of_main, mut inside) = (0, 0, 0);
    // The number of handlers that must precede the next record: the previous record counted them at its end.
    let mut due = 0;
    for text in traced.main_thread().texts() {
        if let Some(number) = text.strip_prefix("handler ") {
            assert_eq!(number, handled.to_string());
            handled += 1;
            continue;
        }
        let words: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [number, from, to] = words[..] else { panic!("{text}") };
        assert_eq!(number, of_main);
        // A record that a handler makes in the middle of another record stands after that record and before the
        // next one.
        assert!(due <= handled && handled <= from, "{handled} handlers before, {due} due: {text}");
        of_main += 1;
        inside += to - from;
        due = to;
    }
    assert!(signals >= SIGNALS);
    assert_eq!((handled, of_main), (signals, records));
    assert!(inside > 0, "some signals have to come in the middle of a record");
    eprintln!("{inside} of them in the middle of a record");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_handler_may_trace_at_any_instruction_of_a_first_record() {
    const THREADS: u64 = 500;
    let traced = Scenario::new(SCENARIO, &["first-stepped", &THREADS.to_string()]).run().succeeded();
    assert_eq!(traced.stdout().trim(), THREADS.to_string(), "the first record has more instructions");
    let files = read_directory(traced.directory.path());
    let (mut ahead, mut behind, mut lost) = (0, 0, 0);
    for (name, file) in &files {
        match file.texts()[..] {
            ["main"] => {}
            ["handler", "first"] => ahead += 1,
            ["first", "handler"] => behind += 1,
            // The handler has interrupted the tracer itself.
            ["first"] if file.end().lost == 1 => lost += 1,
            ref texts => panic!("{name} has {texts:?}, {:?}", file.end()),
        }
    }
    assert_eq!(ahead + behind + lost, THREADS, "one file of each thread: {:?}", files.keys());
    eprintln!(
        "{ahead} handlers were ahead of the first record, {behind} behind, {lost} records are reported lost"
    );
    assert!(ahead > 20 && lost > 20);
}

#[test]
fn tracing_keeps_the_errno_of_the_host() {
    let scenario = Scenario::new(SCENARIO, &["errno"]).env("TRACER_RING_SIZE", "16K");
    let traced = scenario.env("TRACER_MAX_STALL", "60000").run().succeeded();
    let stalls: u64 = traced.stdout().trim().parse().expect("how often it waited");
    assert!(stalls > 0, "it has to wait for room now and then");
    traced.assert_whole();
}

#[test]
fn records_of_a_crash_inside_a_message_are_kept() {
    for stack in ["the thread's", "alternate"] {
        let mut scenario = Scenario::new(SCENARIO, &["fault", stack]).env("TRACER_FLUSH_MS", "60000");
        let status = scenario.command().status().expect("the program runs");
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
        merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
        let files = read_directory(scenario.directory.path());
        let [file] = &files.values().collect::<Vec<_>>()[..] else { panic!("one file") };
        let mut expected: Vec<String> = (0..100).map(|n| format!("before {n}")).collect();
        expected.push("last words, signal 11".into());
        assert_eq!(file.texts(), expected, "{stack} stack");
        assert_eq!((file.end().records, file.end().lost, file.end().reason), (101, 0, EndReason::Killed));
    }
}
