//! Files record each function that a program enters and leaves exactly as the program reports it: on threads, in
//! handlers, in a child, unwound, polled, killed, and whatever happens to the files.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::time::Duration;
use support::kills::later;
use support::merges::tracemerge;
use support::processes::merge;
use support::{APP, Scenario, ThreadTrace, Traced, read_directory, text_of};
use trace_format::escape::unescape;
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::line::{Kind, Line};
use trace_format::meta::{EndReason, LossReason, Meta};
use trace_format::record::Flags;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const FORMATS: [&str; 2] = ["text", "raw"];

/// A call in a file: the mark, the name of the function without its path, the span, and the way it was left.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    mark: char,
    name: String,
    span: Option<u64>,
    left: Flags,
}

impl Call {
    fn of(kind: Kind, payload: &str) -> Call {
        let line = FunctionLine::parse(payload.as_bytes()).expect("the line of a function");
        let name = match line.place {
            FunctionPlace::Address(..) => "0x".to_owned(),
            FunctionPlace::Site(named, _) => {
                assert!(named.at.starts_with(b"tests/programs/functions.rs:"), "{payload}");
                let path = std::str::from_utf8(named.function).expect("UTF-8");
                // `<module::Type as Trait>::name` is shortened, too.
                path.rsplit("::").next().expect("a name").to_owned()
            }
            FunctionPlace::Unknown(number) => format!("site {number}"),
        };
        let mark = if kind == Kind::Enter { '>' } else { '<' };
        Call { mark, name, span: line.span, left: line.flags }
    }
}

fn calls(file: &ThreadTrace) -> Vec<Call> {
    file.calls.iter().map(|(_, kind, payload)| Call::of(*kind, payload)).collect()
}

/// Returns the calls as short texts: `>name` or `<name`, and the way it was left.
fn short(calls: &[Call]) -> Vec<String> {
    let how = |call: &Call| match call.left {
        Flags::UNWINDING => " unwinding",
        Flags::ENDED => " ended",
        Flags::CANCELLED => " cancelled",
        _ => "",
    };
    calls.iter().map(|call| format!("{}{}{}", call.mark, call.name, how(call))).collect()
}

/// Panics unless each call leaves the function that was entered last, and none remains open.
fn assert_balanced(calls: &[Call]) {
    let mut open = Vec::new();
    for call in calls {
        match call.mark {
            '>' => open.push(&call.name),
            _ => assert_eq!(open.pop(), Some(&call.name)),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn run(scenario: &[&str], format: &str) -> Traced {
    let traced = Scenario::new(SCENARIO, scenario).env("TRACER_FORMAT", format).run().succeeded();
    traced.assert_whole();
    assert!(traced.stderr().is_empty(), "{}", traced.stderr());
    traced
}

/// Returns calls and messages of a thread in the order of its file: `>name`, `:text`, `<name`.
fn lines_of(traced: &Traced, thread: &str) -> Vec<String> {
    let is_it = |(_, file): &(&String, &ThreadTrace)| file.name == thread;
    let (name, _) = traced.files.iter().find(is_it).expect("the thread");
    let bytes = std::fs::read(traced.directory.path().join(name)).expect("a file");
    let text = text_of(name, &bytes).into_owned();
    let mut lines = Vec::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let line = Line::parse(line).expect("a line");
        let payload = String::from_utf8(unescape(line.payload)).expect("UTF-8");
        match line.kind {
            Kind::Message if payload.starts_with("panicked at ") => lines.push(":panicked".into()),
            Kind::Message => lines.push(format!(":{payload}")),
            Kind::Stack => lines.push("^".into()),
            Kind::Enter | Kind::Leave => lines.extend(short(&[Call::of(line.kind, &payload)])),
            _ => {}
        }
    }
    lines
}

/// Runs the command on the traces; panics unless it succeeds and prints only its success to standard error.
fn quietly(traced: &Traced, args: &[&OsStr]) -> String {
    let mut command = tracemerge(SCENARIO, traced.runtime.path(), args.iter().copied());
    let output = command.arg("scenario").env("TRACER_DIR", traced.directory.path());
    let output = output.current_dir(traced.directory.path()).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    let is_usual = |line: &str| line.starts_with("tracemerge: merged ") || line.trim().is_empty();
    assert!(output.status.success() && said.lines().all(is_usual), "{args:?}: {:?}: {said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn files_have_each_threads_calls_in_order_with_their_values() {
    for format in FORMATS {
        let traced = run(&["functions", "4"], format);
        let said = traced.stdout();
        for thread in ["main", "first", "second"] {
            let mut expected = Vec::new();
            for line in said.lines() {
                let [_, mark, what] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
                match mark {
                    _ if !line.starts_with(thread) => {}
                    // The argument, and the returned value, which is one more.
                    "=" => {
                        let returned: u64 = what.parse().expect("a number");
                        expected.push(">returns".to_owned());
                        expected.push(format!(":depth={}", returned - 1));
                        expected.push(format!(":ret={returned}"));
                        expected.push("<returns".to_owned());
                    }
                    mark => expected.push(format!("{mark}{what}")),
                }
            }
            let name = if thread == "main" { "scenario" } else { thread };
            assert!(expected.len() > 500, "{said}");
            assert_eq!(lines_of(&traced, name), expected, "{thread} {format}");
            assert_balanced(&calls(traced.thread(name)));
            // The message of a call has the time of the call.
            let file = traced.thread(name);
            let has_call = |ticks| file.calls.iter().any(|(key, ..)| key.ticks == ticks);
            assert!(file.messages.iter().all(|(key, _)| has_call(key.ticks)));
        }
    }
}

#[test]
fn commands_process_files_with_functions_without_warnings() {
    let mut merges = Vec::new();
    for format in FORMATS {
        let traced = run(&["functions", "3"], format);
        let records: u64 = traced.files.values().map(ThreadTrace::records).sum();
        let merged = quietly(&traced, &["-o".as_ref(), "-".as_ref()]);
        let lines = merged.lines().map(|line| Line::parse(line.as_bytes()).expect("a line"));
        let told =
            lines.filter(|line| matches!(line.kind, Kind::Message | Kind::Enter | Kind::Leave)).count();
        assert_eq!(told as u64, records);
        assert!(quietly(&traced, &["check".as_ref()]).len() < 10_000);
        let info = quietly(&traced, &["info".as_ref()]);
        assert!(info.contains("exit"), "{info}");
        let count = |text: &str, mark: &str| text.lines().filter(|line| line.contains(mark)).count();
        assert_eq!(count(&merged, " > "), count(&merged, " < "));
        merges.push(count(&merged, " > "));
        let report = quietly(&traced, &["report", "--rows", "all"].map(OsStr::new));
        let head = report.lines().next().expect("a first line").replace(',', "");
        assert_eq!(head, format!("{} calls of 3 threads", count(&merged, " > ")));
        // The program's own counts, by function.
        let said = traced.stdout();
        for name in ["returns", "leaf"] {
            let of_name = |line: &&str| {
                line.ends_with(&format!("|>|{name}")) || (name == "returns" && line.contains("|=|"))
            };
            let row = report.lines().find(|line| line.contains(&format!("::{name}  (")));
            let counted = row.map_or("0", |row| row.split_whitespace().next().expect("a count"));
            assert_eq!(
                counted.replace(',', ""),
                said.lines().filter(of_name).count().to_string(),
                "{name}: {report}"
            );
        }
        // The line is that of the function, not of its attribute.
        let source = include_str!("../programs/functions.rs");
        let line = 1 + source.lines().position(|line| line.starts_with("fn returns(")).expect("the function");
        assert!(report.contains(&format!("::returns  (functions.rs:{line})")), "{report}");
        let tree = quietly(&traced, &["tree".as_ref()]);
        let opened = tree.lines().filter(|line| line.ends_with(" {")).count();
        assert_eq!(opened, tree.lines().filter(|line| line.contains("  } ")).count(), "{tree}");
        assert!(opened > 0 && !tree.contains("<-"), "{tree}");
    }
    assert!(merges[0] > 100 && merges[0] == merges[1], "{merges:?}");
}

#[test]
fn tree_and_report_of_a_killed_program_have_its_counted_calls() {
    const THREADS: usize = 3;
    for (kill, format) in (0..2).map(|n| (n, FORMATS[n])) {
        let counters = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file of counters");
        std::fs::write(counters.path(), [0; 16 * THREADS]).expect("a file of counters");
        let path = counters.path().to_str().expect("UTF-8");
        let mut scenario =
            Scenario::new(SCENARIO, &["functions-everything", path]).env("TRACER_FORMAT", format);
        let mut child = scenario.command().spawn().expect("the program starts");
        let read = || std::fs::read(counters.path()).expect("the counters");
        let number = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("a counter"));
        // Until then, a thread may have no record.
        support::wait_until(60, "calls of all threads", || read().chunks(8).all(|word| number(word) > 0));
        std::thread::sleep(Duration::from_millis(40 + 7 * kill as u64));
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let counters = read();
        let count = |at: usize| number(&counters[8 * at..8 * at + 8]);
        let shown = |args: &[&str]| {
            let mut command = tracemerge(SCENARIO, scenario.runtime.path(), args.iter().map(OsStr::new));
            let output = command.arg(scenario.directory.path().join(APP)).output().expect("it can be run");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text")
        };
        let (tree, report) = (shown(&["tree"]), shown(&["report", "--by-thread", "--rows", "all"]));
        for thread in 0..THREADS {
            // Without the stacks of its panics.
            let of_thread = |line: &&str| {
                line.split_whitespace().nth(1) == Some(&thread.to_string()) && !line.contains(": by ")
            };
            let lines: Vec<&str> = tree.lines().filter(of_thread).collect();
            // The name looks like an id, so the id follows it.
            let table = report.split("\n\n").find(|table| table.starts_with(&format!("{thread} ")));
            let table = table.unwrap_or_else(|| panic!("no thread {thread}: {report}"));
            for (counter, name) in [(2 * thread, "::recursive  ("), (2 * thread + 1, "::work_once  (")] {
                let entered = lines.iter().filter(|line| line.contains(name)).count() as u64;
                // A thread may have been killed between its record and its count.
                assert!(
                    (count(counter)..=count(counter) + 1).contains(&entered),
                    "{name} {entered} {}",
                    count(counter)
                );
                let row = table.lines().find(|line| line.contains(name)).expect("a row");
                let calls = row.split_whitespace().next().expect("a count").replace(',', "");
                assert_eq!(calls, entered.to_string(), "{row}");
            }
            // The depth is that of the program, even after panics.
            let column = |line: &str, name: &str| line.find(name).map(|at| line[..at].chars().count());
            let outermost: Vec<_> =
                lines.iter().filter_map(|line| column(line, "scenario::functions::work_once  (")).collect();
            assert!(outermost.windows(2).all(|two| two[0] == two[1]), "{tree}");
            let unwound = lines.iter().filter(|line| line.ends_with("<- left by a panic")).count();
            let panics = lines.iter().filter(|line| line.contains(": panicked at ")).count();
            // A panic unwinds five calls of one function and their caller. The kill may have cut off the last
            // panic.
            assert!(panics > 0 && (6 * (panics - 1)..=6 * panics).contains(&unwound), "{unwound}, {panics}");
            let still_open =
                lines.iter().filter(|line| line.ends_with("<- still running when the process was killed"));
            assert!(still_open.count() <= 6, "{tree}");
        }
    }
}

#[test]
fn a_killed_program_loses_no_entry_and_no_exit_of_a_function() {
    let mut lived = 0;
    for (kill, format) in (0..30).map(|n| (n, FORMATS[n % 2])) {
        let counters = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file of counters");
        std::fs::write(counters.path(), [0; 8]).expect("a file of counters");
        let path = counters.path().to_str().expect("UTF-8");
        let size = if kill % 3 == 0 { "16K" } else { "1M" };
        let mut scenario = Scenario::new(SCENARIO, &["functions-killed", path])
            .env("TRACER_FORMAT", format)
            .env("TRACER_RING_SIZE", size);
        let mut child = scenario.command().spawn().expect("the program starts");
        std::thread::sleep(later(Duration::from_micros(3000 + 977 * kill as u64)));
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let returned = std::fs::read(counters.path()).expect("the counter");
        let returned = u64::from_le_bytes(returned[..].try_into().expect("one counter"));
        if returned == 0 {
            continue;
        }
        lived += 1;
        merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
        let files = read_directory(scenario.directory.path());
        let file = files.values().next().expect("a file");
        let calls = calls(file);
        assert!((returned..=returned + 1).contains(&(calls.len() as u64)), "{} of {returned}", calls.len());
        let expected = [('>', "0x"), ('>', "killed"), ('<', "killed"), ('<', "0x")];
        for (call, expected) in calls.iter().zip(expected.iter().cycle()) {
            // A program that is killed in its first milliseconds has no name for the site yet.
            let name = if call.name == "site 1" { "killed" } else { &call.name };
            assert_eq!((call.mark, name), *expected);
        }
        let end = file.end();
        assert_eq!((end.records, end.lost, end.reason), (calls.len() as u64, 0, EndReason::Killed));
    }
    assert!(lived > 5, "some live long enough to trace: {lived}");
}

#[test]
fn functions_entered_while_a_message_is_formatted_are_recorded() {
    for format in FORMATS {
        let traced = run(&["functions-inside"], format);
        let said = traced.stdout();
        let numbers: Vec<usize> = said.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [outer, shown, handled] = numbers[..] else { panic!("{said}") };
        let file = traced.main_thread();
        let calls = calls(file);
        let count = |mark: char, name: &str| {
            calls.iter().filter(|call| (call.mark, &*call.name) == (mark, name)).count()
        };
        for mark in ['>', '<'] {
            let counts = (count(mark, "messages"), count(mark, "fmt"), count(mark, "handler"));
            assert_eq!(counts, (outer, shown, handled), "{mark} {format}");
        }
        assert_eq!(file.messages.len(), 2 * outer);
        assert_balanced(&calls);
    }
}

#[test]
fn only_functions_that_a_panic_unwinds_are_marked_as_unwinding() {
    for format in FORMATS {
        let traced = run(&["functions-unwound"], format);
        let expected = [
            ">unwound",
            ">outer",
            ">inner",
            ":n=2",
            ">0x",
            ":panicked",
            "^",
            "<0x unwinding",
            ">drop",
            "<drop",
            "<inner unwinding",
            "<outer unwinding",
            ">inner",
            ":n=5",
            ">0x",
            "<0x",
            ">drop",
            "<drop",
            ":ret=5",
            "<inner",
            "<unwound",
        ];
        assert_eq!(lines_of(&traced, "scenario"), expected, "{format}");
    }
}

#[test]
fn a_forked_child_exits_the_functions_of_its_parent_by_name() {
    for format in FORMATS {
        let traced = run(&["functions-forked"], format);
        let mut files: Vec<Vec<String>> = traced.files.values().map(|file| short(&calls(file))).collect();
        files.sort_by_key(Vec::len);
        // The child leaves its own call and its parent's; both have the name of one function.
        let expected = [vec![">forked", "<forked"], vec![">forked", "<forked", "<forked"]];
        assert_eq!(files, expected, "{format}");
    }
}

#[test]
fn a_future_has_one_span_on_all_threads_and_its_end_is_recorded() {
    for format in FORMATS {
        let traced = run(&["functions-polled"], format);
        let of = |thread: &str| calls(traced.thread(thread));
        let (main, other) = (of("scenario"), of("other"));
        assert_eq!(short(&other), [">task", "<task"]);
        let mut spans: Vec<(u64, Vec<String>)> = Vec::new();
        for call in &main {
            let span = call.span.expect("a span");
            match spans.iter_mut().find(|(id, _)| *id == span) {
                Some((_, calls)) => calls.extend(short(std::slice::from_ref(call))),
                None => spans.push((span, short(std::slice::from_ref(call)))),
            }
        }
        assert!(other.iter().all(|call| call.span == Some(spans[0].0)), "{spans:?} {other:?}");
        let told: Vec<Vec<String>> = spans.into_iter().map(|(_, calls)| calls).collect();
        let expected = [
            vec![">task", "<task", ">task", "<task ended"],
            vec![">task", "<task", ">task", "<task cancelled"],
            vec![">task", "<task"],
            vec![">panics", "<panics", ">panics", "<panics unwinding"],
            vec![">task", "<task ended"],
        ];
        assert_eq!(told, expected, "{format}");
        let texts = traced.main_thread().texts();
        assert_eq!(
            texts.iter().filter(|text| text.starts_with("ret=")).collect::<Vec<_>>(),
            [&"ret=5", &"ret=7"]
        );
        assert_eq!(texts[0], "name=\"moves\" polls=3");
    }
}

#[test]
fn guards_that_were_made_in_one_line_are_distinguished() {
    for format in FORMATS {
        let traced = run(&["functions-in-one-line"], format);
        let calls = traced.main_thread().calls.iter().map(|(_, _, payload)| {
            let line = FunctionLine::parse(payload.as_bytes()).expect("the line of a function");
            let FunctionPlace::Site(named, number) = line.place else { panic!("{payload}") };
            (named.function.to_vec(), named.at.to_vec(), number)
        });
        let calls: Vec<_> = calls.collect();
        assert!(calls.iter().all(|call| (&call.0, &call.1) == (&calls[0].0, &calls[0].1)), "{calls:?}");
        let numbers: Vec<_> = calls.iter().map(|call| call.2).collect();
        let (one, other) = (numbers[0], numbers[1]);
        // One of the two needs no number.
        assert!(one.min(other) == 0 && one.max(other) > 0, "{numbers:?}");
        assert_eq!(numbers, [one, other, one, other, one, other, other, one], "{format}");
        let tree = quietly(&traced, &["tree".as_ref()]);
        let overlaps = tree.matches("<- left after a call around it").count();
        assert_eq!((overlaps, tree.contains("no leave record")), (1, false), "{format}: {tree}");
    }
}

#[test]
fn the_filter_applies_to_functions_with_sites() {
    let filtered = |filter: &str| {
        let scenario = Scenario::new(SCENARIO, &["functions-filtered"]).env("TRACER_FILTER", filter);
        let traced = scenario.run().succeeded();
        let calls = traced.files.values().next().map(|file| short(&calls(file)));
        (traced.stdout().trim().to_owned(), calls.unwrap_or_default())
    };
    let here = [">with_filter", "<with_filter", ">with_filter", "<with_filter"];
    let (evaluated, calls) = filtered("scenario::functions::filtered=off,scenario");
    assert_eq!((evaluated.as_str(), calls), ("0", here.map(str::to_owned).to_vec()));
    let (evaluated, calls) = filtered("scenario");
    assert_eq!((evaluated.as_str(), calls.len()), ("2", 16), "{calls:?}");
    let (evaluated, calls) = filtered("elsewhere");
    assert_eq!((evaluated.as_str(), calls.len()), ("0", 0));
}

#[test]
fn disabled_functions_record_nothing_and_evaluate_no_argument() {
    for scenario in ["functions-filtered", "functions-polled", "functions-unwound"] {
        let traced = Scenario::new(SCENARIO, &[scenario]).without("TRACER_ENABLE").run().succeeded();
        assert!(traced.files.is_empty() && traced.left_in_runtime().is_empty(), "{scenario}");
        assert!(scenario != "functions-filtered" || traced.stdout().trim() == "0");
    }
}

/// Returns the losses that a file reports.
fn losses(file: &ThreadTrace) -> Vec<(u64, LossReason)> {
    let lost = |meta: &Meta| match meta {
        Meta::Lost { records, reason } => Some((*records, *reason)),
        _ => None,
    };
    file.metas.iter().filter_map(lost).collect()
}

/// The number of calls of a program whose files keep few records. Each call makes five records: two that enter, two
/// that leave, and a message. A last message follows.
const CALLS: u64 = 20_000;
const RECORDS: u64 = 5 * CALLS + 1;

/// Panics unless the newest records are there, without a gap, and the missing ones before them are reported.
fn assert_newest(file: &ThreadTrace, reason: LossReason, what: &str) {
    let calls = calls(file);
    let found = file.records();
    let last = format!("called {CALLS} times");
    assert!(found > 300 && found < RECORDS, "{what}: {found}");
    assert_eq!(*file.texts().last().expect("a message"), last, "{what}");
    let cycle = [">0x", ">many", "<many", "<0x"];
    let short = short(&calls);
    let first = cycle.iter().position(|call| *call == short[0]).expect("one of them");
    for (call, expected) in short.iter().zip(cycle.iter().cycle().skip(first)) {
        assert_eq!(call, expected, "{what}");
    }
    let lost = losses(file);
    assert!(lost.iter().all(|(_, why)| *why == reason), "{what}: {lost:?}");
    let told: u64 = lost.iter().map(|(records, _)| records).sum();
    assert_eq!((told + found, file.end().records, file.end().lost), (RECORDS, found, told), "{what}");
    // The addresses can be looked up.
    let is_ours = |meta: &&Meta| matches!(meta, Meta::Module(module) if module.path.ends_with(b"/scenario"));
    assert_eq!(file.metas.iter().filter(is_ours).count(), 1, "{what}");
}

#[test]
fn a_flight_recorder_keeps_the_newest_calls_and_their_modules() {
    for (format, end) in FORMATS.into_iter().flat_map(|format| [(format, "exit"), (format, "killed")]) {
        let scenario = Scenario::new(SCENARIO, &["functions-many", &CALLS.to_string(), end]);
        let scenario = scenario.env("TRACER_FULL", "overwrite").env("TRACER_RING_SIZE", "64K");
        let traced = scenario.env("TRACER_FORMAT", format).env("TRACER_FLUSH_MS", "1").run_and_recover();
        assert_newest(traced.main_thread(), LossReason::Overwritten, &format!("{format}, {end}"));
    }
}

#[test]
fn a_rotated_file_keeps_the_modules_of_its_addresses() {
    for format in FORMATS {
        let scenario = Scenario::new(SCENARIO, &["functions-many", &CALLS.to_string()]);
        let scenario = scenario.env("TRACER_MAX_BYTES", "256K").env("TRACER_FORMAT", format);
        let traced = scenario.run().succeeded();
        let (name, file) = traced.files.iter().next().expect("a file");
        let length = std::fs::metadata(traced.directory.path().join(name)).expect("the file").len();
        assert!(length <= 256 << 10, "{length}");
        assert_newest(file, LossReason::Rotated, format);
    }
}
