//! The ring file: a header of [`HEADER_BYTES`], the data of the ring, the data of the nested ring.
//!
//! The header is shared between a traced thread (*producer*), the flusher or, after the process's death, the
//! recoverer (*consumer*), and observers, which only read. All its fields are atomics; each group has a cache line of
//! its own and one writer:
//!
//! ```text
//! line  group       writer                      read by
//!  0    Identity    flusher, before it is lent  all
//!  1    Tenancy     producer when it claims,    flusher, recoverer
//!                   flusher when it takes back
//!  2    Main        producer                    flusher, recoverer
//!  3    Nested      producer                    flusher, recoverer
//!  4    Consumed    flusher                     producer
//!  5    Selected    flusher                     recoverer, observers
//!  6-13 Slot 0, 1   flusher                     recoverer, observers
//! 14-17 Long name   producer when it claims     flusher, recoverer
//! 18-   Open calls  producer                    recoverer; flusher as the process exits
//! ```
//!
//! # Positions
//!
//! A position is the number of bytes ever written before it; it only grows; its offset in the data is
//! `position % capacity`. `consumed <= head <= reserve`, and `head - consumed <= capacity`. Bytes from `consumed` to
//! `head` are committed records. Positions of records are multiples of 8, so the lowest three bits of the word that
//! holds the head are free: they hold the number of messages that the thread has committed, modulo 8. See
//! [`Written::publish`]. The producer writes only in `[head, reserve)`; it advances `reserve`, block by
//! block, before it writes there. So a reader that the producer has lapped knows which bytes may be half-overwritten:
//! those below `reserve - capacity`. Every block begins with a record.
//!
//! # Publication
//!
//! ```text
//! producer                               consumer
//!   write the record                       head.load(Acquire)
//!   publish: head.store(Release) ──────►   read records, append their text to the file
//!                                          fill the slot that `selected` does not name
//!                                          selected.store(Release)
//!   consumed.load(Acquire)       ◄──────   consumed.store(Release)
//!   may overwrite up to consumed + capacity
//! ```
//!
//! If a consumer dies before it stores `selected`, its step is undone: recovery truncates the file to the length in
//! the selected slot and renders the records again. If it dies after that, it has done everything except freeing the
//! space. The producer never sees a consumed position that the selected slot does not have.

mod geometry;
pub mod open_calls;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::line::Ticks;
use crate::meta::LossReason;
use crate::render::{FileTotals, Losses, RenderState};
pub use geometry::{Geometry, MAX_CAPACITY, MIN_CAPACITY, RingError, block_size, nested_capacity};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use open_calls::OpenCalls;

/// The number of bytes of the header, before the data of the ring.
pub const HEADER_BYTES: usize = 4096;
/// The first eight bytes of a ring file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRCRING\n");
/// The version of the layout of new rings.
pub const LAYOUT_VERSION: u32 = 5;
/// The oldest layout that this version reads and recovers. In layout 2, the lowest bits of the head's word are
/// zero and have no meaning, and the slots have no [`FileTotals`]. Layout 3 has no [`OpenCalls`]. Layout 4 has
/// no records of kinds 10 and 11, and the slots count no waits.
pub const OLDEST_LAYOUT: u32 = 2;
/// The greatest number of times that [`Written::end`] reads the producer's words again because they have changed while
/// it read them.
const TRIES: u32 = 100;

/// The state of a ring, which says whether a thread has it. [`Header`] describes the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// No thread has the ring: its content has no meaning.
    Free = 0,
    /// A thread writes to the ring.
    Owned = 1,
    /// The thread of the ring has ended; the records in it still count.
    Ended = 2,
}

impl State {
    /// Returns the state with this number; `None` if there is none.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<State> {
        match number {
            0 => Some(State::Free),
            1 => Some(State::Owned),
            2 => Some(State::Ended),
            _ => None,
        }
    }
}

/// The identity of a ring file: magic number, version, sizes, run and number. It is fixed when the file is made.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Identity {
    /// The magic number, [`MAGIC`].
    pub magic: AtomicU64,
    /// The version of the layout, [`LAYOUT_VERSION`].
    pub version: AtomicU32,
    /// The length of the header in bytes, [`HEADER_BYTES`].
    pub header_bytes: AtomicU32,
    /// The number of bytes of the ring's data; a power of two from [`MIN_CAPACITY`] to [`MAX_CAPACITY`].
    pub capacity: AtomicU64,
    /// The number of bytes of the nested ring's data; a power of two.
    pub nested_capacity: AtomicU64,
    /// The number of bytes of a block of the ring.
    pub block: AtomicU32,
    /// The number of bytes of a block of the nested ring.
    pub nested_block: AtomicU32,
    /// The id of the run that has made the ring.
    pub run: AtomicU32,
    /// The number of the ring in its run.
    pub index: AtomicU32,
    /// A flag, 1 if the producer does not wait for the consumer but overwrites the oldest records; see
    /// [`survivors`].
    pub overwrite: AtomicU32,
}

/// The thread that has the ring.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Tenancy {
    /// The number of a [`State`].
    pub state: AtomicU32,
    /// A count that grows by one with each thread that takes the ring.
    pub generation: AtomicU32,
    /// The id of the thread that has the ring.
    pub tid: AtomicU64,
    /// The thread's name, shortened to 16 bytes, filled with zeros.
    pub name: [AtomicU64; 2],
    /// The ticks when the thread took the ring.
    pub since: AtomicU64,
}

/// A thread's name that is too long for [`Tenancy::name`]. These bytes are zero in rings of earlier versions, which
/// have no long names.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct LongName {
    /// The number of bytes of the name; 0 if the name in the tenancy is whole.
    pub length: AtomicU64,
    /// The bytes of the name, eight in a word.
    pub bytes: [AtomicU64; MAX_NAME / 8],
}

/// The greatest number of bytes of a thread's name that the ring keeps.
pub const MAX_NAME: usize = 248;

/// The progress of the producer in the ring or in the nested ring: the positions up to which it has written, and its
/// counts. The module's documentation explains the positions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Written {
    /// The position where records end, and in the lowest three bits the number of messages that were
    /// committed before, modulo 8. It is stored with `Release` by [`Written::publish`], loaded with `Acquire`
    /// by [`Written::head`] and [`Written::end`].
    head: AtomicU64,
    /// The position up to which the producer may be writing. A multiple of the block size.
    pub reserve: AtomicU64,
    /// The number of messages committed by the thread that has the ring. The producer stores it after the head that
    /// ends the last of them, so it may be one less than the number that [`Written::end`] returns.
    pub committed: AtomicU64,
    /// The number of messages lost because there was no room in the ring.
    pub lost_full: AtomicU64,
    /// The number of messages lost because their formatting did not end, for example because a `Display` panicked.
    pub lost_panic: AtomicU64,
    /// The number of times that the thread waited for the tracer.
    pub stalls: AtomicU64,
    /// The time for which the thread waited for the tracer, in nanoseconds.
    pub stall_ns: AtomicU64,
}

/// The progress of the consumer, as the producer sees it: the positions up to which the consumer has freed the ring and
/// the nested ring.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Consumed {
    /// The position in the ring before which the consumer needs no bytes any more: the producer may overwrite them.
    pub main: AtomicU64,
    /// The position in the nested ring before which the consumer needs no bytes any more: the producer may overwrite
    /// them.
    pub nested: AtomicU64,
}

/// The count that says which of the two slots is selected.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Selected {
    /// The number of times that a slot was published; the lowest bit is the number of the selected slot. It
    /// is stored with `Release`, loaded with `Acquire`.
    pub count: AtomicU64,
}

/// The progress of the consumer at one moment. A header has two such slots; only the values in the selected slot have a
/// meaning.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// The position in the ring before which all records are in the thread's file.
    pub consumed: AtomicU64,
    /// The position in the nested ring before which all records are in the thread's file.
    pub nested_consumed: AtomicU64,
    /// The length of the thread's file in bytes when the file had all records up to these positions; 0 if no file was
    /// made yet.
    pub file_length: AtomicU64,
    /// The number of the device on which the thread's file is.
    pub device: AtomicU64,
    /// The inode number of the thread's file.
    pub inode: AtomicU64,
    /// The `<n>` in the name of the thread's file, `<exe>.trace.<tid>.<n>`; 0 if the name has no `<n>`.
    pub file_number: AtomicU64,
    /// Two flags. 1: the file ends inside a message, whose last piece is not in the file. 2: the next piece in the ring
    /// continues a message that is already reported lost.
    pub in_message: AtomicU64,
    /// A flag, 1 when the file's last line is an `# end`.
    pub ended: AtomicU64,
    /// The ticks of the file's last line.
    pub last_ticks: AtomicU64,
    /// The number of messages in the file.
    pub records: AtomicU64,
    /// The numbers of messages reported lost in the file and in the thread's earlier files that still exist, in the
    /// order of [`LossReason`].
    pub lost: [AtomicU64; LossReason::COUNT],
    /// The time of waits for the tracer, in nanoseconds, that the file and the thread's earlier files that still exist
    /// report.
    pub stall_ns: AtomicU64,
    /// A flag, 1 while the thread's clock shows smaller ticks than the file's last line has.
    pub behind: AtomicU64,
    /// The number of messages in the thread's earlier files that still exist. This field and the three others with
    /// `earlier` in their names make up a [`FileTotals`].
    pub records_in_earlier_files: AtomicU64,
    /// The numbers of messages reported lost in the earlier files, in the order of [`LossReason`].
    pub lost_in_earlier_files: [AtomicU64; LossReason::COUNT],
    /// The time of waits for the tracer that the earlier files report, in nanoseconds.
    pub stall_ns_in_earlier_files: AtomicU64,
    /// The sum of the earlier files' lengths in bytes.
    pub bytes_in_earlier_files: AtomicU64,
    /// The number of waits that the file reports.
    pub waits: AtomicU64,
}

/// The plain values of a [`Slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The position in the ring before which all records are in the thread's file.
    pub consumed: u64,
    /// The position in the nested ring before which all records are in the thread's file.
    pub nested_consumed: u64,
    /// The length of the thread's file in bytes.
    pub file_length: u64,
    /// The number of the device on which the thread's file is.
    pub device: u64,
    /// The inode number of the thread's file.
    pub inode: u64,
    /// The `<n>` in the name of the thread's file, `<exe>.trace.<tid>.<n>`; 0 if the name has no `<n>`.
    pub file_number: u32,
    /// The state from which the renderer continues.
    pub render: RenderState,
}

impl Slot {
    fn store(&self, progress: &Progress) {
        self.consumed.store(progress.consumed, Ordering::Relaxed);
        self.nested_consumed.store(progress.nested_consumed, Ordering::Relaxed);
        self.file_length.store(progress.file_length, Ordering::Relaxed);
        self.device.store(progress.device, Ordering::Relaxed);
        self.inode.store(progress.inode, Ordering::Relaxed);
        self.file_number.store(u64::from(progress.file_number), Ordering::Relaxed);
        let inside = u64::from(progress.render.in_message) | u64::from(progress.render.in_lost) << 1;
        self.in_message.store(inside, Ordering::Relaxed);
        self.ended.store(u64::from(progress.render.ended), Ordering::Relaxed);
        self.last_ticks.store(progress.render.last.0, Ordering::Relaxed);
        self.records.store(progress.render.records, Ordering::Relaxed);
        for (to, from) in self.lost.iter().zip(progress.render.lost) {
            to.store(from, Ordering::Relaxed);
        }
        self.stall_ns.store(progress.render.stall_ns, Ordering::Relaxed);
        self.behind.store(u64::from(progress.render.behind), Ordering::Relaxed);
        let in_earlier_files = &progress.render.in_earlier_files;
        self.records_in_earlier_files.store(in_earlier_files.records, Ordering::Relaxed);
        for (to, from) in self.lost_in_earlier_files.iter().zip(in_earlier_files.lost) {
            to.store(from, Ordering::Relaxed);
        }
        self.stall_ns_in_earlier_files.store(in_earlier_files.stall_ns, Ordering::Relaxed);
        self.bytes_in_earlier_files.store(in_earlier_files.bytes, Ordering::Relaxed);
        self.waits.store(progress.render.waits, Ordering::Relaxed);
    }

    fn load(&self) -> Progress {
        let get = |field: &AtomicU64| field.load(Ordering::Relaxed);
        Progress {
            consumed: get(&self.consumed),
            nested_consumed: get(&self.nested_consumed),
            file_length: get(&self.file_length),
            device: get(&self.device),
            inode: get(&self.inode),
            file_number: u32::try_from(get(&self.file_number)).unwrap_or(u32::MAX),
            render: RenderState {
                last: Ticks(get(&self.last_ticks)),
                in_message: get(&self.in_message) & 1 != 0,
                in_lost: get(&self.in_message) & 2 != 0,
                ended: get(&self.ended) != 0,
                records: get(&self.records),
                lost: std::array::from_fn(|i| get(&self.lost[i])),
                stall_ns: get(&self.stall_ns),
                behind: get(&self.behind) != 0,
                waits: get(&self.waits),
                in_earlier_files: FileTotals {
                    records: get(&self.records_in_earlier_files),
                    lost: std::array::from_fn(|i| get(&self.lost_in_earlier_files[i])),
                    stall_ns: get(&self.stall_ns_in_earlier_files),
                    bytes: get(&self.bytes_in_earlier_files),
                },
            },
        }
    }
}

impl Header {
    /// Returns a header in memory of its own, all zero. It is for tests and model checking: a real header is
    /// in a mapping.
    #[must_use]
    pub fn zeroed() -> Header {
        let (zero, small) = (|| AtomicU64::new(0), || AtomicU32::new(0));
        let written = || Written {
            head: zero(),
            reserve: zero(),
            committed: zero(),
            lost_full: zero(),
            lost_panic: zero(),
            stalls: zero(),
            stall_ns: zero(),
        };
        let slot = || Slot {
            consumed: zero(),
            nested_consumed: zero(),
            file_length: zero(),
            device: zero(),
            inode: zero(),
            file_number: zero(),
            in_message: zero(),
            ended: zero(),
            last_ticks: zero(),
            records: zero(),
            lost: std::array::from_fn(|_| zero()),
            stall_ns: zero(),
            behind: zero(),
            records_in_earlier_files: zero(),
            lost_in_earlier_files: std::array::from_fn(|_| zero()),
            stall_ns_in_earlier_files: zero(),
            bytes_in_earlier_files: zero(),
            waits: zero(),
        };
        Header {
            identity: Identity {
                magic: zero(),
                version: small(),
                header_bytes: small(),
                capacity: zero(),
                nested_capacity: zero(),
                block: small(),
                nested_block: small(),
                run: small(),
                index: small(),
                overwrite: small(),
            },
            tenancy: Tenancy {
                state: small(),
                generation: small(),
                tid: zero(),
                name: [zero(), zero()],
                since: zero(),
            },
            main: written(),
            nested: written(),
            consumed: Consumed { main: zero(), nested: zero() },
            selected: Selected { count: zero() },
            slots: [slot(), slot()],
            long_name: LongName { length: zero(), bytes: std::array::from_fn(|_| zero()) },
            open_calls: OpenCalls::new(),
        }
    }

    /// Returns the name of the thread that has the ring.
    #[must_use]
    pub fn thread_name(&self) -> Vec<u8> {
        let length = usize::try_from(self.long_name.length.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        if !(1..=MAX_NAME).contains(&length) {
            return self.tenancy.name();
        }
        let words = self.long_name.bytes.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        words.flatten().take(length).collect()
    }

    /// Sets the name of the thread that has the ring: the system's name and, if it is known, the longer name. Keeps at
    /// most [`MAX_NAME`] bytes of the longer name.
    pub fn set_thread_name(&self, name: [u8; 16], longer: Option<&str>) {
        self.tenancy.set_name(name);
        let mut longer = longer.unwrap_or_default();
        while longer.len() > MAX_NAME {
            longer = longer.char_indices().next_back().map_or("", |(last, _)| &longer[..last]);
        }
        for (to, from) in self.long_name.bytes.iter().zip(longer.as_bytes().chunks(8)) {
            let mut word = [0; 8];
            word[..from.len()].copy_from_slice(from);
            to.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.long_name.length.store(longer.len() as u64, Ordering::Relaxed);
    }

    /// Publishes the progress of a consumer: fills the slot that is not selected, and selects it. The caller has
    /// written the text to the file, and calls [`Header::free`] afterwards.
    pub fn publish(&self, progress: &Progress) {
        let count = self.selected.count.load(Ordering::Relaxed).wrapping_add(1);
        // An observer may still read the slot that is filled now. If it sees any of the new values, its last load of
        // the count sees the count that was stored before this fence, or a later one.
        fence(Ordering::Release);
        self.slots[usize::from(count & 1 == 1)].store(progress);
        self.selected.count.store(count, Ordering::Release);
    }

    /// Lets the producer reuse the space of the records that are consumed according to `progress`. The consumer calls
    /// this last, after [`Header::publish`].
    pub fn free(&self, progress: &Progress) {
        self.consumed.main.store(progress.consumed, Ordering::Release);
        self.consumed.nested.store(progress.nested_consumed, Ordering::Release);
    }

    /// Returns the progress that was published last. Only the consumer itself may call this; other readers call
    /// [`Header::read_published`].
    #[must_use]
    pub fn published(&self) -> Progress {
        self.slot(self.selected.count.load(Ordering::Acquire))
    }

    /// Returns the number of the last publication of a living consumer, and the progress that was published; `None` if
    /// the consumer published again during the call.
    #[must_use]
    pub fn read_published(&self) -> Option<(u64, Progress)> {
        let count = self.selected.count.load(Ordering::Acquire);
        let progress = self.slot(count);
        // The loads above are before the one below: a sequence lock, whose count is `selected`.
        fence(Ordering::Acquire);
        (self.selected.count.load(Ordering::Relaxed) == count).then_some((count, progress))
    }

    /// Returns whether `later`, a second copy of the header that was made after this one, has the same tenant (thread)
    /// and the same publication. If so, everything that was read between the two copies belongs to the state that this
    /// copy shows.
    #[must_use]
    pub fn is_same_snapshot_as(&self, later: &Header) -> bool {
        let moment = |header: &Header| {
            let tenancy = &header.tenancy;
            let tenant = (tenancy.state.load(Ordering::Relaxed), tenancy.generation.load(Ordering::Relaxed));
            (tenant, tenancy.tid.load(Ordering::Relaxed), header.selected.count.load(Ordering::Relaxed))
        };
        moment(self) == moment(later)
    }

    fn slot(&self, count: u64) -> Progress {
        self.slots[usize::from(count & 1 == 1)].load()
    }

    /// Returns the version of the ring's layout.
    #[must_use]
    pub fn layout(&self) -> u32 {
        self.identity.version.load(Ordering::Relaxed)
    }

    /// Returns the number of messages that the ring's thread has committed, including messages made inside other ones.
    /// The number is exact if the thread has ended, in whatever way; see [`Written::end`].
    #[must_use]
    pub fn committed(&self) -> u64 {
        let layout = self.layout();
        self.main.end(layout).messages.wrapping_add(self.nested.end(layout).messages)
    }

    /// Returns the producer's losses, as the renderer reports them.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let (main, nested) = (self.main.counts(), self.nested.counts());
        Losses {
            full: main.lost_full,
            panic: main.lost_panic.wrapping_add(nested.lost_panic),
            nested: nested.lost_full,
            stall_ns: main.stall_ns,
        }
    }
}

/// The header of a ring.
///
/// The transitions of `tenancy.state`, and the threads that make them:
///
/// ```text
///            thread claims (store Release,                 thread ends, or the flusher
///            after tid, name, since)                       finds its thread gone
///   Free ─────────────────────────────────────► Owned ───────────────────────────────► Ended
///     ▲                                                                                  │
///     └──────────────────────────────────────────────────────────────────────────────────┘
///            flusher: all drained, `# end` written and published
/// ```
///
/// A recoverer, which has the dead run's lock, takes the place of the flusher.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// The identity of the ring file: magic number, version, sizes, run and number.
    pub identity: Identity,
    /// The thread that has the ring.
    pub tenancy: Tenancy,
    /// The progress of the producer in the ring.
    pub main: Written,
    /// The progress of the producer in the nested ring, with records made inside others.
    pub nested: Written,
    /// The positions up to which the consumer has freed the ring and the nested ring.
    pub consumed: Consumed,
    /// The number of the selected slot.
    pub selected: Selected,
    /// The two slots, one of them selected.
    pub slots: [Slot; 2],
    /// The thread's name if the tenancy has no room for all of it.
    pub long_name: LongName,
    /// The open calls that are not recorded yet, because they may be left before they have lasted as long as recorded
    /// calls must.
    pub open_calls: OpenCalls,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && align_of::<Header>() <= 4096);
#[cfg(not(loom))]
const _: () =
    assert!(size_of::<Identity>() == 64 && size_of::<Tenancy>() == 64 && size_of::<Written>() == 64);
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 256 && core::mem::offset_of!(Header, slots) == 384);
#[cfg(not(loom))]
const _: () = assert!(size_of::<LongName>() == 256 && core::mem::offset_of!(Header, long_name) == 896);
#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Header, open_calls) == 1152);

/// The plain values of the counters in [`Written`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of messages committed by the thread that has the ring.
    pub committed: u64,
    /// The number of messages lost because there was no room in the ring.
    pub lost_full: u64,
    /// The number of messages lost because their formatting did not end, for example because a `Display` panicked.
    pub lost_panic: u64,
    /// The number of waits for the tracer.
    pub stalls: u64,
    /// The time waited for the tracer, in nanoseconds.
    pub stall_ns: u64,
}

/// The position where a producer's records end, and the number of messages that it has committed before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommittedEnd {
    /// The position where the records end.
    pub position: u64,
    /// The number of messages that the ring's thread has committed before that position.
    pub messages: u64,
}

/// The bits of the head's word that hold the position.
const POSITION: u64 = !COUNT;
/// The bits of the head's word that hold the number of messages, modulo 8.
const COUNT: u64 = 7;

impl Written {
    /// Makes everything before `position`, a multiple of 8, readable, and publishes that the thread has committed
    /// `messages` messages up to there. Only the producer may call it; the producer then stores `messages` in
    /// [`Written::committed`] if that is more than before.
    ///
    /// Position and count are one word, so the number of messages is known even if the producer is stopped between
    /// the two stores: see [`Written::end`].
    #[inline(always)]
    pub fn publish(&self, position: u64, messages: u64) {
        debug_assert!(position & COUNT == 0);
        // Release: the consumer that sees this head sees the records before it.
        self.head.store(position | (messages & COUNT), Ordering::Release);
    }

    /// Returns the position where the committed records end.
    #[must_use]
    #[inline(always)]
    pub fn head(&self) -> u64 {
        // Acquire: a thread that sees this head sees the records before it.
        self.head.load(Ordering::Acquire) & POSITION
    }

    /// Returns the position where records end, and the number of messages that were committed before that,
    /// both at the same moment. `layout` is the layout of the ring.
    ///
    /// The producer stores head `h` (with the number of messages `n` modulo 8), then the counter `n`, then
    /// the next head. If a reader loads the counter (`before`), then the head, then the counter again (`after`), it
    /// knows that:
    ///
    /// - `before <= n`: a thread that sees the counter `before` sees the head that was stored before it, or a
    ///   later one;
    /// - `n <= after + 1`: a thread that sees the head with `n` sees the counter `n - 1`, or a later one.
    ///
    /// If that range has at most eight numbers, only one of them equals `n` modulo 8: that is the number. If the
    /// producer has ended, in whatever way, `before` and `after` are equal, and `n` is that number or one
    /// more. If a living producer has committed more messages meanwhile, its words are read again; after many tries
    /// the result is the smallest possible number, so no missing message is counted. In layout 2 the head has
    /// no number, and the counter is the result.
    #[must_use]
    pub fn end(&self, layout: u32) -> CommittedEnd {
        let mut tries = 0;
        loop {
            let before = self.committed.load(Ordering::Acquire);
            let word = self.head.load(Ordering::Acquire);
            // This load comes after that of the head, because the head was loaded with Acquire.
            let after = self.committed.load(Ordering::Relaxed);
            let position = word & POSITION;
            if layout < 3 {
                return CommittedEnd { position, messages: before };
            }
            let more = word.wrapping_sub(before) & COUNT;
            let most = after.wrapping_sub(before).wrapping_add(1);
            tries += 1;
            if most <= COUNT || tries == TRIES {
                // No producer leaves a head whose number contradicts the counter. If it does contradict it, the ring
                // is hostile, and the counter is the result.
                let more = if more <= most { more } else { 0 };
                return CommittedEnd { position, messages: before.wrapping_add(more) };
            }
            core::hint::spin_loop();
        }
    }

    /// Returns the current values of the counters. They are read one after the other, so the producer may change some
    /// of them in between.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let get = |field: &AtomicU64| field.load(Ordering::Relaxed);
        Counts {
            committed: get(&self.committed),
            lost_full: get(&self.lost_full),
            lost_panic: get(&self.lost_panic),
            stalls: get(&self.stalls),
            stall_ns: get(&self.stall_ns),
        }
    }

    /// Resets the counters for another thread; the positions stay. It may be called only while no thread
    /// has the ring.
    pub fn clear_counters(&self) {
        self.publish(self.head(), 0);
        let counters = [&self.committed, &self.lost_full, &self.lost_panic, &self.stalls, &self.stall_ns];
        for counter in counters {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

impl Tenancy {
    /// Returns the state of the ring.
    ///
    /// # Errors
    /// The number in the header is not a state.
    pub fn state(&self) -> Result<State, RingError> {
        let number = self.state.load(Ordering::Acquire);
        State::from_number(number).ok_or(RingError::State(number))
    }

    /// Returns the thread's name without the zeros after it.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let words = [self.name[0].load(Ordering::Relaxed), self.name[1].load(Ordering::Relaxed)];
        let bytes = [words[0].to_le_bytes(), words[1].to_le_bytes()].concat();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        bytes[..end].to_vec()
    }

    /// Sets the thread's name.
    pub fn set_name(&self, name: [u8; 16]) {
        let words = [name.first_chunk::<8>(), name.last_chunk::<8>()].into_iter().flatten();
        for (to, from) in self.name.iter().zip(words) {
            to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }
}

/// Returns the range of committed records that a consumer at `consumed` may read, in positions.
///
/// # Errors
/// The positions contradict each other or the alignment.
pub fn readable(written: &Written, consumed: u64, capacity: u64) -> Result<std::ops::Range<u64>, RingError> {
    readable_to(written.head(), consumed, capacity)
}

/// Returns the range of committed records that a consumer at `consumed` may read up to `head`, which
/// [`Written::head`] or [`Written::end`] has returned; see [`readable`].
///
/// # Errors
/// The positions contradict each other or the alignment.
pub fn readable_to(head: u64, consumed: u64, capacity: u64) -> Result<std::ops::Range<u64>, RingError> {
    match head.checked_sub(consumed) {
        Some(bytes) if consumed % 8 == 0 && bytes <= capacity => Ok(consumed..head),
        _ => Err(RingError::Positions),
    }
}

/// Returns the range of committed records from `consumed` to `head` that the producer has not overwritten. `head` must
/// have been loaded from `written` just now. This is for rings whose producer overwrites the oldest records and does
/// not wait for the reader. The range begins at a record, which may be a later piece of a message. The producer
/// continues to overwrite, so the caller must compare the positions of the bytes that it has read with [`oldest`]
/// afterwards.
///
/// # Errors
/// The positions contradict each other or the alignment.
pub fn survivors(
    written: &Written,
    head: u64,
    consumed: u64,
    capacity: u64,
    block: u64,
) -> Result<std::ops::Range<u64>, RingError> {
    if consumed % 8 != 0 || consumed > head {
        return Err(RingError::Positions);
    }
    let start = oldest(written, capacity, block).max(head.saturating_sub(capacity));
    Ok(start.clamp(consumed, head)..head)
}

/// Returns the position of the oldest bytes in the ring that the producer has not begun to overwrite. A block begins
/// there, and so a record. The caller must have read the bytes before this call.
#[must_use]
pub fn oldest(written: &Written, capacity: u64, block: u64) -> u64 {
    // This fence pairs with one of the producer, which stores `reserve`, then has a fence, then overwrites older
    // bytes.
    fence(Ordering::Acquire);
    let reserve = written.reserve.load(Ordering::Relaxed);
    reserve.saturating_sub(capacity).checked_next_multiple_of(block).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests;
