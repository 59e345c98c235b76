//! Batches of calls, which the thread that reads a raw file hands to the one that counts them.

use std::mem;

use crate::view::thread_by_thread::reader::{Call, Item, KnownPlace};

/// The number of calls in a batch, and the bytes of lines: few enough for a core's cache.
const BATCH: usize = if cfg!(test) { 7 } else { 8192 };
const BATCH_BYTES: usize = 64 << 10;

/// Records of a raw file, in order, which one thread has read and another one counts. Cores pass memory to each other
/// slowly, so a call has eight bytes here.
#[derive(Default)]
pub struct Batch {
    /// The time of day from which the first call counts its time.
    base: u64,
    /// Of each call the nanoseconds since the one before, and the number of its place with the bit [`ENTERED`].
    calls: Vec<(u32, u32)>,
    /// The places that were not known before, in the order of their numbers.
    new: Vec<KnownPlace>,
    /// Lines, with the number of the calls before them and the end in `text`.
    lines: Vec<(usize, usize)>,
    text: Vec<u8>,
}

/// The bit in the number of a place that tells that the call is entered. A program has fewer places.
const ENTERED: u32 = 1 << 31;

/// The maker of batches.
#[derive(Default)]
pub struct Packer {
    /// The batch that is not full yet.
    pub batch: Batch,
    /// The time of the last call.
    last: u64,
    /// The number of places that batches have told.
    told: u32,
}

impl Packer {
    /// Adds an item; returns a batch that it does not fit in any longer, for which `next` gives another one.
    #[inline]
    pub fn push(&mut self, item: Item<'_>, next: impl FnOnce() -> Batch) -> Option<Batch> {
        let since = |last: u64, now: u64| now.checked_sub(last).and_then(|since| u32::try_from(since).ok());
        let mut full = None;
        match item {
            Item::Call(call) => {
                let after = since(self.last, call.now).filter(|_| self.batch.calls.len() < BATCH);
                let after = after.unwrap_or_else(|| {
                    full = Some(mem::replace(&mut self.batch, next()));
                    self.batch.base = call.now;
                    0
                });
                self.last = call.now;
                if call.place.number >= self.told {
                    self.told = call.place.number + 1;
                    self.batch.new.push(call.place);
                }
                let entered = if call.is_entered { ENTERED } else { 0 };
                self.batch.calls.push((after, call.place.number | entered));
            }
            Item::Lines(lines) => {
                if self.batch.text.len() >= BATCH_BYTES {
                    full = Some(mem::replace(&mut self.batch, next()));
                    self.batch.base = self.last;
                }
                self.batch.text.extend_from_slice(lines);
                self.batch.lines.push((self.batch.calls.len(), self.batch.text.len()));
            }
        }
        full
    }
}

impl Batch {
    /// Calls `take` with each item, in order; `places` are those that all batches before have told.
    pub fn each(&self, places: &mut Vec<KnownPlace>, mut take: impl FnMut(Item<'_>)) {
        places.extend_from_slice(&self.new);
        let (mut now, mut start) = (self.base, 0);
        let mut lines = self.lines.iter().peekable();
        for (number, &(after, place)) in self.calls.iter().enumerate() {
            while let Some((_, end)) = lines.next_if(|(before, _)| *before == number) {
                take(Item::Lines(&self.text[start..*end]));
                start = *end;
            }
            now += u64::from(after);
            let is_entered = place & ENTERED != 0;
            take(Item::Call(Call { now, place: places[(place & !ENTERED) as usize], is_entered }));
        }
        for (_, end) in lines {
            take(Item::Lines(&self.text[start..*end]));
            start = *end;
        }
    }

    /// Drops all items, and keeps the memory.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.new.clear();
        self.lines.clear();
        self.text.clear();
    }
}
