//! Durations as people write them, in the tracer's environment variables and in the options of `tracemerge`.
//!
//! A duration is a sum of numbers with units: `250us`, `1.5ms`, `1m30s`, `1h 5m`. The units are `ns`, `us` (also `µs`), `ms`,
//! `s`, `m` and `h`. A number may have a fraction. Zero needs no unit.

/// The description of a duration's form in error messages.
pub const EXPECTED: &str = "a duration, such as 10us, 1.5ms or 1m30s";

/// Reads a duration; returns nanoseconds, rounded down. Returns `None` if the text is not a duration, or if the
/// duration is longer than `u64::MAX` nanoseconds (585 years).
#[must_use]
pub fn parse_ns(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    let mut sum_ns = 0u64;
    loop {
        let (number, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let behind = behind.trim_start();
        let (unit, behind) =
            behind.split_at(behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len()));
        sum_ns = sum_ns.checked_add(decimal(number, unit_ns(unit)?)?)?;
        rest = behind.trim_start();
        if rest.is_empty() {
            return Some(sum_ns);
        }
    }
}

/// Returns the number of nanoseconds in a unit, such as `ms`; `None` if the unit is unknown.
fn unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter that looks the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Returns `number`, which may have a fraction, times `unit_ns`, rounded down.
fn decimal(number: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Further digits are less than a nanosecond, because an hour has fewer than 10^13 nanoseconds.
    let fraction = &fraction[..fraction.len().min(13)];
    let mut scale = 1u64;
    let mut digits = 0u64;
    for digit in fraction.bytes() {
        scale *= 10;
        digits = digits * 10 + u64::from(digit - b'0');
    }
    let part = u128::from(digits) * u128::from(unit_ns) / u128::from(scale);
    whole.parse::<u64>().ok()?.checked_mul(unit_ns)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        let cases = [
            ("250ns", 250),
            ("10us", 10_000),
            ("10\u{b5}s", 10_000),
            ("10\u{3bc}s", 10_000),
            ("3 ms", 3_000_000),
            (" 1.5ms ", 1_500_000),
            ("0.25 us", 250),
            ("2s", 2_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h 5m", 3_900_000_000_000),
            ("0", 0),
            ("0.0s", 0),
            ("0.3333333333333333333333h", 1_199_999_999_999),
            ("0.9ns", 0),
            ("18446744073709551615ns", u64::MAX),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_ns(text), Some(ns), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "",
            " ",
            "5",
            "us",
            "-1ms",
            "+1ms",
            "1.ms",
            ".5ms",
            "1.2.3ms",
            "1s30",
            "1 parsec",
            "1e3ms",
            "00",
            "ms1",
            "1,5ms",
            "18446744073709551616ns",
            "99999999999999999999s",
            "5124096h",
        ] {
            assert_eq!(parse_ns(text), None, "{text}");
        }
    }
}
