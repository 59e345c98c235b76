//! The kinds of lines and of records, in one table, and the treatment of unknown kinds.
//!
//! | line | record | content | writer and parser | counted |
//! |---|---|---|---|---|
//! | `:` `\|` | 2, 3 | a message | [`crate::render`], [`crate::capture`] | as a record |
//! | `>` `<` | 4, 5, 9 | a function was entered, left | [`crate::function`] | as a record |
//! | `^` | 6 | a call stack | [`crate::function`] | as a record |
//! | `!` | 10 | an event of a lock or a condition | [`crate::locks`] | as a record |
//! | `# wait` | 11 | a wait of the tracer | [`crate::wait`] | apart |
//! | `#` | 7 | metadata | [`crate::meta`] | not |
//! | | 8 | the entry of a site | [`crate::sites`] | not |
//! | `=` | 12 | the state of a thread | [`crate::states`] | apart |
//! | `?` and other punctuation | 13 to 31 | a kind of a later version | here | apart |
//!
//! If a reader does not know the kind of a line, or of a record of a raw file, the reader copies the line or record.
//! Views leave it out, count it and name the kind. Such a line or record is neither a message nor damage. The `# end`
//! line of a file says how many lines of the file are counted [apart](SeparateCounts), and a reader compares the
//! numbers: if a flipped bit changes a line's kind, the reader notices that a line is missing instead of accepting a
//! new kind. A later version that adds a kind counts its lines in `# end`, whether calls of the tracer make them or
//! not.

use crate::meta::{PayloadReader, PayloadWriter};
use crate::record::Record;

/// The counts of the lines of a file that are not counted as records, one count for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeparateCounts {
    /// The number of lines whose kind this version does not know.
    pub others: u64,
    /// The number of `# wait` lines.
    pub waits: u64,
    /// The number of `=` lines.
    pub states: u64,
}

impl SeparateCounts {
    /// Appends the counts as keys of an `# end` line. A key whose count is zero is left out.
    pub(crate) fn write(&self, fields: &mut PayloadWriter<'_>) {
        for (key, number) in [("waits", self.waits), ("states", self.states), ("others", self.others)] {
            if number > 0 {
                fields.number(key, number);
            }
        }
    }

    pub(crate) fn parse(fields: &PayloadReader<'_>) -> SeparateCounts {
        let number = |key| fields.number(key).unwrap_or(0);
        SeparateCounts { others: number("others"), waits: number("waits"), states: number("states") }
    }
}

/// Appends the payload of the `?` line that stands for a record of unknown kind in a raw file: all fields of the
/// record, the payload in hex digits.
pub(crate) fn write_other(record: &Record<'_>, out: &mut Vec<u8>) {
    let head =
        format!("kind={} flags={} site={} bytes=", record.kind_number(), record.flags().0, record.site());
    out.extend_from_slice(head.as_bytes());
    for byte in record.payload {
        out.extend_from_slice(&[byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
}
