//! Determines the time zone and the year of times in a log that do not state them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use trace_format::wall::Wall;

use crate::input::foreign::stamp::{SECOND, StampTime};

/// The maximum time by which a line may be earlier than the previous line of the log, and still count as merely out of
/// order. It decides about lines in an hour that occurs twice because clocks are set back: if the time in the first
/// occurrence would be even earlier than that, the line belongs to the second occurrence. So this is recognized if at
/// most 45 minutes pass between two lines of that hour.
const LATE: i128 = 15 * 60 * SECOND as i128;
/// The duration that is used instead of [`LATE`] if the previous line belongs to the second occurrence of the hour. If
/// the line's time in the first occurrence is at most this much earlier than the previous line, the line came late, for
/// example from another thread, and belongs to the first occurrence.
const LATE_IN_SECOND: i128 = 5 * SECOND as i128;
/// The maximum number of offsets from UTC that a message to the user names. A time zone has few offsets in a year.
const SHOWN_OFFSETS: usize = 3;

/// Converts the times of one log to times of the wall clock, line by line in the order of the log.
#[derive(Debug)]
pub(super) struct Zone {
    /// The zone of times that do not state a zone.
    local: TimeZone,
    /// The time near which the log was written. A date without a year gets the year with which the date is nearest to
    /// this time.
    about: Wall,
    /// The wall time of the previous line.
    last: Option<Wall>,
    /// The offsets from UTC that were used for times without a zone, in the order of their first use.
    assumed: Vec<Offset>,
}

impl Zone {
    /// Makes a converter that assumes the machine's time zone (or that in `TZ`) for times without a zone. `about` is a
    /// time near which the log was written.
    pub(super) fn new(about: Wall) -> Zone {
        Zone::of(TimeZone::system(), about)
    }

    /// Makes a converter that assumes the time zone `local` for times without a zone. `about` is a time near which the
    /// log was written.
    pub(super) fn of(local: TimeZone, about: Wall) -> Zone {
        Zone { local, about, last: None, assumed: Vec::new() }
    }

    /// Converts `time`, the time of the log's next line, to wall time; `None` if it is too late for Unix time in
    /// nanoseconds.
    pub(super) fn wall(&mut self, time: StampTime) -> Option<Wall> {
        let wall = match time {
            StampTime::Wall(wall) => wall,
            StampTime::Civil { date, has_year, ns, offset } => {
                let around = Timestamp::from_nanosecond(i128::from(self.about.0)).ok()?;
                let year = if has_year { date.year() } else { self.local.to_datetime(around).year() };
                let years = if has_year { year..=year } else { year - 1..=year + 1 };
                let found = years.filter_map(|year| {
                    let date = date.with().year(year).build().ok()?;
                    let time = match offset {
                        Some(offset) => {
                            TimeZone::UTC.to_timestamp(date).ok()?.as_nanosecond() - offset_ns(offset)
                        }
                        None => self.local(date)?.as_nanosecond(),
                    };
                    // A device without a clock begins in 1970, which is 1969 in UTC for half of the world.
                    u64::try_from((time + i128::from(ns)).max(0)).ok().map(Wall)
                });
                let wall = found.min_by_key(|wall| wall.0.abs_diff(self.about.0))?;
                if offset.is_none() {
                    self.assume(wall);
                }
                wall
            }
        };
        self.last = Some(wall);
        Some(wall)
    }

    /// Returns a text for the user with the offsets that were used for times without a zone, such as `UTC+01:00`;
    /// `None` if each time had a zone.
    pub(super) fn assumed(&self) -> Option<String> {
        let name = |offset: &Offset| {
            let (sign, minutes) = (if offset.seconds() < 0 { '-' } else { '+' }, offset.seconds().abs() / 60);
            format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        };
        let names: Vec<String> = self.assumed.iter().map(name).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }

    fn assume(&mut self, wall: Wall) {
        let time = Timestamp::from_nanosecond(i128::from(wall.0));
        if let Some(offset) = time.ok().map(|time| self.local.to_offset(time)) {
            if self.assumed.len() < SHOWN_OFFSETS && !self.assumed.contains(&offset) {
                self.assumed.push(offset);
            }
        }
    }

    /// Returns the moment of a date and time in the zone `local`. If this time occurred twice, the wall time of the
    /// previous line decides.
    fn local(&self, date: DateTime) -> Option<Timestamp> {
        let times = self.local.to_ambiguous_timestamp(date);
        if let (AmbiguousOffset::Fold { after, .. }, Some(last)) = (times.offset(), self.last) {
            let last = Timestamp::from_nanosecond(i128::from(last.0)).ok()?;
            let late = if self.local.to_offset(last) == after { LATE_IN_SECOND } else { LATE };
            if times.earlier().ok()?.as_nanosecond() < last.as_nanosecond() - late {
                return times.later().ok();
            }
        }
        times.compatible().ok()
    }
}

fn offset_ns(seconds: i64) -> i128 {
    i128::from(seconds) * i128::from(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    const MINUTE: u64 = 60 * SECOND;
    /// The wall time 2026-10-25T00:00:00Z in nanoseconds; `date +%s` shows its seconds. In Berlin it is two o'clock,
    /// and the hour from two to three comes twice.
    const NIGHT: u64 = 1_792_886_400 * SECOND;

    /// Reads local times of Berlin, each an hour and a minute. Returns the minutes from [`NIGHT`] to each.
    fn minutes(has_year: bool, times: &[(i8, i8)]) -> Vec<i64> {
        let mut zone = Zone::of(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), Wall(NIGHT));
        let mut minute = |&(hour, minute): &(i8, i8)| {
            let date = date(if has_year { 2026 } else { 2000 }, 10, 25).at(hour, minute, 0, 0);
            let wall = zone.wall(StampTime::Civil { date, has_year, ns: 0, offset: None }).unwrap();
            (i64::try_from(wall.0).unwrap() - i64::try_from(NIGHT).unwrap()) / i64::try_from(MINUTE).unwrap()
        };
        times.iter().map(&mut minute).collect()
    }

    #[test]
    fn an_hour_that_comes_twice_is_told_apart_by_the_order_of_the_lines() {
        for has_year in [true, false] {
            let times = [(1, 59), (2, 0), (2, 20), (2, 40), (2, 0), (2, 20), (2, 50), (3, 0)];
            assert_eq!(minutes(has_year, &times), [-1, 0, 20, 40, 60, 80, 110, 120]);
        }
        let half_hours = [(2, 0), (2, 30), (2, 0), (2, 30), (3, 0)];
        assert_eq!(minutes(true, &half_hours), [0, 30, 60, 90, 120]);
        assert_eq!(minutes(true, &[(2, 59), (2, 1)]), [59, 61]);
    }

    #[test]
    fn a_line_that_is_a_little_late_begins_no_second_hour() {
        assert_eq!(minutes(true, &[(2, 30), (2, 29), (2, 31)]), [30, 29, 31]);
        // The last line of the first hour comes behind the first line of the second.
        let mut zone = Zone::of(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), Wall(NIGHT));
        let mut at = |minute, second| {
            let date = date(2026, 10, 25).at(2, minute, second, 0);
            zone.wall(StampTime::Civil { date, has_year: true, ns: 0, offset: None }).unwrap().0 - NIGHT
        };
        let seconds = [at(59, 58), at(0, 0), at(59, 59), at(0, 1), at(30, 0)].map(|ns| ns / SECOND);
        assert_eq!(seconds, [3598, 3600, 3599, 3601, 5400]);
    }

    #[test]
    fn a_line_after_the_hour_tells_that_the_second_hour_has_begun() {
        // A time with a zone is known; the next local time is behind it.
        let mut zone = Zone::of(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(), Wall(NIGHT));
        let civil = |minute, offset| StampTime::Civil {
            date: date(2026, 10, 25).at(2, minute, 0, 0),
            has_year: true,
            ns: 0,
            offset,
        };
        assert_eq!(zone.wall(civil(10, Some(3600))), Some(Wall(NIGHT + 70 * MINUTE)));
        assert_eq!(zone.assumed(), None);
        assert_eq!(zone.wall(civil(20, None)), Some(Wall(NIGHT + 80 * MINUTE)));
        assert_eq!(zone.assumed().as_deref(), Some("UTC+01:00"));
    }

    #[test]
    fn the_offsets_that_were_assumed_are_named() {
        for (posix, name) in [("CET-1", "UTC+01:00"), ("NST3:30", "UTC-03:30"), ("UTC0", "UTC+00:00")] {
            let mut zone = Zone::of(TimeZone::posix(posix).unwrap(), Wall(NIGHT));
            let date = date(2026, 11, 21).at(1, 2, 3, 0);
            zone.wall(StampTime::Civil { date, has_year: true, ns: 0, offset: None }).unwrap();
            assert_eq!(zone.assumed().as_deref(), Some(name));
        }
    }

    #[test]
    fn a_date_without_a_year_is_in_the_nearest_year() {
        // New Year's Eve 2026, of a trace from early 2027, and the other way around.
        for (about, month, year) in [(1_798_761_600, 12, 2026), (1_798_675_200, 1, 2027)] {
            let mut zone = Zone::of(TimeZone::UTC, Wall(about * SECOND));
            let time = StampTime::Civil {
                date: date(2000, month, if month == 12 { 31 } else { 1 }).at(12, 0, 0, 0),
                has_year: false,
                ns: 7,
                offset: None,
            };
            let expected = if year == 2026 { 1_798_718_400 } else { 1_798_804_800 };
            assert_eq!(zone.wall(time), Some(Wall(expected * SECOND + 7)), "{month}");
        }
    }

    #[test]
    fn a_time_before_1970_is_the_earliest_and_one_in_later_centuries_is_none() {
        for (year, wall) in [(1969, Some(Wall(0))), (2553, Some(Wall(18_429_249_600 * SECOND))), (2555, None)]
        {
            let mut zone = Zone::of(TimeZone::UTC, Wall(NIGHT));
            let date = date(year, 12, 31).at(12, 0, 0, 0);
            let time = StampTime::Civil { date, has_year: true, ns: 0, offset: None };
            assert_eq!(zone.wall(time), wall, "{year}");
            assert_eq!(zone.assumed().is_some(), wall.is_some());
        }
    }
}
