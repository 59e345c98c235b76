//! The basis of recovery: after `kill -9`, the run's directory names the run, its lock is free, and the rings hold
//! exactly the records that were not yet in the files.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "maps a dead ring and asks for a lock")]

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use support::{Scenario, names, parse};
use trace_format::manifest::{Directory, Manifest};
use trace_format::record::Records;
use trace_format::ring::{Header, State, readable};

#[test]
fn a_killed_program_leaves_its_manifest_and_its_unwritten_records() {
    let traced =
        Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["killed"]).env("TRACER_FLUSH_MS", "60000").run();
    assert!(!traced.output.status.success());
    let [run] = &traced.left_in_runtime()[..] else { panic!("one run: {:?}", traced.left_in_runtime()) };
    let manifest = Manifest::parse(&std::fs::read(run.join("manifest")).unwrap()).expect("a manifest");
    let found = std::fs::metadata(traced.directory.path()).unwrap();
    let path = traced.directory.path().as_os_str().as_encoded_bytes().to_vec();
    let identity = Some((found.dev(), found.ino()));
    assert_eq!(manifest.directories[0], Directory { path, identity });
    assert_eq!(manifest.name, b"scenario");
    assert!(lock_is_free(&run.join("life")));
    assert_eq!(trace_format::sites::parse(&std::fs::read(run.join("sites")).unwrap()), Ok(vec![]));

    let rings: Vec<_> = names(run).into_iter().filter(|p| p.to_string_lossy().contains("/ring-")).collect();
    let unwritten: Vec<_> = rings.iter().flat_map(|ring| unwritten(ring, manifest.run.id)).collect();
    let expected: Vec<String> = (0..5).map(|i| format!("in the ring {i}")).collect();
    assert_eq!(unwritten, expected);
}

#[test]
fn the_files_of_a_killed_program_hold_the_flushed_records() {
    let traced =
        Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["killed"]).env("TRACER_FLUSH_MS", "60000").run();
    assert_eq!(traced.messages(), ["flushed"]);
    let (name, _) = traced.files.first_key_value().expect("a file");
    let bytes = std::fs::read(traced.directory.path().join(name)).unwrap();
    assert_eq!(parse(name, &bytes).name, "scenario");
}

/// Returns the messages in a dead ring that are not in the file, according to the ring's published progress.
fn unwritten(path: &Path, run: u32) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    // The copy is aligned as a mapping is.
    let mut aligned = vec![0u8; bytes.len() + 128];
    let offset = aligned.as_ptr().align_offset(128);
    aligned[offset..offset + bytes.len()].copy_from_slice(&bytes);
    // SAFETY: the memory is large enough and aligned, and atomics take any bytes; the copy is not touched
    // otherwise.
    let header = unsafe { &*aligned.as_ptr().add(offset).cast::<Header>() };
    if header.identity.magic.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        // The ring was just being made, for a later thread.
        return Vec::new();
    }
    let geometry = header.identity.check(bytes.len() as u64).expect("a ring of this version");
    assert_eq!(header.identity.run.load(std::sync::atomic::Ordering::Relaxed), run);
    if header.tenancy.state() != Ok(State::Owned) {
        return Vec::new();
    }
    let progress = header.published();
    let range = readable(&header.main, progress.consumed, geometry.capacity).expect("sane positions");
    let data = &bytes[trace_format::ring::HEADER_BYTES..];
    let records =
        Records::new([&data[range.start as usize..range.end as usize], &[]], range.start, geometry.block);
    records.map(|r| String::from_utf8(r.payload.to_vec()).unwrap()).collect()
}

fn lock_is_free(path: &Path) -> bool {
    let file = std::fs::File::open(path).unwrap();
    // SAFETY: the call queries a lock on an open file; the result is plain memory.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as _;
        assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut lock), 0);
        lock.l_type == libc::F_UNLCK as libc::c_short
    }
}
