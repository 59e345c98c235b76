//! Ticks and the times of clocks.

pub mod clocks;
pub mod when;
