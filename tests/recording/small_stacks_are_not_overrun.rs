//! Records on small stacks: of threads, and of signal handlers with a stack of their own. Tracing crashes no
//! program that does not crash without it. A record for which the stack has no room is reported lost.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use support::{Scenario, ThreadTrace};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Runs the program and compares its count of records with its files. Returns the number of records in the files
/// and the number reported lost, or `None` if the program fails without tracing, too.
fn run(kind: &str, size: usize, warmth: &str) -> Option<(u64, u64)> {
    let words = ["small-stacks", kind, &size.to_string(), warmth];
    let without = Scenario::new(SCENARIO, &words).env("TRACER_ENABLE", "0").run();
    if !without.output.status.success() {
        return None;
    }
    let traced = Scenario::new(SCENARIO, &words).run();
    let what = format!("{kind} {size} {warmth}: {} {}", traced.said(), traced.stdout());
    assert!(traced.output.status.success(), "{what}");
    let made: u64 = traced.stdout().trim().parse().expect("a number");
    let found: u64 = traced.files.values().map(|file| file.messages.len() as u64).sum();
    let lost_of = |file: &ThreadTrace| -> u64 {
        let lost = file.metas.iter().filter_map(|meta| match meta {
            Meta::Lost { records, .. } => Some(*records),
            _ => None,
        });
        lost.sum()
    };
    let lost: u64 = traced.files.values().map(lost_of).sum();
    assert_eq!(found + lost, made, "{what}");
    Some((found, lost))
}

#[test]
fn threads_with_little_stack_lose_nothing() {
    for size in [16, 20, 24, 32, 64] {
        for warmth in ["cold", "warm"] {
            if let Some((found, lost)) = run("thread", size << 10, warmth) {
                assert_eq!(lost, 0, "{size} KiB {warmth}: {found} in files");
            }
        }
    }
}

#[test]
fn signal_stacks_of_any_size_are_not_overrun() {
    let mut tried = 0;
    for size in (2048..8192).step_by(512).chain([8192, 12_288, 16_384, 65_536]) {
        for warmth in ["cold", "warm"] {
            let Some((found, lost)) = run("signal", size, warmth) else { continue };
            tried += 1;
            eprintln!("{size} {warmth}: {found} in files, {lost} reported lost");
            assert!(lost == 0 || size < 16_384, "{size} {warmth}: {lost} lost");
        }
    }
    assert!(tried >= 8, "a signal stack of 16 KiB is as much as any system asks for");
}
