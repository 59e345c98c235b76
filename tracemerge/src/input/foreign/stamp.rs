//! Times at the beginning of a log's lines.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use trace_format::wall::Wall;

const SECOND: u64 = 1_000_000_000;
/// The number of first bytes of a line that are searched for a date.
const DATE_SEARCH_BYTES: usize = 64;
/// The number of these bytes in a line of a web server, in which names of hosts and users stand before the date.
const WEB_LOG_SEARCH_BYTES: usize = 1024;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
/// The fields of a JSON object that may have its time.
const FIELDS: [&str; 6] = ["timestamp", "time", "ts", "@timestamp", "__REALTIME_TIMESTAMP", "datetime"];

/// A time, and its resolution: the value of its last digit in nanoseconds.
pub type Stamp = (Wall, u64);

/// The zone and the year of times that do not state them.
pub struct Zone {
    /// The zone of times that do not name theirs.
    local: TimeZone,
    /// The time to which a date without a year is the nearest.
    about: Wall,
}

impl Zone {
    /// Uses the machine's zone (or `TZ`); `about` is a time near those of the log.
    pub fn new(about: Wall) -> Zone {
        Zone { local: TimeZone::system(), about }
    }
}

/// A format in which a log writes times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampFormat {
    /// Each line is a JSON object with a time.
    Json,
    /// Web servers write `[21/Nov/2026:14:43:52 +0000]`.
    Common,
    /// ISO 8601 is `2026-11-21T14:43:52.123Z`, also with a space, other zones or none; and
    /// `2026/11/21 14:43:52`.
    Iso,
    /// The time is in seconds since 1970, with decimals, or in milli-, micro- or nanoseconds.
    Epoch,
    /// Syslog writes `Nov 21 14:43:52`.
    Syslog,
}

impl StampFormat {
    /// All formats, the more particular ones first.
    pub const ALL: [StampFormat; 5] =
        [StampFormat::Json, StampFormat::Common, StampFormat::Iso, StampFormat::Epoch, StampFormat::Syslog];

    /// Returns the name of the format, for messages.
    pub fn name(self) -> &'static str {
        match self {
            StampFormat::Json => "JSON fields",
            StampFormat::Common => "web server times (21/Nov/2026:14:43:52 +0000)",
            StampFormat::Iso => "ISO 8601 times",
            StampFormat::Epoch => "times since 1970",
            StampFormat::Syslog => "syslog times (Nov 21 14:43:52)",
        }
    }

    /// Returns the format in which most lines of `start` have a time.
    pub fn of(start: &[u8], zone: &Zone) -> Option<StampFormat> {
        let lines = || start.split(|&b| b == b'\n').take(1000);
        let count = |format: StampFormat| lines().filter(|line| format.find(line, zone).is_some()).count();
        let counts = StampFormat::ALL.map(|format| (format, count(format)));
        let most = counts.iter().map(|(_, count)| *count).max().filter(|most| *most > 0)?;
        counts.iter().find(|(_, count)| *count == most).map(|(format, _)| *format)
    }

    /// Returns the time of a line, if the line begins with one.
    pub fn find(self, line: &[u8], zone: &Zone) -> Option<Stamp> {
        match self {
            StampFormat::Json => json(line, zone),
            StampFormat::Common => common(line),
            StampFormat::Iso => iso(line, zone),
            StampFormat::Epoch => {
                epoch(line.trim_ascii_start().strip_prefix(b"[").unwrap_or(line.trim_ascii_start()))
            }
            StampFormat::Syslog => syslog(line, zone),
        }
    }
}

fn json(line: &[u8], zone: &Zone) -> Option<Stamp> {
    let line = line.trim_ascii_start();
    if line.first() != Some(&b'{') {
        return None;
    }
    let value: Value = serde_json::from_slice(line).ok()?;
    match FIELDS.iter().find_map(|field| value.get(field))? {
        Value::String(text) => iso(text.as_bytes(), zone).or_else(|| epoch(text.as_bytes())),
        Value::Number(number) => epoch(number.to_string().as_bytes()),
        _ => None,
    }
}

fn common(line: &[u8]) -> Option<Stamp> {
    let line = &line[..line.len().min(WEB_LOG_SEARCH_BYTES)];
    memchr::memchr_iter(b'[', line).find_map(|at| {
        let mut text = StampReader(&line[at + 1..]);
        let day = text.number(2)?;
        text.byte(b"/")?;
        let month = text.month()?;
        text.byte(b"/")?;
        let year = text.number(4)?;
        text.byte(b":")?;
        let (clock, ns, resolution) = text.clock()?;
        text.byte(b" ")?;
        let offset = text.offset()?;
        Some((at_offset(date(year, month, day, clock)?, ns, offset)?, resolution))
    })
}

fn iso(line: &[u8], zone: &Zone) -> Option<Stamp> {
    let starts = |at: &usize| {
        let before = at.checked_sub(1).map(|before| line[before]);
        line[*at].is_ascii_digit()
            && before.is_none_or(|b| !b.is_ascii_alphanumeric() || ends_colour(line, *at))
    };
    (0..line.len().min(DATE_SEARCH_BYTES)).filter(starts).find_map(|at| {
        let mut text = StampReader(&line[at..]);
        let year = text.number(4)?;
        let separator = text.byte(b"-/")?;
        let month = text.number(2)?;
        text.byte(&[separator])?;
        let day = text.number(2)?;
        text.byte(b"Tt _")?;
        let (clock, ns, resolution) = text.clock()?;
        let date = date(year, month, day, clock)?;
        let wall = match text.zone() {
            Some(offset) => at_offset(date, ns, offset)?,
            None => local(date, ns, zone)?,
        };
        Some((wall, resolution))
    })
}

/// Returns whether an escape sequence that sets a colour ends before `at`.
fn ends_colour(line: &[u8], at: usize) -> bool {
    let start = line[..at].iter().rposition(|&b| b == 0x1b);
    let sequence = start.and_then(|start| line[start + 1..at].strip_prefix(b"["));
    let parameters = sequence.and_then(|sequence| sequence.strip_suffix(b"m"));
    parameters.is_some_and(|all| all.iter().all(|b| b.is_ascii_digit() || *b == b';'))
}

fn syslog(line: &[u8], zone: &Zone) -> Option<Stamp> {
    let mut text = StampReader(line);
    if text.byte(b"<").is_some() {
        text.0 = &text.0[memchr::memchr(b'>', text.0)? + 1..];
    }
    let month = text.month()?;
    text.byte(b" ")?;
    let day = if text.byte(b" ").is_some() { text.number(1)? } else { text.number(2)? };
    text.byte(b" ")?;
    let (clock, ns, resolution) = text.clock()?;
    let year = jiff::Timestamp::from_nanosecond(i128::from(zone.about.0)).ok()?;
    let year = i64::from(year.to_zoned(zone.local.clone()).year());
    let walls = (year - 1..=year + 1).filter_map(|year| local(date(year, month, day, clock)?, ns, zone));
    Some((walls.min_by_key(|wall| wall.0.abs_diff(zone.about.0))?, resolution))
}

/// Reads a number of seconds with ten digits, which may have decimals, or a finer one with thirteen, sixteen
/// or nineteen.
fn epoch(text: &[u8]) -> Option<Stamp> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let unit = match digits {
        10 => SECOND,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    let mut rest = StampReader(text);
    let whole = u64::try_from(rest.number(digits)?).ok()?.checked_mul(unit)?;
    let (fraction, resolution) = rest.fraction();
    if rest.0.first().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    Some((Wall(whole.checked_add(fraction / (SECOND / unit))?), (resolution / (SECOND / unit)).max(1)))
}

/// The hours, minutes and seconds of a time of day.
type ClockTime = (i64, i64, i64);

fn date(year: i64, month: i64, day: i64, (hour, minute, second): ClockTime) -> Option<DateTime> {
    let small = |number: i64| i8::try_from(number).ok();
    // A leap second counts as the second before it: Unix time has none.
    let second = small(second)?.min(59);
    let year = i16::try_from(year).ok()?;
    DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, second, 0).ok()
}

fn at_offset(date: DateTime, ns: u64, offset: i64) -> Option<Wall> {
    let utc = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond();
    wall(utc - i128::from(offset) * i128::from(SECOND), ns)
}

fn local(date: DateTime, ns: u64, zone: &Zone) -> Option<Wall> {
    wall(date.to_zoned(zone.local.clone()).ok()?.timestamp().as_nanosecond(), ns)
}

fn wall(second: i128, ns: u64) -> Option<Wall> {
    u64::try_from(second + i128::from(ns)).ok().map(Wall)
}

/// The rest of a text that is read from its beginning.
struct StampReader<'a>(&'a [u8]);

impl StampReader<'_> {
    /// Reads one of the `wanted` bytes.
    fn byte(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| wanted.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number of exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    }

    fn month(&mut self) -> Option<i64> {
        let (name, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        MONTHS.iter().zip(1..).find(|(month, _)| **month == name).map(|(_, number)| number)
    }

    /// Reads `14:43:52.123`; returns the time of day, the nanoseconds, and the resolution in nanoseconds.
    fn clock(&mut self) -> Option<(ClockTime, u64, u64)> {
        let hour = self.number(2)?;
        self.byte(b":")?;
        let minute = self.number(2)?;
        self.byte(b":")?;
        let second = self.number(2)?;
        let (ns, resolution) = self.fraction();
        Some(((hour, minute, second), ns, resolution))
    }

    /// Reads a decimal fraction of a second, if there is one; returns it and its resolution, in nanoseconds.
    fn fraction(&mut self) -> (u64, u64) {
        let Some((b'.' | b',', rest)) = self.0.split_first() else { return (0, SECOND) };
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return (0, SECOND);
        }
        self.0 = &rest[digits..];
        rest[..digits]
            .iter()
            .take(9)
            .fold((0, SECOND), |(sum, unit), b| (sum + u64::from(b - b'0') * (unit / 10), unit / 10))
    }

    /// Reads `Z`, `UTC` or an offset, also behind a space; returns the offset in seconds.
    fn zone(&mut self) -> Option<i64> {
        let _ = self.byte(b" ");
        if self.byte(b"Zz").is_some() || self.0.starts_with(b"UTC") || self.0.starts_with(b"GMT") {
            return Some(0);
        }
        self.offset()
    }

    /// Reads `+0100`, `+01:00` or `+01`; returns the offset in seconds.
    fn offset(&mut self) -> Option<i64> {
        let sign = if self.byte(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.number(2)?;
        let colon = self.byte(b":").is_some();
        let minutes = match self.0 {
            [a, b, ..] if a.is_ascii_digit() && b.is_ascii_digit() => self.number(2)?,
            _ if colon => return None,
            _ => 0,
        };
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The nanoseconds of 2026-11-21T14:43:52Z, as `date +%s` has its seconds.
    const T: u64 = 1_795_272_232 * SECOND;

    fn zone() -> Zone {
        Zone { local: TimeZone::fixed(jiff::tz::offset(2)), about: Wall(T + 40 * 86_400 * SECOND) }
    }

    fn found(line: &str) -> Option<(StampFormat, u64, u64)> {
        let format = StampFormat::of(line.as_bytes(), &zone())?;
        let (wall, resolution) = format.find(line.as_bytes(), &zone())?;
        Some((format, wall.0, resolution))
    }

    #[test]
    fn times_of_many_programs_are_recognised() {
        use StampFormat::{Common, Epoch, Iso, Json, Syslog};
        const MS: u64 = 1_000_000;
        for (line, format, wall, resolution) in [
            ("2026-11-21T14:43:52Z hello", Iso, T, SECOND),
            ("2026-11-21T14:43:52.123456789Z hello", Iso, T + 123_456_789, 1),
            ("2026-11-21 14:43:52,123 INFO hello", Iso, T + 123 * MS - 7200 * SECOND, MS),
            ("2026-11-21T16:43:52.5+02:00 hello", Iso, T + 500 * MS, 100 * MS),
            ("2026-11-21T13:43:52-0100 host app[1]: hello", Iso, T, SECOND),
            ("2026-11-21 14:43:52.000 UTC [17] LOG: hello", Iso, T, MS),
            ("2026-11-21 16:43:52 +0200 hello", Iso, T, SECOND),
            ("[2026-11-21T14:43:52Z INFO  app] hello", Iso, T, SECOND),
            ("\u{1b}[2m2026-11-21T14:43:52.000001Z\u{1b}[0m INFO hello", Iso, T + 1000, 1000),
            ("INFO 2026-11-21T14:43:52Z hello", Iso, T, SECOND),
            ("2026/11/21 16:43:52 [error] 7#7: *1 open() failed", Iso, T, SECOND),
            ("10.0.0.1 - bob [21/Nov/2026:14:43:52 +0000] \"GET / HTTP/1.1\" 200 1", Common, T, SECOND),
            ("::1 - - [21/Nov/2026:16:43:52 +0200] \"GET /[x] HTTP/1.1\" 200 1", Common, T, SECOND),
            ("1795272232 hello", Epoch, T, SECOND),
            ("1795272232.25 host app[1]: hello", Epoch, T + 250 * MS, 10 * MS),
            ("[1795272232.000001] hello", Epoch, T + 1000, 1000),
            ("1795272232123: hello", Epoch, T + 123 * MS, MS),
            ("1795272232123456 hello", Epoch, T + 123_456_000, 1000),
            ("1795272232123456789 hello", Epoch, T + 123_456_789, 1),
            ("Nov 21 16:43:52 host app[1]: hello", Syslog, T, SECOND),
            ("Nov 21 16:43:52.123456 host app[1]: hello", Syslog, T + 123_456_000, 1000),
            ("<34>Nov  1 16:43:52 host app: hello", Syslog, T - 20 * 86_400 * SECOND, SECOND),
            ("{\"level\":\"info\",\"time\":\"2026-11-21T14:43:52Z\"}", Json, T, SECOND),
            ("{\"timestamp\":\"2026-11-21T14:43:52.000000001Z\",\"m\":1}", Json, T + 1, 1),
            ("{\"ts\":1795272232.5,\"m\":\"2020-01-01T00:00:00Z\"}", Json, T + 500 * MS, 100 * MS),
            ("{\"__REALTIME_TIMESTAMP\":\"1795272232000001\"}", Json, T + 1000, 1000),
        ] {
            assert_eq!(found(line), Some((format, wall, resolution)), "{line}");
        }
    }

    #[test]
    fn text_that_is_not_a_time_is_not_recognised_as_one() {
        for line in [
            "",
            "hello",
            "    at app.rs:12",
            "12345 hello",
            "17952722321 hello",
            "1795272232x",
            "2026-13-21T14:43:52Z",
            "2026-11-31T14:43:52Z",
            "x2026-11-21T14:43:52Z",
            "2026-11-21",
            "Nov 31 14:43:52 host",
            "[21/Nox/2026:14:43:52 +0000]",
            "{\"time\":true}",
            "{broken",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn the_format_of_most_lines_is_chosen() {
        let log = "1795272232 starts\n2026-11-21T14:43:52Z one\n  more\n2026-11-21T14:43:53Z two\n";
        assert_eq!(StampFormat::of(log.as_bytes(), &zone()), Some(StampFormat::Iso));
    }

    proptest! {
        #[test]
        fn any_line_is_searched_for_a_time_without_panic(bytes: Vec<u8>, start in "[0-9TZ:.+/ \\[-]{0,40}") {
            for line in [&bytes[..], &[start.as_bytes(), &bytes].concat()] {
                let _ = StampFormat::ALL.map(|format| format.find(line, &zone()));
            }
        }

        #[test]
        fn written_times_are_read_back(wall in 0..4_000_000_000u64 * SECOND) {
            let text = Wall(wall).to_string();
            prop_assert_eq!(StampFormat::Iso.find(text.as_bytes(), &zone()), Some((Wall(wall), 1)));
        }
    }
}
