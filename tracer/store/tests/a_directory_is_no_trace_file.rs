//! A trace file that was deleted is not looked for in a directory that has got its number.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use trace_format::file::Encoding;
use trace_format::line::Ticks;
use trace_format::manifest::Manifest;
use trace_format::meta::{ClockKind, Run};
use trace_format::ring::Progress;
use trace_format::wall::Wall;
use trace_store::drain::TracePlace;
use trace_store::sys;

#[test]
fn a_directory_that_has_the_number_of_a_deleted_file_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("somebody's");
    std::fs::create_dir(&other).unwrap();
    let run = Run {
        version: 1,
        id: 1,
        root: 1,
        pid: 1,
        exe: b"/app".to_vec(),
        boot: b"boot".to_vec(),
        ticks: Ticks(1),
        wall: Wall(1),
        clock: ClockKind::Ordered,
    };
    let directories = vec![place.path().as_os_str().as_encoded_bytes().to_vec()];
    let manifest = Manifest { run, directories, name: b"app".to_vec(), encoding: Encoding::Text };
    let found = sys::path_identity(&other).unwrap();
    let progress = Progress { device: found.device, inode: found.inode, ..Progress::default() };
    let place = TracePlace::of(&manifest);
    assert!(place.find_to_read(sys::effective_user(), 7, 1, &progress).unwrap().is_none());
}
