//! The format of text: lines as they stand in the traces, or with their times in other terms, with colours or
//! without.
//!
//! Without colours and with raw ticks, every line stays as it is, byte for byte, and the output is a trace
//! again.

use std::collections::HashSet;
use std::io::Write;

use anstyle::Style;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::bytes::Regex;
use trace_format::line::{Kind, Line, TICKS_DIGITS, TID_DIGITS, ticks_digits};
use trace_format::wall::Wall;

use crate::file::lines::{lines_of, whole_line};
use crate::input::inputs::Origin;
use crate::ui::colour::Palette;
use crate::view::export::{Copies, Export};
use crate::view::records::{RecordText, is_warning};

/// The terms in which the time of a line is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeMode {
    /// Raw ticks: lines as they are in the trace
    #[default]
    Ticks,
    /// Seconds since the first line of the chosen runs
    Offset,
    /// Seconds since the record shown before
    Delta,
    /// Local date and time
    Wall,
    /// Date and time in UTC
    Utc,
}

/// The nanoseconds of a second.
const NS: u64 = 1_000_000_000;
/// The columns that seconds take before their decimal point. The point and nine digits make them as wide as
/// ticks are.
const SECONDS_COLUMNS: usize = TICKS_DIGITS - 10;

/// The look of the lines: terms of time, and colours.
#[derive(Clone, Debug)]
pub struct TextStyle {
    /// The terms in which times are given.
    pub time: TimeMode,
    /// The time from which offsets count: that of the first line of the chosen runs.
    pub first: Wall,
    /// The time zone of local times.
    pub zone: TimeZone,
    /// The colours, or none.
    pub palette: Option<Palette>,
    /// A pattern whose matches stand out in colours.
    pub found: Option<Regex>,
}

/// The format that writes lines of text.
#[derive(Clone, Debug)]
pub struct TextFormat {
    style: TextStyle,
    palette: Palette,
    /// Whether the process is named before each thread, because several processes are shown.
    names_processes: bool,
    /// The time of the record shown before.
    before: Option<Wall>,
    second: Second,
    /// A buffer for the time of a record, kept from one record to the next.
    time: Vec<u8>,
}

impl TextFormat {
    /// Makes a format whose lines look as `style` says.
    #[must_use]
    pub fn new(style: TextStyle) -> TextFormat {
        let palette = style.palette.unwrap_or_default();
        TextFormat {
            style,
            palette,
            names_processes: false,
            before: None,
            second: Second::default(),
            time: Vec::new(),
        }
    }

    /// Makes the offsets of all later records count from `first`.
    pub fn begin_at(&mut self, first: Wall) {
        self.style.first = first;
    }

    /// Makes all later records name the process of their thread, because there are several processes.
    pub fn tell_apart(&mut self) {
        self.names_processes = true;
    }

    /// Writes the time with which the lines of a record begin.
    fn write_time(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if self.style.time == TimeMode::Ticks {
            return out.extend_from_slice(&ticks_digits(record.ticks));
        }
        let wall = origin.clock.wall(record.ticks);
        match self.style.time {
            TimeMode::Offset => seconds(out, self.style.first, wall),
            TimeMode::Delta => seconds(out, self.before.unwrap_or(wall), wall),
            TimeMode::Wall => self.second.write(out, wall, Some(&self.style.zone)),
            TimeMode::Utc | TimeMode::Ticks => self.second.write(out, wall, None),
        }
        self.before = Some(wall);
    }

    /// Writes the process before the thread, where several processes are shown.
    fn write_process(&self, origin: &Origin, out: &mut Vec<u8>) {
        if self.names_processes && self.style.time != TimeMode::Ticks {
            let unknown = if origin.is_log { "-" } else { "?" };
            // Writing to memory does not fail.
            let _ = match &origin.run {
                Some(run) => write!(out, "{}/", run.pid),
                None => write!(out, "{unknown}/"),
            };
        }
    }

    /// Writes a line in colours, beginning with `time`.
    fn write_painted(&self, time: &[u8], origin: &Origin, line: &Line<'_>, out: &mut Vec<u8>) {
        let Palette { meta, warning, .. } = self.palette;
        paint(out, self.palette.time, |out| out.extend_from_slice(time));
        out.push(if self.style.time == TimeMode::Ticks { b'-' } else { b' ' });
        paint(out, self.palette.thread(line.key.tid), |out| {
            self.write_process(origin, out);
            let _ = write!(out, "{:0TID_DIGITS$}", line.key.tid);
        });
        out.extend_from_slice(&[b' ', line.kind.byte(), b' ']);
        match line.kind {
            Kind::Meta if is_warning(line.payload) => {
                paint(out, warning, |out| out.extend_from_slice(line.payload));
            }
            Kind::Meta => paint(out, meta, |out| out.extend_from_slice(line.payload)),
            _ => self.write_message(line.payload, out),
        }
        out.push(b'\n');
    }

    /// Writes the text of a message; the matches of the pattern in it stand out.
    fn write_message(&self, payload: &[u8], out: &mut Vec<u8>) {
        let mut done = 0;
        if let Some(found) = &self.style.found {
            for hit in found.find_iter(payload).filter(|hit| !hit.is_empty()) {
                out.extend_from_slice(&payload[done..hit.start()]);
                paint(out, self.palette.found, |out| out.extend_from_slice(hit.as_bytes()));
                done = hit.end();
            }
        }
        out.extend_from_slice(&payload[done..]);
    }
}

impl Export for TextFormat {
    fn begin(&mut self, origins: &[Origin], _out: &mut Vec<u8>) {
        let shown = origins.iter().filter(|origin| origin.is_shown);
        let processes = shown
            .filter(|origin| !origin.is_log)
            .map(|origin| origin.run.as_ref().map(|run| (&run.boot, run.pid, run.id)));
        self.names_processes = processes.collect::<HashSet<_>>().len() > 1;
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if self.is_verbatim() {
            return out.extend_from_slice(record.lines);
        }
        if self.style.palette.is_some() {
            let mut time = std::mem::take(&mut self.time);
            time.clear();
            self.write_time(origin, record, &mut time);
            record.parsed().for_each(|line| self.write_painted(&time, origin, &line, out));
            self.time = time;
            return;
        }
        let start = out.len();
        self.write_time(origin, record, out);
        out.push(b' ');
        self.write_process(origin, out);
        let head = start..out.len();
        let (first, more) = match record.line_count {
            1 => (record.lines, &[][..]),
            _ => record.lines.split_at(whole_line(record.lines).len()),
        };
        out.extend_from_slice(behind_ticks(first));
        for line in lines_of(more) {
            out.extend_from_within(head.clone());
            out.extend_from_slice(behind_ticks(line));
        }
    }

    fn finish(&mut self, _out: &mut Vec<u8>) {}

    fn is_verbatim(&self) -> bool {
        self.style.time == TimeMode::Ticks && self.style.palette.is_none()
    }

    fn copies(&self) -> Option<Copies<'_>> {
        let is_independent = self.style.time != TimeMode::Delta;
        is_independent.then(|| Box::new(|| Box::new(self.clone()) as Box<dyn Export>) as Copies<'_>)
    }
}

/// Returns a line without its ticks and without the byte between them and the thread id.
fn behind_ticks(line: &[u8]) -> &[u8] {
    line.get(TICKS_DIGITS + 1..).unwrap_or_default()
}

/// Calls `write`, and has all that it writes shown in `style`.
fn paint(out: &mut Vec<u8>, style: Style, write: impl FnOnce(&mut Vec<u8>)) {
    if style.is_plain() {
        return write(out);
    }
    let _ = write!(out, "{}", style.render());
    write(out);
    let _ = write!(out, "{}", style.render_reset());
}

/// Writes the seconds from `from` to `to`, in at least as many columns as ticks have.
fn seconds(out: &mut Vec<u8>, from: Wall, to: Wall) {
    let ns = to.0.abs_diff(from.0);
    let start = out.len();
    // The machinery of `write!` would take longer than all other work that is done for a line.
    let mut whole = ns / NS;
    loop {
        out.push(digit(whole));
        whole /= 10;
        if whole == 0 {
            break;
        }
    }
    if to < from {
        out.push(b'-');
    }
    while out.len() < start + SECONDS_COLUMNS {
        out.push(b' ');
    }
    out[start..].reverse();
    fraction(out, ns % NS);
}

/// Returns the last decimal digit of `number`.
fn digit(number: u64) -> u8 {
    b"0123456789"[(number % 10) as usize]
}

/// Writes a decimal point and the nine digits of a number of nanoseconds.
fn fraction(out: &mut Vec<u8>, ns: u64) {
    let mut text = *b".000000000";
    // Each step writes two digits, because nine steps would take as long as the rest of the line.
    let mut rest = ns;
    for pair in text[2..].rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    text[1] = digit(rest);
    out.extend_from_slice(&text);
}

/// The decimal digits of the numbers from 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The text of the last second that was written. It is kept because many lines are of the same second, and
/// time zones take long.
#[derive(Clone, Debug, Default)]
struct Second {
    number: Option<u64>,
    text: String,
}

impl Second {
    /// Writes a time in `zone`; without a zone, in UTC and with a `Z` behind it.
    fn write(&mut self, out: &mut Vec<u8>, wall: Wall, zone: Option<&TimeZone>) {
        let number = wall.0 / NS;
        if self.number != Some(number) {
            self.number = Some(number);
            let instant = i64::try_from(number).ok().and_then(|number| Timestamp::from_second(number).ok());
            let instant = instant.unwrap_or_default();
            self.text = match zone {
                Some(zone) => zone.to_datetime(instant).strftime("%Y-%m-%d %H:%M:%S").to_string(),
                None => instant.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            };
        }
        out.extend_from_slice(self.text.as_bytes());
        fraction(out, wall.0 % NS);
        if zone.is_none() {
            out.push(b'Z');
        }
    }
}

#[cfg(test)]
mod tests;
