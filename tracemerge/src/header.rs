//! Stage *read*, first half: what a file says of itself, and its range of time.
//!
//! Each candidate is mapped only as long as this takes; what is to be merged is mapped again later, after it
//! is known which runs are still alive.

use std::path::PathBuf;
use std::sync::Arc;

use trace_format::file::Encoding;
use trace_format::line::Line;
use trace_format::meta::{Meta, Run};
use trace_format::raw::Raw;

use crate::discover::{App, Candidate};
use crate::error::Error;
use crate::held::Held;
use crate::lines::{Next, first_line, last_ticks, line_at, without_feed};
use crate::map::Map;
use crate::messages::{Messages, shown};
use crate::sys::FileId;

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
    let mut traces = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let must_match = candidate.must_match;
        match read(candidate) {
            Ok(trace) if !must_match || is_of(&trace, app) => traces.push(trace),
            // Another application's, or nobody knows whose.
            Ok(_) => {}
            Err(_) if must_match => {}
            Err(refusal) if excused(&refusal) => {}
            Err(refusal) => refusal.tell(messages),
        }
    }
    traces
}

fn is_of(trace: &Trace, app: &App) -> bool {
    trace.run.as_ref().is_some_and(|run| Some(&run.exe[..]) == app.exe())
}

fn read(candidate: Candidate) -> Result<Trace, Refusal> {
    let Candidate { path, tid, number, id, .. } = candidate;
    let map = Map::open(&path).map_err(Refusal::Unreadable)?;
    if map.is_empty() {
        return Err(Refusal::Empty(path));
    }
    if Encoding::of(&map) == Encoding::Raw {
        return read_raw(&map, path, (tid, number, id));
    }
    let line = first_line(&map).map(|at| (at, line_at(&map, at)));
    let Some((at, Next::Line(line))) = line else { return Err(Refusal::NoTrace(path)) };
    let run = run_of(&map[at..line.end]);
    let last = last_ticks(&map).unwrap_or(line.ticks);
    Ok(Trace { path, tid, number, id: Some(id), held: None, run, first: line.ticks, last })
}

fn read_raw(map: &Map, path: PathBuf, (tid, number, id): (u64, u32, FileId)) -> Result<Trace, Refusal> {
    let found = Raw::parse(map).and_then(|raw| Some((raw.first()?, raw.last()?)));
    let Some(((first, meta), last)) = found else { return Err(Refusal::NoTrace(path)) };
    let run = meta.and_then(|meta| if let Meta::Run(run) = meta { Some(run) } else { None });
    Ok(Trace { path, tid, number, id: Some(id), held: None, run, first: first.0, last: last.0 })
}

fn run_of(line: &[u8]) -> Option<Run> {
    let line = Line::parse(without_feed(line)).ok()?;
    match Meta::parse(line.payload) {
        Some(Meta::Run(run)) if line.kind == trace_format::line::Kind::Meta => Some(run),
        _ => None,
    }
}
