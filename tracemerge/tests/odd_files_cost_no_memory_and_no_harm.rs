//! Files that no tracer writes: a line larger than memory should be, a device, clocks that differ.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use support::{Place, file, header, line, meta, ran, run, sorted};
use trace_format::line::Ticks;
use trace_format::meta::Meta;
use trace_format::wall::Wall;

/// Bytes of the line.
const LONG: usize = 100 << 20;

#[test]
fn a_gigantic_line_takes_no_memory() {
    let place = Place::with_one_file();
    let mut long = File::create(place.path("app.trace.10")).unwrap();
    long.write_all(&header(&run(5, 1), 10)).unwrap();
    long.write_all(b"0000000000000005-00000010 : ").unwrap();
    let step = [b'x'; 1 << 20];
    (0..LONG / step.len()).for_each(|_| long.write_all(&step).unwrap());
    long.write_all(b"\n0000000000000006-00000010 : after\n").unwrap();
    assert_eq!(ran(place.program("mkfifo").arg("fifo")).status, Some(0));
    let mut command = place.command();
    let child = command.args(["-q", "./app", "-o", "fifo"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = File::open(place.path("fifo")).unwrap();
    let (mut buffer, mut total, mut own) = (vec![0; 1 << 20], 0, 0);
    let mut last = Vec::new();
    loop {
        let read = reader.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        total += read;
        last.extend_from_slice(&buffer[..read]);
        last.drain(..last.len().saturating_sub(100));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let anonymous = anonymous.and_then(|line| line.split_whitespace().next()?.parse().ok());
        own = own.max(anonymous.unwrap_or(0));
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(total > LONG);
    let last = String::from_utf8(last).unwrap();
    assert!(
        last.ends_with("xx\n0000000000000006-00000010 : after\n0000000000000007-00000009 : line 1 of 9\n"),
        "{last}"
    );
    assert!(own < 32 << 10, "{own} kB of memory of its own");
}

#[test]
fn a_device_in_the_place_of_a_trace_is_named() {
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
fn a_file_cut_at_any_byte_is_merged_as_far_as_it_goes() {
    let place = Place::with_one_file();
    let whole = file(&run(5, 1), 10, &[4, 5]);
    let first = whole.iter().position(|&b| b == b'\n').unwrap();
    for cut in 1..whole.len() {
        place.write("app.trace.10", &whole[..cut]);
        let ran = place.merge(["./app", "-o", "-"]);
        let at = format!("cut at {cut}: {}", ran.err);
        let is_end_of_line = whole[cut - 1] == b'\n';
        assert_eq!(ran.status, Some(i32::from(!is_end_of_line)), "{at}");
        assert!(is_end_of_line || ran.err.contains("'./app.trace.10'"), "{at}");
        let text = String::from_utf8(ran.out).unwrap();
        assert!(text.ends_with("0000000000000007-00000009 : line 1 of 9\n"), "{at}");
        let lines = whole[..cut].split_inclusive(|&b| b == b'\n').filter(|line| line.ends_with(b"\n"));
        for line in lines {
            assert!(text.contains(std::str::from_utf8(line).unwrap()), "{at}");
        }
        assert_eq!(text.contains("-00000010 "), cut > 26.min(first), "{at}");
    }
}

#[test]
fn runs_whose_clocks_differ_are_merged_by_ticks() {
    let place = Place::new();
    let clock =
        |ticks, wall| Meta::Clock { ticks: Ticks(ticks), wall: Wall(1_795_187_462_000_000_000 + wall) };
    // The one counts a thousand ticks in a second, the other a million: that is for times to be told, not for order.
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
