//! Points of time as people write them: offsets from the first or the last line of a trace, times of day, and raw
//! ticks.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use trace_format::duration::parse_ns;
use trace_format::line::{Ticks, parse_ticks};
use trace_format::wall::Wall;

use crate::time::clocks::TickClock;

/// A point of time that was given with `--since` or `--until`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// The point is this number of nanoseconds after the first line of the chosen runs.
    AfterFirst(u64),
    /// The point is this number of nanoseconds before the last line of the chosen runs.
    BeforeLast(u64),
    /// The point is given as raw ticks.
    Ticks(u64),
    /// The point is a date and a time of day in UTC, or with an offset from UTC.
    Instant(Wall),
    /// The point is a date and a local time of day.
    Local(DateTime),
    /// The point is a time of day, on the day of the trace. The flag states that the time is in UTC, not local.
    OfDay(Time, bool),
}

/// The forms of a point of time, for help and messages.
pub(crate) const FORMS: &str = "1.5s or 200ms after the first line, -200ms before the last, 14:43:52.5 or \
    '2026-11-21 14:43:52' (with Z or +01:00 if not local), ticks as 0x128fd9f283f, @1275577149503 or as they stand \
    in a line";

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        let text = text.trim();
        ticks(text)
            .or_else(|| time_of_day(text))
            .or_else(|| offset(text))
            .ok_or_else(|| format!("not a point of time; expected {FORMS}"))
    }
}

fn ticks(text: &str) -> Option<When> {
    let ticks = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&text[2..], 16).ok()?,
        [b'@', ..] => text[1..].parse().ok()?,
        // Ticks stand alone, or with the thread as at the beginning of a line.
        bytes if bytes.len() == 16 || bytes.get(16) == Some(&b'-') => {
            parse_ticks(&[bytes.get(..16)?, b"-"].concat())?.0
        }
        _ => return None,
    };
    Some(When::Ticks(ticks))
}

fn time_of_day(text: &str) -> Option<When> {
    // A time has a colon, a date alone has two dashes; a date has no offset.
    if !text.contains(':') {
        return text.parse::<Date>().ok().map(|date| When::Local(date.at(0, 0, 0, 0)));
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return wall_of(instant).map(When::Instant);
    }
    if let Some(utc) = text.strip_suffix(['Z', 'z']) {
        return utc.parse().ok().map(|time| When::OfDay(time, true));
    }
    if text.contains('-') || text.contains('/') {
        return text.parse().ok().map(When::Local);
    }
    text.parse().ok().map(|time| When::OfDay(time, false))
}

fn offset(text: &str) -> Option<When> {
    let (sign, amount) = match text.as_bytes().first()? {
        b'-' => (When::BeforeLast as fn(u64) -> When, &text[1..]),
        b'+' => (When::AfterFirst as fn(u64) -> When, &text[1..]),
        _ => (When::AfterFirst as fn(u64) -> When, text),
    };
    if !amount.as_bytes().first()?.is_ascii_digit() {
        return None;
    }
    // A number without a unit is in seconds.
    let is_bare = amount.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let ns = if is_bare { parse_ns(&format!("{amount}s")) } else { parse_ns(amount) };
    ns.map(sign)
}

fn wall_of(instant: Timestamp) -> Option<Wall> {
    // A time before 1970 is before every trace.
    let ns = instant.as_nanosecond().max(0);
    u64::try_from(ns).ok().map(Wall)
}

/// The period in which the chosen runs have lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// The wall clock's time at the first line.
    pub first: Wall,
    /// The wall clock's time at the last line.
    pub last: Wall,
    /// The steady times of the first line and of the last, in nanoseconds.
    pub steady: (u64, u64),
}

impl Period {
    /// A period without lines, which [`Period::include`] extends.
    pub(crate) const NONE: Period = Period { first: Wall(u64::MAX), last: Wall(0), steady: (u64::MAX, 0) };

    /// Extends the period so that it includes the lines between these ticks of `clock`.
    pub(crate) fn include(&mut self, clock: &TickClock, (first, last): (Ticks, Ticks)) {
        self.first = self.first.min(clock.wall(first));
        self.last = self.last.max(clock.wall(last));
        self.steady = (self.steady.0.min(clock.steady(first)), self.steady.1.max(clock.steady(last)));
    }
}

impl When {
    /// Returns the first ticks of `clock` that are not before this point of time. `period` is the period of the chosen
    /// runs; local times are in `zone`.
    ///
    /// # Errors
    /// The point of time is out of the range of wall times.
    pub(crate) fn ticks(self, clock: &TickClock, period: Period, zone: &TimeZone) -> Result<Ticks, String> {
        let wall = match self {
            When::Ticks(ticks) => return Ok(Ticks(ticks)),
            When::AfterFirst(ns) => return Ok(clock.ticks_at_steady(period.steady.0.saturating_add(ns))),
            When::BeforeLast(ns) => return Ok(clock.ticks_at_steady(period.steady.1.saturating_sub(ns))),
            When::Instant(wall) => wall,
            When::Local(time) => instant(time, zone)?,
            When::OfDay(time, true) => of_day(time, period, &TimeZone::UTC)?,
            When::OfDay(time, false) => of_day(time, period, zone)?,
        };
        Ok(clock.ticks(wall))
    }

    /// Returns whether a clock is needed to convert this point of time to ticks.
    #[must_use]
    pub(crate) fn needs_clock(self) -> bool {
        !matches!(self, When::Ticks(_))
    }
}

fn instant(time: DateTime, zone: &TimeZone) -> Result<Wall, String> {
    let instant = zone.to_ambiguous_timestamp(time).compatible().map_err(|error| error.to_string())?;
    wall_of(instant).ok_or_else(|| format!("{time} is out of range"))
}

/// Returns the wall time at which it is `time` on the day of the first line. If only the `time` of the next day is in
/// the period, returns that one.
fn of_day(time: Time, period: Period, zone: &TimeZone) -> Result<Wall, String> {
    let day = |wall: Wall| {
        let instant = Timestamp::from_nanosecond(wall.0.into()).map_err(|error| error.to_string())?;
        Ok::<_, String>(zone.to_datetime(instant).date())
    };
    let (first, last) = (day(period.first)?, day(period.last)?);
    let earliest = instant(first.to_datetime(time), zone)?;
    if earliest >= period.first || first == last {
        return Ok(earliest);
    }
    let next = first.tomorrow().map_err(|error| error.to_string())?;
    let next = instant(next.to_datetime(time), zone)?;
    Ok(if next <= period.last { next } else { earliest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::anchor::Anchor;
    use jiff::tz::Offset;
    use trace_format::meta::ClockKind;

    const MS: u64 = 1_000_000;

    #[test]
    fn common_notations_of_times_are_parsed() {
        for (text, when) in [
            ("1.5s", When::AfterFirst(1500 * MS)),
            ("+200ms", When::AfterFirst(200 * MS)),
            ("-200ms", When::BeforeLast(200 * MS)),
            ("0", When::AfterFirst(0)),
            ("2.25", When::AfterFirst(2250 * MS)),
            ("10us", When::AfterFirst(10_000)),
            ("10µs", When::AfterFirst(10_000)),
            ("5ns", When::AfterFirst(5)),
            ("1m30s", When::AfterFirst(90_000 * MS)),
            ("-1h", When::BeforeLast(3_600_000 * MS)),
            ("0x128fd9f283f", When::Ticks(0x0128_fd9f_283f)),
            ("00000128fd9f283f", When::Ticks(0x0128_fd9f_283f)),
            ("00000128fd9f283f-00000320", When::Ticks(0x0128_fd9f_283f)),
            ("@1275577149503", When::Ticks(1_275_577_149_503)),
            ("14:43:52.5", When::OfDay(Time::constant(14, 43, 52, 500_000_000), false)),
            ("14:43", When::OfDay(Time::constant(14, 43, 0, 0), false)),
            ("14:43:52Z", When::OfDay(Time::constant(14, 43, 52, 0), true)),
            ("2026-11-21 14:43:52", When::Local(DateTime::constant(2026, 11, 21, 14, 43, 52, 0))),
            ("2026-11-21T14:43", When::Local(DateTime::constant(2026, 11, 21, 14, 43, 0, 0))),
            ("2026-11-21", When::Local(DateTime::constant(2026, 11, 21, 0, 0, 0, 0))),
            ("1970-01-01T00:00:01.000000002Z", When::Instant(Wall(1000 * MS + 2))),
            ("1970-01-01 01:00:01+01:00", When::Instant(Wall(1000 * MS))),
        ] {
            assert_eq!(text.parse(), Ok(when), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in ["", "-", "+", "x", "1.5 parsecs", "25:00", "0x", "@", "@-1", "--5s", "2026-13-01", "ago"]
        {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_without_a_day_is_on_the_day_of_the_trace() {
        const HOUR: u64 = 3_600_000 * MS;
        let clock = TickClock::of(ClockKind::System, [Anchor::new(Ticks(0), Wall(0))]);
        let ticks = |when: &str, hours: [u64; 2], zone: i8| {
            let mut period = Period::NONE;
            period.include(&clock, (Ticks(hours[0] * HOUR), Ticks(hours[1] * HOUR)));
            let zone = TimeZone::fixed(Offset::constant(zone));
            when.parse::<When>().unwrap().ticks(&clock, period, &zone).unwrap().0 / HOUR
        };
        assert_eq!(ticks("03:00", [1, 5], 0), 3);
        assert_eq!(ticks("03:00", [1, 5], 2), 1);
        assert_eq!(ticks("03:00Z", [1, 5], 2), 3);
        // The period goes over midnight.
        assert_eq!(ticks("01:00", [22, 26], 0), 25);
        assert_eq!(ticks("23:00", [22, 26], 0), 23);
        // A time outside of the trace is on its first day.
        assert_eq!(ticks("20:00", [22, 26], 0), 20);
        assert_eq!(ticks("1h", [22, 26], 0), 23);
        assert_eq!(ticks("-1h", [22, 26], 0), 25);
    }
}
