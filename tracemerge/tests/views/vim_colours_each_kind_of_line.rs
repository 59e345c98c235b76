//! Vim, with `extras/vim` installed as users do it, recognizes each part of a line of each kind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
use std::path::Path;

use crate::support::{Place, ran};

/// A line, and texts in it with the names of the groups that their first letters must have.
type Case = (&'static str, &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        "00000000000003e8-00000009 : a message",
        &[("0000", "traceKey"), (" : ", "traceMessage"), ("a mess", "")],
    ),
    (
        "00000000000003e8-00000009 | its second line, \\x07",
        &[(" | ", "traceMessage"), ("\\x07", "traceEscape")],
    ),
    (
        "00000000000003e9-00000009 > app::main at src/main.rs:7",
        &[("0000", "traceKey"), (" > ", "traceEnter"), ("app::", "traceEnter"), (" at src", "tracePlace")],
    ),
    (
        "00000000000003ea-00000009 < app::main at src/main.rs:7",
        &[(" < ", "traceLeave"), ("app::", "traceLeave"), (" at src", "tracePlace")],
    ),
    ("00000000000003eb-00000009 ^ 0x1 0x2 ...", &[(" ^ ", "traceStack"), ("0x2", "traceStack")]),
    ("00000000000003ec-00000009 # thread name=\"main\"", &[(" # ", "traceMeta"), ("name", "traceMeta")]),
    (
        "00000000000003ed-00000009 # lost records=3 reason=full",
        &[(" # ", "traceLoss"), ("reason", "traceLoss")],
    ),
    ("00000000000003ed-00000009 # stall ns=30", &[(" # ", "traceLoss")]),
    ("00000000000003ed-00000009 # damaged file=\"x\" offset=1", &[(" # ", "traceLoss")]),
    ("2026-11-20T15:11:02.123456789Z 00000009 : a message", &[("2026", "traceKey"), (" : ", "traceMessage")]),
    (
        "2026-11-20T15:11:02.123456789Z 17/00000009 > app::f at a.rs:1",
        &[("17/", "traceKey"), (" > ", "traceEnter")],
    ),
    ("   0.000123456 00000009 # lost records=3", &[("0.0001", "traceKey"), (" # ", "traceLoss")]),
    ("  +0.000000250 00000009 < app::f at a.rs:1", &[("+0.0", "traceKey"), (" < ", "traceLeave")]),
];

fn install(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            install(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn vim_knows_each_part_of_each_kind_of_line() {
    if crate::support::programs::lacks(&["vim"]) {
        return;
    }
    let place = Place::new();
    install(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../extras/vim")), &place.path(".vim"));
    let mut script = String::from(
        "set nocompatible\nfiletype on\nsyntax on\nedit app.trace.merge\nlet found = [&filetype]\n",
    );
    for (number, (line, parts)) in CASES.iter().enumerate() {
        for (part, _) in *parts {
            // Columns are bytes, from 1. The mark of a kind includes the space before it.
            let column = line.find(part).unwrap() + 1;
            let name = format!("synIDattr(synID({}, {column}, 1), 'name')", number + 1);
            script.push_str(&format!("call add(found, {name})\n"));
        }
    }
    script.push_str("call writefile(found, 'found')\nquitall!\n");
    let lines: Vec<&str> = CASES.iter().map(|(line, _)| *line).collect();
    place.write("app.trace.merge", lines.join("\n") + "\n");
    place.write("script.vim", script);
    let mut vim = place.program("vim");
    vim.args(["-es", "-i", "NONE", "-S", "script.vim"]).env("HOME", place.path("")).env("TERM", "dumb");
    let ran = ran(&mut vim);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let found = place.text("found");
    let mut found = found.lines();
    assert_eq!(found.next(), Some("tracemerge"), "the name of the file shows its kind");
    for (line, parts) in CASES {
        for (part, group) in *parts {
            assert_eq!(found.next(), Some(*group), "{part:?} of {line:?}");
        }
    }
}
