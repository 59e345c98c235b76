//! The models of the ring hold in every order of their threads' steps; the model checker `loom` tries them all.
//!
//! They are unit tests of the library (`tracer/src/ring/loom_tests.rs`), built with other atomics: `--cfg loom`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn each_model_holds() {
    // The target directory is beside the other builds, so that only the first test run compiles it.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("loom");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["test", "--quiet", "--package", "tracer-lib", "--lib", "--release", "loom"]);
    cargo.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "--cfg loom");
    let output = cargo.output().expect("cargo runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    // A filter that matches nothing succeeds, too.
    let passed = out.split("test result: ok. ").nth(1).and_then(|rest| rest.split_once(" passed"));
    assert!(passed.is_some_and(|(count, _)| count.parse::<u32>().is_ok_and(|n| n > 0)), "{out}\n{err}");
}
