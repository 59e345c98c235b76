//! The ring file: a header of [`HEADER_BYTES`], the data of the ring, the data of the nested ring.
//!
//! The header is shared between a traced thread (*producer*), the flusher or, after death, the recoverer
//! (*consumer*), and whoever looks on. All its fields are atomics; each group has a cache line of its own
//! and one writer:
//!
//! ```text
//! line  group       writer                      read by
//!  0    Identity    flusher, before it is lent  all
//!  1    Tenancy     producer when it claims,    flusher, recoverer
//!                   flusher when it takes back
//!  2    Main        producer                    flusher, recoverer
//!  3    Nested      producer                    flusher, recoverer
//!  4    Consumed    flusher                     producer
//!  5    Selected    flusher                     recoverer
//!  6-9  Slot 0, 1   flusher                     recoverer
//! ```
//!
//! # Positions
//!
//! A position counts bytes ever written; it only grows; its place in the data is `position % capacity`.
//! `consumed <= head <= reserve`, and `head - consumed <= capacity`. Bytes from `consumed` to `head` are
//! committed records. The producer writes only in `[head, reserve)`; it advances `reserve`, block by block,
//! before it writes there. So a reader that comes late to a producer which laps it knows what may be
//! half-overwritten: what lies below `reserve - capacity`. Every block begins with a record.
//!
//! # Publication
//!
//! ```text
//! producer                               consumer
//!   write the record                       head.load(Acquire)
//!   head.store(Release)          ──────►   read records, append their text to the file
//!                                          fill the slot that `selected` does not name
//!                                          selected.store(Release)
//!   consumed.load(Acquire)       ◄──────   consumed.store(Release)
//!   may overwrite up to consumed + capacity
//! ```
//!
//! A consumer that dies before `selected` is stored has done nothing: the file is cut to the length in the
//! slot that rules and the records are rendered again. One that dies after it has done all but free the
//! space. The producer never sees a consumed position that the ruling slot does not have.

use crate::line::Ticks;
use crate::render::{Losses, RenderState};
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes before the data.
pub const HEADER_BYTES: usize = 4096;
/// The first eight bytes of a ring file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRCRING\n");
/// Version of the ring's layout.
pub const LAYOUT_VERSION: u32 = 1;
/// The smallest ring, in bytes.
pub const MIN_CAPACITY: u64 = 16 * 1024;
/// The largest ring, in bytes.
pub const MAX_CAPACITY: u64 = 1 << 30;
/// The largest block: a record's length must fit 16 bits.
pub const MAX_BLOCK: u64 = 64 * 1024;
/// A ring has at least this many blocks.
pub const MIN_BLOCKS: u64 = 8;

/// The block size for a ring of `capacity` bytes (a power of two).
#[must_use]
pub const fn block_size(capacity: u64) -> u64 {
    let even = capacity / MIN_BLOCKS;
    if even < MAX_BLOCK { even } else { MAX_BLOCK }
}

/// The capacity of the nested ring beside a ring of `capacity` bytes.
#[must_use]
pub const fn nested_capacity(capacity: u64) -> u64 {
    let sixteenth = capacity / 16;
    if sixteenth < 4096 { 4096 } else { sixteenth }
}

/// The size of the file of a ring of `capacity` bytes.
#[must_use]
pub const fn file_size(capacity: u64) -> u64 {
    HEADER_BYTES as u64 + capacity + nested_capacity(capacity)
}

/// Who has the ring. See [`Header`] for who may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nobody: its content has no meaning.
    Free = 0,
    /// A thread writes to it.
    Owned = 1,
    /// Its thread has ended; the records in it still count.
    Ended = 2,
}

impl State {
    /// The state that a number stands for.
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

/// What a ring file is, fixed when it is made.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Identity {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`LAYOUT_VERSION`].
    pub version: AtomicU32,
    /// [`HEADER_BYTES`].
    pub header_bytes: AtomicU32,
    /// Bytes of data; a power of two from [`MIN_CAPACITY`] to [`MAX_CAPACITY`].
    pub capacity: AtomicU64,
    /// Bytes of nested data; a power of two.
    pub nested_capacity: AtomicU64,
    /// Bytes of a block of the ring.
    pub block: AtomicU32,
    /// Bytes of a block of the nested ring.
    pub nested_block: AtomicU32,
    /// The id of the run.
    pub run: AtomicU32,
    /// The number of the ring in its run.
    pub index: AtomicU32,
}

/// Which thread has the ring.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Tenancy {
    /// A [`State`].
    pub state: AtomicU32,
    /// Grows by one with each thread that takes the ring.
    pub generation: AtomicU32,
    /// The thread's id.
    pub tid: AtomicU64,
    /// Its name, cut to 16 bytes, filled with zeros.
    pub name: [AtomicU64; 2],
    /// Ticks when it took the ring.
    pub since: AtomicU64,
}

/// How far the producer is, in the ring or in the nested ring. See the module's text for the positions.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Written {
    /// Records end here. Stored with `Release` by the producer, loaded with `Acquire` by consumers.
    pub head: AtomicU64,
    /// The producer may be writing up to here. A multiple of the block size.
    pub reserve: AtomicU64,
    /// Messages committed by the thread that has the ring.
    pub committed: AtomicU64,
    /// Messages lost because there was no room.
    pub lost_full: AtomicU64,
    /// Messages lost because their formatting did not end.
    pub lost_panic: AtomicU64,
    /// How often the thread waited for room.
    pub stalls: AtomicU64,
    /// How long, in nanoseconds.
    pub stall_ns: AtomicU64,
}

/// How far the consumer is, as the producer sees it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Consumed {
    /// Space of the ring before this may be written again.
    pub main: AtomicU64,
    /// The same of the nested ring.
    pub nested: AtomicU64,
}

/// Which slot rules: 0 or 1.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Selected {
    /// The slot's number. Stored with `Release`, loaded with `Acquire`.
    pub slot: AtomicU64,
}

/// What the consumer has done, all of one moment. Only the ruling slot has a meaning.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// Records of the ring before this position are in the file.
    pub consumed: AtomicU64,
    /// The same of the nested ring.
    pub nested_consumed: AtomicU64,
    /// Length of the file that goes with it; 0 where no file was made yet.
    pub file_length: AtomicU64,
    /// The file's device.
    pub device: AtomicU64,
    /// The file's inode.
    pub inode: AtomicU64,
    /// The `<n>` of the file's name.
    pub file_number: AtomicU64,
    /// 1 while the file ends inside a message whose last piece was not seen.
    pub in_message: AtomicU64,
    /// 1 when the file's last line is an `# end`.
    pub ended: AtomicU64,
    /// Ticks of the last line.
    pub last_ticks: AtomicU64,
    /// Messages in the file.
    pub records: AtomicU64,
    /// Messages told lost in the file, in the order of [`LossReason`](crate::meta::LossReason).
    pub lost: [AtomicU64; 5],
    /// Stall time told in the file, in nanoseconds.
    pub stall_ns: AtomicU64,
}

/// The plain values of a [`Slot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records of the ring before this position are in the file.
    pub consumed: u64,
    /// The same of the nested ring.
    pub nested_consumed: u64,
    /// Length of the file.
    pub file_length: u64,
    /// The file's device.
    pub device: u64,
    /// The file's inode.
    pub inode: u64,
    /// The `<n>` of the file's name.
    pub file_number: u32,
    /// What the renderer goes on from.
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
        self.in_message.store(u64::from(progress.render.in_message), Ordering::Relaxed);
        self.ended.store(u64::from(progress.render.ended), Ordering::Relaxed);
        self.last_ticks.store(progress.render.last.0, Ordering::Relaxed);
        self.records.store(progress.render.records, Ordering::Relaxed);
        for (to, from) in self.lost.iter().zip(progress.render.lost) {
            to.store(from, Ordering::Relaxed);
        }
        self.stall_ns.store(progress.render.stall_ns, Ordering::Relaxed);
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
                in_message: get(&self.in_message) != 0,
                ended: get(&self.ended) != 0,
                records: get(&self.records),
                lost: [0, 1, 2, 3, 4].map(|i| get(&self.lost[i])),
                stall_ns: get(&self.stall_ns),
            },
        }
    }
}

impl Header {
    /// A header in memory of its own, all zero. For tests and model checking: a real one lies in a mapping.
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
            selected: Selected { slot: zero() },
            slots: [slot(), slot()],
        }
    }

    /// Publishes what a consumer has done: steps (b) and (c) of the write order. Call it after the text is in
    /// the file and before [`Header::free`].
    pub fn publish(&self, progress: &Progress) {
        let other = 1 - (self.selected.slot.load(Ordering::Relaxed) & 1);
        self.slots[usize::from(other == 1)].store(progress);
        self.selected.slot.store(other, Ordering::Release);
    }

    /// Lets the producer write again where `progress` has read: step (d).
    pub fn free(&self, progress: &Progress) {
        self.consumed.main.store(progress.consumed, Ordering::Release);
        self.consumed.nested.store(progress.nested_consumed, Ordering::Release);
    }

    /// What was published last.
    #[must_use]
    pub fn published(&self) -> Progress {
        let slot = self.selected.slot.load(Ordering::Acquire) & 1;
        self.slots[usize::from(slot == 1)].load()
    }

    /// What the producer has lost, as the renderer reports it.
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
/// `tenancy.state`, and who may change it:
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
    /// What it is.
    pub identity: Identity,
    /// Who has it.
    pub tenancy: Tenancy,
    /// How far the producer is.
    pub main: Written,
    /// How far the producer is with records made inside others.
    pub nested: Written,
    /// How far the consumer is.
    pub consumed: Consumed,
    /// Which slot rules.
    pub selected: Selected,
    /// The slots.
    pub slots: [Slot; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && align_of::<Header>() <= 4096);
#[cfg(not(loom))]
const _: () =
    assert!(size_of::<Identity>() == 64 && size_of::<Tenancy>() == 64 && size_of::<Written>() == 64);
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 128 && core::mem::offset_of!(Header, slots) == 384);

/// The plain values of the counters in [`Written`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages committed.
    pub committed: u64,
    /// Messages lost for want of room.
    pub lost_full: u64,
    /// Messages lost because their formatting did not end.
    pub lost_panic: u64,
    /// Waits for room.
    pub stalls: u64,
    /// Their time, in nanoseconds.
    pub stall_ns: u64,
}

impl Written {
    /// The counters, each as it is now.
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

    /// Sets the counters back for another thread; the positions go on.
    pub fn clear_counters(&self) {
        let counters = [&self.committed, &self.lost_full, &self.lost_panic, &self.stalls, &self.stall_ns];
        for counter in counters {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// The plain values of [`Identity`], checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data.
    pub capacity: u64,
    /// Bytes of nested data.
    pub nested_capacity: u64,
    /// Bytes of a block of data.
    pub block: u64,
    /// Bytes of a block of nested data.
    pub nested_block: u64,
}

impl Geometry {
    /// The geometry of a ring of `capacity` bytes, raised to the next power of two and to the limits.
    #[must_use]
    pub fn of(capacity: u64) -> Geometry {
        let capacity = capacity.clamp(MIN_CAPACITY, MAX_CAPACITY).next_power_of_two();
        let nested_capacity = nested_capacity(capacity);
        Geometry {
            capacity,
            nested_capacity,
            block: block_size(capacity),
            nested_block: block_size(nested_capacity),
        }
    }

    /// The size of the ring's file.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        HEADER_BYTES as u64 + self.capacity + self.nested_capacity
    }
}

/// Why bytes are not a ring that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The magic number is not there.
    NotARing,
    /// The layout is of another version.
    Version(u32),
    /// Sizes that cannot be, or that do not fit the file.
    Geometry,
    /// Positions that cannot be.
    Positions,
    /// A state that cannot be.
    State(u32),
}

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RingError::NotARing => f.write_str("it is not a ring of tracer"),
            RingError::Version(v) => {
                write!(f, "its layout has version {v}; this program reads {LAYOUT_VERSION}")
            }
            RingError::Geometry => f.write_str("its sizes are impossible"),
            RingError::Positions => f.write_str("its positions are impossible"),
            RingError::State(s) => write!(f, "its state {s} is impossible"),
        }
    }
}

impl std::error::Error for RingError {}

impl Identity {
    /// Writes what the ring is, the magic number last.
    pub fn set(&self, geometry: &Geometry, run: u32, index: u32) {
        self.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.header_bytes.store(HEADER_BYTES as u32, Ordering::Relaxed);
        self.capacity.store(geometry.capacity, Ordering::Relaxed);
        self.nested_capacity.store(geometry.nested_capacity, Ordering::Relaxed);
        self.block.store(geometry.block as u32, Ordering::Relaxed);
        self.nested_block.store(geometry.nested_block as u32, Ordering::Relaxed);
        self.run.store(run, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// What the ring is, after checking that it is one and fits in `file_size` bytes.
    ///
    /// # Errors
    /// Says what is wrong; nothing of the ring may then be read.
    pub fn check(&self, file_size: u64) -> Result<Geometry, RingError> {
        if self.magic.load(Ordering::Acquire) != MAGIC {
            return Err(RingError::NotARing);
        }
        let version = self.version.load(Ordering::Relaxed);
        if version != LAYOUT_VERSION {
            return Err(RingError::Version(version));
        }
        let capacity = self.capacity.load(Ordering::Relaxed);
        let found = Geometry {
            capacity,
            nested_capacity: self.nested_capacity.load(Ordering::Relaxed),
            block: u64::from(self.block.load(Ordering::Relaxed)),
            nested_block: u64::from(self.nested_block.load(Ordering::Relaxed)),
        };
        let sane = found == Geometry::of(capacity)
            && self.header_bytes.load(Ordering::Relaxed) == HEADER_BYTES as u32
            && found.file_size() <= file_size;
        if sane { Ok(found) } else { Err(RingError::Geometry) }
    }
}

impl Tenancy {
    /// The state, where it is one.
    ///
    /// # Errors
    /// A number that is no state.
    pub fn state(&self) -> Result<State, RingError> {
        let number = self.state.load(Ordering::Acquire);
        State::from_number(number).ok_or(RingError::State(number))
    }

    /// The thread's name without the zeros behind it.
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

/// The range of committed records that a consumer at `consumed` may read.
///
/// # Errors
/// Positions that contradict each other or the alignment.
pub fn readable(written: &Written, consumed: u64, capacity: u64) -> Result<std::ops::Range<u64>, RingError> {
    let head = written.head.load(Ordering::Acquire);
    let aligned = head % 8 == 0 && consumed % 8 == 0;
    match head.checked_sub(consumed) {
        Some(bytes) if aligned && bytes <= capacity => Ok(consumed..head),
        _ => Err(RingError::Positions),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn header() -> Box<Header> {
        Box::new(Header::zeroed())
    }

    #[test]
    fn a_ring_tells_what_it_is_and_refuses_what_it_cannot_be() {
        let header = header();
        let geometry = Geometry::of(1 << 20);
        assert_eq!((geometry.block, geometry.nested_capacity, geometry.nested_block), (65_536, 65_536, 8192));
        assert_eq!(header.identity.check(u64::MAX), Err(RingError::NotARing));
        header.identity.set(&geometry, 7, 3);
        assert_eq!(header.identity.check(geometry.file_size()), Ok(geometry));
        assert_eq!(header.identity.check(geometry.file_size() - 1), Err(RingError::Geometry));
        header.identity.block.store(12, Ordering::Relaxed);
        assert_eq!(header.identity.check(u64::MAX), Err(RingError::Geometry));
        header.identity.version.store(9, Ordering::Relaxed);
        assert_eq!(header.identity.check(u64::MAX), Err(RingError::Version(9)));
    }

    #[test]
    fn hostile_capacities_are_refused_without_overflow() {
        let header = header();
        for capacity in [0, 1, 3 << 20, u64::MAX, 1 << 63, MAX_CAPACITY * 2] {
            header.identity.set(&Geometry::of(1 << 20), 7, 3);
            header.identity.capacity.store(capacity, Ordering::Relaxed);
            assert_eq!(header.identity.check(u64::MAX), Err(RingError::Geometry), "{capacity}");
        }
    }

    #[test]
    fn positions_that_contradict_each_other_are_refused() {
        let header = header();
        header.main.head.store(4096, Ordering::Relaxed);
        assert_eq!(readable(&header.main, 4000, 16384), Ok(4000..4096));
        for (consumed, capacity) in [(4104, 16384), (4095, 16384), (0, 4088), (u64::MAX - 7, 16384)] {
            assert_eq!(readable(&header.main, consumed, capacity), Err(RingError::Positions));
        }
    }

    #[test]
    fn the_slot_that_does_not_rule_is_filled_and_then_rules() {
        let header = header();
        for n in 1..5u64 {
            let render = RenderState {
                last: Ticks(n),
                in_message: n % 2 == 0,
                ended: n % 3 == 0,
                records: n,
                lost: [n; 5],
                stall_ns: n,
            };
            let progress = Progress {
                consumed: n * 8,
                nested_consumed: n,
                file_length: n,
                device: n,
                inode: n,
                file_number: 3,
                render,
            };
            let before = header.published();
            header.slots[usize::from(header.selected.slot.load(Ordering::Relaxed) == 0)].store(&progress);
            assert_eq!(header.published(), before, "a half-done publication changes nothing");
            header.publish(&progress);
            assert_eq!(header.published(), progress);
        }
    }

    #[test]
    fn a_name_of_sixteen_bytes_is_kept_whole() {
        let header = header();
        header.tenancy.set_name(*b"sixteen bytes ok");
        assert_eq!(header.tenancy.name(), b"sixteen bytes ok");
        header.tenancy.set_name(*b"main\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(header.tenancy.name(), b"main");
    }
}
