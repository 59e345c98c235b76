//! The formats of tracer, written and read in one place.
//!
//! The library (`tracer`) and the command (`tracemerge`) both use this crate, so nothing about a file, a ring
//! or a directory is known twice. `docs/trace-format.md` tells the same for people.
//!
//! | module | content |
//! |---|---|
//! | [`mod@line`] | the text line: key, kind, payload; parser and writer |
//! | [`kinds`] | the kinds of lines and records, and what becomes of one that is not known |
//! | [`tally`] | the number of messages in the lines of a file |
//! | [`escape`] | arbitrary bytes as one safe physical line, and back |
//! | [`meta`] | the `#` lines: `word key=value ...` |
//! | [`crc32`] | the checksum of a `# run` line |
//! | [`duration`] | durations in variables and options |
//! | [`wall`] | wall-clock times as text |
//! | [`name`] | names of trace files |
//! | [`patterns`] | which functions are meant, by their names |
//! | [`record`] | the binary record in a ring |
//! | [`ring`] | the ring file: header, positions, slots |
//! | [`capture`] | arguments as they are copied into a record, and the descriptor that tells their types |
//! | [`template`] | the grammar of format strings |
//! | [`fields`] | captured arguments to text |
//! | [`plans`] | the sites of a run, ready to be rendered |
//! | [`render`] | records to the content of a file; the one renderer of flusher and recovery |
//! | [`raw`] | the raw file: records as they are; its writer, and its reader, which makes lines of them |
//! | [`file`](mod@file) | the encoding of a file and its run, read from its first bytes |
//! | [`manifest`] | the file that says what a run's directory belongs to |
//! | [`places`] | the list of directories that an executable's runs have written to |
//! | [`life`] | the page whose lock says that a run lives |
//! | [`sites`] | the table of static places that make records |
//! | [`states`] | the states of threads, as the kernel tells them |
//! | [`wait`] | a wait of the tracer |
//! | [`pe`] | the headers of a Windows program: where its code is, and its build |
//!
//! Guarantees: one dependency (`zmij`, for the shortest digits of floats), no `unsafe`, no I/O; every parser
//! takes hostile bytes and returns an error or a value, never panics and never allocates more than a small
//! multiple of its input. `parse(write(x)) == x` is a property test for each of them.

pub mod capture;
pub mod crc32;
pub mod duration;
pub mod escape;
pub mod fields;
pub mod file;
pub mod function;
pub mod kinds;
pub mod life;
pub mod line;
pub mod locks;
pub mod manifest;
pub mod meta;
pub mod name;
pub mod patterns;
pub mod pe;
pub mod places;
pub mod plans;
pub mod raw;
pub mod record;
pub mod render;
pub mod ring;
pub mod sites;
pub mod states;
pub mod tally;
pub mod template;
pub mod wait;
pub mod wall;

/// The version of the text format, written as `version=` in each `# run` line.
///
/// A reader accepts its own version and all older ones. Version 2 has a checksum in its `# run` line. Version 3 has kinds
/// of lines and of records beyond those of version 2, and a reader of it takes kinds that it does not know.
pub const VERSION: u32 = 3;

/// The first version in which a line, or a record of a raw file, may be of a kind that its reader does not know. In earlier
/// ones such a line or record is damaged.
pub const FIRST_WITH_OTHER_KINDS: u32 = 3;
