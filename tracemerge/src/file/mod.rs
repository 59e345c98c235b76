//! One trace file: its bytes, including raw, in-memory and truncated ones, and the lines in them.

pub(crate) mod damage;
pub(crate) mod fast_map;
pub(crate) mod file_with_ring;
pub(crate) mod line_index;
pub(crate) mod lines;
pub(crate) mod map;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod raw_file;
pub(crate) mod record_text;
pub(crate) mod records;
pub(crate) mod rendered;
pub(crate) mod truncation;
