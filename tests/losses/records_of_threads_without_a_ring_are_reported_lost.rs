//! Threads that never get a ring lose their records. A file of the run reports the loss, also after a kill; a program
//! that is not killed also reports it on stderr.
#![cfg(target_os = "linux")]

use support::{APP, Scenario, read_directory, tracemerge};
use trace_format::meta::{LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn found_and_lost_records_add_up_to_all_records() {
    // Memory, shared or private, suffices for a few rings only.
    for (how, killed) in [("ends", false), ("killed", true)] {
        let mut scenario = Scenario::new(SCENARIO, &["ringless", "20", how])
            .env("TRACER_RING_SIZE", "16M")
            .env("TRACER_FLUSH_MS", "20");
        let output = scenario.command().output().expect("it runs");
        let (said, printed) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.status.success(), !killed, "{said}");
        let made: u64 = printed.split(' ').nth(1).and_then(|n| n.trim().parse().ok()).expect("a number");
        let merged = std::process::Command::new(SCENARIO)
            .arg("tracemerge")
            .arg(scenario.directory.path().join(APP))
            .env("TRACER_RUNTIME_DIR", scenario.runtime.path())
            .output()
            .expect("it runs");
        let merge_said = String::from_utf8_lossy(&merged.stderr);
        assert_eq!(merged.status.code(), Some(1), "a loss is no success: {merge_said}");

        let files = read_directory(scenario.directory.path());
        let found: u64 = files.values().map(|file| file.messages.len() as u64).sum();
        let reported: u64 = files
            .values()
            .flat_map(|file| &file.metas)
            .filter_map(|meta| match meta {
                Meta::Lost { records, reason } => Some((*records, *reason)),
                _ => None,
            })
            .map(|(records, reason)| {
                assert_eq!(reason, LossReason::Full);
                records
            })
            .sum();
        assert_eq!(found + reported, made, "{how}: {found} in files, {reported} reported lost; {said}");
        assert!(reported >= 50, "{how}: some thread got no ring: {printed}");
        assert!(killed || said.contains("no ring or no file could be made"), "{said}");
        let check = ["check", "-q"].map(std::ffi::OsStr::new);
        let app = scenario.directory.path().join(APP);
        assert_eq!(tracemerge(&[check[0], check[1], app.as_os_str()]), 1);
    }
}
