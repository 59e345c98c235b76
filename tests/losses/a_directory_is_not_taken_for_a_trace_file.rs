//! A directory that has got the inode number of a deleted trace file is not taken for that file.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

#[path = "../support/manifest.rs"]
mod manifest;

use manifest::manifest;
use trace_format::ring::Progress;
use trace_store::drain::TracePlace;
use trace_store::sys;

#[test]
fn a_directory_with_the_inode_of_a_deleted_file_is_ignored() {
    let place = tempfile::tempdir().unwrap();
    let other = place.path().join("somebody's");
    std::fs::create_dir(&other).unwrap();
    let manifest = manifest(place.path());
    let found = sys::path_identity(&other).unwrap();
    let progress = Progress { device: found.device, inode: found.inode, ..Progress::default() };
    let place = TracePlace::of(&manifest, None);
    assert!(place.find_to_read(sys::effective_user(), 7, 1, &progress).unwrap().is_none());
}
