//! The messages that every logger gets, and their text.
//!
//! Logging macros want literals, so each logger's file has the messages again. If one of them differs, the
//! verification finds none of that logger's messages.

use std::io::Write;

/// The message without arguments.
pub const FIXED: &str = "a fixed string";

/// The argument of the message that consists of its argument only.
pub const TEXT: &str = "a string of exactly forty bytes, no more";

/// The beginning of the message with numbers. The message's own number follows it.
pub const NUMBERS: &str = "Iteration: ";

/// Returns the second number of message `i`.
#[inline(always)]
pub fn int(i: u64) -> i32 {
    i as i32 + 7
}

/// Returns the third number of message `i`.
#[inline(always)]
pub fn double(i: u64) -> f64 {
    i as f64 / 3.0
}

/// Writes the text of message `i` into `text`.
pub fn write_numbers(text: &mut Vec<u8>, i: u64) -> std::io::Result<()> {
    text.clear();
    write!(text, "{NUMBERS}{i} int: {} double: {}", int(i), double(i))
}
