//! A block of records for the HTML page, in columns, each of which is deflated separately.
//!
//! All numbers are varints; those that may be negative are in zigzag form. For each record, a block has:
//! * a lane, which is the index of the record's thread
//! * its ticks, as changes from record to record. The lowest bytes of the changes, which are as good as random, are in
//!   a column of their own.
//! * its time, in steady nanoseconds since the first line of the chosen runs. The page predicts each time from the
//!   ticks and the block's rate, in the same floating-point arithmetic as this module; the column of times has the
//!   changes of the error of this prediction, most of which are 0.
//! * its wall time
//! * a code, which is one of [`code`], or stands for an entry of the dictionary (a function, or the template of a text)

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::file::fast_map::FastMap;
use crate::ui::base64::put_base64;
use crate::view::export::json::{put_number, put_string};

/// The maximum number of records of a block.
pub(super) const RECORDS: usize = 1 << 16;
/// The size of the texts of a block, in bytes, above which the block ends before it has its maximum number of records.
const MAX_BYTES: usize = 16 << 20;
/// The minimum number of texts of a template for which the column of numbers may have changes from text to text in
/// place of the numbers.
const MIN_CHANGES: usize = 8;
/// The version of the format of blocks. A page can be compared only with pages of the same version. The number is also
/// in `decode.js`.
const VERSION: u32 = 2;
/// The level of deflate compression. Higher levels gain nothing.
const LEVEL: u32 = 6;

/// The codes of records that have no entry in the dictionary.
pub(super) mod code {
    /// The code for the end of the innermost open call by its leave record.
    pub(crate) const LEAVE: u64 = 0;
    /// The code for any other end of calls. The numbers after the code are flags, the number of ended calls and, for
    /// each call from the innermost outwards, the number of calls inside it that go on, and whether it has a leave
    /// record.
    pub(crate) const END: u64 = 1;
    /// The code of a wait for the tracer. The numbers after the code are the begin and the end of the wait, relative to
    /// the record.
    pub(crate) const WAIT: u64 = 2;
    /// The code of a wait for the tracer at an unknown time. The number after the code is the duration of the wait.
    pub(crate) const STALL: u64 = 3;
    /// The code of the first entry of the dictionary; further entries have the codes after it.
    pub(crate) const FIRST: u64 = 4;
}

/// The types of changes of spans. A type is followed by the span's number, the time, and the thread.
pub(super) mod span_kind {
    pub(crate) const BEGAN: u64 = 0;
    pub(crate) const BUSY: u64 = 1;
    pub(crate) const IDLE: u64 = 2;
    pub(crate) const ENDED: u64 = 3;
    pub(crate) const CANCELLED: u64 = 4;
    pub(crate) const OPEN: u64 = 5;
    /// The span goes on in the next page.
    pub(crate) const CONTINUES: u64 = 6;
}

/// The bit in the flags of [`code::END`] that says that the calls go on in the next page.
pub(super) const CONTINUES: u64 = 1 << 4;

/// The reasons why a thread was not running.
pub(super) mod state {
    pub(crate) const WAITING: u64 = 0;
    pub(crate) const PREEMPTED: u64 = 1;
    pub(crate) const UNKNOWN: u64 = 2;
    /// The thread waited for a notification.
    pub(crate) const CONDITION: u64 = 3;
    /// The thread waited for a lock.
    pub(crate) const LOCK: u64 = 4;
}

/// The time of a record by three clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub ticks: u64,
    /// The steady time since the first line, in nanoseconds.
    pub time: i64,
    /// The wall time, in nanoseconds since 1970.
    pub wall: u64,
}

/// The records of a block that is not yet written.
#[derive(Debug, Default)]
pub(super) struct Block {
    lanes: Vec<u8>,
    moments: Vec<Moment>,
    codes: Vec<u8>,
    /// For each template, by its entry in the dictionary, the numbers in its texts: the count of numbers in each text,
    /// and the numbers, text by text.
    numbers: FastMap<u32, (usize, Vec<u64>)>,
    lengths: Vec<u8>,
    words: Vec<u8>,
    /// The numbers that follow the codes of records, as many as each code requires.
    pub more: Vec<u8>,
    /// The periods in which threads were not running: lane, reason, begin and duration; for a wait for a lock also the
    /// holder of the lock.
    states: Vec<u8>,
    /// The changes of spans; `fields` has the texts of the spans' fields.
    pub spans: Vec<u8>,
    pub fields: Vec<u8>,
    /// The entries of the dictionary that are new in this block, in JSON, separated by commas.
    pub entries: Vec<u8>,
    /// The names of spans that are new in this block, in JSON, separated by commas.
    pub span_names: Vec<u8>,
    /// The begin of the last period in `states`; `last_span` is the time of the last change in `spans`.
    last_state: i64,
    pub last_span: i64,
}

impl Block {
    /// Adds a record: its lane (the index of its thread), its times, and its code, which is one of [`code`] or stands
    /// for an entry of the dictionary.
    pub(super) fn record(&mut self, lane: usize, moment: Moment, code: u64) {
        put_varint(lane as u64, &mut self.lanes);
        self.moments.push(moment);
        put_varint(code, &mut self.codes);
    }

    /// Adds the arguments of a text (its numbers, and its variable words with their lengths). The entry `entry` of the
    /// dictionary is the template of the text.
    pub(super) fn arguments(&mut self, entry: u32, numbers: &[u64], lengths: &[usize], words: &[u8]) {
        if !numbers.is_empty() {
            let of_template = self.numbers.entry(entry).or_insert((numbers.len(), Vec::new()));
            of_template.1.extend_from_slice(numbers);
        }
        lengths.iter().for_each(|length| put_varint(*length as u64, &mut self.lengths));
        self.words.extend_from_slice(words);
    }

    /// Adds a period in which a thread was not running, for the reason `state`.
    pub(super) fn state(&mut self, lane: usize, state: u64, begin: i64, duration: u64) {
        put_varint(lane as u64, &mut self.states);
        put_varint(state, &mut self.states);
        put_signed(begin.wrapping_sub(self.last_state), &mut self.states);
        put_varint(duration, &mut self.states);
        self.last_state = begin;
    }

    /// Adds a period in which a thread waited for a lock; `holder` is the thread that held the lock, if it is known.
    pub(super) fn lock_wait(&mut self, lane: usize, (begin, duration): (i64, u64), holder: Option<usize>) {
        self.state(lane, state::LOCK, begin, duration);
        put_varint(holder.map_or(0, |holder| holder as u64 + 1), &mut self.states);
    }

    /// Returns whether the block has no room for another record.
    pub(super) fn is_full(&self) -> bool {
        self.moments.len() >= RECORDS || self.words.len() + self.entries.len() + self.fields.len() > MAX_BYTES
    }

    /// Appends the block to the page, together with `facts` (names with lists in JSON), and begins an empty block.
    pub(super) fn write(&mut self, facts: &[(&str, Vec<u8>)], out: &mut Vec<u8>) {
        let mut head = Vec::new();
        let rate = self.rate();
        let first = self.moments.first().copied().unwrap_or(Moment { ticks: 0, time: 0, wall: 0 });
        // Writing to memory does not fail.
        let _ = write!(
            head,
            "{{\"version\":{VERSION},\"records\":{},\"ticks\":\"{}\",\"time\":{},\"rate\":{rate:?},\"wall\":\"{}\"",
            self.moments.len(),
            first.ticks,
            first.time,
            first.wall
        );
        let entries = [("entries", &self.entries), ("spanNames", &self.span_names)];
        for (name, list) in entries.into_iter().chain(facts.iter().map(|(name, list)| (*name, list))) {
            head.push(b',');
            put_string(name, &mut head);
            head.extend_from_slice(b":[");
            head.extend_from_slice(list);
            head.push(b']');
        }
        head.push(b'}');
        let [low_ticks, ticks, times, walls] = self.times(first, rate);
        let numbers = self.number_column();
        out.extend_from_slice(b"<script>block(");
        put_number(self.moments.len() as u64, out);
        let columns = [
            &head,
            &self.lanes,
            &low_ticks,
            &ticks,
            &times,
            &walls,
            &self.codes,
            &numbers,
            &self.lengths,
            &self.words,
            &self.more,
            &self.states,
            &self.spans,
            &self.fields,
        ];
        for column in columns {
            out.extend_from_slice(b",\"");
            put_compressed(column, out);
            out.push(b'"');
        }
        out.extend_from_slice(b")</script>\n");
        *self = Block::default();
    }

    /// Returns the average duration of a tick in the block, in nanoseconds; 1 if it is not known.
    fn rate(&self) -> f64 {
        let Some((first, last)) = self.moments.first().zip(self.moments.last()) else { return 1.0 };
        let ticks = last.ticks.saturating_sub(first.ticks) as f64;
        if ticks > 0.0 { (last.time - first.time) as f64 / ticks } else { 1.0 }
    }

    /// Returns four columns: the lowest bytes of the changes of ticks, the other bytes of these changes, the times, and
    /// the wall times. `rate` predicts times from ticks.
    fn times(&self, first: Moment, rate: f64) -> [Vec<u8>; 4] {
        let [mut low_ticks, mut ticks, mut times, mut walls] = [(); 4].map(|()| Vec::new());
        let (mut last, mut last_error, mut last_distance) = (first.ticks, 0, 0);
        for moment in &self.moments {
            let change = zigzag(moment.ticks.wrapping_sub(last) as i64);
            low_ticks.push(change as u8);
            put_varint(change >> 8, &mut ticks);
            last = moment.ticks;
            let expected = (moment.ticks.wrapping_sub(first.ticks) as i64 as f64 * rate).floor() as i64;
            let error = moment.time.wrapping_sub(first.time).wrapping_sub(expected);
            put_signed(error.wrapping_sub(last_error), &mut times);
            last_error = error;
            let passed = moment.time.wrapping_sub(first.time);
            let distance = (moment.wall.wrapping_sub(first.wall) as i64).wrapping_sub(passed);
            put_signed(distance.wrapping_sub(last_distance), &mut walls);
            last_distance = distance;
        }
        [low_ticks, ticks, times, walls]
    }

    /// Returns the column of the numbers in texts: for each template, and each position of a number in the template,
    /// the numbers of all texts. The numbers are written either as they are or as changes from text to text, whichever
    /// is shorter. If there are at least [`MIN_CHANGES`] texts, a leading number says which form was chosen; otherwise
    /// the numbers are written as they are.
    fn number_column(&self) -> Vec<u8> {
        let mut templates: Vec<_> = self.numbers.iter().collect();
        templates.sort_unstable_by_key(|(entry, _)| **entry);
        let mut column = Vec::new();
        for (_, (places, numbers)) in templates {
            for place in 0..*places {
                let all = || numbers.iter().skip(place).step_by(*places);
                let (mut plain, mut changes, mut last) = (Vec::new(), Vec::new(), 0);
                for number in all() {
                    put_varint(*number, &mut plain);
                    put_signed(number.wrapping_sub(last) as i64, &mut changes);
                    last = *number;
                }
                let are_changes = changes.len() < plain.len();
                if numbers.len() >= MIN_CHANGES * places {
                    put_varint(are_changes.into(), &mut column);
                }
                let is_chosen = are_changes && numbers.len() >= MIN_CHANGES * places;
                column.extend_from_slice(if is_chosen { &changes } else { &plain });
            }
        }
        column
    }
}

/// Appends a number as a varint: seven bits in each byte, the lowest bits first.
pub(super) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be negative, as a varint in zigzag form.
pub(super) fn put_signed(number: i64, out: &mut Vec<u8>) {
    put_varint(zigzag(number), out);
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// Appends bytes, deflated and in base64.
pub(super) fn put_compressed(bytes: &[u8], out: &mut Vec<u8>) {
    put_base64(&deflated(bytes), out);
}

fn deflated(column: &[u8]) -> Vec<u8> {
    if column.is_empty() {
        return Vec::new();
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(LEVEL));
    // Writing to memory does not fail.
    let _ = encoder.write_all(column);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_take_one_byte() {
        let bytes = |number| {
            let mut out = Vec::new();
            put_signed(number, &mut out);
            out
        };
        assert_eq!((bytes(0), bytes(-1), bytes(1), bytes(-64)), (vec![0], vec![1], vec![2], vec![127]));
        assert_eq!(bytes(64), [0x80, 1]);
        assert_eq!(bytes(i64::MIN).len(), 10);
    }
}
