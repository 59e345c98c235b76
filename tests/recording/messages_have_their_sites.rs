//! Raw files record the site of each message of `trace!`. `show` prints it, `stats` counts by it, and `--module`
//! and `--site` select by it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;
use support::merges::tracemerge;
use support::{APP, Scenario, Traced};
use trace_format::line::{Kind, Line};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

fn traced(program: &str, format: &str) -> Traced {
    Scenario::new(SCENARIO, &[program]).env("TRACER_FORMAT", format).run().succeeded()
}

/// Runs the command on the application; returns its stdout and its stderr.
fn command(traced: &Traced, args: &[&str]) -> (String, String) {
    let args = args.iter().copied().chain([APP]).collect::<Vec<_>>();
    let mut command = tracemerge(SCENARIO, traced.runtime.path(), args);
    let ran = command.current_dir(traced.directory.path()).output().expect("the command can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (text(ran.stdout), text(ran.stderr))
}

/// The place in the source that a message comes from, as the program printed it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    place: String,
    module: String,
    function: String,
    /// The first word of the message.
    word: String,
}

fn said(traced: &Traced) -> Vec<Said> {
    let line = |line: &str| {
        let [place, module, function, text] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let word = text.split(' ').next().expect("a word").to_owned();
        let file = place.rsplit('/').next().expect("a file").to_owned();
        Said { place: file, module: module.to_owned(), function: function.to_owned(), word }
    };
    traced.stdout().lines().map(line).collect()
}

/// Returns the ticks, the thread and the first line of text of each message of a merge, in order.
fn merged(traced: &Traced) -> Vec<(u64, u64, String)> {
    let (text, _) = command(traced, &["-o", "-"]);
    let lines = text.lines().map(|line| Line::parse(line.as_bytes()).expect("a line"));
    let messages = lines.filter(|line| line.kind == Kind::Message);
    let text = |line: &Line<'_>| String::from_utf8(line.payload.to_vec()).expect("UTF-8");
    messages.map(|line| (line.key.ticks.0, line.key.tid, text(&line))).collect()
}

#[test]
fn every_message_is_shown_with_its_site() {
    // With this interval, the flusher often runs just when a site is used for the first time.
    for _ in 0..10 {
        let traced = Scenario::new(SCENARIO, &["places"])
            .env("TRACER_FORMAT", "raw")
            .env("TRACER_FLUSH_MS", "1")
            .run()
            .succeeded();
        let (shown, _) = command(&traced, &["show", "--columns", "site,module,function"]);
        let records = shown.lines().filter(|line| !line.starts_with(' ')).collect::<Vec<_>>();
        let mut shown: Vec<Said> = Vec::new();
        for record in &records {
            let [place, module, function, word, ..] = record.split_whitespace().collect::<Vec<_>>()[..]
            else {
                panic!("{record:?}")
            };
            let function = function.rsplit("::").next().expect("a name").to_owned();
            shown.push(Said {
                place: place.to_owned(),
                module: module.to_owned(),
                function,
                word: word.to_owned(),
            });
        }
        assert_eq!(shown, said(&traced), "{records:#?}");
    }
}

#[test]
fn show_prints_thread_names_and_aligned_messages() {
    let traced = traced("places", "raw");
    let (shown, _) = command(&traced, &["show"]);
    let merged = merged(&traced);
    let clerks: BTreeSet<u64> = merged.iter().filter(|m| m.2.starts_with("serves")).map(|m| m.1).collect();
    assert_eq!(clerks.len(), 4);
    let mut column = None;
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    // The tracer's own waits are shown, too.
    let lines =
        || shown.lines().filter(|line| !line.contains("the tracer made ") && !line.contains("# stall "));
    let records: Vec<&str> = lines().filter(|line| !line[..20].trim().is_empty()).collect();
    assert_eq!(records.len(), merged.len(), "{shown}");
    for (record, (_, tid, text)) in records.iter().zip(&merged) {
        let at = record.find(text.as_str()).expect("the text");
        let column_here = record[..at].chars().count();
        assert_eq!(*column.get_or_insert(column_here), column_here, "{shown}");
        assert_eq!(record[..16].trim().split('.').nth(1).map(str::len), Some(9), "{record}");
        names.insert(*tid, record[16..at].trim().to_owned());
    }
    let mut expected: Vec<String> = vec!["main".to_owned(), "thread 1".to_owned()];
    // `show` shortens names that are longer than the column.
    let archivist = "the archivist of the ce\u{2026}";
    expected.push(archivist.to_owned());
    let named: Vec<&u64> =
        clerks.iter().filter(|&tid| ![archivist, "thread 1"].contains(&&*names[tid])).collect();
    expected.extend(named.iter().map(|tid| format!("clerk {tid}")));
    expected.sort();
    let mut found: Vec<String> = names.into_values().collect();
    found.sort();
    assert_eq!(found, expected, "{shown}");
    let (text, _) = command(&traced, &["-o", "-"]);
    assert!(text.contains("# thread name=\"the archivist of the cellar\" "), "{text}");
    // The second line of a message begins in the column of the first line, after spaces only.
    let continued: Vec<&str> = shown.lines().filter(|line| line.contains("in Point")).collect();
    assert_eq!(continued.len(), 30);
    assert!(continued.iter().all(|line| line.find("in Point") == column), "{shown}");
    assert!(!lines().any(|line| line.contains('#')), "{shown}");
}

#[test]
fn stats_match_the_merged_lines() {
    let traced = traced("places", "raw");
    let (json, _) = command(&traced, &["stats", "--json"]);
    let stats: Value = serde_json::from_str(&json).expect("JSON");
    let merged = merged(&traced);
    let word = |text: &str| text.split(' ').next().expect("a word").to_owned();
    let (mut counts, mut next): (HashMap<String, u64>, HashMap<u64, String>) =
        (HashMap::new(), HashMap::new());
    let mut threads: HashMap<String, BTreeSet<u64>> = HashMap::new();
    let mut measured: HashMap<String, u64> = HashMap::new();
    for (_, tid, text) in &merged {
        *counts.entry(word(text)).or_default() += 1;
        threads.entry(word(text)).or_default().insert(*tid);
        if let Some(before) = next.insert(*tid, word(text)) {
            *measured.entry(before).or_default() += 1;
        }
    }
    let sorts = stats["by_sort"].as_array().expect("sorts");
    assert_eq!((sorts.len(), &stats["messages"]), (counts.len(), &Value::from(merged.len())), "{json}");
    let places: BTreeMap<String, Said> =
        said(&traced).into_iter().map(|said| (said.word.clone(), said)).collect();
    for sort in sorts {
        let message = word(sort["message"].as_str().expect("a text"));
        assert_eq!(sort["count"], counts[&message], "{json}");
        assert_eq!(sort["threads"], threads[&message].len(), "{json}");
        assert_eq!(sort["measured"], measured.get(&message).copied().unwrap_or(0), "{json}");
        let place = sort["has_site"].as_bool().expect("a flag").then(|| {
            let file = sort["file"].as_str().expect("a file").rsplit('/').next().expect("a name");
            format!("{file}:{}", sort["line"])
        });
        assert_eq!(place.as_ref(), places.get(&message).map(|said| &said.place), "{json}");
    }
    let welcome =
        sorts.iter().find(|sort| sort["message"] == "welcome {client} of {weight} kg").expect("a sort");
    let range = |name: &str, min: f64, max: f64| serde_json::json!({ "name": name, "min": min, "max": max });
    assert_eq!(welcome["arguments"], Value::from(vec![range("client", 0., 29.), range("weight", 50., 56.)]));
    let served = sorts.iter().find(|sort| sort["message"] == "served {client}\nin {:?}").expect("a sort");
    assert_eq!(served["arguments"], Value::from(vec![range("client", 0., 29.)]), "{json}");
}

#[test]
fn a_selection_by_site_equals_the_selection_by_its_text() {
    let traced = traced("places", "raw");
    let served = said(&traced).into_iter().find(|said| said.word == "served").expect("a place").place;
    for (option, value, pattern) in [
        ("--module", "scenario::sites::desk", "^welcome"),
        ("--module", "scenario::sites", "^(welcome|serves|served)"),
        ("--site", &*served, "^served"),
        ("--site", "sites.rs", "^(welcome|serves|served)"),
    ] {
        for more in [&[][..], &["--last", "7"], &["--head", "7"], &["--time", "wall"]] {
            let by = |selects: [&str; 2]| command(&traced, &[&selects, more].concat()).0;
            let found = by([option, value]);
            assert_eq!(found, by(["--grep", pattern]), "{option} {value}");
            assert!(!found.is_empty());
        }
    }
    for (option, value) in [("--module", "scenario::site"), ("--site", "ites.rs")] {
        assert_eq!(command(&traced, &[option, value]).0, "");
    }
}

#[test]
fn commands_report_that_text_files_have_no_sites() {
    let traced = traced("places", "text");
    let (found, said) = command(&traced, &["--module", "scenario"]);
    assert_eq!(found, "");
    assert!(said.contains("text") && said.contains("TRACER_FORMAT=raw"), "{said}");
    let (shown, said) = command(&traced, &["show"]);
    let of_others = |line: &str| !line.contains("waited");
    assert!(shown.contains("  clerk ") && !said.lines().any(of_others), "{said}");
    let (json, said) = command(&traced, &["stats", "--json"]);
    assert!(said.contains("TRACER_FORMAT=raw"), "{said}");
    let stats: Value = serde_json::from_str(&json).expect("JSON");
    let sorts = stats["by_sort"].as_array().expect("sorts");
    assert!(sorts.iter().all(|sort| sort["has_site"] == false));
    assert!(sorts.iter().any(|sort| sort["message"] == "welcome # of # kg" && sort["count"] == 30), "{json}");
}

#[test]
fn killed_forked_and_restarted_runs_have_sites() {
    let killed = Scenario::new(SCENARIO, &["sites-killed"]).env("TRACER_FORMAT", "raw").run();
    let second = tempfile::tempdir().expect("a directory");
    let path = second.path().to_str().expect("UTF-8");
    let restarted = Scenario::new(SCENARIO, &["sites-restarted", path]).env("TRACER_FORMAT", "raw").run();
    let mut all = vec![(&killed, 1000), (&restarted, 2)];
    let forked = cfg!(unix).then(|| traced("sites-forked", "raw"));
    all.extend(forked.as_ref().map(|forked| (forked, 101)));
    for (traced, least) in all {
        let (shown, _) = command(traced, &["show", "--columns", "site"]);
        // The tracer's own waits are shown without a site.
        let lines =
            || shown.lines().filter(|line| !line.contains("the tracer made ") && !line.contains("# stall "));
        assert!(lines().count() >= least, "{shown}");
        assert!(lines().all(|line| line.starts_with("sites.rs:")), "{shown}");
    }
    let again = Path::new(SCENARIO).file_name().expect("a name");
    let mut command = tracemerge(SCENARIO, restarted.runtime.path(), ["show", "--columns", "site"]);
    let ran = command.arg(again).current_dir(path).env("TRACER_DIR", path).output().expect("it can be run");
    let shown = String::from_utf8(ran.stdout).expect("UTF-8");
    let lines =
        || shown.lines().filter(|line| !line.contains("the tracer made ") && !line.contains("# stall "));
    assert!(lines().count() >= 2 && lines().all(|line| line.starts_with("sites.rs:")), "{shown}");
}
