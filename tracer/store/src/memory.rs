//! The memory of a ring, and every raw access to it.
//!
//! [`Data`] is a place for records: `capacity` bytes, addressed by positions that only grow. Its unsafe
//! functions say which positions may be given; the rest of the ring is safe code on top of that promise.
#![allow(unsafe_code, reason = "raw access to a mapping that two threads share; each block argued")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use trace_format::ring::{Geometry, HEADER_BYTES, Header, RingError};

use crate::sys;

/// The bytes at the beginning of a ring's data that are reserved first where somebody waits for the ring.
pub const FIRST_BYTES: u64 = 16 * 1024;
/// The bytes at the beginning of a ring's nested data that are reserved first.
pub const FIRST_NESTED_BYTES: u64 = 4096;

/// Returns whether a ring may be lent while only its first bytes are reserved: those that the producer may
/// write before it looks again must lie in the first block.
#[must_use]
pub fn may_begin_small(geometry: &Geometry) -> bool {
    FIRST_BYTES <= geometry.block && FIRST_NESTED_BYTES <= geometry.nested_block
}

/// A mapped ring. Unmapped when dropped.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    geometry: Geometry,
}

impl Memory {
    /// Maps `file`, whose space is reserved, shared and touches every page.
    pub fn shared(file: &File, geometry: Geometry) -> io::Result<Memory> {
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(len).populate().map_raw(file)?;
        let memory = Memory { map, geometry };
        // Only there that option does it.
        if !cfg!(target_os = "linux") {
            memory.populate();
        }
        Ok(memory)
    }

    /// Maps `file` shared, of which only the first bytes of each part may be reserved: no page is touched.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn shared_in_part(file: &File, geometry: Geometry) -> io::Result<Memory> {
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(len).map_raw(file)?;
        Ok(Memory { map, geometry })
    }

    /// Has all pages ready, once their space is reserved.
    pub fn populate(&self) {
        sys::populate(self.map.as_mut_ptr(), self.map.len());
    }

    /// Maps the ring in `file` that a dead run has left. Returns `None` where its making was not finished, so
    /// that no thread can have had it: the magic number is written last.
    ///
    /// # Errors
    /// The file cannot be mapped, or is no ring of this version: whose sizes do not fit the file, for one.
    pub fn existing(file: &File) -> io::Result<Option<Memory>> {
        Memory::found(file, |options| options.map_raw(file))
    }

    /// Maps the ring in `file` for an onlooker, who writes nothing: nor may the producer or the consumer of
    /// what this returns be used. The ring's process may be alive.
    ///
    /// # Errors
    /// As [`Memory::existing`].
    pub fn to_read(file: &File) -> io::Result<Option<Memory>> {
        Memory::found(file, |options| options.map_raw_read_only(file))
    }

    fn found(
        file: &File,
        map: impl FnOnce(&MmapOptions) -> io::Result<MmapRaw>,
    ) -> io::Result<Option<Memory>> {
        let size = file.metadata()?.len();
        if size == 0 {
            return Ok(None);
        }
        if size < HEADER_BYTES as u64 {
            return Err(io::Error::other(RingError::Geometry));
        }
        let len = usize::try_from(size).map_err(io::Error::other)?;
        let map = map(MmapOptions::new().len(len))?;
        let memory = Memory { map, geometry: Geometry::of(0) };
        if memory.header().identity.magic.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        let geometry = memory.header().identity.check(size).map_err(io::Error::other)?;
        Ok(Some(Memory { geometry, ..memory }))
    }

    /// Makes memory of this process alone.
    pub fn private(geometry: Geometry) -> io::Result<Memory> {
        let len = usize::try_from(geometry.file_size()).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(len).populate().map_anon()?.into();
        Ok(Memory { map, geometry })
    }

    /// Returns the sizes of the ring, the nested ring and their blocks.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns whether the producer overwrites what is oldest instead of waiting for the consumer.
    pub fn overwrites(&self) -> bool {
        self.header().identity.overwrite.load(Ordering::Relaxed) == 1
    }

    /// Gives the header: atomics in fresh, zeroed, page-aligned memory.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is at least `HEADER_BYTES` long and page-aligned; `Header` is atomics only, for
        // which any bytes are valid, and lives as long as the mapping, that is as long as `self`.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Gives the data of the ring.
    pub fn data(&self) -> Data {
        // SAFETY: the mapping holds header, data and nested data.
        let base = unsafe { self.map.as_mut_ptr().add(HEADER_BYTES) };
        Data { base, mask: self.geometry.capacity - 1 }
    }

    /// Gives the data of the nested ring.
    pub fn nested_data(&self) -> Data {
        // SAFETY: as above; `capacity` fits in usize, for the mapping does.
        let base = unsafe { self.map.as_mut_ptr().add(HEADER_BYTES + self.geometry.capacity as usize) };
        Data { base, mask: self.geometry.nested_capacity - 1 }
    }

    /// Copies a range of positions of the ring while the producer may be writing there: what it has meanwhile
    /// begun to overwrite, [`oldest`](trace_format::ring::oldest) tells afterwards, and that part of the copy
    /// means nothing.
    #[must_use]
    pub fn copy(&self, range: Range<u64>) -> Vec<u8> {
        // SAFETY: the data is mapped as long as `self`.
        unsafe { self.data().copy(range) }
    }

    /// Copies a range of positions of the nested ring, as [`Memory::copy`] does for the ring.
    #[must_use]
    pub fn copy_nested(&self, range: Range<u64>) -> Vec<u8> {
        // SAFETY: the data is mapped as long as `self`.
        unsafe { self.nested_data().copy(range) }
    }
}

/// The data of a ring or nested ring. A plain copy of a pointer: valid as long as the [`Memory`] is.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    base: *mut u8,
    /// The capacity, a power of two, less one.
    mask: u64,
}

impl Data {
    /// Returns the number of bytes.
    pub fn capacity(self) -> u64 {
        self.mask + 1
    }

    #[inline(always)]
    fn at(self, position: u64) -> *mut u8 {
        // SAFETY: the masked position is below the capacity, so inside the mapping.
        unsafe { self.base.add((position & self.mask) as usize) }
    }

    /// Writes a word at an 8-byte aligned position.
    ///
    /// # Safety
    /// The caller is the ring's producer; the position is aligned and is in the space that is its own:
    /// not below `head`, and below `consumed + capacity`.
    #[inline(always)]
    pub unsafe fn write_word(self, position: u64, word: u64) {
        // SAFETY: in bounds by `at`; aligned since base and position are; nobody reads here before `head` is
        // published, by the caller's promise.
        unsafe { self.at(position).cast::<u64>().write(word.to_le()) };
    }

    /// Writes words, one behind the other.
    ///
    /// # Safety
    /// As [`Data::write_word`] for the whole range, which must not cross the border of a block.
    #[inline(always)]
    pub unsafe fn write_words<const N: usize>(self, position: u64, words: [u64; N]) {
        // SAFETY: contiguous, as in `write_bytes`, and aligned; else as in `write_word`.
        unsafe { self.at(position).cast::<[u64; N]>().write(words.map(u64::to_le)) };
    }

    /// Writes bytes.
    ///
    /// # Safety
    /// As [`Data::write_word`] for the whole range, which must not cross the border of a block.
    #[inline(always)]
    pub unsafe fn write_bytes(self, position: u64, bytes: &[u8]) {
        // SAFETY: a block's border is no border of the ring inside the range, so it is contiguous; `bytes` is
        // not in the ring's own space, for nobody has references into that.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(position), bytes.len()) };
    }

    /// Gives the `len` bytes at a position, for the producer to fill.
    ///
    /// # Safety
    /// As [`Data::write_bytes`] for the whole range; the caller uses nothing else of the ring while it has
    /// them. Who reads beside the producer reads volatile, and throws away what it finds being written.
    #[inline(always)]
    pub unsafe fn own<'a>(self, position: u64, len: usize) -> &'a mut [u8] {
        // SAFETY: in bounds and contiguous as in `write_bytes`; the mapping's bytes are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.at(position), len) }
    }

    /// Copies back bytes that the producer itself wrote and has not published.
    ///
    /// # Safety
    /// As [`Data::write_bytes`]; the range was written before.
    pub unsafe fn read_back<const N: usize>(self, position: u64) -> [u8; N] {
        // SAFETY: in bounds and contiguous as in `write_bytes`; any bytes are valid.
        unsafe { self.at(position).cast::<[u8; N]>().read_unaligned() }
    }

    /// Copies a range of positions while the producer may be writing there: see [`Memory::copy`].
    ///
    /// # Safety
    /// The memory is mapped as long as this takes.
    unsafe fn copy(self, range: Range<u64>) -> Vec<u8> {
        let end = range.end.min(range.start.saturating_add(self.capacity()));
        let mut bytes = Vec::with_capacity(usize::try_from(end - range.start).unwrap_or(0));
        for position in (range.start..end).step_by(8) {
            // SAFETY: mapped by the caller's promise, in bounds by `at`, and aligned, since positions of
            // records and the base are. The other side may write at the same moment, so the read is volatile:
            // the compiler neither repeats nor invents it, and a whole word is some value that was there.
            let word = unsafe { self.at(position).cast::<u64>().read_volatile() };
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Gives the bytes of a range of positions, in two parts where it wraps.
    ///
    /// # Safety
    /// The caller is the consumer; the range lies between the consumed position that the producer knows and a
    /// head that was loaded with `Acquire`; the consumed position is not moved while the result lives, and
    /// the memory is mapped as long.
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
