//! Runs work on many files in threads on all processors, because even work that is short for one file takes long for
//! thousands of files.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

/// The number of bytes of all files together up to which only one thread works: it finishes sooner than a second thread
/// would start.
const MIN_BYTES_PER_THREAD: usize = 1 << 20;
/// The cost of opening a file, as the number of bytes that can be read in the same time.
pub(crate) const OPENING_COST: usize = 16 << 10;
/// The cost of reading a file's metadata, as the number of bytes that can be read in the same time.
pub(crate) const METADATA_COST: usize = 4 << 10;

/// Returns the results of `look` for all files, in the order of the files. The files are independent of each other, so
/// threads on all processors call `look` if there is enough to read; `bytes` returns approximately how many bytes
/// `look` reads of a file.
pub(crate) fn map_on_all_processors<F: Sync, T: Default + Send>(
    files: &[F],
    bytes: impl Fn(&F) -> usize,
    look: impl Fn(&F) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = iter::from_fn(|| {
            let file = next.fetch_add(1, Ordering::Relaxed);
            Some((file, look(files.get(file)?)))
        });
        mine.collect::<Vec<_>>()
    };
    let mut all: Vec<T> = files.iter().map(|_| T::default()).collect();
    let mut put = |found: Vec<(usize, T)>| {
        found.into_iter().for_each(|(file, found)| all[file] = found);
    };
    let large = files.iter().map(bytes).sum::<usize>() > MIN_BYTES_PER_THREAD;
    let others = if large {
        thread::available_parallelism().map_or(0, |all| all.get().min(files.len()).saturating_sub(1))
    } else {
        0
    };
    thread::scope(|scope| {
        // A thread that cannot be started leaves its share to the others.
        let threads: Vec<_> =
            (0..others).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        put(work());
        for thread in threads {
            // No thread panics. If one did, the merge would notice that its files are not sorted.
            put(thread.join().unwrap_or_default());
        }
    });
    all
}
