//! `open` writes the output of a merge and starts a viewer with it: a viewer that is installed, or the one that the
//! user names.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Place, Ran, programs, ran};

/// Installs a program that notes its name and arguments, and ends with a status.
fn install(place: &Place, name: &str, status: u8) {
    fs::create_dir_all(place.path("bin")).unwrap();
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"${{0##*/}}\" \"$@\" > called\nexit {status}\n");
    place.install(format!("bin/{name}"), script);
}

/// Runs `tracemerge open` with a `PATH` of only the installed programs, and a shell. Returns the result, and the call
/// of the viewer.
fn open(place: &Place, said: Option<&str>, args: &[&str]) -> (Ran, Option<String>) {
    let mut command = place.command();
    command.arg("open").args(args).env("PATH", place.path("bin")).env_remove("TRACEMERGE_OPEN");
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    if let Some(said) = said {
        command.env("TRACEMERGE_OPEN", said).env("PATH", format!("{}:/bin", place.path("bin").display()));
    }
    let opened = ran(&mut command);
    let called = fs::read_to_string(place.path("called")).ok();
    let _ = fs::remove_file(place.path("called"));
    (opened, called)
}

#[test]
fn the_viewer_gets_the_merged_file_and_its_status_is_passed_on() {
    let place = Place::with_one_file();
    install(&place, "lnav", 7);
    let (opened, called) = open(&place, None, &["app"]);
    assert_eq!(opened.status, Some(7), "{}", opened.err);
    let path = place.path("app.trace.utc");
    // The directory may have another name for the same directory.
    let called = called.unwrap();
    assert!(called.starts_with("lnav\n") && called.ends_with("app.trace.utc\n"), "{called}");
    let merged = place.merge(["--time", "utc", "-o", "-", "app"]);
    assert_eq!(fs::read(path).unwrap(), merged.out);
    assert!(!merged.out.is_empty());
}

#[test]
fn the_users_format_command_and_selection_are_used() {
    let place = Place::with_one_file();
    let said = Some("jsonl:sh -c 'cat \"$1\" > called' viewer");
    let (opened, called) = open(&place, said, &["--head", "1", "-o", "my lines.jsonl", "app"]);
    assert_eq!(opened.status, Some(0), "{}", opened.err);
    let merged = place.merge(["--format", "jsonl", "--head", "1", "-o", "-", "app"]);
    assert_eq!(called.unwrap().into_bytes(), merged.out);
    assert_eq!(place.read("my lines.jsonl"), merged.out);
}

#[cfg(all(feature = "html", target_os = "linux"))]
#[test]
fn the_browser_gets_the_page_if_there_is_a_display() {
    let place = Place::with_one_file();
    for viewer in ["lnav", "xdg-open"] {
        install(&place, viewer, 0);
    }
    let mut command = place.command();
    command.args(["open", "app"]).env("PATH", place.path("bin")).env_remove("TRACEMERGE_OPEN");
    let opened = ran(command.env("WAYLAND_DISPLAY", "wayland-0"));
    assert_eq!(opened.status, Some(0), "{}", opened.err);
    let called = String::from_utf8(place.read("called")).unwrap();
    assert!(called.starts_with("xdg-open\n") && called.ends_with("app.html\n"), "{called}");
    assert!(place.read("app.html").starts_with(b"<!doctype html>"));
}

#[test]
fn the_message_says_how_to_proceed_if_no_viewer_can_be_started() {
    let place = Place::with_one_file();
    let (opened, _) = open(&place, None, &["app"]);
    assert_eq!(opened.status, Some(2));
    assert!(opened.err.contains("no supported viewer is installed (lnav, less, uftrace"), "{}", opened.err);
    let (opened, _) = open(&place, Some("perfetto"), &["app"]);
    // The status is that of the merge, which is 1 because of the warning that the trace has only one time.
    assert_eq!(opened.status, Some(1), "{}", opened.err);
    assert!(opened.err.contains("load it at https://ui.perfetto.dev"), "{}", opened.err);
    assert!(!place.read("app.perfetto-trace").is_empty());
    let (opened, _) = open(&place, Some("svg:x"), &["app"]);
    assert_eq!(opened.status, Some(2));
    assert!(opened.err.contains("TRACEMERGE_OPEN=\"svg:x\" names no format"), "{}", opened.err);
    let (opened, called) = open(&place, Some("text:true"), &["-o", "-", "app"]);
    assert_eq!((opened.status, called), (Some(2), None));
    assert!(opened.err.contains("name a file with -o FILE"), "{}", opened.err);
    // Nothing is started for traces that do not exist.
    install(&place, "lnav", 0);
    let (opened, called) = open(&place, None, &["nobody"]);
    assert_eq!((opened.status, called), (Some(2), None), "{}", opened.err);
}

/// The text on the screen if the trace is shown.
const LINE: &str = "line 1 of 9";

#[test]
fn installed_viewers_show_the_trace_until_a_key_ends_them() {
    if programs::lacks(&["script"]) {
        return;
    }
    for viewer in programs::installed_programs(["lnav", "less"]) {
        let place = Place::with_one_file();
        fs::create_dir_all(place.path("bin")).unwrap();
        symlink(programs::path_of(viewer).unwrap(), place.path("bin").join(viewer)).unwrap();
        // This viewer is the only one that can be found.
        let open = format!(
            "exec env PATH='{}' '{}' open --quiet app",
            place.path("bin").display(),
            env!("CARGO_BIN_EXE_tracemerge")
        );
        let mut command = place.program("script");
        command.args(["-qec", &open, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
        // By default, the terminal view would be shown.
        command.env("TRACEMERGE_OPEN", "text").env("HOME", place.path("tmp"));
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut keys = child.stdin.take().unwrap();
        let is_shown = AtomicBool::new(false);
        let mut shown = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The key comes after the viewer shows the trace, or would have shown it. Keys that come before the
                // viewer reads would go to the terminal.
                for tries in 0..600 {
                    std::thread::sleep(Duration::from_millis(200));
                    if (is_shown.load(Ordering::Relaxed) || tries > 300) && keys.write_all(b"q").is_err() {
                        break;
                    }
                }
            });
            let mut screen = child.stdout.take().unwrap();
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                shown.extend(&bytes[..len]);
                is_shown.store(String::from_utf8_lossy(&shown).contains(LINE), Ordering::Relaxed);
            }
        });
        let (status, shown) = (child.wait().unwrap(), String::from_utf8_lossy(&shown));
        assert!(status.success(), "{viewer}: {status} {shown}");
        assert!(shown.contains(LINE), "{viewer}: {shown}");
    }
}
