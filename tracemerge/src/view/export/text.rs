//! Lines as they are, or with their time in other terms, in colours or not.
//!
//! Without colours and with raw ticks every line stays as it is, byte for byte, and the output is a trace again.

use std::collections::HashSet;
use std::io::{self, Write};

use anstyle::Style;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::bytes::Regex;
use trace_format::line::{Kind, Line, TID_DIGITS, ticks_digits};
use trace_format::wall::Wall;

use super::{Copies, Export};
use crate::input::inputs::Origin;
use crate::ui::colour::Palette;
use crate::view::records::{Record, is_warning};

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

/// The layout of a line.
#[derive(Clone, Debug)]
pub struct Look {
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
pub struct Text {
    look: Look,
    palette: Palette,
    /// Whether more than one process is shown.
    processes: bool,
    /// The time of the record shown before.
    before: Option<Wall>,
    second: Second,
    /// The time of this record, as it is shown.
    time: Vec<u8>,
    text: Vec<u8>,
}

impl Text {
    /// Lines that look so.
    #[must_use]
    pub fn new(look: Look) -> Text {
        let palette = look.palette.unwrap_or_default();
        let (time, text) = (Vec::new(), Vec::new());
        Text { look, palette, processes: false, before: None, second: Second::default(), time, text }
    }

    /// Offsets begin with `first` from here on.
    pub fn begin_at(&mut self, first: Wall) {
        self.look.first = first;
    }

    /// Names the process of each thread from here on, for there are several.
    pub fn tell_apart(&mut self) {
        self.processes = true;
    }

    fn tell_time(&mut self, origin: &Origin, record: &Record<'_>) {
        self.time.clear();
        if self.look.time == TimeMode::Ticks {
            return self.time.extend_from_slice(&ticks_digits(record.ticks));
        }
        let wall = origin.clock.wall(record.ticks);
        match self.look.time {
            TimeMode::Offset => seconds(&mut self.time, self.look.first, wall),
            TimeMode::Delta => seconds(&mut self.time, self.before.unwrap_or(wall), wall),
            TimeMode::Wall => self.second.write(&mut self.time, wall, &self.look.zone),
            TimeMode::Utc | TimeMode::Ticks => {
                // Writing to memory does not fail.
                let _ = write!(self.time, "{wall}");
            }
        }
        self.before = Some(wall);
    }

    fn tell_line(&mut self, origin: &Origin, line: &Line<'_>) {
        let Palette { time, meta, warning, .. } = self.palette;
        let out = &mut self.text;
        paint(out, time, |out| out.extend_from_slice(&self.time));
        let raw = self.look.time == TimeMode::Ticks;
        out.push(if raw { b'-' } else { b' ' });
        paint(out, self.palette.thread(line.key.tid), |out| {
            if self.processes && !raw {
                let unknown = if origin.is_log { "-" } else { "?" };
                let pid = origin.run.as_ref().map_or_else(|| unknown.to_owned(), |run| run.pid.to_string());
                let _ = write!(out, "{pid}/");
            }
            let _ = write!(out, "{:0TID_DIGITS$}", line.key.tid);
        });
        out.extend_from_slice(&[b' ', line.kind.byte(), b' ']);
        match line.kind {
            Kind::Meta if is_warning(line.payload) => {
                paint(out, warning, |out| out.extend_from_slice(line.payload))
            }
            Kind::Meta => paint(out, meta, |out| out.extend_from_slice(line.payload)),
            _ => self.tell_message(line.payload),
        }
        self.text.push(b'\n');
    }

    fn tell_message(&mut self, payload: &[u8]) {
        let mut done = 0;
        if let Some(found) = self.look.found.as_ref().filter(|_| self.look.palette.is_some()) {
            for hit in found.find_iter(payload).filter(|hit| !hit.is_empty()) {
                self.text.extend_from_slice(&payload[done..hit.start()]);
                paint(&mut self.text, self.palette.found, |out| out.extend_from_slice(hit.as_bytes()));
                done = hit.end();
            }
        }
        self.text.extend_from_slice(&payload[done..]);
    }
}

impl Export for Text {
    fn begin(&mut self, origins: &[Origin], _out: &mut dyn Write) -> io::Result<()> {
        let shown = origins.iter().filter(|origin| origin.is_shown);
        let processes = shown
            .filter(|origin| !origin.is_log)
            .map(|origin| origin.run.as_ref().map(|run| (&run.boot, run.pid, run.id)));
        self.processes = processes.collect::<HashSet<_>>().len() > 1;
        Ok(())
    }

    fn record(&mut self, origin: &Origin, record: &Record<'_>, out: &mut dyn Write) -> io::Result<()> {
        if self.is_verbatim() {
            return out.write_all(record.lines);
        }
        self.tell_time(origin, record);
        self.text.clear();
        for line in record.parsed() {
            self.tell_line(origin, &line);
        }
        out.write_all(&self.text)
    }

    fn finish(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn is_verbatim(&self) -> bool {
        self.look.time == TimeMode::Ticks && self.look.palette.is_none()
    }

    fn copies(&self) -> Option<Copies<'_>> {
        let is_of_one = self.look.time != TimeMode::Delta;
        is_of_one.then(|| Box::new(|| Box::new(self.clone()) as Box<dyn Export>) as Copies<'_>)
    }
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
    let _ = if to < from {
        let text = format!("-{}.{:09}", ns / NS, ns % NS);
        write!(out, "{text:>16}")
    } else {
        write!(out, "{:>6}.{:09}", ns / NS, ns % NS)
    };
}

/// The last second that was written: many lines are of the same, and time zones take long.
#[derive(Clone, Debug, Default)]
struct Second {
    number: Option<u64>,
    text: String,
}

impl Second {
    fn write(&mut self, out: &mut Vec<u8>, wall: Wall, zone: &TimeZone) {
        let number = wall.0 / NS;
        if self.number != Some(number) {
            self.number = Some(number);
            let instant = i64::try_from(number).ok().and_then(|number| Timestamp::from_second(number).ok());
            let time = zone.to_datetime(instant.unwrap_or_default());
            self.text = time.strftime("%Y-%m-%d %H:%M:%S").to_string();
        }
        out.extend_from_slice(self.text.as_bytes());
        let _ = write!(out, ".{:09}", wall.0 % NS);
    }
}

#[cfg(test)]
mod tests;
