//! Maps files into memory. A file is opened, mapped and closed again, so that thousands of files use no descriptors.
//! Small files are copied instead. Somewhat larger files are copied, too, if very many files are mapped already: the
//! system allows a process some 65,000 mappings, and memory allocations also use mappings.
//!
//! A file of a user whom this process need not trust is copied, through a window, into a private file that is mapped
//! instead: its owner could shorten it at any time. A file with large holes is copied, too, without its holes.
//!
//! All `unsafe` here is for the mapping, for advice to the system, and for a hint to the processor. Only regular
//! files are mapped: a FIFO or a device in place of a trace would block or never end.
#![allow(unsafe_code)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions};
use trace_format::file::Encoding;
use trace_format::raw::BLOCK;

use crate::file::truncation::Watched;
use crate::os::environment::place_of_large_files;
use crate::os::sys::{is_of_another_user, next_data, open_with_retries, read_at, size_on_disk};
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// The number of bytes in a cache line of the processor.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The length up to which a file is copied: a mapping would take as much memory.
const SMALL: usize = 4 << 10;
/// The number of mapped files above which files of at most `COPIED` bytes are copied instead of mapped.
const MAX_MAPPED: usize = 16 << 10;
const COPIED: usize = 64 << 10;

/// The number of files that are currently mapped.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The bytes of a file, mapped or copied; the file may be empty.
#[derive(Debug)]
pub(crate) struct Map {
    /// The registration of the mapping for truncation checks; `None` if no file is mapped. The field comes before
    /// `map`, so that the registration ends before the mapping.
    watched: Option<Watched>,
    map: Option<Mmap>,
    /// The bytes of a file that is not mapped.
    copy: Vec<u8>,
}

/// The number of bytes of a file that are copied at once.
const WINDOW: usize = 256 << 10;
/// The number of bytes from which on a hole counts as large. A copy of a file leaves large holes out, and a file is
/// copied if its copy leaves out this number of bytes or more.
const LARGE_HOLE: u64 = 16 << 20;
/// The maximum number of pieces between the holes of a file; a file with more pieces is not read: no accident leaves so
/// many.
const MAX_PIECES: usize = 10_000;
/// The number of bytes that are read at the beginning and at the end of a file to identify it. More are read at the end
/// if the last line is longer.
const ENDS: u64 = BLOCK;
/// The maximum number of bytes at the end of a file that are searched for its last line.
const MAX_TAIL_BYTES: u64 = 16 << 20;

impl Map {
    /// Maps the regular file at `path`; follows symbolic links.
    ///
    /// # Errors
    /// If the file is not a regular one, or cannot be opened or mapped.
    pub(crate) fn open(path: &Path) -> Result<Map, Error> {
        let (file, found) = open_regular(path)?;
        Map::of_found(&file, &found, path)
    }

    /// Maps the file at `path`, which was recently seen to be a regular file, see [`open_known`].
    ///
    /// # Errors
    /// If the file cannot be opened or mapped, or is not a regular file.
    pub(crate) fn open_known(path: &Path) -> Result<Map, Error> {
        let (file, found) = open_known(path)?;
        Map::of_found(&file, &found, path)
    }

    /// Maps a file that is open for reading; error messages name `path`.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub(crate) fn of_file(file: &File, path: &Path) -> Result<Map, Error> {
        let found = file.metadata().map_err(|e| Error::io("examine", path, e))?;
        Map::of_found(file, &found, path)
    }

    fn of_found(file: &File, found: &Metadata, path: &Path) -> Result<Map, Error> {
        match Pieces::of(file, found).map_err(|e| Error::io("read", path, e))? {
            None => Map::of_length(file, found.len(), path),
            Some(pieces) => {
                let (copy, length) = pieces.copied(file).map_err(|e| Error::io("copy", path, e))?;
                Map::of_length(&copy, length, path)
            }
        }
    }

    /// Maps a whole file, which has `length` bytes.
    fn of_length(file: &File, length: u64, path: &Path) -> Result<Map, Error> {
        let Ok(length @ 1..) = usize::try_from(length) else {
            // An empty mapping is not allowed; neither can a file be mapped that is longer than this machine's
            // address space.
            return if length == 0 {
                Ok(Map::nothing())
            } else {
                Err(Error::plain(format!("{} is too large to be mapped into memory", shown(path))))
            };
        };
        // Relaxed: the number decides only whether one more file is mapped.
        let many = || length <= COPIED && MAPPED.load(Ordering::Relaxed) >= MAX_MAPPED;
        if length <= SMALL || many() {
            let mut copy = vec![0; length];
            let found = read_at(file, &mut copy, 0).map_err(|e| Error::io("read", path, e))?;
            copy.truncate(found);
            return Ok(Map { watched: None, map: None, copy });
        }
        // SAFETY: the mapping is read-only and private to this process. Other processes that write to the file change
        // bytes under it: all code here treats the bytes as hostile, checks every index against the mapping's length,
        // and relies on no byte staying the same. The tracer only appends, beyond the length taken here. A file that
        // is truncated meanwhile raises SIGBUS, see `crate::file::truncation`.
        let map =
            unsafe { MmapOptions::new().len(length).map(file) }.map_err(|e| Error::io("map", path, e))?;
        MAPPED.fetch_add(1, Ordering::Relaxed);
        let watched = Some(Watched::new(map.as_ptr(), map.len()));
        Ok(Map { watched, map: Some(map), copy: Vec::new() })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.watched.is_some() {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The pieces of a file between its holes. The pieces are copied if the file itself must not be mapped, or if it has
/// large holes.
struct Pieces {
    ranges: Vec<Range<u64>>,
    length: u64,
}

impl Pieces {
    /// Returns the pieces of a file that is to be copied; `None` if the file itself can be mapped.
    fn of(file: &File, found: &Metadata) -> io::Result<Option<Pieces>> {
        let (length, of_other) = (found.len(), is_of_another_user(found));
        if length == 0 || (!of_other && size_on_disk(found).saturating_add(LARGE_HOLE) > length) {
            return Ok(None);
        }
        let (mut ranges, mut at) = (Vec::new(), 0);
        while let Some(range) = next_data(file, at, length) {
            at = range.end;
            ranges.push(range);
            if ranges.len() > MAX_PIECES {
                return Err(io::Error::other(format!("it has more than {MAX_PIECES} holes")));
            }
        }
        let pieces = Pieces { ranges, length };
        Ok(Some(pieces).filter(|pieces| of_other || pieces.left_out() >= LARGE_HOLE))
    }

    /// Returns the number of bytes that a copy has in place of a hole of `hole` bytes. For a large hole they are just
    /// enough to show that there is one, and keep the blocks of raw files at multiples of the block size.
    fn shortened(hole: u64) -> u64 {
        if hole < LARGE_HOLE { hole } else { BLOCK + hole % BLOCK }
    }

    /// Returns the lengths in bytes of the holes before the first piece, between the pieces and after the last piece; 0
    /// if there is no hole.
    fn holes(&self) -> impl Iterator<Item = u64> {
        let starts = self.ranges.iter().map(|range| range.start).chain([self.length]);
        let ends = [0].into_iter().chain(self.ranges.iter().map(|range| range.end));
        starts.zip(ends).map(|(start, end)| start - end)
    }

    /// Returns the number of bytes that a copy leaves out.
    fn left_out(&self) -> u64 {
        self.holes().map(|hole| hole - Pieces::shortened(hole)).sum()
    }

    /// Copies the pieces into a private file without a name; returns it with its length.
    fn copied(&self, file: &File) -> io::Result<(File, u64)> {
        let copy = scratch_file()?;
        let mut out = io::BufWriter::with_capacity(WINDOW, &copy);
        let mut window = vec![0; WINDOW];
        let mut length = 0;
        for (range, hole) in self.ranges.iter().zip(self.holes()) {
            length += Pieces::shortened(hole);
            io::Seek::seek(&mut out, io::SeekFrom::Start(length))?;
            let mut at = range.start;
            while at < range.end {
                let part = usize::try_from(range.end - at).unwrap_or(WINDOW).min(WINDOW);
                let read = read_at(file, &mut window[..part], at)?;
                if read == 0 {
                    // The file has become shorter.
                    break;
                }
                out.write_all(&window[..read])?;
                (at, length) = (at + read as u64, length + read as u64);
            }
            if at < range.end {
                out.flush()?;
                drop(out);
                return Ok((copy, length));
            }
        }
        out.flush()?;
        drop(out);
        length += self.holes().last().map_or(0, Pieces::shortened);
        copy.set_len(length)?;
        Ok((copy, length))
    }
}

/// Creates a private file without a name, on a disk if there is one: the system's directory for temporary files may
/// be memory.
fn scratch_file() -> io::Result<File> {
    let large = place_of_large_files().and_then(|place| tempfile::tempfile_in(place).ok());
    large.map_or_else(tempfile::tempfile, Ok)
}

/// The beginning and the end of a file, which identify it.
pub(crate) enum Known {
    /// All bytes of the file.
    Whole(Map),
    /// The first and the last bytes of a file that would have to be copied, and the number of bytes in holes that a
    /// copy leaves out.
    Ends(Vec<u8>, u64),
}

impl Known {
    /// Reads the beginning and the end of the regular file at `path`, see [`Map::open`]; `is_regular` means that it
    /// was recently seen to be regular.
    ///
    /// # Errors
    /// If the file cannot be opened or read, or is not a regular file.
    pub(crate) fn open(path: &Path, is_regular: bool) -> Result<Known, Error> {
        let (file, found) = if is_regular { open_known(path)? } else { open_regular(path)? };
        let failed = |error| Error::io("read", path, error);
        match Pieces::of(&file, &found).map_err(failed)? {
            None => Map::of_length(&file, found.len(), path).map(Known::Whole),
            Some(pieces) => {
                ends(&file, &pieces).map(|ends| Known::Ends(ends, pieces.left_out())).map_err(failed)
            }
        }
    }
}

/// Reads the beginning of a file and its end, without the holes at the end. Joins both parts so that the first ends and
/// the second begins with a whole line or, in a raw file, with a whole block.
fn ends(file: &File, pieces: &Pieces) -> io::Result<Vec<u8>> {
    let end = pieces.ranges.last().map_or(0, |range| range.end);
    let read = |range: Range<u64>| {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        let found = read_at(file, &mut bytes, range.start)?;
        bytes.truncate(found);
        io::Result::Ok(bytes)
    };
    if end <= 2 * ENDS {
        return read(0..end);
    }
    let mut head = read(0..ENDS)?;
    if Encoding::of(&head) == Encoding::Raw {
        head.extend(read((end - 1) / BLOCK * BLOCK..end)?);
        return Ok(head);
    }
    let mut wanted = ENDS;
    let tail = loop {
        let tail = read(end.saturating_sub(wanted).max(ENDS)..end)?;
        let whole = tail.strip_suffix(b"\n").unwrap_or(&tail);
        match memchr::memchr(b'\n', whole) {
            Some(feed) => break tail[feed + 1..].to_vec(),
            None if wanted >= MAX_TAIL_BYTES || end - wanted.min(end) <= ENDS => break Vec::new(),
            None => wanted *= 4,
        }
    };
    head.truncate(memchr::memrchr(b'\n', &head).map_or(head.len(), |feed| feed + 1));
    if !head.ends_with(b"\n") {
        head.push(b'\n');
    }
    head.extend(tail);
    Ok(head)
}

/// The number of bytes of a mapping that are released at once: each release interrupts the other threads.
#[cfg(unix)]
const STEP: usize = 4 << 20;

impl Map {
    /// Advises the system that the bytes in `range` and all before them will not be read again soon, so that they
    /// need not count as this process's memory.
    pub(crate) fn forget(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let (Some(map), Some(_)) = (&self.map, &self.watched) {
            // Only whole steps are released: the rest of one is released with the next range.
            let (start, end) = (range.start / STEP * STEP, range.end / STEP * STEP);
            if start < end {
                // SAFETY: the mapping is shared, read-only and of a file: pages that are read again are taken
                // from there again, and truncated ones are zeros again.
                let _ = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Returns the offset from which on the mapping has zeros because the file was truncated since it was mapped;
    /// `None` if it was not. The offset is the beginning of a page, so there may be zeros before it, too.
    #[must_use]
    pub(crate) fn truncated_at(&self) -> Option<usize> {
        self.watched.as_ref()?.truncated_at()
    }

    /// Returns a map without bytes.
    pub(crate) fn nothing() -> Map {
        Map { watched: None, map: None, copy: Vec::new() }
    }

    /// Advises the system that the bytes will be read from the first to the last.
    pub(crate) fn advise_sequential(&self) {
        #[cfg(unix)]
        // The system reads small files ahead anyway.
        if let Some(map) = self.map.as_ref().filter(|map| map.len() >= STEP) {
            // Reading ahead only speeds up: without it, the results are the same.
            let _ = map.advise(memmap2::Advice::Sequential);
        }
    }
}

/// Advises the processor, if it supports this, that `length` bytes at `start` will be needed soon, so that memory is
/// loaded from many addresses at the same time. Neither reads nor writes the bytes, so any address is allowed.
#[inline]
pub(crate) fn prefetch(start: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..length).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: this is a hint, which accesses nothing and raises no fault wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, length);
}

#[cfg(any(test, feature = "parquet"))]
impl Map {
    /// Returns a mapping of `bytes`, without a file.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn of_memory(bytes: &[u8]) -> io::Result<Map> {
        if bytes.is_empty() {
            return Ok(Map::nothing());
        }
        let mut map = memmap2::MmapMut::map_anon(bytes.len())?;
        map.copy_from_slice(bytes);
        Ok(Map { watched: None, map: Some(map.make_read_only()?), copy: Vec::new() })
    }
}

#[cfg(test)]
impl Map {
    /// Returns a mapping of `bytes`, without a file.
    pub(crate) fn of(bytes: &[u8]) -> Map {
        Map::of_memory(bytes).unwrap()
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&self.copy)
    }
}

/// Opens the regular file at `path` for reading, following symbolic links; returns it with its metadata.
///
/// # Errors
/// If the file is not a regular one, or cannot be opened.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), Error> {
    // The type is checked before the file is opened, because opening a device may already have effects.
    let metadata = fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    regular(path, &metadata)?;
    open_known(path)
}

/// Does the work of [`open_regular`] for a path that was recently seen to be that of a regular file: for thousands of
/// files a second check takes time.
///
/// # Errors
/// If the file cannot be opened, or is not a regular file.
pub(crate) fn open_known(path: &Path) -> Result<(File, Metadata), Error> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    // If a FIFO has replaced the file meanwhile, opening it must not block.
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = open_with_retries(|| options.open(path)).map_err(|e| Error::io("open", path, e))?;
    let metadata = file.metadata().map_err(|e| Error::io("examine", path, e))?;
    regular(path, &metadata)?;
    Ok((file, metadata))
}

/// Checks that the metadata are those of a regular file; `path` is for the error.
fn regular(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_file() {
        return Ok(());
    }
    let what = if metadata.is_dir() { "it is a directory" } else { "it is not a regular file" };
    Err(Error::io("read", path, io::Error::other(what)))
}
