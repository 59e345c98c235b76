//! The behaviour of Windows, unlike that of other systems, with files and at the end of a process: files that a process
//! has open and does not share, `NUL`, long paths, statuses of 32 bits.
#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::{self, File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{Place, file, ran, run};

/// Opens a file so that no other process can, for `time`; returns when it is open.
fn hold(path: &Path, time: Duration) -> thread::JoinHandle<()> {
    let (tell, wait) = mpsc::channel();
    let path = path.to_owned();
    let holder = thread::spawn(move || {
        let held: File = OpenOptions::new().read(true).write(true).share_mode(0).open(path).unwrap();
        tell.send(()).unwrap();
        thread::sleep(time);
        drop(held);
    });
    wait.recv().unwrap();
    holder
}

#[test]
fn a_merge_waits_for_a_trace_file_held_open_briefly() {
    let place = Place::with_one_file();
    let holder = hold(&place.path("app.trace.9"), Duration::from_millis(500));
    let merged = place.merge(["app"]);
    holder.join().unwrap();
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    assert!(place.text("app.trace.merge").contains(" : line 1 of 9\n"));
}

#[test]
fn a_file_held_open_for_long_is_reported_and_the_rest_is_merged() {
    let place = Place::with_one_file();
    place.write("app.trace.10", file(&run(5, 1), 10, &[4]));
    let holder = hold(&place.path("app.trace.10"), Duration::from_secs(20));
    let merged = place.merge(["app"]);
    assert_eq!(merged.status, Some(1), "{}", merged.err);
    assert!(!holder.is_finished(), "it has not waited for that long");
    assert!(merged.err.contains("app.trace.10"), "{}", merged.err);
    let text = place.text("app.trace.merge");
    assert!(text.contains(" : line 1 of 9\n") && !text.contains(" of 10\n"), "{text}");
    holder.join().unwrap();
}

#[test]
fn an_output_held_open_briefly_is_replaced() {
    let place = Place::with_one_file();
    place.write("out", "from before");
    let holder = hold(&place.path("out"), Duration::from_millis(500));
    let merged = place.merge(["app", "-o", "out"]);
    holder.join().unwrap();
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    assert!(place.text("out").contains(" : line 1 of 9\n"));
}

#[test]
fn output_to_nul_is_discarded() {
    let place = Place::with_one_file();
    let before = place.names();
    for name in ["NUL", "nul", "NUL:"] {
        let merged = place.merge(["app", "-o", name]);
        assert_eq!(merged.status, Some(0), "{name}: {}", merged.err);
        assert!(merged.err.contains("merged 1 file"), "{name}: {}", merged.err);
    }
    assert_eq!(place.names(), before);
}

#[test]
fn long_paths_in_any_language_are_supported() {
    let place = Place::new();
    let deep = (0..6)
        .fold(place.path(""), |path, n| path.join(format!("{n} {} 你好", "größe ".repeat(8).trim_end())));
    assert!(deep.as_os_str().len() > 300, "longer than 260 characters");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("дом.exe.trace.9"), file(&run(5, 1), 9, &[3, 7])).unwrap();
    let merged = place.merge([deep.join("дом.exe")]);
    assert_eq!(merged.status, Some(0), "{}", merged.err);
    let text = fs::read_to_string(deep.join("дом.exe.trace.merge")).unwrap();
    assert!(text.contains(" : line 1 of 9\n"), "{text}");
}

#[test]
fn run_passes_on_the_whole_32_bit_status() {
    let place = Place::new();
    for status in [0u32, 3, 300, 70_000, 0xc000_0005] {
        let mut command: Command = place.command();
        command.args([
            "run",
            "-q",
            "-o",
            "NUL",
            "--",
            "cmd.exe",
            "/c",
            &format!("exit {}", status.cast_signed()),
        ]);
        let ended = ran(&mut command);
        // The status is not 0 if the program ended well, because it has not traced, and the command reports that.
        let expected = if status == 0 { 2 } else { status };
        assert_eq!(ended.status.map(i32::cast_unsigned), Some(expected), "{}", ended.err);
    }
}
