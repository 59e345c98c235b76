//! A ring that is read from outside, beside a busy thread and its flusher.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use trace_format::file::Encoding;
use trace_format::line::Ticks;
use trace_format::meta::RingPlace;
use trace_format::plans::Plans;
use trace_format::ring::{Geometry, State};
use trace_store::drain::{Drain, DrainContext, DrainedRing, TracePlace};
use trace_store::inspect::{RunInMemory, ThreadInMemory, runs};
use trace_store::memory::Memory;
use trace_store::sys;

use crate::ring::{ALL_RESERVED, Link, Producer};
use crate::user::config::FullPolicy;
use crate::words::wake::Wake;

#[path = "../../../tests/support/manifest.rs"]
mod manifest;

use manifest::manifest;

const TID: u64 = 7;

/// Makes a run with one ring, which a thread has, in `directory`, where its trace files are, too.
fn run_with_ring(directory: &Path, capacity: u64) -> (RunInMemory, Memory) {
    let manifest = manifest(directory);
    let place = directory.join("rings/1-00000001");
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&place).unwrap();
    let written = sys::create_private_file(&place.join("manifest")).unwrap().write_all(&manifest.write());
    written.unwrap();
    let geometry = Geometry::of(capacity);
    let file = sys::create_private_file(&place.join("ring-0")).unwrap();
    sys::reserve(&file, geometry.file_size()).unwrap();
    let memory = Memory::shared(&file, geometry).unwrap();
    memory.header().identity.set(&geometry, 1, 0, false);
    memory.header().tenancy.tid.store(TID, Ordering::Relaxed);
    memory.header().tenancy.state.store(State::Owned as u32, Ordering::Release);
    let run = runs(&[directory.join("rings")], |_| true).pop().unwrap();
    (run, memory)
}

/// Returns the numbers in the last messages of the thread's file, and in all messages of the text that is rendered from
/// its ring.
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

/// A guard that sets its flag when it is dropped, even by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn file_and_ring_text_join_without_a_gap_beside_busy_threads() {
    let directory = tempfile::tempdir().unwrap();
    // Small, so that it wraps all the time; large, so that the flusher goes on while it is copied.
    let (run, memory) = run_with_ring(directory.path(), 256 * 1024);
    let link: &Link = Box::leak(Box::new(Link {
        closed: AtomicBool::new(false),
        reserved: AtomicU64::new(ALL_RESERVED),
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
            let (mut place, mut out) = (TracePlace::of(&run.manifest, None), Vec::new());
            let drained = DrainedRing { memory, place: RingPlace::Shared, why: "", start: None, looks: None };
            let info = &run.manifest.run;
            let mut drain = Drain::new(memory.header(), Encoding::Text);
            let mut last = false;
            while !last {
                last = done.load(Ordering::Acquire);
                let mut context =
                    DrainContext { info, place: &mut place, tables: &mut &Plans::default(), out: &mut out };
                drain.portion(drained, &mut context, &|| false).unwrap();
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
            producer.record(Ticks(n + 2), 0, format_args!("number {n}"));
            returned.store(n + 1, Ordering::Release);
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
    });
}
