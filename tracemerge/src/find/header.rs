//! The header of a trace file, and the range of its ticks.
//!
//! A file that takes part in the merge is examined again later, when it is known which runs are still alive. If the
//! file's length is still the same then, the file need not be opened again. If there are very many files, none of them
//! stays mapped, because files that are not merged would use up the mappings.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use memchr::{memchr2, memmem, memrchr2};
use trace_format::file::Encoding;
use trace_format::line::{Kind, Line};
use trace_format::meta::{Claim, FIRST_CHECKED, Meta, Run, RunLine, Thread};
use trace_format::raw::Raw;

use crate::file::file_with_ring::FileWithRing;
use crate::file::lines::{Token, first_line, last_ticks, line_at, lines_of, metas_in, strip_line_feed};
use crate::file::map::{Known, Map};
use crate::find::app::App;
use crate::find::marks::Marks;
use crate::find::owners::{Owners, Rank, of_users, recorded};
use crate::find::search::Candidate;
use crate::find::strangers::spend;
use crate::os::processors::{OPENING_COST, map_on_all_processors};
use crate::os::sys::{FileId, effective_user, file_id};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};

/// The number of files above which no file stays mapped: Linux limits a process to 65,530 mappings.
const MAX_KEPT_MAPS: usize = 30_000;

/// The number of bytes at the beginning, and also at the end, of a file that are searched for the thread's name.
const NAMED: usize = 512 << 10;
/// The text that follows the thread id in a `# name` line.
const NAME: &[u8] = b" # name ticks=";

/// A trace file, as its header describes it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The path of the file.
    pub path: PathBuf,
    /// The thread id in the file's name.
    pub tid: u64,
    /// The number in the file's name.
    pub number: u32,
    /// The identity of the file; `None` if there is only a ring, or only the bytes of a thread in a data set.
    pub id: Option<FileId>,
    /// The bytes of the file, if they are kept.
    pub map: Option<Arc<Map>>,
    /// The number of bytes in holes of the file, which are left out when the file is read.
    pub holes: u64,
    /// The file together with the contents of its ring, if the ring was read; the file is not opened again then.
    pub held: Option<Arc<FileWithRing>>,
    /// The owner of the file. If a run has recorded that its process became another user's, this is the user to whom
    /// the run belongs.
    pub owner: u32,
    /// The run to which the file belongs, if its first line names the run.
    pub run: Option<Run>,
    /// The facts that the lines at the beginning and at the end of the file state.
    pub marks: Marks,
    /// The readable values of the first line, if that is a damaged `# run` line.
    pub claim: Option<Claim>,
    /// The ticks of the first line.
    pub first: u64,
    /// The ticks of the last line.
    pub last: u64,
}

impl Trace {
    /// Returns whether the file is still the one that was mapped, with the same length. Returns true if there is no
    /// file.
    #[must_use]
    pub(crate) fn is_unchanged_since_mapped(&self, map: &Map) -> bool {
        if self.id.is_none() {
            return true;
        }
        fs::metadata(&self.path).is_ok_and(|metadata| {
            metadata.len() == map.len() as u64 && self.id == Some(file_id(&self.path, &metadata))
        })
    }
}

/// The reason why a candidate, a file that may be a trace, is left out.
#[derive(Debug)]
pub(crate) enum HeaderRefusal {
    /// The file cannot be read.
    Unreadable(Error),
    /// The file has no bytes.
    Empty(PathBuf),
    /// The file has no line in its first 64 KiB.
    NoTrace(PathBuf),
    /// The file is a trace, but its lines end in CR LF.
    ChangedLineEnds(PathBuf),
}

impl HeaderRefusal {
    fn report_to_user(&self, messages: &mut Messages) {
        match self {
            HeaderRefusal::Unreadable(error) => messages.warn(error),
            HeaderRefusal::Empty(path) => messages.warn(format_args!("{} is empty; left out", shown(path))),
            HeaderRefusal::NoTrace(path) => {
                let path = shown(path);
                messages
                    .warn(format_args!("{path} is not a trace: no line has ticks and a thread id; left out"));
            }
            HeaderRefusal::ChangedLineEnds(path) => {
                let path = shown(path);
                messages.warn(format_args!(
                    "{path} is a trace whose line ends were changed to CR LF, as a transfer in text mode does; left \
                     out. Transfer it again unchanged, or delete the CRs: tr -d '\\r'"
                ));
            }
        }
    }
}

/// Reads the headers of the candidates that belong to the caller or to the executable's owner; returns the traces of
/// `app`.
#[must_use]
pub(crate) fn read_own(candidates: &[Candidate], app: &App, owners: &Owners) -> Vec<Trace> {
    let near = candidates.iter().filter(|candidate| owners.rank(candidate.owner) != Rank::Other);
    let read = near.filter_map(|candidate| Some((candidate, read(candidate, false).ok()?)));
    read.filter(|(candidate, trace)| !candidate.must_match || is_of(trace, app))
        .map(|(_, trace)| trace)
        .collect()
}

/// The result of reading the header of a candidate; `None` if the header was not read.
type HeaderResult = Option<Result<Trace, HeaderRefusal>>;

/// Reads the headers of `candidates` in this order:
///
/// - the caller's own candidates
/// - candidates of other users: all of them if `all` is set or if the caller has no traces, otherwise as many as the
///   time budget for other users allows
/// - the remaining candidates of those users that the caller's processes became
fn read_headers(candidates: &[Candidate], app: &App, all: bool) -> Vec<HeaderResult> {
    let keep = candidates.len() <= MAX_KEPT_MAPS;
    let own = effective_user();
    let read_some = |wanted: &(dyn Fn(usize, &Candidate) -> bool + Sync)| {
        let wanted: Vec<(usize, &Candidate)> =
            candidates.iter().enumerate().filter(|(place, candidate)| wanted(*place, candidate)).collect();
        let found =
            map_on_all_processors(&wanted, |_| OPENING_COST, |(_, candidate)| Some(read(candidate, keep)));
        wanted.into_iter().map(|(place, _)| place).zip(found).collect::<Vec<_>>()
    };
    let mut headers: Vec<HeaderResult> = candidates.iter().map(|_| None).collect();
    let put = |headers: &mut Vec<HeaderResult>, found: Vec<(usize, HeaderResult)>| {
        found.into_iter().for_each(|(place, found)| headers[place] = found);
    };
    let found = read_some(&|_, candidate| candidate.owner == own);
    put(&mut headers, found);
    let is_own_trace = |(read, candidate): &(&HeaderResult, &Candidate)| match read {
        Some(Ok(trace)) => !candidate.must_match || is_of(trace, app),
        _ => false,
    };
    let mut own_traces = headers.iter().zip(candidates).filter(is_own_trace).peekable();
    if all || own_traces.peek().is_none() {
        let found = read_some(&|_, candidate| candidate.owner != own);
        put(&mut headers, found);
        return headers;
    }
    let found = spend(|until| {
        let of_others: Vec<(usize, &Candidate)> =
            candidates.iter().enumerate().filter(|(_, candidate)| candidate.owner != own).collect();
        let in_time =
            |(_, candidate): &(usize, &Candidate)| (Instant::now() < until).then(|| read(candidate, keep));
        let found = map_on_all_processors(&of_others, |_| OPENING_COST, in_time);
        of_others.into_iter().map(|(place, _)| place).zip(found).collect::<Vec<_>>()
    });
    if found.iter().any(|(_, read)| read.is_none()) {
        let became: HashSet<u32> = own_traces
            .filter_map(|(read, _)| Some(recorded(read.as_ref()?.as_ref().ok()?)))
            .flatten()
            .collect();
        put(&mut headers, found);
        let is_left: Vec<bool> = headers.iter().map(Option::is_none).collect();
        let found = read_some(&|place, candidate| is_left[place] && became.contains(&candidate.owner));
        put(&mut headers, found);
    } else {
        put(&mut headers, found);
    }
    headers
}

/// Reads the headers of the candidates, see [`read_headers`], and reports refused candidates unless `excused` returns
/// true for the reason. Returns the traces, and the errors of candidates that cannot be read.
pub(crate) fn read_all(
    candidates: Vec<Candidate>,
    app: &App,
    all: bool,
    messages: &mut Messages,
    excused: impl Fn(&HeaderRefusal) -> bool,
) -> (Vec<Trace>, Vec<String>) {
    let read = read_headers(&candidates, app, all);
    let mut skipped: BTreeMap<u32, usize> = BTreeMap::new();
    let mut traces = Vec::with_capacity(candidates.len());
    let (mut others, mut unreadable) = (Vec::new(), Vec::new());
    for (result, candidate) in read.into_iter().zip(candidates) {
        if let Some(Err(HeaderRefusal::Unreadable(error))) = &result {
            unreadable.push(error.to_string());
        }
        match result {
            Some(Ok(trace)) if !candidate.must_match || is_of(&trace, app) => traces.push(trace),
            // The trace is another application's, unless its `# run` line is damaged.
            Some(Ok(trace)) => others.push(trace),
            // The owner of this file's run is unknown.
            Some(_) if candidate.must_match => {}
            Some(Err(refusal)) if excused(&refusal) => {}
            Some(Err(refusal)) => refusal.report_to_user(messages),
            None => *skipped.entry(candidate.owner).or_default() += 1,
        }
    }
    if !skipped.is_empty() {
        messages.warn(format_args!(
            "left out {} unread, because the 2 seconds for files of other users are used up; --all-runs \
             reads them",
            of_users(&skipped)
        ));
    }
    let runs: HashSet<_> = traces.iter().filter_map(run_and_owner).collect();
    for trace in others {
        // A line with a correct checksum was written like this.
        let is_certain = trace.run.as_ref().is_some_and(|run| run.version >= FIRST_CHECKED);
        if !is_certain && run_and_owner(&trace).is_some_and(|run| runs.contains(&run)) {
            traces.push(trace);
        } else if trace.run.is_none() && trace.owner == effective_user() {
            messages.warn(format_args!(
                "{} is left out: it does not begin with a readable '# run' line, so it may not belong to {}",
                shown(&trace.path),
                shown(&app.given)
            ));
        }
    }
    (traces, unreadable)
}

/// Returns the owner of a trace, its process id, and its run id, the last two from its first line, even if that is
/// damaged.
fn run_and_owner(trace: &Trace) -> Option<(u32, u32, u32)> {
    let run = trace.run.as_ref().map(|run| (run.pid, run.id));
    let (pid, id) = run.or_else(|| trace.claim.as_ref().and_then(|claim| claim.pid.zip(claim.id)))?;
    Some((trace.owner, pid, id))
}

fn is_of(trace: &Trace, app: &App) -> bool {
    let run = trace.run.as_ref().map(|run| &run.exe);
    let exe = run.or_else(|| trace.claim.as_ref().and_then(|claim| claim.exe.as_ref()));
    exe.is_some_and(|exe| Some(&exe[..]) == app.exe())
}

fn read(candidate: &Candidate, keep: bool) -> Result<Trace, HeaderRefusal> {
    let path = &candidate.path;
    let known = Known::open(path, candidate.is_regular).map_err(HeaderRefusal::Unreadable)?;
    let (bytes, holes) = match &known {
        Known::Whole(map) => (&map[..], 0),
        Known::Ends(ends, holes) => (&ends[..], *holes),
    };
    if bytes.is_empty() {
        return Err(HeaderRefusal::Empty(path.clone()));
    }
    let ends = if Encoding::of(bytes) == Encoding::Raw { ends_of_raw(bytes) } else { ends_of_text(bytes) };
    let Some((line, first, last)) = ends else {
        let refusal = if has_changed_line_ends(bytes) {
            HeaderRefusal::ChangedLineEnds
        } else {
            HeaderRefusal::NoTrace
        };
        return Err(refusal(path.clone()));
    };
    let (run, claim) = parts_of(line);
    let (path, tid, number, owner) = (path.clone(), candidate.tid, candidate.number, candidate.owner);
    let marks = Raw::parse(bytes).map_or_else(|| Marks::of_text(bytes), Marks::of_raw);
    let map = match known {
        Known::Whole(map) if keep => Some(Arc::new(map)),
        _ => None,
    };
    let id = Some(candidate.id.clone());
    Ok(Trace { path, tid, number, id, map, holes, held: None, owner, run, claim, marks, first, last })
}

/// Returns whether the first line has the form of a trace's first line, but ends in CR LF.
fn has_changed_line_ends(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(NAMED)];
    let line = lines_of(head).next().and_then(|line| line.strip_suffix(b"\r\n"));
    line.is_some_and(|line| run_of(line).is_some())
}

/// Returns the trace that consists of the lines in `map`, which come from no trace file; `None` if there is no line.
#[cfg(feature = "parquet")]
pub(crate) fn of_bytes(path: PathBuf, tid: u64, owner: u32, map: Arc<Map>) -> Option<Trace> {
    let (line, first, last) = ends_of_text(&map)?;
    let (run, claim) = parts_of(line);
    let marks = Marks::of_text(&map);
    let (number, holes, map) = (0, 0, Some(map));
    Some(Trace { path, tid, number, id: None, map, holes, held: None, owner, run, claim, marks, first, last })
}

/// Returns the run that an undamaged `# run` line names, or the readable values of a damaged line.
fn parts_of(line: Option<RunLine>) -> (Option<Run>, Option<Claim>) {
    match line {
        Some(RunLine::Sound(run)) => (Some(run), None),
        Some(RunLine::Damaged(claim)) => (None, Some(claim)),
        None => (None, None),
    }
}

/// Returns the `# run` line of a text, and the ticks of its first line and of its last; `None` if it has no line.
fn ends_of_text(bytes: &[u8]) -> Option<(Option<RunLine>, u64, u64)> {
    let at = first_line(bytes)?;
    let Token::Line(line) = line_at(bytes, at) else { return None };
    Some((run_of(&bytes[at..line.end]), line.ticks, last_ticks(bytes).unwrap_or(line.ticks)))
}

/// Returns the `# run` line of a raw file, and the ticks of its first record and of its last; `None` if there is no
/// record.
fn ends_of_raw(bytes: &[u8]) -> Option<(Option<RunLine>, u64, u64)> {
    let raw = Raw::parse(bytes)?;
    let ((first, payload), last) = (raw.first_payload()?, raw.last()?);
    Some((payload.and_then(RunLine::parse), first.0, last.0))
}

fn run_of(line: &[u8]) -> Option<RunLine> {
    let line = Line::parse(strip_line_feed(line)).ok().filter(|line| line.kind == Kind::Meta)?;
    RunLine::parse(line.payload)
}

/// Returns the last name of the thread that a trace records: in its second line, or in `# name` lines near its
/// beginning or its end.
#[must_use]
pub(crate) fn thread_name(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = &bytes[..bytes.len().min(NAMED)];
    let tail = &bytes[bytes.len().saturating_sub(NAMED).max(head.len())..];
    last_name_in(tail).or_else(|| last_name_in(head)).or_else(|| {
        lines_of(bytes).take(2).find_map(|line| match meta_of(line)? {
            Meta::Thread(thread) => Some(thread.name),
            _ => None,
        })
    })
}

/// Returns the names of the thread that the payloads of `#` lines record, each once, in their order.
#[must_use]
pub(crate) fn names_in<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for payload in payloads.filter(|payload| payload.starts_with(b"name ") || payload.starts_with(b"thread "))
    {
        if let Some(Meta::Name { name, .. } | Meta::Thread(Thread { name, .. })) = Meta::parse(payload) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the thread's names in the first and the last `NAMED` bytes of a trace, which [`thread_name`] searches, too.
#[must_use]
pub(crate) fn names_at_ends(bytes: &[u8]) -> Vec<Vec<u8>> {
    let head = &bytes[..bytes.len().min(NAMED)];
    let tail = &bytes[bytes.len().saturating_sub(NAMED).max(head.len())..];
    names_in(metas_in(head).chain(metas_in(tail)))
}

/// Returns the name in the last `# name` line of `bytes`. Looks at each byte at most twice.
fn last_name_in(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes;
    while let Some(at) = memmem::rfind(rest, NAME) {
        let start = memrchr2(b'\n', 0, &rest[..at]).map_or(0, |feed| feed + 1);
        let end = at + memchr2(b'\n', 0, &bytes[at..]).unwrap_or(bytes.len() - at);
        if let Some(Meta::Name { name, .. }) = meta_of(&bytes[start..end]) {
            return Some(name);
        }
        rest = &rest[..start];
    }
    None
}

fn meta_of(line: &[u8]) -> Option<Meta> {
    let line = Line::parse(strip_line_feed(line)).ok().filter(|line| line.kind == Kind::Meta)?;
    Meta::parse(line.payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_is_found_near_the_beginning_and_the_end() {
        let line = |kind, payload: &str| format!("00000000000000ff-00000009 {kind} {payload}\n");
        let thread = line('#', "thread name=\"first\" ring=shared");
        let name = |name: &str| line('#', &format!("name ticks=7 name=\"{name}\""));
        let message = line(':', "x # name ticks=7 name=\"forged\"");
        let much = message.repeat(NAMED / message.len() + 1);
        let found = |parts: &[&str]| {
            thread_name(parts.concat().as_bytes()).map(|name| String::from_utf8_lossy(&name).into_owned())
        };
        assert_eq!(found(&[&thread, &message]).as_deref(), Some("first"));
        assert_eq!(found(&[&name("a"), &thread, &name("b"), &message]).as_deref(), Some("b"));
        assert_eq!(found(&[&thread, &name("a"), &much, &much]).as_deref(), Some("a"));
        assert_eq!(found(&[&thread, &name("a"), &much, &much, &name("b"), &message]).as_deref(), Some("b"));
        assert_eq!(found(&[&message]), None);
        // A damaged line does not count.
        assert_eq!(found(&[&thread, "# name ticks=7 name=\"x\"\n"]).as_deref(), Some("first"));
    }
}
