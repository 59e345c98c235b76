//! The sizes of the parts of a ring, and the check of the sizes in a file.

#[cfg(not(loom))]
use core::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::Ordering;

use super::{HEADER_BYTES, Identity, LAYOUT_VERSION, MAGIC, OLDEST_LAYOUT};

/// The capacity of the smallest ring, in bytes.
pub const MIN_CAPACITY: u64 = 16 * 1024;
/// The capacity of the largest ring, in bytes.
pub const MAX_CAPACITY: u64 = 1 << 30;
/// The length of the largest block in bytes: the length of a record's payload must fit 16 bits.
pub const MAX_BLOCK: u64 = 64 * 1024;
/// The least number of blocks in a ring.
pub const MIN_BLOCKS: u64 = 8;

/// Returns the block size in bytes for a ring of `capacity` bytes (a power of two).
#[must_use]
pub const fn block_size(capacity: u64) -> u64 {
    let even = capacity / MIN_BLOCKS;
    if even < MAX_BLOCK { even } else { MAX_BLOCK }
}

/// Returns the capacity in bytes of the nested ring beside a ring of `capacity` bytes.
#[must_use]
pub const fn nested_capacity(capacity: u64) -> u64 {
    let sixteenth = capacity / 16;
    if sixteenth < 4096 { 4096 } else { sixteenth }
}

/// The sizes of a ring and its nested ring, as in [`Identity`], but as plain values and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The number of bytes of the ring's data.
    pub capacity: u64,
    /// The number of bytes of the nested ring's data.
    pub nested_capacity: u64,
    /// The number of bytes of a block of the ring.
    pub block: u64,
    /// The number of bytes of a block of the nested ring.
    pub nested_block: u64,
}

impl Geometry {
    /// Returns the sizes of a ring whose capacity is `capacity` bytes, limited to the range from `MIN_CAPACITY` to
    /// `MAX_CAPACITY` and rounded up to a power of two.
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

    /// Returns the size of the ring's file in bytes.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        HEADER_BYTES as u64 + self.capacity + self.nested_capacity
    }
}

/// The reason why bytes cannot be read as a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The magic number is missing.
    NotARing,
    /// The layout has this version, which is unknown.
    Version(u32),
    /// The sizes in the header are impossible, or do not fit the file.
    Geometry,
    /// The positions in the header are impossible.
    Positions,
    /// The state in the header has this impossible number.
    State(u32),
    /// The ring contains a record of this kind, which is reserved for later versions.
    Kind(u8),
}

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RingError::NotARing => f.write_str("it is not a ring of tracer"),
            RingError::Version(v) => write!(
                f,
                "ring layout {v} is unknown (this program reads {OLDEST_LAYOUT} to {LAYOUT_VERSION}); \
                 the ring is left unchanged; use the tracemerge of the program's version"
            ),
            RingError::Kind(kind) => write!(
                f,
                "record kind {kind} is unknown; the ring is left unchanged; \
                 use the tracemerge of the program's version"
            ),
            RingError::Geometry => f.write_str("its sizes are impossible"),
            RingError::Positions => f.write_str("its positions are impossible"),
            RingError::State(s) => write!(f, "its state {s} is impossible"),
        }
    }
}

impl std::error::Error for RingError {}

impl Identity {
    /// Writes the identity of a ring, the magic number last.
    pub fn set(&self, geometry: &Geometry, run: u32, index: u32, overwrite: bool) {
        self.version.store(LAYOUT_VERSION, Ordering::Relaxed);
        self.header_bytes.store(HEADER_BYTES as u32, Ordering::Relaxed);
        self.capacity.store(geometry.capacity, Ordering::Relaxed);
        self.nested_capacity.store(geometry.nested_capacity, Ordering::Relaxed);
        self.block.store(geometry.block as u32, Ordering::Relaxed);
        self.nested_block.store(geometry.nested_block as u32, Ordering::Relaxed);
        self.run.store(run, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.overwrite.store(u32::from(overwrite), Ordering::Relaxed);
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Returns the sizes of the ring, after checking that it is a ring and fits in `file_size` bytes.
    ///
    /// # Errors
    /// The bytes are not a ring of a known layout, or its sizes do not fit; then no part of the ring may be read.
    pub fn check(&self, file_size: u64) -> Result<Geometry, RingError> {
        if self.magic.load(Ordering::Acquire) != MAGIC {
            return Err(RingError::NotARing);
        }
        let version = self.version.load(Ordering::Relaxed);
        if !(OLDEST_LAYOUT..=LAYOUT_VERSION).contains(&version) {
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

    /// Returns the sizes of a ring in a file of `file_size` bytes, as [`Identity::check`] does; `None` if the ring is
    /// not completely made, so that no thread can have had it: the magic number is written last.
    ///
    /// # Errors
    /// The bytes are not a ring of a known layout, or its sizes do not fit.
    pub fn check_made(&self, file_size: u64) -> Result<Option<Geometry>, RingError> {
        if self.magic.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        self.check(file_size).map(Some)
    }
}
