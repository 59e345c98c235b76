//! `TRACER_FULL=overwrite`: the tracer writes nothing before a snapshot or the end. Then it writes the newest
//! records of each thread, without a gap, and the number of records missing before them.

use support::{APP, Scenario, ThreadTrace, Traced, read_directory, tracemerge};
use trace_format::meta::{EndReason, LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of records of each thread, as in the scenario.
const MANY: u64 = 20_000;

fn flight(how: &str) -> Traced {
    let scenario = Scenario::new(SCENARIO, &["flight", how]);
    scenario.env("TRACER_FULL", "overwrite").env("TRACER_RING_SIZE", "64K").env("TRACER_FLUSH_MS", "1").run()
}

/// Recovers the trace of a killed program with the command, and reads the files.
fn recovered(traced: &Traced) -> Traced {
    let app = traced.directory.path().join(APP);
    let mut merge = std::process::Command::new(SCENARIO);
    let merged = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", traced.runtime.path()).output();
    let output = merged.expect("the merge can be run");
    assert!(support::names(traced.runtime.path()).is_empty(), "the rings are gone");
    let files = read_directory(traced.directory.path());
    let directory = tempfile::TempDir::new().expect("a directory");
    Traced { output, files, directory, runtime: tempfile::TempDir::new().expect("a directory") }
}

fn numbers(file: &ThreadTrace) -> Vec<u64> {
    let number = |text: &&str| text.strip_prefix("number ").and_then(|n| n.parse().ok());
    file.texts().iter().filter_map(number).collect()
}

/// Returns the losses in the order in which they are reported.
fn overwritten(file: &ThreadTrace) -> Vec<u64> {
    let told = file.metas.iter().filter_map(|meta| match meta {
        Meta::Lost { records, reason } => {
            assert_eq!(*reason, LossReason::Overwritten);
            Some(*records)
        }
        _ => None,
    });
    told.collect()
}

/// Panics unless the file has the newest records up to `end`, without a gap and at least as many as the ring surely
/// holds, and unless these and the records reported lost are all records.
fn assert_newest(file: &ThreadTrace, end: u64) {
    let numbers = numbers(file);
    assert!(numbers.len() > 1000, "{} records of 32 bytes in 64 KiB", numbers.len());
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "there is no gap");
    assert_eq!(numbers.last(), Some(&(end - 1)));
    assert_eq!(overwritten(file), [end - numbers.len() as u64]);
    let written = file.end();
    assert_eq!((written.records, written.lost), (numbers.len() as u64, end - numbers.len() as u64));
}

#[test]
fn an_exit_writes_the_newest_records_of_each_thread() {
    let traced = flight("exit").succeeded();
    assert_eq!(traced.stdout().trim(), "0", "no byte was written before the exit");
    assert_eq!(traced.files.len(), 2);
    traced.files.values().for_each(|file| assert_newest(file, MANY));
    assert!(traced.left_in_runtime().is_empty());
}

#[test]
fn a_killed_flight_recorder_is_recovered() {
    let traced = flight("killed");
    assert_eq!(traced.stdout().trim(), "0", "no byte was written before the kill");
    assert!(traced.files.is_empty());
    let recovered = recovered(&traced);
    assert_eq!(recovered.files.len(), 2);
    recovered.files.values().for_each(|file| assert_newest(file, MANY));
    assert_eq!(recovered.main_thread().end().reason, EndReason::Killed);
    assert_eq!(recovered.thread("second").end().reason, EndReason::Thread);
}

#[test]
fn each_snapshot_continues_after_the_previous_one() {
    let traced = flight("snapshot").succeeded();
    assert_ne!(traced.stdout().trim(), "0", "the snapshot was written at once");
    assert_newest(traced.thread("second"), MANY);
    let file = traced.main_thread();
    let numbers = numbers(file);
    let second = numbers.iter().position(|n| *n == MANY).expect("the second snapshot");
    assert_eq!(numbers[second..second + 10], (MANY..MANY + 10).collect::<Vec<_>>());
    let pieces = [&numbers[..second + 10], &numbers[second + 10..]];
    for piece in pieces {
        assert!(piece.windows(2).all(|pair| pair[1] == pair[0] + 1), "there is no gap in a snapshot");
    }
    assert_eq!(numbers.last(), Some(&(3 * MANY - 1)));
    let before = |piece: &[u64], end: u64| piece[0] - end;
    assert_eq!(overwritten(file), [before(pieces[0], 0), before(pieces[1], MANY + 10)]);
    assert_eq!(file.end().records + file.end().lost, 3 * MANY);
}

#[test]
fn a_panic_makes_a_snapshot() {
    let traced = flight("panic");
    assert!(traced.stderr().contains("as the test wants"), "the program's own hook has spoken");
    let written = main_thread_numbers(&traced);
    assert_eq!(written.last(), Some(&(MANY - 1)), "written before the kill");
    let recovered = recovered(&traced);
    assert_eq!(numbers(recovered.main_thread()).last(), Some(&(MANY + 9)));
}

#[test]
fn a_panic_inside_a_record_makes_a_snapshot() {
    let written = main_thread_numbers(&flight("panic-inside"));
    assert_eq!(written.last(), Some(&(MANY - 1)), "written before the kill");
}

/// Returns the numbers in the main thread's file.
fn main_thread_numbers(traced: &Traced) -> Vec<u64> {
    numbers(traced.main_thread())
}

#[test]
fn the_last_sixteen_ended_threads_are_kept() {
    let scenario = Scenario::new(SCENARIO, &["flight-of-many"]);
    let scenario = scenario.env("TRACER_FULL", "overwrite").env("TRACER_FLUSH_MS", "1");
    let traced = scenario.run().succeeded();
    for t in 24..40 {
        assert_eq!(numbers(traced.thread(&format!("thread {t}"))), (0..10).collect::<Vec<_>>());
    }
    assert!(traced.files.len() <= 20, "{} files", traced.files.len());
}

#[test]
fn a_merge_with_overwritten_records_succeeds() {
    let traced = flight("exit").succeeded();
    let app = traced.directory.path().join(APP);
    assert_eq!(tracemerge(&["-q".as_ref(), app.as_os_str()]), 0);
}
