//! The records of the locks of `tracer::sync`: for each lock, how often threads waited for it, how long and
//! for which holder; which thread notified which; the chains of waits; and the waits that have not ended.

mod chains;
pub mod numbers;
mod tell;
mod waits;

use trace_format::meta::Meta;

use crate::ui::messages::count;
use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, LockContent};
use crate::view::export::locks::waits::{Places, Waits};
use trace_format::locks::LockRecord;

/// The form of the text about locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocksStyle {
    /// The maximum number of locks, conditions and chains that are listed, and of the lines of each.
    pub rows: usize,
}

/// The format that shows which thread waited for which lock, and for which holder.
#[derive(Debug)]
pub struct LocksFormat {
    style: LocksStyle,
    places: Places,
    /// The waits of each process, and the time of its last record.
    processes: Vec<(Waits, u64)>,
    /// The number of lock records that were messages.
    of_text: u64,
}

impl LocksFormat {
    /// Makes the format.
    #[must_use]
    pub fn new(style: LocksStyle) -> LocksFormat {
        LocksFormat { style, places: Places::default(), processes: Vec::new(), of_text: 0 }
    }
}

/// Parts of the paths of files whose functions only lead to a wait: files of the standard library, of lock
/// crates, and of the code that records the wait.
const WAIT_FUNCTION_PATHS: [&str; 6] =
    ["/library/std/", "/library/core/", "/library/alloc/", "/parking_lot", "/lock_api", "capi/src/futex.rs"];

/// Returns the place in a call stack with names at which the program itself has called a waiting function.
fn place_in_program(stack: &str) -> Option<&str> {
    let mut places = frames(stack).filter_map(|frame| frame.rsplit_once(" at ").map(|(_, place)| place));
    places.find(|place| !WAIT_FUNCTION_PATHS.iter().any(|part| place.contains(part)))
}

/// Returns the texts between the outermost parentheses in a call stack. Parentheses inside them must be
/// balanced.
fn frames(stack: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut start) = (0usize, 0);
    stack.bytes().enumerate().filter_map(move |(at, byte)| {
        match byte {
            b'(' => {
                if depth == 0 {
                    start = at + 1;
                }
                depth += 1;
            }
            b')' => {
                depth = depth.saturating_sub(1);
                return (depth == 0).then(|| &stack[start..at]);
            }
            _ => {}
        }
        None
    })
}

impl EventFormat for LocksFormat {
    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, _out: &mut Vec<u8>) {
        let thread = &inventory.threads[event.thread];
        self.processes.resize_with(inventory.processes.len(), Default::default);
        let (waits, latest) = &mut self.processes[thread.process];
        *latest = event.wall.max(*latest);
        match event.what {
            EventContent::Message { text, lock, .. } => {
                match LockRecord::parse(text).filter(|_| lock != LockContent::No) {
                    Some(record) => {
                        self.of_text += u64::from(lock == LockContent::Text);
                        waits.take(&record, thread.tid, event.wall, &mut self.places);
                    }
                    None => waits.has_traced(thread.tid),
                }
            }
            EventContent::Enter(_) | EventContent::Leave(..) => waits.has_traced(thread.tid),
            EventContent::Stack(stack) => {
                if let Some(place) = place_in_program(stack) {
                    waits.place(thread.tid, place, &mut self.places);
                }
            }
            EventContent::Meta { meta: Some(Meta::Switched { on: false, ticks }), .. } => {
                waits.pause(thread.clock.wall(*ticks).0);
            }
            _ => {}
        }
    }

    fn finish(&mut self, inventory: &Inventory, out: &mut Vec<u8>) {
        for (waits, latest) in &mut self.processes {
            waits.count_open(*latest);
        }
        tell::tell(self, inventory, out);
    }

    fn omissions(&self, _inventory: &Inventory) -> Vec<String> {
        let read = (self.of_text > 0).then(|| count(self.of_text, "lock record"));
        let read_note = read.map(|records| {
            format!("{records} read from the text of messages: the trace has an earlier version")
        });
        read_note.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
