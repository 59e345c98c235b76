//! `tracemerge sql` answers queries of traces and of data sets, by DuckDB if it is there. The answers to questions that
//! other commands answer, too, are equal to theirs.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, RingPlace, Run, Thread};
use trace_format::sites::{Site, SiteKind};

use crate::support::programs::path_of;
use crate::support::{
    Place, Ran, everything, header, line, optional_readers, ran, raw_file_of_sites, run, whole_file,
};

/// Returns the names of the temporary files that the command has left.
fn temporary_files(place: &Place) -> Vec<OsString> {
    fs::read_dir(place.path("tmp")).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Runs `tracemerge sql` with the programs of one directory.
fn sql(place: &Place, programs: &Path, args: &[&str]) -> Ran {
    let ran = ran(place.command().env("PATH", programs).arg("sql").args(args));
    assert_eq!(temporary_files(place), [""; 0], "{args:?} leaves no files behind");
    ran
}

/// Returns the directories of the programs that answer queries: each is tried.
fn engines() -> Vec<PathBuf> {
    let module = optional_readers().map(|readers| readers.join("python/bin"));
    let command = path_of("duckdb").and_then(|command| command.parent().map(Path::to_owned));
    module.into_iter().chain(command).collect()
}

/// Returns the rows of an answer in JSON.
fn rows(ran: &Ran) -> Vec<Value> {
    assert!(ran.status.is_some_and(|status| status < 2), "{}", ran.err);
    let answer: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(answer["version"], 1);
    serde_json::from_value(answer["rows"].clone()).unwrap()
}

/// Returns the rows with these fields only, as sorted texts.
fn fields(rows: &[Value], names: &[&str]) -> Vec<String> {
    let of = |row: &Value| names.iter().map(|name| row[*name].clone()).collect::<Vec<_>>();
    let mut found: Vec<String> = rows.iter().map(|row| json!(of(row)).to_string()).collect();
    found.sort();
    found
}

/// Returns the rows that a view writes as JSON.
fn rows_of_view(place: &Place, args: &[&str], rows: &str) -> Vec<Value> {
    let ran = place.merge(args);
    let written: Value = serde_json::from_slice(&ran.out).unwrap();
    serde_json::from_value(written[rows].clone()).unwrap()
}

#[test]
fn without_duckdb_the_message_says_how_to_get_it() {
    let place = Place::with_one_file();
    for args in [&["app", "select 1"][..], &["app"], &["--json", "app", "select 1"]] {
        let ran = sql(&place, &place.path("nothing"), args);
        assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{}", ran.err);
        for words in ["there is no DuckDB", "https://duckdb.org/install", "pip install duckdb"] {
            assert!(ran.err.contains(words), "{}", ran.err);
        }
    }
    assert_eq!(place.names(), ["app.trace.9"]);
}

/// A program that writes its input into a file, and prints the rows in another one.
#[cfg(unix)]
const PROGRAM: &str = "#!/bin/sh\n/bin/cat > \"$TMPDIR/../said\"\n/bin/pwd > \"$TMPDIR/../directory\"\n\
                       /bin/cat \"$TMPDIR/../rows\"\n[ ! -e \"$TMPDIR/../error\" ] || { /bin/cat \"$TMPDIR/../error\" >&2; exit 1; }\n";

#[cfg(unix)]
#[test]
fn duckdb_gets_the_files_of_the_set_and_no_others() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    place.write("app.trace.9", whole_file(&run(5, 1), 9, "main", &line(20, 9, "one")));
    let ran = place.merge(["dataset", "add", "--machine", "m-1", "it's [a] set", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    fs::create_dir(place.path("bin")).unwrap();
    place.install("bin/duckdb", PROGRAM);
    let folder = fs::read_dir(place.path("it's [a] set/records")).unwrap().next().unwrap().unwrap().path();
    let folder = folder.join("machine=m-1");
    symlink("/etc/passwd", folder.join("link.parquet")).unwrap();
    fs::write(folder.join("it's.parquet"), "").unwrap();
    fs::write(folder.join("notes.txt"), "").unwrap();
    symlink("/etc", place.path("it's [a] set/calls")).unwrap();
    place.write(
        "rows",
        "{\"b\":1,\"a\":\"\\u001b[2J\\n\u{202e}x\"}\n{\"b\":20,\"a\":null}\n{\"c\":[\"\\u009b\"]}\nplan\n",
    );
    let bin = place.path("bin");
    let ran = sql(&place, &bin, &["it's [a] set", "select 'it''s'"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let said = place.text("said");
    let set = fs::canonicalize(place.path("it's [a] set")).unwrap();
    assert_eq!(place.text("directory").trim_end(), set.to_str().unwrap());
    let files: Vec<&str> = said.split('\'').filter(|part| part.contains(".parquet")).collect();
    assert_eq!(files.len(), 3, "a file of clocks, of records and of runs: {files:?}");
    assert!(files.iter().all(|file| file.ends_with("/machine=m-1/00000050-5-0.parquet")), "{files:?}");
    let (settings, query) = said.split_once("set lock_configuration = true;\n").unwrap();
    assert_eq!(query, "select 'it''s'\n;\n");
    for setting in [
        "autoinstall_known_extensions = false;",
        "autoload_known_extensions = false;",
        "allowed_directories = ['.'];",
        "enable_external_access = false;",
    ] {
        assert!(settings.contains(setting), "{setting}");
    }
    assert!(settings.contains("create or replace view \"calls\" as select null::timestamptz as \"begin\""));
    let text = String::from_utf8(ran.out).unwrap();
    assert_eq!(text, " b  a\n 1  \\x1b[2J\\x0a\\xe2\\x80\\xaex\n20  -\nc\n[\"\\xc2\\x9b\"]\ntext\nplan\n");
    let ran = sql(&place, &bin, &["--csv", "it's [a] set", "select 1"]);
    assert_eq!(
        ran.out,
        "b,a\n1,\"\u{1b}[2J\n\u{202e}x\"\n20,\nc\n\"[\"\"\u{9b}\"\"]\"\ntext\nplan\n".as_bytes()
    );
    let ran = sql(&place, &bin, &["--json", "it's [a] set", "select 1"]);
    assert!(ran.out.is_ascii());
    let expected = json!([{"b": 1, "a": "\u{1b}[2J\n\u{202e}x"}, {"b": 20, "a": null}, {"c": ["\u{9b}"]}, {"text": "plan"}]);
    assert_eq!(json!(rows(&ran)), expected);
    // Queries from standard input, with an error in one.
    place.write("error", "Binder Error: \u{1b}[2Jno such column\n");
    place.write("queries", "select 1;\nselect nothing");
    let mut command = place.command();
    command.env("PATH", &bin).args(["sql", "it's [a] set"]);
    let ran = crate::support::ran(command.stdin(fs::File::open(place.path("queries")).unwrap()));
    assert_eq!(ran.status, Some(1));
    assert_eq!(ran.err, "tracemerge: error: Binder Error: \\x1b[2Jno such column\n");
    assert!(place.text("said").ends_with("lock_configuration = true;\nselect 1;\nselect nothing\n;\n"));
    assert_eq!(temporary_files(&place), [""; 0]);
    let ran = sql(&place, &bin, &["--since", "1s", "it's [a] set", "select 1"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("is a data set: select its records by the query"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn a_signal_and_a_closed_pipe_leave_no_files() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let place = Place::with_one_file();
    fs::create_dir(place.path("bin")).unwrap();
    place.install("bin/duckdb", "#!/bin/sh\n: > \"$TMPDIR/../started\"\nexec /bin/sleep 30\n");
    let mut command = place.command();
    command.env("PATH", place.path("bin")).args(["sql", "app", "select 1"]).stderr(Stdio::null());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !place.path("started").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!temporary_files(&place).is_empty());
    // The shell has a command of its own for this.
    let id = child.id().to_string();
    assert!(Command::new("/bin/sh").args(["-c", "kill $0", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), None);
    assert_eq!(temporary_files(&place), [""; 0]);
}

#[cfg(unix)]
#[test]
fn longer_queries_than_are_read_are_refused() {
    let place = Place::with_one_file();
    fs::create_dir(place.path("bin")).unwrap();
    place.install("bin/duckdb", PROGRAM);
    place.write("rows", "");
    let most = 16 << 20;
    for (length, is_refused) in [(most, false), (most + 1, true)] {
        let query = "select 1 ";
        place.write("query", format!("{query}{}", " ".repeat(length - query.len())));
        let mut command = place.command();
        command.env("PATH", place.path("bin")).args(["sql", "app"]);
        let ran = ran(command.stdin(fs::File::open(place.path("query")).unwrap()));
        assert_eq!(ran.status == Some(2), is_refused, "{length}: {}", ran.err);
        if is_refused {
            assert!(ran.err.contains("may have at most 16777216 bytes"), "{}", ran.err);
        }
        // DuckDB has not got a part of it.
        assert_eq!(place.path("said").exists(), !is_refused);
        assert_eq!(temporary_files(&place), [""; 0]);
        let _ = fs::remove_file(place.path("said"));
    }
}

#[cfg(unix)]
#[test]
fn a_set_that_has_a_run_twice_is_not_asked() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    place.install("bin/duckdb", PROGRAM);
    place.write("rows", "");
    for number in 1..=2 {
        place.write(
            format!("app.trace.{number}"),
            whole_file(&run(number, 1), number.into(), "main", &line(20, number.into(), "x")),
        );
    }
    place.merge(["dataset", "add", "--machine", "m-1", "set", "app"]);
    assert_eq!(sql(&place, &place.path("bin"), &["set", "select 1"]).status, Some(0));
    let clocks =
        fs::read_dir(place.path("set/clocks")).unwrap().next().unwrap().unwrap().path().join("machine=m-1");
    let file = clocks.join("00000010-1-0.parquet");
    let copied = fs::read(&file).unwrap();
    assert_eq!(place.merge(["dataset", "compact", "set"]).status, Some(0));
    fs::write(file, copied).unwrap();
    let ran = sql(&place, &place.path("bin"), &["set", "select 1"]);
    assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{}", ran.err);
    assert!(ran.err.contains("the data set has run 00000010-1 twice, in clocks/day="), "{}", ran.err);
    assert_eq!(place.merge(["dataset", "compact", "set"]).status, Some(0));
    assert_eq!(sql(&place, &place.path("bin"), &["set", "select 1"]).status, Some(0));
}

#[test]
fn tables_of_earlier_versions_have_all_columns() {
    let place = Place::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kept/schema-1/set");
    crate::data_sets_have_every_record_once::copy(&kept, &place.path("set"));
    for programs in engines() {
        let query = "select count(*) > 0 as has_rows, count(error_ns) as errors, count(distinct machine) as machines \
                     from clocks";
        let ran = sql(&place, &programs, &["--json", "set", query]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert_eq!(rows(&ran), [json!({"has_rows": true, "errors": 0, "machines": 1})]);
    }
}

#[test]
fn named_questions_have_the_answers_of_the_views() {
    let all = everything(5_000);
    let place = &all.place;
    let functions = rows_of_view(place, &["report", "--json", "--all-runs", "app"], "functions");
    let spans = rows_of_view(place, &["spans", "--json", "--all-runs", "app"], "names");
    let slow = rows_of_view(place, &["spans", "--slow", "10000", "--json", "--all-runs", "app"], "slowest");
    let sorts = rows_of_view(place, &["stats", "--rows", "all", "--json", "--all-runs", "app"], "by_sort");
    assert!(
        functions.len() == 5 && spans.len() == 2 && slow.len() > 50 && sorts.len() > 3,
        "{spans:?} {}",
        slow.len()
    );
    place.merge(["dataset", "add", "-q", "--machine", "m-1", "set", "app"]);
    for engine in engines() {
        let ask = |query: &str| rows(&sql(place, &engine, &["--json", "set", query]));
        let of = ask("from functions()");
        let names = ["calls", "total_ns", "self_ns", "min_ns", "average_ns", "max_ns", "function", "place"];
        assert_eq!(fields(&of, &names), fields(&functions, &names));
        let order =
            |rows: &[Value]| rows.iter().map(|row| row["total_ns"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(order(&of), order(&functions));
        for (one, other) in of.iter().zip(&functions) {
            let p99 = |row: &Value| row["p99_ns"].as_f64().unwrap();
            assert!((p99(one) - p99(other)).abs() <= 0.02 * p99(other), "{one} {other}");
        }
        let names = [
            "spans",
            "wall_max_ns",
            "busy_max_ns",
            "idle_max_ns",
            "wall_total_ns",
            "polls",
            "cancelled",
            "open",
            "name",
            "opened_by",
        ];
        assert_eq!(fields(&ask("from span_names()"), &names), fields(&spans, &names));
        let of = ask(
            "select * replace (coalesce(fields, '') as fields) rename (ending as \"end\") from slowest_spans(1000000)",
        );
        let names = [
            "wall_ns",
            "busy_ns",
            "idle_ns",
            "polls",
            "name",
            "span",
            "fields",
            "end",
            "parent",
            "opened_by",
        ];
        assert_eq!(fields(&of, &names), fields(&slow, &names));
        // All calls of slowest_calls are those of the table, and paths are as long as calls are deep.
        let of = ask("select count(*) as n, sum(s.duration_ns - c.duration)::bigint as off, \
             count(*) filter (where len(string_split(s.path, ' > ')) = c.depth + 1)::bigint as deep \
             from (select *, row_number() over (order by duration_ns desc, begin, run) as row from slowest_calls(200)) as s \
             join (select *, row_number() over (order by duration desc, begin, run) as row from calls) as c using (row)");
        assert_eq!(of[0]["n"], 200);
        assert_eq!(of[0]["off"], 0);
        let known: u64 =
            sorts.iter().filter(|row| row["has_site"] == true && row["message"].is_string()).count() as u64;
        let of = ask("from templates()");
        let counts = |rows: &[Value], key: &str| {
            rows.iter()
                .map(|row| (row[key].as_str().unwrap_or_default().to_owned(), row.clone()))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let by_template = counts(&of, "template");
        let by_sort = counts(&sorts, "message");
        let both = by_template.iter().filter_map(|(template, row)| Some((row, by_sort.get(template)?)));
        let both: Vec<_> = both.filter(|(_, sort)| sort["has_site"] == true).collect();
        assert!(both.len() >= 3 && known >= 3, "{known} {of:?}");
        for (row, sort) in both {
            assert_eq!(
                (&row["messages"], &row["threads"]),
                (&sort["count"], &sort["threads"]),
                "{row} {sort}"
            );
        }
    }
}

/// A request that two threads poll, and inside it a call of an async function: ticks of 250 ns, thread and text.
const LINES: [(u64, u64, &str); 11] = [
    (1000, 5, ": INFO app: span=1 server new"),
    (2000, 5, r#": INFO app: span=12 request{path="/slow" size=3} new parent=1"#),
    (3000, 5, "> span=12 request at src/main.rs:9"),
    (5000, 5, "< span=12 request at src/main.rs:9"),
    (6000, 5, ": INFO app: span=12 request{status=200}"),
    (7000, 6, "> span=12 request at src/main.rs:9"),
    (8000, 6, "> span=20 load at src/db.rs:5"),
    (8400, 6, "< span=20 cancelled load at src/db.rs:5"),
    (9000, 6, "< span=12 request at src/main.rs:9"),
    (9600, 6, ": INFO app: span=12 request closed"),
    (10_000, 6, ": the last record"),
];

#[test]
fn the_critical_path_of_a_request_has_its_whole_time() {
    let place = Place::new();
    for (tid, name) in [(5, "five"), (6, "six")] {
        let lines = LINES.iter().filter(|line| line.1 == tid);
        let text: String = lines.map(|(ticks, _, text)| format!("{ticks:016x}-{tid:08} {text}\n")).collect();
        place.write(format!("app.trace.{tid}"), whole_file(&run(4, 0), tid, name, text.as_bytes()));
    }
    for engine in engines() {
        let ask = |query: &str| rows(&sql(&place, &engine, &["--json", "app", query]));
        let parts = json!([
            {"name": "request", "duration_ns": 1_500_000, "level": 0},
            {"name": "load", "duration_ns": 100_000, "level": 1},
            {"name": "request", "duration_ns": 300_000, "level": 0},
        ]);
        let path = "select name, duration_ns, level from critical_path(12";
        assert_eq!(json!(ask(&format!("{path})"))), parts);
        assert_eq!(json!(ask(&format!("{path}, '%-4')"))), parts);
        assert_eq!(json!(ask(&format!("{path}, '%-5')"))), json!([]));
        let whole = ask(
            "select duration, (select sum(duration_ns)::bigint from critical_path(12)) as parts from spans where span = 12",
        );
        assert_eq!(whole[0], json!({"duration": 1_900_000, "parts": 1_900_000}));
        // The longest gap of a thread, and the threads that are silent at the end.
        let gap = ask("select gap_ns, thread, last_record, next_record from gaps('si%', 1)");
        assert_eq!(
            gap,
            [json!({"gap_ns": 1_750_000, "thread": "six", "last_record": "name=\"six\" ring=shared",
            "next_record": "request"})]
        );
        let silent = ask("select thread, silent_ns, has_ended from silences() order by thread");
        assert_eq!(
            silent,
            [
                json!({"thread": "five", "silent_ns": 1_000_000, "has_ended": true}),
                json!({"thread": "six", "silent_ns": 0, "has_ended": true})
            ]
        );
    }
}

/// Writes the traces of two runs, each of three threads with nested calls and messages at random times.
fn write_random_runs(place: &Place) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for pid in [5, 6] {
        for tid in 1..=3 {
            let tid = u64::from(pid) * 10 + tid;
            let (mut ticks, mut open, mut lines) = (tid, Vec::new(), String::new());
            for number in 0..400 {
                // Some gaps are much longer than others.
                let most = 1 << (4 + random(12));
                ticks += 4 + random(most);
                let text = match random(4) {
                    0 => format!(": message {number}"),
                    1 | 2 if open.len() < 6 => {
                        open.push(random(5));
                        format!("> f{} at a.rs:{}", open[open.len() - 1], open[open.len() - 1])
                    }
                    _ => match open.pop() {
                        Some(function) => format!("< f{function} at a.rs:{function}"),
                        None => ": outside".to_owned(),
                    },
                };
                lines.push_str(&format!("{ticks:016x}-{tid:08} {text}\n"));
            }
            while let Some(function) = open.pop() {
                ticks += 4 + random(1000);
                lines.push_str(&format!("{ticks:016x}-{tid:08} < f{function} at a.rs:{function}\n"));
            }
            let name = format!("thread {}", tid % 10);
            place.write(format!("app.trace.{tid}"), whole_file(&run(pid, 0), tid, &name, lines.as_bytes()));
        }
    }
}

/// A record in `jsonl`.
struct Record {
    pid: u64,
    tid: u64,
    ns: u64,
    kind: String,
    text: String,
    function: String,
}

/// Returns the records of all threads in `jsonl`, those of each in their order.
fn records_of_jsonl(place: &Place) -> Vec<Vec<Record>> {
    let ran = place.merge(["--format", "jsonl", "--all-runs", "-o", "all.jsonl", "app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let mut threads = std::collections::BTreeMap::<_, Vec<Record>>::new();
    for line in place.text("all.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| row[key].as_u64().unwrap();
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        let (kind, function) = (text("kind").unwrap(), text("function"));
        let record = Record {
            pid: number("pid"),
            tid: number("tid"),
            ns: number("ns"),
            text: text("message").or(function.clone()).unwrap_or(kind.clone()),
            kind,
            function: function.unwrap_or_default(),
        };
        threads.entry((record.pid, record.tid)).or_default().push(record);
    }
    threads.into_values().collect()
}

/// The calls of a function: their times without the calls inside, and their whole times.
#[derive(Default)]
struct Calls {
    own: Vec<i64>,
    whole: Vec<i64>,
}

/// Returns the calls of each function in a run.
fn calls_of(threads: &[Vec<Record>], pid: u64) -> std::collections::BTreeMap<String, Calls> {
    let mut calls = std::collections::BTreeMap::<String, Calls>::new();
    for thread in threads.iter().filter(|thread| thread[0].pid == pid) {
        let mut open: Vec<(u64, i64)> = Vec::new();
        for record in thread {
            if record.kind == "enter" {
                open.push((record.ns, 0));
            } else if record.kind == "leave" {
                let (begin, inside) = open.pop().unwrap();
                let whole = (record.ns - begin) as i64;
                let of = calls.entry(record.function.clone()).or_default();
                of.own.push(whole - inside);
                of.whole.push(whole);
                open.last_mut().into_iter().for_each(|around| around.1 += whole);
            }
        }
    }
    calls
}

/// Returns the least number that at least half of all do not exceed.
fn median(numbers: &[i64]) -> i64 {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers[numbers.len().div_ceil(2) - 1]
}

#[test]
fn gaps_silences_and_comparisons_are_those_of_json_lines() {
    let place = Place::new();
    write_random_runs(&place);
    let threads = records_of_jsonl(&place);
    assert_eq!(threads.len(), 6);
    let us = |record: &Record| (record.ns / 1000) as i64;
    let mut gaps = Vec::new();
    for thread in &threads {
        for pair in thread.windows(2) {
            let gap = (us(&pair[1]) - us(&pair[0])) * 1000;
            gaps.push((-gap, us(&pair[0]), pair[0].pid, pair[0].tid, &pair[0].text, &pair[1].text));
        }
    }
    gaps.sort();
    let longest: Vec<Value> = gaps
        .iter()
        .take(50)
        .map(|(gap, begin, pid, tid, last, next)| {
            json!({"gap_ns": -gap, "us": begin, "pid": pid, "thread": format!("thread {}", tid % 10),
                "last_record": last, "next_record": next})
        })
        .collect();
    let mut silences = Vec::new();
    for thread in &threads {
        let last = |thread: &[Record]| thread.iter().map(us).max().unwrap();
        let of_run = threads.iter().filter(|of| of[0].pid == thread[0].pid).map(|of| last(of)).max().unwrap();
        silences.push(json!({
            "silent_ns": (of_run - last(thread)) * 1000, "us": last(thread),
            "has_ended": thread.iter().any(|record| record.kind == "end"), "records": thread.len(),
            "pid": thread[0].pid, "thread": format!("thread {}", thread[0].tid % 10),
            "last_record": thread[thread.len() - 1].text,
        }));
    }
    silences.sort_by_key(|row| {
        (-row["silent_ns"].as_i64().unwrap(), row["pid"].as_u64(), row["thread"].to_string())
    });
    let [before, after] = [5, 6].map(|pid| calls_of(&threads, pid));
    assert_eq!((before.len(), after.len()), (5, 5));
    let mut changes: Vec<(i64, Value)> = before
        .iter()
        .map(|(function, before)| {
            let after = &after[function];
            let [own_before, own_after] = [before, after].map(|of| of.own.iter().sum::<i64>());
            let [median_before, median_after] = [before, after].map(|of| median(&of.whole));
            let ratio = (median_after as f64 / median_before as f64 * 100.0).round() / 100.0;
            let row = json!({
                "calls_before": before.own.len(), "calls_after": after.own.len(), "self_before_ns": own_before,
                "self_after_ns": own_after, "change_ns": own_after - own_before, "median_before_ns": median_before,
                "median_after_ns": median_after, "ratio": ratio, "function": function,
                "place": function.replace('f', "a.rs:"),
            });
            (-(own_after - own_before).abs(), row)
        })
        .collect();
    changes.sort_by_key(|(change, row)| (*change, row["function"].to_string()));
    let changes: Vec<Value> = changes.into_iter().map(|(_, row)| row).collect();
    for engine in engines() {
        let ask = |query: &str| rows(&sql(&place, &engine, &["--json", "--all-runs", "app", query]));
        let of_run = "split_part(run, '-', 2)::bigint as pid";
        assert_eq!(
            ask(&format!(
                "select gap_ns, epoch_us(begin) as us, {of_run}, thread, last_record, next_record from gaps(n := 50)"
            )),
            longest
        );
        assert_eq!(
            ask(&format!(
                "select silent_ns, epoch_us(last_seen) as us, has_ended, records, {of_run}, thread, last_record \
                 from silences()"
            )),
            silences
        );
        assert_eq!(ask("from before_and_after('%-5', '%-6')"), changes);
    }
}

#[test]
fn two_runs_are_compared_and_records_selected() {
    let place = Place::new();
    let calls = |tid: u64, ticks: u64, each: u64| -> Vec<u8> {
        let call = |number: u64| {
            let begin = ticks + 1000 * number;
            format!(
                "{:016x}-{tid:08} > work at a.rs:7\n{:016x}-{tid:08} < work at a.rs:7\n",
                begin,
                begin + each
            )
        };
        (0..5).map(call).collect::<String>().into_bytes()
    };
    place.write("app.trace.9", whole_file(&run(5, 1), 9, "main", &calls(9, 100, 40)));
    place.write(
        "app.trace.11",
        whole_file(&run(6, 2), 11, "main", &[calls(11, 200, 120), line(9000, 11, r"odd \x1b[2J")].concat()),
    );
    for engine in engines() {
        let ask = |args: &[&str]| {
            rows(&sql(&place, &engine, &[&["--json", "--all-runs", "app"][..], args].concat()))
        };
        let of = ask(&["from before_and_after('%-5', '%-6')"]);
        assert_eq!(
            of,
            [json!({
                "calls_before": 5, "calls_after": 5, "self_before_ns": 50_000, "self_after_ns": 150_000,
                "change_ns": 100_000, "median_before_ns": 10_000, "median_after_ns": 30_000, "ratio": 3.0,
                "function": "work", "place": "a.rs:7",
            })]
        );
        assert_eq!(
            ask(&["select message from records where kind = 'message'"]),
            [json!({"message": "odd \u{1b}[2J"})]
        );
        let selected = rows(&sql(
            &place,
            &engine,
            &["--json", "--all-runs", "--process", "5", "app", "select distinct pid from records"],
        ));
        assert_eq!(selected, [json!({"pid": 5})]);
    }
}

#[test]
fn a_query_reaches_no_file_outside_of_the_set() {
    let place = Place::new();
    place.write("app.trace.9", whole_file(&run(5, 1), 9, "main", &line(20, 9, "one")));
    place.write("outside.csv", "a\n1\n");
    let outside = place.path("outside.csv");
    let outside = outside.to_str().unwrap();
    for engine in engines() {
        for query in [
            format!("from read_csv('{outside}')"),
            format!("select * from '{outside}'"),
            format!("copy (select 1) to '{}'", place.path("made.csv").display()),
            format!("attach '{}'", place.path("made.duckdb").display()),
            "set enable_external_access = true".to_owned(),
            "set memory_limit = '90GB'".to_owned(),
            "install httpfs".to_owned(),
            "load httpfs".to_owned(),
            "select no_such_column from records".to_owned(),
            "selec 1".to_owned(),
        ] {
            let ran = sql(&place, &engine, &["app", &query]);
            assert_eq!((ran.status, &ran.out[..]), (Some(1), &b""[..]), "{query}: {}", ran.err);
            assert!(
                ran.err.starts_with("tracemerge: error: ") && ran.err.contains("Error: "),
                "{query}: {}",
                ran.err
            );
        }
        assert_eq!(place.names(), ["app.trace.9", "outside.csv"]);
        // What one query makes is there for the next, and a part of an answer is printed before an error.
        let ran = sql(
            &place,
            &engine,
            &["--json", "app", "create table mine as select 7 as n; from mine;\n;; select nothing;\n"],
        );
        assert_eq!((ran.status, rows(&ran)), (Some(1), vec![json!({"n": 7})]), "{}", ran.err);
    }
}

#[test]
fn waits_for_locks_are_those_of_the_locks_command() {
    let place = Place::new();
    // A tick is a nanosecond.
    let of_run = Run { clock: ClockKind::System, ticks: Ticks(0), ..run(5, 1) };
    let lock =
        "! lock wait id=1 for=lock made=\"src/a.rs:1\" at=\"src/a.rs:2\" holder=11 since=\"src/a.rs:3\"";
    let lines = [
        (9, 1_000_000, lock),
        (11, 2_000_000, "! condvar wait id=4 lock=1 made=\"src/b.rs:1\" at=\"src/b.rs:2\""),
        (9, 4_000_000, "! lock got id=1 ns=3000000"),
        (9, 5_000_000, lock),
        (9, 5_500_000, "! lock gave_up id=1 ns=500000"),
        (9, 6_000_000, "# wait begin=5600000 end=5900000 ns=300000 for=room"),
        (9, 7_000_000, lock),
        (11, 9_000_000, "! condvar timeout id=4 by=0 ns=7000000"),
    ];
    for tid in [9, 11] {
        let lines = lines.iter().filter(|line| line.0 == tid);
        let text: String =
            lines.map(|(tid, ticks, rest)| format!("{ticks:016x}-{tid:08} {rest}\n")).collect();
        place.write(format!("app.trace.{tid}"), [header(&of_run, tid), text.into_bytes()].concat());
    }
    let text = String::from_utf8(place.merge(["locks", "app"]).out).unwrap();
    for engine in engines() {
        let of =
            rows(&sql(&place, &engine, &["--json", "app", "select * exclude (host, run) from lock_waits()"]));
        assert_eq!(
            of,
            [
                json!({"waits": 1, "waited_ns": 7_000_000, "longest_ns": 7_000_000, "open": 0, "kind": "condition", "object": 4,
                "waiting": "11", "holder": null, "place": "src/b.rs:2", "since": null, "made": "src/b.rs:1"}),
                json!({"waits": 3, "waited_ns": 5_500_000, "longest_ns": 3_000_000, "open": 1, "kind": "lock", "object": 1,
                "waiting": "9", "holder": "11", "place": "src/a.rs:2", "since": "src/a.rs:3", "made": "src/a.rs:1"}),
            ]
        );
        for line in of {
            let (kind, object, made) = (&line["kind"], &line["object"], &line["made"]);
            let ms = |key: &str| format!("{:.2} ms", line[key].as_f64().unwrap() / 1e6);
            let [kind, made] = [kind, made].map(|text| text.as_str().unwrap());
            let waits = line["waits"].as_u64().unwrap();
            let found = format!("{kind} {object} ({made}): {waits} wait");
            let found = text
                .lines()
                .find(|line| line.starts_with(&found))
                .unwrap_or_else(|| panic!("{found} in {text}"));
            assert!(
                found.contains(&ms("waited_ns")) && (waits == 1 || found.contains(&ms("longest_ns"))),
                "{found}"
            );
        }
    }
}

/// Writes the traces of a server on one machine into a directory. A query of the database takes `query` ticks of 250 ns.
fn write_server(place: &Place, directory: &str, pid: u32, query: u64) {
    fs::create_dir(place.path(directory)).unwrap();
    let of_run = run(pid, 0);
    let site = Site {
        id: 1,
        line: 12,
        module: "app".into(),
        file: "src/main.rs".into(),
        function: "app::accept".into(),
        template: "got request {}".into(),
        format: "got request {}".into(),
        descriptor: b"l".to_vec(),
        names: vec!["number".into()],
        kind: SiteKind::Message,
        ..Site::default()
    };
    let thread = Thread { name: b"accept".to_vec(), ring: RingPlace::Shared, why: Vec::new(), file: None };
    let metas = [(0, &Meta::Run(of_run.clone())), (0, &Meta::Thread(thread))];
    let messages = (1..=3).map(|number| (4000 * number, 1, format!("got request {number}")));
    let bytes = raw_file_of_sites(5, &metas, &[site], messages);
    place.write(format!("{directory}/app.trace.5"), bytes);
    let parsed = 4000 + 800;
    let locked = parsed + 200 + query;
    let worker = [
        (4100, "> app::handle at src/main.rs:30".to_owned()),
        (4200, "> app::parse at src/parse.rs:3".to_owned()),
        (parsed, "< app::parse at src/parse.rs:3".to_owned()),
        (parsed + 200, "> app::query at src/db.rs:7".to_owned()),
        (locked, "< app::query at src/db.rs:7".to_owned()),
        (locked + 100, "! lock wait id=1 for=lock made=\"src/main.rs:8\" at=\"src/main.rs:33\" holder=7 since=\"src/log.rs:4\"".to_owned()),
        (locked + 2100, "! lock got id=1 ns=500000".to_owned()),
        (locked + 2200, "< app::handle at src/main.rs:30".to_owned()),
    ];
    let logger = [
        (4000, ": INFO app: span=12 request{path=\"/slow\"} new".to_owned()),
        (4100, "> span=12 request at src/main.rs:29".to_owned()),
        (5000, "> span=20 load at src/db.rs:5".to_owned()),
        (5000 + query, "< span=20 ended load at src/db.rs:5".to_owned()),
        (5200 + query, "< span=12 request at src/main.rs:29".to_owned()),
        (5600 + query, ": INFO app: span=12 request closed".to_owned()),
    ];
    for (tid, name, lines) in [(6, "worker", &worker[..]), (7, "logger", &logger)] {
        let text: String =
            lines.iter().map(|(ticks, text)| format!("{ticks:016x}-{tid:08} {text}\n")).collect();
        place.write(format!("{directory}/app.trace.{tid}"), whole_file(&of_run, tid, name, text.as_bytes()));
    }
}

#[test]
fn the_queries_of_the_guide_have_these_answers() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide.md")).unwrap();
    let (_, chapter) = guide.split_once("\n## From ten machines to an answer\n").unwrap();
    let chapter = chapter.split("\n## ").next().unwrap();
    let place = Place::new();
    write_server(&place, "web-01", 812, 24_000);
    write_server(&place, "web-02", 813, 96_000);
    for machine in ["web-01", "web-02"] {
        let ran = place.merge(["dataset", "add", "--machine", machine, "traces.set", machine]);
        // The raw file has no end.
        assert_eq!((ran.status, ran.err.lines().count()), (Some(1), 2), "{}", ran.err);
    }
    let mut steps = Vec::new();
    for block in chapter.split("```").skip(1).step_by(2).filter(|block| block.starts_with("text\n$ ")) {
        let mut lines = block.lines().skip(1);
        let command = lines.next().unwrap().strip_prefix("$ tracemerge sql traces.set \"").unwrap();
        let answer: String = lines.map(|line| format!("{line}\n")).collect();
        steps.push((command.strip_suffix('"').unwrap(), answer));
    }
    let macros =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/sql/macros.sql")).unwrap();
    for named in macros.lines().filter_map(|line| line.strip_prefix("create or replace macro ")) {
        let name = named.split_once('(').unwrap().0;
        assert!(steps.iter().any(|(query, _)| query.contains(&format!("{name}("))), "{name} is described");
    }
    for engine in engines() {
        for (query, answer) in &steps {
            let ran = sql(&place, &engine, &["traces.set", query]);
            assert_eq!((ran.status, &ran.err[..]), (Some(0), ""), "{query}");
            assert_eq!(String::from_utf8(ran.out).unwrap(), *answer, "{query}");
        }
    }
}
