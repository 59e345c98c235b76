//! The relation of ticks and wall clock, and the forms in which times are written and read.

pub mod clocks;
pub mod point_of_time;
