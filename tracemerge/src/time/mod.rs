//! The relation of ticks and wall clock, and times as they are written and read.

pub mod clocks;
pub mod point_of_time;
