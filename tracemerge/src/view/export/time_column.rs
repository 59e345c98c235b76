//! The time at the beginning of a line: ticks, seconds, or date and time.

use clap::ValueEnum;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use trace_format::line::{TICKS_DIGITS, Ticks, ticks_digits};
use trace_format::wall::Wall;

use crate::input::inputs::Origin;
use crate::time::clocks::TickClock;

/// The form of the time of a line. The comments of the variants are the help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeMode {
    /// Raw ticks, as in the trace
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
/// The number of characters of a fraction: a decimal point and nine digits.
const FRACTION: usize = 10;
/// The number of characters before the decimal point if times are shown in seconds. With the point and nine digits
/// after it, such a time is as wide as ticks.
const SECONDS_COLUMNS: usize = TICKS_DIGITS - FRACTION;

/// The column at the beginning of lines that shows times.
#[derive(Clone, Debug)]
pub(crate) struct TimeColumn {
    /// The form of the times.
    pub mode: TimeMode,
    /// The time from which offsets count: the steady time of the first line of the chosen runs, in nanoseconds.
    pub first: u64,
    /// The time zone of local times.
    zone: TimeZone,
    /// The steady time of the record that was written last, in nanoseconds; kept for the mode `Delta`.
    before: Option<u64>,
    second: Second,
}

impl TimeColumn {
    /// Makes a column with times in the form `mode`. Offsets count from `first`, in nanoseconds of steady time, and
    /// local times are in `zone`.
    #[must_use]
    pub(crate) fn new(mode: TimeMode, first: u64, zone: TimeZone) -> TimeColumn {
        TimeColumn { mode, first, zone, before: None, second: Second::default() }
    }

    /// Writes the time at `ticks` of `clock` in the form `mode`.
    pub(crate) fn write(&mut self, clock: &TickClock, ticks: Ticks, out: &mut Vec<u8>) {
        if self.mode == TimeMode::Ticks {
            return out.extend_from_slice(&ticks_digits(ticks));
        }
        match self.mode {
            TimeMode::Offset => seconds(out, self.first, clock.steady(ticks)),
            TimeMode::Delta => {
                let now = clock.steady(ticks);
                seconds(out, self.before.replace(now).unwrap_or(now), now);
            }
            TimeMode::Wall => self.second.write(out, clock.wall(ticks), Some(&self.zone)),
            TimeMode::Utc | TimeMode::Ticks => self.second.write(out, clock.wall(ticks), None),
        }
    }

    /// Writes the time of a record of `origin`. If the record may be older than its ticks say, shows this.
    pub(crate) fn write_of(&mut self, origin: &Origin, ticks: Ticks, out: &mut Vec<u8>) {
        if origin.may_be_older(ticks) {
            return self.write_older(&origin.clock, ticks, out);
        }
        self.write(&origin.clock, ticks, out);
    }

    /// Writes for a record that it was made before `ticks` of `clock`. The text has the same width as other times.
    pub(crate) fn write_older(&mut self, clock: &TickClock, ticks: Ticks, out: &mut Vec<u8>) {
        let start = out.len();
        self.write(clock, ticks, out);
        match self.mode {
            TimeMode::Ticks | TimeMode::Delta => {}
            TimeMode::Offset => match out[start..].iter().take_while(|byte| **byte == b' ').count() {
                0 => out.insert(start, b'<'),
                blanks => out[start + blanks - 1] = b'<',
            },
            TimeMode::Wall | TimeMode::Utc => {
                let width = out.len();
                out.truncate(start);
                out.extend_from_slice(b"before ");
                let zone = (self.mode == TimeMode::Wall).then_some(&self.zone);
                // The next second, without a fraction.
                let time = out.len();
                let wall = Wall((clock.wall(ticks).0 / NS).saturating_add(1).saturating_mul(NS));
                self.second.write(out, wall, zone);
                if let Some(point) = out[time..].iter().position(|byte| *byte == b'.') {
                    out.drain(time + point..time + point + FRACTION);
                }
                out.resize(out.len().max(width), b' ');
            }
        }
    }
}

/// Writes the time from `from` to `to`, both in nanoseconds, as seconds with nine decimals, in at least as many
/// characters as ticks have.
fn seconds(out: &mut Vec<u8>, from: u64, to: u64) {
    let (ns, is_before) = (to.abs_diff(from), to < from);
    // `write!` would take longer than all other work for a line.
    let mut buffer = itoa::Buffer::new();
    let whole = buffer.format(ns / NS).as_bytes();
    const BLANKS: [u8; SECONDS_COLUMNS] = [b' '; SECONDS_COLUMNS];
    let blanks = SECONDS_COLUMNS.saturating_sub(whole.len() + usize::from(is_before));
    out.extend_from_slice(&BLANKS[..blanks]);
    out.extend_from_slice(if is_before { b"-" } else { b"" });
    out.extend_from_slice(whole);
    fraction(out, (ns % NS) as u32);
}

/// Writes a decimal point and the nine digits of a number of nanoseconds.
fn fraction(out: &mut Vec<u8>, ns: u32) {
    let point = out.len();
    // Writes the nine digits after a `1`, and replaces the `1` by the decimal point.
    out.extend_from_slice(itoa::Buffer::new().format(NS as u32 + ns).as_bytes());
    out[point] = b'.';
}

/// A cache of the text of the last written second, because many lines have the same second, and conversion to
/// a time zone is slow.
#[derive(Clone, Debug, Default)]
struct Second {
    number: Option<u64>,
    text: String,
}

impl Second {
    /// Writes a time in `zone`. Without a zone, writes it in UTC, followed by `Z`.
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
        fraction(out, (wall.0 % NS) as u32);
        if zone.is_none() {
            out.push(b'Z');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_formatted_as_by_the_standard_library() {
        for (from, to) in [
            (0, 0),
            (5, 4),
            (0, 9_999_999_999),
            (0, 10 * NS),
            (7 * NS, 0),
            (1, 123_456 * NS),
            (0, u64::MAX),
            (u64::MAX, 0),
        ] {
            let mut out = b"x".to_vec();
            seconds(&mut out, from, to);
            let ns = from.abs_diff(to);
            let sign = if to < from { "-" } else { "" };
            let expected = format!("{:>16}", format!("{sign}{}.{:09}", ns / NS, ns % NS));
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{expected}"));
        }
    }
}
