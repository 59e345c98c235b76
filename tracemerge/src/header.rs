//! Stage *read*, first half: what a file says of itself, and its range of time.
//!
//! What is to be merged is looked at once more later, when it is known which runs are still alive: a file that is as long
//! as before need not be opened again. Where there are very many, those that are not merged would take the room.

use std::fs;
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
use crate::parallel::{OPENING, look_at_all};
use crate::sys::{FileId, file_id};

/// Of more files none is kept: Linux lets a process have 65,530 mappings.
const KEPT: usize = 30_000;

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
    /// Its bytes, where they are kept.
    pub map: Option<Arc<Map>>,
    /// What its ring holds, where that was read; then the file itself is not opened again.
    pub held: Option<Arc<Held>>,
    /// Its run, where the first line says so.
    pub run: Option<Run>,
    /// Ticks of the first line.
    pub first: u64,
    /// Ticks of the last line.
    pub last: u64,
}

impl Trace {
    /// Whether its file is the one that was mapped, and as long.
    #[must_use]
    pub fn is_as_it_was(&self, map: &Map) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| {
            metadata.len() == map.len() as u64 && self.id == Some(file_id(&self.path, &metadata))
        })
    }
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
    let keep = candidates.len() <= KEPT;
    let read = look_at_all(&candidates, |_| OPENING, |candidate| Some(read(candidate, keep)));
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

fn read(candidate: &Candidate, keep: bool) -> Result<Trace, Refusal> {
    let path = &candidate.path;
    let map = if candidate.is_regular { Map::open_known(path) } else { Map::open(path) };
    let map = map.map_err(Refusal::Unreadable)?;
    if map.is_empty() {
        return Err(Refusal::Empty(path.clone()));
    }
    let ends = if Encoding::of(&map) == Encoding::Raw { ends_of_raw(&map) } else { ends_of_text(&map) };
    let Some((run, first, last)) = ends else { return Err(Refusal::NoTrace(path.clone())) };
    let (path, tid, number) = (path.clone(), candidate.tid, candidate.number);
    let (id, map) = (Some(candidate.id.clone()), keep.then(|| Arc::new(map)));
    Ok(Trace { path, tid, number, id, map, held: None, run, first, last })
}

/// The run, and the ticks of the first line and of the last; `None` where there is no line.
fn ends_of_text(bytes: &[u8]) -> Option<(Option<Run>, u64, u64)> {
    let at = first_line(bytes)?;
    let Next::Line(line) = line_at(bytes, at) else { return None };
    Some((run_of(&bytes[at..line.end]), line.ticks, last_ticks(bytes).unwrap_or(line.ticks)))
}

/// The same of records.
fn ends_of_raw(bytes: &[u8]) -> Option<(Option<Run>, u64, u64)> {
    let raw = Raw::parse(bytes)?;
    let ((first, meta), last) = (raw.first()?, raw.last()?);
    let run = meta.and_then(|meta| if let Meta::Run(run) = meta { Some(run) } else { None });
    Some((run, first.0, last.0))
}

fn run_of(line: &[u8]) -> Option<Run> {
    let line = Line::parse(without_feed(line)).ok()?;
    match Meta::parse(line.payload) {
        Some(Meta::Run(run)) if line.kind == trace_format::line::Kind::Meta => Some(run),
        _ => None,
    }
}
