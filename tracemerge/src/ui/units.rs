//! Amounts in a form for people: numbers of bytes, and durations, with at least three digits and a unit.

use indicatif::HumanBytes;
use trace_format::duration::{EXPECTED, parse_ns};

/// Returns a number of bytes with its unit, as the progress bar shows it: `999 B`, `1.21 KiB`, `37.00 MiB`.
#[must_use]
pub(crate) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Parses a duration, such as `1.5ms`. Returns it in nanoseconds.
///
/// # Errors
/// The text is not a duration; the error states the expected form.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    parse_ns(text).ok_or_else(|| format!("expected {EXPECTED}"))
}

/// Returns a number of nanoseconds as a duration for people: `640 ns`, `12.3 us`, `1.25 s`, `2 h 05 min`.
#[must_use]
pub(crate) fn duration(ns: u64) -> String {
    let mut out = Vec::new();
    put_duration(ns, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a number of nanoseconds in the form of [`duration`].
pub(crate) fn put_duration(ns: u64, out: &mut Vec<u8>) {
    const SECOND: u64 = 1_000_000_000;
    let seconds = ns / SECOND;
    let (unit, name) = match ns {
        0..1_000 => {
            put_decimal(ns, out);
            return out.extend_from_slice(b" ns");
        }
        1_000..1_000_000 => (1_000, &b" us"[..]),
        1_000_000..SECOND => (1_000_000, &b" ms"[..]),
        _ if seconds < 100 => (SECOND, &b" s"[..]),
        _ if seconds < 6_000 => {
            return out.extend_from_slice(format!("{} min {:02} s", seconds / 60, seconds % 60).as_bytes());
        }
        _ => {
            let hours = format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
            return out.extend_from_slice(hours.as_bytes());
        }
    };
    put_three_digits(ns, unit, out);
    out.extend_from_slice(name);
}

/// Appends `ns` nanoseconds as a count of units of `unit` nanoseconds each, rounded, with at least three digits.
fn put_three_digits(ns: u64, unit: u64, out: &mut Vec<u8>) {
    let rounded = |parts: u64| (ns * parts + unit / 2) / unit;
    for (parts, places) in [(100, 2), (10, 1)] {
        let number = rounded(parts);
        if number < 1_000 {
            put_decimal(number, out);
            return out.insert(out.len() - places, b'.');
        }
    }
    put_decimal(rounded(1), out);
}

/// Appends a number in decimal digits. It is faster than `write!`, which would take longer than the rest of a line in a
/// view of calls.
fn put_decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Returns a number of nanoseconds in the form of [`duration`], with a minus sign if it is negative.
#[must_use]
pub(crate) fn signed_duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown = [0, 1023, 1024, 1536, 37 << 20, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "37.00 MiB", "16.00 EiB"]);
        let shown =
            [0, 999, 1_234, 56_700_000, 1_250_000_000, 125_000_000_000, 7_500_000_000_000].map(duration);
        assert_eq!(shown, ["0 ns", "999 ns", "1.23 us", "56.7 ms", "1.25 s", "2 min 05 s", "2 h 05 min"]);
        let rounded = [1_234_567, 9_994, 9_995, 99_949, 99_950, 999_499, 999_999].map(duration);
        assert_eq!(rounded, ["1.23 ms", "9.99 us", "10.0 us", "99.9 us", "100 us", "999 us", "1000 us"]);
        assert_eq!(signed_duration(-1_500), "-1.50 us");
    }
}
