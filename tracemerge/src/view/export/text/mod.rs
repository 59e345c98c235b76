//! Lines as they are, or with their time in other terms, in colours or not.
//!
//! Without colours and with raw ticks every line stays as it is, byte for byte, and the output is a trace again.

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

/// In which terms the time of a line is given.
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

const NS: u64 = 1_000_000_000;
/// The columns that seconds take before their point: with it and nine digits as many as ticks have.
const SECONDS: usize = TICKS_DIGITS - 10;

/// The layout of a line.
#[derive(Clone, Debug)]
pub struct TextStyle {
    /// The terms of time.
    pub time: TimeMode,
    /// What offsets begin with: the first line of the chosen runs.
    pub first: Wall,
    /// The time zone of local times.
    pub zone: TimeZone,
    /// The colours, or none.
    pub palette: Option<Palette>,
    /// What is to stand out in colours.
    pub found: Option<Regex>,
}

/// The format.
#[derive(Clone, Debug)]
pub struct TextFormat {
    look: TextStyle,
    palette: Palette,
    /// Whether more than one process is shown.
    processes: bool,
    /// The time of the record shown before.
    before: Option<Wall>,
    second: Second,
    /// Room for the time of a record.
    time: Vec<u8>,
}

impl TextFormat {
    /// Lines that look so.
    #[must_use]
    pub fn new(look: TextStyle) -> TextFormat {
        let palette = look.palette.unwrap_or_default();
        TextFormat {
            look,
            palette,
            processes: false,
            before: None,
            second: Second::default(),
            time: Vec::new(),
        }
    }

    /// Offsets begin with `first` from here on.
    pub fn begin_at(&mut self, first: Wall) {
        self.look.first = first;
    }

    /// Names the process of each thread from here on, for there are several.
    pub fn tell_apart(&mut self) {
        self.processes = true;
    }

    /// Writes the time that the lines of this record begin with.
    fn write_time(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if self.look.time == TimeMode::Ticks {
            return out.extend_from_slice(&ticks_digits(record.ticks));
        }
        let wall = origin.clock.wall(record.ticks);
        match self.look.time {
            TimeMode::Offset => seconds(out, self.look.first, wall),
            TimeMode::Delta => seconds(out, self.before.unwrap_or(wall), wall),
            TimeMode::Wall => self.second.write(out, wall, Some(&self.look.zone)),
            TimeMode::Utc | TimeMode::Ticks => self.second.write(out, wall, None),
        }
        self.before = Some(wall);
    }

    /// Names the process before the thread, where several are shown.
    fn write_process(&self, origin: &Origin, out: &mut Vec<u8>) {
        if self.processes && self.look.time != TimeMode::Ticks {
            let unknown = if origin.is_log { "-" } else { "?" };
            // Writing to memory does not fail.
            let _ = match &origin.run {
                Some(run) => write!(out, "{}/", run.pid),
                None => write!(out, "{unknown}/"),
            };
        }
    }

    /// Writes a line in colours.
    fn write_painted(&self, time: &[u8], origin: &Origin, line: &Line<'_>, out: &mut Vec<u8>) {
        let Palette { meta, warning, .. } = self.palette;
        paint(out, self.palette.time, |out| out.extend_from_slice(time));
        out.push(if self.look.time == TimeMode::Ticks { b'-' } else { b' ' });
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

    /// Writes the text of a message, with what is to stand out in it.
    fn write_message(&self, payload: &[u8], out: &mut Vec<u8>) {
        let mut done = 0;
        if let Some(found) = &self.look.found {
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
        self.processes = processes.collect::<HashSet<_>>().len() > 1;
    }

    fn record(&mut self, origin: &Origin, record: &RecordText<'_>, out: &mut Vec<u8>) {
        if self.is_verbatim() {
            return out.extend_from_slice(record.lines);
        }
        if self.look.palette.is_some() {
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
        self.look.time == TimeMode::Ticks && self.look.palette.is_none()
    }

    fn copies(&self) -> Option<Copies<'_>> {
        let is_of_one = self.look.time != TimeMode::Delta;
        is_of_one.then(|| Box::new(|| Box::new(self.clone()) as Box<dyn Export>) as Copies<'_>)
    }
}

/// All of a line but its ticks and what stands between them and the thread.
fn behind_ticks(line: &[u8]) -> &[u8] {
    line.get(TICKS_DIGITS + 1..).unwrap_or_default()
}

/// Writes with `write`, in `style`.
fn paint(out: &mut Vec<u8>, style: Style, write: impl FnOnce(&mut Vec<u8>)) {
    if style.is_plain() {
        return write(out);
    }
    let _ = write!(out, "{}", style.render());
    write(out);
    let _ = write!(out, "{}", style.render_reset());
}

/// Writes the seconds from `from` to `to`, in as many columns as ticks have.
fn seconds(out: &mut Vec<u8>, from: Wall, to: Wall) {
    let ns = to.0.abs_diff(from.0);
    let start = out.len();
    // Without the machinery of `write!`, which takes longer than all else that is done for a line.
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
    while out.len() < start + SECONDS {
        out.push(b' ');
    }
    out[start..].reverse();
    fraction(out, ns % NS);
}

/// The last decimal digit of `number`.
fn digit(number: u64) -> u8 {
    b"0123456789"[(number % 10) as usize]
}

/// Writes a point and the nine digits of a number of nanoseconds.
fn fraction(out: &mut Vec<u8>, ns: u64) {
    let mut text = *b".000000000";
    // Two digits a step: nine steps would take as long as the rest of the line.
    let mut rest = ns;
    for pair in text[2..].rchunks_exact_mut(2) {
        pair.copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    text[1] = digit(rest);
    out.extend_from_slice(&text);
}

/// The numbers from 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// The last second that was written: many lines are of the same, and time zones take long.
#[derive(Clone, Debug, Default)]
struct Second {
    number: Option<u64>,
    text: String,
}

impl Second {
    /// Writes a time in `zone`, or in UTC with the mark of that.
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
