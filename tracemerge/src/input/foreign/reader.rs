//! A parser for the times in log lines. It reads the numbers and names of a time one after the other.

use jiff::civil::DateTime;

use crate::input::foreign::stamp::{SECOND, Stamp, StampTime};

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
/// The year that stands for the unknown year of a date without one. It is a leap year, so every date exists in it.
const LEAP_YEAR: i64 = 2000;
/// The possible offsets of time zones from UTC, in seconds. All of them are multiples of `OFFSET_UNIT`.
const OFFSETS: std::ops::RangeInclusive<i64> = -12 * 3600..=14 * 3600;
const OFFSET_UNIT: i64 = 900;

/// Returns whether a byte belongs to a word: a letter, a digit, `_`, or any byte that is not ASCII.
pub(super) fn is_of_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || !b.is_ascii()
}

/// The hours, minutes and seconds of a time of day.
type ClockTime = (i64, i64, i64);

fn date((year, month, day): (i64, i64, i64), (hour, minute, second): ClockTime) -> Option<DateTime> {
    let small = |number: i64| i8::try_from(number).ok();
    // A leap second counts as the second before it: Unix time has none.
    let second = small(second)?.min(59);
    let year = i16::try_from(year).ok()?;
    DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, second, 0).ok()
}

/// A parser for the numbers and names in a time. Its field is the text that has not been read yet.
pub(super) struct StampReader<'a>(pub &'a [u8]);

impl StampReader<'_> {
    /// Reads and returns one byte, if it is one of the `wanted` bytes.
    pub(super) fn byte(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| wanted.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number of exactly `digits` digits.
    pub(super) fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    }

    /// Reads a number of `least` to `most` digits.
    pub(super) fn number_of(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.0.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
        self.number(digits.max(least))
    }

    /// Reads the English short name of a month. Returns the month's number, from 1.
    pub(super) fn month(&mut self) -> Option<i64> {
        let (name, rest) = self.0.split_at_checked(3)?;
        self.0 = rest;
        let months = MONTHS.iter().zip(1..);
        months.into_iter().find(|(month, _)| month.eq_ignore_ascii_case(name)).map(|(_, number)| number)
    }

    /// Reads the time of day after a date, which the caller has read, and then the zone. Returns the whole time.
    pub(super) fn rest_of_time(&mut self, (year, month, day): (Option<i64>, i64, i64)) -> Option<Stamp> {
        let (clock, ns, resolution) = self.clock()?;
        let date = date((year.unwrap_or(LEAP_YEAR), month, day), clock)?;
        let time = StampTime::Civil { date, has_year: year.is_some(), ns, offset: self.zone() };
        Some(Stamp { at: 0, time, resolution })
    }

    /// Reads a time of day like `14:43:52.123` or `2:43:52 PM`. Returns the hours, minutes and whole seconds, the
    /// fraction of the second in nanoseconds, and the resolution in nanoseconds.
    fn clock(&mut self) -> Option<(ClockTime, u64, u64)> {
        let mut hour = self.number_of(1, 2)?;
        self.byte(b":")?;
        let minute = self.number(2)?;
        self.byte(b":")?;
        let second = self.number(2)?;
        let (ns, resolution) = self.fraction();
        // Newer versions of Java write a narrow space that is not in ASCII.
        let half = [&b" "[..], "\u{202f}".as_bytes()].iter().find_map(|space| self.0.strip_prefix(*space));
        if let Some([half @ (b'A' | b'P'), b'M', rest @ ..]) = half {
            if (1..=12).contains(&hour) && !rest.first().is_some_and(|b| is_of_word(*b)) {
                self.0 = rest;
                hour = hour % 12 + if *half == b'P' { 12 } else { 0 };
            }
        }
        Some(((hour, minute, second), ns, resolution))
    }

    /// Reads a decimal fraction of a second, if there is one. Returns the fraction and its resolution, both in
    /// nanoseconds.
    pub(super) fn fraction(&mut self) -> (u64, u64) {
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

    /// Reads the time zone after a time, directly or after a space: an offset; `Z`; or `UTC` or `GMT`, which may be
    /// followed by an offset. Returns the offset from UTC in seconds. Any other text is not read, because it belongs to
    /// the message.
    fn zone(&mut self) -> Option<i64> {
        let mut ahead = StampReader(self.0);
        let is_apart = ahead.byte(b" ").is_some();
        let words = [&b"UTC"[..], b"GMT", b"Z", b"z"];
        // In lower case, a zone stands directly behind the time only.
        let words = words.iter().filter(|word| !is_apart || **word != b"z");
        let word = words.into_iter().find_map(|word| Some((word, ahead.0.strip_prefix(*word)?)));
        let offset = match word {
            Some((word, rest)) => {
                ahead.0 = rest;
                let with_offset = if word.len() == 3 { ahead.offset(1) } else { None };
                with_offset.or_else(|| ahead.ends_word().then_some(0))?
            }
            // A number of two digits behind a space is more often the message's, as in `-12 degrees`; and no place on
            // Earth has an offset like `+5000`.
            None if is_apart => {
                let offset = ahead.offset(4)?;
                (OFFSETS.contains(&offset) && offset % OFFSET_UNIT == 0).then_some(offset)?
            }
            None => ahead.offset(2)?,
        };
        self.0 = ahead.0;
        Some(offset)
    }

    /// Reads an offset from UTC like `+01:00`, `+0100`, `+01` or `+1`. It must have at least `least` digits, and no
    /// letter or digit may follow directly. Returns the offset in seconds.
    fn offset(&mut self, least: usize) -> Option<i64> {
        let mut ahead = StampReader(self.0);
        let sign = if ahead.byte(b"+-")? == b'-' { -1 } else { 1 };
        let digits = ahead.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (hours, minutes) = match digits {
            1 | 2 => {
                let hours = ahead.number(digits)?;
                let has_minutes = ahead.0.first() == Some(&b':')
                    && ahead.0.get(1..3).is_some_and(|text| text.iter().all(u8::is_ascii_digit));
                if has_minutes {
                    ahead.byte(b":")?;
                    (hours, ahead.number(2)?)
                } else if digits >= least {
                    (hours, 0)
                } else {
                    return None;
                }
            }
            4 => (ahead.number(2)?, ahead.number(2)?),
            _ => return None,
        };
        let goes_on = match ahead.0 {
            [b'.' | b',' | b':', next, ..] => next.is_ascii_digit(),
            _ => !ahead.ends_word(),
        };
        if goes_on || hours >= 24 || minutes >= 60 {
            return None;
        }
        self.0 = ahead.0;
        Some(sign * (hours * 3600 + minutes * 60))
    }

    /// Returns whether a word that was just read is complete, because the unread text does not continue it. `Z-Wave`
    /// and `UTC+x` count as one word.
    fn ends_word(&self) -> bool {
        match self.0 {
            [b'-' | b'+' | b'.' | b'\'' | b'/', next, ..] => !is_of_word(*next),
            [next, ..] => !is_of_word(*next),
            [] => true,
        }
    }

    /// Reads a year that follows a time and its zone. Skips the name of an unknown zone.
    pub(super) fn year_behind(&mut self) -> Option<i16> {
        self.byte(b" ")?;
        let zone = self.0.iter().take_while(|b| b.is_ascii_uppercase()).count();
        if zone > 0 {
            self.0 = &self.0[zone..];
            self.byte(b" ")?;
        }
        let year = self.number(4).filter(|_| self.ends_word())?;
        i16::try_from(year).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::foreign::stamp::StampFormat;

    #[test]
    fn a_zone_is_a_whole_word_or_an_offset() {
        let offset = |behind: &str| {
            let stamp =
                StampFormat::Iso.find(format!("2026-11-21 14:43:52{behind}").as_bytes()).expect(behind);
            let StampTime::Civil { offset, .. } = stamp.time else { panic!("{behind}") };
            offset
        };
        for zone in [
            "Z",
            "z",
            " Z",
            "Z hello",
            " UTC",
            "UTC",
            " GMT,",
            " UTC:10.0.0.5(33012)",
            "Z[UTC]",
            " Z]",
            "Z\x1b[0m",
        ] {
            assert_eq!(offset(zone), Some(0), "{zone}");
        }
        for (zone, minutes) in [
            ("+01:00", 60),
            ("-0330", -210),
            ("+02", 120),
            (" +0545 x", 345),
            (" -08:00] x", -480),
            (" UTC+01:00", 60),
            (" GMT-0500 x", -300),
            ("UTC+02", 120),
            (" GMT+2", 120),
            ("+01:00[Europe/Berlin]", 60),
            ("+02 degrees", 120),
        ] {
            assert_eq!(offset(zone), Some(minutes * 60), "{zone}");
        }
        for text in [
            "",
            " hello",
            " ZEBRA",
            " zfs",
            " z x",
            "ZEBRA",
            " Z_1",
            " Z\u{fc}rich",
            " Z-Wave",
            " UTCD",
            " UTC-based",
            " UTC/x",
            " GMT+x",
            " CET",
            " -12 degrees",
            " +5000 points",
            " +1234 points",
            " -1300",
            " +010 x",
            " +01000 x",
            " +0100x",
            " +0100.5",
            "+25:00",
            "+01:60",
            "-x",
            "  UTC",
            "-",
            " +",
        ] {
            assert_eq!(offset(text), None, "{text}");
        }
    }
}
