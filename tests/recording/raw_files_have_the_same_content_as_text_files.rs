//! `TRACER_FORMAT=raw`: files hold records, and each command reads the same from them as from text files.

use std::fs;
use std::path::Path;
use std::time::Duration;
use support::kills::Kill;
use support::merges::tracemerge;
use support::{APP, Scenario, Traced, names, text_of};
use trace_format::file::Encoding;
use trace_format::raw::BLOCK;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const RAW: (&str, &str) = ("TRACER_FORMAT", "raw");

fn raw(args: &[&str]) -> Scenario {
    Scenario::new(SCENARIO, args).env(RAW.0, RAW.1)
}

/// Runs the command in `directory`; returns its status, its standard output and its standard error.
fn command(directory: &Path, runtime: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = tracemerge(SCENARIO, runtime, args);
    let ran = command.current_dir(directory).env("TMPDIR", runtime).output().expect("the command can be run");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (ran.status.code(), text(ran.stdout), text(ran.stderr))
}

fn assert_all_raw(directory: &Path) {
    let files: Vec<_> =
        names(directory).into_iter().filter(|path| !path.ends_with(format!("{APP}.trace.merge"))).collect();
    assert!(!files.is_empty());
    for path in files {
        assert_eq!(Encoding::of(&fs::read(&path).expect("a file")), Encoding::Raw, "{path:?}");
    }
}

#[test]
fn every_kind_of_argument_is_formatted_as_format_does() {
    let traced = raw(&["sites"]).run().succeeded();
    assert_all_raw(traced.directory.path());
    let texts: Vec<String> = traced.messages().iter().map(|text| text.escape_debug().to_string()).collect();
    let expected: Vec<String> = traced.stdout().lines().map(str::to_owned).collect();
    assert_eq!(texts, expected);
    traced.assert_whole();
}

#[test]
fn a_kill_at_any_moment_loses_no_raw_record() {
    let mut records = 0;
    for kill in 0..60u64 {
        let after = Duration::from_micros(200 + (kill * 7919) % 60_000);
        let size = ("TRACER_RING_SIZE", if kill % 2 == 0 { "64K" } else { "1M" });
        let deferred = ("STRESS_DEFERRED", if kill % 3 == 0 { "0" } else { "1" });
        // Now and then, a kill interrupts the recovery.
        let merges =
            if kill % 4 == 0 { vec![Duration::from_micros(500 + (kill * 3571) % 9000)] } else { vec![] };
        let (env, files) = (vec![RAW, size, deferred], vec![]);
        let kill = Kill { scenario: SCENARIO, after, merges, env, files, empty_files: false, rotated: false };
        records += kill.run().records;
    }
    assert!(records > 0, "some live long enough to trace");
}

/// Makes runs that overlap: some write text files, others raw files.
fn mixed() -> Traced {
    let mut first = Scenario::new(SCENARIO, &["many", "200"]);
    let (directory, runtime) = (first.directory.path().to_owned(), first.runtime.path().to_owned());
    let others = (0..3).map(|n| {
        let mut command = std::process::Command::new(SCENARIO);
        command.args(["many", "100"]).env("TRACER_ENABLE", "1").env("TRACER_DIR", &directory);
        command.env("TRACER_RUNTIME_DIR", &runtime);
        command.env("TRACER_FORMAT", if n == 1 { "text" } else { "raw" });
        command.spawn().expect("the program starts")
    });
    let others: Vec<_> = others.collect();
    let status = first.command().status().expect("the program runs");
    assert!(status.success());
    for mut other in others {
        assert!(other.wait().expect("its end").success());
    }
    first.run().succeeded()
}

#[test]
fn raw_and_text_files_are_merged_to_the_same_bytes() {
    let traced = mixed();
    let (directory, runtime) = (traced.directory.path(), traced.runtime.path());
    let file = names(directory)[0].file_name().expect("a name").to_string_lossy().into_owned();
    let (_, tid) = file.split_once(".trace.").expect("the name of a trace");
    let tid = tid.split('.').next().expect("the number of a thread");
    // The views select by time, by amount, by content, by thread, and show other times.
    let views = [
        &[][..],
        &["--last", "7"],
        &["--head", "9"],
        &["--last", "100000"],
        &["--since", "1ms", "--until", "-1ms"],
        &["--since", "-500us", "--time", "offset"],
        &["--since", "2ms", "--last", "5", "--time", "utc"],
        &["--grep", "[37]$", "--time", "delta"],
        &["--thread", tid, "--time", "wall"],
    ];
    let shown = || {
        views.map(|view| {
            let args = [&["--all-runs", APP, "-o", "-"], view].concat();
            let (status, shown, said) = command(directory, runtime, &args);
            assert_eq!(status, Some(0), "{view:?}: {said}");
            shown
        })
    };
    let mixed = shown();
    let encodings: Vec<_> =
        names(directory).iter().map(|path| Encoding::of(&fs::read(path).unwrap())).collect();
    assert!(encodings.contains(&Encoding::Raw) && encodings.contains(&Encoding::Text));
    for path in names(directory) {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, text_of("a file", &bytes)).unwrap();
    }
    for ((view, mixed), text) in views.iter().zip(mixed).zip(shown()) {
        assert!(mixed == text, "{view:?}:\n{mixed}\n{text}");
        assert!(!mixed.is_empty(), "{view:?}");
    }
}

#[test]
fn records_in_memory_are_merged_after_those_of_a_raw_file() {
    // One message is half in the file and half in the ring.
    let mut scenario = raw(&["left-in-memory"]).env("TRACER_FLUSH_MS", "60000").env("TRACER_FULL", "block");
    assert!(!scenario.command().status().expect("the program runs").success());
    let (directory, runtime) = (scenario.directory.path(), scenario.runtime.path());
    let (status, merged, said) = command(directory, runtime, &[APP, "-o", "-"]);
    assert_eq!(status, Some(0), "{said}");
    let texts =
        ["in the ring 4 ", ": late 3", "| and more", ": without a file", "reason=killed", "reason=thread"];
    assert!(texts.iter().all(|text| merged.contains(text)), "{merged}");
    assert_all_raw(directory);
}

#[test]
fn check_reads_raw_files_and_reports_damaged_ones() {
    let traced = raw(&["many", "300"]).run().succeeded();
    let (directory, runtime) = (traced.directory.path(), traced.runtime.path());
    let (status, report, said) = command(directory, runtime, &["check", APP]);
    assert_eq!((status, said.as_str()), (Some(0), ""), "{report}");
    let whole = report.lines().last().expect("a verdict");
    assert!(whole.starts_with("whole: "), "{report}");
    let path = &names(directory)[0];
    let mut bytes = fs::read(path).unwrap();
    let place = bytes.len() / 2 / 8 * 8;
    // The damage is as long as a record, so the beginning of one is in it.
    bytes[place..place + 64].fill(0xff);
    fs::write(path, &bytes).unwrap();
    let (status, report, said) = command(directory, runtime, &["check", APP]);
    assert_eq!(status, Some(1), "{report}{said}");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(said.lines().any(|line| line.contains(name) && line.contains("offset")), "{said}");
    let (status, merged, said) = command(directory, runtime, &[APP, "-o", "-"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(merged.contains("# damaged") && said.contains(name) && said.contains("offset"), "{said}");
}

#[test]
fn diff_finds_raw_files_equal_to_their_text() {
    let traced = raw(&["many", "300"]).run().succeeded();
    let (directory, runtime) = (traced.directory.path(), traced.runtime.path());
    let text = tempfile::tempdir().expect("a directory");
    for path in names(directory) {
        let bytes = fs::read(&path).expect("a file");
        let copy = text.path().join(path.file_name().expect("a name"));
        fs::write(copy, text_of("a file", &bytes)).expect("a copy");
    }
    let both = [directory, text.path()].map(|path| path.to_str().expect("a path in UTF-8"));
    let (status, report, said) = command(directory, runtime, &["diff", both[0], both[1]]);
    assert_eq!(status, Some(0), "{report}{said}");
    let lines = both.map(|path| {
        let (status, table, said) = command(directory, runtime, &["info", path]);
        assert_eq!(status, Some(0), "{said}");
        table.lines().last().expect("a sum").split(", ").take(3).map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(lines[0], lines[1], "runs, threads and records");
}

#[test]
fn a_raw_file_of_many_blocks_is_whole() {
    let traced = raw(&["rotated", "40000"]).run().succeeded();
    let [path] = &names(traced.directory.path())[..] else { panic!("one file") };
    assert!(fs::metadata(path).unwrap().len() > 3 * BLOCK);
    assert_eq!(traced.main_thread().messages.len(), 40_000);
    traced.assert_whole();
    let (status, merged, said) = command(traced.directory.path(), traced.runtime.path(), &[APP, "-o", "-"]);
    assert_eq!(status, Some(0), "{said}");
    let bytes = fs::read(path).unwrap();
    assert!(merged.as_bytes() == &*text_of("the file", &bytes));
}

/// Runs on Unix only: on Windows a file keeps its name until all processes have closed it (docs/systems.md).
#[cfg(unix)]
#[test]
fn a_deleted_raw_file_is_replaced() {
    let traced = raw(&["meddled", "removed", "exit"]).env("TRACER_FLUSH_MS", "1").run().succeeded();
    let [path] = &names(traced.directory.path())[..] else { panic!("one file") };
    let text = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&text_of("the file", &text)).into_owned();
    assert!(text.contains("# lost records=100 reason=file_removed"), "{text}");
    assert!(text.contains(": number 149\n") && text.contains("# end records=50 lost=100"), "{text}");
}
