//! One trace file: its bytes, including raw, in-memory and truncated ones, and the lines in them.

pub mod damage;
pub mod fast_map;
pub mod file_with_ring;
pub mod lines;
pub mod map;
pub mod raw_file;
pub mod record_text;
pub mod records;
pub mod rendered;
pub mod truncation;
