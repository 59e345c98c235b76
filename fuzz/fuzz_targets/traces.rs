//! The fuzz target `traces`; see `fuzz/README.md`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ffi::OsStr;
use std::path::Path;

#[path = "../checks.rs"]
#[allow(dead_code)]
mod checks;

fuzz_target!(|bytes: &[u8]| {
    // The directory is in memory, if the system has such a place.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let output = directory.path().join("merged");
    checks::traces(bytes, directory.path(), |app: &Path| {
        let args = [OsStr::new("tracemerge"), "-q".as_ref(), "-o".as_ref(), output.as_ref(), app.as_ref()];
        tracemerge::main(args.map(OsStr::to_os_string));
        let text = std::fs::read(&output).expect("a merged file");
        checks::Merged { text, said: None }
    });
});
