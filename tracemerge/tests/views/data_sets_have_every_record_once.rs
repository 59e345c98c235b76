//! A data set has each record of each run that was added to it, once, whatever happened to the writers, according to
//! the reader of the crate `parquet`, and to DuckDB if it is there.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value, json};

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, Run, SystemClocks};
use trace_format::wall::Wall;

use crate::support::{Place, everything, file, header, line, meta, optional_readers, run};

/// The microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Returns all files of a table of a set, as paths within the table.
fn files(table: &Path) -> BTreeSet<String> {
    fn walk(folder: &Path, within: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let entry = entry.unwrap();
            let name = format!("{within}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(table, "", &mut found);
    found
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Long(number) | Field::TimestampMicros(number) => json!(number),
        Field::Bool(is_so) => json!(is_so),
        Field::Double(number) if number.is_finite() => json!(number),
        Field::Double(number) => json!(number.to_string()),
        Field::Str(text) => json!(text),
        other => panic!("{other:?}"),
    }
}

/// Returns the rows of a file.
fn rows(path: &Path) -> Vec<Map<String, Value>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(|(name, of)| (name.clone(), value(of))).collect())
        .collect()
}

/// Returns the runs that a file lists in its metadata.
fn listed_runs(path: &Path) -> BTreeSet<String> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let keys = reader.metadata().file_metadata().key_value_metadata().unwrap().iter();
    let runs = keys.filter(|pair| pair.key == "tracer.run").filter_map(|pair| pair.value.clone());
    runs.flat_map(|runs| runs.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the rows of all files below a directory.
pub(crate) fn rows_below(directory: &Path) -> Vec<Map<String, Value>> {
    files(directory).iter().flat_map(|name| rows(&directory.join(name))).collect()
}

/// Returns the rows of a table. Checks that each is in the folder of its day and machine, that its file lists its run,
/// and that those of a file are in order.
fn rows_of_table(set: &Path, table: &str, time: &str) -> Vec<Map<String, Value>> {
    let mut all = Vec::new();
    for name in files(&set.join(table)) {
        let path = set.join(table).join(&name);
        let (rows, listed) = (rows(&path), listed_runs(&path));
        let is_compacted = name.contains("/compact-");
        assert!(!rows.is_empty(), "{name}");
        let found: BTreeSet<String> =
            rows.iter().map(|row| row["run"].as_str().unwrap().to_owned()).collect();
        assert_eq!(found, listed, "{name}");
        for row in &rows {
            let folders: Vec<&str> = name.split('/').collect();
            let days = row[time].as_i64().unwrap() / DAY;
            let date = date_of_day(days);
            assert_eq!(folders[0], format!("day={date}"), "{name}");
            assert_eq!(folders[1], format!("machine={}", row["host"].as_str().unwrap()), "{name}");
            let run = row["run"].as_str().unwrap();
            let has_own = folders[2].strip_prefix(run).is_some_and(|rest| rest.starts_with('-'));
            assert!(is_compacted || has_own, "{name}: {run}");
        }
        if table == "records" {
            let key = |row: &Map<String, Value>, key: &str| row[key].as_i64().unwrap();
            let order = |row: &Map<String, Value>| {
                (if is_compacted { key(row, "wall") } else { 0 }, key(row, "ticks"))
            };
            assert!(rows.is_sorted_by_key(order), "{name}");
        }
        all.extend(rows);
    }
    all
}

/// Returns the date of a day since 1970, by the algorithm of Howard Hinnant: an oracle of its own.
fn date_of_day(days: i64) -> String {
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn add(place: &Place, apps: &[&str]) -> crate::support::Ran {
    place.merge([&["dataset", "add", "--machine", "m-1", "set"], apps].concat())
}

#[test]
fn the_rows_of_a_set_are_those_of_json_lines() {
    let all = everything(20_000);
    let ran = add(&all.place, &["app"]);
    assert_eq!(ran.status, Some(1), "the damage is reported: {}", ran.err);
    let set = all.place.path("set");
    let of_set = rows_of_table(&set, "records", "wall");
    let ran = all.place.merge(["--format", "jsonl", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let lines = all.place.text("app.jsonl");
    let lines = lines.lines().map(|line| serde_json::from_str::<Map<String, Value>>(line).unwrap());
    // A set has records by runs.
    let lines: Vec<Map<String, Value>> =
        lines.filter(|row| row.get("pid").is_some_and(|pid| !pid.is_null())).collect();
    let text = |row: &Map<String, Value>, key: &str| row.get(key).cloned().unwrap_or(Value::Null);
    let common = ["ticks", "pid", "tid", "kind", "level", "target", "template", "message", "function"];
    let expected = lines.iter().map(|row| {
        let place = match (text(row, "file").as_str(), text(row, "line").as_u64()) {
            (Some(file), Some(line)) => json!(format!("{file}:{line}")),
            (Some(file), None) => json!(file),
            _ => Value::Null,
        };
        let wall = json!(text(row, "ns").as_i64().unwrap() / 1000);
        let known: Vec<Value> = common.iter().map(|key| text(row, key)).collect();
        json!([wall, place, known]).to_string()
    });
    let found = of_set.iter().map(|row| {
        let known: Vec<Value> = common.iter().map(|key| row[*key].clone()).collect();
        json!([row["wall"], row["place"], known]).to_string()
    });
    let (mut expected, mut found): (Vec<_>, Vec<_>) = (expected.collect(), found.collect());
    expected.sort();
    found.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    // Spans and depths are there, and the table of runs counts the records.
    assert!(of_set.iter().any(|row| row["span"].is_i64()) && of_set.iter().any(|row| row["depth"] == 2));
    let mut counts = BTreeMap::new();
    of_set.iter().for_each(|row| *counts.entry(row["run"].to_string()).or_insert(0) += 1);
    let runs = rows_of_table(&set, "runs", "begin").into_iter();
    let said: BTreeMap<String, i64> =
        runs.map(|row| (row["run"].to_string(), row["records"].as_i64().unwrap())).collect();
    assert_eq!(said, counts);
    let query = "select count(*), count(distinct machine), min(typeof(wall)), min(typeof(pid)), min(typeof(host)) from \
                 'set/records/**/*.parquet' where day > '2000-01-01'";
    if let Some(rows) = asked(&all.place, query) {
        assert_eq!(rows, json!([[found.len(), 1, "TIMESTAMP WITH TIME ZONE", "BIGINT", "VARCHAR"]]));
    }
}

/// Returns the rows of a query of DuckDB; `None` if it is not there.
fn asked(place: &Place, query: &str) -> Option<Value> {
    let readers = optional_readers()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/query.py");
    let mut python = std::process::Command::new(readers.join("python/bin/python"));
    let output = python.current_dir(place.path("")).arg(script).arg(query).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn values_and_numbers_of_records_are_those_of_json_lines() {
    let all = everything(20_000);
    add(&all.place, &["app"]);
    let set = all.place.path("set");
    let mut fields: BTreeMap<(String, i64), Map<String, Value>> = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for row in rows_of_table(&set, "values", "wall") {
        let key = (row["run"].to_string(), row["record"].as_i64().unwrap());
        let columns = ["integer_value", "float_value", "bool_value", "text_value"];
        let value: Vec<&Value> =
            columns.iter().map(|column| &row[*column]).filter(|value| !value.is_null()).collect();
        let [value] = value[..] else { panic!("{row:?}") };
        let column = match row["type"].as_str().unwrap() {
            "f32" | "f64" => "float_value",
            "bool" => "bool_value",
            of if of.starts_with(['i', 'u']) && !of.ends_with("128") => "integer_value",
            _ => "text_value",
        };
        assert_eq!(&row[column], value);
        let of = fields.entry(key.clone()).or_default();
        assert_eq!(row["index"], of.len(), "{row:?}");
        of.insert(row["name"].as_str().unwrap().to_owned(), value.clone());
        numbers.insert(key, row["template"].clone());
    }
    let mut found = Vec::new();
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows_of_table(&set, "records", "wall") {
        let key = (row["run"].to_string(), row["record"].as_i64().unwrap());
        *counts.entry(key.0.clone()).or_default() += 1;
        if let Some(of) = fields.remove(&key) {
            assert_eq!((&row["kind"], Some(&row["template"])), (&json!("message"), numbers.get(&key)));
            let text = json!([row["pid"], row["tid"], row["ticks"], row["message"], of]).to_string();
            // The reader of JSON may read a float with another last bit than the one that was written.
            found.push(serde_json::from_str::<Value>(&text).unwrap().to_string());
        }
    }
    assert!(fields.is_empty(), "each value is of a record");
    let ran = all.place.merge(["--format", "jsonl", "--all-runs", "app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    let mut expected = Vec::new();
    for text in all.place.text("app.jsonl").lines() {
        let mut row: Map<String, Value> = serde_json::from_str(text).unwrap();
        let Some(Value::Object(mut of)) = row.remove("fields") else { continue };
        if row["kind"] != "message" || of.is_empty() {
            continue;
        }
        // All integers of the set are signed.
        for (_, value) in &mut of {
            *value = value.as_u64().map_or_else(|| value.clone(), |number| json!(number as i64));
        }
        expected.push(json!([row["pid"], row["tid"], row["ticks"], row["message"], of]).to_string());
    }
    found.sort();
    expected.sort();
    assert!(!found.is_empty());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn waits_of_a_set_are_those_of_the_locks_and_of_the_tracer() {
    let place = Place::new();
    // A tick is a nanosecond.
    let of_run = Run { clock: ClockKind::System, ticks: Ticks(0), ..run(5, 1) };
    let file = |tid: u64, lines: &[(u64, &str)]| {
        let lines = lines.iter().map(|(ticks, rest)| format!("{ticks:016x}-{tid:08} {rest}\n").into_bytes());
        [header(&of_run, tid)].into_iter().chain(lines).collect::<Vec<_>>().concat()
    };
    let lock =
        "! lock wait id=1 for=lock made=\"src/a.rs:1\" at=\"src/a.rs:2\" holder=11 since=\"src/a.rs:3\"";
    place.write(
        "app.trace.9",
        file(
            9,
            &[
                (1_000_000, lock),
                (4_000_000, "! lock got id=1 ns=3000000"),
                (5_000_000, lock),
                (5_500_000, "! lock gave_up id=1 ns=500000"),
                (6_000_000, "# wait begin=5600000 end=5900000 ns=300000 for=room"),
                (6_000_000, ": after it"),
                (7_000_000, lock),
            ],
        ),
    );
    place.write(
        "app.trace.11",
        file(
            11,
            &[
                (2_000_000, "! condvar wait id=4 lock=1 made=\"src/b.rs:1\" at=\"src/b.rs:2\""),
                (9_000_000, "! condvar timeout id=4 by=0 ns=7000000"),
            ],
        ),
    );
    let ran = add(&place, &["app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let waits = rows_of_table(&place.path("set"), "waits", "begin");
    let start = of_run.wall.0 as i64 / 1000;
    let columns =
        ["tid", "kind", "object", "made", "place", "holder", "since", "ending", "cause", "duration"];
    let mut found: Vec<Value> = waits
        .iter()
        .map(|row| {
            let time = |key: &str| row[key].as_i64().unwrap() - start;
            let known: Vec<&Value> = columns.iter().map(|column| &row[*column]).collect();
            json!([time("begin"), time("end"), known])
        })
        .collect();
    found.sort_by_key(|row| row[0].as_i64());
    let locked = |ending: &str, ns: u64| {
        json!([9, "lock", 1, "src/a.rs:1", "src/a.rs:2", 11, "src/a.rs:3", ending, null, ns])
    };
    let condition =
        json!([11, "condition", 4, "src/b.rs:1", "src/b.rs:2", null, null, "timed out", null, 7_000_000]);
    let of_tracer = json!([9, "tracer", null, null, null, null, null, null, "room", 300_000]);
    let expected = [
        json!([1_000, 4_000, locked("got", 3_000_000)]),
        json!([2_000, 9_000, condition]),
        json!([5_000, 5_500, locked("gave up", 500_000)]),
        json!([5_600, 5_900, of_tracer]),
        json!([7_000, 9_000, locked("open", 2_000_000)]),
    ];
    assert_eq!(found, expected);
    // The view counts the same.
    let ran = place.merge(["locks", "app"]);
    let text = String::from_utf8(ran.out).unwrap();
    for line in [
        "lock 1 (src/a.rs:1): 3 waits, 5.50 ms, 3.00 ms at most; 1 given up",
        "condition 4 (src/b.rs:1): 1 wait, 7.00 ms, 1 timed out",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn calls_spans_and_losses_of_a_set_are_those_of_the_trace() {
    let all = everything(5_000);
    add(&all.place, &["app"]);
    let set = all.place.path("set");
    let calls = rows_of_table(&set, "calls", "begin");
    let mut found: Vec<_> = calls
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().unwrap();
            let function = row["function"].as_str().unwrap().to_owned();
            (number("pid") as u32, number("tid"), number("ticks"), number("depth") as usize, function)
        })
        .collect();
    let expected = all.calls.iter();
    let mut expected: Vec<_> =
        expected.map(|call| (call.pid, call.tid, call.entered, call.depth, call.function.clone())).collect();
    found.sort();
    expected.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &calls {
        *own.entry(row["function"].as_str().unwrap()).or_default() += row["own"].as_u64().unwrap();
    }
    let known: BTreeMap<&str, u64> = all.times.iter().map(|(name, times)| (*name, times.own)).collect();
    assert_eq!(own, known);
    // Each call is inside of its parent.
    let mut ranges = BTreeMap::new();
    for row in &calls {
        ranges.insert((row["run"].to_string(), row["call"].as_i64().unwrap()), (&row["begin"], &row["end"]));
    }
    let is_inside = |row: &&Map<String, Value>| {
        let parent = ranges[&(row["run"].to_string(), row["parent"].as_i64().unwrap())];
        let at = |value: &Value| value.as_i64().unwrap();
        at(parent.0) <= at(&row["begin"]) && at(&row["end"]) <= at(parent.1)
    };
    let with_parent = || calls.iter().filter(|row| row["parent"].is_i64());
    assert!(with_parent().count() > 0);
    assert_eq!(with_parent().filter(is_inside).count(), with_parent().count());
    let lost = rows_of_table(&set, "losses", "wall");
    assert_eq!(lost.iter().map(|row| row["records"].as_u64().unwrap()).sum::<u64>(), all.lost);
    let spans = rows_of_table(&set, "spans", "begin");
    let polls: u64 = spans.iter().map(|row| row["polls"].as_u64().unwrap()).sum();
    let ended = spans.iter().filter(|row| row["ending"] == "ended").count() as u64;
    assert!(
        (polls, ended) == (all.polls, all.ended) && polls > 0,
        "{polls} {ended} {} {}",
        all.polls,
        all.ended
    );
}

#[test]
fn the_clocks_of_a_set_go_through_its_readings() {
    let place = Place::new();
    let second = 1_000_000_000;
    let begun = run(5, 0);
    let read = |ticks: u64, wall: u64, state| {
        let (ticks, wall) = (Ticks(ticks), Wall(begun.wall.0 + wall));
        let system = SystemClocks { error: Some(7_000), state, ..SystemClocks::default() };
        meta(ticks.0, 9, &Meta::Clock { ticks, wall, system })
    };
    // The clock of the system is not synchronized in state 5.
    let (first, last) = (read(2 * second, second + 7, Some(0)), read(6 * second, 3 * second + 1, Some(5)));
    let lines = [file(&begun, 9, &[3]), first, last].concat();
    place.write("app.trace.9", lines);
    add(&place, &["app"]);
    let rows = rows_of_table(&place.path("set"), "clocks", "wall");
    let readings: Vec<&str> = rows.iter().map(|row| row["reading"].as_str().unwrap()).collect();
    assert!(readings[0].starts_with("run version=") && readings[1].starts_with("clock ticks=2000000000 "));
    let errors: Vec<&Value> = rows.iter().map(|row| &row["error_ns"]).collect();
    assert_eq!(json!(errors), json!([null, 7_000, null]));
    let given = json!({"run": ["m-1", 5], "readings": readings, "first": 0, "last": 6 * second}).to_string();
    place.write("runs", given + "\n");
    let output =
        place.command().args(["dataset", "clocks"]).stdin(File::open(place.path("runs")).unwrap()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let clock: Value = serde_json::from_slice(&output.stdout).unwrap();
    let at = |ns: u64| begun.wall.0 + ns;
    assert_eq!(clock["period"], json!([at(0), at(3 * second + 1)]));
    assert_eq!(clock["error_ns"], 7_000);
    let (first, last) = (second + 7, 2 * second - 6);
    let through = |line: &Value| [line[1].clone(), line[2].clone(), line[3].clone(), line[4].clone()];
    let found: Vec<_> = clock["to_wall"].as_array().unwrap().iter().map(through).collect();
    assert_eq!(found[0], [json!(0), json!(at(0)), json!(2 * second), json!(first)]);
    assert_eq!(found[1], [json!(2 * second), json!(at(second + 7)), json!(4 * second), json!(last)]);
    let wrong = place
        .command()
        .args(["dataset", "clocks"])
        .stdin(File::open(place.path("app.trace.9")).unwrap())
        .output();
    let wrong = String::from_utf8(wrong.unwrap().stderr).unwrap();
    assert!(wrong.contains("cannot read runs on standard input: line 1: "), "{wrong}");
}

/// Returns the identity and the time of each file of a set.
#[cfg(unix)]
fn identities(set: &Path) -> BTreeMap<String, (u64, std::time::SystemTime)> {
    use std::os::unix::fs::MetadataExt;
    let of = |name: String| {
        let found = fs::metadata(set.join(&name)).unwrap();
        (name, (found.ino(), found.modified().unwrap()))
    };
    files(set).into_iter().map(of).collect()
}

/// Returns the messages of a set by run, in order, and how often each is there.
fn messages(set: &Path) -> BTreeMap<(String, String), usize> {
    let mut all = BTreeMap::new();
    for row in rows_of_table(set, "records", "wall") {
        if row["kind"] == "message" {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            *all.entry((text("run"), text("message"))).or_insert(0) += 1;
        }
    }
    all
}

#[cfg(unix)]
#[test]
fn a_run_that_has_not_grown_adds_nothing_and_one_that_has_replaces_its_rows() {
    let place = Place::new();
    place.write("app.trace.9", file(&run(5, 1), 9, &[3, 7]));
    place.write("app.trace.11", file(&run(6, 2), 11, &[4, 8]));
    let set = place.path("set");
    let first = add(&place, &["app"]);
    assert!(first.err.contains("added 2 runs to "), "{}", first.err);
    let before = identities(&set);
    // Each has a file of its records, its reading of the clocks, and its row in the table of runs.
    assert_eq!(before.len(), 6, "{before:?}");
    let again = add(&place, &["app"]);
    assert!(again.err.contains("added 0 runs to "), "{}", again.err);
    assert!(again.err.contains("; already in it: 2 of the chosen runs"), "{}", again.err);
    assert_eq!(identities(&set), before);
    place.write("app.trace.9", file(&run(5, 1), 9, &[3, 7, 9]));
    let grown = add(&place, &["app"]);
    assert!(
        grown.err.contains("added 1 run to ") && grown.err.contains("; already in it: 1 of the chosen runs"),
        "{}",
        grown.err
    );
    let after = identities(&set);
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let changed = before.iter().filter(|(name, of)| after[*name] != **of);
    assert!(changed.clone().all(|(name, _)| name.contains("/00000050-5-")), "{changed:?}");
    assert_eq!(changed.count(), 3);
    let messages = messages(&set);
    assert_eq!((messages.len(), messages.values().sum::<usize>()), (5, 5), "{messages:?}");
    // Beside the set are the traces and the lock.
    assert_eq!(place.names(), [".set.lock", "app.trace.11", "app.trace.9", "set"]);
}

/// Returns the rows of all tables, in an order of their own.
fn all_rows(set: &Path) -> Vec<String> {
    let tables =
        [("records", "wall"), ("values", "wall"), ("calls", "begin"), ("spans", "begin"), ("waits", "begin")];
    let mut all: Vec<String> = [("losses", "wall"), ("clocks", "wall"), ("runs", "begin")]
        .into_iter()
        .chain(tables)
        .flat_map(|(table, time)| {
            let rows = rows_of_table(set, table, time).into_iter();
            rows.map(move |mut row| {
                // Files of earlier versions lack columns.
                row.retain(|_, value| !value.is_null());
                format!("{table} {}", Value::Object(row))
            })
        })
        .collect();
    all.sort();
    all
}

fn compact(place: &Place) -> crate::support::Ran {
    place.merge(["dataset", "compact", "set"])
}

#[cfg(unix)]
#[test]
fn small_files_are_put_together_and_a_run_that_grows_is_there_once() {
    let place = Place::new();
    for number in 1..=200 {
        let ticks = [u64::from(number) + 1, u64::from(number) + 5];
        place.write(format!("app.trace.{number}"), file(&run(number, number.into()), number.into(), &ticks));
    }
    let set = place.path("set");
    assert_eq!(compact(&place).status, Some(2), "there is no set");
    assert!(add(&place, &["app"]).err.contains("added 200 runs"));
    let before = all_rows(&set);
    // In the tables of records, of clocks and of runs.
    assert_eq!(files(&set).len(), 600);
    let ran = compact(&place);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let compacted = identities(&set);
    assert_eq!(compacted.len(), 3, "{compacted:?}");
    assert_eq!(all_rows(&set), before);
    let ran = compact(&place);
    assert!(ran.err.contains("put 0 files"), "{}", ran.err);
    assert_eq!(identities(&set), compacted);
    let ran = add(&place, &["app"]);
    assert!(
        ran.err.contains("added 0 runs") && ran.err.contains("; already in it: 200 of the chosen runs"),
        "{}",
        ran.err
    );
    assert_eq!(identities(&set), compacted);
    // A run that has grown is written again, and leaves the other files.
    place.write("app.trace.7", file(&run(7, 7), 7, &[8, 12, 20]));
    let ran = add(&place, &["app"]);
    assert!(ran.err.contains("added 1 run to "), "{}", ran.err);
    assert_eq!(files(&set).len(), 6);
    let grown = all_rows(&set);
    assert_eq!(grown.len(), before.len() + 1);
    let of_others = |rows: &[String]| -> Vec<String> {
        rows.iter().filter(|row| !row.contains("\"run\":\"00000070-7\"")).cloned().collect()
    };
    assert_eq!(of_others(&grown), of_others(&before));
    assert_eq!(compact(&place).status, Some(0));
    assert_eq!((files(&set).len(), &all_rows(&set)), (3, &grown));
    assert!(add(&place, &["app"]).err.contains("added 0 runs"));
    let query = "select count(*), count(distinct run) from 'set/records/**/*.parquet'";
    if let Some(rows) = asked(&place, query) {
        let records = grown.iter().filter(|row| row.starts_with("records")).count();
        assert_eq!(rows, json!([[records, 200]]));
    }
    assert!(place.names().iter().all(|name| !name.starts_with(".tracemerge")), "{:?}", place.names());
}

#[test]
fn compacted_sets_of_one_machine_are_copied_together() {
    let place = Place::new();
    let sets = ["first", "second"];
    for (set, numbers) in sets.iter().zip([1..=3, 4..=6]) {
        for number in numbers {
            let bytes = file(&run(number, number.into()), number.into(), &[u64::from(number) + 1]);
            place.write(format!("{set}.trace.{number}"), bytes);
        }
        let ran = place.merge(["dataset", "add", "--machine", "m-1", &format!("{set}.set"), set]);
        assert!(ran.err.contains("added 3 runs to "), "{}", ran.err);
        assert_eq!(place.merge(["dataset", "compact", &format!("{set}.set")]).status, Some(0));
    }
    let sets = sets.map(|set| place.path(format!("{set}.set")));
    let mut expected = [all_rows(&sets[0]), all_rows(&sets[1])].concat();
    expected.sort();
    let both = place.path("set");
    sets.iter().for_each(|set| copy(set, &both));
    assert_eq!((files(&both).len(), all_rows(&both)), (6, expected.clone()));
    let lines = |name: &str| {
        let ran = place.merge(["--all-runs", "-o", "-", name]);
        String::from_utf8(ran.out).unwrap().lines().filter(|line| line.contains(" : ")).count()
    };
    assert_eq!((lines("set"), lines("first"), lines("second")), (6, 3, 3));
    assert_eq!(compact(&place).status, Some(0));
    assert_eq!((files(&both).len(), all_rows(&both)), (3, expected));
}

/// Makes a set of run 1 and of others, and compacts it.
fn set_of_runs(place: &Place, name: &str, runs: &[(u32, &[u64])], is_compacted: bool) -> PathBuf {
    fs::create_dir(place.path(format!("{name}.traces"))).unwrap();
    for (number, ticks) in runs {
        let bytes = file(&run(*number, (*number).into()), (*number).into(), ticks);
        place.write(format!("{name}.traces/app.trace.{number}"), bytes);
    }
    let (set, traces) = (format!("{name}.set"), format!("{name}.traces"));
    let ran = place.merge(["dataset", "add", "--machine", "m-1", &set, &traces]);
    assert!(ran.status < Some(2), "{}", ran.err);
    if is_compacted {
        assert_eq!(place.merge(["dataset", "compact", &set]).status, Some(0));
    }
    place.path(set)
}

#[test]
fn a_run_that_two_sets_have_is_there_once_after_they_are_copied_together() {
    let (before, after) = ([2, 5], [2, 5, 9]);
    for (is_compacted, has_grown) in [
        ([true, false], false),
        ([true, false], true),
        ([false, true], true),
        ([true, true], false),
        ([true, true], true),
    ] {
        let place = Place::new();
        let newest = if has_grown { &after[..] } else { &before };
        let first = set_of_runs(&place, "first", &[(1, &before), (2, &[4]), (3, &[6])], is_compacted[0]);
        let second = set_of_runs(&place, "second", &[(1, newest), (4, &[8]), (5, &[9])], is_compacted[1]);
        let mut expected = all_rows(&second);
        let of_others = all_rows(&first).into_iter().filter(|row| !row.contains("\"run\":\"00000010-1\""));
        expected.extend(of_others);
        expected.sort();
        let sets = [[&first, &second], [&second, &first]];
        for sets in sets {
            let set = place.path("set");
            sets.iter().for_each(|from| copy(from, &set));
            // A reader names two files.
            let ran = place.merge(["-o", "-", "set"]);
            let case = format!("{is_compacted:?} {has_grown} {}", ran.err);
            assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{case}");
            for words in [
                "the data set has run 00000010-1 twice, in ",
                "/compact-",
                ".parquet and in ",
                "'tracemerge dataset compact'",
            ] {
                assert!(ran.err.contains(words), "{case}");
            }
            let ran = compact(&place);
            assert!(ran.err.contains("removed copies of 1 run"), "{case} {}", ran.err);
            assert_eq!((ran.status, all_rows(&set)), (Some(0), expected.clone()), "{case}");
            assert!(!compact(&place).err.contains("removed"), "{case}");
            let ran = place.merge(["-o", "-", "set"]);
            let text = String::from_utf8(ran.out).unwrap();
            let lines = text.lines().filter(|line| line.contains(" : ")).count();
            assert_eq!((ran.status.unwrap() < 2, lines), (true, newest.len() + 4), "{case} {}", ran.err);
            assert!(add(&place, &["second.traces"]).err.contains("added 0 runs"), "{case}");
            assert_eq!(all_rows(&set), expected, "{case}");
            fs::remove_dir_all(&set).unwrap();
        }
        // Its addition in a newer state replaces all copies.
        [&first, &second].into_iter().for_each(|from| copy(from, &place.path("set")));
        place.write("second.traces/app.trace.1", file(&run(1, 1), 1, &[2, 5, 9, 11]));
        assert!(add(&place, &["second.traces"]).err.contains("added 1 run "));
        let rows = all_rows(&place.path("set"));
        assert_eq!(rows.len(), expected.len() + 4 - newest.len(), "{is_compacted:?} {has_grown}");
        assert!(place.merge(["-o", "-", "set"]).status < Some(2));
    }
}

#[test]
fn rows_of_two_states_of_a_run_are_refused_until_it_is_added_again() {
    let place = Place::new();
    let day = 86_400_000_000_000 / 250;
    let (before, after) = ([2, 5], [2, 5, day + 7]);
    let old = set_of_runs(&place, "old", &[(1, &before)], false);
    for is_compacted in [false, true] {
        let set = place.path("set");
        let traces = place.path("new.traces");
        fs::create_dir(&traces).unwrap();
        // A tick is 250 ns.
        let lines: Vec<u8> = after.iter().flat_map(|ticks| line(*ticks, 1, &format!("at {ticks}"))).collect();
        place.write("new.traces/app.trace.1", crate::support::whole_file(&run(1, 1), 1, "main", &lines));
        let other =
            Run { wall: Wall(run(6, 1).wall.0 + 86_400_000_000_000), boot: b"other".to_vec(), ..run(6, 1) };
        place.write("new.traces/app.trace.6", file(&other, 6, &[2]));
        add(&place, &["new.traces"]);
        if is_compacted {
            compact(&place);
        }
        let expected = all_rows(&set);
        // The file in the table of runs is now that of the older state.
        copy(&old, &set);
        for args in [&["-o", "-", "set"][..], &["dataset", "compact", "set"]] {
            let ran = place.merge(args);
            assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{}", ran.err);
            for words in [
                " and runs/",
                "have rows of different states of run 00000010-1",
                "dataset add",
                "into a new directory",
            ] {
                assert!(ran.err.contains(words), "{}", ran.err);
            }
        }
        assert!(add(&place, &["new.traces"]).err.contains("added 1 run "));
        let found = all_rows(&set);
        assert_eq!(found, expected);
        assert!(place.merge(["-o", "-", "set"]).status < Some(2));
        fs::remove_dir_all(&set).unwrap();
        fs::remove_dir_all(&traces).unwrap();
    }
}

#[test]
fn a_copy_of_a_file_under_another_name_is_refused_until_a_compaction_removes_it() {
    let place = Place::new();
    set_of_runs(&place, "old", &[(1, &[2, 5]), (2, &[4])], false);
    fs::rename(place.path("old.set"), place.path("set")).unwrap();
    let set = place.path("set");
    let expected = all_rows(&set);
    for name in ["copy-of-it", "00000010-1-7", "00000010-1"] {
        for table in ["records", "runs"] {
            let table = set.join(table);
            let all = files(&table);
            let own = all.iter().find(|name| name.ends_with("/00000010-1-0.parquet")).unwrap();
            let copied = table.join(own).with_file_name(format!("{name}.parquet"));
            fs::copy(table.join(own), &copied).unwrap();
            let ran = place.merge(["report", "set"]);
            assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{name} {}", ran.err);
            assert!(ran.err.contains("the data set has run 00000010-1 twice, in "), "{}", ran.err);
            assert!(ran.err.contains(&format!("/{name}.parquet and in ")), "{}", ran.err);
            assert!(compact(&place).err.contains("removed copies of 1 run"));
            assert_eq!(all_rows(&set), expected);
            fs::remove_dir_all(&set).unwrap();
            add_all(&place, "old.traces");
        }
    }
}

/// Adds the runs of traces to a new set, and checks that each was added.
fn add_all(place: &Place, traces: &str) {
    let ran = add(place, &[traces]);
    assert!(ran.status < Some(2) && ran.err.contains("added "), "{}", ran.err);
}

#[test]
fn a_file_that_is_missing_is_named_unless_a_whole_day_of_its_table_is() {
    let place = Place::new();
    for is_compacted in [false, true] {
        set_of_runs(&place, "old", &[(1, &[2, 5]), (2, &[4]), (3, &[6])], is_compacted);
        fs::rename(place.path("old.set"), place.path("set")).unwrap();
        let set = place.path("set");
        // A run of the same day, which is not compacted.
        fs::create_dir(place.path("new.traces")).unwrap();
        place.write("new.traces/app.trace.4", file(&run(4, 4), 4, &[7]));
        add_all(&place, "new.traces");
        let ran = place.merge(["--all-runs", "-o", "-", "set"]);
        assert!(ran.status < Some(2), "{}", ran.err);
        let records = set.join("records");
        let all = files(&records);
        assert_eq!(all.len(), if is_compacted { 2 } else { 4 }, "{all:?}");
        for name in &all {
            let removed = fs::read(records.join(name)).unwrap();
            fs::remove_file(records.join(name)).unwrap();
            let ran = place.merge(["report", "set"]);
            assert_eq!((ran.status, &ran.out[..]), (Some(2), &b""[..]), "{}", ran.err);
            let named = if name.contains("compact-") {
                "records/day="
            } else {
                &format!("records/{name}, which runs/")
            };
            assert!(ran.err.contains(&format!("the data set lacks {named}")), "{}", ran.err);
            fs::write(records.join(name), removed).unwrap();
        }
        assert!(place.merge(["--all-runs", "-o", "-", "set"]).status < Some(2));
        fs::remove_dir_all(records.join(all.first().unwrap().split('/').next().unwrap())).unwrap();
        let ran = place.merge(["--all-runs", "-o", "-", "set"]);
        assert!(!ran.err.contains("lacks"), "{}", ran.err);
        for folder in ["set", "old.traces", "new.traces"] {
            fs::remove_dir_all(place.path(folder)).unwrap();
        }
    }
}

#[test]
fn every_table_is_the_same_after_small_files_are_put_together() {
    let all = everything(5_000);
    add(&all.place, &["app"]);
    let set = all.place.path("set");
    let before = all_rows(&set);
    let number = files(&set).len();
    let ran = compact(&all.place);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(files(&set).len() < number, "{number}");
    assert_eq!(all_rows(&set), before);
}

#[test]
fn a_day_that_is_not_over_is_left_unless_it_has_many_files() {
    let place = Place::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let tomorrow = Wall(now.as_nanos() as u64 + 86_400_000_000_000);
    let write = |number: u32| {
        let of_run = Run { wall: tomorrow, ..run(number, 1) };
        place.write(format!("app.trace.{number}"), file(&of_run, number.into(), &[2]));
    };
    (1..=3).for_each(write);
    add(&place, &["app"]);
    let set = place.path("set");
    assert_eq!((compact(&place).status, files(&set).len()), (Some(0), 9));
    (4..=110).for_each(write);
    add(&place, &["app"]);
    assert_eq!(compact(&place).status, Some(0));
    let of_records = files(&set.join("records")).len();
    assert!(of_records < 50, "{of_records}");
    assert_eq!(messages(&set).len(), 110);
}

#[test]
fn a_set_of_an_earlier_version_is_read_and_one_of_a_later_version_is_refused() {
    let place = Place::new();
    place.write("app.trace.9", file(&run(5, 1), 9, &[3, 7]));
    add(&place, &["app"]);
    let set = place.path("set/runs");
    let path = set.join(files(&set).first().unwrap());
    let bytes = fs::read(&path).unwrap();
    let key = b"tracer.schema";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    // The value is a text of one byte, behind its type and its length.
    assert_eq!((bytes[at + 1], bytes[at + 2]), (1, b'1'));
    for (version, text) in [(b'0', "added 0 runs"), (b'2', "its schema has version 2")] {
        let mut other = bytes.clone();
        other[at + 2] = version;
        fs::write(&path, &other).unwrap();
        let ran = add(&place, &["app"]);
        assert!(ran.err.contains(text), "{}", ran.err);
        assert_eq!(ran.status, Some(if version == b'0' { 0 } else { 2 }), "{}", ran.err);
        assert_eq!(fs::read(&path).unwrap(), other);
    }
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

#[test]
fn a_kept_set_of_each_version_is_read_as_by_that_version() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kept");
    for version in 1..=1 {
        let place = Place::new();
        let of_version = kept.join(format!("schema-{version}"));
        copy(&of_version.join("set"), &place.path("set"));
        let tables: BTreeSet<String> =
            files(&place.path("set")).iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
        assert_eq!(tables.len(), 8, "{tables:?}");
        let expected = fs::read_to_string(of_version.join("merged")).unwrap();
        let ran = place.merge(["-o", "-", "set"]);
        assert!(ran.status < Some(2), "{}", ran.err);
        assert_eq!(String::from_utf8(ran.out).unwrap(), expected);
        // Its files and new ones become one.
        let mut rows = all_rows(&place.path("set"));
        let later = Wall(run(5, 1).wall.0 + 6 * 86_400_000_000_000);
        place.write("new.trace.5", file(&Run { wall: later, ..run(5, 1) }, 5, &[2, 3]));
        assert!(add(&place, &["new"]).err.contains("added 1 run"));
        let added = all_rows(&place.path("set"));
        assert_eq!(compact(&place).status, Some(0));
        assert_eq!(all_rows(&place.path("set")), added);
        rows.retain(|row| !added.contains(row));
        assert_eq!(rows, [""; 0]);
    }
}

#[test]
fn a_run_over_midnight_has_a_file_in_each_day() {
    let place = Place::new();
    // A tick is 250 ns.
    let begin = run(5, 1).wall.0 / 1_000_000_000;
    let until_midnight = 86_400 - begin % 86_400;
    let lines: Vec<u8> = [1, until_midnight * 4_000_000 + 1]
        .iter()
        .flat_map(|ticks| line(1 + ticks, 9, &format!("at {ticks}")))
        .collect();
    let of_run = run(5, 1);
    let bytes = crate::support::whole_file(&of_run, 9, "main", &lines);
    place.write("app.trace.9", bytes);
    let ran = add(&place, &["app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let days: BTreeSet<String> = files(&place.path("set/records"))
        .iter()
        .map(|name| name.split('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(days.len(), 2, "{days:?}");
    assert_eq!(messages(&place.path("set")).len(), 2);
}

#[test]
fn a_directory_with_other_files_is_no_set() {
    let place = Place::with_one_file();
    fs::create_dir(place.path("set")).unwrap();
    place.write("set/precious", "precious");
    let ran = add(&place, &["app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("other files ('precious'), not a data set"), "{}", ran.err);
    let ran = place.merge(["dataset", "add", "--machine", "../x", "other", "app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("not a name for a machine"), "{}", ran.err);
    assert_eq!(place.names(), ["app.trace.9", "set"]);
}

/// Adds runs by four writers that are killed at random, several times, and then by one that is not.
#[cfg(unix)]
fn runs_added_by_killed_writers(runs: u32, kills: u32) {
    use std::process::Stdio;
    use std::time::Duration;
    let place = Place::new();
    let mut expected = BTreeMap::new();
    for number in 1..=runs {
        let of_run = run(number, number.into());
        let ticks: Vec<u64> = (1..50).map(|tick| u64::from(number) + tick).collect();
        // Four directories, which the writers add in turns.
        let folder = PathBuf::from(format!("traces{}", number % 4));
        fs::create_dir_all(place.path(&folder)).unwrap();
        place.write(folder.join(format!("app{number}.trace.{number}")), file(&of_run, number.into(), &ticks));
        for line in 0..ticks.len() {
            let name = format!("{:08x}-{number}", number * 16);
            expected.insert((name, format!("line {line} of {number}")), 1);
        }
    }
    let writer = |folder: u32| {
        let mut command = place.command();
        command.args(["dataset", "add", "-q", "--machine", "m-1", "set", &format!("traces{folder}")]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let compactor = || {
        let mut command = place.command();
        command.args(["dataset", "compact", "-q", "set"]);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..kills {
        let mut writers = vec![compactor().spawn().unwrap()];
        writers.extend((0..4).map(|folder| writer(folder).spawn().unwrap()));
        for writer in &mut writers {
            std::thread::sleep(Duration::from_micros(random() % 60_000));
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
    }
    let mut last: Vec<_> = (0..4).map(|folder| writer(folder).spawn().unwrap()).collect();
    let mut compacting = compactor().spawn().unwrap();
    assert!(last.iter_mut().all(|writer| writer.wait().unwrap().code() < Some(2)));
    compacting.wait().unwrap();
    assert_eq!(messages(&place.path("set")), expected);
    assert!(compactor().status().unwrap().success());
    assert_eq!(messages(&place.path("set")), expected);
    assert_eq!(rows_of_table(&place.path("set"), "runs", "begin").len(), runs as usize);
    let beside: Vec<String> = place.names().into_iter().filter(|name| !name.starts_with("traces")).collect();
    assert_eq!(beside, [".set.lock", "set"]);
}

#[cfg(unix)]
#[test]
fn runs_of_four_writers_that_are_killed_are_there_once() {
    runs_added_by_killed_writers(20, 6);
}

#[cfg(unix)]
#[test]
#[ignore = "takes minutes; run it after a change of the way in which sets are changed"]
fn a_thousand_runs_of_four_writers_that_are_killed_are_there_once() {
    runs_added_by_killed_writers(1_000, 200);
}

/// The types of columns in the documentation, by the name of the table.
fn documented(table: &str) -> Vec<(String, String, bool)> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats.md");
    let document = fs::read_to_string(document).unwrap();
    let (_, behind) = document.split_once(&format!("| column of `{table}` |")).unwrap();
    let lines = behind.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |cells: &[&str], number: usize| cells[number].trim().trim_matches('`').to_owned();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (cell(&cells, 1), cell(&cells, 2), cell(&cells, 3) == "yes")
        })
        .collect()
}

#[test]
fn the_documented_columns_are_those_of_the_files() {
    let all = everything(2_000);
    let waiting = format!(
        "{:016x}-00000099 ! lock wait id=1 for=lock made=\"a:1\" at=\"a:2\" holder=0 since=\"?:0\"\n",
        9
    );
    let of_run = run(99, 1);
    all.place.write("app.trace.99", [header(&of_run, 99), waiting.into_bytes()].concat());
    add(&all.place, &["app"]);
    for table in ["records", "values", "calls", "spans", "waits", "losses", "clocks", "runs"] {
        let folder = all.place.path("set").join(table);
        let path = folder.join(files(&folder).first().unwrap());
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata();
        let keys = metadata.key_value_metadata().unwrap();
        assert!(keys.iter().any(|pair| pair.key == "tracer.schema" && pair.value.as_deref() == Some("1")));
        let columns = metadata.schema_descr().columns().iter();
        let found: Vec<(String, String, bool)> = columns
            .map(|of| {
                let of_type = format!("{:?} {:?}", of.physical_type(), of.logical_type_ref());
                let sql = match &of_type[..] {
                    "INT64 Some(Integer { bit_width: 64, is_signed: true })" => "bigint",
                    "INT64 Some(Timestamp { is_adjusted_to_u_t_c: true, unit: MICROS })" => "timestamptz",
                    "BYTE_ARRAY Some(String)" => "varchar",
                    "DOUBLE None" => "double",
                    "BOOLEAN None" => "boolean",
                    other => panic!("{other}"),
                };
                (of.name().to_owned(), sql.to_owned(), of.max_def_level() > 0)
            })
            .collect();
        assert_eq!(found, documented(table), "{table}");
    }
}
