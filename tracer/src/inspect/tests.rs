//! A ring looked at from outside: beside a busy thread and its flusher, and where it is hostile.
#![allow(unsafe_code, reason = "binds a producer to a ring")]
#![allow(clippy::unwrap_used)]

use super::*;
use crate::config::FullPolicy;
use crate::drain::{Drain, Work};
use crate::ring::{Link, Producer};
use crate::wake::Wake;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace_format::file::Encoding;
use trace_format::line::Line;
use trace_format::meta::{ClockKind, Run};
use trace_format::record::{Flags, message_word};
use trace_format::ring::{Geometry, HEADER_BYTES};
use trace_format::wall::Wall;

const TID: u64 = 7;

/// A run with one ring, which a thread has.
fn run_with_ring(directory: &Path, capacity: u64) -> (RunInMemory, Memory) {
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
    let traces = directory.as_os_str().as_encoded_bytes().to_vec();
    let manifest =
        Manifest { run, directories: vec![traces], name: b"app".to_vec(), encoding: Encoding::Text };
    let geometry = Geometry::of(capacity);
    let file = sys::create_private_file(&directory.join("ring-0")).unwrap();
    sys::reserve(&file, geometry.file_size()).unwrap();
    let memory = Memory::shared(&file, geometry).unwrap();
    memory.header().identity.set(&geometry, 1, 0, false);
    memory.header().tenancy.tid.store(TID, Ordering::Relaxed);
    memory.header().tenancy.state.store(State::Owned as u32, Ordering::Release);
    (RunInMemory { manifest, directory: directory.to_path_buf(), user: sys::effective_user() }, memory)
}

/// The numbers of the last messages in the file, and of all in the text.
fn numbers(thread: &ThreadInMemory) -> Vec<u64> {
    let mut bytes = Vec::new();
    if let Some(file) = &thread.file {
        let from = file.length.saturating_sub(4096);
        bytes.resize(usize::try_from(file.length - from).unwrap(), 0);
        file.file.read_exact_at(&mut bytes, from).unwrap();
        let whole = if from == 0 { 0 } else { bytes.iter().position(|&b| b == b'\n').unwrap() + 1 };
        bytes.drain(..whole);
    }
    bytes.extend(&thread.text);
    let text = String::from_utf8(bytes).unwrap();
    let messages = text.lines().filter_map(|line| line.split_once(" : number ")).map(|(_, number)| number);
    messages.map(|number| number.parse().unwrap()).collect()
}

/// Says so when it is dropped, even by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn beside_a_busy_thread_and_a_busy_flusher_file_and_text_have_no_seam() {
    let directory = tempfile::tempdir().unwrap();
    // Small, so that it goes round all the time; large, so that the flusher goes on while it is copied.
    let (run, memory) = run_with_ring(directory.path(), 256 * 1024);
    let link: &Link = Box::leak(Box::new(Link {
        closed: AtomicBool::new(false),
        failing: AtomicBool::new(false),
        wake: Box::leak(Box::new(Wake::default())),
        room: Wake::default(),
        policy: FullPolicy::Block,
        max_stall: Duration::from_secs(60),
    }));
    // SAFETY: memory and link live as long as the producer, and there is no other.
    let producer = unsafe { Producer::bound_to(&memory, link) };
    let (returned, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (run, memory, returned, done) = (&run, &memory, &returned, &done);
        scope.spawn(move || {
            let (mut place, mut out) = (TracePlace::of(&run.manifest), Vec::new());
            let source = Source { memory, place: RingPlace::Shared, why: "" };
            let info = &run.manifest.run;
            let mut drain = Drain::new(memory.header(), Encoding::Text);
            let mut last = false;
            while !last {
                last = done.load(Ordering::Acquire);
                let mut work = Work { info, place: &mut place, plans: &Plans::default(), out: &mut out };
                drain.portion(source, &mut work, &|| false).unwrap();
            }
        });
        scope.spawn(move || {
            let _ends = Ends(done);
            for _ in 0..300 {
                let before = returned.load(Ordering::Acquire);
                let thread = run.threads(true).next().unwrap().unwrap();
                let numbers = numbers(&thread);
                let seam = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1);
                assert_eq!(seam, None);
                assert!(numbers.last().map_or(0, |last| last + 1) >= before.max(thread.committed));
            }
        });
        for n in 0.. {
            producer.record(Ticks(n + 2), format_args!("number {n}"));
            returned.store(n + 1, Ordering::Release);
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
    });
}

/// Words that a hostile header may have.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, (0..80_000u64).prop_map(|n| n * 8), 0..80_000u64, any::<u64>(), Just(u64::MAX - 7)]
}

proptest! {
    #[test]
    fn a_hostile_ring_harms_nobody(
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
        let place = TracePlace::of(&run.manifest);
        for alive in [false, true] {
            if let Ok(Some(thread)) = run.thread(&path, &place, alive, &mut 0) {
                prop_assert!(thread.file.is_none());
                let lines = thread.text.split(|&b| b == b'\n');
                let bad = lines.filter(|line| !line.is_empty() && Line::parse(line).is_err()).count();
                // It may go on where the slot says that a message is; the last line may not be all there yet.
                prop_assert!(bad <= 2, "{}", String::from_utf8_lossy(&thread.text));
            }
        }
    }
}
