//! Kills that aim at the flusher and at recovery: while they write little and often, on a file system on which
//! every step takes long, and on one without links.
//!
//! Cargo builds the slow file system for `cargo test`, but not for `cargo test --test ...`. In that case, run
//! `cargo build --examples` first.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::time::Duration;
use support::kills::{Kill, Killed};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the variables that load the slow file system into a program.
fn slow_files(mode: &str) -> Vec<(&'static str, OsString)> {
    vec![("LD_PRELOAD", support::slow_files().into()), ("SLOW_FILES", mode.into())]
}

/// Returns a different time for each kill, spread over `range` milliseconds.
fn delay(kill: u64, range: u64) -> Duration {
    Duration::from_micros(2_000 + kill * 7919 * 13 % (range * 1000))
}

/// Kills `kills` programs, and again as many, each time after twice the time, until `is_enough` accepts the sums of their
/// results: a busy machine starts programs slowly.
fn kill_until(is_enough: impl Fn(&Killed) -> bool, kills: u64, kill: impl Fn(u64) -> Kill<'static>) {
    let mut all = Killed::default();
    for slower in [1, 2, 4, 8, 16, 32] {
        for number in 0..kills {
            let mut kill = kill(number);
            kill.after *= slower;
            kill.merges.iter_mut().for_each(|after| *after *= slower);
            let killed = kill.run();
            all.records += killed.records;
            all.cut_off += killed.cut_off;
            all.rotated += killed.rotated;
        }
        eprintln!("{kills} kills, {slower} times as late: {all:?}");
        if is_enough(&all) {
            return;
        }
    }
    panic!("no kill has hit what the test is about: {all:?}");
}

/// Returns whether a kill has hit the middle of a write.
fn has_cut_off(killed: &Killed) -> bool {
    killed.cut_off > 0
}

#[test]
fn kills_during_many_small_writes_lose_nothing() {
    kill_until(
        |killed| killed.records > 0,
        60,
        |n| Kill {
            scenario: SCENARIO,
            after: delay(n, 60),
            merges: vec![],
            env: vec![
                ("TRACER_FLUSH_MS", "1"),
                ("STRESS_PAUSE_US", if n % 2 == 0 { "100" } else { "900" }),
                ("TRACER_FORMAT", if n % 3 == 0 { "raw" } else { "text" }),
            ],
            files: vec![],
            empty_files: false,
            rotated: false,
        },
    );
}

#[test]
fn kills_during_slow_writes_lose_nothing() {
    kill_until(has_cut_off, 60, |n| Kill {
        scenario: SCENARIO,
        after: delay(n, 90),
        merges: vec![],
        env: vec![("TRACER_FLUSH_MS", "1"), ("STRESS_PAUSE_US", "500")],
        files: slow_files("slow"),
        empty_files: false,
        rotated: false,
    });
}

#[test]
fn kills_on_a_file_system_without_links_lose_nothing() {
    kill_until(has_cut_off, 120, |n| Kill {
        scenario: SCENARIO,
        // Files are made in the first few milliseconds.
        after: delay(n, if n % 2 == 0 { 15 } else { 60 }),
        merges: vec![],
        env: vec![("TRACER_FLUSH_MS", "1"), ("STRESS_PAUSE_US", "500")],
        files: slow_files("nolinks"),
        empty_files: true,
        rotated: false,
    });
}

#[test]
fn kills_during_a_rotation_lose_nothing() {
    // Most files have lost a half by then.
    let is_enough = |killed: &Killed| has_cut_off(killed) && killed.rotated > 20;
    kill_until(is_enough, 60, |n| Kill {
        scenario: SCENARIO,
        after: Duration::from_millis(60) + delay(n, 90),
        merges: (0..n % 2).map(|_| delay(n, 25)).collect(),
        env: vec![("TRACER_MAX_BYTES", "64K"), ("TRACER_RING_SIZE", "64K")],
        files: slow_files(if n % 3 == 0 { "nolinks" } else { "slow" }),
        empty_files: n % 3 == 0,
        rotated: true,
    });
}

#[test]
fn kills_during_a_recovery_lose_nothing() {
    kill_until(has_cut_off, 30, |n| Kill {
        scenario: SCENARIO,
        after: Duration::from_millis(25),
        merges: (0..3).map(|m| delay(n * 3 + m, 25)).collect(),
        env: vec![("STRESS_PAUSE_US", "100"), ("TRACER_FLUSH_MS", if n % 2 == 0 { "5" } else { "60000" })],
        files: slow_files(if n % 3 == 0 { "nolinks" } else { "slow" }),
        empty_files: n % 3 == 0,
        rotated: false,
    });
}
