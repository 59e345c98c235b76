//! `--with`: text logs of other programs, put into the timeline by the wall clock.
//!
//! Each line that begins with a time becomes a message of thread 0, `FILE: LINE`, with the ticks that the traces'
//! clock has at that time as its key; lines without a time continue that message. Logs are read once, in a stream,
//! into temporary files that have no name and whose lines are sorted (see [`spool`]). The merge reads these files
//! like any trace.

mod spool;
mod stamp;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use trace_format::escape::{EscapeContext, escape_into};
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::wall::Wall;

use crate::find::choose::Chosen;
use crate::find::header::Trace;
use crate::input::foreign::spool::Spool;
use crate::input::foreign::stamp::{StampFormat, Zone};
use crate::input::source::Source;
use crate::os::sys::open_with_retries;
use crate::time::anchor::{Anchor, last_anchors};
use crate::time::clocks::TickClock;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown, shown_name};
use crate::ui::units::duration;

/// The number of bytes at the beginning of a log that decide in which format it writes times.
const PROBE: u64 = 64 << 10;
/// The number of bytes after which a line is split in two.
const MAX_LOG_LINE: u64 = 1 << 20;
/// The number of first lines, and of characters of each, that the error for a log without times shows.
const SHOWN: (usize, usize) = (3, 80);

/// A boot of the machine, as its traces record it.
struct LogBoot {
    clock: TickClock,
    /// The time when the boot's first run began.
    since: Wall,
    /// The ticks of the boot's first line and of its last.
    range: (u64, u64),
}

/// Adds the logs `with` to the sources of the boots that are to be merged, and reports how well they are placed.
///
/// # Errors
/// A log cannot be read or has no times, or no trace records the wall time.
pub fn add(
    with: &[PathBuf],
    chosen: &Chosen,
    sources: &mut [Vec<Source>],
    messages: &mut Messages,
) -> Result<(), Error> {
    if with.is_empty() {
        return Ok(());
    }
    let boots: Vec<Option<LogBoot>> =
        chosen.boots.iter().zip(sources.iter()).map(|(traces, sources)| boot(traces, sources)).collect();
    let Some(newest) = boots.iter().flatten().last() else {
        return Err(Error::plain(
            "no trace begins with a '# run' line that has the time: logs cannot be placed",
        ));
    };
    if !newest.clock.rate_is_known() {
        messages.warn(
            "the traces record the time only once, and the machine was restarted since: logs are misplaced",
        );
    }
    for path in with {
        let log = read(path, &boots, newest, messages)?;
        for (spool, sources) in log.into_iter().zip(sources.iter_mut()) {
            let failed = |error| Error::io("write a temporary file for", path, error);
            for file in spool.finish().map_err(failed)? {
                sources.push(Source::of_file(path.clone(), &file)?);
            }
        }
    }
    Ok(())
}

fn boot(traces: &[Trace], sources: &[Source]) -> Option<LogBoot> {
    let first = traces.iter().filter_map(|trace| trace.run.as_ref()).min_by_key(|run| run.wall)?;
    let runs = traces.iter().filter_map(|trace| trace.run.as_ref());
    let begins = runs.filter(|run| run.clock == first.clock);
    let begins = begins.map(Anchor::of_run);
    let outlines: Vec<_> = sources.iter().map(Source::outline).collect();
    let last_readings = outlines.iter().flat_map(|outline| last_anchors(outline));
    let mut clock = TickClock::of_run(first, begins.clone().chain(last_readings));
    if !clock.steps().is_empty() {
        clock = TickClock::of_run(first, begins.chain(sources.iter().flat_map(Source::anchors)));
    }
    let range =
        traces.iter().fold((u64::MAX, 0), |(min, max), trace| (min.min(trace.first), max.max(trace.last)));
    Some(LogBoot { clock, since: first.wall, range })
}

/// Reads a log; returns its lines for each boot.
fn read(
    path: &Path,
    boots: &[Option<LogBoot>],
    newest: &LogBoot,
    messages: &mut Messages,
) -> Result<Vec<Spool>, Error> {
    let failed = |error| Error::io("read", path, error);
    let mut input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(open_with_retries(|| File::open(path)).map_err(|error| Error::io("open", path, error))?)
    };
    let mut start = Vec::new();
    input.by_ref().take(PROBE).read_to_end(&mut start).map_err(failed)?;
    let zone = Zone::new(newest.since);
    let Some(format) = StampFormat::of(&start, &zone) else { return Err(no_times_error(path, &start)) };
    let name = path.file_name().map_or(&b"standard input"[..], |name| name.as_encoded_bytes());
    let mut log = Log {
        name: name.to_vec(),
        spools: boots.iter().map(|_| Spool::default()).collect(),
        at: None,
        early: Vec::new(),
        records: 0,
        outside: (0, 0),
        resolution: 1_000_000_000,
    };
    let mut input = BufReader::with_capacity(1 << 16, Cursor::new(start).chain(input));
    let (mut line, mut goes_on) = (Vec::new(), false);
    loop {
        line.clear();
        if input.by_ref().take(MAX_LOG_LINE).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // The rest of a line that was split is not a line of its own.
        let time = if goes_on { None } else { format.find(text, &zone) };
        let written = match time {
            Some((wall, resolution)) => log.dated(text, wall, resolution, boots),
            None => log.undated(text),
        };
        written.map_err(|error| Error::io("write a temporary file for", path, error))?;
        goes_on = !is_whole;
    }
    log.report_to_user(path, format, newest, messages);
    Ok(log.spools)
}

/// The state of a log that is being read.
struct Log {
    name: Vec<u8>,
    spools: Vec<Spool>,
    /// The boot and the ticks of the record that was begun last.
    at: Option<(usize, u64)>,
    /// The lines before the first time.
    early: Vec<Vec<u8>>,
    records: u64,
    /// The number of records before the first line of the traces, and of those behind the last.
    outside: (u64, u64),
    /// The finest resolution of a time so far, in nanoseconds.
    resolution: u64,
}

impl Log {
    fn dated(
        &mut self,
        text: &[u8],
        wall: Wall,
        resolution: u64,
        boots: &[Option<LogBoot>],
    ) -> io::Result<()> {
        let known = boots.iter().enumerate().filter_map(|(at, boot)| Some((at, boot.as_ref()?)));
        let began = known.clone().rfind(|(_, boot)| boot.since <= wall);
        let Some((boot, found)) = began.or_else(|| known.clone().next()) else { return Ok(()) };
        let ticks = found.clock.ticks(wall).0;
        self.resolution = self.resolution.min(resolution);
        self.outside.0 += u64::from(ticks < found.range.0);
        self.outside.1 += u64::from(ticks > found.range.1);
        self.at = Some((boot, ticks));
        for early in std::mem::take(&mut self.early) {
            self.put(boot, ticks, Kind::Message, &early)?;
        }
        self.put(boot, ticks, Kind::Message, text)
    }

    fn undated(&mut self, text: &[u8]) -> io::Result<()> {
        match self.at {
            Some((boot, ticks)) => self.put(boot, ticks, Kind::Continuation, text),
            None => {
                self.early.push(text.to_vec());
                Ok(())
            }
        }
    }

    fn put(&mut self, boot: usize, ticks: u64, kind: Kind, text: &[u8]) -> io::Result<()> {
        let mut payload = Vec::with_capacity(text.len() + self.name.len() + 2);
        if kind == Kind::Message {
            self.records += 1;
            escape_into(&mut payload, &self.name, EscapeContext::Line);
            payload.extend_from_slice(b": ");
        }
        escape_into(&mut payload, text, EscapeContext::Line);
        let mut line = Vec::with_capacity(payload.len() + 32);
        Line { key: Key { ticks: Ticks(ticks), tid: 0 }, kind, payload: &payload }.write(&mut line);
        match self.spools.get_mut(boot) {
            Some(spool) if kind == Kind::Message => spool.begin(ticks, &line),
            Some(spool) => spool.go_on(&line),
            None => Ok(()),
        }
    }

    fn report_to_user(&self, path: &Path, format: StampFormat, newest: &LogBoot, messages: &mut Messages) {
        let mut text = format!(
            "{}: {} placed by {}, with a resolution of {}; the traces' clocks agree to {}",
            shown(path),
            count(self.records, "record"),
            format.name(),
            duration(self.resolution),
            duration(newest.clock.uncertainty_ns()),
        );
        for (records, place) in
            [(self.outside.0, "before the first line of the traces"), (self.outside.1, "behind the last")]
        {
            if records > 0 {
                text.push_str(&format!("; {records} {place}"));
            }
        }
        messages.done(text);
    }
}

fn no_times_error(path: &Path, start: &[u8]) -> Error {
    let line = |line: &[u8]| format!("\n  {}", shown_name(&line[..line.len().min(SHOWN.1)]));
    let lines = start.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    let lines: String = lines.take(SHOWN.0).map(line).collect();
    let lines =
        if lines.is_empty() { " it is empty".to_owned() } else { format!(" its first lines are{lines}") };
    Error::plain(format!(
        "no times are found in {}; tried {};{lines}",
        shown(path),
        StampFormat::ALL.map(StampFormat::name).join(", ")
    ))
}
