//! One trace file: its bytes, also where they are raw, in memory or truncated meanwhile, and the lines in
//! them.

pub mod damage;
pub mod file_with_ring;
pub mod lines;
pub mod map;
pub mod marked_values;
pub mod raw_file;
pub mod rendered;
pub mod truncation;
