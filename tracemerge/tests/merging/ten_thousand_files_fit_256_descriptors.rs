//! Files are mapped and closed, so the number of descriptors does not limit the number of files. Small files are
//! copied, so the number of mappings does not limit it either.
//!
//! 100,000 files, by all commands: `cargo test --release -p tracemerge --test merging ten_thousand -- --ignored`
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure in a test fails it; a long run says what it did"
)]

use std::time::Instant;

use crate::support::quiet::quiet;
use crate::support::{Place, Ran, file, line, ran, run};
use trace_format::meta::{End, EndReason, Meta};

/// Runs a command of an application with many files, with few descriptors.
fn with_few_descriptors(place: &Place, args: &str) -> Ran {
    let mut shell = place.program("sh");
    shell.args(["-c", &format!("ulimit -n 256; exec \"$0\" {args}"), env!("CARGO_BIN_EXE_tracemerge")]);
    ran(&mut shell)
}

#[test]
fn ten_thousand_files_fit_256_descriptors() {
    let _quiet = quiet();
    let place = Place::new();
    for tid in 1..=10_000 {
        place.write(format!("app.trace.{tid}"), file(&run(5, 1), tid, &[tid % 97 + 2, 200 - tid % 83]));
    }
    let ran = with_few_descriptors(&place, "./app");
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("merged 10,000 files of 1 run (10,000 threads, 30,000 lines)"), "{}", ran.err);
    let text = place.text("app.trace.merge");
    // Ticks ascend, and so do thread ids among equal ticks.
    let keys: Vec<_> = text.lines().map(|line| &line[..25]).collect();
    assert_eq!(keys.len(), 30_000);
    assert!(keys.is_sorted());
}

/// Runs every command on a run of `threads` threads, each with a message in a file of its own.
fn every_command_takes(threads: u64) {
    let place = Place::new();
    for tid in 1..=threads {
        let text = line(1000 + tid, tid, &format!("message of {tid}"));
        let end = End {
            records: 1,
            lost: 0,
            reason: EndReason::Thread,
            files: (tid == threads).then_some(threads),
            cause: Default::default(),
            seen: None,
            apart: Default::default(),
            waited: Default::default(),
        };
        let end = crate::support::meta(2_000_000 + tid, tid, &Meta::End(end));
        place
            .write(format!("app.trace.{tid}"), [crate::support::header(&run(5, 1), tid), text, end].concat());
    }
    let with_stops = |number: u64| format!("{},{:03}", number / 1000, number % 1000);
    let (files, lines) = (with_stops(threads), 3 * threads);
    for (args, says) in [
        ("./app", format!("merged {files} files of 1 run ({files} threads, {} lines)", with_stops(lines))),
        ("check ./app", files.clone()),
        ("info ./app", files.clone()),
        ("show ./app", format!("message of {threads}\n")),
        ("stats ./app", files.clone()),
        ("tree ./app", format!("message of {threads}\n")),
        ("--format jsonl ./app -o out.jsonl", String::new()),
        ("diff . .", String::new()),
        ("clean ./app", format!("deleted {files} trace files")),
    ] {
        let begun = Instant::now();
        let ran = with_few_descriptors(&place, args);
        let told = String::from_utf8_lossy(&ran.out).into_owned() + &ran.err;
        let end = &told[told.len().saturating_sub(2000)..];
        assert!(ran.status.is_some_and(|status| status <= 1), "{args}: {:?} {end}", ran.status);
        assert!(told.contains(&says), "{args}: {end}");
        println!("{args}: {:.1} s, status {:?}", begun.elapsed().as_secs_f64(), ran.status);
    }
    assert_eq!(place.text("out.jsonl").lines().count() as u64, lines);
    assert!(place.names().iter().all(|name| !name.contains(".trace.")), "{:?}", place.names());
}

#[test]
#[ignore = "it takes minutes; its head says how to run it"]
fn every_command_takes_a_hundred_thousand_files() {
    every_command_takes(100_000);
}

#[test]
fn every_command_takes_twelve_thousand_files() {
    every_command_takes(12_000);
}
