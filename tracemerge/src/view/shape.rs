//! The shapes of messages: messages without their numbers.

use std::collections::HashMap;

/// The character that stands for a number.
const NUMBER: u8 = b'#';
/// The minimum length of a word of hex digits that counts as a number, if one of the digits is decimal.
const HEX: usize = 4;
/// The minimum length of a word of hex digits that counts as a number even without a decimal digit.
const LONG_HEX: usize = 8;

/// The id of a shape: its index among all shapes that were seen.
pub(crate) type ShapeId = u32;

/// All shapes that were seen.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    ids: HashMap<Vec<u8>, ShapeId>,
    texts: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Shapes {
    /// Returns the shape of a message whose lines are separated by line feeds.
    pub(crate) fn of(&mut self, message: &[u8]) -> ShapeId {
        self.buffer.clear();
        shape_into(&mut self.buffer, message);
        if let Some(id) = self.ids.get(&self.buffer) {
            return *id;
        }
        let id = ShapeId::try_from(self.texts.len()).unwrap_or(ShapeId::MAX);
        self.ids.insert(self.buffer.clone(), id);
        self.texts.push(self.buffer.clone());
        id
    }

    /// Returns the text of a shape: the text of its messages, with `#` in place of each number.
    pub(crate) fn text(&self, id: ShapeId) -> &[u8] {
        self.texts.get(id as usize).map_or(b"", |text| text)
    }
}

/// Appends a text with `#` in place of each number. Numbers are:
/// - decimal numbers with all their parts (`-1.5e3`, `10.0.0.1`),
/// - hex numbers after `0x`,
/// - words of hex digits that look like a number,
/// - the digits in other words (`worker12`).
fn shape_into(out: &mut Vec<u8>, text: &[u8]) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let before = at.checked_sub(1).map(|before| text[before]);
        let in_word = before.is_some_and(is_word);
        let sign = matches!(byte, b'-' | b'+') && !in_word;
        let number = if sign { at + 1 } else { at };
        let end = if in_word { digits(text, number) } else { number_end(text, number) };
        if end > number {
            out.push(NUMBER);
            at = end;
        } else {
            out.push(byte);
            at += 1;
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the offset of the end of the decimal digits that begin at `at`.
fn digits(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Returns the offset of the end of the number that begins at `at`; `at` itself if no number begins there.
fn number_end(text: &[u8], at: usize) -> usize {
    let word = &text[at..];
    let hex = |from: usize| {
        word.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_hexdigit()).count()
    };
    if word.starts_with(b"0x") && hex(2) > 0 {
        return at + 2 + hex(2);
    }
    let length = hex(0);
    let ends = !word.get(length).copied().is_some_and(is_word);
    let has_digit = word[..length].iter().any(u8::is_ascii_digit);
    let all_digits = word[..length].iter().all(u8::is_ascii_digit);
    if ends
        && !all_digits
        && ((length >= HEX && has_digit) || length >= LONG_HEX)
        && !is_scientific(&word[..length])
    {
        return at + length;
    }
    let mut end = digits(text, at);
    if end == at {
        return at;
    }
    while text.get(end) == Some(&b'.') && digits(text, end + 1) > end + 1 {
        end = digits(text, end + 1);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = end + 1 + usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        let exponent = if sign <= text.len() { digits(text, sign) } else { sign };
        if exponent > sign && !text.get(exponent).copied().is_some_and(is_word) {
            end = exponent;
        }
    }
    end
}

/// Returns whether a word is a number like `15e3`.
fn is_scientific(word: &[u8]) -> bool {
    let mut letters = word.iter().filter(|b| !b.is_ascii_digit());
    word[0].is_ascii_digit() && matches!((letters.next(), letters.next()), (Some(b'e' | b'E'), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(text: &str) -> String {
        let mut out = Vec::new();
        shape_into(&mut out, text.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_shape_replaces_numbers_and_keeps_words() {
        for (text, expected) in [
            ("A number 123", "A number #"),
            ("x=-5 y=+1.25 z=1e-7", "x=# y=# z=#"),
            ("15e3 2E10", "# #"),
            ("10.0.0.1:8080 took 12ms", "#:# took #ms"),
            ("worker12 of pool_3", "worker# of pool_#"),
            ("at 0x7ffE12 id deadbeef a1b2c3", "at # id # #"),
            ("dead beef face add a1", "dead beef face add a#"),
            ("3..5 1.", "#..# #."),
            ("a-5 b - 5 --7", "a-# b - # -#"),
            ("größe7", "größe#"),
            ("", ""),
        ] {
            assert_eq!(shape(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn messages_that_differ_in_a_number_have_one_shape(before in "[g-z ]{0,9}", a: i64, b: i64, after in "[ ,;g-z]{0,9}") {
            let of = |number: i64| shape(&format!("{before} {number} {after}"));
            prop_assert_eq!(of(a), of(b));
        }

        #[test]
        fn any_bytes_have_a_shape_that_is_not_longer(bytes: Vec<u8>, text in "[0-9a-fxeE.+-]{0,20}") {
            for text in [&bytes[..], text.as_bytes()] {
                let mut out = Vec::new();
                shape_into(&mut out, text);
                prop_assert!(out.len() <= text.len());
                prop_assert!(!out.iter().any(u8::is_ascii_digit));
            }
        }
    }
}
