//! One trace file: its bytes, also where they are raw, in memory or truncated meanwhile, and the lines in
//! them.

pub mod damage;
pub mod held;
pub mod lines;
pub mod map;
pub mod raw;
pub mod render;
pub mod truncation;
