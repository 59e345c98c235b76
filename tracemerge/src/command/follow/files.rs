//! The trace files of the followed runs: those that exist when following begins, and those that are created later.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use trace_format::file::{FIRST_BYTES, run_of};
use trace_format::meta::Run;
use trace_format::name::{INFIX, parse_trace_file_suffix, trace_file_suffix};
use trace_format::raw::Raw;
use trace_store::recovery::path_from_bytes;

use crate::command::follow::runs::Runs;
use crate::command::follow::stream::ThreadKey;
use crate::file::map::{Map, open_regular};
use crate::find::owners::{Owners, Rank, recorded_in};
use crate::os::sys::{FileId, file_id, owner};
use crate::ui::messages::{Messages, shown};

/// The time within which the clock of any file system advances by at least one step.
const CLOCK_GRANULARITY: Duration = Duration::from_millis(100);

/// A trace file of a run that may be followed.
pub(super) struct ListedFile {
    /// The thread that the file belongs to.
    pub key: ThreadKey,
    /// The path of the file.
    pub path: PathBuf,
    /// The identity of the file in the file system.
    pub id: FileId,
    /// The run that the file belongs to.
    pub run: Run,
    /// The number in the file's name. If a thread writes several files, later ones have higher numbers.
    number: u32,
}

/// The directories that were searched, each with the time of its last change, as it was at the last search.
#[derive(Default)]
pub(super) struct Directories(HashMap<PathBuf, SystemTime>);

impl Directories {
    /// Returns whether entries of a directory may have been added or removed since the last call for the same
    /// directory.
    pub(super) fn may_have_changed(&mut self, path: &Path) -> bool {
        let changed = fs::metadata(path).and_then(|found| found.modified()).ok();
        if changed.is_some() && self.0.get(path) == changed.as_ref() {
            return false;
        }
        // Another change within the same tick of the file system's clock must not be missed.
        match changed.filter(|at| at.elapsed().is_ok_and(|since| since > CLOCK_GRANULARITY)) {
            Some(at) => drop(self.0.insert(path.to_owned(), at)),
            None => self.forget(path),
        }
        changed.is_some()
    }

    /// Forgets the last search of a directory, so that the next call of [`may_have_changed`](Self::may_have_changed)
    /// returns true if the directory exists.
    pub(super) fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }
}

/// The trace files that were found in the directories of the followed runs.
#[derive(Default)]
pub(super) struct Files {
    directories: Directories,
    /// The files that were already examined, each with its path, because another file may get the inode number of a
    /// deleted one.
    seen: HashSet<(PathBuf, FileId)>,
    /// For each path, the file that was last found there: after a rotation, a new file may get the inode number of an
    /// old one.
    named: HashMap<PathBuf, FileId>,
    found: Vec<ListedFile>,
    /// The paths of files whose first line does not name a run, to be reported to the user.
    unread: Vec<PathBuf>,
}

impl Files {
    /// Searches for new files of the followed runs. `users` are the users whose files count.
    pub(super) fn look(&mut self, runs: &Runs, users: &Owners, messages: &mut Messages) {
        for (place, name) in runs.places() {
            if self.directories.may_have_changed(place) && !self.look_in(place, name, users) {
                self.directories.forget(place);
            }
        }
        for path in self.unread.drain(..) {
            messages.warn(format_args!(
                "{} does not begin with a readable '# run' line, so its run is unknown: only those of its lines \
                 are shown that are still in the thread's ring in memory",
                shown(&path)
            ));
        }
    }

    /// Searches the directory `place` for trace files whose names begin with `name`. Returns whether the first line of
    /// each of them was already there; a file may have just been created.
    fn look_in(&mut self, place: &Path, name: &[u8], users: &Owners) -> bool {
        let (mut all_read, mut has_found) = (true, false);
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let file_name = entry.file_name();
            let suffix = file_name.as_encoded_bytes().strip_prefix(name);
            let Some((_, number)) = suffix.and_then(parse_trace_file_suffix) else { continue };
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let id = file_id(&path, &metadata);
            let known = (path.clone(), id.clone());
            let is_last = self.named.get(&path).is_none_or(|last| *last == known.1);
            if !metadata.is_file() || (is_last && self.seen.contains(&known)) {
                continue;
            }
            match first_line(&path) {
                Some((key, _)) if !self.counts(owner(&metadata), &key, users) => {
                    // If the run becomes that user's, the directory changes, and the file is checked again.
                }
                Some((key, run)) => {
                    self.seen.insert(known);
                    self.named.insert(path.clone(), id.clone());
                    self.found.retain(|known| known.path != path);
                    self.found.push(ListedFile { key, path, id, run, number });
                    has_found = true;
                }
                // The file has just been created, or is not a trace.
                None if metadata.len() < FIRST_BYTES as u64 && !has_line(&path) => all_read = false,
                None => {
                    if users.rank(owner(&metadata)) != Rank::Other && self.seen.insert(known) {
                        self.unread.push(path);
                    }
                }
            }
        }
        if has_found {
            self.found.sort_by_key(|found| found.number);
        }
        all_read
    }

    /// Returns whether a file that `user` owns may belong to the run of `key`. Files of the caller and of the
    /// executable's owner may; files of another user may only if the run has recorded that its process changed to this
    /// user.
    fn counts(&self, user: u32, key: &ThreadKey, users: &Owners) -> bool {
        if users.rank(user) != Rank::Other {
            return true;
        }
        let is_believed = |path: &Path| fs::metadata(path).is_ok_and(|found| users.may_record(owner(&found)));
        let of_run = self.found.iter().filter(|found| found.key.run == key.run && is_believed(&found.path));
        let mut said = of_run.filter_map(|found| Map::open(&found.path).ok());
        said.any(|map| recorded_in(&map).contains(&user))
    }

    /// Returns the files of followed runs. The files of a thread are in the order in which the thread wrote them.
    pub(super) fn found(&self, runs: &Runs) -> impl Iterator<Item = &ListedFile> {
        self.found.iter().filter(|found| runs.is_followed(&found.run))
    }
}

/// Returns the files that the thread `key` wrote before the file at `path`, the oldest first, with their lengths in
/// bytes. They have lower numbers in their names; the search goes down to a file that `is_known`, or that belongs to
/// another thread.
pub(super) fn left_before(
    path: &Path,
    key: &ThreadKey,
    is_known: impl Fn(&FileId) -> bool,
) -> Vec<(PathBuf, FileId, u64)> {
    let mut left = Vec::new();
    let Some(name) = path.file_name().map(OsStr::as_encoded_bytes) else { return left };
    let Some((stem, (tid, number))) = memchr::memmem::rfind(name, INFIX.as_bytes())
        .and_then(|at| Some((&name[..at], parse_trace_file_suffix(&name[at..])?)))
    else {
        return left;
    };
    for number in (0..number).rev() {
        let name = [stem, trace_file_suffix(tid, number).as_bytes()].concat();
        let path = path.with_file_name(path_from_bytes(&name));
        let Ok(metadata) = fs::metadata(&path) else { break };
        let id = file_id(&path, &metadata);
        if is_known(&id) || first_line(&path).is_none_or(|(found, _)| found != *key) {
            break;
        }
        left.push((path, id, metadata.len()));
    }
    left.reverse();
    left
}

/// Returns whether the file has at least one whole line or, in raw form, one whole record.
fn has_line(path: &Path) -> bool {
    let Ok(map) = Map::open(path) else { return false };
    match Raw::parse(&map) {
        Some(raw) => raw.first_payload().is_some(),
        None => memchr::memchr(b'\n', &map).is_some(),
    }
}

/// Returns the thread and the run that the first line of the file names; `None` if it names none.
pub(super) fn first_line(path: &Path) -> Option<(ThreadKey, Run)> {
    let mut start = Vec::new();
    open_regular(path).ok()?.0.take(FIRST_BYTES as u64).read_to_end(&mut start).ok()?;
    let (key, run) = run_of(&start)?;
    Some((ThreadKey::new((run.pid, run.id), key.tid, key.ticks.0), run))
}
