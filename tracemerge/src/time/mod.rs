//! The relation of ticks, steady time and wall clock, and the forms in which times are written and read.

pub mod anchor;
pub mod clocks;
pub mod point_of_time;
mod scale;
pub mod steps;
