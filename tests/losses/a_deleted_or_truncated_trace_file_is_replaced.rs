//! A trace file is deleted, renamed, truncated or replaced while its thread writes it: the thread continues in a file,
//! and the records that are gone are counted.

use support::{APP, Scenario, ThreadTrace, names, parse, runs};
use tempfile::TempDir;
use trace_format::meta::{LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the program, which does `what` to its file after a hundred records, then traces fifty more.
fn meddled(what: &str, end: &str) -> TempDir {
    let mut scenario = Scenario::new(SCENARIO, &["meddled", what, end]).env("TRACER_FLUSH_MS", "1");
    let status = scenario.command().status().expect("the program runs");
    assert_eq!(status.success(), end != "killed", "{status}");
    if end == "killed" {
        let app = scenario.directory.path().join(APP);
        let mut merge = std::process::Command::new(SCENARIO);
        let merge = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output();
        merge.expect("the merge can be run");
    }
    // Threads that still run at the exit leave their rings.
    assert!(end == "crowded" || runs(scenario.runtime.path()).is_empty());
    scenario.directory
}

/// Returns the files of the directory except the merged one, and the content of those that are traces.
fn files(directory: &TempDir) -> Vec<(String, Option<ThreadTrace>)> {
    let own = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = std::fs::read(path).expect("a file");
        let is_trace = bytes.first().is_some_and(u8::is_ascii_hexdigit) && bytes.len() > 30;
        (!name.ends_with(".merge")).then(|| (name.clone(), is_trace.then(|| parse(&name, &bytes))))
    };
    names(directory.path()).iter().filter_map(own).collect()
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("number {n}")).collect()
}

fn assert_goes_on(file: &ThreadTrace, said: &str) {
    let lost = Meta::Lost { records: 100, reason: LossReason::FileRemoved };
    assert!(file.metas.contains(&lost), "{:?}", file.metas);
    assert_eq!(file.texts(), numbers(100..150), "{said}");
    assert_eq!((file.end().records, file.end().lost), (50, 100));
}

#[test]
fn a_deleted_file_is_replaced_and_its_losses_are_counted() {
    for end in ["exit", "killed"] {
        let files = files(&meddled("removed", end));
        let [(name, Some(file))] = &files[..] else { panic!("{files:?}") };
        assert!(name.matches('.').count() == 2, "{name}: the name was free again");
        assert_goes_on(file, end);
    }
}

#[test]
fn records_of_a_file_deleted_after_the_last_record_are_counted() {
    let files = files(&meddled("removed-and-quiet", "exit"));
    let [(_, Some(file))] = &files[..] else { panic!("{files:?}") };
    let lost = Meta::Lost { records: 100, reason: LossReason::FileRemoved };
    assert!(file.metas.contains(&lost) && file.texts().is_empty(), "{file:?}");
    assert_eq!((file.end().records, file.end().lost), (0, 100));
}

#[test]
fn a_renamed_file_is_still_written() {
    for end in ["exit", "killed"] {
        let files = files(&meddled("renamed", end));
        let [(name, Some(file))] = &files[..] else { panic!("{files:?}") };
        assert_eq!(*name, format!("{APP}.trace.99999"));
        assert_eq!((file.texts(), file.end().lost), (numbers(0..150).iter().map(|n| &n[..]).collect(), 0));
    }
}

#[test]
fn a_truncated_or_replaced_file_is_left_and_a_new_one_is_created() {
    for end in ["exit", "killed"] {
        for (what, left) in [("truncated", ""), ("replaced", "somebody's")] {
            let directory = meddled(what, end);
            let files = files(&directory);
            let [(first, None), (second, Some(file))] = &files[..] else { panic!("{files:?}") };
            assert_eq!(*second, format!("{first}.1"));
            let bytes = std::fs::read(directory.path().join(first)).expect("the file");
            assert_eq!(String::from_utf8_lossy(&bytes), left, "{what}: nothing was written there");
            assert_goes_on(file, what);
        }
    }
}

/// Checks a file that is closed after each write, because descriptors are few, and then has to be found again.
#[cfg(unix)]
#[test]
fn a_file_closed_between_writes_is_found_again_or_replaced() {
    let main = |directory: &TempDir| {
        let of_main = |file: &ThreadTrace| file.texts().iter().any(|text| text.starts_with("number"));
        files(directory)
            .into_iter()
            .find_map(|(_, file)| file.filter(of_main))
            .expect("the main thread's file")
    };
    assert_goes_on(&main(&meddled("removed", "crowded")), "removed");
    let renamed = main(&meddled("renamed", "crowded"));
    assert_eq!((renamed.messages.len(), renamed.end().lost), (150, 0));
}
