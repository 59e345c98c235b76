//! Copies of a run's files: if several files claim to be the same file of a run, one is shown.
//!
//! Each file has its number among the files of its run (`file=` in its `# thread` line), so a number that occurs
//! twice indicates a copy: a backup beside the original, a copied directory, a merged file under the name of a trace.
//! Files of early versions have no number, and neither have those that are recovered without the run's life file; a
//! copy of such a file is one with the same bytes, as far as both go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use itertools::Itertools;
use trace_format::file::run_of;
use trace_format::line::Line;
use trace_format::raw::Raw;

use crate::file::lines::{Token, line_at, skip_bad, strip_line_feed};
use crate::file::map::Map;
use crate::find::header::Trace;
use crate::find::owners::{Owners, Rank};
use crate::ui::few::FirstItems;
use crate::ui::messages::{Messages, shown};

/// A file that is left out because it is a copy: another file has the same number in the same run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileCopy {
    /// The path of the file that is left out.
    pub path: PathBuf,
    /// The path of the file that is shown.
    pub original: PathBuf,
    /// The id of the process that has written the file.
    pub pid: u32,
}

/// Removes the copies from `traces` and returns them. Files are copies of each other if they have the same number in a
/// run and begin with the same thread id. Files of a run that have no number must have the same first ticks in place of
/// the number, and one file must begin with all bytes of the other. Of several copies, one stays. The first of these
/// criteria that distinguishes the copies decides:
///
/// - the file was read together with its ring
/// - its owner is nearest to the caller
/// - all its lines belong to one thread
/// - it is the longest
/// - its name has the thread id of its first line
/// - the number in its name is the lowest
///
/// Reads only files whose number occurs twice, and files without a number that begin at the same time.
pub(crate) fn remove_copies(traces: &mut Vec<Trace>, owners: &Owners) -> Vec<FileCopy> {
    let mut same: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
    for (place, trace) in traces.iter().enumerate() {
        if let Some(identity) = Identity::of(trace) {
            same.entry(identity).or_default().push(place);
        }
    }
    let mut copies = Vec::new();
    let mut is_copy = vec![false; traces.len()];
    for (identity, places) in same.into_iter().filter(|(_, places)| places.len() > 1) {
        let candidates = places.into_iter().map(|place| Candidate::of(place, &traces[place], owners));
        // A run that was killed at the wrong moment may have assigned a number twice, to files of two threads.
        for (_, mut candidates) in candidates.into_group_map_by(|candidate| candidate.first_tid) {
            candidates.sort_by(|a, b| a.order(traces).cmp(&b.order(traces)));
            let [original, rest @ ..] = &candidates[..] else { continue };
            for copy in rest.iter().filter(|copy| identity.is_numbered() || copy.begins_like(original)) {
                is_copy[copy.place] = true;
                let path = |candidate: &Candidate| traces[candidate.place].path.clone();
                copies.push(FileCopy { path: path(copy), original: path(original), pid: identity.pid });
            }
        }
    }
    let mut places = is_copy.into_iter();
    traces.retain(|_| !places.next().unwrap_or(false));
    copies.sort_by(|a, b| a.path.cmp(&b.path));
    copies
}

/// Reports the copies, each with the file that is shown in its place.
pub(crate) fn report(copies: &[FileCopy], messages: &mut Messages) {
    let mut few: FirstItems<&FileCopy> = FirstItems::default();
    copies.iter().for_each(|copy| few.push(copy));
    for (copy, more) in few.each() {
        messages.warn(format_args!(
            "{} is left out: its first lines say that it is the same trace file of process {} as {}; if it is a \
             copy, move it elsewhere or delete it{more}",
            shown(&copy.path),
            copy.pid,
            shown(&copy.original),
        ));
    }
}

/// The properties by which a file and its copies are recognized: they are equal in all of them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    boot: Vec<u8>,
    pid: u32,
    run: u32,
    file: FileNumber,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FileNumber {
    /// The number of the file among the files of its run.
    Known(u64),
    /// The first ticks of a file without a number. The thread id in its name does not count, because a copy may have
    /// the name of another thread's file; and neither do its last ticks, because a copy may have been made earlier.
    Unknown(u64),
}

impl Identity {
    /// Returns the identity of a file; `None` if its run is unknown, or if only its ring exists.
    fn of(trace: &Trace) -> Option<Identity> {
        let run = trace.run.as_ref()?;
        let number = trace.marks.thread.as_ref().and_then(|thread| thread.file).map(u64::from);
        let unknown = || FileNumber::Unknown(trace.first);
        trace.id.as_ref()?;
        let file = number.map_or_else(unknown, FileNumber::Known);
        Some(Identity { boot: run.boot.clone(), pid: run.pid, run: run.id, file })
    }

    fn is_numbered(&self) -> bool {
        matches!(self.file, FileNumber::Known(_))
    }
}

/// One of several files that have the same identity.
struct Candidate {
    place: usize,
    rank: Rank,
    map: Option<Arc<Map>>,
    /// The thread id of the first line, if it has one.
    first_tid: Option<u64>,
    /// Whether all lines have the same thread id. This is false for a merged file, which has lines of several threads.
    is_of_one_thread: bool,
}

impl Candidate {
    fn of(place: usize, trace: &Trace, owners: &Owners) -> Candidate {
        let map = trace.map.clone().or_else(|| Map::open(&trace.path).ok().map(Arc::new));
        let first_tid = map.as_ref().and_then(|map| run_of(map)).map(|(key, _)| key.tid);
        let tid = first_tid.unwrap_or(trace.tid);
        let is_of_one_thread = map.as_ref().is_none_or(|map| is_of_thread(map, tid));
        Candidate { place, rank: owners.rank(trace.owner), map, first_tid, is_of_one_thread }
    }

    fn bytes(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| map)
    }

    /// Returns whether the shorter one of both files is the beginning of the longer one.
    fn begins_like(&self, other: &Candidate) -> bool {
        self.bytes().starts_with(other.bytes()) || other.bytes().starts_with(self.bytes())
    }

    /// Returns the sorting key of the file: the file that should stay comes first.
    fn order<'a>(&self, traces: &'a [Trace]) -> impl Ord + use<'a> {
        let trace = &traces[self.place];
        let longest = std::cmp::Reverse(self.bytes().len());
        let path: &Path = &trace.path;
        // A copy under another thread's name may be the longer one: the program may have been killed after the
        // original was replaced, and the copy may have the inode number that the program has recorded.
        let is_misnamed = self.first_tid != Some(trace.tid);
        (trace.held.is_none(), self.rank, !self.is_of_one_thread, longest, is_misnamed, trace.number, path)
    }
}

/// Returns whether all lines have the thread id `tid`.
fn is_of_thread(bytes: &[u8], tid: u64) -> bool {
    if let Some(raw) = Raw::parse(bytes) {
        return raw.tid() == tid;
    }
    let mut at = 0;
    loop {
        match line_at(bytes, at) {
            Token::End => return true,
            Token::Bad => at = skip_bad(bytes, at),
            Token::Line(line) => match Line::parse(strip_line_feed(&bytes[at..line.end])) {
                Ok(parsed) if parsed.key.tid != tid => return false,
                _ => at = line.end,
            },
        }
    }
}
