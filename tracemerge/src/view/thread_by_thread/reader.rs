//! The reader of raw files whose calls are counted: from records to functions and times, without lines.

use trace_format::line::{Kind, Line, Ticks};
use trace_format::raw::{CallOrLines, Decoder, Raw};
use trace_format::record::{Flags, RecordKind};

use crate::file::lines::{lines_of, without_feed};
use crate::input::inputs::Origin;
use crate::time::clocks::ClockReader;
use crate::view::calls::CallPlace;
use crate::view::fast_map::FastMap;
use crate::view::function_names::{Called, SharedNames, lock};

/// The number of bits of the places that addresses have among those that were asked for last.
const RECENT: u32 = 9;
/// No address: that of a call has 54 bits.
const NOTHING: (u64, KnownPlace) =
    (u64::MAX, KnownPlace { number: 0, called: Called { place: CallPlace::Last, function: 0, from: None } });

/// A record of a raw file, as it is counted.
pub enum Item<'a> {
    /// A function was entered or left.
    Call(Call),
    /// The lines of records that are no calls.
    Lines(&'a [u8]),
}

/// A function was entered or left.
#[derive(Clone, Copy)]
pub struct Call {
    /// The time of day, in nanoseconds.
    pub now: u64,
    /// The place that was entered or left.
    pub place: KnownPlace,
    /// Whether it was entered.
    pub is_entered: bool,
}

/// A place that calls were entered at, with the function that it is in.
#[derive(Clone, Copy)]
pub struct KnownPlace {
    /// The number of places that were known before this one.
    pub number: u32,
    /// What the records of a call at this place tell.
    pub called: Called,
}

/// The reader of a raw file: makes items of its records.
pub struct Reader<'a> {
    process: usize,
    names: &'a SharedNames,
    clock: ClockReader,
    /// The places that addresses are.
    known: FastMap<u64, KnownPlace>,
    /// Of the addresses that are kept at one index, the one that was asked for last.
    recent: Vec<(u64, KnownPlace)>,
    /// The number of places so far.
    places: u32,
    /// The ticks of the last call.
    pub last: Ticks,
    /// The number of calls that were left because a panic unwinds the stack.
    pub unwinding: u64,
}

impl<'a> Reader<'a> {
    /// Makes a reader of files of a process, which have the clock of `origin`.
    pub fn new(process: usize, origin: &Origin, names: &'a SharedNames) -> Reader<'a> {
        let (known, recent) = (FastMap::default(), vec![NOTHING; 1 << RECENT]);
        let clock = origin.clock.reader();
        Reader { process, names, clock, known, recent, places: 0, last: Ticks(0), unwinding: 0 }
    }

    /// Calls `take` with all records of the file; returns whether they are plainly in order.
    pub fn read(&mut self, raw: Raw<'_>, mut take: impl FnMut(Item<'_>)) -> bool {
        Decoder::new(raw.tid()).calls(raw, |record| match record {
            CallOrLines::Call(record) => {
                let flags = record.flags();
                let is_hook = flags.has(Flags::HOOK);
                self.unwinding += u64::from(flags.has(Flags::UNWINDING));
                let (address, ticks) = (record.address(), record.ticks);
                let place = self.place(ticks, address, is_hook);
                let is_entered = record.kind == RecordKind::Enter;
                let now = self.clock.wall(ticks).0;
                self.last = ticks;
                take(Item::Call(Call { now, place, is_entered }));
            }
            CallOrLines::Lines(lines) => {
                for line in lines_of(lines).filter_map(|line| Line::parse(without_feed(line)).ok()) {
                    if line.kind == Kind::Meta {
                        // Modules may become known, and with them other functions.
                        lock(self.names).take_meta(self.process, line.payload);
                        self.known.clear();
                        self.recent.fill(NOTHING);
                    }
                }
                take(Item::Lines(lines));
            }
        })
    }

    /// Returns the place that an address is, which is looked up once.
    #[inline]
    fn place(&mut self, ticks: Ticks, address: u64, is_hook: bool) -> KnownPlace {
        let key = address << 1 | u64::from(is_hook);
        // The factor is that of Fibonacci hashing: Knuth, "The Art of Computer Programming", volume 3, 6.4.
        let index = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT)) as usize;
        if self.recent[index].0 != key {
            self.recent[index] = (key, self.look_up(ticks, address, is_hook, key));
        }
        self.recent[index].1
    }

    #[cold]
    fn look_up(&mut self, ticks: Ticks, address: u64, is_hook: bool, key: u64) -> KnownPlace {
        let (names, process, places) = (self.names, self.process, &mut self.places);
        *self.known.entry(key).or_insert_with(|| {
            let called = lock(names).of_call(process, ticks, address, is_hook);
            let number = *places;
            *places += 1;
            KnownPlace { number, called }
        })
    }
}
