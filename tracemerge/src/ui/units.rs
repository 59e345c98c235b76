//! Amounts for people: bytes, and times with at least three digits and a unit.

use indicatif::HumanBytes;

/// Returns a number of bytes with its unit, as the progress bar shows it: `999 B`, `1.21 KiB`, `37.00 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Returns a number of nanoseconds as a time: `640 ns`, `12.3 us`, `1.25 s`, `2 h 05 min`.
#[must_use]
pub fn duration(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let of = |unit: u64| digits(ns as f64 / unit as f64);
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", of(1_000)),
        1_000_000..1_000_000_000 => format!("{} ms", of(1_000_000)),
        _ if seconds < 100 => format!("{} s", of(1_000_000_000)),
        _ if seconds < 6_000 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns a number of nanoseconds as [`duration`] does, with a sign where it is negative.
#[must_use]
pub fn signed_duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// Writes a number with at least three digits.
fn digits(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
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
        assert_eq!(signed_duration(-1_500), "-1.50 us");
    }
}
