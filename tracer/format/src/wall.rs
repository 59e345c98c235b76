//! Wall-clock times: nanoseconds since 1970-01-01T00:00:00Z, and RFC 3339 text with nine decimals.
//!
//! Times are UTC, proleptic Gregorian, without leap seconds, as Unix time is. The conversions are those of
//! Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms* (`days_from_civil`, `civil_from_days`).

use std::fmt;

/// A point in time in nanoseconds since the Unix epoch; the range is 1970 to 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

const NS: u64 = 1_000_000_000;
const DAY: u64 = 86_400;

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.0 / NS, self.0 % NS);
        let (days, time) = (seconds / DAY, seconds % DAY);
        let (year, month, day) = civil_from_days(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ns:09}Z",
            time / 3600,
            time / 60 % 60,
            time % 60
        )
    }
}

impl Wall {
    /// Reads text in the form of [`Display`](fmt::Display): exactly `YYYY-MM-DDThh:mm:ss.nnnnnnnnnZ`. Returns `None`
    /// for any other text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Wall> {
        let [
            y1,
            y2,
            y3,
            y4,
            b'-',
            m1,
            m2,
            b'-',
            d1,
            d2,
            b'T',
            h1,
            h2,
            b':',
            i1,
            i2,
            b':',
            s1,
            s2,
            b'.',
            ns @ ..,
            b'Z',
        ] = text
        else {
            return None;
        };
        if ns.len() != 9 {
            return None;
        }
        let (year, month, day) = (number(&[*y1, *y2, *y3, *y4])?, number(&[*m1, *m2])?, number(&[*d1, *d2])?);
        let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*i1, *i2])?, number(&[*s1, *s2])?);
        if year < 1970 || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_from_civil(year, month, day)?;
        let seconds = days * DAY + hour * 3600 + minute * 60 + second;
        seconds.checked_mul(NS)?.checked_add(number(ns)?).map(Wall)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |n, d| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0')))
}

/// Returns year, month and day of the day that is `days` days after 1970-01-01.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// Returns the number of days from 1970-01-01 to a day; `None` if the calendar has no such day.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let y = year - u64::from(month <= 2);
    let era = y / 400;
    let of_era = y % 400;
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)?;
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_have_their_known_text() {
        let known = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400 * NS + 5, "2000-02-29T00:00:00.000000005Z"),
            (1_795_187_462 * NS + 123_456_789, "2026-11-20T15:11:02.123456789Z"),
        ];
        for (ns, text) in known {
            assert_eq!(Wall(ns).to_string(), text);
            assert_eq!(Wall::parse(text.as_bytes()), Some(Wall(ns)));
        }
    }

    #[test]
    fn invalid_wall_times_are_rejected() {
        for text in [
            "",
            "2026-02-30T00:00:00.000000000Z",
            "2026-13-01T00:00:00.000000000Z",
            "1969-12-31T23:59:59.000000000Z",
            "2026-11-20T15:11:02.123Z",
            "2026-11-20T24:11:02.123456789Z",
            "9999-11-20T15:11:02.123456789Z",
            "20x6-11-20T15:11:02.123456789Z",
        ] {
            assert_eq!(Wall::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_back_from_its_text(ns: u64) {
            prop_assert_eq!(Wall::parse(Wall(ns).to_string().as_bytes()), Some(Wall(ns)));
        }
    }
}
