//! The messages of `log` are in the trace: with the text that `env_logger` makes, with their values, levels, targets
//! and places; as the filter says; from all threads; and after a kill.

#![allow(clippy::expect_used, reason = "a failure in a test fails it")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::site_records::{SiteRecord, site_records};
use support::{Scenario, Traced, kills, memory, read_directory, tracemerge};
use trace_format::record::RecordKind;
use trace_format::sites::{Level, Site, SiteKind};

/// The file name of the program that is traced.
const SPEAKER: &str = if cfg!(windows) { "log_speaker.exe" } else { "log_speaker" };

fn speaker() -> PathBuf {
    let mut path = std::env::current_exe().expect("this program");
    path.pop();
    path.pop();
    path.join("examples").join(SPEAKER)
}

fn scenario(args: &[&str]) -> Scenario {
    Scenario::new(speaker(), args)
}

fn run(args: &[&str]) -> Traced {
    let traced = scenario(args).run().succeeded();
    traced.assert_whole();
    traced
}

/// Returns a message as `env_logger` writes it: the level has five places, and the text follows a bracket.
fn as_env_logger(message: &str) -> String {
    let (level, rest) = message.split_once(' ').expect("a level");
    let (target, rest) = rest.split_once(": ").expect("a target");
    format!("[{level:<5} {target}] {rest}")
}

#[test]
fn every_message_equals_that_of_env_logger() {
    for format in ["text", "raw"] {
        let traced = scenario(&["everything"]).env("TRACER_FORMAT", format).run().succeeded();
        traced.assert_whole();
        let said: Vec<String> = traced.messages().iter().map(|message| as_env_logger(message)).collect();
        assert_eq!(said.join("\n") + "\n", traced.stdout(), "{format}");
        assert!(said.len() > 30);
    }
}

#[test]
fn a_level_and_a_target_select_messages_and_are_columns() {
    let traced = scenario(&["everything"]).env("TRACER_FORMAT", "raw").run().succeeded();
    let shown = |options: &[&str]| {
        let (app, out) = (traced.directory.path().join(SPEAKER), traced.directory.path().join("out"));
        let words = ["show", "-q", "--columns", "level,target"].iter().chain(options);
        let words: Vec<&OsStr> =
            words.map(OsStr::new).chain([app.as_ref(), "-o".as_ref(), out.as_ref()]).collect();
        assert_eq!(tracemerge(&words), 0, "{options:?}");
        std::fs::read_to_string(out).expect("what is shown")
    };
    let messages = traced.messages();
    let of = |levels: &[&str]| {
        let is_one = |message: &&String| levels.iter().any(|level| message.starts_with(level));
        messages.iter().filter(is_one).count()
    };
    // Lines of a message after its first one have no columns.
    let begin = |shown: &str, level: &str| shown.lines().filter(|line| line.starts_with(level)).count();
    let urgent = shown(&["--level", "warn"]);
    assert!(of(&["ERROR"]) > 0 && of(&["WARN"]) > 0);
    assert_eq!(begin(&urgent, "error  log_speaker "), of(&["ERROR log_speaker"]), "{urgent}");
    assert_eq!(begin(&urgent, "warn  "), of(&["WARN"]), "{urgent}");
    assert_eq!(begin(&urgent, "info") + begin(&urgent, "debug") + begin(&urgent, "trace"), 0, "{urgent}");
    let all = shown(&[]);
    assert_eq!(begin(&all, "info"), of(&["INFO"]), "{all}");
    let of_target = shown(&["--target", "log_speaker", "--level", "trace"]);
    let elsewhere = messages.iter().filter(|message| !message.contains(" log_speaker")).count();
    assert!(elsewhere > 0, "{messages:?}");
    let levels = ["error", "warn", "info", "debug", "trace"];
    let selected: usize = levels.iter().map(|level| begin(&of_target, level)).sum();
    assert_eq!(selected + elsewhere, messages.len(), "{of_target}");
}

/// Returns the records of a run of the program that writes raw files.
fn records(args: &[&str]) -> Vec<SiteRecord> {
    let traced = scenario(args).env("TRACER_FORMAT", "raw").run().succeeded();
    traced.assert_whole();
    site_records(traced.directory.path())
}

/// Returns the site of the records whose values have these names.
fn site_with<'a>(records: &'a [SiteRecord], names: &[&str]) -> &'a Site {
    let sites = records.iter().filter_map(|record| record.site.as_ref());
    sites.into_iter().find(|site| site.names == names).unwrap_or_else(|| panic!("no site with {names:?}"))
}

#[test]
fn sites_have_level_target_place_names_and_types_from_the_first_record_on() {
    let records = records(&["everything"]);
    assert!(records.iter().all(|record| record.site.is_some()), "a record without its site");
    let site = site_with(&records, &["a", "b", "c"]);
    assert_eq!((site.kind, site.level), (SiteKind::Message, Level::Info));
    assert_eq!((&*site.target, &*site.module), ("log_speaker", "log_speaker"));
    assert!(site.file.ends_with("log_speaker.rs") && site.line > 0, "{site:?}");
    assert_eq!(site.template, "INFO log_speaker: integers a={a} b={b} c={c}");
    // The letters of i64 and u64 in descriptors; those of others follow.
    assert_eq!(site.descriptor, b"xxy");
    assert_eq!(site_with(&records, &["message", "big", "bigger"]).descriptor, b"eno");
    assert_eq!(site_with(&records, &["x", "y", "z"]).descriptor, b"ddd");
    assert_eq!(site_with(&records, &["yes", "no", "letter"]).descriptor, b"bbc");
    assert_eq!(site_with(&records, &["name", "owned"]).descriptor, b"ee");
    assert_eq!(site_with(&records, &["n"]).target, "another::target");
    let levels: BTreeSet<_> = records.iter().filter_map(|record| Some(record.site.as_ref()?.level)).collect();
    assert_eq!(levels, [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace].into());
}

#[test]
fn values_are_copied_at_sites_that_readers_know() {
    let records = records(&["everything"]);
    let of = |names: &[&str]| {
        let is_it = |record: &&SiteRecord| record.site.as_ref().is_some_and(|site| site.names == names);
        records.iter().filter(is_it).map(|record| (record.kind, &*record.payload)).collect::<Vec<_>>()
    };
    let integers = of(&["a", "b", "c"]);
    assert_eq!(integers[0].0, RecordKind::Message, "at first the text is made at the call");
    let values = [1i64.to_le_bytes(), (-1i64).to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    assert_eq!(integers[1..], [(RecordKind::Captured, &*values)]);
    let long = of(&["message", "long"]);
    assert!(long.iter().all(|(kind, _)| *kind == RecordKind::Message), "what is long is always formatted");
}

#[test]
fn a_display_that_logs_makes_earlier_messages() {
    let traced = run(&["nested"]);
    let one = ["inside: talked 0 depth=1", "inside: talked 1 depth=2", "outside: talked 2"];
    let expected: Vec<_> =
        [one, one].concat().iter().map(|text| format!("INFO log_speaker: {text}")).collect();
    assert_eq!(traced.messages(), expected);
}

#[test]
fn a_panicking_display_spoils_only_its_own_value() {
    let messages = run(&["panics"]).messages();
    let expected = ["INFO log_speaker: it before <panicked> after=1", "INFO log_speaker: going on"];
    let ours: Vec<_> = messages.iter().filter(|text| text.starts_with("INFO")).collect();
    assert_eq!(ours, expected.iter().collect::<Vec<_>>());
}

#[test]
fn the_filter_decides_by_target_and_level_and_the_maximum_level_follows() {
    let filtered = |filter: &str| {
        let traced = scenario(&["filtered"]).env("TRACER_FILTER", filter).run().succeeded();
        (traced.stdout().lines().next().expect("a line").to_owned(), traced.messages())
    };
    let all = |targets: &[&str], levels: &[&str]| -> Vec<String> {
        let of = |target: &&str| {
            let line = |level: &&str| match *level {
                "DEBUG" => format!("DEBUG {target}: debug told"),
                level => format!("{level} {target}: {}", level.to_lowercase()),
            };
            levels.iter().map(line).collect::<Vec<_>>()
        };
        targets.iter().flat_map(of).collect()
    };
    let every = ["app", "app::net", "other"];
    assert_eq!(filtered(""), ("max TRACE".into(), all(&every, &["ERROR", "INFO", "DEBUG"])));
    assert_eq!(filtered("info"), ("max INFO".into(), all(&every, &["ERROR", "INFO"])));
    assert_eq!(filtered("app=debug"), ("max DEBUG".into(), all(&every[..2], &["ERROR", "INFO", "DEBUG"])));
    let mixed = [all(&["app"], &["ERROR", "INFO"]), all(&["other"], &["ERROR"])].concat();
    assert_eq!(filtered("error,app=info,app::net=off"), ("max INFO".into(), mixed));
    assert_eq!(filtered("off"), ("max OFF".into(), vec![]));
}

#[test]
fn disabled_records_are_not_formatted() {
    let traced = scenario(&["filtered"]).env("TRACER_FILTER", "trace,other=info").run().succeeded();
    assert_eq!(traced.stdout(), "max TRACE\nformatted\nformatted\n", "those of two targets");
    let traced = scenario(&["filtered"]).without("TRACER_ENABLE").run().succeeded();
    assert_eq!((traced.stdout().as_str(), traced.files.len()), ("max OFF\n", 0));
}

#[test]
fn the_maximum_level_follows_the_switch() {
    let scenario = scenario(&["switched"]).without("TRACER_ENABLE").env("SPEAKER_ENABLE", "1");
    let traced = scenario.env("TRACER_FILTER", "info").run().succeeded();
    assert_eq!(traced.stdout(), "max OFF\nmax INFO\nformatted\nmax OFF\nformatted\n");
    let said = traced.messages();
    assert_eq!(said, ["INFO log_speaker: said: told", "INFO log_speaker: said again: told"]);
}

#[test]
fn another_logger_gets_its_selection_and_the_trace_gets_all() {
    let traced = run(&["both"]);
    let said = ["max TRACE", "max DEBUG", "INFO both", "INFO only the other"];
    assert_eq!(traced.stdout().lines().collect::<Vec<_>>(), said);
    let expected =
        ["INFO wanted: both", "TRACE wanted: only the trace", "INFO unwanted: only the trace, too"];
    assert_eq!(traced.messages(), expected);
}

#[test]
fn a_second_logger_is_an_error_and_the_first_goes_on() {
    let traced = run(&["twice"]);
    assert_eq!((traced.stdout().trim(), traced.messages().len()), ("true", 1));
}

#[test]
fn each_thread_has_all_of_its_messages_in_order() {
    let traced = run(&["threads"]);
    let mut threads = BTreeSet::new();
    for file in traced.files.values().filter(|file| !file.messages.is_empty()) {
        let thread =
            file.texts()[0].split_once("thread=").expect("a thread").1.split(' ').next().expect("its number");
        assert!(threads.insert(thread.to_owned()));
        let text = |n| format!("INFO log_speaker: from a thread thread={thread} n={n} text=t");
        assert_eq!(file.texts(), (0..1000).map(text).collect::<Vec<_>>());
    }
    assert_eq!(threads.len(), 8);
}

#[test]
fn too_many_different_keys_are_recorded_as_text() {
    const COUNT: usize = 10_000;
    let traced = run(&["dynamic", &COUNT.to_string()]);
    let expected: Vec<_> = (0..COUNT).map(|n| format!("INFO dynamic: number {n} key{n}={n}")).collect();
    assert_eq!(traced.messages(), expected);
    let said = traced.stderr();
    assert_eq!(said.matches("are written as text").count(), 1, "{said}");
}

#[test]
fn a_kill_loses_no_committed_records() {
    let mut total = 0;
    for (kill, format) in (0..40u64).map(|kill| (kill, if kill % 2 == 0 { "text" } else { "raw" })) {
        let counters = tempfile::NamedTempFile::new_in(memory()).expect("a file of counters");
        std::fs::write(counters.path(), [0; 4 * 8]).expect("a file of counters");
        let mut scenario =
            scenario(&["stress", counters.path().to_str().expect("UTF-8")]).env("TRACER_FORMAT", format);
        kills::kill(scenario.command(), Duration::from_micros(500 + (kill * 7919) % 45_000));
        let words = std::fs::read(counters.path()).expect("the counters");
        let committed: Vec<u64> = words
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        if committed.iter().all(|count| *count == 0) {
            continue; // Then there may be nothing to merge.
        }
        let mut merge = Command::new(speaker());
        merge.args(["tracemerge", "-q"]).arg(scenario.directory.path().join(SPEAKER));
        let merged = merge.env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output().expect("a merge");
        assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
        let files = read_directory(scenario.directory.path());
        for (thread, committed) in committed.iter().enumerate() {
            let start = format!("INFO log_speaker: {thread} ");
            let texts: Vec<_> =
                files.values().flat_map(|file| file.texts()).filter(|t| t.starts_with(&start)).collect();
            let text = |n: u64| match n % 3 {
                0 => format!("{start}{n}"),
                1 => format!("{start}n={n}"),
                _ => format!("{start}n={n} kind=text"),
            };
            let count = texts.len() as u64;
            assert!((*committed..=committed + 1).contains(&count), "thread {thread}: {count} of {committed}");
            assert_eq!(texts, (0..count).map(text).collect::<Vec<_>>());
            total += count;
        }
    }
    assert!(total > 0, "some live long enough to log");
}
