//! A thread's ring: single producer, single consumer, in a shared mapping.
//!
//! | file | content | runs on |
//! |---|---|---|
//! | `lane` | the producer's position in one ring: room, blocks, pieces | traced thread |
//! | `producer` | a record: the hot path, and records inside records | traced thread |
//! | `values` | values of types that are known at run time only | traced thread |
//! | `message` | a message, and its way into the ring, in pieces if necessary | traced thread |
//!
//! The layout and the write order are those of [`trace_format::ring`]. In `lane`, `producer` and `message` there is
//! no lock, no allocation and, if there is room, no system call; only waiting for room makes one.

mod arguments;
pub(crate) mod clock;
mod lane;
mod message;
mod producer;
mod values;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use arguments::Arguments;
pub(crate) use message::{ByteSink, Message, WriteBytes};
pub(crate) use producer::{
    ALL_RESERVED, Link, MAX_CAPTURED, Outcome, Producer, call_site_record, has_enough_room,
};
pub use values::{Value, ValueType, Values};
