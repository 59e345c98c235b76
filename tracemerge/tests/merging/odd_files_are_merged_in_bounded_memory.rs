//! Files that no tracer writes do no harm: with a line larger than the available memory, a device, or clocks that
//! differ.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::support::{Place, file, header, line, meta, ran, run, sorted};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

/// The number of bytes of the gigantic line.
const LONG: u64 = 1 << 30;
/// The number of bytes of the gigantic line if a longer one does not fit.
const SHORTER: u64 = 100 << 20;
/// The KiB that the command may allocate, used or not.
const DATA_KB: u64 = 64 << 10;
/// The KiB of its own that the command may have in memory.
const OWN_KB: u64 = 32 << 10;

/// Makes the file `app.trace.10`, and returns it with the length of its line. The file is in memory, where a gigabyte
/// takes no time, and disappears with this process. If there is too little memory, it is an ordinary file with a
/// shorter line.
fn room(place: &Place) -> (File, u64) {
    let df = ran(place.program("df").args(["--output=avail", "-B1", "/dev/shm"]));
    let free =
        String::from_utf8_lossy(&df.out).lines().last().and_then(|line| line.trim().parse::<u64>().ok());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let memory = memory.and_then(|kb| kb.parse::<u64>().ok()).map(|kb| kb << 10);
    if free.min(memory).is_some_and(|free| free > 2 * LONG) {
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            symlink(path, place.path("app.trace.10")).unwrap();
            return (file, LONG);
        }
    }
    eprintln!(
        "too little memory ({free:?} and {memory:?} bytes) for a line of {LONG} bytes: {SHORTER} must do"
    );
    (File::create(place.path("app.trace.10")).unwrap(), SHORTER)
}

#[test]
fn a_gigantic_line_takes_little_memory() {
    let place = Place::with_one_file();
    let (mut long, length) = room(&place);
    long.write_all(&header(&run(5, 1), 10)).unwrap();
    long.write_all(b"0000000000000005-00000010 : ").unwrap();
    let step = vec![b'x'; 1 << 20];
    (0..length / step.len() as u64).for_each(|_| long.write_all(&step).unwrap());
    long.write_all(b"\n0000000000000006-00000010 : after\n").unwrap();
    let size = long.metadata().unwrap().len() + place.read("app.trace.9").len() as u64;
    // An allocation beyond the limit fails, which ends the command.
    let mut command = place.program("sh");
    let script = format!("ulimit -d {DATA_KB} && exec \"$0\" -q ./app -o -");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tracemerge")]).env("RUST_BACKTRACE", "0");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = child.stdout.take().unwrap();
    let (mut buffer, mut total, mut own) = (vec![0; 1 << 20], 0, 0);
    let mut last = Vec::new();
    loop {
        let read = reader.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        // Memory is read once for 8 MiB, because many portions are small.
        if total / (8 << 20) != (total + read as u64) / (8 << 20) {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let anonymous = anonymous.and_then(|line| line.split_whitespace().next()?.parse().ok());
            own = own.max(anonymous.unwrap_or(0));
        }
        total += read as u64;
        last.extend_from_slice(&buffer[read.saturating_sub(100)..read]);
        last.drain(..last.len().saturating_sub(100));
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(total, size);
    let last = String::from_utf8(last).unwrap();
    assert!(
        last.ends_with("xx\n0000000000000006-00000010 : after\n0000000000000007-00000009 : line 1 of 9\n"),
        "{last}"
    );
    assert!((own > 0 || !cfg!(target_os = "linux")) && own < OWN_KB, "{own} kB of memory of its own");
}

/// A command that cannot start another thread still merges.
#[test]
fn a_merge_succeeds_if_no_thread_can_be_started() {
    let place = Place::with_one_file();
    let lines: Vec<u8> = (10..200_000).flat_map(|n| line(n, 10, "one of many")).collect();
    place.write("app.trace.10", [header(&run(5, 1), 10), lines].concat());
    let whole = place.merge(["./app", "-o", "whole"]);
    assert_eq!(whole.status, Some(0), "{}", whole.err);
    // The stack of a thread would be larger than all memory that the command may have.
    let script = format!("ulimit -d {DATA_KB} && exec timeout 20 \"$0\" -q ./app -o -");
    let mut command = place.program("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tracemerge")]);
    command.env("RUST_BACKTRACE", "0").env("RUST_MIN_STACK", (1u64 << 30).to_string());
    let alone = ran(&mut command);
    assert_eq!((alone.status, alone.err.as_str()), (Some(0), ""));
    assert!(alone.out == place.read("whole"));
}

#[test]
fn a_device_in_the_place_of_a_trace_is_reported() {
    let place = Place::with_one_file();
    for (tid, device) in [(10, "/dev/zero"), (11, "/dev/null"), (12, "/dev/tty")] {
        symlink(device, place.path(format!("app.trace.{tid}"))).unwrap();
    }
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("'./app.trace.10': it is not a regular file"), "{}", ran.err);
    assert!(ran.err.contains("merged 1 file"), "{}", ran.err);
}

#[test]
fn a_file_truncated_at_any_byte_is_merged_up_to_that_byte() {
    let place = Place::with_one_file();
    let whole = file(&run(5, 1), 10, &[4, 5]);
    let first = whole.iter().position(|&b| b == b'\n').unwrap();
    for length in 1..whole.len() {
        place.write("app.trace.10", &whole[..length]);
        let ran = place.merge(["./app", "-o", "-"]);
        let at = format!("truncated to {length}: {}", ran.err);
        let is_end_of_line = whole[length - 1] == b'\n';
        assert_eq!(ran.status, Some(i32::from(!is_end_of_line)), "{at}");
        assert!(is_end_of_line || ran.err.contains("'./app.trace.10'"), "{at}");
        let text = String::from_utf8(ran.out).unwrap();
        assert!(text.ends_with("0000000000000007-00000009 : line 1 of 9\n"), "{at}");
        let lines = whole[..length].split_inclusive(|&b| b == b'\n').filter(|line| line.ends_with(b"\n"));
        for line in lines {
            assert!(text.contains(std::str::from_utf8(line).unwrap()), "{at}");
        }
        assert_eq!(text.contains("-00000010 "), length > 26.min(first), "{at}");
    }
}

#[test]
fn runs_whose_clocks_differ_are_merged_by_ticks() {
    let place = Place::new();
    let clock = |ticks, wall| Meta::Clock {
        ticks: Ticks(ticks),
        wall: Wall(1_795_187_462_000_000_000 + wall),
        system: SystemClocks::default(),
    };
    // One clock counts a thousand ticks in a second, the other a million. That matters for the times that are shown,
    // but not for the order.
    for (tid, rate) in [(9, 1_000_000), (10, 1_000)] {
        let lines = (1..9).flat_map(|n| {
            [line(n * 100 + tid, tid, "x"), meta(n * 100 + tid, tid, &clock(n * 100 + tid, n * 100 * rate))]
                .concat()
        });
        let bytes: Vec<u8> =
            header(&run(u32::try_from(tid).unwrap(), 1), tid).into_iter().chain(lines).collect();
        place.write(format!("app.trace.{tid}"), bytes);
    }
    let ran = place.merge(["./app", "--all-runs"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(place.read("app.trace.merge") == sorted(&place, ["app.trace.9", "app.trace.10"]));
}
