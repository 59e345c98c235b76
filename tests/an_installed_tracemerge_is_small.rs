//! `cargo install --path tracemerge`, as the README has it, gives a command that works and is not large.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use support::{APP, Scenario};

/// The most bytes that the command may have.
const LIMIT: u64 = 12_000_000;

/// Returns the directory into which the package is installed: once, because that takes minutes.
fn installed() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        // The target directory is beside the other builds, so that only the first test run compiles it all.
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        // Without the versions of the lock file, the outcome would be another one from day to day.
        cargo.args(["install", "--quiet", "--locked", "--force", "--path"]);
        cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tracemerge"));
        cargo.arg("--root").arg(&place).arg("--target-dir").arg(place.join("target"));
        succeeded(cargo.env_remove("RUSTFLAGS"));
        place
    })
}

/// Runs a command, which must succeed.
fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns what a command prints, which must succeed.
fn printed(command: &mut Command) -> String {
    String::from_utf8(succeeded(command).stdout).expect("UTF-8")
}

#[test]
fn the_installed_command_has_at_most_12_mb() {
    let program = installed().join("bin/tracemerge");
    let bytes = fs::metadata(&program).expect("the command").len();
    assert!(bytes <= LIMIT, "{bytes} bytes");
    let expected = format!("tracemerge {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(Command::new(&program).arg("--version")), expected);
}

#[test]
fn the_installed_command_writes_every_format_of_its_help() {
    let program = installed().join("bin/tracemerge");
    let help = printed(Command::new(&program).arg("--help"));
    let (_, about_formats) = help.split_once("--format <FORMAT>").expect("the option");
    let (_, values) = about_formats.split_once("Possible values:\n").expect("its values");
    let lines = values.lines().map_while(|line| line.trim_start().strip_prefix("- "));
    let formats: Vec<&str> = lines.filter_map(|line| Some(line.split_once(':')?.0)).collect();
    assert!(formats.contains(&"flamegraph") && formats.contains(&"parquet"), "{formats:?}");

    let traced = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["functions", "100"]).run().succeeded();
    for format in formats {
        let out = traced.directory.path().join(format!("written.{format}"));
        let mut merge = Command::new(&program);
        merge.args(["--format", format, "-o"]).arg(&out).arg(traced.directory.path().join(APP));
        succeeded(merge.env("TRACER_RUNTIME_DIR", traced.runtime.path()));
        let files: Vec<PathBuf> = match fs::read_dir(&out) {
            Ok(entries) => entries.map(|entry| entry.expect("an entry").path()).collect(),
            Err(_) => vec![out],
        };
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).expect("a file").len()).sum();
        assert!(bytes > 100, "{format}: {bytes} bytes in {files:?}");
    }
}
