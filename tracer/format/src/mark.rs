//! The mark: tells on its way through a merge which site a message is of. No file has marks.
//!
//! A line of text does not say which site made its message, and a reader of raw files knows. So a reader that
//! is asked to puts a mark before the text of *each* message: a number in decimal digits, and a space. The
//! number is 0 where the site is not known. As every message of such a reader has one, no text can be taken
//! for a mark.

/// The byte behind the digits.
const END: u8 = b' ';
/// The number of bytes of the longest mark.
const LONGEST: usize = 11;

/// Appends a mark.
pub(crate) fn write_mark(mark: u32, out: &mut Vec<u8>) {
    let mut bytes = [0; LONGEST];
    let length = put_mark(mark, &mut bytes).unwrap_or(0);
    out.extend_from_slice(&bytes[..length]);
}

/// Writes a mark to the beginning of `page`; returns its length in bytes. `None` where it does not fit.
pub(crate) fn put_mark(mark: u32, page: &mut [u8]) -> Option<usize> {
    let digits = mark.checked_ilog10().unwrap_or(0) as usize + 1;
    let place = page.get_mut(..=digits)?;
    let mut rest = mark;
    for place in place[..digits].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    place[digits] = END;
    Some(digits + 1)
}

/// Separates the text of a message from the mark before it; the mark is 0 where there is none.
#[must_use]
pub fn take_mark(text: &[u8]) -> (u32, &[u8]) {
    let Some(end) = text.iter().take(LONGEST).position(|&byte| byte == END) else { return (0, text) };
    let digits = std::str::from_utf8(&text[..end]).ok();
    digits.and_then(|digits| digits.parse().ok()).map_or((0, text), |mark| (mark, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_is_taken_from_before_any_text(
            mark in prop_oneof![0u32..20, any::<u32>()], text: Vec<u8>
        ) {
            let mut marked = Vec::new();
            write_mark(mark, &mut marked);
            prop_assert!(marked.len() <= LONGEST);
            marked.extend_from_slice(&text);
            prop_assert_eq!(take_mark(&marked), (mark, &text[..]));
        }

        #[test]
        fn any_bytes_are_looked_at_without_panic(text: Vec<u8>) {
            let _ = take_mark(&text);
        }
    }
}
