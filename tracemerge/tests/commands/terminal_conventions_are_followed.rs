//! Colours, the pager and manual pages work on a terminal as people are used to, and have no effect elsewhere.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::process::Command;

use crate::support::{Place, file, programs, ran, run};

/// Returns the output of the command line `tracemerge ARGS` on a terminal, with these settings; `None` if no terminal
/// is available.
fn on_a_terminal(place: &Place, settings: &str, args: &str) -> Option<String> {
    if programs::installed_programs(["script"]).is_empty() {
        return None;
    }
    let mut script = place.program("script");
    for variable in ["NO_COLOR", "PAGER", "LESS", "TERM"] {
        script.env_remove(variable);
    }
    let line = format!("{settings} '{}' {args}", env!("CARGO_BIN_EXE_tracemerge"));
    let output = script.args(["-qec", &line, "/dev/null"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    Some(text.replace("\r\n", "\n"))
}

const SHOWN: &str = "0000000000000007-00000009 : line 1 of 9\n";

#[test]
fn colours_are_used_on_terminals_and_on_request() {
    let place = Place::with_one_file();
    let shown = |args: &[&str]| String::from_utf8(place.merge(args).out).unwrap();
    assert_eq!(shown(&["app", "--last", "1"]), SHOWN);
    assert_eq!(shown(&["app", "--last", "1", "--color", "never"]), SHOWN);
    assert!(shown(&["app", "--last", "1", "--color", "always"]).contains('\x1b'));
    let Some(coloured) = on_a_terminal(&place, "TERM=xterm", "app --last 1 --no-pager") else { return };
    assert!(coloured.contains("\x1b["), "{coloured:?}");
    assert_eq!(on_a_terminal(&place, "NO_COLOR=1", "app --last 1 --no-pager").unwrap(), SHOWN);
    assert_eq!(on_a_terminal(&place, "TERM=dumb", "app --last 1 --no-pager").unwrap(), SHOWN);
    assert_eq!(on_a_terminal(&place, "", "app --last 1 --no-pager --color never").unwrap(), SHOWN);
    assert!(
        on_a_terminal(&place, "NO_COLOR=1", "app --last 1 --no-pager --color always")
            .unwrap()
            .contains('\x1b')
    );
}

#[test]
fn a_pager_is_used_on_a_terminal_only() {
    let place = Place::with_one_file();
    let pager = "NO_COLOR=1 PAGER='sed s/^/paged:/'";
    let Some(paged) = on_a_terminal(&place, pager, "app --last 1") else { return };
    assert_eq!(paged, format!("paged:{SHOWN}"));
    // A whole merge goes to the pager, too, if it is for a terminal.
    let whole = on_a_terminal(&place, pager, "app -o -").unwrap();
    assert_eq!(whole.lines().filter(|line| line.starts_with("paged:")).count(), 3, "{whole}");
    assert_eq!(on_a_terminal(&place, pager, "app --last 1 --no-pager").unwrap(), SHOWN);
    assert_eq!(on_a_terminal(&place, "NO_COLOR=1 PAGER=", "app --last 1").unwrap(), SHOWN);
    // A pager that takes no more is not a failure. If the user has set no options for the pager, it gets one for
    // short output.
    on_a_terminal(&place, "PAGER=true", "app -o -").unwrap();
    let told = on_a_terminal(&place, "PAGER='cat >/dev/null; echo $LESS'", "app --last 1").unwrap();
    assert_eq!(told, "FRX\n");
    let piped = ran(place.command().env("PAGER", "sed s/^/paged:/").args(["app", "--last", "1"]));
    assert_eq!(String::from_utf8(piped.out).unwrap(), SHOWN);
}

#[test]
fn a_merge_shows_its_last_records_on_a_terminal_only() {
    let place = Place::new();
    let ticks: Vec<u64> = (1..=9).collect();
    place.write("app.trace.4", file(&run(4, 1), 9, &ticks));
    let piped = place.merge(["app"]);
    assert_eq!(piped.err.lines().count(), 1, "{}", piped.err);
    let Some(said) = on_a_terminal(&place, "NO_COLOR=1", "app") else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("tracemerge: merged 1 file"), "{said}");
    let messages: Vec<&str> = lines[1..].iter().map(|line| line.split("  ").last().unwrap()).collect();
    let of_file = String::from_utf8(place.merge(["app", "--last", "5"]).out).unwrap();
    let expected: Vec<&str> = of_file.lines().map(|line| line.split(" : ").nth(1).unwrap()).collect();
    assert_eq!((expected.len(), &messages), (5, &expected), "{said}");
    assert!(on_a_terminal(&place, "", "app").unwrap().contains("\x1b["));
    for args in ["-q app", "app -o - --no-pager", "--head 1 --no-pager app"] {
        let said = on_a_terminal(&place, "NO_COLOR=1", args).unwrap();
        assert!(!said.contains("0.000000"), "{args}: {said}");
    }
}

#[test]
fn completions_and_manual_pages_are_made_from_the_command_line() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = place.merge(["completions", shell]);
        assert_eq!(completions.status, Some(0), "{}", completions.err);
        let text = String::from_utf8(completions.out).unwrap();
        assert!(text.contains("since") && text.contains("snapshot"), "{shell}");
        if shell == "bash" {
            place.write("completions", text);
            for bash in programs::installed_programs(["bash"]) {
                let checked = Command::new(bash).arg("-n").arg(place.path("completions")).status();
                assert!(checked.unwrap().success());
            }
        }
    }
    let page = String::from_utf8(place.merge(["man"]).out).unwrap();
    assert!(page.contains(".TH tracemerge 1") && page.contains("\\-\\-since"), "{page}");
    let page = String::from_utf8(place.merge(["man", "run"]).out).unwrap();
    assert!(page.contains("TRACER_ENABLE"), "{page}");
    assert_eq!(place.merge(["man", "nothing"]).status, Some(2));
}

#[test]
fn details_are_shown_on_request() {
    let place = Place::with_one_file();
    let told = place.merge(["app", "-v", "--last", "1"]).err;
    assert!(told.contains("'./app.trace.9': thread 9 '', 44 of") || told.contains("thread 9 ''"), "{told}");
    assert!(!place.merge(["app", "--last", "1"]).err.contains("thread 9"));
    assert_eq!(place.merge(["app", "-q", "--last", "1"]).err, "");
}
