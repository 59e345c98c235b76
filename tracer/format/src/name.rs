//! Names of trace files: `<exe>.trace.<tid>` and, where that is taken, `<exe>.trace.<tid>.<n>`.

/// What follows the executable's name, before the thread id.
pub const INFIX: &str = ".trace.";

/// What follows the executable's name in the merged file's name.
pub const MERGED_SUFFIX: &str = ".trace.merge";

/// The file name for a thread's trace; `number` 0 is the plain name, 1 and up are appended.
#[must_use]
pub fn trace_file_suffix(tid: u64, number: u32) -> String {
    match number {
        0 => format!("{INFIX}{tid}"),
        n => format!("{INFIX}{tid}.{n}"),
    }
}

/// Splits what stands after `<exe>` in a file name into thread id and number.
///
/// `None` for any other file: `.trace.merge`, leading zeros, signs, a number of 0.
#[must_use]
pub fn parse_trace_file_suffix(suffix: &[u8]) -> Option<(u64, u32)> {
    let rest = suffix.strip_prefix(INFIX.as_bytes())?;
    let mut parts = rest.splitn(2, |&b| b == b'.');
    let tid = canonical_number(parts.next()?)?;
    let number = match parts.next() {
        None => 0,
        Some(n) => canonical_number(n).filter(|&n| n > 0)?,
    };
    Some((tid, u32::try_from(number).ok()?))
}

fn canonical_number(digits: &[u8]) -> Option<u64> {
    let canonical =
        digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if !canonical {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_files_beside_the_executable_are_not_traces() {
        for suffix in [
            ".trace.merge",
            ".trace.",
            ".trace.12.",
            ".trace.012",
            ".trace.12.0",
            ".trace.12.merge",
            ".trace.+12",
            ".trace.12.3.4",
            "",
            ".trace",
            ".trace.99999999999999999999",
        ] {
            assert_eq!(parse_trace_file_suffix(suffix.as_bytes()), None, "{suffix}");
        }
    }

    proptest! {
        #[test]
        fn a_name_parses_back(tid: u64, number: u32) {
            let suffix = trace_file_suffix(tid, number);
            prop_assert_eq!(parse_trace_file_suffix(suffix.as_bytes()), Some((tid, number)));
        }
    }
}
