//! `show` has a line for each entering and each leaving of a function, indented by the open calls of its thread.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, run, whole_file};

/// Returns a place with one thread that has these lines, a nanosecond apart.
fn place(lines: &[&str]) -> Place {
    let place = Place::new();
    let text: String =
        (1..).zip(lines).map(|(ticks, line)| format!("{ticks:016x}-00000009 {line}\n")).collect();
    place.write("app.trace.9", whole_file(&run(5, 0), 9, "main", text.as_bytes()));
    place
}

/// Returns the lines that `show` prints, without times and threads.
fn shown(place: &Place, args: &[&str]) -> Vec<String> {
    let ran = place.merge([&["show", "--columns", "process"], args, &["app"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    let out = String::from_utf8(ran.out).unwrap();
    out.lines().map(|line| line.get(9..).unwrap().to_owned()).collect()
}

const PARSE: &str = "> hook 0x55d5c0ffee00 app::parse at src/parse.rs:88";
const SEND: &str = "> app::net::send at src/net.rs:12";

#[test]
fn entering_and_leaving_are_apart_and_what_is_inside_is_indented() {
    let lines = [
        ": starts",
        PARSE,
        ": reads\n0000000000000003-00000009 | more",
        SEND,
        "< app::net::send at src/net.rs:12",
        "< hook 0x0",
        "> span=4 app::request at src/net.rs:50",
        "< span=4 app::request at src/net.rs:50",
        ": ends",
    ];
    let expected = [
        "starts",
        "-> app::parse  (parse.rs:88)",
        "  reads",
        "  more",
        "  -> app::net::send  (net.rs:12)",
        "  <- app::net::send",
        "<- app::parse",
        "-> app::request #4  (net.rs:50)",
        "<- app::request #4",
        "ends",
    ];
    let place = place(&lines);
    assert_eq!(shown(&place, &[]), expected);
    assert_eq!(shown(&place, &["--last", "3"]), expected[7..]);
}

#[test]
fn a_thread_that_begins_in_the_middle_begins_at_the_left() {
    let lines = ["< app::net::send at src/net.rs:12", "< hook 0x0", ": between", PARSE, "< hook 0x0"];
    let expected = [
        "<- app::net::send",
        "<- a function that was entered before the shown records",
        "between",
        "-> app::parse  (parse.rs:88)",
        "<- app::parse",
    ];
    assert_eq!(shown(&place(&lines), &[]), expected);
}

#[test]
fn lost_records_of_leaving_do_not_shift_what_comes_after_the_call_around_them() {
    let outer = ["> app::outer at src/main.rs:1", "< app::outer at src/main.rs:1"];
    let lines = [outer[0], SEND, PARSE, "# lost records=2 reason=full", outer[1], ": ends"];
    let expected = [
        "-> app::outer  (main.rs:1)",
        "  -> app::net::send  (net.rs:12)",
        "    -> app::parse  (parse.rs:88)",
        "      # lost records=2 reason=full",
        "<- app::outer",
        "ends",
    ];
    let place = place(&lines);
    let ran = place.merge(["show", "--columns", "process", "app"]);
    assert_eq!(ran.status, Some(1), "losses are reported: {}", ran.err);
    let out = String::from_utf8(ran.out).unwrap();
    assert_eq!(out.lines().map(|line| &line[9..]).collect::<Vec<_>>(), expected);
}

#[test]
fn what_follows_a_pause_begins_at_the_left() {
    let lines = [SEND, "# off ticks=2", "# on ticks=3", ": again"];
    let expected = [
        "-> app::net::send  (net.rs:12)",
        "  # tracing was switched off",
        "# tracing was switched on again",
        "again",
    ];
    assert_eq!(shown(&place(&lines), &[]), expected);
}

#[test]
fn a_depth_beyond_40_is_a_number() {
    let lines = [vec![SEND; 60], vec![": deep"], vec!["< app::net::send at src/net.rs:12"; 60]].concat();
    let shown = shown(&place(&lines), &[]);
    assert_eq!(shown.len(), 121);
    assert_eq!(shown[40], format!("{}-> app::net::send  (net.rs:12)", " ".repeat(80)));
    assert_eq!(shown[41], format!("{}[41] -> app::net::send  (net.rs:12)", " ".repeat(80)));
    assert_eq!(shown[60], format!("{}[60] deep", " ".repeat(80)));
    assert_eq!(shown[120], "<- app::net::send");
}

#[test]
fn a_call_stack_has_a_line_for_each_function() {
    let stack =
        "^ 0x55d5c0ffee10 (app::parse at src/parse.rs:90) 0x55d5c0ffee20 (app::main at src/main.rs:3)";
    let lines = shown(&place(&[PARSE, ": here", stack]), &[]);
    assert_eq!(
        lines[2..],
        ["  call stack:", "  by app::parse  (parse.rs:90)", "  by app::main  (main.rs:3)"]
    );
}

#[test]
fn a_call_stack_has_the_functions_of_the_user_unless_all_are_wanted() {
    let names =
        ["std::panicking::panic_with_hook", "core::panicking::panic_fmt", "app::parse", "alloc::retain"];
    let names = [&names[..], &["app::main", "std::rt::lang_start_internal", "main", "_start"]].concat();
    let frames: Vec<_> = names.iter().map(|name| format!(" 0x55d5c0ffee10 ({name} at src/a.rs:1)")).collect();
    let place = place(&[": here", &format!("^{}", frames.concat())]);
    let lines = |names: &[&str]| -> Vec<_> {
        let lines = names.iter().map(|name| format!("by {name}  (a.rs:1)"));
        ["here", "call stack:"].map(str::to_owned).into_iter().chain(lines).collect()
    };
    assert_eq!(shown(&place, &[]), lines(&["app::parse", "alloc::retain", "app::main"]));
    assert_eq!(shown(&place, &["--full"]), lines(&names));
    for (options, is_noted) in [(&["show"][..], true), (&["tree"], true), (&["show", "--full"], false)] {
        let err = place.merge([options, &["app"]].concat()).err;
        let note = "left out of call stacks: 5 functions of panics, of the runtime and of the tracer; --full shows them";
        assert_eq!(err.contains(note), is_noted, "{options:?}: {err}");
    }
    let tree = |options: &[&str]| {
        String::from_utf8(place.merge([&["tree"], options, &["app"]].concat()).out).unwrap()
    };
    assert_eq!((tree(&[]).matches(": by ").count(), tree(&["--full"]).matches(": by ").count()), (3, 8));
}
