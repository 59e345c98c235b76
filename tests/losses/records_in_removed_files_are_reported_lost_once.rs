//! A thread's files are deleted, truncated and replaced, one after the other. Records that are no longer in any of
//! them are reported lost, once, and no other records are.

use support::equation::{Accounts, assert_equation};
use support::{APP, Scenario, runs};
use trace_format::meta::LossReason;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const STEPS: [&str; 7] =
    ["removed", "emptied", "cut", "copied", "copied-in-part", "all-removed", "older-removed"];

/// Runs the program with these steps; 100 records are made before each of them and after the last.
fn meddled(steps: &str, format: &str, end: &str) -> Accounts {
    let mut scenario = Scenario::new(SCENARIO, &["meddled-again", steps, end]).env("TRACER_FORMAT", format);
    let output = scenario.command().output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), end != "killed", "{said}");
    if end == "killed" {
        let app = scenario.directory.path().join(APP);
        let mut merge = std::process::Command::new(SCENARIO);
        let merge = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output();
        merge.expect("the merge can be run");
    }
    assert!(runs(scenario.runtime.path()).is_empty());
    let made = 100 * steps.split(',').count() as u64 + if steps.ends_with("-at-last") { 0 } else { 100 };
    let accounts = assert_equation(scenario.directory.path(), &[made], false);
    let told = accounts.lost(LossReason::FileRemoved);
    assert_eq!(told, accounts.threads[0].reported_lost(), "{steps}: for no other reason: {accounts:?}");
    accounts
}

/// Runs each step after each other one, for text and raw files, with an exit and with a kill.
#[test]
fn each_record_is_in_a_file_or_reported_lost_after_file_changes() {
    for (i, first) in STEPS.into_iter().enumerate() {
        for (j, second) in STEPS.into_iter().enumerate() {
            let ends = if (i + j) % 2 == 0 { ["exit", "killed"] } else { ["killed", "exit"] };
            for (format, end) in ["text", "raw"].into_iter().zip(ends) {
                meddled(&format!("{first},{second},copied"), format, end);
            }
        }
    }
}

#[test]
fn records_removed_after_the_last_record_are_reported_lost() {
    for step in ["removed", "emptied", "cut", "copied", "copied-in-part"] {
        for (format, end) in [("text", "exit"), ("text", "killed"), ("raw", "exit"), ("raw", "killed")] {
            // The line that names the thread of these records stays in the first file.
            let accounts = meddled(&format!("copied,{step}-at-last"), format, end);
            let gone = accounts.threads[0].reported_lost();
            let expected = match step {
                "removed" | "emptied" => 100..=100,
                "copied" => 0..=0,
                _ => 1..=99,
            };
            assert!(expected.contains(&gone), "{step}, {format}, {end}: {accounts:?}");
        }
    }
}

#[test]
fn a_file_replaced_by_its_own_copy_loses_nothing() {
    for format in ["text", "raw"] {
        for end in ["exit", "killed"] {
            let accounts = meddled("copied,copied,copied,copied", format, end);
            assert_eq!((accounts.in_files(), accounts.threads[0].reported_lost()), (500, 0));
            assert_eq!(accounts.threads[0].files.len(), 5);
        }
    }
}

#[test]
fn losses_reported_in_a_removed_file_are_reported_again() {
    for end in ["exit", "killed"] {
        let accounts = meddled("removed,copied,all-removed,removed,older-removed", "text", end);
        assert_eq!((accounts.in_files(), accounts.threads[0].reported_lost()), (200, 400), "{accounts:?}");
    }
}
