//! The feature `compile-out` leaves no part of the macros' calls in a program's machine code.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the program with or without the feature; returns the executable's bytes.
fn build(target: &Path, features: &[&str]) -> Vec<u8> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled_out/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["build", "--release", "--quiet", "--bin", "compiled-out", "--manifest-path"])
        .arg(manifest)
        .args(features);
    let output = cargo.arg("--target-dir").arg(target).env_remove("RUSTFLAGS").output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(target.join("release/compiled-out")).expect("the program")
}

fn has(program: &[u8], text: &str) -> bool {
    program.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn compile_out_removes_all_texts_arguments_and_the_tracer() {
    // The target directory is beside the other builds, so that only the first test run on a machine compiles
    // it.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled-out");
    // A traced function has a site, which contains the name of an argument and the source file.
    let marks = [
        "the marker of a message",
        "the marker of a scope",
        "an_argument_nobody_wants",
        "the_marked_argument={:?}",
        "another_marked_argument={:?}",
        "__here",
        "tracer-flusher",
    ];
    let with = build(&target, &[]);
    assert!(marks.iter().all(|mark| has(&with, mark)), "the marks can be found at all");
    let without = build(&target, &["--features", "compile-out"]);
    for mark in marks {
        assert!(!has(&without, mark), "{mark:?} is in the program");
    }
    assert!(without.len() < with.len(), "{} bytes, and {} with the calls", without.len(), with.len());
}
