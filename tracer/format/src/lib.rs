//! The formats of tracer, written and read in one place.
//!
//! The library (`tracer`) and the command (`tracemerge`) both use this crate, so nothing about a file,
//! a ring or a directory is known twice. `docs/trace-format.md` tells the same for people.
//!
//! | module | what it lays down |
//! |---|---|
//! | [`mod@line`] | the text line: key, kind, payload; parser and writer |
//! | [`tally`] | how many messages the lines of a file are |
//! | [`escape`] | how arbitrary bytes become one safe physical line, and back |
//! | [`meta`] | the `#` lines: `word key=value ...` |
//! | [`crc32`] | the checksum of a `# run` line |
//! | [`wall`] | wall-clock times as text |
//! | [`name`] | names of trace files |
//! | [`record`] | the binary record in a ring |
//! | [`ring`] | the ring file: header, positions, slots |
//! | [`render`] | records to what a file has of them; the one renderer of flusher and recovery |
//! | [`raw`] | the raw file: records as they are; its writer, and its reader, which makes lines of them |
//! | [`file`](mod@file) | what the first bytes of a file say of it |
//! | [`manifest`] | the file that says what a run's directory belongs to |
//! | [`places`] | the list of directories that an executable's runs have written to |
//! | [`life`] | the page whose lock says that a run lives |
//! | [`sites`] | the table of static places that make records |
//!
//! Guarantees: no dependencies, no `unsafe`, no I/O; every parser takes hostile bytes and returns an error
//! or a value, never panics and never allocates more than a small multiple of its input.
//! `parse(write(x)) == x` is a property test for each of them.

pub mod capture;
pub mod crc32;
pub mod escape;
pub mod fields;
pub mod file;
pub mod life;
pub mod line;
pub mod manifest;
pub mod meta;
pub mod name;
pub mod places;
pub mod plans;
pub mod raw;
pub mod record;
pub mod render;
pub mod ring;
pub mod sites;
pub mod tally;
pub mod template;
pub mod wall;

/// Version of the text format, written as `version=` in each `# run` line.
///
/// A reader accepts its own version and all older ones. Version 2 has a checksum in its `# run` line.
pub const VERSION: u32 = 2;
