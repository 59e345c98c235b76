//! Many threads make their first records at the same moment: each gets a ring, and none waits in vain.

use support::{Scenario, Traced};

/// Panics unless there are `count` threads, each with its own file that contains its twenty records in order.
fn assert_all_there(traced: &Traced, count: usize) {
    let thread_of = |text: &str| text.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok());
    let mut seen = vec![false; count];
    for (name, file) in &traced.files {
        let thread = file.texts().first().and_then(|text| thread_of(text)).expect("a record of a thread");
        let expected: Vec<String> = (0..20).map(|n| format!("thread {thread} record {n}")).collect();
        assert_eq!(file.texts(), expected, "{name}");
        assert!(!std::mem::replace(&mut seen[thread], true), "{name}: a second file of thread {thread}");
    }
    assert!(seen.iter().all(|seen| *seen), "every thread has a file");
    traced.assert_whole();
}

#[test]
fn all_threads_that_start_at_once_get_a_ring() {
    // Wine serves the system calls of all processes in one process, and takes a minute for a thousand threads.
    let count = if cfg!(windows) { 200 } else { 1000 };
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["at-once", &count.to_string()]);
    let traced = traced.env("TRACER_RING_SIZE", "64K").run().succeeded();
    assert_eq!(traced.stdout(), "lost 0\n", "{}", traced.said());
    assert_all_there(&traced, count);
}

/// Checks that each thread gets a file although the host may open only 40 descriptors.
#[cfg(unix)]
#[test]
fn three_hundred_threads_need_few_descriptors() {
    let script = r#"ulimit -n 40; exec "$0" at-once 300"#;
    let mut scenario = Scenario::new("sh", &["-c", script]).env("TRACER_RING_SIZE", "64K");
    scenario.command().arg(env!("CARGO_BIN_EXE_scenario"));
    let traced = scenario.run().succeeded();
    assert_eq!((traced.stdout().as_str(), traced.stderr().as_str()), ("lost 0\n", ""));
    assert_all_there(&traced, 300);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_ends_inside_a_record_leaves_a_usable_ring() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["left-mark"]).run().succeeded();
    assert_eq!(traced.stdout(), "lost 0\n", "{}", traced.said());
    let whole = traced.files.values().filter(|f| f.messages.len() == 500).count();
    assert_eq!(whole, 20, "every later tenant has all its records");
    assert!(traced.messages().contains(&"its last whole record".to_string()));
    traced.assert_whole();
}
