//! `# clock` lines record the readings of all clocks of the system when the run began and when a thread's file ended.
//! `# end` lines record when the process was last seen alive. The files of a killed process have both lines, too.
#![cfg(target_os = "linux")]

use support::{Scenario, ThreadTrace, Traced};
use trace_format::line::Ticks;
use trace_format::meta::{Meta, SystemClocks};
use trace_format::wall::Wall;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the moments of a file's `# clock` lines.
fn clocks(file: &ThreadTrace) -> Vec<(Ticks, Wall, SystemClocks)> {
    let clock = |meta: &Meta| match meta {
        Meta::Clock { ticks, wall, system } => Some((*ticks, *wall, *system)),
        _ => None,
    };
    file.metas.iter().filter_map(clock).collect()
}

/// Checks the file whose thread made the run's first record.
fn assert_all_clocks_are_recorded(traced: &Traced) {
    let has_start = |file: &&ThreadTrace| file.metas.iter().any(|meta| matches!(meta, Meta::Start { .. }));
    let file = traced.files.values().find(has_start).expect("one thread made the first record");
    let (clocks, end) = (clocks(file), file.end());
    let [(began, began_wall, first), .., (ended, ended_wall, last)] = &clocks[..] else {
        panic!("{clocks:?}")
    };
    assert!(began < ended && began_wall <= ended_wall, "{clocks:?}");
    assert!(end.seen.is_some_and(|seen| seen > *began), "{end:?} {clocks:?}");
    let read = |clocks: &SystemClocks| {
        assert!(clocks.within.is_some(), "{clocks:?}");
        (clocks.raw.expect("Linux has it"), clocks.since_boot.expect("Linux has it"))
    };
    let ((raw, boot), (later_raw, later_boot)) = (read(first), read(last));
    let (by_raw, by_boot) = (later_raw - raw, later_boot - boot);
    assert!(by_raw.abs_diff(by_boot) < 5_000_000 + by_raw / 1000, "nobody suspends the machine: {clocks:?}");
    // If the tests run under a system call filter, the tracer does not query the system's state of the clock.
    let status = std::fs::read_to_string("/proc/self/status").expect("a file of the system");
    let is_filtered = !status.contains("Seccomp:\t0");
    assert_eq!(first.error.is_none() && first.state.is_none(), is_filtered, "{clocks:?}");
}

#[test]
fn an_exited_process_has_all_clock_readings() {
    for format in ["text", "raw"] {
        let traced = Scenario::new(SCENARIO, &["free-text"]).env("TRACER_FORMAT", format).run().succeeded();
        assert_all_clocks_are_recorded(&traced);
    }
}

#[test]
fn a_killed_process_has_all_clock_readings() {
    for format in ["text", "raw"] {
        let traced = Scenario::new(SCENARIO, &["killed"]).env("TRACER_FORMAT", format).run_and_recover();
        assert_all_clocks_are_recorded(&traced);
    }
}
