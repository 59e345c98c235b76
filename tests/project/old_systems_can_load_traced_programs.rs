//! A program that has linked the tracer, with the feature `unwind`, starts on every system on which a program
//! without it starts: it needs no newer version of the C library.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the versions of glibc that a program needs to start at all, as pairs of numbers. (Versions that may be
/// missing are marked as weak; so far linkers mark none.)
fn needed(program: &Path) -> BTreeSet<(u32, u32)> {
    let output = Command::new("readelf").args(["--version-info", "--wide"]).arg(program).output();
    let output = output.expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_needed = |line: &&str| line.contains("Name: GLIBC_") && !line.contains("Flags: WEAK");
    let versions = text.lines().filter(is_needed).filter_map(|line| {
        let (_, version) = line.split_once("Name: GLIBC_")?;
        let mut numbers = version.split([' ', '.']).map_while(|number| number.parse().ok());
        Some((numbers.next()?, numbers.next()?))
    });
    let versions: BTreeSet<_> = versions.collect();
    assert!(!versions.is_empty(), "{text}");
    versions
}

#[test]
fn the_tracer_needs_no_newer_glibc() {
    if support::programs::lacks(&["readelf"]) {
        return;
    }
    // This test uses everything that walks and awaited returns link with.
    let _ = tracer::on_return!(|| ());
    let _ = tracer::is_called_from("main");
    tracer::Tracer::get().stack();
    let directory = tempfile::tempdir().expect("a directory");
    let (source, plain) = (directory.path().join("plain.rs"), directory.path().join("plain"));
    // This program uses the files and threads of the standard library, on the system where this test is built.
    let text = "fn main() { std::thread::spawn(|| std::fs::read(\"\")).join().unwrap().unwrap_err(); }";
    std::fs::write(&source, text).expect("the source");
    let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let status = Command::new(compiler).arg(&source).arg("-o").arg(&plain).status();
    assert!(status.expect("rustc runs").success());
    let newest = |path: &Path| needed(path).pop_last();
    let own = std::env::current_exe().expect("the path of the test");
    assert!(newest(&own) <= newest(&plain), "{:?}, and {:?} without", needed(&own), needed(&plain));
    // A newer compiler or system needs newer versions in both programs. The symbols below are checked by name.
    let symbols = Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(&own).output();
    let symbols = String::from_utf8_lossy(&symbols.expect("readelf").stdout).into_owned();
    assert!(symbols.contains("getauxval@GLIBC_2.16") && !symbols.contains("_dl_find_object"), "{symbols}");
}
