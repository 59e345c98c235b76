//! `tracemerge run` passes on the status of the application. In place of the application, a shell script runs and
//! writes the trace of its own process.
#![cfg(unix)]
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Place, file, ran, run};

/// Returns a script that first writes its trace, with the time at which it runs, and then does `rest`.
fn script(rest: &str) -> String {
    format!(
        r##"#!/bin/sh
k="00000000000000ff-$(printf %08d $$)"
printf '%s\n' "$k # run version=1 id=000000aa root=000000aa pid=$$ exe=\"/x/app\" boot=\"b\" ticks=255 wall=$(/bin/date -u +%Y-%m-%dT%H:%M:%S.%NZ) clock=ordered" "$k : enabled=$TRACER_ENABLE args=$*" > "$0.trace.$$"
{rest}
"##
    )
}

fn place(rest: &str) -> Place {
    let place = Place::new();
    place.install("app", script(rest));
    // This is a run of yesterday, which is not merged.
    place.write("app.trace.7", file(&run(7, 1), 7, &[3]));
    place
}

#[test]
fn the_files_of_this_run_are_merged() {
    let place = place("echo to standard output; exit 0");
    let ran = place.merge(["run", "./app", "-o", "x", "--", "y"]);
    assert_eq!((ran.status, &ran.out[..]), (Some(0), &b"to standard output\n"[..]), "{}", ran.err);
    assert!(ran.err.contains("merged 1 file of 1 run") && !ran.err.contains("ended with"), "{}", ran.err);
    let text = place.text("app.trace.merge");
    assert!(text.contains(" : enabled=1 args=-o x -- y\n"), "{text}");
    let all = place.merge(["run", "--all-runs", "-o", "all", "--", "./app"]);
    assert!(all.err.contains("merged 3 files of 3 runs"), "{}", all.err);
    assert!(place.path("all").exists());
}

#[test]
fn a_separator_behind_the_program_is_passed_on_and_the_user_is_told() {
    let hint = "'--' is passed on to './app'; write it before the program, if it is meant for tracemerge";
    for (words, hints, passed) in [
        (&["run", "./app", "--", "--port"][..], 1, "-- --port"),
        (&["run", "--", "./app", "--", "--port", "--"], 1, "-- --port --"),
        (&["run", "--", "./app", "--port"], 0, "--port"),
        (&["run", "./app", "--port", "--", "x"], 0, "--port -- x"),
        (&["run", "-q", "./app", "--", "--port"], 0, "-- --port"),
    ] {
        let place = place("exit 0");
        let ran = place.merge(words);
        assert_eq!((ran.status, ran.err.matches(hint).count()), (Some(0), hints), "{words:?}: {}", ran.err);
        let text = place.text("app.trace.merge");
        assert!(text.contains(&format!(" : enabled=1 args={passed}\n")), "{words:?}: {text}");
    }
}

#[test]
fn the_status_is_that_of_the_application() {
    for (rest, status, said) in [
        ("exit 3", 3, "'./app' ended with exit status: 3"),
        ("kill -9 $$", 137, "'./app' ended with signal: 9 (SIGKILL)"),
        ("kill -SEGV $$", 139, "'./app' ended with signal: 11 (SIGSEGV)"),
        ("exit 255", 255, "'./app' ended with exit status: 255"),
    ] {
        let place = place(rest);
        let ran = place.merge(["run", "./app"]);
        assert_eq!(ran.status, Some(status), "{rest}: {}", ran.err);
        assert!(ran.err.contains(said), "{rest}: {}", ran.err);
        assert!(place.text("app.trace.merge").contains("enabled=1"), "{rest}");
    }
}

#[test]
fn the_status_is_that_of_the_merge_if_the_application_succeeds() {
    let place = place("printf junk >> \"$0.trace.$$\"");
    assert_eq!(place.merge(["run", "./app"]).status, Some(1));
    let place = Place::new();
    place.install("app", "#!/bin/sh\nexit 0\n");
    let ran = place.merge(["run", "./app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("'./app' wrote no trace: it is a script, which '/bin/sh' runs"), "{}", ran.err);
}

#[test]
fn a_program_that_cannot_run_gives_the_status_that_shells_give() {
    let place = Place::new();
    place.write("plain", "no program");
    for (app, status) in [("./missing", 127), ("missing-from-path", 127), ("./plain", 126), ("./tmp", 126)] {
        let ran = place.merge(["run", app]);
        assert_eq!(ran.status, Some(status), "{app}: {}", ran.err);
        assert!(ran.err.contains(&format!("cannot run '{app}'")), "{}", ran.err);
    }
}

#[test]
fn a_name_without_a_slash_is_searched_in_path() {
    let place = Place::new();
    fs::create_dir(place.path("bin")).unwrap();
    place.install("bin/my-app", script("exit 0"));
    // The current directory has a program of the same name, but is not in PATH.
    place.install("my-app", script("exit 9"));
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    let ran = ran(place.command().env("PATH", path).args(["run", "my-app"]));
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(place.text("my-app.trace.merge").contains("enabled=1"));
}

/// Waits for a file with which the application, or the sender of a signal, reports its progress.
fn wait_for(place: &Place, name: &str) {
    let start = Instant::now();
    while !place.path(name).exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "there is no file {name}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn send(child: &Child, signal: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill {signal} {}", child.id())]).status().unwrap();
    assert!(status.success());
}

/// Gives signals their usual effect on a command, even if these tests run with some of them ignored, as by `nohup`.
fn with_usual_signals(command: &mut Command) -> &mut Command {
    let usual = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            // SAFETY: sets the default action; no memory is touched.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: `signal` is async-signal-safe, and nothing else is called.
    unsafe { command.pre_exec(usual) }
}

#[test]
fn run_survives_an_interrupt_and_merges() {
    let place = place("touch begun; while ! [ -e finish ]; do sleep 0.01; done; exit 5");
    let mut child = with_usual_signals(place.command().args(["run", "-q", "./app"])).spawn().unwrap();
    wait_for(&place, "begun");
    send(&child, "-INT");
    send(&child, "-QUIT");
    thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "it has died of the signal");
    place.write("finish", "");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert!(place.text("app.trace.merge").contains("enabled=1"));
}

#[test]
fn a_termination_signal_is_passed_on() {
    for (signal, status) in [("-TERM", 40), ("-HUP", 41)] {
        let place =
            place("trap 'exit 40' TERM; trap 'exit 41' HUP; touch begun; while :; do sleep 0.01; done");
        let mut child = with_usual_signals(place.command().args(["run", "-q", "./app"])).spawn().unwrap();
        wait_for(&place, "begun");
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(status));
        assert!(place.text("app.trace.merge").contains("enabled=1"));
    }
}

/// Starts an application that ends at once, and sends SIGINT to the command this number of seconds later, while the
/// command waits for a reader of the merge.
fn interrupted_after_the_end(place: &Place, seconds: &str) -> Child {
    let lines = r#"n=0; while [ $n -lt 5000 ]; do echo "$k : line $n"; n=$((n+1)); done >> "$0.trace.$$""#;
    let sender = format!(
        "(while kill -0 $$; do :; done; sleep {seconds}; kill -INT $PPID && touch signalled) >said 2>&1 &"
    );
    place.install("app", script(&format!("{lines}\n{sender}\nexit 0")));
    let mut command = place.command();
    let command = command.args(["run", "-q", "-o", "-", "./app"]).stdout(Stdio::piped());
    with_usual_signals(command).spawn().unwrap()
}

#[test]
fn a_signal_just_after_the_end_does_not_stop_the_merge() {
    let place = Place::new();
    let mut child = interrupted_after_the_end(&place, "0");
    wait_for(&place, "signalled");
    // By then the command would be dead.
    thread::sleep(Duration::from_millis(50));
    let mut merged = String::new();
    child.stdout.take().unwrap().read_to_string(&mut merged).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(merged.contains(" : line 4999\n"), "{} bytes", merged.len());
}

#[test]
fn a_later_signal_ends_the_merge() {
    let place = Place::new();
    let mut child = interrupted_after_the_end(&place, "1");
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
}
