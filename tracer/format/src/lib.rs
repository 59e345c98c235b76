//! The formats of tracer, written and read in one place.
//!
//! The library (`tracer`) and the command (`tracemerge`) both use this crate, so each format has one implementation.
//! `docs/trace-format.md` describes the formats for people.
//!
//! | module | content |
//! |---|---|
//! | [`mod@line`] | the text line: key, kind, payload; parser and writer |
//! | [`kinds`] | the kinds of lines and records, and the treatment of unknown kinds |
//! | [`tally`] | the number of messages in the lines of a file |
//! | [`escape`] | arbitrary bytes as one safe physical line, and back |
//! | [`meta`] | the `#` lines: `word key=value ...` |
//! | [`crc32`] | the checksum of a `# run` line |
//! | [`duration`] | durations in variables and options |
//! | [`wall`] | wall-clock times as text |
//! | [`name`] | names of trace files |
//! | [`patterns`] | patterns that select functions by their names |
//! | [`function`] | the lines of functions that were entered and left, and of call stacks |
//! | [`locks`] | the lines of locks and conditions |
//! | [`record`] | the binary record in a ring |
//! | [`ring`] | the ring file: header, positions, slots |
//! | [`capture`] | arguments as they are copied into a record, and the descriptor of their types |
//! | [`template`] | the grammar of format strings |
//! | [`fields`] | captured arguments to text |
//! | [`plans`] | the sites of a run, ready to be rendered |
//! | [`render`] | records to the contents of a file; the one renderer of flusher and recovery |
//! | [`raw`] | the raw file, which contains records unchanged: its writer, and the reader that makes lines of them |
//! | [`file`](mod@file) | the encoding of a file and its run, read from its first bytes |
//! | [`manifest`] | the file that names the run that a directory belongs to |
//! | [`places`] | the list of directories that an executable's runs have written to |
//! | [`life`] | the page whose lock shows that a run is alive |
//! | [`sites`] | the table of sites, the static places in a program that make records |
//! | [`states`] | the states of threads, as the kernel reports them |
//! | [`wait`] | a wait of the tracer |
//! | [`pe`] | the headers of a Windows program: the range of its code, and its build-id |
//!
//! Guarantees: no dependency (with the feature `fast-floats` one: `zmij`, for the shortest digits of floats), no
//! `unsafe`, no I/O; every parser accepts hostile bytes and returns an error or a value, never panics and never
//! allocates more than a small multiple of its input. Each format has the property test `parse(write(x)) == x`.

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
/// A reader accepts its own version and all older ones. Version 2 has a checksum in its `# run` line. Version 3 adds
/// kinds of lines and of records, and its readers accept unknown kinds.
pub const VERSION: u32 = 3;

/// The first version in which a line, or a record of a raw file, may be of a kind that its reader does not know. In
/// earlier versions such a line or record is damaged.
pub const FIRST_WITH_OTHER_KINDS: u32 = 3;
