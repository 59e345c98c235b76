//! Finds the times in the lines of a log.

use jiff::civil::DateTime;
use serde_json::Value;
use trace_format::wall::Wall;

use crate::input::foreign::reader::StampReader;

/// The number of nanoseconds in a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// The number of bytes at the beginning of a line that are searched for a date.
const DATE_SEARCH_BYTES: usize = 64;
/// The number of bytes at the beginning of a line of a web server's log that are searched for a date: the names of
/// hosts and users come before the date.
const WEB_LOG_SEARCH_BYTES: usize = 1024;
const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
/// The fields of a JSON object that are searched for the time of the line, the preferred ones first.
const FIELDS: [&str; 9] = [
    "timestamp",
    "time",
    "ts",
    "@timestamp",
    "__REALTIME_TIMESTAMP",
    "datetime",
    "Timestamp",
    "@t",
    "asctime",
];
/// The time that a line of a log states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StampTime {
    /// The time as a moment, independent of a zone.
    Wall(Wall),
    /// The time as a date and a time of day, in the zone that the line states or in an unknown one.
    Civil {
        /// The date, and the time of day in whole seconds.
        date: DateTime,
        /// Whether the line states the year.
        has_year: bool,
        /// The fraction of the second, in nanoseconds.
        ns: u64,
        /// The offset of the time zone from UTC, in seconds; `None` if the line states no zone.
        offset: Option<i64>,
    },
}

/// A time that was found in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The offset in the line at which the time begins.
    pub at: usize,
    /// The time that the line states.
    pub time: StampTime,
    /// The value of the time's last digit, in nanoseconds.
    pub resolution: u64,
}

/// A format in which a log writes times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StampFormat {
    /// Each line is a JSON object with a time.
    Json,
    /// The day stands first and the month has a name: web servers write `[21/Nov/2026:14:43:52 +0000]`, others
    /// `21-Nov-2026 14:43:52` and `21 Nov 2026 14:43:52`.
    DayFirst,
    /// The time is in ISO 8601, like `2026-11-21T14:43:52.123Z`, also with a space instead of the `T`, with another
    /// zone, or without a zone; or like `2026/11/21 14:43:52`.
    Iso,
    /// The time is in seconds since 1970, with decimals, or in milli-, micro- or nanoseconds.
    Epoch,
    /// The month stands first and has a name: syslog writes `Nov 21 14:43:52`, the error log of Apache
    /// `[Sat Nov 21 14:43:52.123456 2026]`.
    MonthFirst,
    /// Months and days are numbers, without a year: klog writes `I1121 14:43:52.123456`, Android
    /// `11-21 14:43:52.123`.
    NoYear,
}

impl StampFormat {
    /// All formats, with the more specific ones first.
    pub(super) const ALL: [StampFormat; 6] = [
        StampFormat::Json,
        StampFormat::DayFirst,
        StampFormat::Iso,
        StampFormat::Epoch,
        StampFormat::MonthFirst,
        StampFormat::NoYear,
    ];
    /// The formats that contain a month and a time of day, so that other text is hardly ever taken for such a time.
    pub(super) const CALENDAR: [StampFormat; 4] =
        [StampFormat::DayFirst, StampFormat::Iso, StampFormat::MonthFirst, StampFormat::NoYear];

    /// Returns the name of the format, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            StampFormat::Json => "JSON fields",
            StampFormat::DayFirst => "web server times (21/Nov/2026:14:43:52 +0000)",
            StampFormat::Iso => "ISO 8601 times",
            StampFormat::Epoch => "times since 1970",
            StampFormat::MonthFirst => "syslog times (Nov 21 14:43:52)",
            StampFormat::NoYear => "klog times (I1121 14:43:52)",
        }
    }

    /// Returns the first time in this format near the beginning of a line; `None` if there is none.
    pub(super) fn find(self, line: &[u8]) -> Option<Stamp> {
        match self {
            StampFormat::Json => json(line),
            StampFormat::DayFirst => day_first(line),
            StampFormat::Iso => first(line, |b| b.is_ascii_digit(), iso),
            StampFormat::Epoch => {
                let at = line.len() - line.trim_ascii_start().len();
                let at = at + usize::from(line.get(at) == Some(&b'['));
                epoch(&line[at..]).map(|stamp| Stamp { at, ..stamp })
            }
            StampFormat::MonthFirst => first(line, |b| b.is_ascii_uppercase(), month_first),
            StampFormat::NoYear => first(line, |b| b.is_ascii_uppercase() || b.is_ascii_digit(), no_year),
        }
    }
}

/// Returns the first time near the beginning of a line. Calls `read` at each beginning of a word whose first byte
/// `begins` accepts.
fn first(
    line: &[u8],
    begins: impl Fn(u8) -> bool,
    read: impl Fn(StampReader<'_>) -> Option<Stamp>,
) -> Option<Stamp> {
    let starts = |at: &usize| {
        let before = at.checked_sub(1).map(|before| line[before]);
        begins(line[*at]) && before.is_none_or(|b| !b.is_ascii_alphanumeric() || ends_colour(line, *at))
    };
    (0..line.len().min(DATE_SEARCH_BYTES))
        .filter(starts)
        .find_map(|at| read(StampReader(&line[at..])).map(|stamp| Stamp { at, ..stamp }))
}

/// Returns whether an escape sequence that sets a colour ends directly before the offset `at`.
fn ends_colour(line: &[u8], at: usize) -> bool {
    let start = line[..at].iter().rposition(|&b| b == 0x1b);
    let sequence = start.and_then(|start| line[start + 1..at].strip_prefix(b"["));
    let parameters = sequence.and_then(|sequence| sequence.strip_suffix(b"m"));
    parameters.is_some_and(|all| all.iter().all(|b| b.is_ascii_digit() || *b == b';'))
}

fn json(line: &[u8]) -> Option<Stamp> {
    let at = line.len() - line.trim_ascii_start().len();
    if line.get(at) != Some(&b'{') {
        return None;
    }
    let value: Value = serde_json::from_slice(&line[at..]).ok()?;
    let stamp = match FIELDS.iter().find_map(|field| value.get(field))? {
        Value::String(text) => {
            let begins = |format: &StampFormat| format.find(text.as_bytes()).filter(|stamp| stamp.at == 0);
            StampFormat::CALENDAR.iter().find_map(begins).or_else(|| epoch(text.as_bytes()))?
        }
        Value::Number(number) => epoch(number.to_string().as_bytes())?,
        _ => return None,
    };
    Some(Stamp { at, ..stamp })
}

fn day_first(line: &[u8]) -> Option<Stamp> {
    let read = |mut text: StampReader<'_>| {
        let day = text.number_of(1, 2)?;
        let separator = text.byte(b"/- ")?;
        let month = text.month()?;
        text.byte(&[separator])?;
        let year = text.number(4)?;
        text.byte(b": T")?;
        text.rest_of_time((Some(year), month, day))
    };
    let line = &line[..line.len().min(WEB_LOG_SEARCH_BYTES)];
    first(line, |b| b.is_ascii_digit(), read).or_else(|| {
        let brackets = memchr::memchr_iter(b'[', line).map(|at| at + 1);
        brackets
            .filter(|at| *at >= DATE_SEARCH_BYTES)
            .find_map(|at| read(StampReader(&line[at..])).map(|stamp| Stamp { at, ..stamp }))
    })
}

fn iso(mut text: StampReader<'_>) -> Option<Stamp> {
    let year = text.number(4)?;
    let separator = text.byte(b"-/.");
    let month = text.number(2)?;
    if let Some(separator) = separator {
        text.byte(&[separator])?;
    }
    let day = text.number(2)?;
    match text.byte(b"Tt _]-")? {
        b']' => text.byte(b"[").map(|_| ())?,
        b'-' if separator.is_some() => return None,
        _ => {}
    }
    text.rest_of_time((Some(year), month, day))
}

fn month_first(mut text: StampReader<'_>) -> Option<Stamp> {
    let has_weekday = text.0.get(..3).is_some_and(|name| WEEKDAYS.contains(&name));
    if has_weekday {
        text.0 = &text.0[3..];
        text.byte(b" ")?;
    }
    let month = text.month()?;
    text.byte(b" ")?;
    let _ = text.byte(b" ");
    let day = text.number_of(1, 2)?;
    let _ = text.byte(b",");
    text.byte(b" ")?;
    let mut ahead = StampReader(text.0);
    let year = ahead.number(4).filter(|_| ahead.byte(b" ").is_some());
    if year.is_some() {
        text = ahead;
    }
    let stamp = text.rest_of_time((year, month, day))?;
    let StampTime::Civil { date, has_year: false, ns, offset } = stamp.time else { return Some(stamp) };
    // Behind the time, the year stands only in dates with a weekday, and a zone may be before it.
    let year = if has_weekday { text.year_behind() } else { None };
    let date = year.and_then(|year| date.with().year(year).build().ok()).unwrap_or(date);
    Some(Stamp { time: StampTime::Civil { date, has_year: year.is_some(), ns, offset }, ..stamp })
}

fn no_year(mut text: StampReader<'_>) -> Option<Stamp> {
    let (year, month, day) = if text.byte(b"IWEFD").is_some() {
        let digits = text.0.iter().take_while(|b| b.is_ascii_digit()).count();
        (if digits == 8 { Some(text.number(4)?) } else { None }, text.number(2)?, text.number(2)?)
    } else {
        let month = text.number(2)?;
        text.byte(b"-")?;
        (None, month, text.number(2)?)
    };
    text.byte(b" ")?;
    text.rest_of_time((year, month, day))
}

/// Reads a time since 1970: a number of ten digits in seconds, which may have decimals, or of thirteen, sixteen or
/// nineteen digits in milli-, micro- or nanoseconds.
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
    Some(Stamp {
        at: 0,
        time: StampTime::Wall(Wall(whole.checked_add(fraction / (SECOND / unit))?)),
        resolution: (resolution / (SECOND / unit)).max(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::foreign::zone::Zone;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    /// The wall time 2026-11-21T14:43:52Z in nanoseconds; `date +%s` shows its seconds.
    const T: u64 = 1_795_272_232 * SECOND;

    /// Returns the first format that finds a time in the line, the wall time, and its resolution. Local times are two
    /// hours ahead of UTC.
    fn found(line: &str) -> Option<(StampFormat, u64, u64)> {
        let mut zone = Zone::of(TimeZone::fixed(jiff::tz::offset(2)), Wall(T + 40 * 86_400 * SECOND));
        let find = |format: StampFormat| Some((format, format.find(line.as_bytes())?));
        let (format, stamp) = StampFormat::ALL.into_iter().find_map(find)?;
        Some((format, zone.wall(stamp.time)?.0, stamp.resolution))
    }

    #[test]
    fn times_of_many_programs_are_recognised() {
        use StampFormat::{DayFirst, Epoch, Iso, Json, MonthFirst, NoYear};
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
            ("10.0.0.1 - bob [21/Nov/2026:14:43:52 +0000] \"GET / HTTP/1.1\" 200 1", DayFirst, T, SECOND),
            ("::1 - - [21/Nov/2026:16:43:52 +0200] \"GET /[x] HTTP/1.1\" 200 1", DayFirst, T, SECOND),
            ("1795272232 hello", Epoch, T, SECOND),
            ("1795272232.25 host app[1]: hello", Epoch, T + 250 * MS, 10 * MS),
            ("[1795272232.000001] hello", Epoch, T + 1000, 1000),
            ("1795272232123: hello", Epoch, T + 123 * MS, MS),
            ("1795272232123456 hello", Epoch, T + 123_456_000, 1000),
            ("1795272232123456789 hello", Epoch, T + 123_456_789, 1),
            ("Nov 21 16:43:52 host app[1]: hello", MonthFirst, T, SECOND),
            ("Nov 21 16:43:52.123456 host app[1]: hello", MonthFirst, T + 123_456_000, 1000),
            ("<34>Nov  1 16:43:52 host app: hello", MonthFirst, T - 20 * 86_400 * SECOND, SECOND),
            ("Nov 21 14:43:52.000 UTC: %SYS-5-CONFIG_I", MonthFirst, T, MS),
            ("Nov 21 2026 16:43:52: %ASA-6-302013", MonthFirst, T, SECOND),
            ("Nov 21, 2026 4:43:52 PM com.example.App main", MonthFirst, T, SECOND),
            ("Nov 21, 2026 4:43:52\u{202f}PM com.example.App main", MonthFirst, T, SECOND),
            ("[Sat Nov 21 16:43:52.123456 2026] [core:error] [pid 1] x", MonthFirst, T + 123_456_000, 1000),
            ("[Sat Nov 21 16:43:52 2025] [error] x", MonthFirst, T - 365 * 86_400 * SECOND, SECOND),
            ("Sat Nov 21 16:43:52 EET 2026 x", MonthFirst, T, SECOND),
            ("Sat Nov 21 14:43:52 UTC 2026: x", MonthFirst, T, SECOND),
            ("[21/Nov/2026:16:43:52.123] haproxy", DayFirst, T + 123 * MS, MS),
            ("21-Nov-2026 16:43:52.123 INFO [main] x", DayFirst, T + 123 * MS, MS),
            ("1234:M 21 Nov 2026 16:43:52.123 * redis", DayFirst, T + 123 * MS, MS),
            ("Sat, 21 Nov 2026 14:43:52 GMT x", DayFirst, T, SECOND),
            ("I1121 16:43:52.123456   12345 main.go:7] x", NoYear, T + 123_456_000, 1000),
            ("E20261121 16:43:52.123456 12345 main.cc:7] x", NoYear, T + 123_456_000, 1000),
            ("11-21 16:43:52.123  1234  5678 I tag: x", NoYear, T + 123 * MS, MS),
            ("<34>1 2026-11-21T14:43:52.003Z host app - - x", Iso, T + 3 * MS, MS),
            ("2026-11-21T16:43:52+0200 host app[1]: journalctl", Iso, T, SECOND),
            ("2026/11/21 16:43:52.123456 main.go:7: x", Iso, T + 123_456_000, 1000),
            ("I, [2026-11-21T16:43:52.123456 #7]  INFO -- : x", Iso, T + 123_456_000, 1000),
            ("[2026-11-21][16:43:52][app][INFO] x", Iso, T, SECOND),
            ("20261121 16:43:52 x", Iso, T, SECOND),
            ("{\"time\":\"21/Nov/2026:16:43:52 +0200\"}", Json, T, SECOND),
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
            "Dez 21 14:43:52 host",
            "I1321 14:43:52",
            "2026-11-21 24:43:52",
            "{\"time\":true}",
            "{broken",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_searched_for_a_time_without_panic(bytes: Vec<u8>, start in "[0-9TZ:.+/ \\[-]{0,40}") {
            for line in [&bytes[..], &[start.as_bytes(), &bytes].concat()] {
                let _ = StampFormat::ALL.map(|format| format.find(line));
            }
        }

        #[test]
        fn written_times_are_read_back(wall in 0..4_000_000_000u64 * SECOND) {
            let stamp = StampFormat::Iso.find(Wall(wall).to_string().as_bytes()).unwrap();
            let found = Zone::of(TimeZone::UTC, Wall(0)).wall(stamp.time);
            prop_assert_eq!((found, stamp.resolution), (Some(Wall(wall)), 1));
        }
    }
}
