//! Names of trace files: `<exe>.trace.<tid>` and, if that is taken, `<exe>.trace.<tid>.<n>`.
//!
//! `<exe>` is the executable's file name. [`stem`] shortens it if the longest of these names would be too
//! long.

use std::borrow::Cow;

/// The text between the executable's name and the thread id.
pub const INFIX: &str = ".trace.";

/// The text that follows the executable's name in the merged file's name.
pub const MERGED_SUFFIX: &str = ".trace.merge";

/// The greatest length of a file name in bytes on nearly all file systems.
const LONGEST_NAME: usize = 255;

/// The greatest number of bytes that a file name adds to the executable's name. The hidden name
/// `.<exe>.trace.<tid>.<id>.new` adds the most, with a thread id of 64 bits.
const DECORATION: usize = 1 + INFIX.len() + 20 + 1 + 8 + ".new".len();

/// The greatest length in bytes of an executable's name that is not shortened.
pub const LONGEST_STEM: usize = LONGEST_NAME - DECORATION;

/// Returns the beginning of the names of an executable's traces: its file name or, if that has more than
/// [`LONGEST_STEM`] bytes, its beginning, `~`, and 8 hex digits of a hash of the whole (FNV-1a, 32 bits).
///
/// A character of UTF-8 is kept whole or left out: if the limit is inside a character, its bytes before
/// the limit (up to three) are left out, too.
///
/// ```
/// use trace_format::name::{LONGEST_STEM, stem};
///
/// assert_eq!(stem(b"app"), &b"app"[..]);
/// assert_eq!(stem(&[b'a'; 255]).len(), LONGEST_STEM);
/// assert!(stem(&[b'a'; 255]).ends_with(b"a~d2fda126"));
/// ```
#[must_use]
pub fn stem(name: &[u8]) -> Cow<'_, [u8]> {
    if name.len() <= LONGEST_STEM {
        return Cow::Borrowed(name);
    }
    let hash = format!("~{:08x}", fnv_1a(name));
    let most = LONGEST_STEM - hash.len();
    let continues = |at: &usize| name.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let inside = (0..3).take_while(|back| continues(&(most - back))).count();
    let mut stem = name[..most - inside].to_vec();
    stem.extend_from_slice(hash.as_bytes());
    Cow::Owned(stem)
}

/// Returns the hash of Fowler, Noll and Vo in the variant 1a, of 32 bits; see
/// <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv_1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Returns the part after `<exe>` of the name of a trace file: `.trace.<tid>` if `number` is 0, otherwise
/// `.trace.<tid>.<number>`.
#[must_use]
pub fn trace_file_suffix(tid: u64, number: u32) -> String {
    match number {
        0 => format!("{INFIX}{tid}"),
        n => format!("{INFIX}{tid}.{n}"),
    }
}

/// Splits the part of a file name after `<exe>` into thread id and number.
///
/// Returns `None` if this is not the name of a trace file, as in `.trace.merge`, or if a number has leading zeros or a
/// sign, or if `<n>` is 0.
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

/// Returns the part after `.<exe>` of a hidden file name, which only one run uses. A thread's file has this name with
/// the `ending` `new` until it gets its own name, or with the `ending` `old` while another file takes its name.
#[must_use]
pub fn hidden_file_suffix(tid: u64, run: u32, ending: &str) -> String {
    format!("{}.{run:08x}.{ending}", trace_file_suffix(tid, 0))
}

/// Returns the id of the run in a hidden file name. `suffix` is the part after `.<exe>`, in the form that
/// [`hidden_file_suffix`] makes; for any other form, the result is `None`.
#[must_use]
pub fn parse_hidden_file_suffix(suffix: &[u8]) -> Option<u32> {
    let rest = suffix.strip_suffix(b".new").or_else(|| suffix.strip_suffix(b".old"))?;
    let (rest, run) = rest.split_at_checked(rest.len().checked_sub(9)?)?;
    let digits = run.strip_prefix(b".")?;
    let canonical = digits.iter().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit));
    let (_tid, number) = parse_trace_file_suffix(rest)?;
    if !canonical || number > 0 {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
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
    fn other_files_next_to_the_executable_are_not_traces() {
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

    #[test]
    fn other_names_are_not_those_of_hidden_files() {
        for suffix in [
            ".trace.12.00c0ffee",
            ".trace.12.00c0ffee.tmp",
            ".trace.12.0c0ffee.new",
            ".trace.12.00C0FFEE.new",
            ".trace.12.1.00c0ffee.old",
            ".trace.00c0ffee.old",
            ".trace.merge.00c0ffee.old",
            ".00c0ffee.old",
            ".old",
            "",
        ] {
            assert_eq!(parse_hidden_file_suffix(suffix.as_bytes()), None, "{suffix}");
        }
    }

    #[test]
    fn the_hash_agrees_with_its_published_test_vectors() {
        // These are from their table of test vectors.
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv_1a(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_character_is_kept_whole_or_left_out() {
        for character in ["ä", "€", "🦀"] {
            for before in 200..LONGEST_STEM {
                let name = format!("{}{}", "x".repeat(before), character.repeat(20));
                let stem = String::from_utf8(stem(name.as_bytes()).into_owned()).unwrap();
                let (kept, hash) = stem.rsplit_once('~').unwrap();
                assert!(name.starts_with(kept) && hash.len() == 8, "{stem}");
                assert!((LONGEST_STEM - 3..=LONGEST_STEM).contains(&stem.len()), "{stem}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_name_leaves_room_for_its_prefix_and_suffix(
            name in proptest::collection::vec(any::<u8>(), 0..300),
            other in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let short = stem(&name);
            let longest = [
                format!(".{}", hidden_file_suffix(u64::MAX, u32::MAX, "new")),
                trace_file_suffix(u64::MAX, u32::MAX),
                MERGED_SUFFIX.into(),
            ];
            for around in longest {
                prop_assert!(short.len() + around.len() <= LONGEST_NAME, "{around}");
            }
            prop_assert!(name.len() > LONGEST_STEM || *short == *name);
            prop_assert!(name == other || name.len().max(other.len()) <= LONGEST_STEM || short != stem(&other));
            // A shortened name is shortened to itself.
            prop_assert_eq!(stem(&short), short.clone());
        }

        #[test]
        fn a_name_parses_back(tid: u64, number: u32) {
            let suffix = trace_file_suffix(tid, number);
            prop_assert_eq!(parse_trace_file_suffix(suffix.as_bytes()), Some((tid, number)));
            prop_assert_eq!(parse_hidden_file_suffix(suffix.as_bytes()), None);
        }

        #[test]
        fn a_hidden_name_parses_back_and_is_not_a_trace(tid: u64, run: u32) {
            for ending in ["new", "old"] {
                let suffix = hidden_file_suffix(tid, run, ending);
                prop_assert_eq!(parse_hidden_file_suffix(suffix.as_bytes()), Some(run));
                prop_assert_eq!(parse_trace_file_suffix(suffix.as_bytes()), None);
            }
        }
    }
}
