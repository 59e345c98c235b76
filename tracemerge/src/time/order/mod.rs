//! The order of events on several machines, as far as the messages between the machines prove it.
//!
//! No message is received before it is sent. So each message that goes from one machine to another bounds the offset
//! between the two machines' clocks from one side, and messages in both directions bound it from both sides. This is a
//! proof under three assumptions, which are in [`Assumptions`]: the rate of two clocks to each other changes at a
//! limited speed, it stays near its mean, and few messages are matched wrongly.
//!
//! | module | contents |
//! |---|---|
//! | `pairs` | the points of each two clocks: what a message says about their offset, and when |
//! | `steps` | jumps of a clock: each begins a new epoch, which counts as a clock of its own |
//! | `nominal` | a line for each clock that brings it near the first one, so that offsets are small |
//! | `filter` | wrong matches, and the points that are nearest to the limit and therefore not trusted |
//! | `hull` | the few points that limit the offset at any time, and these limits |
//! | `graph` | the shortest paths over all clocks: the limits that the other clocks add |
//! | `centre` | one offset for each clock that respects all limits and lies in their middle |
//! | `repair` | the change of these offsets by which no message that counts is received before it is sent |
//! | `contradictions` | matches that contradict others, which are given up and named |
//! | `assume` | places for clocks that nothing limits from one side |
//! | `solve` | the steps in their order |
//! | `times`, `solution` | the times of all readings, with their limits |
//!
//! Units: readings and times are nanoseconds (`i64`), offsets are nanoseconds (`f64`), and the abscissa of a point is
//! seconds (`f64`) since the first reading.

mod assume;
mod centre;
mod contradictions;
mod filter;
mod graph;
mod hull;
mod nominal;
mod pairs;
mod repair;
mod solution;
mod solve;
mod steps;
#[cfg(test)]
mod tests;
mod times;

pub use self::filter::{Direction, PairStream};
pub(crate) use self::solution::{Knot, Order, Verdict, largest_error};
pub(crate) use self::solve::solve;

/// A message from one clock to another clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The number of the sender's clock.
    pub from: u32,
    /// The number of the receiver's clock.
    pub to: u32,
    /// The reading of the sender's clock when the message was sent, in nanoseconds.
    pub sent: i64,
    /// The reading of the receiver's clock when the message was received, in nanoseconds.
    pub received: i64,
}

/// A reading of a machine's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallReading {
    /// The number of the clock of the machine whose wall clock was read.
    pub clock: u32,
    /// The reading of the machine's clock, in nanoseconds.
    pub at: i64,
    /// The wall clock's time at that moment, in nanoseconds since 1970.
    pub wall: i64,
    /// The greatest error of the wall clock, in nanoseconds, as the system states it. A reading without a stated error
    /// proves nothing, but still places a machine that no message places.
    pub error: Option<i64>,
}

/// The assumptions under which the limits are proved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumptions {
    /// The fastest change of the rate of two clocks relative to each other, in nanoseconds per second squared.
    pub rate_change: f64,
    /// The largest deviation of the rate of two clocks relative to each other from its mean, in nanoseconds per second,
    /// where no messages on both sides limit it.
    pub rate_range: f64,
    /// The assumed share of matched messages that are wrong, are not recognized as wrong, and nevertheless set the
    /// limit, because they are nearest to it.
    pub wrong_share: f64,
    /// The longest time, in nanoseconds, that the fastest message of a link is assumed to have taken, if all its
    /// messages go in one direction. This only places a clock that would have no limit on that side; it proves nothing.
    pub least_delay: f64,
    /// The least time, in nanoseconds, by which a message is shown to be received after it was sent.
    pub least_apart: f64,
}

impl Default for Assumptions {
    fn default() -> Assumptions {
        Assumptions {
            rate_change: 100.0,
            rate_range: 10_000.0,
            wrong_share: 0.003,
            least_delay: 200_000.0,
            least_apart: 50.0,
        }
    }
}
