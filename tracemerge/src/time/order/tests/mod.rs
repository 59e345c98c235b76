//! Tests with simulated clocks, whose truth is known.

mod baseline;
mod seeds;
mod world;
