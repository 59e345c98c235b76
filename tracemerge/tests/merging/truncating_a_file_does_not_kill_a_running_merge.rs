//! A file that is truncated while a merge reads it does not kill the merge: the lines that remain are merged, and a
//! message names the file.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::support::{Place, header, line, ran, run};

/// The number of lines of each file. With 100 bytes each they make 40 MB, far more than the system reads ahead of a
/// waiting reader.
const LINES: u64 = 400_000;

fn long_file(tid: u64) -> Vec<u8> {
    let text = "x".repeat(71);
    let lines = (0..LINES).flat_map(|n| line(10 + n, tid, &text));
    header(&run(5, 1), tid).into_iter().chain(lines).collect()
}

#[test]
fn truncating_a_file_does_not_kill_a_running_merge() {
    let place = Place::new();
    place.write("app.trace.9", long_file(9));
    let long = long_file(10);
    place.write("app.trace.10", &long);
    assert_eq!(ran(place.program("mkfifo").arg("fifo")).status, Some(0));
    let mut merge = place.command();
    let merge = merge.args(["./app", "-o", "fifo"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = File::open(place.path("fifo")).unwrap();
    let mut out = vec![0; 100_000];
    reader.read_exact(&mut out).unwrap();
    // Before a merge writes to a pipe, it reads through all files, so the merge itself is under way now.
    let length = 2_000_000;
    let file = OpenOptions::new().write(true).open(place.path("app.trace.10")).unwrap();
    file.set_len(length).unwrap();
    reader.read_to_end(&mut out).unwrap();
    let merged = merge.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&merged.stderr);
    assert_eq!((merged.status.signal(), merged.status.code()), (None, Some(1)), "{err}");
    let told = "'./app.trace.10' was truncated to 2,000,000 bytes while it was read";
    assert!(err.contains(told), "{err}");
    assert!(!out.contains(&0), "no zeros in the place of lines");
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().map(|line| &line[..16]).is_sorted());
    assert_eq!(text.matches("-00000009 : x").count() as u64, LINES);
    let kept = text.matches("-00000010 : x").count() as u64;
    assert!(kept >= (length - 200) / 100 && kept < LINES, "{kept} lines of the truncated file");
}
