//! A function of a file without symbols is shown as its offset in the file, which all runs of the file have in common;
//! a message says so once. `diff` compares such functions, if both traces are of one build.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::process::Command;

use crate::support::{Place, Ran, run, whole_file};

/// The offset of the only function.
const CODE: u64 = 0x10000;

const BUILD: &str = "5a0123456789abcdef0123456789abcdef012345";
const OTHER_BUILD: &str = "5affffffffffffffffffffffffffffffffffffff";

/// Compiles a library without symbols as `NAME/the app`.
fn compile(place: &Place, name: &str, build: &str) {
    std::fs::create_dir_all(place.path(name)).unwrap();
    place.write("source.c", "int f(int x) { return x * 3; }\n");
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-nostdlib", "-s", "-fvisibility=hidden"]);
    command.arg(format!("-Wl,-Ttext={CODE:#x}")).arg(format!("-Wl,--build-id=0x{build}"));
    command.arg(place.path("source.c")).arg("-o").arg(place.path(name).join("the app"));
    assert!(command.status().unwrap().success());
}

/// Writes a trace `NAME/app.trace.TID` of seven calls of the function; its file was mapped with this bias.
fn trace(place: &Place, name: &str, tid: u32, bias: u64, build: &str) {
    let record = |ticks: u64, kind: char, text: &str| format!("{ticks:016x}-{tid:08} {kind} {text}\n");
    let module = format!(
        "module start={:016x} end={:016x} bias={bias:016x} build_id={build} path=\"{}\" after=0 seen=1000",
        bias + CODE,
        bias + CODE + 0x1000,
        place.path(name).join("the app").display()
    );
    let mut lines = vec![record(1000, '#', &module)];
    let run = run(tid, 1000);
    for call in 1..8 {
        let address = format!("hook {:#x}", bias + CODE + 2);
        lines.extend([record(1000 * call, '>', &address), record(1000 * call + 10, '<', &address)]);
    }
    let text = whole_file(&run, u64::from(tid), "main", lines.concat().as_bytes());
    place.write(format!("{name}/app.trace.{tid}"), text);
}

fn text_of(ran: Ran) -> (String, String) {
    let out = String::from_utf8(ran.out).unwrap();
    assert_eq!(ran.status, Some(0), "{out}{}", ran.err);
    (out, ran.err)
}

#[test]
fn every_view_shows_the_offset_and_one_message_says_why() {
    let place = Place::new();
    compile(&place, "a", BUILD);
    trace(&place, "a", 9, 0x5500_0000_0000, BUILD);
    for view in ["show", "tree", "report", "stats", "summary"] {
        let (out, err) = text_of(place.merge([view, "a/app"]));
        assert!(out.contains("the app+0x10002"), "{view}: {out}");
        assert!(!out.contains("0x55"), "{view}: {out}");
        assert_eq!(err.matches("has no symbols of its functions").count(), 1, "{view}: {err}");
    }
    for format in ["folded", "chrome"] {
        let (out, _) = text_of(place.merge(["--format", format, "-o", "-", "a/app"]));
        assert!(out.contains("the app+0x10002"), "{format}: {out}");
    }
}

#[test]
fn functions_without_symbols_are_compared_by_offset_within_one_build() {
    let place = Place::new();
    for (name, tid, bias, build) in [
        ("a", 9, 0x5500_0000_0000, BUILD),
        ("b", 10, 0x5600_0001_0000, BUILD),
        ("c", 11, 0x5700_0000_0000, OTHER_BUILD),
    ] {
        compile(&place, name, build);
        trace(&place, name, tid, bias, build);
    }
    let (out, err) = text_of(place.merge(["diff", "a", "b"]));
    let rows: Vec<&str> = out.lines().filter(|line| line.ends_with("the app+0x10002")).collect();
    assert_eq!(rows.len(), 1, "{out}");
    let row: Vec<&str> = rows[0].split_whitespace().take(2).collect();
    assert_eq!(row, ["7", "7"], "{out}");
    // Once for each of the two files, which have the same build-id.
    assert_eq!(err.matches("has no symbols of its functions").count(), 2, "{err}");
    let (out, _) = text_of(place.merge(["diff", "a", "c"]));
    let only =
        |trace: &str| out.lines().any(|line| line.contains(trace) && line.ends_with("the app+0x10002"));
    assert!(only("only in A") && only("only in B"), "{out}");
}
