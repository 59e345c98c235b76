//! The records of a trial: for each slot and number, the text that the program traces and that must be in the
//! files.
//!
//! A slot is a thread, or something that interrupts one, and counts its own records. Each message begins with its
//! slot and the number of the record there, so that no two messages are the same.

use super::Random;
use super::counters::{LANES, Lane, lane_of};
use super::plan::TrialPlan;
use std::fmt::Write;

/// The shape of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Slot and number alone.
    Short,
    /// Several lines, the last of them empty.
    Lines,
    /// A message longer than a block.
    Long,
    /// A message longer than the ring.
    Huge,
    /// A record by the macro, with arguments.
    Captured,
    /// A `Display` that traces into the slot of records inside records.
    Nested,
    /// A `Display` that panics: it makes no record, and is reported lost.
    Panics,
    /// A `Display` that is left by a jump: it makes no record, and is reported lost.
    Jumps,
}

/// The text that long messages are made of: characters of more than one byte, and text that looks like an
/// escape.
pub const FILLING: &str = "long \u{e9}\\x41 ";

impl TrialPlan {
    /// Returns the shape of record `n` of a slot.
    #[must_use]
    pub fn shape(&self, slot: usize, n: u64) -> Shape {
        let Lane::Thread(short_lived) = lane_of(slot) else { return Shape::Short };
        if n == 0 {
            return Shape::Short;
        }
        let mut random = Random::new(self.seed ^ (slot as u64) << 40 ^ n);
        let (which, shapes) = (random.below(0, 1000), self.shapes);
        // Long messages are so rare that a trial takes tenths of a second.
        let long = if self.ring_kb > 64 { 3 } else { 20 };
        let huge = if self.ring_kb > 64 { 0 } else { 2 };
        match which {
            0..40 if shapes.lines => Shape::Lines,
            40..340 if shapes.captured => Shape::Captured,
            340..360 if shapes.nested && !short_lived => Shape::Nested,
            360..370 if shapes.panics => Shape::Panics,
            370..380 if shapes.jumps => Shape::Jumps,
            400.. if shapes.long && which < 400 + long => Shape::Long,
            450.. if shapes.huge && which < 450 + huge => Shape::Huge,
            _ => Shape::Short,
        }
    }

    /// Returns the number of repetitions of [`FILLING`] in a record of this shape.
    #[must_use]
    pub fn filling(&self, shape: Shape) -> usize {
        let ring = self.ring_kb as usize * 1024;
        let bytes = match shape {
            // A block is an eighth of the ring, at most 64 KiB.
            Shape::Long => (ring / 8).min(65536) + 100,
            Shape::Huge => ring + ring / 4,
            _ => 0,
        };
        bytes / FILLING.len()
    }

    /// Sets `text` to the text of record `n` of a slot, as it must be in a file.
    pub fn text(&self, slot: usize, n: u64, text: &mut String) {
        text.clear();
        let _ = write!(text, "{slot} {n}");
        match lane_of(slot) {
            Lane::Inside => text.push_str(" inside"),
            Lane::Handler => text.push_str(" handler"),
            Lane::Thread(_) => {}
        }
        let shape = self.shape(slot, n);
        match shape {
            Shape::Short | Shape::Panics | Shape::Jumps => {}
            Shape::Lines => text.push_str(" \nand more\n"),
            Shape::Long | Shape::Huge => {
                text.push(' ');
                (0..self.filling(shape)).for_each(|_| text.push_str(FILLING));
            }
            Shape::Captured => {
                let _ = write!(text, " {:?} {:.3} é", n as f64 / 8.0, f64::from(slot as u32));
            }
            Shape::Nested => text.push_str(" outside"),
        }
    }
}

/// Returns the text of the last record of a thread that comes to its end, whatever its number.
#[must_use]
pub fn closing(slot: usize, n: u64) -> String {
    format!("{slot} {n} ends")
}

const _: () = assert!(LANES == 3);
