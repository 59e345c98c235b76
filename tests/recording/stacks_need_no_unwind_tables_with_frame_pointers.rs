//! A program that is built with frame pointers and without the feature `unwind` records the same stacks that the
//! system's unwinder finds by its tables.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::path::{Path, PathBuf};
use std::process::Command;
use support::Scenario;
use trace_format::function::StackLine;

/// The maximum number of recorded frames.
const MOST: usize = 120;
const DEPTHS: [usize; 7] = [0, 1, 2, 3, 17, 90, 300];

/// Builds the program with frame pointers. It shares the built dependencies with the test of `compile-out`.
fn build() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled-out");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled_out/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["rustc", "--release", "--quiet", "--bin", "frame-pointers", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(&target).args(["--", "-Cforce-frame-pointers=yes"]);
    let output = cargo.env_remove("RUSTFLAGS").output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // If Cargo builds for another target, the program is in the directory of that target.
    let kind = std::env::var_os("CARGO_BUILD_TARGET").unwrap_or_default();
    target.join(kind).join("release/frame-pointers")
}

#[test]
fn frame_pointers_give_the_stacks_of_the_unwinder() {
    let depths = DEPTHS.map(|depth| depth.to_string());
    let arguments: Vec<&str> = depths.iter().map(String::as_str).collect();
    let traced = Scenario::new(build(), &arguments).run().succeeded();
    traced.assert_whole();
    let said = traced.stdout();
    for (thread, name) in [("frame-pointers", "main "), ("other", "other ")] {
        let file = traced.thread(thread);
        let lines: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(name)).collect();
        assert_eq!((lines.len(), file.stacks.len()), (DEPTHS.len(), DEPTHS.len()));
        for ((line, (_, stack)), depth) in lines.iter().zip(&file.stacks).zip(DEPTHS) {
            let expected: Vec<u64> =
                line.split(' ').map(|address| address.parse().expect("a number")).collect();
            let stack = StackLine::parse(stack.as_bytes()).expect("a stack");
            let frames: Vec<u64> = stack.frames.iter().map(|frame| frame.address).collect();
            // The innermost frame is the same function at another address. From there on, no frame is missing up to
            // the function that began the recursion and its caller.
            let begin =
                expected.iter().position(|address| frames.get(1) == Some(address)).expect("the caller");
            let own = (depth + 3).min(MOST - 1);
            assert_eq!(frames[1..=own], expected[begin..begin + own], "{thread}, {depth} deep");
            let mut rest = expected[begin..].iter();
            assert!(frames[1..].iter().all(|frame| rest.any(|address| address == frame)), "{frames:x?}");
            // The recursion calls itself from one place.
            if depth >= 2 {
                let again = frames[2];
                let times = frames.iter().filter(|frame| **frame == again).count();
                assert_eq!(times, depth.min(MOST - 2), "{frames:x?}");
            }
            // A stack that was walked by frame pointers never claims to be whole.
            assert!(!stack.whole && (depth < MOST || frames.len() == MOST));
        }
    }
}
