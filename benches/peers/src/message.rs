//! The messages that every logger gets, with the text that each must have.
//!
//! Logging macros want literals, so each logger's file has the messages again. If a message there differs, the
//! verification does not find that message of the logger.

use std::io::Write;

/// The message without arguments.
pub const FIXED: &str = "a fixed string";

/// The argument, and the whole text, of the message that consists of its argument only.
pub const TEXT: &str = "a string of exactly forty bytes, no more";

/// The beginning of the message with numbers. The message's own number follows, which is its first argument.
pub const NUMBERS: &str = "Iteration: ";

/// Returns the second argument of the message with the number `i`.
#[inline(always)]
pub fn int(i: u64) -> i32 {
    i as i32 + 7
}

/// Returns the third argument of the message with the number `i`.
#[inline(always)]
pub fn double(i: u64) -> f64 {
    i as f64 / 3.0
}

/// Replaces `text` by the text of the message with the number `i`.
pub fn write_numbers(text: &mut Vec<u8>, i: u64) -> std::io::Result<()> {
    text.clear();
    write!(text, "{NUMBERS}{i} int: {} double: {}", int(i), double(i))
}
