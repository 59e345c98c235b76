//! The messages that every logger is given, and their text.
//!
//! Logging macros want literals, so each logger's file has them again; where one differs, the verification
//! finds none of its messages.

use std::io::Write;

/// The message without arguments.
pub const FIXED: &str = "a fixed string";

/// The argument of the message that is nothing else.
pub const TEXT: &str = "a string of exactly forty bytes, no more";

/// How the message with numbers begins; its first number is the message's own.
pub const NUMBERS: &str = "Iteration: ";

/// The second number of message `i`.
#[inline(always)]
pub fn int(i: u64) -> i32 {
    i as i32 + 7
}

/// The third number of message `i`.
#[inline(always)]
pub fn double(i: u64) -> f64 {
    i as f64 / 3.0
}

/// Writes the text of message `i` into `text`.
pub fn write_numbers(text: &mut Vec<u8>, i: u64) -> std::io::Result<()> {
    text.clear();
    write!(text, "{NUMBERS}{i} int: {} double: {}", int(i), double(i))
}
