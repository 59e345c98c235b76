//! `cargo install --path tracemerge`, as the README has it, gives a command that works and is not large.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most bytes that the command may have.
const LIMIT: u64 = 8 << 20;

#[test]
fn the_installed_command_works_and_has_at_most_8_mib() {
    // The target directory is beside the other builds, so that only the first test run compiles it all.
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    // Without the versions of the lock file, the outcome would be another one from day to day.
    cargo.args(["install", "--quiet", "--locked", "--force", "--path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tracemerge"));
    cargo.arg("--root").arg(&place).arg("--target-dir").arg(place.join("target"));
    let output = cargo.env_remove("RUSTFLAGS").output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let program = place.join("bin/tracemerge");
    let bytes = fs::metadata(&program).expect("the command").len();
    assert!(bytes <= LIMIT, "{bytes} bytes");
    let version = Command::new(&program).arg("--version").output().expect("the command runs");
    let expected = format!("tracemerge {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
}
