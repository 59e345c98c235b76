//! Events and spans are in the trace, through the layer and through the subscriber: with the text that
//! `tracing_subscriber::fmt` makes, with their values, levels, targets and places; spans have ids of their own, even
//! if futures move between threads; as the filters say; and after a kill.

#![allow(clippy::expect_used, reason = "a failure in a test fails it")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::site_records::{SiteRecord, site_records};
use support::{Scenario, ThreadTrace, Traced, kills, memory, read_directory};
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::line::{Kind, Ticks};
use trace_format::record::{Flags, RecordKind};
use trace_format::sites::{Level, Site, SiteKind};

/// The file name of the program that is traced.
const SPEAKER: &str = if cfg!(windows) { "tracing_speaker.exe" } else { "tracing_speaker" };

fn speaker() -> PathBuf {
    let mut path = std::env::current_exe().expect("this program");
    path.pop();
    path.pop();
    path.join("examples").join(SPEAKER)
}

fn scenario(args: &[&str]) -> Scenario {
    Scenario::new(speaker(), args).without("RUST_LOG")
}

fn run(args: &[&str]) -> Traced {
    whole(scenario(args))
}

fn whole(scenario: Scenario) -> Traced {
    let traced = scenario.run().succeeded();
    traced.assert_whole();
    traced
}

const WAYS: [&str; 2] = ["layer", "subscriber"];

#[test]
fn every_event_equals_that_of_fmt() {
    for format in ["text", "raw"] {
        for way in ["beside", "plain"] {
            let traced = whole(scenario(&["everything", way]).env("TRACER_FORMAT", format));
            let said: Vec<String> = traced.messages();
            // There the level has five places.
            let lines = said.join("\n").lines().map(str::to_owned).collect::<Vec<_>>();
            let told = traced.stdout();
            let told: Vec<_> = told.lines().map(|line| line.trim_start().to_owned()).collect();
            assert_eq!(lines, told, "{format} {way}");
            assert!(said.len() > 30);
        }
    }
}

#[test]
fn the_subscriber_and_the_layer_record_the_same() {
    for scenario in ["everything", "spans", "nested"] {
        let texts = WAYS.map(|way| run(&[scenario, way]).messages());
        assert_eq!(texts[0], texts[1], "{scenario}");
    }
}

/// Returns the records of a run of the program that writes raw files.
fn records(args: &[&str]) -> Vec<SiteRecord> {
    site_records(whole(scenario(args).env("TRACER_FORMAT", "raw")).directory.path())
}

/// Returns the site of the records whose values have these names.
fn site_with<'a>(records: &'a [SiteRecord], names: &[&str]) -> &'a Site {
    let mut sites = records.iter().filter_map(|record| record.site.as_ref());
    sites.find(|site| site.names == names).unwrap_or_else(|| panic!("no site with {names:?}"))
}

#[test]
fn sites_have_level_target_place_names_and_types_from_the_first_record_on() {
    for way in WAYS {
        let records = records(&["everything", way]);
        assert!(records.iter().all(|record| record.site.is_some()), "a record without its site");
        let site = site_with(&records, &["message", "a", "b", "c"]);
        assert_eq!((site.kind, site.level), (SiteKind::Message, Level::Info));
        assert_eq!((&*site.target, &*site.module), ("tracing_speaker", "tracing_speaker"));
        assert!(site.file.ends_with("tracing_speaker.rs") && site.line > 0, "{site:?}");
        assert_eq!(site.template, "INFO tracing_speaker: {message} a={a} b={b} c={c}");
        // The letters of i32 (which is passed as i64), i64 and u64 in descriptors; others follow.
        assert_eq!(site.descriptor, b"exxy");
        assert_eq!(site_with(&records, &["message", "big", "bigger"]).descriptor, b"eno");
        assert_eq!(site_with(&records, &["message", "x", "y", "z", "whole"]).descriptor, b"edddd");
        assert_eq!(site_with(&records, &["message", "yes", "no"]).descriptor, b"ebb");
        assert_eq!(site_with(&records, &["message", "name", "owned"]).descriptor, b"eee");
        // A value that is absent makes another site of the same call.
        let with = site_with(&records, &["message", "value", "other"]);
        let without = site_with(&records, &["message", "other"]);
        assert_eq!((with.line, &with.descriptor[..]), (without.line, &b"exx"[..]));
    }
}

#[test]
fn records_of_log_keep_their_own_target_and_place() {
    let texts = [
        "INFO tracing_speaker: round 0 of log",
        "WARN elsewhere::net: a fixed text",
        "DEBUG tracing_speaker: details",
    ];
    for way in ["beside", "plain"] {
        let traced = run(&["logged", way]);
        let told = traced.stdout();
        let told: Vec<_> = told.lines().map(str::trim_start).collect();
        assert_eq!(traced.messages(), told, "{way}");
        assert_eq!(told[..3], texts, "{way}");
    }
    let records = records(&["logged", "layer"]);
    let mut sites: Vec<&Site> = records.iter().filter_map(|record| record.site.as_ref()).collect();
    assert_eq!(sites.len(), 6);
    sites.sort_by_key(|site| site.line);
    sites.dedup();
    let expected = [
        (Level::Info, "tracing_speaker", "INFO tracing_speaker: {message}"),
        (Level::Warn, "elsewhere::net", "WARN elsewhere::net: {message}"),
        (Level::Debug, "tracing_speaker", "DEBUG tracing_speaker: {message}"),
    ];
    let found: Vec<_> = sites.iter().map(|site| (site.level, &*site.target, &*site.template)).collect();
    assert_eq!(found, expected);
    for site in sites {
        assert!(site.file.ends_with("tracing_speaker.rs") && site.module == "tracing_speaker", "{site:?}");
        assert_eq!((site.kind, &site.names[..]), (SiteKind::Message, &["message".to_owned()][..]));
    }
    for (filter, kept) in
        [("off,elsewhere=warn", &texts[1..2]), ("log=trace,off", &[]), ("info", &texts[..2])]
    {
        for way in ["layer", "plain"] {
            let traced = scenario(&["logged", way]).env("TRACER_FILTER", filter).run().succeeded();
            let messages = traced.messages();
            assert_eq!(messages[..messages.len() / 2], *kept, "{filter} {way}");
        }
    }
}

#[test]
fn values_are_copied_at_sites_that_readers_know() {
    for way in WAYS {
        let records = records(&["everything", way]);
        let is_it =
            |record: &&SiteRecord| record.site.as_ref().is_some_and(|site| site.names == ["only", "and"]);
        let [first, second] = records.iter().filter(is_it).collect::<Vec<_>>()[..] else {
            panic!("two of them")
        };
        assert_eq!(first.kind, RecordKind::Message, "at first the text is made at the call");
        let values = [&6u16.to_le_bytes()[..], b"fields", &2i64.to_le_bytes()].concat();
        assert_eq!((second.kind, &second.payload), (RecordKind::Captured, &values));
    }
}

/// Returns the span lines of a file: whether the span is entered, its id and its name.
fn calls(file: &ThreadTrace) -> Vec<(bool, u64, String)> {
    let call = |(_, kind, text): &(_, Kind, String)| {
        let line = FunctionLine::parse(text.as_bytes()).expect("a line of a function");
        let FunctionPlace::Site(named, _) = line.place else { panic!("{text}") };
        let name = String::from_utf8(named.function.to_vec()).expect("UTF-8");
        (*kind == Kind::Enter, line.span.expect("the id of a span"), name)
    };
    file.calls.iter().map(call).collect()
}

#[test]
fn spans_record_names_fields_parents_and_follows_from() {
    for way in WAYS {
        let traced = run(&["spans", way]);
        let file = traced.files.values().find(|file| !file.calls.is_empty()).expect("a file with spans");
        let round = |first: u64| {
            let [outer, inner, root, child] = [0, 1, 2, 3].map(|at| first + at);
            vec![
                format!("INFO tracing_speaker: span={outer} outer{{a=1 text=\"t\"}} new"),
                format!("INFO tracing_speaker: span={outer} outer{{late=\"now\"}}"),
                format!("DEBUG tracing_speaker: span={inner} inner new parent={outer}"),
                "INFO tracing_speaker: in both".to_owned(),
                format!("WARN tracing_speaker: span={root} root{{n=2.5}} new"),
                format!("ERROR elsewhere: span={child} child new parent={outer}"),
                format!("ERROR elsewhere: span={child} child follows_from={inner}"),
                format!("ERROR elsewhere: span={child} child follows_from={root}"),
                "INFO tracing_speaker: crossed".to_owned(),
                "INFO tracing_speaker: still in the second".to_owned(),
                format!("ERROR elsewhere: span={child} child closed"),
                format!("WARN tracing_speaker: span={root} root closed"),
                format!("DEBUG tracing_speaker: span={inner} inner closed"),
                format!("INFO tracing_speaker: span={outer} outer closed"),
            ]
        };
        assert_eq!(file.texts(), [round(1), round(5)].concat());
        let entered = |first: u64| {
            let [outer, inner, root, child] =
                [(0, "outer"), (1, "inner"), (2, "root"), (3, "child")].map(|(at, name)| (first + at, name));
            let order = [
                (true, outer),
                (true, inner),
                (false, inner),
                (false, outer),
                (true, outer),
                (false, outer),
                (true, child),
                (true, root),
                (false, root),
                (false, child),
                (true, outer),
                (true, child),
                (false, outer),
                (false, child),
            ];
            order.map(|(enters, (id, name))| (enters, id, name.to_owned()))
        };
        assert_eq!(calls(file), [entered(1), entered(5)].concat(), "{way}");
    }
}

#[test]
fn sites_of_spans_have_their_level_target_and_place() {
    for way in WAYS {
        let records = records(&["spans", way]);
        let scopes = records.iter().filter(|record| record.kind == RecordKind::Scope).collect::<Vec<_>>();
        assert!(scopes.iter().all(|record| record.flags.has(Flags::ID) && record.span.is_some()));
        let sites: BTreeMap<_, _> = scopes
            .iter()
            .filter_map(|record| record.site.as_ref())
            .map(|site| (&*site.function, (site.kind, site.level, &*site.target, &*site.module)))
            .collect();
        let here = "tracing_speaker";
        let expected = [
            ("child", (SiteKind::Span, Level::Error, "elsewhere", here)),
            ("inner", (SiteKind::Span, Level::Debug, here, here)),
            ("outer", (SiteKind::Span, Level::Info, here, here)),
            ("root", (SiteKind::Span, Level::Warn, here, here)),
        ];
        assert_eq!(sites, expected.into());
    }
}

#[test]
fn ids_of_spans_are_unique() {
    for way in WAYS {
        let traced = run(&["many", way]);
        let mut ids = BTreeSet::new();
        for file in traced.files.values() {
            for pair in calls(file).chunks(2) {
                let [(true, entered, _), (false, left, _)] = pair else { panic!("{pair:?}") };
                assert_eq!(entered, left);
                assert!(ids.insert(*entered), "{entered} twice");
            }
        }
        assert_eq!(ids.len(), 5 * 3000);
    }
}

#[test]
fn a_span_is_closed_once_after_all_its_records() {
    for scenario in ["many", "futures", "tokio"] {
        for way in WAYS {
            let traced = run(&[scenario, way]);
            let mut last_left = BTreeMap::new();
            let mut closed = BTreeMap::new();
            for file in traced.files.values() {
                for ((key, ..), (_, id, _)) in file.calls.iter().zip(calls(file)) {
                    let last = last_left.entry(id).or_insert(key.ticks);
                    *last = (*last).max(key.ticks);
                }
                for (key, text) in &file.messages {
                    let Some(text) = text.strip_suffix(" closed") else { continue };
                    let (_, id) = text.split_once("span=").expect("an id");
                    let id: u64 = id.split(' ').next().expect("a number").parse().expect("a number");
                    assert_eq!(closed.insert(id, key.ticks), None, "{scenario} {way}: {id} is closed twice");
                }
            }
            assert!(closed.keys().eq(last_left.keys()), "{scenario} {way}");
            assert!(closed.len() >= 40, "{scenario} {way}");
            // Elsewhere the counter may be so coarse that both have the same ticks.
            let is_fine = cfg!(target_arch = "x86_64");
            let is_behind =
                |(id, ticks): (&u64, &Ticks)| *ticks > last_left[id] || !is_fine && *ticks == last_left[id];
            assert!(closed.iter().all(is_behind), "{scenario} {way}: something is left behind its end");
        }
    }
}

#[test]
fn a_span_that_is_entered_in_a_destructor_is_recorded_with_its_end_or_not_at_all() {
    // The registry of `tracing-subscriber`, which the layer needs, panics in such a destructor.
    let traced = run(&["destructors", "subscriber"]);
    let names: Vec<String> = balanced(&traced).into_keys().map(|(name, _)| name).collect();
    assert_eq!(names, ["before", "dropped"]);
    let is_inside = |text: &&String| text.ends_with("in the destructor");
    assert_eq!(traced.messages().iter().filter(is_inside).count(), 2);
}

/// Checks that each thread leaves the spans that it has entered, innermost first; returns for each name and span how
/// often it was entered, and on how many threads.
fn balanced(traced: &Traced) -> BTreeMap<(String, u64), (u64, usize)> {
    let mut entered: BTreeMap<(String, u64), (u64, BTreeSet<&str>)> = BTreeMap::new();
    for (file_name, file) in &traced.files {
        let mut open = Vec::new();
        for (enters, id, name) in calls(file) {
            if enters {
                open.push(id);
                let (count, threads) = entered.entry((name, id)).or_default();
                *count += 1;
                threads.insert(file_name);
            } else {
                assert_eq!(open.pop(), Some(id), "{file_name}");
            }
        }
        assert!(open.is_empty(), "{file_name}: {open:?}");
    }
    entered.into_iter().map(|(span, (count, threads))| (span, (count, threads.len()))).collect()
}

#[test]
fn futures_that_move_between_threads_are_entered_at_each_poll() {
    for way in WAYS {
        let traced = run(&["futures", way]);
        let entered = balanced(&traced);
        let mut of_tasks = BTreeMap::new();
        let mut of_inner = BTreeMap::new();
        for text in traced.messages() {
            let Some((told, _)) = text.split_once("} new") else { continue };
            let (_, told) = told.split_once("span=").expect("a span");
            let (id, told) = told.split_once(' ').expect("an id");
            let (name, told) = told.split_once("{task=").expect("a task");
            let task: u64 = told.split('}').next().expect("a number").parse().expect("a number");
            let spans = if name == "task" { &mut of_tasks } else { &mut of_inner };
            assert_eq!(spans.insert(task, id.parse::<u64>().expect("a number")), None);
        }
        for line in traced.stdout().lines() {
            let (task, polled) = line.split_once(' ').expect("two numbers");
            let (task, polled): (u64, u64) =
                (task.parse().expect("a number"), polled.parse().expect("a number"));
            let (count, threads) = entered[&("task".to_owned(), of_tasks[&task])];
            // `Instrumented` enters its span once more to drop its future.
            assert_eq!(count, polled + 1, "task {task}");
            assert_eq!(entered[&("inner".to_owned(), of_inner[&task])].0, polled + 1, "task {task}");
            assert!(threads > 1, "task {task} was polled by one thread");
        }
    }
}

#[test]
fn tasks_of_tokio_are_balanced_on_each_thread() {
    for way in WAYS {
        let traced = run(&["tokio", way]);
        let entered = balanced(&traced);
        assert_eq!(entered.len(), 50);
        assert!(entered.values().any(|(_, threads)| *threads > 1), "{way}: no task has moved");
        assert_eq!(
            traced.messages().iter().filter(|text| text.contains("stepped task=")).count().to_string(),
            traced.stdout().trim()
        );
    }
}

#[test]
fn a_debug_that_logs_makes_earlier_messages() {
    for way in WAYS {
        let one =
            ["inside depth=1 value=talked 0", "inside depth=2 value=talked 1", "outside value=talked 2"];
        let expected: Vec<_> =
            [one, one].concat().iter().map(|text| format!("INFO tracing_speaker: {text}")).collect();
        assert_eq!(run(&["nested", way]).messages(), expected);
    }
}

#[test]
fn a_panicking_debug_spoils_only_its_own_value() {
    for way in WAYS {
        let messages = run(&["panics", way]).messages();
        let ours: Vec<_> = messages.iter().filter(|text| text.starts_with("INFO")).collect();
        let expected =
            ["INFO tracing_speaker: it value=before <panicked> after=1", "INFO tracing_speaker: going on"];
        assert_eq!(ours, expected.iter().collect::<Vec<_>>());
    }
}

/// The outcome of the program's levels.
struct Levels {
    /// The messages in the trace, without ids of spans, their values and the parts after the texts.
    told: Vec<String>,
    /// The callsites that `tracing` had on: it evaluates their values, whether they are used or not.
    on: Vec<String>,
    /// The number of times that a value was formatted.
    formatted: usize,
}

impl Levels {
    fn of(scenario: Scenario) -> Levels {
        let traced = scenario.run().succeeded();
        let brief = |text: &String| {
            let text = text.split(" value=").next().expect("a text");
            text.replace("span=1 ", "").replace("span=2 ", "").replace("{n=1} new", "")
        };
        let stdout = traced.stdout();
        let on = stdout.lines().filter_map(|line| Some(line.strip_prefix("on: ")?.to_owned())).collect();
        let formatted = stdout.lines().filter(|line| *line == "formatted").count();
        Levels { told: traced.messages().iter().map(brief).collect(), on, formatted }
    }

    /// Returns the levels if only the bridge listens; checks that messages that are not in the trace were off in
    /// `tracing`.
    fn alone(scenario: Scenario) -> (Vec<String>, usize) {
        let Levels { told, on, formatted } = Levels::of(scenario);
        let without_ends: Vec<_> = told.iter().filter(|text| !text.ends_with(" closed")).cloned().collect();
        assert_eq!(on, without_ends);
        (told, formatted)
    }
}

#[test]
fn the_tracers_filter_decides_by_target_and_level() {
    for way in ["layer", "subscriber"] {
        let by = |filter: &str| Levels::alone(scenario(&["levels", way]).env("TRACER_FILTER", filter));
        let (all, formatted) = by("");
        assert_eq!((all.len(), formatted), (13, 3));
        let kept =
            |keep: &dyn Fn(&str) -> bool| all.iter().filter(|text| keep(text)).cloned().collect::<Vec<_>>();
        assert_eq!(by("info"), (kept(&|t| t.starts_with("INFO") || t.starts_with("ERROR")), 0));
        let app = kept(&|t| t.contains(" app") && !t.starts_with("TRACE"));
        assert_eq!(by("app=debug"), (app, 2), "{way}");
        let mixed = kept(&|t| t == "INFO app: info" || (t.starts_with("ERROR") && !t.contains("app::net")));
        assert_eq!(by("error,app=info,app::net=off"), (mixed, 0));
        assert_eq!(by("off"), (vec![], 0));
    }
}

#[test]
fn rust_log_decides_if_the_program_uses_it() {
    for way in ["filtered", "filtered-alone", "global", "filtered-subscriber"] {
        let by = |rust_log: &str, filter: &str| {
            let scenario = scenario(&["levels", way]).env("RUST_LOG", rust_log).env("TRACER_FILTER", filter);
            // In these two ways another layer wants more, or a part that `tracing-subscriber` takes for one.
            let others_want = ["filtered", "global"].contains(&way);
            if others_want { Levels::of(scenario).told } else { Levels::alone(scenario).0 }
        };
        let all = by("trace", "");
        assert_eq!(all.len(), 13);
        let app: Vec<_> =
            all.iter().filter(|t| t.contains(" app") && !t.starts_with("TRACE")).cloned().collect();
        assert_eq!(by("app=debug", ""), app, "{way}");
        let errors: Vec<_> = app.iter().filter(|t| t.starts_with("ERROR")).cloned().collect();
        assert_eq!(by("app=debug", "error"), errors, "{way}: both filters");
        assert_eq!(by("error", "app=debug"), errors, "{way}: both filters");
    }
}

#[test]
fn another_layer_gets_all_that_it_asks_for() {
    let all = |scenario: Scenario| {
        let traced = scenario.run().succeeded();
        let stdout = traced.stdout();
        let of_fmt =
            |line: &&str| !line.starts_with("on: ") && (line.contains("app") || line.contains("other"));
        stdout.lines().filter(of_fmt).count()
    };
    // Nine events; spans are not lines of `fmt`.
    let filtered = |way| scenario(&["levels", way]).env("RUST_LOG", "error");
    assert_eq!(all(scenario(&["levels", "beside"])), 9);
    assert_eq!(all(scenario(&["levels", "beside"]).env("TRACER_FILTER", "off")), 9);
    assert_eq!(all(scenario(&["levels", "beside"]).without("TRACER_ENABLE")), 9);
    assert_eq!(all(scenario(&["levels", "plain"]).without("TRACER_ENABLE")), 9);
    assert_eq!(all(filtered("filtered")), 9);
    assert_eq!(all(filtered("beside-filtered")), 3);
}

#[test]
fn disabled_callsites_are_off_in_tracing_itself() {
    let off = |way| scenario(&["levels", way]).without("TRACER_ENABLE");
    for way in WAYS {
        let traced = off(way).run().succeeded();
        assert_eq!((traced.stdout().as_str(), traced.files.len()), ("", 0), "{way}");
    }
    // Also if the user's filter lets everything through.
    for way in ["filtered-alone", "filtered-subscriber"] {
        let traced = off(way).env("RUST_LOG", "trace").run().succeeded();
        assert_eq!((traced.stdout().as_str(), traced.files.len()), ("", 0), "{way}");
    }
    // A filter for all layers keeps the callsites on that it lets through, whatever layers there are; nothing is
    // formatted.
    let traced = off("global").env("RUST_LOG", "error").run().succeeded();
    assert!(traced.stdout().lines().all(|line| line.starts_with("on: ERROR ")), "{}", traced.stdout());
    assert_eq!(traced.files.len(), 0);
    // Only the callsites that another layer wants are on.
    let traced = off("beside-filtered").env("RUST_LOG", "error").run().succeeded();
    let targets = ["app", "app::net", "other"];
    let both = |target| [format!("on: ERROR {target}: error"), format!("ERROR {target}: error")];
    let told: Vec<_> = traced.stdout().lines().map(|line| line.trim_start().to_owned()).collect();
    assert_eq!(told, targets.map(both).concat());
    assert_eq!(traced.files.len(), 0);
}

#[test]
fn callsites_follow_the_switch() {
    for way in WAYS {
        let scenario = scenario(&["switched", way]).without("TRACER_ENABLE").env("SPEAKER_ENABLE", "1");
        let traced = scenario.env("TRACER_FILTER", "info").run().succeeded();
        let on = ["on: said", "formatted", "on: span", "formatted"];
        let expected = [&["off", "on"], &on[..], &["off again", "on again"], &on[..]].concat();
        assert_eq!(traced.stdout().lines().collect::<Vec<_>>(), expected, "{way}");
        let names: Vec<_> = traced
            .messages()
            .iter()
            .filter_map(|text| Some(text.split_once("said name=")?.1.to_owned()))
            .collect();
        assert_eq!(names, ["\"on\" value=told", "\"on again\" value=told"], "{way}");
        let mut spans: Vec<_> =
            traced.files.values().flat_map(calls).map(|(enters, _, name)| (enters, name)).collect();
        spans.sort();
        let expected =
            [(false, "span"), (false, "span"), (true, "left later"), (true, "span"), (true, "span")];
        assert_eq!(spans, expected.map(|(enters, name)| (enters, name.to_owned())), "{way}");
    }
}

#[test]
fn the_current_span_is_the_one_that_was_entered_last() {
    for way in WAYS {
        let traced = run(&["current", way]);
        assert_eq!(traced.stdout(), "outer\nnone\ntrue\n", "{way}");
        let ids: BTreeSet<_> = traced.files.values().flat_map(calls).map(|(_, id, _)| id).collect();
        assert_eq!((ids.len(), traced.files.len()), (1, 2), "{way}: one span on two threads");
    }
}

#[test]
fn tracemerge_shows_spans_by_their_names() {
    for (way, format) in [("layer", "text"), ("layer", "raw"), ("subscriber", "raw")] {
        let traced = whole(scenario(&["spans", way]).env("TRACER_FORMAT", format));
        let app = traced.directory.path().join(SPEAKER);
        let told = |command: &str| {
            let mut ran = Command::new(speaker());
            ran.args(["tracemerge", command]).arg(&app).env("TRACER_RUNTIME_DIR", traced.runtime.path());
            let output = ran.output().expect("the command can be run");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let (tree, shown) = (told("tree"), told("show"));
        for (name, id) in [("outer", 1), ("inner", 2), ("root", 3), ("child", 4)] {
            assert!(tree.lines().any(|line| line.contains(&format!("{name} #{id}"))), "{name}\n{tree}");
            assert!(
                shown.lines().any(|line| line.contains(&format!("-> {name} #{id}  ("))),
                "{name}\n{shown}"
            );
        }
        let depth = |name: &str| {
            let line = tree.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}"));
            line.find(name).expect("it is there")
        };
        assert!(depth("inner #2") > depth("outer #1"), "{tree}");
    }
}

#[test]
fn a_kill_loses_no_committed_records() {
    let mut total = 0;
    for kill in 0..40u64 {
        let (way, format) =
            [("layer", "text"), ("subscriber", "raw"), ("layer", "raw"), ("subscriber", "text")]
                [kill as usize % 4];
        let counters = tempfile::NamedTempFile::new_in(memory()).expect("a file of counters");
        std::fs::write(counters.path(), [0; 2 * 8]).expect("a file of counters");
        let path = counters.path().to_str().expect("UTF-8");
        let mut scenario = scenario(&["stress", way, path]).env("TRACER_FORMAT", format);
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
            let said = |n: u64| format!("INFO tracing_speaker: said thread={thread} n={n}");
            let is_its = |file: &&ThreadTrace| file.messages.iter().any(|(_, text)| *text == said(0));
            let Some(file) = files.values().find(is_its) else {
                assert_eq!(*committed, 0, "a thread without a file");
                continue;
            };
            let events: Vec<_> = file.texts().into_iter().filter(|text| text.contains(": said ")).collect();
            let count = events.len() as u64;
            assert!((*committed..=committed + 1).contains(&count), "{count} of {committed}");
            assert_eq!(events, (0..count).map(said).collect::<Vec<_>>());
            // For each counted one, the trace has the span: made, entered and left.
            let made = file.texts().into_iter().filter(|text| text.contains(" work{")).count() as u64;
            let (entered, left): (Vec<_>, Vec<_>) =
                file.calls.iter().partition(|(_, kind, _)| *kind == Kind::Enter);
            for count in [made, entered.len() as u64, left.len() as u64] {
                assert!((*committed..=committed + 1).contains(&count), "{count} of {committed}");
            }
            total += count;
        }
    }
    assert!(total > 0, "some live long enough to say something");
}
