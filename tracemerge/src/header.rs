//! Stage *read*, first half: what a file says of itself, and its range of time.
//!
//! Each candidate is open only as long as this takes; what is to be merged is opened again later, after it is known
//! which runs are still alive.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use memchr::memchr;
use trace_format::file::Encoding;
use trace_format::line::Line;
use trace_format::meta::{Meta, Run};
use trace_format::raw::Raw;

use crate::discover::{App, Candidate};
use crate::error::Error;
use crate::held::Held;
use crate::lines::{Next, first_line, last_ticks, line_at, without_feed};
use crate::map::{Map, open_known, open_regular};
use crate::messages::{Messages, shown};
use crate::parallel::{OPENING, look_at_all};
use crate::sys::{FileId, read_at};

/// So much of each end of a file is read: a line is rarely longer.
const END: usize = 4096;

/// A trace file, by its own word.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Where it is.
    pub path: PathBuf,
    /// The thread id in its name.
    pub tid: u64,
    /// The number in its name.
    pub number: u32,
    /// Which file it is; `None` where there is only a ring.
    pub id: Option<FileId>,
    /// What its ring holds, where that was read; then the file itself is not opened again.
    pub held: Option<Arc<Held>>,
    /// Its run, where the first line says so.
    pub run: Option<Run>,
    /// Ticks of the first line.
    pub first: u64,
    /// Ticks of the last line.
    pub last: u64,
}

/// Why a candidate is left out.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be read.
    Unreadable(Error),
    /// It has no bytes.
    Empty(PathBuf),
    /// There is no line in its first 64 KiB.
    NoTrace(PathBuf),
}

impl Refusal {
    fn tell(&self, messages: &mut Messages) {
        match self {
            Refusal::Unreadable(error) => messages.warn(error),
            Refusal::Empty(path) => messages.warn(format_args!("{} is empty; left out", shown(path))),
            Refusal::NoTrace(path) => {
                let path = shown(path);
                messages
                    .warn(format_args!("{path} is no trace: no line has ticks and a thread id; left out"));
            }
        }
    }
}

/// Reads the headers of all candidates; `excused` says which refusals are not worth a word.
pub fn read_all(
    candidates: Vec<Candidate>,
    app: &App,
    messages: &mut Messages,
    excused: impl Fn(&Refusal) -> bool,
) -> Vec<Trace> {
    let read = look_at_all(&candidates, |_| OPENING, |candidate| Some(read(candidate)));
    let mut traces = Vec::with_capacity(candidates.len());
    for (result, candidate) in read.into_iter().zip(candidates) {
        match result {
            Some(Ok(trace)) if !candidate.must_match || is_of(&trace, app) => traces.push(trace),
            // Another application's, or nobody knows whose.
            Some(_) if candidate.must_match => {}
            Some(Err(refusal)) if excused(&refusal) => {}
            Some(Err(refusal)) => refusal.tell(messages),
            Some(Ok(_)) => {}
            None => messages.warn(format_args!("{} was not read; left out", shown(&candidate.path))),
        }
    }
    traces
}

fn is_of(trace: &Trace, app: &App) -> bool {
    trace.run.as_ref().is_some_and(|run| Some(&run.exe[..]) == app.exe())
}

fn read(candidate: &Candidate) -> Result<Trace, Refusal> {
    let path = &candidate.path;
    let opened = if candidate.is_regular { open_known(path) } else { open_regular(path) };
    let (file, length) = opened.map_err(Refusal::Unreadable)?;
    read_ends(&file, length, candidate).map_or_else(|| read_mapped(&file, candidate), Ok)
}

fn read_mapped(file: &File, candidate: &Candidate) -> Result<Trace, Refusal> {
    let path = &candidate.path;
    let map = Map::of_file(file, path).map_err(Refusal::Unreadable)?;
    if map.is_empty() {
        return Err(Refusal::Empty(path.clone()));
    }
    if Encoding::of(&map) == Encoding::Raw {
        return read_raw(&map, candidate);
    }
    let line = first_line(&map).map(|at| (at, line_at(&map, at)));
    let Some((at, Next::Line(line))) = line else { return Err(Refusal::NoTrace(path.clone())) };
    let last = last_ticks(&map).unwrap_or(line.ticks);
    Ok(candidate.trace(run_of(&map[at..line.end]), line.ticks, last))
}

/// The header of a file that has whole lines at both ends, as nearly all have. To read them is less work than to map
/// the file, which matters where there are thousands.
fn read_ends(file: &File, length: u64, candidate: &Candidate) -> Option<Trace> {
    let mut bytes = [0; END];
    let got = read_at(file, &mut bytes, 0).ok()?;
    let head = &bytes[..got];
    if Encoding::of(head) == Encoding::Raw {
        return None;
    }
    let at = first_line(head)?;
    let Next::Line(first) = line_at(head, at) else { return None };
    let run = run_of(head.get(at..first.end).filter(|line| line.ends_with(b"\n"))?);
    let last = if length <= END as u64 {
        last_ticks(head)?
    } else {
        let got = read_at(file, &mut bytes, length - END as u64).ok()?;
        let tail = &bytes[..got];
        // What stands before is a part of a line.
        last_ticks(&tail[memchr(b'\n', tail)? + 1..])?
    };
    Some(candidate.trace(run, first.ticks, last))
}

fn read_raw(map: &Map, candidate: &Candidate) -> Result<Trace, Refusal> {
    let found = Raw::parse(map).and_then(|raw| Some((raw.first()?, raw.last()?)));
    let Some(((first, meta), last)) = found else { return Err(Refusal::NoTrace(candidate.path.clone())) };
    let run = meta.and_then(|meta| if let Meta::Run(run) = meta { Some(run) } else { None });
    Ok(candidate.trace(run, first.0, last.0))
}

impl Candidate {
    fn trace(&self, run: Option<Run>, first: u64, last: u64) -> Trace {
        let (path, id) = (self.path.clone(), Some(self.id.clone()));
        Trace { path, tid: self.tid, number: self.number, id, held: None, run, first, last }
    }
}

fn run_of(line: &[u8]) -> Option<Run> {
    let line = Line::parse(without_feed(line)).ok()?;
    match Meta::parse(line.payload) {
        Some(Meta::Run(run)) if line.kind == trace_format::line::Kind::Meta => Some(run),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file_id;
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #[test]
        fn the_ends_of_a_file_tell_what_all_of_it_tells(parts in prop::collection::vec(part(), 0..12)) {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&parts.concat()).unwrap();
            let (path, metadata) = (file.path().to_owned(), file.as_file().metadata().unwrap());
            let id = file_id(&path, &metadata);
            let candidate = Candidate { path, tid: 7, number: 0, id, is_regular: true, must_match: false };
            if let Some(of_ends) = read_ends(file.as_file(), metadata.len(), &candidate) {
                let of_all = read_mapped(file.as_file(), &candidate).unwrap();
                prop_assert_eq!((of_ends.first, of_ends.last), (of_all.first, of_all.last));
                prop_assert_eq!(of_ends.run, of_all.run);
            }
        }
    }

    #[test]
    fn of_a_sound_file_the_ends_are_enough() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for ticks in 1..1000 {
            writeln!(file, "{ticks:016x}-00000007 : some words").unwrap();
        }
        let (path, metadata) = (file.path().to_owned(), file.as_file().metadata().unwrap());
        let id = file_id(&path, &metadata);
        let candidate = Candidate { path, tid: 7, number: 0, id, is_regular: true, must_match: false };
        let trace = read_ends(file.as_file(), metadata.len(), &candidate).unwrap();
        assert_eq!((trace.first, trace.last), (1, 999));
    }

    /// Lines, short and long, and what is none.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let line = |ticks: u64, length: usize| format!("{ticks:016x}-00000007 : {}\n", "x".repeat(length));
        let run = "0000000000000001-00000007 # run version=1 id=9f0c23d1 root=9f0c23d1 pid=7 exe=\"/a\" boot=\"b\" \
                   ticks=1 wall=2026-11-21T10:00:00.000000000Z clock=ordered\n";
        prop_oneof![
            4 => (0..1000u64, 0..300usize).prop_map(move |(ticks, length)| line(ticks, length).into_bytes()),
            2 => (0..1000u64, 3900..4300usize).prop_map(move |(ticks, length)| line(ticks, length).into_bytes()),
            1 => Just(run.as_bytes().to_vec()),
            1 => (0..5000usize).prop_map(|length| vec![0; length]),
            1 => (0..5000usize).prop_map(|length| vec![b'x'; length]),
            1 => Just(b"\n".to_vec()),
            1 => Just(b"0000000000000009-00000007 : no feed".to_vec()),
        ]
    }
}
