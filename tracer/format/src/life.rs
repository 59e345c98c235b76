//! The life file: a page in a run's directory. Its lock shows that the run is alive; its counters are for the run as a
//! whole.
//!
//! ```text
//! offset  group      fields                                                writer
//!   0     identity   magic "TRCLIFE\n" u64, version u32, file bytes u32,   flusher, before it is locked
//!                    flusher's thread id u64
//!  64     traced     ringless u64; start: thread id u64, since u64, ns   traced threads
//!                    u64; panics: thread id u64, deadly u32; name of
//!                    the signal u64
//! 128     flusher    files u64, ending u32, left u32, forgotten u64,       flusher, then the recoverer
//!                    rings u64
//! 192     switch     answers u32, wanted u32, paused u32                   flusher; `wanted`: tracemerge
//! 256     looks      count u64, then three readings of the clocks, see     flusher
//!                    `Looks`
//! 448     drops      count u64, then twice: files, records, losses by      flusher, then the recoverer
//!                    reason, thread, name, number, u64 each; see `Drops`
//! ```
//!
//! Numbers are little-endian; the file has [`FILE_BYTES`] bytes. The run maps it and holds a lock on its byte
//! [`LIFE_BYTE`] through the mapping, without a descriptor; the system releases the lock when the last thread of the
//! process has ended. A process that gets the lock knows that the run is dead. A recoverer takes the lock on
//! [`RECOVERY_BYTE`] first, so that only one process recovers the run.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::line::Ticks;
use crate::meta::{Cause, EndReason, Ended, LossReason, Meta, Name, SystemClocks};
use crate::wall::Wall;

/// The name of the life file in the run's directory.
pub const FILE_NAME: &str = "life";
/// The number of bytes of a life file.
pub const FILE_BYTES: usize = 4096;
/// The first eight bytes of a life file, as a number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRCLIFE\n");
/// The version of the layout of a life file's page.
pub const LAYOUT_VERSION: u32 = 1;

/// The byte of the life file that a run has locked while it is alive.
pub const LIFE_BYTE: u32 = 0;
/// The byte of the life file that a recoverer has locked while it works.
pub const RECOVERY_BYTE: u32 = 1;

/// The identity of a life file's page: magic number, version, length, and the flusher's thread id. It is fixed when the
/// page is made.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LifeIdentity {
    /// The magic number, [`MAGIC`].
    pub magic: AtomicU64,
    /// The version of the layout, [`LAYOUT_VERSION`].
    pub version: AtomicU32,
    /// The length of the file in bytes, [`FILE_BYTES`].
    pub file_bytes: AtomicU32,
    /// The flusher's thread id. If the run needs a trace file for itself, in addition to those of its threads, that
    /// file has this id in its name.
    pub flusher: AtomicU64,
}

/// The counters of the run that its traced threads write.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TracedCounters {
    /// The number of records that found no ring and are in no thread's report. Any thread adds to the number. A thread
    /// that gets a ring later subtracts its own records, and its file reports them.
    pub ringless_records: AtomicU64,
    /// The cost of the run's start.
    pub start: Start,
    /// The panics of the program.
    pub panics: Panics,
    /// The signal that ends the process, if it is caught.
    pub signal: FatalSignal,
}

/// The cost of a run's start, and the thread whose file reports it, which is the thread that made the first record.
/// All fields are zero in runs that did not record the cost.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Start {
    /// The id of the thread whose file reports the cost.
    tid: AtomicU64,
    /// The ticks at which the reporting thread took its ring.
    since: AtomicU64,
    /// The time that the program's threads have spent in the start, in nanoseconds; 0 if it is not known.
    ns: AtomicU64,
}

impl Start {
    /// Sets the cost: `ns` nanoseconds, to be reported in the file of the thread `tid`, which took its ring at
    /// `since`. The thread calls this before it commits a record, so a thread that sees the record sees the cost.
    pub fn set(&self, tid: u64, since: Ticks, ns: u64) {
        self.tid.store(tid, Ordering::Relaxed);
        self.since.store(since.0, Ordering::Relaxed);
        self.ns.store(ns.max(1), Ordering::Release);
    }

    fn continue_from(&self, other: &Start) {
        let ns = other.ns.load(Ordering::Acquire);
        self.tid.store(other.tid.load(Ordering::Relaxed), Ordering::Relaxed);
        self.since.store(other.since.load(Ordering::Relaxed), Ordering::Relaxed);
        self.ns.store(ns, Ordering::Release);
    }

    /// Returns the cost if the file of the thread `tid`, which took its ring at `since`, has to report it.
    #[must_use]
    pub fn cost_reported_by(&self, tid: u64, since: Ticks) -> Option<u64> {
        let ns = self.ns.load(Ordering::Acquire);
        let reporting_thread = (self.tid.load(Ordering::Relaxed), self.since.load(Ordering::Relaxed));
        (ns > 0 && reporting_thread == (tid, since.0)).then_some(ns)
    }
}

/// The deadly panics of a program, those that will end the process, as the program's panic hook sees them. All fields
/// are zero in runs that did not record panics.
///
/// A panic is deadly while its hooks run, because it may end the process before it unwinds. After the hooks, a panic
/// that cannot unwind stays deadly. A panic that unwinds is no longer deadly: the program may catch it, or it may end
/// only its thread.
///
/// ```text
///           begin                 hooks end, cannot unwind
/// 0 ─────────────────► deadly ─────────────────────────► deadly, until the process is gone
///   ◄────────────────
///   note_unwinding
/// ```
///
/// Several threads may panic at once, so `deadly` is a count. The counts are read after the process's death, or during
/// its `exit`; so a reader needs no other order between the two words than that of [`begin`](Panics::begin).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Panics {
    /// The id of the thread whose panic began last; 0 if none has panicked.
    tid: AtomicU64,
    /// The number of panics that are deadly now, which means that they will end the process.
    deadly: AtomicU32,
}

impl Panics {
    /// Counts a panic of thread `tid`, whose hooks begin to run, as deadly.
    pub fn begin(&self, tid: u64) {
        self.tid.store(tid, Ordering::Relaxed);
        // Release: a reader that sees the count sees a thread.
        self.deadly.fetch_add(1, Ordering::Release);
    }

    /// Counts one panic fewer as deadly, because the hooks of a panic that [`begin`](Panics::begin) has counted have
    /// run, and the panic unwinds. Does nothing if no panic is counted: the panic may have begun before this page
    /// existed, and is then counted in another place.
    pub fn note_unwinding(&self) {
        let _ = self.deadly.fetch_update(Ordering::Release, Ordering::Relaxed, |count| count.checked_sub(1));
    }

    fn continue_from(&self, other: &Panics) {
        let deadly = other.deadly.load(Ordering::Acquire);
        self.tid.store(other.tid.load(Ordering::Relaxed), Ordering::Relaxed);
        self.deadly.store(deadly, Ordering::Release);
    }

    /// Returns the id of the thread whose panic is deadly, if there is one.
    #[must_use]
    pub fn deadly(&self) -> Option<u64> {
        (self.deadly.load(Ordering::Acquire) > 0).then(|| self.tid.load(Ordering::Relaxed))
    }

    /// Returns the id of the thread whose panic began last, whether it was deadly or not.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        Some(self.tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0)
    }
}

/// The name of the signal that ends the process, which the signal's handler stores; zero if no handler has stored a
/// name.
///
/// ```text
/// 0 ──set──► name of a signal ──set──► name of another signal, which another thread gets at the same time
/// ```
///
/// Accesses are relaxed, because the name is one word that is read when the process is gone.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct FatalSignal(AtomicU64);

impl FatalSignal {
    /// Stores the name of the signal that ends the process. Keeps at most eight bytes of the name, which is enough for
    /// all signals that dump a core.
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        self.0.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }

    /// Returns the stored name of the signal, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<Name> {
        let bytes = self.0.load(Ordering::Relaxed).to_le_bytes();
        Name::parse(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }
}

/// The counters of the run that its flusher writes.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FlusherCounters {
    /// The number of trace files that the run has made.
    pub files: AtomicU64,
    /// The way in which the run ends: an [`Ending`].
    pub ending: AtomicU32,
    /// The number of directories that the run no longer uses because it could not create a file there; they are the
    /// first ones in the manifest. Zero in runs that did not count them.
    pub left: AtomicU32,
    /// The number of records that were lost because flight recorders (rings that keep the newest records only) of ended
    /// threads were discarded.
    pub forgotten: AtomicU64,
    /// The counts of ring files, [`RingFiles`] packed into one word by [`RingFiles::to_word`]. Zero in runs that did
    /// not count their rings.
    pub rings: AtomicU64,
}

/// The ring files in a run's directory, as its flusher knows them. The flusher stores `count` and `changing` as one
/// word before and after each change of the directory, so that both are exact at whatever moment the process is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingFiles {
    /// The number of ring files that the flusher has made and not removed; the file that is `changing` is not counted.
    /// If the directory has fewer ring files, another process has removed some.
    pub count: u32,
    /// The number in the name of the file that the flusher is making or removing now, if any. The file may exist or
    /// not.
    pub changing: Option<u32>,
}

impl RingFiles {
    /// Returns the word for the life file: `count` in the lower half, and `changing` plus 1 in the upper half (0 for
    /// `None`).
    #[must_use]
    pub fn to_word(self) -> u64 {
        u64::from(self.changing.map_or(0, |ring| ring.wrapping_add(1))) << 32 | u64::from(self.count)
    }

    /// Returns the values that [`to_word`](RingFiles::to_word) has put into a word of a life file.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each half is a number of its own")]
    pub fn of_word(word: u64) -> RingFiles {
        RingFiles { count: word as u32, changing: ((word >> 32) as u32).checked_sub(1) }
    }
}

/// The switch that pauses and resumes tracing from outside the process. All fields are zero in runs without a switch.
///
/// ```text
/// tracemerge                                  flusher
///   wanted = ON or OFF, Release ──────────►     swaps `wanted` for 0, Acquire; switches
///   looks at paused, Acquire    ◄──────────     paused = 0 or 1, Release
/// ```
///
/// If two processes write `wanted` at the same time, the later request counts.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Switch {
    /// A flag, 1 if the flusher reads `wanted`.
    answers: AtomicU32,
    /// The newest request that the flusher has not taken yet, [`ON`] or [`OFF`]; 0 if there is none.
    wanted: AtomicU32,
    /// A flag, 1 if tracing is paused.
    paused: AtomicU32,
}

/// The request to resume tracing.
const ON: u32 = 1;
/// The request to pause tracing.
const OFF: u32 = 2;

impl Switch {
    /// Stores that the flusher takes requests from now on, and whether the run is `paused`. Only the flusher calls
    /// this.
    pub fn begin(&self, paused: bool) {
        self.is_now(paused);
        self.answers.store(1, Ordering::Release);
    }

    /// Stores whether tracing is `paused` now. Only the flusher calls this.
    pub fn is_now(&self, paused: bool) {
        self.paused.store(u32::from(paused), Ordering::Release);
    }

    /// Returns the newest request since the previous call, and removes it: `Some(true)` to resume tracing,
    /// `Some(false)` to pause it. Only the flusher calls it.
    pub fn take(&self) -> Option<bool> {
        if self.wanted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.wanted.swap(0, Ordering::Acquire) {
            ON => Some(true),
            OFF => Some(false),
            _ => None,
        }
    }

    /// Requests that tracing is resumed if `on` is true, and paused if it is false.
    pub fn ask(&self, on: bool) {
        self.wanted.store(if on { ON } else { OFF }, Ordering::Release);
    }

    /// Returns whether tracing is on; `None` if the run's flusher does not answer requests.
    #[must_use]
    pub fn is_on(&self) -> Option<bool> {
        (self.answers.load(Ordering::Acquire) == 1).then(|| self.paused.load(Ordering::Acquire) == 0)
    }
}

/// The clock readings that the flusher made at the beginning of the run and most recently; the latter are the process's
/// last sign of life. All fields are zero in runs that did not record them.
///
/// ```text
/// flusher                                            reader
///   fills the reading that `count` does not name       count, Acquire
///   count + 1, Release                     ────────►   the reading that it names; again if `count` has changed
/// ```
///
/// So a flusher leaves a whole reading even if it is killed.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Looks {
    /// The number of readings stored so far. Its lowest bit is the index of the valid reading.
    count: AtomicU64,
    begun: Reading,
    last: [Reading; 2],
}

/// A reading of the clocks, as numbers: ticks (0: no reading), wall clock, ticks that the reading took, raw clock, time
/// since the machine was started, error of the wall clock, and the status bits and the state of the wall clock in one
/// number. All bits of a number are set if the system does not have that clock.
#[derive(Debug, Default)]
#[repr(C)]
struct Reading([AtomicU64; 7]);

/// The number that stands for a missing value.
const NONE: u64 = u64::MAX;

impl Reading {
    fn set(&self, clock: &Meta) {
        let Meta::Clock { ticks, wall, system } = clock else { return };
        let small = |number: Option<u32>| u64::from(number.unwrap_or(u32::MAX));
        let or_none = |number: Option<u64>| number.unwrap_or(NONE);
        let quality = small(system.status) | small(system.state) << 32;
        let clocks = [system.within, system.raw, system.since_boot, system.error].map(or_none);
        let [within, raw, since_boot, error] = clocks;
        let numbers = [ticks.0, wall.0, within, raw, since_boot, error, quality];
        self.0.iter().zip(numbers).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
    }

    fn get(&self) -> Option<Meta> {
        let numbers: [u64; 7] = std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed));
        let [ticks, wall, within, raw, since_boot, error, quality] = numbers;
        let known = |number: u64| Some(number).filter(|number| *number != NONE);
        let small = |number: u64| u32::try_from(number).ok().filter(|number| *number != u32::MAX);
        let system = SystemClocks {
            within: known(within),
            raw: known(raw),
            since_boot: known(since_boot),
            error: known(error),
            status: small(quality & 0xffff_ffff),
            state: small(quality >> 32),
        };
        (ticks != 0).then_some(Meta::Clock { ticks: Ticks(ticks), wall: Wall(wall), system })
    }
}

impl Looks {
    /// Stores the clock readings at the beginning of the run; `clock` is a [`Meta::Clock`]. Only the flusher calls
    /// it, once.
    pub fn begin(&self, clock: &Meta) {
        self.begun.set(clock);
        self.look(clock);
    }

    /// Stores the present clock readings, a sign of life of the process. Only the flusher calls it.
    pub fn look(&self, clock: &Meta) {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        // If a reader sees any of the new values, its last load of the count sees the count that was stored before
        // this fence, or a later one.
        fence(Ordering::Release);
        self.last[usize::from(count & 1 == 1)].set(clock);
        self.count.store(count, Ordering::Release);
    }

    /// Returns the clock readings at the beginning of the run.
    #[must_use]
    pub fn begun(&self) -> Option<Meta> {
        self.begun.get()
    }

    /// Returns the most recent clock readings. If the run is alive and has stored new ones twice during the call,
    /// returns `None`.
    #[must_use]
    pub fn last(&self) -> Option<Meta> {
        let count = self.count.load(Ordering::Acquire);
        let clock = self.last[usize::from(count & 1 == 1)].get();
        fence(Ordering::Acquire);
        let is_whole = self.count.load(Ordering::Relaxed).wrapping_sub(count) < 2;
        clock.filter(|_| is_whole)
    }

    fn continue_from(&self, other: &Looks) {
        if let Some(clock) = other.begun() {
            self.begun.set(&clock);
        }
        if let Some(clock) = other.last() {
            self.look(&clock);
        }
    }
}

/// The files that the run has dropped to keep the total size of its files within the limit: the counts of their
/// contents, and the last file. All fields are zero in runs that have dropped none.
///
/// The flusher counts a file here before it removes the file. It fills the slot that is not valid, then increments
/// `count`, as for `Looks`. If the flusher is killed before it has removed the file, the recoverer removes it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Drops {
    /// The number of times that the counts were stored; its lowest bit is the index of the valid slot.
    count: AtomicU64,
    slots: [DropSlot; 2],
}

/// The fields of a [`Dropped`], as atomics.
#[derive(Debug, Default)]
#[repr(C)]
struct DropSlot {
    files: AtomicU64,
    records: AtomicU64,
    lost: [AtomicU64; LossReason::COUNT],
    last: [AtomicU64; 3],
}

/// The counts of the files that a run has dropped to keep the total size of its files within the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The number of files that the run has dropped.
    pub files: u64,
    /// The number of records that were in the dropped files.
    pub records: u64,
    /// The numbers of records that the dropped files reported as lost, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The last dropped file: the id of its thread, the `<n>` of its name, and its number among the run's files.
    pub last: [u64; 3],
}

impl Drops {
    /// Stores the counts of the dropped files, including a file that is going to be removed. Only the flusher calls
    /// it.
    pub fn set(&self, dropped: &Dropped) {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        fence(Ordering::Release);
        let slot = &self.slots[usize::from(count & 1 == 1)];
        slot.files.store(dropped.files, Ordering::Relaxed);
        slot.records.store(dropped.records, Ordering::Relaxed);
        slot.lost.iter().zip(dropped.lost).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        slot.last.iter().zip(dropped.last).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        self.count.store(count, Ordering::Release);
    }

    /// Returns the counts of the dropped files. If the run is alive and drops two files during the call, the counts may
    /// belong to different moments; otherwise they belong to one moment.
    #[must_use]
    pub fn get(&self) -> Dropped {
        let slot = &self.slots[usize::from(self.count.load(Ordering::Acquire) & 1 == 1)];
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Dropped {
            files: get(&slot.files),
            records: get(&slot.records),
            lost: std::array::from_fn(|at| get(&slot.lost[at])),
            last: std::array::from_fn(|at| get(&slot.last[at])),
        }
    }
}

/// The page of a life file. All its fields are atomics, so any bytes are valid.
#[derive(Debug)]
#[repr(C)]
pub struct Life {
    /// The identity of the page: its magic number, version and length.
    pub identity: LifeIdentity,
    /// The counters of the run that its traced threads write.
    pub traced: TracedCounters,
    /// The counters of the run that its flusher writes.
    pub flusher: FlusherCounters,
    /// The switch that pauses and resumes tracing from outside the process.
    pub switch: Switch,
    /// The flusher's clock readings; see [`Looks`].
    pub looks: Looks,
    /// The counts of the files that the run has dropped to keep their total size within the limit.
    pub drops: Drops,
}

const _: () = assert!(size_of::<Life>() <= FILE_BYTES);

/// The way in which a run ends, as far as its flusher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// The flusher has not seen an end: the run is alive, or was killed.
    Unseen = 0,
    /// The process has called `exit` or returned from `main`.
    Exit = 1,
    /// `shutdown()` was called.
    Shutdown = 2,
}

impl Life {
    /// Initializes a page of zeros; `flusher` is the flusher's thread id. Writes the magic number last.
    pub fn set(&self, flusher: u64) {
        self.identity.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.identity.file_bytes.store(FILE_BYTES as u32, Ordering::Relaxed);
        self.identity.flusher.store(flusher, Ordering::Relaxed);
        self.identity.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns the version of the page's layout; `None` if this is not the page of a life file.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        let is_one = self.identity.magic.load(Ordering::Acquire) == MAGIC;
        is_one.then(|| self.identity.version.load(Ordering::Relaxed))
    }

    /// Copies the values of `other`, a life page of the same run whose file was removed, so that this page replaces
    /// that one. Does not copy the count of records that found no ring: the run moves this count itself.
    pub fn continue_from(&self, other: &Life) {
        self.traced.start.continue_from(&other.traced.start);
        self.traced.panics.continue_from(&other.traced.panics);
        self.traced.signal.0.store(other.traced.signal.0.load(Ordering::Relaxed), Ordering::Relaxed);
        let (to, from) = (&self.flusher, &other.flusher);
        to.files.store(from.files.load(Ordering::Relaxed), Ordering::Relaxed);
        to.ending.store(from.ending.load(Ordering::Relaxed), Ordering::Relaxed);
        to.left.store(from.left.load(Ordering::Relaxed), Ordering::Relaxed);
        to.forgotten.store(from.forgotten.load(Ordering::Relaxed), Ordering::Relaxed);
        to.rings.store(from.rings.load(Ordering::Relaxed), Ordering::Relaxed);
        self.looks.continue_from(&other.looks);
        self.drops.set(&other.drops.get());
        if let Some(on) = other.switch.is_on() {
            self.switch.begin(!on);
        }
    }

    /// Sets the way in which the run ends.
    pub fn set_ending(&self, ending: Ending) {
        self.flusher.ending.store(ending as u32, Ordering::Release);
    }

    /// Returns the end to report in the `# end` line of a thread that still had its ring when the process ended;
    /// `known` is the cause of the process's end as far as the caller knows it.
    #[must_use]
    pub fn ended(&self, known: Cause) -> Ended {
        let panic = self.traced.panics.deadly();
        let noted = Cause { panic, signal: self.traced.signal.get(), status: None };
        // The caller, which may have waited for the process, knows its signal better than a handler that something
        // else has interrupted.
        let cause = known.or(noted);
        let seen = match self.looks.last() {
            Some(Meta::Clock { ticks, .. }) => Some(ticks),
            _ => None,
        };
        match self.flusher.ending.load(Ordering::Acquire) {
            number if number == Ending::Exit as u32 => Ended { reason: EndReason::Exit, cause, seen },
            // The run has ended before its process.
            number if number == Ending::Shutdown as u32 => EndReason::Shutdown.into(),
            _ if panic.is_some() => Ended { reason: EndReason::Panic, cause, seen },
            _ => Ended { reason: EndReason::Killed, cause, seen },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ticks: u64, error: Option<u64>, state: Option<u32>) -> Meta {
        let system = SystemClocks {
            within: Some(3),
            raw: Some(ticks * 2),
            since_boot: None,
            error,
            status: Some(0x2001),
            state,
        };
        Meta::Clock { ticks: Ticks(ticks), wall: Wall(7 * ticks), system }
    }

    #[test]
    fn a_panic_that_was_noted_elsewhere_makes_none_deadly() {
        let panics = Panics::default();
        panics.note_unwinding();
        assert_eq!(panics.deadly(), None);
        panics.begin(7);
        assert_eq!(panics.deadly(), Some(7));
        panics.note_unwinding();
        assert_eq!((panics.deadly(), panics.last()), (None, Some(7)));
    }

    #[test]
    fn ring_files_are_one_word() {
        for count in [0, 1, 7, u32::MAX] {
            for changing in [None, Some(0), Some(1), Some(u32::MAX - 1)] {
                let files = RingFiles { count, changing };
                assert_eq!(RingFiles::of_word(files.to_word()), files);
            }
        }
        assert_eq!(
            RingFiles::of_word(5),
            RingFiles { count: 5, changing: None },
            "of runs that noted no change"
        );
    }

    #[test]
    fn the_last_look_is_the_last_one_stored_completely() {
        let looks = Looks::default();
        assert_eq!((looks.begun(), looks.last()), (None, None), "a run that noted none");
        let begun = clock(5, Some(16_000), None);
        looks.begin(&begun);
        for ticks in 6..9 {
            let clock = clock(ticks, None, Some(5));
            looks.look(&clock);
            assert_eq!((looks.begun(), looks.last()), (Some(begun.clone()), Some(clock)));
        }
        // If the flusher is killed before it stores the count, the reading before counts.
        looks.last[0].set(&clock(100, None, None));
        let last = looks.last().is_some_and(|last| last == clock(8, None, Some(5)));
        let count = looks.count.load(Ordering::Relaxed);
        assert!(last == (count & 1 == 1));
        let other = Looks::default();
        other.continue_from(&looks);
        assert_eq!((other.begun(), other.last()), (looks.begun(), looks.last()));
    }
}
