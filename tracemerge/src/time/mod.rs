//! The relation of ticks, steady time and the wall clock, and the forms in which times are written and read.

pub(crate) mod anchor;
pub(crate) mod clocks;
pub(crate) mod order;
pub(crate) mod point_of_time;
mod scale;
pub(crate) mod steps;
