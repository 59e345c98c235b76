//! `--with`: merges text logs of other programs with the traces, by the wall clock.
//!
//! A line of a log that has a time becomes a message of thread 0 with the text `FILE: LINE`, where FILE is the name of
//! the log. Only a time counts that stands at the same position as in most lines of the log (see [`place`]). The ticks
//! of the message are those that the traces' clock has at that time. Each line without a time continues the message
//! before it. Logs are read once, in a stream, into temporary files that have no name and whose lines are sorted (see
//! [`spool`]). The merge reads these files like any trace.

mod lines;
mod place;
mod reader;
mod spool;
mod stamp;
mod zone;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use trace_format::escape::{EscapeContext, escape_into};
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::wall::Wall;

use crate::find::choose::Chosen;
use crate::find::header::Trace;
use crate::input::foreign::lines::{LogLine, LogLines};
use crate::input::foreign::place::StampPlace;
use crate::input::foreign::spool::Spool;
use crate::input::foreign::stamp::{SECOND, Stamp, StampFormat};
use crate::input::foreign::zone::Zone;
use crate::input::source::Source;
use crate::os::sys::open_with_retries;
use crate::time::anchor::{Anchor, outer_anchors};
use crate::time::clocks::{TickClock, WallPlace};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown, shown_name};
use crate::ui::units::duration;

/// The maximum number of lines at the beginning of a log that are examined to find the position and the format of its
/// times; `PROBE_BYTES` is the maximum number of their bytes. Only these lines are kept in memory, so a log of any
/// length is read in bounded memory.
const PROBE_LINES: usize = 1000;
const PROBE_BYTES: usize = 256 << 10;
/// If a log has no times, the error shows this number of lines from its beginning (the first value), and this number of
/// characters of each line (the second value).
const SHOWN: (usize, usize) = (3, 80);

/// A boot of the machine, as its traces record it: it gives the lines of a log their ticks.
struct LogBoot {
    clock: TickClock,
    /// The wall time at which the boot's first run began.
    since: Wall,
    /// The ticks of the first line and of the last line in the boot's traces.
    range: (u64, u64),
}

/// Adds the logs at the paths `with` to `sources`, which has a list of sources for each boot. Each line is added to the
/// last boot that had begun at the line's time, or to the first boot if none had. Reports how exactly the lines are
/// placed.
///
/// # Errors
/// A log cannot be read or has no times, or no trace states the wall time at which its run began.
pub(crate) fn add(
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
            "cannot merge logs by time: no trace begins with a '# run' line that has the time",
        ));
    };
    if !newest.clock.rate_is_known() {
        messages.warn(
            "the lines of logs are at wrong times: the rate of the counter is unknown, because the traces record the \
             time only once, and the machine was restarted since",
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
    let last_readings = outlines.iter().flat_map(|outline| outer_anchors(outline));
    let mut clock = TickClock::of_run(first, begins.clone().chain(last_readings));
    if !clock.steps().is_empty() {
        clock = TickClock::of_run(first, begins.chain(sources.iter().flat_map(Source::anchors)));
    }
    let range =
        traces.iter().fold((u64::MAX, 0), |(min, max), trace| (min.min(trace.first), max.max(trace.last)));
    Some(LogBoot { clock, since: first.wall, range })
}

/// Reads the log at `path`. Returns the log's lines, separately for each boot.
fn read(
    path: &Path,
    boots: &[Option<LogBoot>],
    newest: &LogBoot,
    messages: &mut Messages,
) -> Result<Vec<Spool>, Error> {
    let mut is_regular = false;
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let file = open_with_retries(|| File::open(path)).map_err(|error| Error::io("open", path, error))?;
        is_regular = file.metadata().is_ok_and(|about| about.is_file());
        Box::new(file)
    };
    let name = path.file_name().map_or(&b"standard input"[..], |name| name.as_encoded_bytes());
    let mut log = Log {
        name: name.to_vec(),
        boots,
        spools: boots.iter().map(|_| Spool::default()).collect(),
        zone: Zone::new(newest.since),
        at: None,
        early: Vec::new(),
        timed: 0,
        untimed: (0, 0),
        outside: (0, 0),
        ambiguous: (0, 0),
        older: (0, Wall(0)),
        resolution: SECOND,
    };
    match log.read(BufReader::with_capacity(1 << 16, input), is_regular) {
        Ok(place) => {
            log.report_to_user(path, &place, newest, messages);
            Ok(log.spools)
        }
        Err(Unread::Read(error)) => Err(Error::io("read", path, error)),
        Err(Unread::Write(error)) => Err(Error::io("write a temporary file for", path, error)),
        Err(Unread::NoTimes(start)) => Err(no_times_error(path, &start)),
    }
}

/// The reason why a log cannot be merged.
enum Unread {
    Read(io::Error),
    Write(io::Error),
    /// None of the first lines of the log has a time that can be used. The value is these lines.
    NoTimes(Vec<LogLine>),
}

/// The state of a log that is being read.
struct Log<'a> {
    name: Vec<u8>,
    boots: &'a [Option<LogBoot>],
    spools: Vec<Spool>,
    zone: Zone,
    /// The index of the boot to which the last record belongs, and the ticks of that record; `None` before the first
    /// record.
    at: Option<(usize, WallPlace)>,
    /// The lines before the first line with a time, which are put at that time. All of them are among the examined
    /// lines.
    early: Vec<LogLine>,
    /// The number of lines with a time.
    timed: u64,
    /// The numbers of lines without a time: those after the first line with a time, and those before it.
    untimed: (u64, u64),
    /// The numbers of records that are earlier than the first line of the traces, and later than the last line.
    outside: (u64, u64),
    /// The number of lines whose time is ambiguous, because the wall clock may have shown it more than once, and the
    /// largest error of their ticks, in nanoseconds.
    ambiguous: (u64, u64),
    /// The number of records from before the moment at which the counter of ticks was 0, and the wall time of that
    /// moment. These records get the ticks 0.
    older: (u64, Wall),
    /// The finest resolution of the times that were read so far, in nanoseconds.
    resolution: u64,
}

impl Log<'_> {
    /// Reads all lines of a log. Returns the position at which its lines have their times.
    fn read(&mut self, input: impl io::BufRead, is_regular: bool) -> Result<StampPlace, Unread> {
        let mut lines = LogLines::new(input, is_regular).map_err(Unread::Read)?;
        let (mut start, mut bytes) = (Vec::new(), 0);
        let mut line = LogLine::default();
        while start.len() < PROBE_LINES
            && bytes < PROBE_BYTES
            && lines.next(&mut line).map_err(Unread::Read)?
        {
            bytes += line.text.len();
            start.push(std::mem::take(&mut line));
        }
        let whole = start.iter().filter(|line| !line.goes_on).map(|line| &line.text[..]);
        let Some(place) = StampPlace::of(whole) else { return Err(Unread::NoTimes(start)) };
        for line in start {
            self.add(line, &place).map_err(Unread::Write)?;
        }
        // The times may be those of later centuries, which have no Unix time in nanoseconds.
        if self.at.is_none() {
            return Err(Unread::NoTimes(std::mem::take(&mut self.early)));
        }
        while lines.next(&mut line).map_err(Unread::Read)? {
            line = self.add(line, &place).map_err(Unread::Write)?;
        }
        Ok(place)
    }

    /// Adds a line to the sorted lines of the log. Returns a line whose allocated memory can be used for the next line.
    fn add(&mut self, line: LogLine, place: &StampPlace) -> io::Result<LogLine> {
        // The rest of a line that was split is not a line of its own.
        let stamp = if line.goes_on { None } else { place.find(&line.text) };
        match stamp.and_then(|stamp| Some((stamp, self.zone.wall(stamp.time)?))) {
            Some((stamp, wall)) => self.dated(&line.text, &stamp, wall)?,
            None => match self.at {
                Some((boot, WallPlace { ticks: Ticks(ticks), .. })) => {
                    self.untimed.0 += u64::from(!line.goes_on);
                    self.put(boot, ticks, Kind::Continuation, &line.text)?;
                }
                None => {
                    self.untimed.1 += u64::from(!line.goes_on);
                    self.early.push(line);
                    return Ok(LogLine::default());
                }
            },
        }
        Ok(line)
    }

    fn dated(&mut self, text: &[u8], stamp: &Stamp, wall: Wall) -> io::Result<()> {
        let known = self.boots.iter().enumerate().filter_map(|(at, boot)| Some((at, boot.as_ref()?)));
        let began = known.clone().rfind(|(_, boot)| boot.since <= wall);
        let Some((boot, found)) = began.or_else(|| known.clone().next()) else { return Ok(()) };
        let before = self.at.filter(|(before, _)| *before == boot).map(|(_, place)| place);
        let place = found.clock.place(wall, before);
        let ticks = place.ticks.0;
        self.timed += 1;
        self.ambiguous.0 += u64::from(place.error_ns > 0);
        self.ambiguous.1 = self.ambiguous.1.max(place.error_ns);
        self.resolution = self.resolution.min(stamp.resolution);
        // Ticks do not go below zero, so the time decides about lines from before the boot.
        self.outside.0 += u64::from(wall < found.clock.wall(Ticks(found.range.0)));
        self.outside.1 += u64::from(ticks > found.range.1);
        let zero = found.clock.wall(Ticks(0));
        if ticks == 0 && wall < zero {
            self.older = (self.older.0 + 1, zero);
        }
        self.at = Some((boot, place));
        for early in std::mem::take(&mut self.early) {
            let kind = if early.goes_on { Kind::Continuation } else { Kind::Message };
            self.put(boot, ticks, kind, &early.text)?;
        }
        self.put(boot, ticks, Kind::Message, text)
    }

    fn put(&mut self, boot: usize, ticks: u64, kind: Kind, text: &[u8]) -> io::Result<()> {
        let mut payload = Vec::with_capacity(text.len() + self.name.len() + 2);
        if kind == Kind::Message {
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

    fn report_to_user(&self, path: &Path, place: &StampPlace, newest: &LogBoot, messages: &mut Messages) {
        let mut text = format!(
            "{}: {} placed by {}, with a resolution of {}; the traces' clocks agree to {}",
            shown(path),
            count(self.timed, "record"),
            place.name(),
            duration(self.resolution),
            duration(newest.clock.uncertainty_ns()),
        );
        for (records, place) in [
            (self.outside.0, "before the first line of the traces"),
            (self.outside.1, "after the last line of the traces"),
        ] {
            if records > 0 {
                text.push_str(&format!("; {records} {place}"));
            }
        }
        messages.done(text);
        if let Some(assumptions) = self.assumptions() {
            messages.done(format_args!("{}: {assumptions}", shown(path)));
        }
    }

    /// Returns a text that states the assumptions about times: the lines that have no time of their own, the ambiguous
    /// times, and the zone of times without a zone. Returns `None` if nothing was assumed.
    fn assumptions(&self) -> Option<String> {
        let mut said = Vec::new();
        let (behind, before) = self.untimed;
        if behind > 0 {
            let lines = count(behind, "line");
            said.push(format!("{lines} without a readable time placed with the line before"));
        }
        if before > 0 {
            said.push(format!(
                "{} before the first readable time placed at that time",
                count(before, "line")
            ));
        }
        let (lines, error) = self.ambiguous;
        if lines > 0 {
            said.push(format!(
                "{} with a time that the wall clock may have shown twice, because it was set, placed by the order of \
                 the log (±{})",
                count(lines, "line"),
                duration(error)
            ));
        }
        let (records, zero) = self.older;
        if records > 0 {
            said.push(format!(
                "{} older than the counter's zero, at {zero}, placed at that",
                count(records, "record")
            ));
        }
        if let Some(zone) = self.zone.assumed() {
            said.push(format!("times without a zone were read as local time, {zone}"));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}

fn no_times_error(path: &Path, start: &[LogLine]) -> Error {
    let line = |line: &[u8]| format!("\n  {}", shown_name(&line[..line.len().min(SHOWN.1)]));
    let lines = start.iter().map(|line| &line.text[..]).filter(|line| !line.is_empty());
    let lines: String = lines.take(SHOWN.0).map(line).collect();
    let lines =
        if lines.is_empty() { " it is empty".to_owned() } else { format!(" its first lines are{lines}") };
    Error::plain(format!(
        "found no times in the log {}: tried {};{lines}",
        shown(path),
        StampFormat::ALL.map(StampFormat::name).join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::anchor::Anchor;
    use jiff::tz::{TimeZone, offset};
    use proptest::prelude::*;
    use std::io::Seek;
    use trace_format::escape::unescape;
    use trace_format::meta::ClockKind;

    /// The seconds of 2026-11-21T13:00:00Z, as `date +%s` has them.
    const T: u64 = 1_795_266_000;

    /// A line of the merge's output: its second, its kind and its text.
    type Placed = (u64, Kind, String);

    /// The outcome of merging a log, for tests.
    struct Merged {
        /// The log's lines in the order of the merge, or the reason why there are none.
        lines: Result<Vec<Placed>, String>,
        said: Option<String>,
        /// The numbers of the log's lines before the trace's first line and after its last line.
        outside: (u64, u64),
    }

    /// Reads a log whose local times are an hour ahead of UTC, beside a trace of one minute whose ticks are nanoseconds
    /// since `T`.
    fn merged(log: &[u8]) -> Merged {
        merged_with(log, [Anchor::new(Ticks(0), Wall(T * SECOND))])
    }

    fn merged_with(log: &[u8], anchors: impl IntoIterator<Item = Anchor>) -> Merged {
        let since = Wall(T * SECOND);
        let clock = TickClock::of(ClockKind::System, anchors);
        let boots = [Some(LogBoot { clock, since, range: (0, 60 * SECOND) })];
        let mut reading = Log {
            name: b"x".to_vec(),
            boots: &boots,
            spools: vec![Spool::default()],
            zone: Zone::of(TimeZone::fixed(offset(1)), since),
            at: None,
            early: Vec::new(),
            timed: 0,
            untimed: (0, 0),
            outside: (0, 0),
            ambiguous: (0, 0),
            older: (0, Wall(0)),
            resolution: SECOND,
        };
        match reading.read(log, true) {
            Err(Unread::NoTimes(_)) => {
                return Merged { lines: Err("no times".to_owned()), said: None, outside: (0, 0) };
            }
            Err(Unread::Read(error) | Unread::Write(error)) => {
                return Merged { lines: Err(error.to_string()), said: None, outside: (0, 0) };
            }
            Ok(_) => {}
        }
        let (said, outside) = (reading.assumptions(), reading.outside);
        let mut lines = Vec::new();
        for mut file in reading.spools.into_iter().flat_map(|spool| spool.finish().unwrap()) {
            let mut text = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut text).unwrap();
            for line in text.strip_suffix(b"\n").unwrap().split(|b| *b == b'\n') {
                let line = Line::parse(line).unwrap();
                let text = String::from_utf8_lossy(&unescape(line.payload)).into_owned();
                lines.push((line.key.ticks.0 / SECOND, line.kind, text));
            }
        }
        lines.sort_by_key(|(second, ..)| *second);
        Merged { lines: Ok(lines), said, outside }
    }

    /// Returns the second of each line of a log, in the order of the merge.
    fn seconds(log: &str) -> Vec<u64> {
        merged(log.as_bytes()).lines.unwrap().into_iter().map(|(second, ..)| second).collect()
    }

    #[test]
    fn only_whole_words_and_offsets_are_zones() {
        let log = "2026/11/21 14:00:05 BGP: peer\n2026/11/21 14:00:06 ZEBRA: client\n\
                   2026/11/21 14:00:07 Z-Wave: node\n2026/11/21 14:00:08 zfs: pool\n\
                   2026/11/21 14:00:09 -12 degrees\n2026/11/21 14:00:10 +5000 points\n\
                   2026/11/21 14:00:11 UTCD: daemon\n2026/11/21 14:00:12 Z\u{fc}rich\n\
                   2026/11/21 13:00:13 UTC: zone\n2026/11/21 15:00:14 GMT+0200 zone\n\
                   2026/11/21 15:00:15 UTC+2 zone\n2026/11/21 15:00:16 +02:00 zone\n";
        assert_eq!(seconds(log), (5..=16).collect::<Vec<_>>());
        let said = merged(log.as_bytes()).said;
        assert_eq!(said.as_deref(), Some("times without a zone were read as local time, UTC+01:00"));
    }

    #[test]
    fn lines_without_a_time_are_placed_with_others_and_counted() {
        let log = "starts\r\n2026-11-21T13:00:05Z one\r\n  at 2026-11-21T13:00:50Z\r\n\r\n2026-11-21T13:00:04Z two\r\n";
        let Merged { lines, said, .. } = merged(log.as_bytes());
        let expected = [
            (4, Kind::Message, "x: 2026-11-21T13:00:04Z two"),
            (5, Kind::Message, "x: starts"),
            (5, Kind::Message, "x: 2026-11-21T13:00:05Z one"),
            (5, Kind::Continuation, "  at 2026-11-21T13:00:50Z"),
            (5, Kind::Continuation, ""),
        ];
        assert_eq!(lines.unwrap(), expected.map(|(second, kind, text)| (second, kind, text.to_owned())));
        let expected = "2 lines without a readable time placed with the line before; 1 line before the first \
                        readable time placed at that time";
        assert_eq!(said.as_deref(), Some(expected));
        assert_eq!(merged(b"2026-11-21T13:00:05Z one\n").said, None, "nothing was assumed");
    }

    #[test]
    fn lines_before_and_behind_the_trace_are_counted() {
        let log = b"2026-11-21T12:59:59Z a\n2026-11-21T13:00:00Z b\n2026-11-21T13:01:00Z c\n2026-11-21T13:01:01Z d\n";
        let Merged { lines, outside, .. } = merged(log);
        let seconds: Vec<u64> = lines.unwrap().into_iter().map(|(second, ..)| second).collect();
        assert_eq!((&seconds[..], outside), (&[0, 0, 60, 61][..], (1, 1)));
    }

    #[test]
    fn lines_of_a_time_that_the_clock_showed_twice_are_counted() {
        // After thirty seconds, the wall clock was set back by twenty.
        let reading =
            |second: u64, shown: u64| Anchor::new(Ticks(second * SECOND), Wall((T + shown) * SECOND));
        let anchors = [(0, 0), (10, 10), (20, 20), (30, 10), (40, 20), (50, 30), (60, 40)];
        let log = b"2026-11-21T13:00:05Z a\n2026-11-21T13:00:15Z b\n2026-11-21T13:00:18Z c\n2026-11-21T13:00:35Z d\n";
        let Merged { lines, said, .. } =
            merged_with(log, anchors.map(|(second, shown)| reading(second, shown)));
        let seconds: Vec<u64> = lines.unwrap().into_iter().map(|(second, ..)| second).collect();
        assert_eq!(seconds, [5, 15, 18, 55]);
        let expected = "3 lines with a time that the wall clock may have shown twice, because it was set, placed by the \
                        order of the log (±20.0 s)";
        assert_eq!(said.as_deref(), Some(expected));
    }

    #[test]
    fn lines_between_a_step_of_the_clock_and_its_next_reading_stand_where_they_were_written() {
        // The wall clock was set forward by an hour, 33 seconds after the start.
        let reading =
            |second: u64, shown: u64| Anchor::new(Ticks(second * SECOND), Wall((T + shown) * SECOND));
        let anchors = [(0, 0), (10, 10), (20, 20), (30, 30), (40, 3640), (50, 3650), (60, 3660)];
        let log = b"2026-11-21T13:00:29Z a\n2026-11-21T13:00:32Z b\n2026-11-21T14:00:33Z c\n2026-11-21T14:00:39Z d\n\
                    2026-11-21T14:00:41Z e\n";
        let Merged { lines, said, .. } =
            merged_with(log, anchors.map(|(second, shown)| reading(second, shown)));
        let seconds: Vec<u64> = lines.unwrap().into_iter().map(|(second, ..)| second).collect();
        assert_eq!((&seconds[..], said), (&[29, 32, 33, 39, 41][..], None));
    }

    #[test]
    fn nul_bytes_in_front_of_a_time_hide_no_time() {
        let log = [&[0; 70_000][..], b"2026-11-21T13:00:05Z one\n\0\x002026-11-21T13:00:06Z two\n"].concat();
        let Merged { lines, said, .. } = merged(&log);
        let texts: Vec<String> = lines.unwrap().into_iter().map(|(.., text)| text).collect();
        assert_eq!(texts, ["x: 2026-11-21T13:00:05Z one", "x: 2026-11-21T13:00:06Z two"]);
        assert_eq!(said, None);
    }

    #[test]
    fn a_log_in_another_encoding_or_without_times_is_rejected() {
        let utf16: Vec<u8> = "\u{feff}2026-11-21".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(merged(&utf16).lines.unwrap_err().contains("UTF-16, little-endian"));
        for log in ["", "hello\nworld\n", "9999-12-31T13:00:05Z\n"] {
            assert_eq!(merged(log.as_bytes()).lines, Err("no times".to_owned()), "{log}");
        }
    }

    proptest! {
        /// The limits of a line and of a sorted portion are small in tests, so many lines are split.
        #[test]
        fn each_line_of_a_log_is_in_the_output_once(parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(vec![0; 30]),
            Just(vec![b'x'; 290]),
            (0..60u32).prop_map(|second| format!("\n2026-11-21T13:00:{second:02}Z ").into_bytes()),
            (0..60u32).prop_map(|second| format!("2026-11-21 14:00:{second:02} +").into_bytes()),
        ], 0..60)) {
            let log = parts.concat();
            let Ok(found) = merged(&log).lines else { return Ok(()) };
            // Lines with their rests, as text, without the name that begins each message.
            let mut found: Vec<String> = found.into_iter().map(|(_, kind, text)| match kind {
                Kind::Message => text.strip_prefix("x: ").unwrap().to_owned(),
                _ => text,
            }).collect();
            let mut lines = LogLines::new(&log[..], true).unwrap();
            let (mut line, mut expected) = (LogLine::default(), Vec::new());
            while lines.next(&mut line).unwrap() {
                expected.push(String::from_utf8_lossy(&line.text).into_owned());
            }
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
