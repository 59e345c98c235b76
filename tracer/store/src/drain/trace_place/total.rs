//! The limit for the total size of a run's files: adds up the sizes of the files, and drops files if the limit is
//! reached.
//!
//! The oldest files of threads that have ended are dropped as a whole. Before the flusher removes such a file, it adds
//! the file's counts to the sums for dropped files in the run's life file. If the process is killed in between,
//! recovery removes the file. If no thread has ended, the flusher chooses files that are still being written, and drops
//! their older halves.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use trace_format::file::{FIRST_BYTES, run_of, thread_of};
use trace_format::life::Dropped;
use trace_format::meta::LossReason;

use super::TracePlace;
use crate::life::Lock;
use crate::reading::read_at_most;
use crate::sys;

/// The number of bytes in one block of a file system: files take whole blocks.
const BLOCK: u64 = 4096;
/// The length in bytes below which a file of a living thread is not shortened.
pub const SMALLEST_FILE: u64 = 16 * 1024;
/// The number of bytes that are left free for the run's own file and for files that are about to be made.
const SPARE: u64 = 4 * BLOCK;

/// Returns the number of bytes that a file of this length takes on a disk.
fn allocated(length: u64) -> u64 {
    length.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// The file of a thread that has ended.
#[derive(Clone, Debug)]
pub struct EndedFile {
    pub(in crate::drain) tid: u64,
    /// The number at the end of the file's name, which distinguishes files with the same thread id; 0 if the name ends
    /// without a number.
    pub(in crate::drain) number: u32,
    /// The number that the file has among the files of its run.
    pub(in crate::drain) serial: u32,
    pub(in crate::drain) device: u64,
    pub(in crate::drain) inode: u64,
    pub(in crate::drain) length: u64,
    pub(in crate::drain) records: u64,
    /// The numbers of lost records that the file reports, one for each [`LossReason`], in its order; `None` if it
    /// reports none.
    pub(in crate::drain) lost: Option<Box<[u64; LossReason::COUNT]>>,
}

/// The total size of a run's files, and its limit.
#[derive(Debug)]
pub(super) struct Total {
    /// The greatest number of bytes that the run's files may take.
    most: u64,
    /// The number of bytes that the run's files take.
    taken: u64,
    /// The length of the longest file that is being written, as far as it is known.
    longest: u64,
    /// The files of threads that have ended, the oldest first.
    ended: VecDeque<EndedFile>,
    /// The number of files that the run has dropped so far, and the sums of what they contained.
    dropped: Dropped,
    /// Whether no file can be dropped or shortened for now.
    is_at_floor: bool,
}

impl Default for Total {
    fn default() -> Total {
        let dropped = Dropped::default();
        Total { most: u64::MAX, taken: 0, longest: 0, ended: VecDeque::new(), dropped, is_at_floor: false }
    }
}

impl Total {
    /// Returns the greatest number of bytes that should be written to a file at once.
    pub(super) fn portion(&self) -> u64 {
        (self.most / 16).max(BLOCK)
    }

    /// Returns whether the files take so much space that some must be dropped before more is written. The space
    /// includes what a rotation of the longest file needs: its newer half is written to a new file before the old file
    /// is removed.
    fn is_over(&self) -> bool {
        let wanted = self.taken.saturating_add(allocated(self.longest / 2)).saturating_add(self.portion());
        self.most != u64::MAX && wanted.saturating_add(SPARE) > self.most
    }
}

impl TracePlace {
    /// Limits the disk space of all files of the run together to `most` bytes.
    pub fn limit_total(&mut self, most: u64) {
        self.total.most = most;
    }

    /// Returns whether files must be dropped before more is written. Returns false after `note_nothing_droppable` was
    /// called.
    pub fn is_over_total(&self) -> bool {
        !self.total.is_at_floor && self.total.is_over()
    }

    /// Returns the number of files that the run has dropped so far, and the sums of what they contained.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.total.dropped
    }

    /// Adds the growth of a file of the run to the total size. The file had `before` bytes, and has `now` bytes; 0
    /// stands for no file.
    pub(in crate::drain) fn note_growth(&mut self, before: u64, now: u64) {
        let total = &mut self.total;
        total.taken = total.taken.saturating_add(allocated(now)).saturating_sub(allocated(before));
        total.longest = total.longest.max(now);
    }

    /// Adds the file of a thread that has ended to the list of files that may be dropped, if the total size is limited.
    pub fn note_ended(&mut self, file: Option<EndedFile>) {
        if self.total.most != u64::MAX {
            self.total.ended.extend(file);
        }
    }

    /// Cancels [`TracePlace::note_nothing_droppable`], because there may be files to drop again.
    pub fn recheck_total(&mut self) {
        self.total.is_at_floor = false;
    }

    /// Drops files of threads that have ended, the oldest first, until there is room, or no such file is left.
    /// `longest` is the length in bytes of the longest file that is being written.
    pub fn drop_ended(&mut self, run: u32, longest: u64) {
        self.total.longest = longest;
        while self.total.is_over() {
            let Some(file) = self.total.ended.pop_front() else { return };
            self.drop_file(run, file);
        }
    }

    /// Notes that nothing more can be dropped. [`TracePlace::is_over_total`] returns false from then on, until
    /// [`TracePlace::recheck_total`] is called.
    pub fn note_nothing_droppable(&mut self) {
        self.total.is_at_floor = true;
    }

    fn drop_file(&mut self, run: u32, file: EndedFile) {
        self.note_growth(file.length, 0);
        let places: Vec<PathBuf> = self.directories.iter().chain(&self.left).cloned().collect();
        let name = self.file_name(file.tid, file.number);
        // A file that a user has renamed is kept, and a file that a user has removed is not counted.
        let path = places.into_iter().map(|place| place.join(&name)).find(|path| {
            sys::path_identity(path).is_ok_and(|found| found.is(file.device, file.inode) && found.links > 0)
                && is_file_of(path, run, file.serial)
        });
        let Some(path) = path else { return };
        let before = self.total.dropped;
        let dropped = &mut self.total.dropped;
        dropped.files += 1;
        dropped.records = dropped.records.saturating_add(file.records);
        for (sum, lost) in dropped.lost.iter_mut().zip(file.lost.as_deref().into_iter().flatten()) {
            *sum = sum.saturating_add(*lost);
        }
        dropped.last = [file.tid, file.number.into(), file.serial.into()];
        self.publish_dropped();
        if std::fs::remove_file(&path).is_err() && path.exists() {
            // The file still exists, so it is not counted as dropped.
            self.total.dropped = before;
            self.publish_dropped();
        }
    }

    fn publish_dropped(&self) {
        self.lives.iter().for_each(|page| page.set_dropped(&self.total.dropped));
    }

    /// Continues with the sums for dropped files of a dead run, and removes the file that the run was about to remove
    /// when it died.
    pub(crate) fn finish_drops(&mut self, run: u32, page: &Arc<Lock>) {
        let Some(dropped) = page.life().ok().flatten().map(|life| life.drops.get()) else { return };
        self.total.dropped = dropped;
        let [tid, number, serial] = dropped.last;
        let (Ok(number), Ok(serial)) = (u32::try_from(number), u32::try_from(serial)) else { return };
        if dropped.files > 0 {
            let name = self.file_name(tid, number);
            let paths = self.directories.iter().chain(&self.left).map(|place| place.join(&name));
            for path in paths.filter(|path| is_file_of(path, run, serial)) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Returns whether the file at `path` belongs to run `run` and has the number `serial` among the files of this run.
fn is_file_of(path: &std::path::Path, run: u32, serial: u32) -> bool {
    let Ok(file) = sys::open_named_file(path) else { return false };
    let Ok(first) = read_at_most(&file, FIRST_BYTES as u64) else { return false };
    let of_run = run_of(&first).is_some_and(|(_, found)| found.id == run);
    of_run && thread_of(&first).is_some_and(|thread| thread.file == Some(serial))
}
