//! The counters of the tortured program, in a file that it has mapped, so that they survive a kill.
//!
//! ```text
//! word 0          1 if the test wants all processes to end soon
//! processes       8 × 8 words: pid, came to its end
//! slots           240 × 8 words: calls begun, calls that have returned, calls that had returned at `exit`,
//!                 tid, pid, when it ended, the records of an ended file of the thread that was taken away
//! ```
#![allow(unsafe_code, reason = "maps the file")]

use super::plan::THREADS;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The greatest number of processes of a trial that trace: the program, its children, the program that it
/// becomes by `exec`, the program again.
pub const PROCESSES: usize = 8;
/// The number of the first child.
pub const CHILD: usize = 1;
/// The number of the program that the first one becomes by `exec`.
pub const EXECUTED: usize = 4;
/// The number of the program when it is started again after it has ended.
pub const AGAIN: usize = 5;
/// The number of the program when it is started again beside itself.
pub const OTHER: usize = 6;

/// The number of slots for each thread: its own calls, those inside of its records, and those of its signal
/// handler.
pub const LANES: usize = 3;
const STRIDE: usize = LANES * THREADS;
/// The slot of the first short-lived thread.
pub const SHORT_LIVED: usize = PROCESSES * STRIDE;
/// The number of slots.
pub const SLOTS: usize = SHORT_LIVED + 48;

const WORDS: usize = 8;
const OF_PROCESSES: usize = WORDS;
const OF_SLOTS: usize = OF_PROCESSES + PROCESSES * WORDS;
/// The length of the file in bytes.
pub const BYTES: usize = (OF_SLOTS + SLOTS * WORDS) * 8;

/// The part of a thread that a slot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The thread's own calls; true for a thread that comes and goes.
    Thread(bool),
    /// The calls inside of the thread's records.
    Inside,
    /// The calls of the thread's signal handler.
    Handler,
}

/// Returns the slot of a thread's own calls.
#[must_use]
pub fn slot(process: usize, thread: usize) -> usize {
    process * STRIDE + thread
}

/// Returns the slot of the calls inside of the records of the thread with this slot.
#[must_use]
pub fn inside(slot: usize) -> usize {
    slot + THREADS
}

/// Returns the slot of the signal handler of the thread with this slot.
#[must_use]
pub fn handler(slot: usize) -> usize {
    slot + 2 * THREADS
}

/// Returns the part of a thread that a slot counts.
#[must_use]
pub fn lane_of(slot: usize) -> Lane {
    match slot % STRIDE / THREADS {
        _ if slot >= SHORT_LIVED => Lane::Thread(true),
        0 => Lane::Thread(false),
        1 => Lane::Inside,
        _ => Lane::Handler,
    }
}

/// Returns the process of a slot.
#[must_use]
pub fn process_of(slot: usize) -> usize {
    if slot >= SHORT_LIVED { 0 } else { slot / STRIDE }
}

/// The mapped file.
#[derive(Clone, Copy, Debug)]
pub struct Counters(&'static [AtomicU64]);

/// The words of one process.
#[derive(Clone, Copy, Debug)]
pub struct Process(&'static [AtomicU64]);

/// The words of one slot. Only its thread stores to them.
#[derive(Clone, Copy, Debug)]
pub struct SlotCounters(&'static [AtomicU64]);

impl Counters {
    /// Maps the file for good; it has [`BYTES`] bytes.
    ///
    /// # Panics
    /// If the file cannot be mapped.
    #[must_use]
    pub fn map(path: &Path) -> Counters {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).open(path).expect("the file of counters");
        assert_eq!(file.metadata().expect("its length").len(), BYTES as u64);
        // SAFETY: the file has as many bytes and keeps them, and the mapping stays until `unmap`; both sides use it
        // as atomics only.
        Counters(unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let address = libc::mmap(std::ptr::null_mut(), BYTES, access, kind, fd, 0);
            assert_ne!(address, libc::MAP_FAILED);
            std::slice::from_raw_parts(address.cast::<AtomicU64>(), BYTES / 8)
        })
    }

    /// Unmaps the file; the caller no longer uses the counters.
    pub fn unmap(self) {
        // SAFETY: this is the mapping of `map`, and the caller promises that nothing uses it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast_mut().cast(), BYTES) };
    }

    /// Asks all processes to end soon.
    pub fn stop(&self) {
        self.0[0].store(1, Ordering::Relaxed);
    }

    /// Returns whether all processes should end soon.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) == 1
    }

    /// Returns the words of one of the processes.
    #[must_use]
    pub fn process(&self, index: usize) -> Process {
        Process(&self.0[OF_PROCESSES + index * WORDS..][..WORDS])
    }

    /// Returns the words of one of the slots.
    #[must_use]
    pub fn slot(&self, index: usize) -> SlotCounters {
        SlotCounters(&self.0[OF_SLOTS + index * WORDS..][..WORDS])
    }
}

impl Process {
    /// Notes that the process runs.
    pub fn begins(&self) {
        self.0[0].store(std::process::id().into(), Ordering::Release);
    }

    /// Returns the process's id; 0 if it never ran.
    #[must_use]
    pub fn pid(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// Notes that the process has done everything, or calls `exit`: its exit handlers will end it.
    pub fn ends(&self) {
        self.0[1].store(1, Ordering::Release);
    }

    /// Returns whether the process came to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0[1].load(Ordering::Acquire) == 1
    }
}

impl SlotCounters {
    /// Assigns the slot to this thread.
    pub fn begins(&self) {
        // SAFETY: the call only returns an id, and touches no memory.
        let tid = unsafe { libc::gettid() };
        self.0[4].store(std::process::id().into(), Ordering::Relaxed);
        self.0[3].store(tid.unsigned_abs().into(), Ordering::Release);
    }

    /// Returns the ids of the thread and its process; 0 if it never ran.
    #[must_use]
    pub fn tid(&self) -> (u64, u64) {
        (self.0[3].load(Ordering::Acquire), self.0[4].load(Ordering::Relaxed))
    }

    /// Returns the number of the next call, which begins now.
    #[must_use]
    pub fn call(&self) -> u64 {
        let n = self.0[0].load(Ordering::Relaxed);
        self.0[0].store(n + 1, Ordering::Release);
        n
    }

    /// Notes that all calls that have begun have returned.
    pub fn returned(&self) {
        self.0[1].store(self.0[0].load(Ordering::Relaxed), Ordering::Release);
    }

    /// Notes that the process ends by `exit`: records whose calls have returned by now must be kept.
    pub fn exits(&self) {
        self.0[2].store(self.0[1].load(Ordering::Acquire), Ordering::Release);
    }

    /// Notes the time at which the thread ends.
    pub fn ends(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the argument is plain memory.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let ns = now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        self.0[5].store(ns, Ordering::Release);
    }

    /// Returns the time at which the thread ended, in nanoseconds of the monotonic clock.
    #[must_use]
    pub fn ended_at(&self) -> Option<u64> {
        Some(self.0[5].load(Ordering::Acquire)).filter(|ns| *ns > 0)
    }

    /// Notes that a fault took away a file of the thread that the tracer had ended, with `records` records, lost
    /// ones included.
    pub fn note_removed_records(&self, records: u64) {
        self.0[6].store(records, Ordering::Release);
    }

    /// Returns the number of records in a file that was taken away after it had ended.
    #[must_use]
    pub fn removed_records(&self) -> u64 {
        self.0[6].load(Ordering::Acquire)
    }

    /// Returns the number of calls that have begun.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.0[0].load(Ordering::Acquire)
    }

    /// Returns the number of calls that have returned.
    #[must_use]
    pub fn certainly_made(&self) -> u64 {
        self.0[1].load(Ordering::Acquire)
    }

    /// Returns the number of calls that had returned when `exit` was called.
    #[must_use]
    pub fn made_before_exit(&self) -> u64 {
        self.0[2].load(Ordering::Acquire)
    }
}
