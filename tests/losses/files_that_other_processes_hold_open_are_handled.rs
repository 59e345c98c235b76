//! Files that another process has open on Windows, such as a virus scanner: the tracer can write them, but neither
//! rename nor delete them. The records that are made meanwhile are whole, and the next merge deletes the files that
//! could not be deleted before.
#![cfg(windows)]

use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::{APP, Scenario, names, parse, read_directory, runs, wait_until};
use trace_format::meta::{LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const LIMIT: u64 = 128 * 1024;
const RECORDS: u64 = 150_000;

/// Opens a file so that others can read and write it, but neither rename nor delete it.
fn hold(path: &Path) -> Option<File> {
    const READ_AND_WRITE: u32 = 3;
    OpenOptions::new().read(true).share_mode(READ_AND_WRITE).open(path).ok()
}

/// Opens each file of a directory for a moment, again and again, while `work` runs; returns the number of files
/// opened.
fn hold_files_during(directory: &Path, work: impl FnOnce()) -> usize {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut times = 0;
            while !done.load(Ordering::Relaxed) {
                let held: Vec<File> = names(directory).iter().filter_map(|path| hold(path)).collect();
                thread::sleep(Duration::from_millis(20));
                times += held.len();
                drop(held);
                thread::sleep(Duration::from_millis(2));
            }
            times
        });
        work();
        done.store(true, Ordering::Relaxed);
        holder.join().expect("nothing panics")
    })
}

fn rotated(records: u64, format: &str) -> Scenario {
    let scenario = Scenario::new(SCENARIO, &["rotated", &records.to_string()]).env("TRACER_FORMAT", format);
    // A thread waits while a successor cannot replace its file.
    let scenario = scenario.env("TRACER_MAX_STALL", "60000").env("TRACER_FLUSH_MS", "1");
    scenario.env("TRACER_MAX_BYTES", &LIMIT.to_string())
}

fn number(text: &str) -> u64 {
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn rotation_replaces_a_file_that_others_open_repeatedly() {
    for format in ["text", "raw"] {
        let mut scenario = rotated(RECORDS, format);
        let mut child = scenario.command().stderr(Stdio::null()).spawn().expect("the program starts");
        let times = hold_files_during(scenario.directory.path(), || _ = child.wait().expect("its end"));
        assert!(times >= 5, "{format}: files were held {times} times");
        let [path] = &names(scenario.directory.path())[..] else {
            panic!("{format}: one file: {:?}", names(scenario.directory.path()));
        };
        let file = parse("the file", &std::fs::read(path).expect("the file"));
        let numbers: Vec<u64> = file.texts().into_iter().map(number).collect();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{format}: there is no gap");
        assert_eq!(numbers.last(), Some(&(RECORDS - 1)), "{format}");
        let lost: Vec<&Meta> = file.metas.iter().filter(|meta| matches!(meta, Meta::Lost { .. })).collect();
        let told = Meta::Lost { records: numbers[0], reason: LossReason::Rotated };
        assert_eq!(lost, [&told], "{format}: the missing records are reported");
    }
}

fn merge(scenario: &Scenario) -> (String, Vec<u8>) {
    let mut merge = Command::new(SCENARIO);
    let app = scenario.directory.path().join(APP);
    let merge = merge.arg("merge").arg(&app).env("TRACER_RUNTIME_DIR", scenario.runtime.path());
    let merged = merge.output().expect("the merge can be run");
    let said = String::from_utf8_lossy(&merged.stderr).into_owned();
    let merged = scenario.directory.path().join(format!("{APP}.trace.merge"));
    (said, std::fs::read(merged).expect("the merged file"))
}

#[test]
fn the_next_merge_deletes_a_run_that_could_not_be_deleted() {
    let mut scenario = rotated(u64::MAX, "text");
    let mut child = scenario.command().stderr(Stdio::null()).spawn().expect("the program starts");
    let is_long = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.len() > LIMIT / 2);
    wait_until(60, "records in a file", || names(scenario.directory.path()).iter().any(is_long));
    child.kill().expect("a kill");
    child.wait().expect("its end");
    let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run that was killed") };
    let held: Vec<File> = names(run).iter().filter_map(|path| hold(path)).collect();
    assert!(held.len() > 1, "the files of a run: {:?}", names(run));
    let (said, first) = merge(&scenario);
    assert!(first.windows(5).any(|bytes| bytes == b"# end"), "{said}");
    assert!(!names(scenario.runtime.path()).is_empty(), "nothing was left to be deleted: {said}");
    drop(held);
    let (said, second) = merge(&scenario);
    assert!(first == second, "the next merge gives the same: {said}");
    assert_eq!(names(scenario.runtime.path()), [] as [&Path; 0], "{said}");
    let files = read_directory(scenario.directory.path());
    assert!(files.values().all(|file| file.end().records == file.records()), "{files:?}");
}
