//! The memory of a ring, and every raw access to it.
//!
//! [`Data`] is the memory for the records of a ring: `capacity` bytes, which are addressed by positions that only grow.
//! The safety conditions of its unsafe functions say which positions are valid; the rest of the ring is safe code that
//! meets these conditions.
#![allow(unsafe_code, reason = "raw access to a mapping that two threads share; each block argued")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use trace_format::ring::{Geometry, HEADER_BYTES, Header, Progress, RingError};

use crate::sys;

/// The number of bytes at the beginning of a ring's data whose space in the file system is reserved before a waiting
/// thread gets the ring.
pub const FIRST_BYTES: u64 = 16 * 1024;
/// The number of bytes at the beginning of a nested ring's data whose space in the file system is reserved before a
/// waiting thread gets the ring.
pub const FIRST_NESTED_BYTES: u64 = 4096;
/// The most bytes whose space in the file system is reserved in one step, after the first bytes of a ring. A step takes
/// about 40 microseconds.
pub const MAX_STEP_BYTES: u64 = 64 * 1024;

/// Returns whether a thread may get a ring of which only the first bytes are reserved. This requires that these bytes
/// lie in the first block: the producer may write so many bytes before it checks how much is reserved by then.
#[must_use]
pub fn may_begin_small(geometry: &Geometry) -> bool {
    FIRST_BYTES <= geometry.block && FIRST_NESTED_BYTES <= geometry.nested_block
}

/// A mapped ring, which is unmapped when this object is dropped.
///
/// The ring of another user, whom this process need not trust, is never mapped itself: its owner could truncate the
/// file, and an access to the mapping would then end this process by a signal. Instead, a copy of the ring's contents
/// is mapped.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    geometry: Geometry,
    /// The file of the ring, if this is a copy of the ring's contents.
    original: Option<File>,
}

/// The number of times that copying a ring is tried. A try fails if the ring's flusher changes the ring meanwhile.
const COPY_TRIES: u32 = 100;
/// The number of bytes of a file that are copied at once.
const WINDOW: usize = 256 * 1024;

impl Memory {
    /// Maps `file` as shared memory, without accessing it. Space in the file system needs to be reserved only for the
    /// first bytes of the ring and of the nested ring.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn shared(file: &File, geometry: Geometry) -> io::Result<Memory> {
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(len).map_raw(file)?;
        Ok(Memory { map, geometry, original: None })
    }

    /// Makes the system map the pages of a range of the file in advance. The space of the range must be reserved in the
    /// file system.
    pub(crate) fn populate(&self, range: Range<u64>) {
        let end = usize::try_from(range.end).map_or(self.map.len(), |end| end.min(self.map.len()));
        let start = usize::try_from(range.start).map_or(end, |start| start.min(end));
        sys::populate(self.map.as_mut_ptr().wrapping_add(start), end - start);
    }

    /// Maps the ring in `file` that a dead run has left. Returns `None` if the process ended before the ring was
    /// complete, which shows in the missing magic number, because that is written last; no thread can have used such a
    /// ring.
    ///
    /// # Errors
    /// The file cannot be mapped, or is not a ring of a known version, for example because its sizes do not fit the
    /// file.
    pub fn existing(file: &File) -> io::Result<Option<Memory>> {
        Memory::found(file, |options| options.map_raw(file))
    }

    /// Maps the ring in `file` read-only, for an observer. The ring's process may be alive. The result must not be used
    /// to write or to consume records.
    ///
    /// # Errors
    /// Fails for the same reasons as [`Memory::existing`].
    pub fn open_read_only(file: &File) -> io::Result<Option<Memory>> {
        Memory::found(file, |options| options.map_raw_read_only(file))
    }

    fn found(
        file: &File,
        map: impl FnOnce(&MmapOptions) -> io::Result<MmapRaw>,
    ) -> io::Result<Option<Memory>> {
        let found = file.metadata()?;
        let size = found.len();
        if size == 0 {
            return Ok(None);
        }
        if size < HEADER_BYTES as u64 {
            return Err(io::Error::other(RingError::Geometry));
        }
        if sys::is_of_another_user(&found) {
            return Memory::copied(file, size);
        }
        let len = usize::try_from(size).map_err(io::Error::other)?;
        let map = map(MmapOptions::new().len(len))?;
        let memory = Memory { map, geometry: Geometry::of(0), original: None };
        let geometry = memory.header().identity.check_made(size).map_err(io::Error::other)?;
        Ok(geometry.map(|geometry| Memory { geometry, ..memory }))
    }

    /// Copies the header of the ring of `size` bytes in `file`, and those of its records that are in no trace file yet.
    /// Returns `None` if the ring is not completely made.
    fn copied(file: &File, size: u64) -> io::Result<Option<Memory>> {
        let Some(first) = HeaderCopy::of(file, size)? else { return Ok(None) };
        let geometry = first.geometry;
        let scratch = sys::create_scratch_file()?;
        scratch.set_len(geometry.file_size())?;
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        for _ in 0..COPY_TRIES {
            let Some(before) = HeaderCopy::of(file, size)? else { return Ok(None) };
            before.copy_unread(file, &scratch)?;
            let Some(after) = HeaderCopy::of(file, size)? else { return Ok(None) };
            if !before.header().is_same_snapshot_as(after.header()) {
                continue;
            }
            // The producer may have begun to overwrite the copied bytes.
            for (copy, now) in [
                (&before.header().main, &after.header().main),
                (&before.header().nested, &after.header().nested),
            ] {
                copy.reserve.store(now.reserve.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            if before.geometry != geometry {
                break;
            }
            sys::write_at(&scratch, before.bytes(), 0)?;
            let map = MmapOptions::new().len(len).map_raw(&scratch)?;
            return Ok(Some(Memory { map, geometry, original: Some(file.try_clone()?) }));
        }
        Err(io::Error::other("the ring changes faster than it can be read; try again"))
    }

    /// Publishes how far the consumer has written the records, see [`Header::publish`]. If this is a copy of a ring,
    /// publishes that also in the ring's file.
    pub fn publish(&self, progress: &Progress) {
        self.header().publish(progress);
        self.write_header_back();
    }

    /// If this is a copy of a ring, writes its header into the ring's file. This is one call, so a kill leaves either
    /// the whole header there or none of it.
    pub(crate) fn write_header_back(&self) {
        if let Some(original) = &self.original {
            // If the write fails because the owner has changed the ring's file, only the owner's own records are
            // lost.
            let header = HeaderCopy::bytes_of(&self.map);
            let _ = sys::write_at(original, header, 0);
        }
    }

    /// Returns whether this is a copy of the ring's contents, in which later changes of the ring do not appear.
    pub(crate) fn is_copy(&self) -> bool {
        self.original.is_some()
    }

    /// Makes the memory of a ring that no other process can see.
    pub fn private(geometry: Geometry) -> io::Result<Memory> {
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(len).populate().map_anon()?.into();
        Ok(Memory { map, geometry, original: None })
    }

    /// Returns the sizes of the ring, the nested ring and their blocks.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns whether the producer overwrites the oldest records instead of waiting for the consumer.
    pub fn overwrites(&self) -> bool {
        self.header().identity.overwrite.load(Ordering::Relaxed) == 1
    }

    /// Returns the header of the ring.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is at least `HEADER_BYTES` long and page-aligned; `Header` is atomics only, for
        // which any bytes are valid, and lives as long as the mapping, that is as long as `self`.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Returns the memory for the records of the ring.
    pub fn data(&self) -> Data {
        // SAFETY: the mapping holds header, data and nested data.
        let base = unsafe { self.map.as_mut_ptr().add(HEADER_BYTES) };
        Data { base, mask: self.geometry.capacity - 1 }
    }

    /// Returns the memory for the records of the nested ring.
    pub fn nested_data(&self) -> Data {
        // SAFETY: as above; `capacity` fits in usize, because the mapping does.
        let base = unsafe { self.map.as_mut_ptr().add(HEADER_BYTES + self.geometry.capacity as usize) };
        Data { base, mask: self.geometry.nested_capacity - 1 }
    }

    /// Copies the bytes at a range of positions of the ring, while the producer may be overwriting them. Afterwards the
    /// caller must ask [`oldest`](trace_format::ring::oldest) for the position up to which the producer has begun to
    /// overwrite: the copied bytes before that position are invalid.
    #[must_use]
    pub fn copy(&self, range: Range<u64>) -> Vec<u8> {
        // SAFETY: the data is mapped as long as `self`.
        unsafe { self.data().copy(range) }
    }

    /// Copies the bytes at a range of positions of the nested ring, as [`Memory::copy`] does for the ring.
    #[must_use]
    pub fn copy_nested(&self, range: Range<u64>) -> Vec<u8> {
        // SAFETY: the data is mapped as long as `self`.
        unsafe { self.nested_data().copy(range) }
    }
}

/// A copy of a ring's header.
#[derive(Debug)]
pub(crate) struct HeaderCopy {
    map: MmapRaw,
    geometry: Geometry,
}

impl HeaderCopy {
    /// Copies the header of the ring of `size` bytes in `file`. Returns `None` if the ring is not completely made: its
    /// process is still making it, or was killed before it had.
    ///
    /// # Errors
    /// The file cannot be read, or is not a ring of a known version.
    pub(crate) fn of(file: &File, size: u64) -> io::Result<Option<HeaderCopy>> {
        if size == 0 {
            return Ok(None);
        }
        let mut map = MmapOptions::new().len(HEADER_BYTES).map_anon()?;
        if sys::read_at(file, &mut map, 0)? < HEADER_BYTES {
            return Err(io::Error::other(RingError::Geometry));
        }
        let copy = HeaderCopy { map: map.into(), geometry: Geometry::of(0) };
        let geometry = copy.header().identity.check_made(size).map_err(io::Error::other)?;
        Ok(geometry.map(|geometry| HeaderCopy { geometry, ..copy }))
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: as in `Memory::header`; the mapping is `HEADER_BYTES` long.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    fn bytes(&self) -> &[u8] {
        HeaderCopy::bytes_of(&self.map)
    }

    /// Returns the bytes of the header at the beginning of `map`, a private copy of a ring.
    fn bytes_of(map: &MmapRaw) -> &[u8] {
        // SAFETY: each mapping for which this is called has at least this many bytes, and no other thread writes them
        // while this thread reads them: they are private to this process and used by one thread.
        unsafe { std::slice::from_raw_parts(map.as_ptr(), HEADER_BYTES) }
    }

    /// Copies, from a ring's file to the same offsets of another file, the data that is in no trace file yet according
    /// to this header.
    fn copy_unread(&self, from: &File, to: &File) -> io::Result<()> {
        let (header, geometry) = (self.header(), self.geometry);
        let progress = header.published();
        let main = (header.main.head(), progress.consumed, geometry.capacity, HEADER_BYTES as u64);
        let behind = HEADER_BYTES as u64 + geometry.capacity;
        let nested = (header.nested.head(), progress.nested_consumed, geometry.nested_capacity, behind);
        for (head, consumed, capacity, base) in [main, nested] {
            // The reader of the copy finds positions that contradict each other.
            let start = consumed.max(head.saturating_sub(capacity));
            let Some(bytes) = head.checked_sub(start) else { continue };
            let at = start & (capacity - 1);
            let to_end = bytes.min(capacity - at);
            copy_range(from, to, base + at..base + at + to_end)?;
            copy_range(from, to, base..base + bytes - to_end)?;
        }
        Ok(())
    }
}

/// Copies a range of a file to the same offsets of another file, through a buffer. Holes (ranges that were never
/// written) are not copied.
fn copy_range(from: &File, to: &File, range: Range<u64>) -> io::Result<()> {
    let mut window = vec![0; WINDOW.min(usize::try_from(range.end - range.start).unwrap_or(WINDOW))];
    let mut at = range.start;
    while let Some(data) = sys::next_data(from, at, range.end) {
        at = data.start;
        while at < data.end {
            let part = usize::try_from(data.end - at).unwrap_or(WINDOW).min(window.len());
            let read = sys::read_at(from, &mut window[..part], at)?;
            if read == 0 {
                return Ok(());
            }
            sys::write_at(to, &window[..read], at)?;
            at += read as u64;
        }
    }
    Ok(())
}

/// Copies `from` to `to`, which must have the same length. Up to 32 bytes are copied by two moves: one from the
/// beginning and one from the end, which may overlap.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    let copied = match from.len() {
        1 => copy_ends::<1>(to, from),
        2..=3 => copy_ends::<2>(to, from),
        4..=7 => copy_ends::<4>(to, from),
        8..=15 => copy_ends::<8>(to, from),
        16..=32 => copy_ends::<16>(to, from),
        _ => None,
    };
    if copied.is_none() {
        to.copy_from_slice(from);
    }
}

/// Copies the first `N` and the last `N` bytes of `from` to `to`, which has the same length. Returns `None` if the
/// length is less than `N`.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
    let (first, last) = (from.first_chunk::<N>()?, from.last_chunk::<N>()?);
    *to.first_chunk_mut::<N>()? = *first;
    *to.last_chunk_mut::<N>()? = *last;
    Some(())
}

/// The memory for the records of a ring or nested ring. It is a plain pointer, which is valid as long as the [`Memory`]
/// lives.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    base: *mut u8,
    /// The capacity in bytes minus one. The capacity is a power of two, so `position & mask` is the offset of a
    /// position.
    mask: u64,
}

impl Data {
    /// Returns the size of the memory in bytes.
    pub fn capacity(self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    fn at(self, position: u64) -> *mut u8 {
        // SAFETY: the masked position is below the capacity, so inside the mapping.
        unsafe { self.base.add((position & self.mask) as usize) }
    }

    /// Writes a word of eight bytes at a position that is a multiple of 8.
    ///
    /// # Safety
    /// The caller is the ring's producer. The position is a multiple of 8, and lies in the space that the producer may
    /// write: not below `head`, and below `consumed + capacity`.
    #[inline(always)]
    pub unsafe fn write_word(self, position: u64, word: u64) {
        // SAFETY: in bounds by `at`; aligned because base and position are; no thread reads here before `head` is
        // published, by the caller's promise.
        unsafe { self.at(position).cast::<u64>().write(word.to_le()) };
    }

    /// Writes words of eight bytes, one after the other, from a position on that is a multiple of 8.
    ///
    /// # Safety
    /// The conditions of [`Data::write_word`] hold for the whole range, and the range does not cross the border of a
    /// block.
    #[inline(always)]
    pub unsafe fn write_words<const N: usize>(self, position: u64, words: [u64; N]) {
        // SAFETY: contiguous, as in `write_bytes`, and aligned; else as in `write_word`.
        unsafe { self.at(position).cast::<[u64; N]>().write(words.map(u64::to_le)) };
    }

    /// Writes bytes from a position on.
    ///
    /// # Safety
    /// The conditions of [`Data::write_word`], except the alignment, hold for the whole range, and the range does not
    /// cross the border of a block.
    #[inline(always)]
    pub unsafe fn write_bytes(self, position: u64, bytes: &[u8]) {
        // SAFETY: the range crosses no border of a block, and so not the ring's end: it is contiguous. `bytes` is
        // not in the ring's own space, because no code has references into that.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(position), bytes.len()) };
    }

    /// Writes bytes from a position on. Up to 32 bytes are written without a call of `memcpy`, because for so few bytes
    /// the call takes longer than the copying.
    ///
    /// # Safety
    /// The same as for [`Data::write_bytes`].
    #[inline(always)]
    pub unsafe fn write_short(self, position: u64, bytes: &[u8]) {
        // SAFETY: as in `write_bytes`; no code has other references into the range.
        copy(unsafe { self.own(position, bytes.len()) }, bytes);
    }

    /// Returns the `len` bytes at a position, for the producer to write.
    ///
    /// # Safety
    /// The conditions of [`Data::write_bytes`] hold for the whole range, and the caller uses no other part of the ring
    /// while it has the bytes. Concurrent readers use volatile reads, and discard bytes that are being written.
    #[inline(always)]
    pub unsafe fn own<'a>(self, position: u64, len: usize) -> &'a mut [u8] {
        // SAFETY: in bounds and contiguous as in `write_bytes`; the mapping's bytes are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.at(position), len) }
    }

    /// Returns the `N` bytes at a position, which the producer itself has written but not yet published.
    ///
    /// # Safety
    /// The conditions of [`Data::write_bytes`] hold for the whole range, and the range was written before.
    pub unsafe fn read_back<const N: usize>(self, position: u64) -> [u8; N] {
        // SAFETY: in bounds and contiguous as in `write_bytes`; any bytes are valid.
        unsafe { self.at(position).cast::<[u8; N]>().read_unaligned() }
    }

    /// Copies the bytes at a range of positions, while the producer may be overwriting them: see [`Memory::copy`].
    ///
    /// # Safety
    /// The memory stays mapped during the call.
    unsafe fn copy(self, range: Range<u64>) -> Vec<u8> {
        let end = range.end.min(range.start.saturating_add(self.capacity()));
        let mut bytes = Vec::with_capacity(usize::try_from(end - range.start).unwrap_or(0));
        for position in (range.start..end).step_by(8) {
            // SAFETY: mapped by the caller's promise, in bounds by `at`, and aligned, because positions of
            // records and the base are. The producer may write at the same moment, so the read is volatile:
            // the compiler neither repeats nor invents it, and reads each word as a whole.
            let word = unsafe { self.at(position).cast::<u64>().read_volatile() };
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Returns the bytes of a range of positions, in two parts if the range wraps at the end of the data.
    ///
    /// # Safety
    /// The caller is the consumer; the range lies between the consumed position that the producer knows and a
    /// head that was loaded with `Acquire`; while the result lives, the consumed position does not change and
    /// the memory stays mapped.
    pub unsafe fn parts<'a>(self, range: Range<u64>) -> [&'a [u8]; 2] {
        let bytes = (range.end - range.start).min(self.capacity());
        let to_end = (self.capacity() - (range.start & self.mask)).min(bytes);
        // SAFETY: both parts are in bounds by the arithmetic above; they are published and not freed, so the
        // producer does not write there, by the caller's promise.
        unsafe {
            [
                std::slice::from_raw_parts(self.at(range.start), to_end as usize),
                std::slice::from_raw_parts(self.base, (bytes - to_end) as usize),
            ]
        }
    }
}
