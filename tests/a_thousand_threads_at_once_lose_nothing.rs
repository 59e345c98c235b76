//! Many threads whose first records come at the same moment: each gets a ring, none waits in vain.

use support::Scenario;

#[test]
fn a_thousand_threads_that_start_at_once_lose_nothing() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["at-once", "1000"]);
    let traced = traced.env("TRACER_RING_SIZE", "64K").run().succeeded();
    assert_eq!(traced.stdout(), "lost 0\n", "{}", traced.said());
    assert_eq!(traced.files.len(), 1000);
    assert!(traced.files.values().all(|f| f.messages.len() == 20));
    traced.assert_whole();
}

/// Each thread has a file; the host has its descriptors all the same.
#[cfg(unix)]
#[test]
fn three_hundred_threads_need_few_descriptors() {
    let script = r#"ulimit -n 40; exec "$0" at-once 300"#;
    let mut scenario = Scenario::new("sh", &["-c", script]).env("TRACER_RING_SIZE", "64K");
    scenario.command().arg(env!("CARGO_BIN_EXE_scenario"));
    let traced = scenario.run().succeeded();
    assert_eq!((traced.stdout().as_str(), traced.stderr().as_str()), ("lost 0\n", ""));
    assert_eq!(traced.files.len(), 300);
    assert!(traced.files.values().all(|f| f.messages.len() == 20));
    traced.assert_whole();
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_ends_inside_a_record_leaves_its_ring_usable() {
    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["left-mark"]).run().succeeded();
    assert_eq!(traced.stdout(), "lost 0\n", "{}", traced.said());
    let whole = traced.files.values().filter(|f| f.messages.len() == 500).count();
    assert_eq!(whole, 20, "every later tenant has all its records");
    assert!(traced.messages().contains(&"its last whole record".to_string()));
    traced.assert_whole();
}
