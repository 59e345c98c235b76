//! Words that several processes share: a file that each of them maps, and that outlives them.
#![allow(unsafe_code, reason = "atomics in a mapped file")]

use memmap2::MmapRaw;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Maps a file of so many words for as long as this process lives.
///
/// # Panics
/// If the file cannot be mapped, or is shorter.
#[must_use]
pub fn words(path: &Path, count: usize) -> &'static [AtomicU64] {
    let file = File::options().read(true).write(true).open(path).expect("the file of words");
    let map: &'static MmapRaw = Box::leak(Box::new(MmapRaw::map_raw(&file).expect("a mapping")));
    assert!(map.len() >= count * 8, "{} bytes", map.len());
    // SAFETY: the mapping is long enough, begins at a page, and is never unmapped; all processes that map the file
    // use it as atomics, and any bytes are valid ones.
    unsafe { std::slice::from_raw_parts(map.as_ptr().cast::<AtomicU64>(), count) }
}
