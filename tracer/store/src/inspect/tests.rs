//! Tests of the inspection of hostile rings.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use trace_format::line::Line;
use trace_format::record::{Flags, message_word};
use trace_format::ring::{Geometry, HEADER_BYTES};

use super::*;

#[path = "../../tests/support/manifest.rs"]
mod manifest;

use manifest::manifest;

const TID: u64 = 7;

/// Returns a run with one ring, which a thread has.
fn run_with_ring(directory: &Path, capacity: u64) -> (RunInMemory, Memory) {
    let manifest = manifest(directory);
    let geometry = Geometry::of(capacity);
    let file = sys::create_private_file(&directory.join("ring-0")).unwrap();
    sys::reserve(&file, geometry.file_size()).unwrap();
    let memory = Memory::shared(&file, geometry).unwrap();
    memory.header().identity.set(&geometry, 1, 0, false);
    memory.header().tenancy.tid.store(TID, Ordering::Relaxed);
    memory.header().tenancy.state.store(State::Owned as u32, Ordering::Release);
    (RunInMemory { manifest, directory: directory.to_path_buf(), user: sys::effective_user() }, memory)
}

/// Returns words that the header of a hostile ring may contain.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, (0..80_000u64).prop_map(|n| n * 8), 0..80_000u64, any::<u64>(), Just(u64::MAX - 7)]
}

proptest! {
    #[test]
    fn a_hostile_ring_is_inspected_without_panic(
        words in prop::collection::vec((8..80usize, word()), 0..12),
        records in prop::collection::vec((0..5u8, 0..400usize, any::<u64>()), 0..60),
        data in prop::collection::vec(any::<u8>(), 0..600),
        at in 0..2000usize,
        overwrite: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (run, memory) = run_with_ring(directory.path(), 16 * 1024);
        memory.header().identity.overwrite.store(u32::from(overwrite), Ordering::Relaxed);
        drop(memory);
        let path = directory.path().join("ring-0");
        let mut bytes = std::fs::read(&path).unwrap();
        let mut end = HEADER_BYTES;
        for (flags, length, ticks) in records {
            let header = [message_word(0, Flags(flags), length).to_le_bytes(), ticks.to_le_bytes()].concat();
            bytes[end..end + 16].copy_from_slice(&header);
            end = (end + 16 + length).next_multiple_of(8).min(bytes.len() - 16);
        }
        bytes[128..136].copy_from_slice(&((end - HEADER_BYTES) as u64).to_le_bytes());
        bytes[HEADER_BYTES + at * 8..][..data.len()].copy_from_slice(&data);
        for (index, word) in words {
            bytes[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        let place = TracePlace::of(&run.manifest, None);
        for alive in [false, true] {
            if let Ok(Some(thread)) = run.thread(&path, &place, alive, &mut 0) {
                prop_assert!(thread.file.is_none());
                let lines = thread.text.split(|&b| b == b'\n');
                let bad = lines.filter(|line| !line.is_empty() && Line::parse(line).is_err()).count();
                // The text may continue a message of which the slot says that it is open; the last line may be
                // incomplete.
                prop_assert!(bad <= 2, "{}", String::from_utf8_lossy(&thread.text));
            }
        }
    }
}

#[test]
fn the_file_of_a_rotating_thread_is_the_published_one_even_if_inode_numbers_are_reused() {
    const ROTATIONS: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let (run, memory) = run_with_ring(directory.path(), 16 * 1024);
    let place = TracePlace::of(&run.manifest, None);
    let mut line = format!("{:016x}-{TID:08} # ", 1).into_bytes();
    Meta::Run(run.manifest.run.clone()).write(&mut line);
    let path = directory.path().join(format!("app.trace.{TID}"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..ROTATIONS {
                // The length tells which file it is.
                let file = [&line[..], b"\n", &vec![b' '; number % 64]].concat();
                let new = path.with_extension("new");
                std::fs::write(&new, &file).unwrap();
                let sys::FileIdentity { device, inode, .. } = sys::path_identity(&new).unwrap();
                let file_length = file.len() as u64;
                memory.publish(&Progress { file_length, device, inode, ..Progress::default() });
                std::fs::rename(&new, &path).unwrap();
            }
        });
        let mut found = 0;
        while !writer.is_finished() {
            let thread = run.thread(&directory.path().join("ring-0"), &place, true, &mut 0);
            let Ok(Some(ThreadInMemory { file: Some(file), .. })) = thread else { continue };
            assert_eq!(file.file.metadata().unwrap().len(), file.length);
            found += 1;
        }
        assert!(found > 0);
    });
}
