//! Functions that were recorded by address are shown with the names and places that `addr2line` finds, in merged files
//! as in the tree. The tree also names the line from which each call was made. The times are those of the program.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::follows::Follower;
use support::merges::tracemerge;
use support::programs::installed_programs;
use support::{APP, Scenario, Traced, wait_until};
use trace_format::function::{FunctionLine, FunctionName, FunctionPlace, StackLine};
use trace_format::line::{Kind, Line};
use trace_format::meta::{Meta, Module};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const FORMATS: [&str; 2] = ["text", "raw"];

fn run(scenario: &[&str], format: &str, call_sites: &str) -> Traced {
    let scenario = Scenario::new(SCENARIO, scenario).env("TRACER_FORMAT", format);
    let traced = scenario.env("TRACER_CALL_SITES", call_sites).run().succeeded();
    traced.assert_whole();
    traced
}

/// Runs the command on the traces in a directory, and returns its standard output. Panics unless it succeeds.
fn told(directory: &Path, runtime: &Path, args: &[&str]) -> String {
    let mut command = tracemerge(SCENARIO, runtime, args);
    let output = command.arg(directory.join(APP)).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn told_of(traced: &Traced, args: &[&str]) -> String {
    told(traced.directory.path(), traced.runtime.path(), args)
}

fn lines(text: &str) -> Vec<Line<'_>> {
    text.lines().map(|line| Line::parse(line.as_bytes()).expect("a line")).collect()
}

/// Returns the functions and places that `addr2line` finds for addresses in a program's file, the innermost first,
/// without those of the tracer.
fn addr2line(program: &str, addresses: &[u64]) -> BTreeMap<u64, Vec<(String, String)>> {
    let digits = addresses.iter().map(|address| format!("{address:#x}"));
    let output =
        Command::new("addr2line").args(["-C", "-f", "-i", "-a", "-e", program]).args(digits).output();
    let output = output.expect("addr2line runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (mut told, mut lines) = (BTreeMap::new(), text.lines().peekable());
    while let Some(line) = lines.next() {
        let address = u64::from_str_radix(line.trim_start_matches("0x"), 16).expect("an address");
        let frames: &mut Vec<(String, String)> = told.entry(address).or_default();
        frames.clear();
        while let Some(function) = lines.next_if(|line| !line.starts_with("0x")) {
            let place = lines.next().expect("a place").split(" (discriminator").next().expect("a place");
            let is_tracers = place.contains("/tracer/src/");
            if !(frames.is_empty() && is_tracers) {
                frames.push((function.to_owned(), place.to_owned()));
            }
        }
    }
    told
}

/// Returns the last part of a name, without its generic part: line tables have no more.
fn bare(name: &str) -> &str {
    name.split('<').next().expect("a first part").rsplit("::").next().expect("a last part")
}

/// Panics unless the names equal those of `addr2line` for an address in the program's file.
fn assert_names(names: &[FunctionName<'_>], expected: &[(String, String)], what: &str) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let named: Vec<_> = names.iter().map(|named| (text(named.function), text(named.at))).collect();
    let (around, _) = expected.last().expect("a frame");
    for (at, ((name, place), (expected, expected_place))) in named.iter().zip(expected).enumerate() {
        // `addr2line` names one of the functions that share their code, and takes no path from the symbol table.
        // For an inlined function without a path, it names the function around it. In the standard library, whose
        // code is folded, the two may name different functions.
        let is_inlined = at + 1 < named.len();
        let is_same = |name: &str| {
            name == expected
                || (!expected.contains("::") && bare(name) == bare(expected))
                || (is_inlined && expected == around)
                || !place.contains("/tests/programs/")
        };
        assert!(
            name.split(" = ").map(|name| name.trim_end_matches(" (symbol)")).any(is_same),
            "{what}: {name} {expected}"
        );
        assert!(place == expected_place || expected_place.contains('?'), "{what}: {place} {expected_place}");
    }
}

#[test]
fn symbols_adds_the_names_of_addr2line_and_changes_nothing_else() {
    for format in FORMATS {
        let traced = run(&["functions-placed"], format, "1");
        let plain = told_of(&traced, &["-q", "-o", "-"]);
        let named = told_of(&traced, &["-q", "-o", "-", "--symbols"]);
        let (plain, named) = (lines(&plain), lines(&named));
        let is_ours = |line: &Line<'_>| match Meta::parse(line.payload) {
            Some(Meta::Module(module)) => module.path.ends_with(b"/scenario").then_some(module),
            _ => None,
        };
        let metas = plain.iter().filter(|line| line.kind == Kind::Meta);
        let own: Module = metas.filter_map(is_ours).next().expect("the program's own module");
        let (mut asked, mut found) = (Vec::new(), Vec::new());
        assert_eq!(plain.len(), named.len());
        for (plain, named) in plain.iter().zip(&named) {
            assert_eq!((plain.key, plain.kind), (named.key, named.kind));
            match named.kind {
                Kind::Enter | Kind::Leave => {
                    let [mut line, bare] =
                        [named, plain].map(|line| FunctionLine::parse(line.payload).expect("a function"));
                    if let FunctionPlace::Address(address, names) = line.place {
                        asked.push(address - own.bias);
                        found.push(vec![FunctionName { called_from: &[], ..names }]);
                        line.place = FunctionPlace::Address(address, FunctionName::default());
                    }
                    assert_eq!(line, bare);
                }
                Kind::Stack => {
                    let [mut line, bare] =
                        [named, plain].map(|line| StackLine::parse(line.payload).expect("a stack"));
                    for frame in &mut line.frames {
                        let names = std::mem::take(&mut frame.names);
                        if own.range.contains(frame.address) {
                            asked.push(frame.address - 1 - own.bias);
                            found.push(names);
                        }
                    }
                    assert_eq!(line, bare);
                }
                _ => assert_eq!(plain, named),
            }
        }
        assert!(asked.len() > 40, "{asked:x?}");
        if installed_programs(["addr2line"]).is_empty() {
            continue;
        }
        let expected = addr2line(SCENARIO, &asked);
        for (address, names) in asked.iter().zip(&found) {
            let expected = &expected[address];
            assert!(names.len() == 1 || names.len() == expected.len(), "{names:?} {expected:?}");
            assert_names(names, expected, &format!("{address:#x}"));
        }
    }
}

#[test]
fn a_merged_file_with_names_needs_no_program_for_its_views() {
    let traced = run(&["functions-placed"], "text", "1");
    let views: [&[&str]; 4] =
        [&["tree"], &["tree", "--function", "generic"], &["report", "--sort", "calls"], &["check", "-v"]];
    let expected = views.map(|view| told_of(&traced, view));
    let named = told_of(&traced, &["-q", "-o", "-", "--symbols"]);
    // The program has moved away, so that no command can look names up.
    let moved = named.replace(&format!("path=\"{SCENARIO}\""), "path=\"/no/such/program\"");
    assert_ne!(moved, named);
    let other = tempfile::tempdir().expect("a directory");
    let name = traced.files.keys().next().expect("a file");
    fs::write(other.path().join(name), &moved).expect("a copy");
    let runtime = traced.runtime.path();
    for (view, expected) in views.iter().zip(&expected) {
        let place = |text: &str| text.replace(other.path().to_str().expect("UTF-8"), "DIR");
        let expected = expected.replace(traced.directory.path().to_str().expect("UTF-8"), "DIR");
        assert_eq!(place(&told(other.path(), runtime, view)), expected, "{view:?}");
    }
    // A second merge, with or without names, gives the same.
    for options in [&["-q", "-o", "-"][..], &["-q", "-o", "-", "--symbols"]] {
        assert_eq!(told(other.path(), runtime, options), moved, "{options:?}");
    }
    let addresses = told(other.path(), runtime, &["tree", "--no-symbols"]);
    assert!(!addresses.contains("placed::by_address") && addresses.contains("0x"), "{addresses}");
}

#[test]
fn names_are_shown_even_if_a_view_omits_the_module_lines() {
    for format in FORMATS {
        let traced = run(&["functions-placed"], format, "");
        // None of these shows the lines that describe the modules.
        for options in [&["--since", "1ns"][..], &["--grep", "0x"], &["--last", "6"], &["--head", "2"]] {
            let text = told_of(&traced, &[&["-q", "-o", "-", "--symbols"], options].concat());
            assert!(
                text.contains("placed::by_address at ") && !text.contains("# module"),
                "{options:?}: {text}"
            );
            let tree = told_of(&traced, &[&["tree"], options].concat());
            assert!(!tree.contains("no known module"), "{options:?}: {tree}");
        }
        for options in [&["show"][..], &["show", "--symbols"], &["show", "--last", "6"]] {
            let shown = told_of(&traced, options);
            // A call stack may begin in code that has no names.
            let mut calls = shown.lines().filter(|line| line.contains("-> ") || line.contains("<- "));
            assert!(shown.contains("placed::by_address"), "{options:?}: {shown}");
            assert!(calls.all(|line| !line.contains("0x")), "{options:?}: {shown}");
        }
    }
}

/// Returns the calls that the program has printed, with their lines, in order.
fn printed(traced: &Traced) -> Vec<(String, String)> {
    let said = traced.stdout();
    let split = |line: &str| {
        let (call, line) = line.rsplit_once(' ').expect("a call and a line");
        (call.split('(').next().expect("a name").to_owned(), line.to_owned())
    };
    said.lines().map(split).collect()
}

/// Returns the functions that a tree shows being entered, each with the line that it was called from.
fn placed(tree: &str) -> Vec<(String, Option<String>)> {
    let entered = tree.lines().filter(|line| line.contains("  (functions.rs:") && !line.contains(": by "));
    let split = |line: &str| {
        let (before, behind) = line.split_once("  (functions.rs:").expect("a place");
        // Line tables have no path for inlined functions.
        let name = before.rsplit([':', ' ']).next().expect("a name").to_owned();
        let from = behind.split("called from functions.rs:").nth(1);
        (name, from.map(|line| line.trim_end_matches(" {").to_owned()))
    };
    entered.map(split).collect()
}

#[test]
fn each_call_shows_the_line_of_its_call_site() {
    for format in FORMATS {
        let traced = run(&["functions-placed"], format, "1");
        let expected: Vec<_> = printed(&traced).into_iter().map(|(name, line)| (name, Some(line))).collect();
        assert_eq!(expected.len(), 12);
        let tree = told_of(&traced, &["tree"]);
        assert_eq!(placed(&tree), expected, "{tree}");
        // The stacks that serve as call sites are not shown; the one that the program has requested is.
        assert_eq!(tree.matches(": by scenario::functions::from_known_lines  (").count(), 1, "{tree}");
        let report = told_of(&traced, &["report"]);
        assert!(report.starts_with("12 calls of 1 thread\n"), "{report}");
        // A merged file with names has the call sites, too.
        let named = told_of(&traced, &["-q", "-o", "-", "--symbols"]);
        assert!(named.contains(" called from ") && named.contains("functions.rs:"), "{named}");
    }
}

#[test]
fn only_inlined_functions_have_call_sites_if_none_are_recorded() {
    let traced = run(&["functions-placed"], "text", "");
    let known = |name: &str| name == "inlined_by_address";
    let expected: Vec<_> =
        printed(&traced).into_iter().map(|(name, line)| (known(&name).then_some(line), name)).collect();
    let tree = told_of(&traced, &["tree"]);
    let told: Vec<_> = placed(&tree).into_iter().map(|(name, line)| (line, name)).collect();
    assert_eq!(told, expected, "{tree}");
}

#[test]
fn follow_shows_and_counts_calls_with_their_names() {
    for format in FORMATS {
        let mut scenario = Scenario::new(SCENARIO, &["functions-slowly", "6000"])
            .env("TRACER_FORMAT", format)
            .env("TRACER_CALL_SITES", "1");
        let mut child = scenario.command().stdout(Stdio::null()).spawn().expect("the program starts");
        let follow = |command: &str, options: &[&str]| {
            Follower::start_command(SCENARIO, command, &[&scenario], options)
        };
        let (tree, report) = (follow("tree", &[]), follow("report", &["--rows", "all"]));
        let lines = follow("merge", &["--symbols", "--grep", "0x"]);
        let name = "slowly::slow";
        wait_until(60, "the calls come with their names", || {
            tree.shown().matches(name).count() > 20 && lines.shown().contains(name)
        });
        assert!(child.try_wait().expect("its state").is_none(), "it still runs");
        child.kill().expect("a kill");
        child.wait().expect("its end");
        let (status, shown, said) = tree.ended();
        assert!(status.success(), "{said}");
        let is_call = |line: &&str| {
            line.contains(name) && line.contains("called from functions.rs:") && line.ends_with(" {")
        };
        // In either view, the first calls may be shown before the program has recorded its modules.
        const NAMELESS: &str = " (of no known module)";
        let nameless = shown.lines().filter(|line| line.contains(NAMELESS) && line.ends_with(" {")).count();
        let begun = shown.lines().filter(is_call).count() + nameless;
        assert!(begun > 10 && nameless < 10, "{shown}");
        let (status, counted, said) = report.ended();
        assert!(status.success(), "{said}");
        let rows = counted.lines().filter(|line| line.contains(name) || line.contains(NAMELESS));
        let count = |row: &str| row.split_whitespace().next()?.replace(',', "").parse::<usize>().ok();
        let calls: usize = rows.map(|row| count(row).expect("a count")).sum();
        assert!(counted.contains(name), "{counted}");
        // If the kill came in between, one call more has been entered than has a message.
        assert!((begun..=begun + 1).contains(&calls), "{calls} {begun}: {counted}");
        assert!(counted.contains("1 still running at the end") || calls == begun, "{counted}");
        let lines = lines.ended().1;
        let unnamed = lines.lines().take_while(|line| !line.contains(name)).count();
        assert!(lines.lines().skip(unnamed).all(|line| line.contains(name)), "{lines}");
    }
}

/// Parses a duration in the form of tables; returns nanoseconds.
fn nanoseconds(number: &str, unit: &str) -> f64 {
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("{other}"),
    };
    number.parse::<f64>().expect("a number") * factor
}

#[test]
fn summary_durations_match_the_measurements_of_the_program() {
    for format in FORMATS {
        let traced = run(&["functions-slowly", "20"], format, "");
        let said = traced.stdout();
        let measured: Vec<f64> = said.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        let [inside, around] = measured[..] else { panic!("{said}") };
        let report = told_of(&traced, &["report"]);
        let row = report.lines().find(|line| line.contains("slowly::slow")).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[0], "20", "{report}");
        let total = nanoseconds(words[1], words[2]);
        let facts = told_of(&traced, &["report", "--json"]);
        let waited = facts.split("\"waited_ns\":").nth(1).expect("a fact").trim_start();
        let waited: String = waited.chars().take_while(char::is_ascii_digit).collect();
        // The program has measured its waits for the tracer, too. The table rounds.
        let with_waits = total + waited.parse::<f64>().expect("a number");
        assert!(
            with_waits >= inside * 0.98 && total <= around * 1.02,
            "{total} and {waited} of {inside} to {around}: {report}"
        );
        let stats = told_of(&traced, &["stats", "--json"]);
        let span = stats.split("\"span_ns\":").nth(1).expect("the span").trim_start();
        let digits: String = span.chars().take_while(char::is_ascii_digit).collect();
        let span: f64 = digits.parse().expect("a number");
        // Nineteen calls of twenty lie between the first message and the last.
        assert!(span >= inside * 0.90 && span <= around * 1.02, "{span} of {inside} to {around}: {stats}");
    }
}
