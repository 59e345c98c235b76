//! One trace file: its bytes, also where it is raw, in memory, or becomes shorter meanwhile, and the lines in them.

pub mod held;
pub mod lines;
pub mod map;
pub mod raw;
pub mod render;
pub mod truncation;
