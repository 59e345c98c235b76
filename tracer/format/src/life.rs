//! The life file: the page in a run's directory whose lock says that the run lives, and that counts what
//! belongs to the run and to no thread.
//!
//! ```text
//! offset  group      fields                                                writer
//!   0     identity   magic "TRCLIFE\n" u64, version u32, file bytes u32,   flusher, before it is locked
//!                    flusher's thread id u64
//!  64     traced     unplaced u64; start: thread id u64, since u64, ns   traced threads
//!                    u64; panics: thread id u64, deadly u32; name of
//!                    the signal u64
//! 128     flusher    files u64, ending u32, forgotten u64, rings u64       flusher, then the recoverer
//! 192     switch     answers u32, wanted u32, paused u32                   flusher; `wanted`: who asks
//! 256     looks      count u64, then three readings of the clocks, see     flusher
//!                    `Looks`
//! 448     drops      count u64, then twice: files, records, losses by      flusher, then the recoverer
//!                    reason, thread, name, number, u64 each; see `Drops`
//! ```
//!
//! Numbers are little-endian; the file has [`FILE_BYTES`] bytes. The run maps it and holds a lock on its byte
//! [`LIFE_BYTE`] through the mapping, without a descriptor; the lock is gone when the last thread of the
//! process is. Whoever gets it knows that the run is dead. Whoever wants to recover the run takes the lock on
//! [`RECOVERY_BYTE`] first, so that only one tries.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::line::Ticks;
use crate::meta::{Cause, EndReason, Ended, LossReason, Meta, Name, SystemClocks};
use crate::wall::Wall;

/// The file's name in the run's directory.
pub const FILE_NAME: &str = "life";
/// The number of bytes of the file.
pub const FILE_BYTES: usize = 4096;
/// The first eight bytes of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRCLIFE\n");
/// The version of the page's layout.
pub const LAYOUT_VERSION: u32 = 1;

/// The byte that a run has locked as long as it lives.
pub const LIFE_BYTE: u32 = 0;
/// The byte that a recoverer has locked as long as it is at work.
pub const RECOVERY_BYTE: u32 = 1;

/// The kind and version of the page, fixed when it is made.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LifeIdentity {
    /// The magic number, [`MAGIC`].
    pub magic: AtomicU64,
    /// The version of the layout, [`LAYOUT_VERSION`].
    pub version: AtomicU32,
    /// The length of the file in bytes, [`FILE_BYTES`].
    pub file_bytes: AtomicU32,
    /// The flusher's thread id: the run's own file, where one is needed, has it in its name.
    pub flusher: AtomicU64,
}

/// The counters of the traced threads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TracedCounters {
    /// The number of records that found no ring and are reported in no file. Any thread adds to it; a thread
    /// that gets its ring after all takes its own records from it and reports them in its own file.
    pub unplaced: AtomicU64,
    /// The cost of the run's start.
    pub start: Start,
    /// The panics of the program.
    pub panics: Panics,
    /// The signal that ends the process, where it is caught.
    pub signal: FatalSignal,
}

/// The cost of a run's start, and the thread whose file tells of it: the one that made the first record.
/// Runs that did not tell it have zeros here.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Start {
    /// The thread's id.
    tid: AtomicU64,
    /// The ticks at which the thread took its ring.
    since: AtomicU64,
    /// The time that the start has taken the program's threads, in nanoseconds; 0 where it is not known.
    ns: AtomicU64,
}

impl Start {
    /// Sets the cost: `ns` nanoseconds, to be told in the file of the thread `tid`, which took its ring at
    /// `since`. This is done before the thread commits a record, so who sees that sees this.
    pub fn set(&self, tid: u64, since: Ticks, ns: u64) {
        self.tid.store(tid, Ordering::Relaxed);
        self.since.store(since.0, Ordering::Relaxed);
        self.ns.store(ns.max(1), Ordering::Release);
    }

    fn go_on_from(&self, other: &Start) {
        let ns = other.ns.load(Ordering::Acquire);
        self.tid.store(other.tid.load(Ordering::Relaxed), Ordering::Relaxed);
        self.since.store(other.since.load(Ordering::Relaxed), Ordering::Relaxed);
        self.ns.store(ns, Ordering::Release);
    }

    /// Returns the cost if it is to be told in the file of the thread `tid`, which took its ring at `since`.
    #[must_use]
    pub fn told_by(&self, tid: u64, since: Ticks) -> Option<u64> {
        let ns = self.ns.load(Ordering::Acquire);
        let teller = (self.tid.load(Ordering::Relaxed), self.since.load(Ordering::Relaxed));
        (ns > 0 && teller == (tid, since.0)).then_some(ns)
    }
}

/// The panics of a program, as its panic hook sees them: those that nothing can stop from ending the process.
/// Runs that did not note them have zeros here.
///
/// A panic is deadly while its hooks run: one that ends the process there unwinds no more. It stays deadly if it
/// cannot unwind, and is not any longer if it can: what unwinds may be caught, or end its thread alone.
///
/// ```text
///           begin                 leave, cannot unwind
/// 0 ─────────────────► deadly ─────────────────────────► deadly, until the process is gone
///   ◄────────────────
///   leave, can unwind
/// ```
///
/// Several threads may panic at once, so `deadly` counts them. Who reads it after the process's death, or on its
/// way through `exit`, needs no order between the two words but that of [`begin`](Panics::begin).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Panics {
    /// The id of the thread whose panic began last; 0 where none has.
    tid: AtomicU64,
    /// The number of panics that are deadly.
    deadly: AtomicU32,
}

impl Panics {
    /// Notes that the hooks of a panic of thread `tid` begin to run.
    pub fn begin(&self, tid: u64) {
        self.tid.store(tid, Ordering::Relaxed);
        // Release: who sees the count sees a thread.
        self.deadly.fetch_add(1, Ordering::Release);
    }

    /// Notes that the hooks of a panic have run, which [`begin`](Panics::begin) has noted, and that it unwinds.
    pub fn leave_to_unwind(&self) {
        self.deadly.fetch_sub(1, Ordering::Release);
    }

    fn go_on_from(&self, other: &Panics) {
        let deadly = other.deadly.load(Ordering::Acquire);
        self.tid.store(other.tid.load(Ordering::Relaxed), Ordering::Relaxed);
        self.deadly.store(deadly, Ordering::Release);
    }

    /// Returns the id of the thread whose panic is deadly.
    #[must_use]
    pub fn deadly(&self) -> Option<u64> {
        (self.deadly.load(Ordering::Acquire) > 0).then(|| self.tid.load(Ordering::Relaxed))
    }

    /// Returns the id of the thread whose panic began last, whatever has become of it.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        Some(self.tid.load(Ordering::Relaxed)).filter(|tid| *tid != 0)
    }
}

/// The name of the signal that ends the process, as its handler has noted it. Zero where none has.
///
/// ```text
/// 0 ──set──► name of a signal ──set──► another, of a thread that a signal ends at the same time
/// ```
///
/// Relaxed: one word, read when the process is gone.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct FatalSignal(AtomicU64);

impl FatalSignal {
    /// Notes that the signal of this name ends the process. A name has eight bytes at most, as those of all signals that
    /// dump a core have; what is longer is cut.
    pub fn set(&self, name: &str) {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        self.0.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }

    /// Returns the name that was noted, if one was.
    #[must_use]
    pub fn get(&self) -> Option<Name> {
        let bytes = self.0.load(Ordering::Relaxed).to_le_bytes();
        Name::parse(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    }
}

/// The counters of the flusher.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FlusherCounters {
    /// The number of trace files that the run has made.
    pub files: AtomicU64,
    /// The way in which the run ends: an [`Ending`].
    pub ending: AtomicU32,
    /// The number of records that went with flight recorders of threads that had ended.
    pub forgotten: AtomicU64,
    /// The number of shared rings that the run has made and not given up: as many files of rings are in its directory,
    /// unless somebody has removed some. Runs that did not count them have zero here.
    pub rings: AtomicU64,
}

/// The switch by which tracing is paused and goes on from outside. Runs that have none have zeros here.
///
/// ```text
/// who asks                                    flusher
///   wanted = ON or OFF, Release ──────────►     swaps it for 0, Acquire; does so
///   looks at paused, Acquire    ◄──────────     paused = 0 or 1, Release
/// ```
///
/// Of two who ask at the same time, the later one is obeyed.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Switch {
    /// 1 where the flusher looks at `wanted`.
    answers: AtomicU32,
    /// 0: nothing is asked; else [`ON`] or [`OFF`].
    wanted: AtomicU32,
    /// 1 where tracing is paused.
    paused: AtomicU32,
}

/// The number that asks for tracing to go on.
const ON: u32 = 1;
/// The number that asks for tracing to pause.
const OFF: u32 = 2;

impl Switch {
    /// Begins to answer, for a run that is paused or not. For the flusher.
    pub fn begin(&self, paused: bool) {
        self.is_now(paused);
        self.answers.store(1, Ordering::Release);
    }

    /// Notes that tracing is paused, or goes on. For the flusher.
    pub fn is_now(&self, paused: bool) {
        self.paused.store(u32::from(paused), Ordering::Release);
    }

    /// Takes what was asked since the last call: `Some(true)` that tracing goes on. For the flusher.
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

    /// Asks for tracing to go on, or to pause.
    pub fn ask(&self, on: bool) {
        self.wanted.store(if on { ON } else { OFF }, Ordering::Release);
    }

    /// Returns whether tracing goes on; `None` where the run's flusher does not answer.
    #[must_use]
    pub fn is_on(&self) -> Option<bool> {
        (self.answers.load(Ordering::Acquire) == 1).then(|| self.paused.load(Ordering::Acquire) == 0)
    }
}

/// The flusher's looks at the process: what the clocks showed when the run began, and at the last look, which is the
/// process's last sign of life. Runs that did not note them have zeros here.
///
/// ```text
/// flusher                                            reader
///   fills the reading that `count` does not name       count, Acquire
///   count + 1, Release                     ────────►   the reading that it names; again if `count` has changed
/// ```
///
/// So a flusher that is killed at any time leaves a reading that is whole.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Looks {
    /// How often the last look was noted. Its lowest bit is the number of the reading that counts.
    count: AtomicU64,
    begun: Reading,
    last: [Reading; 2],
}

/// What the clocks showed, as numbers: ticks (0: nothing was noted), wall clock, ticks that the reading took, raw clock, time
/// since the machine was started, error, and the bits and the state of the wall clock in one. All of a number's bits are set
/// where the clock is not there.
#[derive(Debug, Default)]
#[repr(C)]
struct Reading([AtomicU64; 7]);

/// The number that stands for what is not there.
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
    /// Notes what the clocks showed when the run began, in a `# clock` line. For the flusher, once.
    pub fn begin(&self, clock: &Meta) {
        self.begun.set(clock);
        self.look(clock);
    }

    /// Notes what the clocks show now. For the flusher.
    pub fn look(&self, clock: &Meta) {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        // Who still reads the one that is filled now sees, when it is done, the count that was stored before this fence.
        fence(Ordering::Release);
        self.last[usize::from(count & 1 == 1)].set(clock);
        self.count.store(count, Ordering::Release);
    }

    /// Returns what the clocks showed when the run began.
    #[must_use]
    pub fn begun(&self) -> Option<Meta> {
        self.begun.get()
    }

    /// Returns what the clocks showed at the last look; also of a run that lives, unless it has looked twice meanwhile.
    #[must_use]
    pub fn last(&self) -> Option<Meta> {
        let count = self.count.load(Ordering::Acquire);
        let clock = self.last[usize::from(count & 1 == 1)].get();
        fence(Ordering::Acquire);
        let is_whole = self.count.load(Ordering::Relaxed).wrapping_sub(count) < 2;
        clock.filter(|_| is_whole)
    }

    fn go_on_from(&self, other: &Looks) {
        if let Some(clock) = other.begun() {
            self.begun.set(&clock);
        }
        if let Some(clock) = other.last() {
            self.look(&clock);
        }
    }
}

/// The files that the run has dropped, so that all of them together do not take more than they may: what was in them, and
/// which is the last one. Runs that have dropped none have zeros here.
///
/// A file is added here before it is removed, in the same way as a [look](Looks) is noted: so a flusher that is killed at any
/// time leaves the last one to be removed by who recovers the run, if it is still there.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Drops {
    /// How often a file was added.
    count: AtomicU64,
    slots: [DropSlot; 2],
}

/// The numbers of [`Dropped`].
#[derive(Debug, Default)]
#[repr(C)]
struct DropSlot {
    files: AtomicU64,
    records: AtomicU64,
    lost: [AtomicU64; LossReason::COUNT],
    last: [AtomicU64; 3],
}

/// What the files had that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The number of the files.
    pub files: u64,
    /// The number of records that were in them.
    pub records: u64,
    /// The numbers of records that they told lost, in the order of [`LossReason`].
    pub lost: [u64; LossReason::COUNT],
    /// The last of them: the thread, the `<n>` of its name, and its number in the run.
    pub last: [u64; 3],
}

impl Drops {
    /// Notes what was dropped, with a file that is going to be removed. For the flusher.
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

    /// Returns what was dropped. Of a run that lives it is what was at one moment, unless two files were dropped meanwhile.
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
    /// The kind and version of the page.
    pub identity: LifeIdentity,
    /// The counters of the traced threads.
    pub traced: TracedCounters,
    /// The counters of the flusher.
    pub flusher: FlusherCounters,
    /// The switch.
    pub switch: Switch,
    /// The flusher's looks at the process.
    pub looks: Looks,
    /// The files that were dropped.
    pub drops: Drops,
}

const _: () = assert!(size_of::<Life>() <= FILE_BYTES);

/// The way in which a run ends, as far as its flusher has seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// The run's end was not seen: the run lives, or was killed.
    Unseen = 0,
    /// The process has called `exit` or returned from `main`.
    Exit = 1,
    /// `shutdown()` was called.
    Shutdown = 2,
}

impl Life {
    /// Makes a page of zeros one of this layout; `flusher` is the flusher's thread id. The magic number is
    /// written last.
    pub fn set(&self, flusher: u64) {
        self.identity.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.identity.file_bytes.store(FILE_BYTES as u32, Ordering::Relaxed);
        self.identity.flusher.store(flusher, Ordering::Relaxed);
        self.identity.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns the version of the page's layout; `None` where it is no such page.
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        let is_one = self.identity.magic.load(Ordering::Acquire) == MAGIC;
        is_one.then(|| self.identity.version.load(Ordering::Relaxed))
    }

    /// Goes on from the page that this one replaces, since the file of that was removed. The count of records that found no
    /// ring is not taken over: who counts them moves it.
    pub fn go_on_from(&self, other: &Life) {
        self.traced.start.go_on_from(&other.traced.start);
        self.traced.panics.go_on_from(&other.traced.panics);
        self.traced.signal.0.store(other.traced.signal.0.load(Ordering::Relaxed), Ordering::Relaxed);
        let (to, from) = (&self.flusher, &other.flusher);
        to.files.store(from.files.load(Ordering::Relaxed), Ordering::Relaxed);
        to.ending.store(from.ending.load(Ordering::Relaxed), Ordering::Relaxed);
        to.forgotten.store(from.forgotten.load(Ordering::Relaxed), Ordering::Relaxed);
        to.rings.store(from.rings.load(Ordering::Relaxed), Ordering::Relaxed);
        self.looks.go_on_from(&other.looks);
        self.drops.set(&other.drops.get());
        if let Some(on) = other.switch.is_on() {
            self.switch.begin(!on);
        }
    }

    /// Sets the way in which the run ends.
    pub fn set_ending(&self, ending: Ending) {
        self.flusher.ending.store(ending as u32, Ordering::Release);
    }

    /// Returns what the `# end` line says of a thread that still had its ring when the process was gone; `known`
    /// is what the caller knows of the process's end.
    #[must_use]
    pub fn ended(&self, known: Cause) -> Ended {
        let panic = self.traced.panics.deadly();
        let noted = Cause { panic, signal: self.traced.signal.get(), status: None };
        // Who has waited for the process knows its signal better than a handler that something else has interrupted.
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
    fn the_last_look_is_the_last_one_that_was_noted_as_a_whole() {
        let looks = Looks::default();
        assert_eq!((looks.begun(), looks.last()), (None, None), "a run that noted none");
        let begun = clock(5, Some(16_000), None);
        looks.begin(&begun);
        for ticks in 6..9 {
            let clock = clock(ticks, None, Some(5));
            looks.look(&clock);
            assert_eq!((looks.begun(), looks.last()), (Some(begun.clone()), Some(clock)));
        }
        // Killed before the count: the one before counts.
        looks.last[0].set(&clock(100, None, None));
        let last = looks.last().is_some_and(|last| last == clock(8, None, Some(5)));
        let count = looks.count.load(Ordering::Relaxed);
        assert!(last == (count & 1 == 1));
        let other = Looks::default();
        other.go_on_from(&looks);
        assert_eq!((other.begun(), other.last()), (looks.begun(), looks.last()));
    }
}
