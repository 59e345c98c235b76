//! The calls that are recorded if the user wants only some: by name, by depth, by duration, and from a function on.
//! The expected calls are computed in a slow and simple way, from a trace of all calls or from the program's own
//! counts.

use std::collections::BTreeMap;

use support::Traced;
use support::programs::{installed_programs, lacks};
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::line::{Kind, Line};

use crate::compiled::{Program, calls, counted, tracemerge};

/// Returns the names of the functions that were entered, with the depth of each, from the merge of a trace of all
/// calls; leaves out calls of the function `but`.
fn depths(lines: &[String], but: &str) -> Vec<(String, usize)> {
    let mut open: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
    let mut entered = Vec::new();
    for line in lines {
        let line = Line::parse(line.as_bytes()).expect("a line");
        let (Kind::Enter | Kind::Leave) = line.kind else { continue };
        let open = open.entry(line.key.tid).or_default();
        if line.kind == Kind::Leave {
            open.pop().expect("it was entered");
            continue;
        }
        let name = name_of(&line);
        open.push(name != but);
        if name != but {
            entered.push((name, open.iter().filter(|counts| **counts).count()));
        }
    }
    entered
}

fn name_of(line: &Line<'_>) -> String {
    let told = FunctionLine::parse(line.payload).expect("a function");
    let FunctionPlace::Address(_, named) = told.place else { panic!("{:?}", told.place) };
    String::from_utf8_lossy(named.function).into_owned()
}

/// Returns the messages and the names of the functions that were entered, in order.
fn told(lines: &[String]) -> Vec<String> {
    let lines = lines.iter().map(|line| Line::parse(line.as_bytes()).expect("a line"));
    lines
        .filter_map(|line| match line.kind {
            Kind::Enter => Some(name_of(&line)),
            Kind::Message => Some(String::from_utf8_lossy(line.payload).into_owned()),
            _ => None,
        })
        .collect()
}

/// Returns how often each function is among the entered ones that `wanted` accepts, by their names and depths.
fn count(entered: &[(String, usize)], wanted: impl Fn(&str, usize) -> bool) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (name, _) in entered.iter().filter(|(name, depth)| wanted(name, *depth)) {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts
}

/// Runs the program with these variables set, and returns how often each function was entered. Each must be left.
fn entered(program: &Program, how: &str, variables: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let traced = run(program, how, variables);
    let calls = calls(&program.merged(&traced));
    assert_eq!(calls.not_innermost, 0, "{how} {variables:?}: {calls:?}");
    assert!(calls.open.values().all(Vec::is_empty), "{how} {variables:?}: {calls:?}");
    calls.entered
}

fn run(program: &Program, how: &str, variables: &[(&str, &str)]) -> Traced {
    let scenario =
        variables.iter().fold(program.scenario(&[how]), |scenario, (name, value)| scenario.env(name, value));
    let traced = scenario.run().succeeded();
    assert_eq!(traced.stderr(), "");
    traced.assert_whole();
    traced
}

#[test]
fn functions_selected_by_name_and_depth_agree_with_a_full_trace() {
    for compiler in installed_programs(["cc", "clang"]) {
        let program = Program::linked(compiler, "calls.c");
        for how in ["plain", "threads", "signals"] {
            let lines = program.merged(&program.run(&[how]));
            let all = depths(&lines, "");
            let of = |variables: &[(&str, &str)]| entered(&program, how, variables);
            assert_eq!(of(&[("TRACER_FUNCTIONS", "fib")]), count(&all, |name, _| name == "fib"));
            assert_eq!(of(&[("TRACER_FUNCTIONS", "-*e*")]), count(&all, |name, _| !name.contains('e')));
            for depth in [1, 2, 4] {
                let most = depth.to_string();
                let wanted = count(&all, |_, at| at <= depth);
                assert_eq!(of(&[("TRACER_MAX_DEPTH", &most)]), wanted, "{compiler} {how} {depth}");
            }
            // The outermost of the functions recorded by name.
            let outermost = of(&[("TRACER_FUNCTIONS", "-main"), ("TRACER_MAX_DEPTH", "1")]);
            let below_main = count(&depths(&lines, "main"), |_, at| at == 1);
            assert_eq!(outermost, below_main, "{compiler} {how}");
        }
        let jumps = entered_in_jumps(&program);
        assert_eq!(jumps, (counted_in_jumps(&program), 0), "{compiler}");
    }
}

/// Returns how often a named function of a program that jumps out of functions was entered, and how many calls were
/// left while they were not the innermost.
fn entered_in_jumps(program: &Program) -> (Option<u64>, u64) {
    let traced = run(program, "jumps", &[("TRACER_FUNCTIONS", "around_jumps,leaf")]);
    let calls = calls(&program.merged(&traced));
    (calls.entered.get("leaf").copied(), calls.not_innermost)
}

fn counted_in_jumps(program: &Program) -> Option<u64> {
    counted(&program.run(&["jumps"]).stdout()).get("leaf").copied()
}

#[test]
fn functions_of_cpp_are_selected_by_qualified_names() {
    if lacks(&["g++"]) {
        return;
    }
    let program = Program::linked("g++", "exceptions.cpp");
    let all = program.run(&[]);
    let all = calls(&program.merged(&all)).entered;
    let name = all.keys().find(|name| name.as_str() != "main").expect("a function").clone();
    let traced = run(&program, "", &[("TRACER_FUNCTIONS", &name)]);
    let only = calls(&program.merged(&traced)).entered;
    assert_eq!(only.get(&name), all.get(&name));
    assert!(only.keys().all(|entered| entered.ends_with(&name)), "{only:?}");
}

#[test]
fn calls_shorter_than_the_minimum_duration_are_not_recorded() {
    // Longer than the time that the system sometimes takes from a thread, and shorter than the program's waits.
    const SHORTEST: &str = "20ms";
    for compiler in installed_programs(["cc", "clang"]) {
        let program = Program::linked(compiler, "durations.c");
        for how in ["plain", "threads", "forks"] {
            let traced = run(&program, how, &[("TRACER_MIN_DURATION", SHORTEST)]);
            let lines = program.merged(&traced);
            let told = calls(&lines);
            assert_eq!(told.not_innermost, 0, "{told:?}");
            for (name, count) in counted(&traced.stdout()) {
                assert_eq!(told.entered.get(&name), Some(&count), "{compiler} {how} {name}: {told:?}");
            }
            assert!(told.entered.len() <= 5, "{compiler} {how}: {told:?}");
            assert_eq!(told.entered.get("quick").copied().unwrap_or(0), 0, "{compiler} {how}");
        }
        // No call is as long, but calls that are open when the process ends are recorded.
        let none = run(&program, "plain", &[("TRACER_MIN_DURATION", "1000s")]);
        assert!(none.files.is_empty(), "{:?}", none.files);
        let exits = run(&program, "exits", &[("TRACER_MIN_DURATION", "1000s")]);
        let open = calls(&program.merged(&exits));
        assert_eq!(open.entered, BTreeMap::from([("main".to_owned(), 1)]));
    }
}

#[test]
fn the_outermost_calls_are_recorded_if_too_many_are_held_back() {
    let program = Program::linked("cc", "durations.c");
    let traced = run(&program, "deep", &[("TRACER_MIN_DURATION", "5ms")]);
    let told = calls(&program.merged(&traced));
    assert_eq!(told.entered.get("deep"), Some(&1001));
    assert_eq!((told.not_innermost, told.entered.get("quick")), (0, None));
}

#[test]
fn a_message_is_recorded_inside_its_calls_however_short_they_are() {
    let program = Program::linked("cc", "durations.c");
    let traced = run(&program, "says", &[("TRACER_MIN_DURATION", "1000s")]);
    let lines = program.merged(&traced);
    let told = calls(&lines);
    assert_eq!(told.entered, BTreeMap::from([("main".to_owned(), 1), ("says".to_owned(), 2)]));
    assert_eq!(self::told(&lines), ["main", "says", "said 1", "says", "said 2"]);
}

#[test]
fn a_killed_process_leaves_the_stack_of_held_back_calls() {
    for compiler in installed_programs(["cc", "clang"]) {
        let program = Program::linked(compiler, "durations.c");
        let traced = program.scenario(&["killed"]).env("TRACER_MIN_DURATION", "1000s").run();
        let told = calls(&program.merged(&traced));
        let open: Vec<_> = told.open.into_values().flatten().collect();
        assert_eq!(open, ["main", "outermost", "middle", "innermost"], "{compiler}");
        assert_eq!(told.entered.len(), 4, "{:?}", told.entered);
    }
}

#[test]
fn recording_begins_with_the_first_call_of_the_trigger_function() {
    let program = Program::linked("cc", "calls.c");
    let all = depths(&program.merged(&program.run(&["plain"])), "");
    let first = all.iter().position(|(name, _)| name == "leaf").expect("it is called");
    let traced = run(&program, "plain", &[("TRACER_TRIGGER", "leaf")]);
    let entered = told(&program.merged(&traced));
    let expected: Vec<String> = all[first..].iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(entered, expected);
    let never = run(&program, "plain", &[("TRACER_TRIGGER", "no_such_function")]);
    assert!(never.files.is_empty());
}

#[test]
fn calls_of_a_process_killed_anywhere_are_nested_and_recorded_once() {
    const STACK: [&str; 5] = ["go_on_for_ever", "level_0", "level_1", "level_2", "level_3"];
    let program = Program::linked("cc", "durations.c");
    let mut recorded = 0;
    for turn in 0..12u64 {
        let mut scenario = program.scenario(&["forever"]).env("TRACER_MIN_DURATION", "2us");
        let mut child = scenario.command().spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(150 + 7 * turn));
        child.kill().expect("it is killed");
        child.wait().expect("its end");
        let merged = program.beside("merged");
        let mut command = tracemerge(scenario.runtime.path());
        command.args(["--quiet", "--symbols", "-o"]).arg(&merged).arg(scenario.directory.path());
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&merged).expect("a merge");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let told = calls(&lines);
        assert_eq!(told.not_innermost, 0, "{told:?}");
        for open in told.open.values().filter(|open| open.first().is_some_and(|name| name != "main")) {
            assert_eq!(*open, STACK[..open.len()], "each thread's stack is one that the program has");
        }
        let mut entered: Vec<_> = lines
            .iter()
            .map(|line| Line::parse(line.as_bytes()).expect("a line"))
            .filter(|line| line.kind == Kind::Enter)
            .map(|line| (line.key.tid, line.key.ticks, name_of(&line)))
            .collect();
        let all = entered.len();
        recorded += all;
        entered.sort_unstable();
        entered.dedup();
        assert_eq!(entered.len(), all, "an entering stands there twice");
    }
    assert!(recorded > 1000, "{recorded}");
}

#[test]
fn a_paused_program_that_asks_whether_it_traces_stays_paused() {
    let program = Program::linked("cc", "durations.c");
    let traced = run(&program, "asks", &[("TRACER_ENABLE", "paused")]);
    assert_eq!(traced.stdout(), "00\n");
    assert!(traced.files.is_empty(), "{:?}", traced.files);
    assert_eq!(run(&program, "asks", &[]).stdout(), "11\n");
}
