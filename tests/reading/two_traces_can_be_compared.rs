//! `tracemerge diff`: traces of the same program are the same; a change in one is found in its place; times are
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use support::merges::tracemerge;
use support::{APP, Scenario, Traced, UNNAMED};
use tempfile::TempDir;
use trace_format::line::{Kind, Line};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn diff(a: &Path, b: &Path, runtime: &Path) -> (Option<i32>, String, String) {
    let args = [Path::new("diff"), a, b];
    let Output { status, stdout, stderr } =
        tracemerge(SCENARIO, runtime, args).output().expect("the command can be run");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn traced() -> Traced {
    Scenario::new(SCENARIO, &["many", "300"]).run().succeeded()
}

fn merged(traced: &Traced) -> PathBuf {
    let app = traced.directory.path().join(APP);
    let status =
        tracemerge(SCENARIO, traced.runtime.path(), [Path::new("-q"), &app]).status().expect("a merge");
    assert!(status.success());
    traced.directory.path().join(format!("{APP}.trace.merge"))
}

#[test]
fn diff_finds_runs_of_one_program_equal_however_they_are_named() {
    let (one, two) = (traced(), traced());
    // The command also searches a directory that has other runtime directories; both programs have ended.
    let (a, b) = (merged(&one), merged(&two));
    let (directory, app) = (one.directory.path(), two.directory.path().join(APP));
    let file = |traced: &Traced, at: usize| {
        let name = traced.files.keys().nth(at).expect("a file").clone();
        traced.directory.path().join(name)
    };
    for (a, b, threads) in [
        (a.as_path(), b.as_path(), 8),
        (directory, b.as_path(), 8),
        (directory, app.as_path(), 8),
        (&file(&one, 0), &file(&two, 1), 1),
    ] {
        let (status, report, said) = diff(a, b, two.runtime.path());
        assert_eq!((status, said.as_str()), (Some(0), ""), "{report}");
        let same = match threads {
            1 => "1 thread the same, 300 records\n",
            _ => &format!("pool {UNNAMED:?} (A 8 threads, B 8): the same 2,400 records\n"),
        };
        assert!(report.contains(same), "{report}");
    }
}

#[test]
fn diff_finds_removed_and_added_messages_in_their_thread() {
    let one = traced();
    let a = merged(&one);
    let text = std::fs::read_to_string(&a).expect("UTF-8");
    let tid =
        Line::parse(text.lines().last().expect("a line").as_bytes()).expect("a line of a trace").key.tid;
    // This thread gets a name of its own, so that it is compared alone.
    let (key, name) = (format!("-{tid:08} # thread "), format!("name={UNNAMED:?}"));
    let renamed =
        |line: &str| if line.contains(&key) { line.replace(&name, "name=\"alone\"") } else { line.into() };
    let text: String = text.lines().map(|line| renamed(line) + "\n").collect();
    assert_eq!(text.matches("name=\"alone\"").count(), 1);
    std::fs::write(&a, &text).expect("a file");
    let (mut changed, mut number) = (String::new(), 0);
    for line in text.lines() {
        let parsed = Line::parse(line.as_bytes()).expect("a line of a trace");
        if parsed.key.tid == tid && parsed.kind == Kind::Message {
            number += 1;
            match number {
                // The removed message is empty; its neighbours are not.
                100 => continue,
                200 => {
                    let key = line.split(" : ").next().expect("a key").trim_end();
                    writeln!(changed, "{key} : new 1\n{key} : new 2").expect("a string grows");
                }
                _ => {}
            }
        }
        writeln!(changed, "{line}").expect("a string grows");
    }
    let b = one.directory.path().join("changed");
    std::fs::write(&b, changed).expect("a file");
    let (status, report, _) = diff(&a, &b, one.runtime.path());
    assert_eq!(status, Some(1), "{report}");
    let pool = format!("pool {UNNAMED:?} (A 7 threads, B 7): the same 2,100 records\n");
    assert!(report.contains(&pool), "{report}");
    let expected = format!(
        "thread \"alone\" (A {tid}, B {tid}): A has 300 records, B 301; the first 99 alike, 1 only in A, \
         2 only in B"
    );
    assert!(report.contains(&expected), "{report}");
    // The line that it names is the removed one.
    let place = format!("  A {}:", a.file_name().expect("a name").to_string_lossy());
    let named = report.lines().find_map(|line| line.strip_prefix(&place)).expect("a place");
    let named: usize = named.split(' ').next().expect("a number").parse().expect("a number");
    let of_thread = |line: &&str| {
        let line = Line::parse(line.as_bytes()).expect("a line of a trace");
        line.key.tid == tid && line.kind == Kind::Message
    };
    let before = text.lines().take(named - 1).filter(of_thread).count();
    assert!(before == 99 && of_thread(&text.lines().nth(named - 1).expect("a line")), "{report}");
    let new = report.lines().find(|line| line.ends_with("  new #")).expect("a row");
    assert_eq!(new.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "2"], "{report}");
}

/// Makes a trace by the system's clock, which counts nanoseconds: a request every millisecond, and an answer
/// `answer_ns` later.
fn requests(directory: &Path, name: &str, answer_ns: u64) -> PathBuf {
    let mut text = String::new();
    let mut line = |ticks: u64, kind, payload: &str| {
        writeln!(text, "{ticks:016x}-00000007 {kind} {payload}").expect("a string grows");
    };
    let run = "run version=1 id=00000001 root=00000001 pid=7 exe=\"/app\" boot=\"b\" ticks=5 \
               wall=2026-11-20T15:11:02.000000000Z clock=system";
    line(5, '#', run);
    line(5, '#', "thread name=\"app\" ring=shared");
    for n in 0..200 {
        line(1_000_000 * (n + 1), ':', &format!("request {n} from 10.0.0.{n}"));
        line(1_000_000 * (n + 1) + answer_ns, ':', &format!("answered {n:x}{n:03}"));
    }
    let path = directory.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

#[test]
fn diff_lists_slower_messages_first() {
    let directory = TempDir::new().expect("a directory");
    let a = requests(directory.path(), "app.trace.7", 10_000);
    let b = requests(directory.path(), "app.trace.7.1", 30_000);
    let (status, report, _) = diff(&a, &b, directory.path());
    assert_eq!(status, Some(0), "{report}");
    let rows: Vec<Vec<&str>> = report.lines().map(|line| line.split_whitespace().collect()).collect();
    let first = rows.iter().find(|row| row.first() == Some(&"200")).expect("a row");
    assert_eq!(
        first[..],
        [
            "200", "200", "10.0", "us", "30.0", "us", "3.00", "10.0", "us", "30.0", "us", "3.00", "answered",
            "#"
        ]
    );
}

#[test]
fn diff_compares_raw_traces_by_site() {
    let [one, two] = ["raw"; 2]
        .map(|format| Scenario::new(SCENARIO, &["places"]).env("TRACER_FORMAT", format).run().succeeded());
    let (a, b) = (one.directory.path(), two.directory.path());
    let args = [Path::new("diff"), Path::new("--json"), a, b];
    let output = tracemerge(SCENARIO, one.runtime.path(), args).output().expect("the command can be run");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &json["by_site"]), (Some(0), &Value::Bool(true)), "{json:#}");
    let place = |sort: &Value| Some(format!("{}:{}", sort["file"].as_str()?, sort["line"].as_u64()?));
    let sorts = json["messages"].as_array().expect("an array");
    let found: BTreeSet<(String, u64)> =
        sorts.iter().filter_map(|sort| Some((place(sort)?, sort["a"]["count"].as_u64()?))).collect();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for line in one.stdout().lines() {
        *expected.entry(line.split('|').next().expect("a place").to_owned()).or_default() += 1;
    }
    assert_eq!(found, expected.into_iter().collect());
    // A text trace names no places, but has the same messages.
    let text = Scenario::new(SCENARIO, &["places"]).env("TRACER_FORMAT", "text").run().succeeded();
    let (status, report, said) = diff(a, text.directory.path(), one.runtime.path());
    assert_eq!(status, Some(0), "{report}");
    assert!(
        said.contains(
            "do not record where messages come from; the messages of all files are compared by their text"
        ),
        "{said}"
    );
    assert!(report.contains("serves custom #"), "{report}");
}

#[test]
fn diff_fails_over_a_function_that_sleeps_longer() {
    for format in ["text", "raw"] {
        let [short, long] = ["1", "20"].map(|ms| {
            Scenario::new(SCENARIO, &["functions-slowly", "40", ms])
                .env("TRACER_FORMAT", format)
                .run()
                .succeeded()
        });
        let run = |options: &[&str], a: &Traced, b: &Traced| {
            let args =
                ["diff"].iter().chain(options).map(Path::new).chain([a, b].map(|of| of.directory.path()));
            tracemerge(SCENARIO, short.runtime.path(), args).output().expect("the command can be run")
        };
        let Output { status, stdout, stderr } = run(&["--json", "--fail-over", "10%"], &short, &long);
        let said = String::from_utf8_lossy(&stderr);
        let json: Value = serde_json::from_slice(&stdout).expect("JSON");
        let calls = &json["calls"];
        let row = &calls["rows"][0];
        assert!(row["function"].as_str().is_some_and(|name| name.ends_with("slowly::slow")), "{json:#}");
        assert_eq!(
            (&row["a"]["calls"], &row["b"]["calls"], &calls["functions"]),
            (&40.into(), &40.into(), &1.into())
        );
        let ns = |side: &str, field: &str| row[side][field].as_u64().expect("a time");
        // A thread may sleep longer than it wants, but not shorter. The times are known to 1 %.
        assert!(ns("a", "low_ns") >= 990_000 && ns("b", "low_ns") >= 19_800_000, "{json:#}");
        assert_eq!((status.code(), &row["significant"]), (Some(1), &Value::Bool(true)), "{said} {json:#}");
        assert!(
            said.contains("slow' became slower by ") && said.contains(", which is more than 10 % "),
            "{said}"
        );
        let faster = run(&["-q", "--fail-over", "10%"], &long, &short);
        assert_eq!((faster.status.code(), &faster.stdout[..]), (Some(0), &b""[..]), "{said}");
        // The messages are the same.
        let report = run(&[], &short, &long);
        let text = String::from_utf8_lossy(&report.stdout).into_owned();
        assert_eq!(report.status.code(), Some(0), "{text}");
        let row = text.lines().find(|line| line.ends_with("slowly::slow")).expect("a row");
        assert_eq!(row.split_whitespace().take(2).collect::<Vec<_>>(), ["40", "40"], "{text}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn diff_names_functions_from_an_executable_that_was_moved() {
    let place = TempDir::new().expect("a directory");
    let (app, kept) = (place.path().join("app"), place.path().join("kept"));
    std::fs::copy(SCENARIO, &app).expect("a copy");
    let mut scenario = Scenario::new(&app, &["functions-slowly", "6", "1"]);
    assert!(support::output_of_copy(scenario.command()).status.success());
    std::fs::create_dir(&kept).expect("a directory");
    std::fs::rename(&app, kept.join("app")).expect("a move");
    let trace = scenario.directory.path();
    let (status, report, said) = diff(trace, trace, scenario.runtime.path());
    assert_eq!((status, report.contains("slowly::slow")), (Some(0), false), "{report}");
    assert!(said.contains("its functions are shown as offsets in the file"), "{said}");
    let args = [Path::new("diff"), Path::new("--debug-dir"), &kept, trace, trace];
    let named = tracemerge(SCENARIO, scenario.runtime.path(), args).output().expect("the command can be run");
    let report = String::from_utf8_lossy(&named.stdout);
    assert_eq!((named.status.code(), &named.stderr[..]), (Some(0), &b""[..]), "{report}");
    assert!(report.contains("  scenario::functions::slowly::slow\n"), "{report}");
}

#[test]
fn diff_fails_if_a_trace_is_missing() {
    let directory = TempDir::new().expect("a directory");
    let a = requests(directory.path(), "app.trace.7", 10_000);
    for missing in [directory.path().join("nothing"), PathBuf::from("/dev/null")] {
        let (status, report, said) = diff(&a, &missing, directory.path());
        assert_eq!((status, report.as_str()), (Some(2), ""), "{said}");
    }
}
