//! The captured values of messages on their way through a merge: behind the mark of each message, before its
//! text. No file has them there.
//!
//! ```text
//! 17 =0700000000000000 seven is 7      the mark, `=`, the payload of the record in hex digits, the text
//! 17 - seven is 7                      a message that its thread has formatted
//! ```

use std::ops::Range;

use trace_format::line::{Kind, Line, Ticks};
use trace_format::mark::take_mark;
use trace_format::raw::Raw;
use trace_format::record::{Record, RecordKind};

use crate::file::lines::{lines_of, without_feed};

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `lines` with the values of their messages. The lines are what a decoder that marks has made of the
/// records of `raw` from `from` on and before `until`; it has found the bytes at `damaged` to be no records.
pub fn put_values(
    raw: Raw<'_>,
    (from, until): (Ticks, Option<Ticks>),
    lines: &[u8],
    damaged: &[Range<usize>],
    out: &mut Vec<u8>,
) {
    let start = if from.0 == 0 { 0 } else { raw.position(from) };
    let end = until.map_or(usize::MAX, |until| raw.position(until)).max(start);
    let is_message = |(at, record): &(usize, Record<'_>)| match record.kind {
        RecordKind::Captured => !damaged.iter().any(|place| place.contains(at)),
        RecordKind::Message => !record.continues(),
        _ => false,
    };
    let mut messages = raw.records(start).take_while(|(at, _)| *at < end).filter(is_message);
    out.reserve(lines.len() * 2);
    for line in lines_of(lines) {
        let message = Line::parse(without_feed(line)).ok().filter(|line| line.kind == Kind::Message);
        let Some((message, (_, record))) = message.and_then(|line| Some((line, messages.next()?))) else {
            out.extend_from_slice(line);
            continue;
        };
        let (_, text) = take_mark(message.payload);
        let text_at = without_feed(line).len() - text.len();
        out.extend_from_slice(&line[..text_at]);
        if record.kind == RecordKind::Captured {
            out.push(b'=');
            out.extend(
                record.payload.iter().flat_map(|b| [HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]),
            );
        } else {
            out.push(b'-');
        }
        out.push(b' ');
        out.extend_from_slice(&line[text_at..]);
    }
}

/// Separates the text of a message from the values before it: their hex digits, and `None` where the message
/// was formatted by its thread.
#[must_use]
pub fn take_values(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(end) = memchr::memchr(b' ', text) else { return (None, text) };
    let (values, text) = (&text[..end], &text[end + 1..]);
    (values.strip_prefix(b"="), text)
}

/// Appends the bytes that hex digits stand for to `out`.
pub fn put_bytes_of(digits: &[u8], out: &mut Vec<u8>) {
    // A letter has a bit that no decimal digit has, and `a` has the lowest bits of 1. There is no branch: many bytes at once.
    let digit = |byte: u8| (byte & 15).wrapping_add(9 * (byte >> 6));
    out.extend(digits.chunks_exact(2).map(|two| digit(two[0]) << 4 | digit(two[1])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_from_before_any_text() {
        let mut bytes = Vec::new();
        for (marked, values, text) in [
            (&b"=00ff7a a = b"[..], Some(&[0, 0xff, 0x7a][..]), &b"a = b"[..]),
            (b"= ", Some(&[]), b""),
            (b"- =00 b", None, b"=00 b"),
        ] {
            let (digits, found) = take_values(marked);
            let found_values = digits.map(|digits| {
                bytes.clear();
                put_bytes_of(digits, &mut bytes);
                &bytes[..]
            });
            assert_eq!((found_values, found), (values, text));
        }
    }
}
