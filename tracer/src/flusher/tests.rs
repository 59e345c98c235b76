//! The flusher driven by hand, without its thread.
#![allow(unsafe_code, reason = "plays the traced thread")]
#![allow(clippy::unwrap_used)]

use std::fmt::Arguments;
use std::path::Path;
use std::sync::atomic::Ordering;

use tempfile::TempDir;
use trace_format::line::Ticks;
use trace_format::meta::{EndReason, RingPlace};
use trace_format::ring::State;
use trace_store::drain::DrainContext;
use trace_store::memory::{FIRST_BYTES, MAX_STEP_BYTES};

use super::Flusher;
use super::ring_drain::{Extent, RingDrain};
use super::supply::Supply;
use crate::ring::{ALL_RESERVED, Outcome};
use crate::shared::run::{Run, SPARE};
use crate::shared::thread_name::ThreadName;
use crate::shared::thread_ring::ThreadRing;
use crate::user::config::{Config, FullPolicy};

/// Returns a run, and its flusher, which has no thread: the test calls its functions.
fn run(files: &Path, rings: &Path) -> (&'static Run, Flusher) {
    let (run, mut flusher) = run_without_rings(files, rings, 64 * 1024, FullPolicy::Drop);
    flusher.supply_rings();
    (run, flusher)
}

fn run_without_rings(
    files: &Path,
    rings: &Path,
    ring_size: u64,
    full_policy: FullPolicy,
) -> (&'static Run, Flusher) {
    let config = Config {
        directory: Some(files.to_path_buf()),
        runtime_directory: Some(rings.to_path_buf()),
        ring_size,
        full_policy,
        ..Config::default()
    };
    let run = Run::prepare(config, None).unwrap();
    (run, Flusher::new(run))
}

fn rings_directory() -> TempDir {
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().permissions(owner_only).tempdir().unwrap()
}

/// Takes a ring of the run for a thread with the id `tid`, which the test stands for.
fn attach(run: &'static Run, tid: u64) -> &'static ThreadRing {
    attach_with_losses(run, tid, 0)
}

/// Takes a ring as [`attach`] does, for a thread that has lost `lost` records before.
fn attach_with_losses(run: &'static Run, tid: u64, lost: u64) -> &'static ThreadRing {
    let (ring, _) = run.ready.take().unwrap();
    ring.lend(tid, &ThreadName { system: *b"played by a test", thread: None, whole: None }, Ticks(1), lost);
    ring
}

fn record(ring: &ThreadRing, message: Arguments<'_>) {
    // SAFETY: the ring is mapped; this test is the thread that has it.
    let producer = unsafe { &*ring.producer() };
    assert_eq!(producer.record(crate::ring::clock::now(), 0, message), Outcome::Committed);
}

fn files(directory: &Path) -> Vec<String> {
    let mut texts: Vec<_> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    texts.sort();
    texts.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_drain_writes_and_publishes_the_records_committed_before_it() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run(directory.path(), rings.path());
    let ring = attach(run, 77);
    assert_eq!(ring.place, RingPlace::Shared);
    flusher.drain_once();
    assert!(files(directory.path()).is_empty(), "a thread without a record has no file");

    record(ring, format_args!("one"));
    flusher.drain_once();
    record(ring, format_args!("two"));
    let [text] = &files(directory.path())[..] else { panic!("one file") };
    assert!(text.contains(" : one\n") && !text.contains("two"), "{text}");
    let published = ring.header().published();
    assert_eq!(published.file_length, text.len() as u64);
    assert_eq!(published.consumed, ring.header().main.head() - 24);
}

#[test]
fn records_are_kept_until_their_file_can_be_created() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let missing = directory.path().join("not yet there");
    std::fs::create_dir(&missing).unwrap();
    let (run, mut flusher) = run(&missing, rings.path());
    std::fs::remove_dir(&missing).unwrap();
    flusher.place.keep_first_for_test();
    let ring = attach(run, 78);
    record(ring, format_args!("before the directory is there"));
    flusher.drain_once();
    let error = flusher.error.take().unwrap();
    assert!(error.to_string().contains("not yet there"), "{error}");
    assert!(ring.link.failing.load(Ordering::Relaxed), "its thread is asked not to wait");

    std::fs::create_dir(&missing).unwrap();
    record(ring, format_args!("after"));
    flusher.retry = None;
    flusher.drain_once();
    let [text] = &files(&missing)[..] else { panic!("one file") };
    assert!(text.contains(" : before the directory is there\n") && text.contains(" : after\n"), "{text}");
    assert!(flusher.error.is_none() && !ring.link.failing.load(Ordering::Relaxed));
}

#[test]
fn a_ring_of_an_ended_thread_is_reused_with_a_new_file() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run(directory.path(), rings.path());
    let first = attach(run, 79);
    record(first, format_args!("first"));
    // SAFETY: the test has the ring and does not use it as its thread any more.
    unsafe { ThreadRing::give_back(first, EndReason::Thread) };
    assert_eq!(first.header().tenancy.state(), Ok(State::Ended));
    flusher.drain_once();
    assert_eq!(first.header().tenancy.state(), Ok(State::Free));
    let again = loop {
        let ring = attach(run, 80);
        if std::ptr::eq(ring, first) {
            break ring;
        }
    };
    record(again, format_args!("second"));
    flusher.drain_once();
    let texts = files(directory.path());
    assert_eq!(texts.len(), 2);
    assert!(texts[0].ends_with("# end records=1 lost=0 reason=thread files=1\n"), "{}", texts[0]);
    assert!(texts[1].contains("-00000080 : second\n") && !texts[1].contains("first"), "{}", texts[1]);
}

#[test]
fn a_thread_that_ended_unnoticed_is_found() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run(directory.path(), rings.path());
    // No system gives out this id.
    let ring = attach(run, u64::from(u32::MAX >> 1));
    record(ring, format_args!("last words"));
    flusher.checked_at -= super::CHECK_INTERVAL;
    flusher.check_threads_and_files();
    flusher.drain_once();
    assert_eq!(ring.header().tenancy.state(), Ok(State::Free));
    assert!(files(directory.path())[0].contains("last words"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_makes_no_more_records_has_its_last_name() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run(directory.path(), rings.path());
    std::thread::scope(|scope| {
        let named = scope.spawn(|| {
            let ring = attach(run, crate::sys::thread_id());
            record(ring, format_args!("the only record"));
            flusher.drain_once();
            // The name comes after the drain that wrote the record.
            crate::sys::name_thread(c"bio_close_file");
            let mut look = || {
                flusher.checked_at -= super::CHECK_INTERVAL;
                flusher.check_threads_and_files();
            };
            look();
            let seen = files(directory.path())[0].clone();
            crate::sys::name_thread(c"unread");
            look();
            assert_eq!(files(directory.path())[0], seen, "no record has come, so no name is read");
            // At the end of the process it is read once more.
            flusher.at_process_exit();
            (seen, files(directory.path())[0].clone())
        });
        let (seen, whole) = named.join().expect("its end");
        assert!(seen.contains(" # name ") && seen.contains("\"bio_close_file\""), "{seen}");
        assert!(whole.contains("\"unread\""), "{whole}");
    });
}

#[test]
fn a_waiting_thread_gets_its_ring_before_a_busy_ring_is_drained() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run(directory.path(), rings.path());
    // Portions of a quarter of that.
    flusher.place.max_bytes = 16 * 1024;
    let busy = attach(run, 81);
    while run.ready.take().is_some() {}
    let fill = || (0..100).for_each(|n| record(busy, format_args!("{n:0>100}")));
    let is_whole = || busy.header().published().consumed == busy.header().main.head();

    fill();
    flusher.drain_once();
    assert!(is_whole() && run.ready.count() == 0, "nobody has waited");

    run.waiting.store(1, Ordering::Relaxed);
    fill();
    let is_interrupted = || Supply::has_waiting_thread(run);
    let mut context = DrainContext {
        info: &flusher.info,
        place: &mut flusher.place,
        tables: &mut flusher.supply,
        out: &mut flusher.out,
    };
    let of_busy = flusher.rings.iter_mut().find(|tail| std::ptr::eq(tail.ring, busy)).unwrap();
    assert!(matches!(of_busy.drain(&mut context, &is_interrupted).unwrap(), Extent::Partial));
    assert!(!is_whole());
    flusher.drain_once();
    assert_eq!(run.ready.count(), 1, "one waits");
    assert!(is_whole());

    // If none can be made, the rest is written all the same.
    while run.ready.take().is_some() {}
    run.no_ring_possible.store(true, Ordering::Relaxed);
    fill();
    flusher.drain_once();
    assert!(is_whole() && run.ready.count() == 0);
}

#[test]
fn losses_that_a_thread_brought_into_a_private_ring_are_reported_without_a_look_at_that_ring() {
    let directory = TempDir::new().unwrap();
    let (run, mut flusher) = run(directory.path(), Path::new("/proc/none"));
    let seen = attach_with_losses(run, 90, 2);
    assert_eq!(seen.place, RingPlace::Private);
    flusher.drain_once();
    attach_with_losses(run, 91, 3);

    let ended = run.ended(EndReason::Exit);
    flusher.end_files(ended);
    flusher.end_run_file(ended, RingDrain::dies_with_process);
    let texts = files(directory.path());
    let lost = |lost: &str| {
        texts.iter().filter(|text| text.contains(&format!("# lost records={lost} reason=full\n"))).count()
    };
    assert_eq!((lost("2"), lost("3"), texts.len()), (1, 1, 2), "{texts:?}");
}

/// Returns the position below which the ring's memory is reserved.
fn reserved(ring: &ThreadRing) -> u64 {
    ring.link.reserved.load(Ordering::Relaxed)
}

#[test]
fn the_first_ring_of_a_process_is_handed_out_at_once_and_then_reserved_in_growing_steps() {
    const SIZE: u64 = 1 << 20;
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run_without_rings(directory.path(), rings.path(), SIZE, FullPolicy::Block);
    assert!(flusher.supply.add(run, &mut flusher.rings));
    let first = attach(run, 100);
    let mut ends = vec![reserved(first)];
    while ends.last() < Some(&ALL_RESERVED) {
        assert!(flusher.supply.advance(run, &mut flusher.rings));
        ends.push(reserved(first));
    }
    assert_eq!(ends[..4], [FIRST_BYTES, 2 * FIRST_BYTES, 4 * FIRST_BYTES, 8 * FIRST_BYTES]);
    let steps = ends[2..ends.len() - 1].windows(2).map(|two| two[1] - two[0]);
    assert!(steps.eq(std::iter::repeat_n(MAX_STEP_BYTES, (SIZE / MAX_STEP_BYTES) as usize - 2)), "{ends:?}");
    assert_eq!(run.ready.count(), 0, "no ring is kept ready before a thread has all of its own");
}

#[test]
fn a_ring_that_is_kept_ready_is_reserved_completely_unless_a_thread_waits_for_it() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run_without_rings(directory.path(), rings.path(), 1 << 20, FullPolicy::Block);
    flusher.supply_rings();
    let ready: Vec<_> = std::iter::from_fn(|| run.ready.take()).map(|(ring, _)| ring).collect();
    assert_eq!(ready.len(), SPARE);
    assert!(ready.iter().all(|ring| reserved(ring) == ALL_RESERVED));

    // The flusher has begun to reserve another one.
    assert!(flusher.supply.advance(run, &mut flusher.rings));
    assert_eq!(run.ready.count(), 0);
    run.waiting.store(1, Ordering::Relaxed);
    assert!(flusher.supply.advance(run, &mut flusher.rings));
    run.waiting.store(0, Ordering::Relaxed);
    let (early, _) = run.ready.take().unwrap();
    assert!(reserved(early) < ALL_RESERVED);
    flusher.supply_rings();
    assert!(reserved(early) == ALL_RESERVED && run.ready.count() == SPARE);
}

#[test]
fn rings_get_all_of_their_memory_if_no_further_ring_can_be_had() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run_without_rings(directory.path(), rings.path(), 1 << 20, FullPolicy::Block);
    run.waiting.store(1000, Ordering::Relaxed);
    // At some point there is no place for another one.
    while flusher.supply.serve(run, &mut flusher.rings) {}
    let is_whole = |tail: &RingDrain| reserved(tail.ring) == ALL_RESERVED;
    assert!(!flusher.rings.iter().all(is_whole));
    flusher.supply_rings();
    assert!(flusher.rings.iter().all(is_whole));
}

#[test]
fn a_ring_whose_thread_ends_before_its_memory_is_reserved_can_be_freed() {
    let (directory, rings) = (TempDir::new().unwrap(), rings_directory());
    let (run, mut flusher) = run_without_rings(directory.path(), rings.path(), 1 << 20, FullPolicy::Block);
    assert!(flusher.supply.add(run, &mut flusher.rings));
    let ring = attach(run, 101);
    record(ring, format_args!("the only one"));
    // Closed, so that the flusher does not lend it again.
    ring.close();
    // SAFETY: the test has the ring and does not use it as its thread any more.
    unsafe { ThreadRing::give_back(ring, EndReason::Thread) };
    flusher.drain_once();
    assert!(flusher.rings.is_empty());
    flusher.supply_rings();
    assert_eq!(run.ready.count(), SPARE);
    assert!(files(directory.path())[0].contains("the only one"));
}

#[test]
fn one_lost_record_is_not_called_several() {
    assert_eq!([super::are_lost(1), super::are_lost(2)], [" record is lost", " records are lost"]);
}
