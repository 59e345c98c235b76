//! Runs the whole program, so that it keeps working, but with so little work that its figures mean nothing.

use std::io;
use std::process::{Command, Output};
use std::sync::Mutex;

/// The lock that a test holds while it runs the program: two runs at the same time would each take the other's traces
/// for its own newest run.
static ALONE: Mutex<()> = Mutex::new(());

fn peers(arguments: &[&str]) -> io::Result<Output> {
    let _alone = ALONE.lock();
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_peers"));
    command.args(["--rounds", "1", "--batches", "20", "--messages", "9000", "--threads", "1,3"]);
    command.arg("--directory").arg(directory.path()).args(arguments);
    command.output()
}

#[test]
fn every_logger_is_measured_and_read_back() {
    let output = peers(&[]).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    // A message that is lost, doubled or garbled makes the status 1.
    assert!(output.status.success(), "{table}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("in the files exactly once: tracer, tracer (raw),"), "{table}");
    for name in [
        "tracer",
        "tracer-fast",
        "tracer-macro",
        "tracer-macro-fast",
        "ticklog",
        "spdlog",
        "ftlog",
        "fastrace",
        "tracing",
        "tracing-default",
    ] {
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with(&format!("| {name} |"))).collect();
        assert_eq!(rows.len(), 3, "{name}:\n{table}");
        assert!(rows.iter().all(|row| !row.contains("|  |")), "{name} has an empty cell:\n{table}");
    }
}

#[test]
fn every_way_to_record_a_function_is_measured_and_read_back() {
    let output = peers(&["--only", "function"]).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{table}\n{}", String::from_utf8_lossy(&output.stderr));
    for name in ["scope", "scope-macro", "traced", "scope-fast", "traced-fast", "fastrace-span", "hotpath"] {
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with(&format!("| {name} |"))).collect();
        assert_eq!(rows.len(), 1, "{name}:\n{table}");
        assert!(rows.iter().all(|row| !row.contains("|  |")), "{name} has an empty cell:\n{table}");
        assert!(table.lines().any(|line| line.contains("exactly once: ") && line.contains(name)), "{table}");
    }
}

#[test]
fn only_the_selected_loggers_and_parts_are_measured() {
    let output = peers(&["--peers", "spdlog", "--only", "throughput"]).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(table.lines().filter(|line| line.starts_with("| spdlog")).count(), 1, "{table}");
    assert!(!table.contains("tracer") && !table.contains("rdtsc"), "{table}");
}
