//! Files as memory: opened, mapped and closed again, so that thousands of files take no descriptors.
//!
//! All `unsafe` here is for the mapping, for advice to the system, and for a hint to the processor. Only
//! regular files are mapped: a FIFO or a device in the place of a trace would block or never end.
#![allow(unsafe_code)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::file::truncation::Watched;
use crate::os::sys::patiently;
use crate::ui::error::Error;
use crate::ui::messages::shown;

/// The number of bytes that a processor fetches at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The bytes of a file, or of nothing.
#[derive(Debug)]
pub struct Map {
    /// The watch, which stands before the mapping so that it ends earlier. Only the mapping of a file is
    /// watched.
    watched: Option<Watched>,
    map: Option<Mmap>,
}

impl Map {
    /// Maps the regular file at `path`; symbolic links are followed.
    ///
    /// # Errors
    /// The file is not a regular one, or cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Map, Error> {
        let (file, length) = open_regular(path)?;
        Map::of_length(&file, length, path)
    }

    /// Maps a file that [`open_known`] may open.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is no regular file.
    pub fn open_known(path: &Path) -> Result<Map, Error> {
        let (file, length) = open_known(path)?;
        Map::of_length(&file, length, path)
    }

    /// Maps a file that is open for reading; `path` is for messages.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn of_file(file: &File, path: &Path) -> Result<Map, Error> {
        let length = file.metadata().map_err(|e| Error::io("examine", path, e))?.len();
        Map::of_length(file, length, path)
    }

    /// Maps the first `length` bytes of a file, which are all that it has.
    fn of_length(file: &File, length: u64, path: &Path) -> Result<Map, Error> {
        let Ok(length @ 1..) = usize::try_from(length) else {
            // An empty mapping is not allowed; nor can a file be mapped that is longer than this machine's
            // memory can address.
            return if length == 0 {
                Ok(Map::nothing())
            } else {
                Err(Error::plain(format!("{} is too long to be mapped", shown(path))))
            };
        };
        // SAFETY: the mapping is read-only and private to this process. Whoever else writes to the file
        // changes bytes under it: all code here takes the bytes as hostile, checks every index against the
        // mapping's length, and relies on no byte staying what it was. The tracer only appends, beyond the
        // length taken here. A file that is truncated meanwhile raises SIGBUS, see `crate::file::truncation`.
        let map =
            unsafe { MmapOptions::new().len(length).map(file) }.map_err(|e| Error::io("map", path, e))?;
        Ok(Map { watched: Some(Watched::new(map.as_ptr(), map.len())), map: Some(map) })
    }
}

/// The number of bytes that are forgotten at once: each call costs the other threads an interruption.
#[cfg(unix)]
const STEP: usize = 4 << 20;

impl Map {
    /// Says that the bytes in `range` and all before them will not be read again soon, so that they need not
    /// count as this process's memory.
    pub fn forget(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let (Some(map), Some(_)) = (&self.map, &self.watched) {
            // Only whole steps are forgotten: the rest of one goes with the next range.
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

    /// The offset from which on the mapping has zeros because the file was truncated since it was mapped;
    /// `None` where all is there. The offset is the beginning of a page, so there may be zeros before it,
    /// too.
    #[must_use]
    pub fn truncated_at(&self) -> Option<usize> {
        self.watched.as_ref()?.truncated_at()
    }

    /// A map without bytes.
    pub fn nothing() -> Map {
        Map { watched: None, map: None }
    }

    /// Says that the bytes will be read from the first to the last.
    pub fn will_be_read_through(&self) {
        #[cfg(unix)]
        // The system reads small files ahead anyway.
        if let Some(map) = self.map.as_ref().filter(|map| map.len() >= STEP) {
            // Reading ahead only helps: without it all is still right.
            let _ = map.advise(memmap2::Advice::Sequential);
        }
    }
}

/// Says that `length` bytes at `start` will be needed in a moment, where the processor can be told: so memory
/// is waited for in many places at once. Neither reads nor writes the bytes, so the address may be any.
#[inline]
pub fn prefetch(start: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..length).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: this is a hint, which accesses nothing and raises no fault wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, length);
}

#[cfg(test)]
impl Map {
    /// Makes a mapping of `bytes`, without a file.
    pub fn of(bytes: &[u8]) -> Map {
        if bytes.is_empty() {
            return Map::nothing();
        }
        let mut map = memmap2::MmapMut::map_anon(bytes.len()).unwrap();
        map.copy_from_slice(bytes);
        Map { watched: None, map: Some(map.make_read_only().unwrap()) }
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

/// Opens the regular file at `path` for reading, symbolic links followed; returns it with its length.
///
/// # Errors
/// The file is not a regular one, or cannot be opened.
pub fn open_regular(path: &Path) -> Result<(File, u64), Error> {
    // The type is asked for before the file is opened, because opening a device may already do something.
    let metadata = fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
    regular(path, &metadata)?;
    open_known(path)
}

/// Does the work of [`open_regular`] for a path that was that of a regular file a moment ago: for thousands
/// of files it takes its time to ask once more.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open_known(path: &Path) -> Result<(File, u64), Error> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    // If a FIFO has taken the file's place meanwhile, it must not block.
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = patiently(|| options.open(path)).map_err(|e| Error::io("open", path, e))?;
    let metadata = file.metadata().map_err(|e| Error::io("examine", path, e))?;
    regular(path, &metadata)?;
    Ok((file, metadata.len()))
}

/// Returns an error unless the metadata are those of a regular file.
fn regular(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_file() {
        return Ok(());
    }
    let what = if metadata.is_dir() { "it is a directory" } else { "it is not a regular file" };
    Err(Error::io("read", path, io::Error::other(what)))
}
