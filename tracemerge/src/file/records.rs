//! Records on their way through a merge to a view: calls are stored as numbers, all other records as their lines.
//!
//! Each record takes 16 bytes. A call has the number of its *place*, the common part of the records of its entering and
//! its leaving: an address, or the text after `>` or `<` in a line. So a place is looked up only once for many calls.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use trace_format::function::{FunctionLine, FunctionName, FunctionPlace};
use trace_format::line::{Kind, Ticks};
use trace_format::record::Flags;

use crate::file::fast_map::FastMap;
use crate::file::record_text::RecordText;

/// Records in the order in which they were added; each comes from one of many sources.
#[derive(Debug)]
pub(crate) struct Records {
    /// A number that no other `Records` has, and that changes when the records are cleared.
    serial: u64,
    entries: Vec<Entry>,
    places: Vec<StoredPlace>,
    spans: Vec<SpanCall>,
    others: Vec<Other>,
    /// The texts of places, and the lines of records that are not calls, each followed by the record's captured values.
    bytes: Vec<u8>,
    /// A cache of the places in `by_address`: each element has an address with its flags, and the index of the place.
    /// The index of the element is a hash of the address and the flags.
    recent: Box<[(u64, u32); RECENT]>,
    by_address: FastMap<u64, u32>,
    by_text: FastMap<(u8, Box<[u8]>), u32>,
    /// A cache of the places in `by_text`, which is searched before the map: each element is the index of a place. The
    /// index of the element is a hash of the text.
    recent_texts: Box<[u32; RECENT]>,
    /// The source to which the places in `by_address`, `by_text` and `recent` belong.
    source: u32,
    /// A cache of the indices in `places` of places that came from other [`Records`]. Each element has the serial
    /// number of those records and, for each of their places, its index here. The element's own index is the serial
    /// number modulo `APPENDED`.
    appended: Vec<(u64, Vec<u32>)>,
}

/// A record in 16 bytes. Its field `what` is the kind of the record, and the index of its further data.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ticks: u64,
    /// The kind of the entry, in the lowest bits, and above them an index: of the place in `places` for a call, of the
    /// call in `spans` for a call that enters or leaves a span, or of the record in `others`.
    what: u32,
    source: u32,
}

// There is one for each record, so it must stay small.
const _: () = assert!(size_of::<Entry>() == 16);

/// The kind of an entry for entering a function; the constants up to `OTHER` are the other kinds.
const ENTER: u32 = 0;
const LEAVE: u32 = 1;
const ENTER_SPAN: u32 = 2;
const LEAVE_SPAN: u32 = 3;
const OTHER: u32 = 4;
const KIND_BITS: u32 = 3;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;

/// The number of elements of each cache of places, for addresses and for texts; a power of two.
const RECENT: usize = 1 << 9;
/// The number of other [`Records`] whose places are remembered, so that parts of these records can be appended in
/// turns. It is greater than the number of parts of one slice, and a power of two.
const APPENDED: usize = 1 << 8;
/// An empty element of `recent`. No record has this address: addresses in records have 54 bits.
const NOTHING: (u64, u32) = (u64::MAX, 0);
/// The maximum number of bytes of memory that a cleared list keeps for later records.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// The text before the number of a span in a line.
const SPAN: &[u8] = b"span=";

/// A place at which calls in the records of one source are entered and left.
#[derive(Clone, Debug)]
struct StoredPlace {
    source: u32,
    flags: Flags,
    key: PlaceKey,
}

#[derive(Clone, Debug)]
enum PlaceKey {
    Address(u64),
    Text(Range<usize>),
}

/// A place at which calls are entered and left, with the flags of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// An address in the function.
    Address(u64, Flags),
    /// The text of the place, which follows the number of the span in a line, or the kind if there is no span.
    Text(&'a [u8], Flags),
}

/// The record of entering or leaving a span: the index of the call's place, and the number of the span.
#[derive(Clone, Copy, Debug)]
struct SpanCall {
    place: u32,
    span: u64,
}

/// A record that is not a call.
#[derive(Clone, Debug)]
struct Other {
    start: usize,
    lines_end: usize,
    end: usize,
    line_count: u64,
    site: u32,
    kind: Kind,
    has_values: bool,
}

/// A call, in the form of a record among [`Records`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    records: &'a Records,
    /// The index of the call's place among the places of its `Records`.
    pub place: u32,
    /// The number of the span that the call enters or leaves; `None` if the call is not that of a span.
    pub span: Option<u64>,
}

impl<'a> Call<'a> {
    /// Returns the serial number of the [`Records`] that contain the call: its `place` is valid among these records
    /// only.
    #[inline]
    #[must_use]
    pub(crate) fn serial(&self) -> u64 {
        self.records.serial
    }

    /// Returns the place of the call.
    #[must_use]
    pub(crate) fn at(&self) -> Place<'a> {
        let StoredPlace { flags, key, .. } = &self.records.places[self.place as usize];
        match key {
            PlaceKey::Address(address) => Place::Address(*address, *flags),
            PlaceKey::Text(range) => Place::Text(&self.records.bytes[range.clone()], *flags),
        }
    }

    /// Appends the payload that the call's line has as text.
    pub(crate) fn write_payload(&self, out: &mut Vec<u8>) {
        let line = |place, flags| FunctionLine { place, span: self.span, flags };
        match self.at() {
            Place::Address(address, flags) => {
                line(FunctionPlace::Address(address, FunctionName::default()), flags).write(out);
            }
            Place::Text(text, flags) => {
                line(FunctionPlace::Site(FunctionName::default(), 0), flags).write(out);
                out.extend_from_slice(text);
            }
        }
    }
}

impl Default for Records {
    fn default() -> Records {
        Records {
            serial: next_serial(),
            entries: Vec::new(),
            places: Vec::new(),
            spans: Vec::new(),
            others: Vec::new(),
            bytes: Vec::new(),
            recent: Box::new([NOTHING; RECENT]),
            by_address: FastMap::default(),
            by_text: FastMap::default(),
            recent_texts: Box::new([u32::MAX; RECENT]),
            source: 0,
            appended: Vec::new(),
        }
    }
}

/// Returns a serial number that no `Records` has had before.
fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: each number is returned once, and it orders no other memory access.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[expect(clippy::cast_possible_truncation, reason = "records of one slice fit into memory, 16 bytes each")]
const fn number(of: usize) -> u32 {
    of as u32
}

impl Records {
    /// Removes all records, and keeps the memory for later ones unless it is large.
    pub(crate) fn clear(&mut self) {
        self.serial = next_serial();
        self.entries.clear();
        self.entries.shrink_to(MAX_KEPT_BYTES / size_of::<Entry>());
        self.places.clear();
        self.spans.clear();
        self.others.clear();
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT_BYTES);
        self.forget_places();
        self.appended.iter_mut().for_each(|(serial, _)| *serial = 0);
    }

    fn forget_places(&mut self) {
        // Sources of messages alone have no places, and change often. `recent` has only those that `by_address` has.
        if !self.by_address.is_empty() {
            self.recent.fill(NOTHING);
            self.by_address.clear();
        }
        self.by_text.clear();
    }

    /// Returns the number of records.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the ticks of the record with the index `at`.
    #[inline]
    #[must_use]
    pub(crate) fn ticks(&self, at: usize) -> u64 {
        self.entries[at].ticks
    }

    /// Returns the number of lines that the record with the index `at` has in its file.
    #[inline]
    #[must_use]
    pub(crate) fn lines(&self, at: usize) -> u64 {
        let what = self.entries[at].what;
        if what & KIND_MASK == OTHER { self.others[(what >> KIND_BITS) as usize].line_count } else { 1 }
    }

    /// Returns the number that distinguishes these records from others.
    #[must_use]
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the ticks of a call without a span, whether it is entered, and the number of its place; `None` if the
    /// record is not such a call.
    #[inline]
    #[must_use]
    pub(crate) fn plain_call(&self, at: usize) -> Option<(Ticks, bool, u32)> {
        let Entry { ticks, what, .. } = self.entries[at];
        let kind = what & KIND_MASK;
        matches!(kind, ENTER | LEAVE).then_some((Ticks(ticks), kind == ENTER, what >> KIND_BITS))
    }

    /// Returns the source and the payload of the record with the index `at`, if it is a `#` line.
    #[inline]
    #[must_use]
    pub(crate) fn meta(&self, at: usize) -> Option<(usize, &[u8])> {
        let what = self.entries[at].what;
        let is_meta =
            what & KIND_MASK == OTHER && self.others[(what >> KIND_BITS) as usize].kind == Kind::Meta;
        is_meta.then(|| {
            let record = self.get(at);
            (record.origin, record.payload())
        })
    }

    /// Sets the source to which the records belong that are added next.
    pub(crate) fn begin_source(&mut self, source: usize) {
        if self.source != number(source) {
            self.source = number(source);
            self.forget_places();
        }
    }

    /// Adds the record of entering or leaving a function, with an address in the function.
    #[inline]
    pub(crate) fn push_address(&mut self, ticks: Ticks, is_entered: bool, address: u64, flags: Flags) {
        let key = address << 8 | u64::from(flags.0);
        let index = hash(key);
        if self.recent[index].0 != key {
            self.recent[index] = (key, self.place_of_address(key, address, flags));
        }
        let place = self.recent[index].1;
        self.push(ticks.0, if is_entered { ENTER } else { LEAVE }, place);
    }

    #[cold]
    fn place_of_address(&mut self, key: u64, address: u64, flags: Flags) -> u32 {
        let (places, source) = (&mut self.places, self.source);
        *self.by_address.entry(key).or_insert_with(|| {
            places.push(StoredPlace { source, flags, key: PlaceKey::Address(address) });
            number(places.len() - 1)
        })
    }

    /// Adds the record of entering or leaving a function, with the text of its place; `flags` are the flags that are
    /// not in the text.
    pub(crate) fn push_text(
        &mut self,
        ticks: Ticks,
        is_entered: bool,
        text: &[u8],
        flags: Flags,
        span: Option<u64>,
    ) {
        let place = self.place_of_text(text, flags);
        let Some(span) = span else {
            return self.push(ticks.0, if is_entered { ENTER } else { LEAVE }, place);
        };
        self.spans.push(SpanCall { place, span });
        self.push(ticks.0, if is_entered { ENTER_SPAN } else { LEAVE_SPAN }, number(self.spans.len() - 1));
    }

    fn place_of_text(&mut self, text: &[u8], flags: Flags) -> u32 {
        let slot = slot_of(text);
        let place = self.recent_texts[slot];
        let is_it = self.places.get(place as usize).is_some_and(|known| match &known.key {
            PlaceKey::Text(range) => known.flags == flags && self.bytes[range.clone()] == *text,
            PlaceKey::Address(_) => false,
        });
        if is_it && self.places[place as usize].source == self.source {
            return place;
        }
        let key = (flags.0, text.into());
        let place = match self.by_text.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.new_place_of_text(text, flags);
                self.by_text.insert(key, place);
                place
            }
        };
        self.recent_texts[slot] = place;
        place
    }

    fn new_place_of_text(&mut self, text: &[u8], flags: Flags) -> u32 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        let key = PlaceKey::Text(start..self.bytes.len());
        self.places.push(StoredPlace { source: self.source, flags, key });
        number(self.places.len() - 1)
    }

    /// Adds a record; its source is the record's origin. If `with_calls` is true, a call in the form of a line is
    /// stored as numbers.
    pub(crate) fn push_record(&mut self, record: &RecordText<'_>, with_calls: bool) {
        self.begin_source(record.origin);
        if let Some(call) = record.call {
            return self.push_call(record.ticks, record.kind == Kind::Enter, &call);
        }
        if with_calls && matches!(record.kind, Kind::Enter | Kind::Leave) {
            if let Some((span, text)) = span_and_text(record.payload()) {
                return self.push_text(record.ticks, record.kind == Kind::Enter, text, Flags::NONE, span);
            }
        }
        self.push_lines(record);
    }

    /// Adds a record in the form of its lines. Its source is the one that was last set by
    /// [`begin_source`](Self::begin_source).
    pub(crate) fn push_lines(&mut self, record: &RecordText<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.lines);
        let lines_end = self.bytes.len();
        self.bytes.extend_from_slice(record.values.unwrap_or_default());
        self.others.push(Other {
            start,
            lines_end,
            end: self.bytes.len(),
            line_count: record.line_count,
            site: record.site,
            kind: record.kind,
            has_values: record.values.is_some(),
        });
        self.push(record.ticks.0, OTHER, number(self.others.len() - 1));
    }

    fn push_call(&mut self, ticks: Ticks, is_entered: bool, call: &Call<'_>) {
        match call.at() {
            Place::Address(address, flags) => self.push_address(ticks, is_entered, address, flags),
            Place::Text(text, flags) => self.push_text(ticks, is_entered, text, flags, call.span),
        }
    }

    #[inline]
    fn push(&mut self, ticks: u64, kind: u32, number: u32) {
        self.entries.push(Entry { ticks, what: number << KIND_BITS | kind, source: self.source });
    }

    /// Appends the records in `range` of `other`. The sources of `other` are renumbered: source 0 gets the number
    /// `first`, and the others get the following numbers.
    pub(crate) fn append(&mut self, other: &Records, range: Range<usize>, first: usize) {
        self.appended.resize_with(APPENDED, Default::default);
        let known = &mut self.appended[other.serial as usize % APPENDED];
        if known.0 != other.serial {
            known.0 = other.serial;
            known.1.clear();
        }
        // The places in the maps belong to one source.
        self.source = u32::MAX;
        for entry in &other.entries[range] {
            let at = (entry.what >> KIND_BITS) as usize;
            let what = match entry.what & KIND_MASK {
                kind @ (ENTER | LEAVE) => self.place_from(other, number(at), first) << KIND_BITS | kind,
                kind @ (ENTER_SPAN | LEAVE_SPAN) => {
                    let SpanCall { place, span } = other.spans[at];
                    let place = self.place_from(other, place, first);
                    self.spans.push(SpanCall { place, span });
                    number(self.spans.len() - 1) << KIND_BITS | kind
                }
                kind => {
                    let of = &other.others[at];
                    let moved = self.bytes.len();
                    self.bytes.extend_from_slice(&other.bytes[of.start..of.end]);
                    let to = |place: usize| place - of.start + moved;
                    let (start, lines_end, end) = (to(of.start), to(of.lines_end), to(of.end));
                    self.others.push(Other { start, lines_end, end, ..of.clone() });
                    number(self.others.len() - 1) << KIND_BITS | kind
                }
            };
            self.entries.push(Entry { ticks: entry.ticks, what, source: entry.source + number(first) });
        }
    }

    /// Returns the index in these records of the place that has the index `place` in `other`.
    #[inline]
    fn place_from(&mut self, other: &Records, place: u32, first: usize) -> u32 {
        match self.appended[other.serial as usize % APPENDED].1.get(place as usize) {
            Some(known) if *known != u32::MAX => *known,
            _ => self.new_place_from(other, place, first),
        }
    }

    #[cold]
    fn new_place_from(&mut self, other: &Records, place: u32, first: usize) -> u32 {
        let StoredPlace { source, flags, key } = other.places[place as usize].clone();
        let key = match key {
            PlaceKey::Text(range) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&other.bytes[range]);
                PlaceKey::Text(start..self.bytes.len())
            }
            key @ PlaceKey::Address(_) => key,
        };
        self.places.push(StoredPlace { source: source + number(first), flags, key });
        let here = number(self.places.len() - 1);
        let known = &mut self.appended[other.serial as usize % APPENDED].1;
        known.resize(known.len().max(place as usize + 1), u32::MAX);
        known[place as usize] = here;
        here
    }

    /// Returns the record with the index `at`; its origin is the number of its source.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self, at: usize) -> RecordText<'_> {
        let Entry { ticks, what, source } = self.entries[at];
        let (ticks, origin, at) = (Ticks(ticks), source as usize, (what >> KIND_BITS) as usize);
        let call = |kind, place, span| RecordText {
            origin,
            ticks,
            kind,
            lines: &[],
            line_count: 1,
            site: 0,
            values: None,
            call: Some(Call { records: self, place, span }),
        };
        match what & KIND_MASK {
            ENTER => call(Kind::Enter, number(at), None),
            LEAVE => call(Kind::Leave, number(at), None),
            of_span @ (ENTER_SPAN | LEAVE_SPAN) => {
                let SpanCall { place, span } = self.spans[at];
                call(if of_span == ENTER_SPAN { Kind::Enter } else { Kind::Leave }, place, Some(span))
            }
            _ => {
                let Other { start, lines_end, end, line_count, site, kind, has_values } = self.others[at];
                RecordText {
                    origin,
                    ticks,
                    kind,
                    lines: &self.bytes[start..lines_end],
                    line_count,
                    site,
                    values: has_values.then(|| &self.bytes[lines_end..end]),
                    call: None,
                }
            }
        }
    }

    /// Returns the records of a range, in order.
    pub(crate) fn each(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = RecordText<'_>> {
        range.map(|at| self.get(at))
    }

    /// Changes the ticks of all records from the index `start` on, in the records and in their lines. The new ticks
    /// must have the same order.
    pub(crate) fn change_ticks(
        &mut self,
        start: usize,
        change: impl Fn(u64) -> u64,
        change_lines: impl Fn(&[u8]) -> Vec<u8>,
    ) {
        for at in start..self.entries.len() {
            let Entry { ticks, what, .. } = &mut self.entries[at];
            *ticks = change(*ticks);
            if *what & KIND_MASK == OTHER {
                let other = &mut self.others[(*what >> KIND_BITS) as usize];
                let lines = change_lines(&self.bytes[other.start..other.lines_end]);
                let values = other.lines_end..other.end;
                let moved = self.bytes.len();
                self.bytes.extend_from_slice(&lines);
                other.start = moved;
                other.lines_end = self.bytes.len();
                self.bytes.extend_from_within(values);
                other.end = self.bytes.len();
            }
        }
    }

    /// Returns the approximate number of bytes that this number of records has as lines.
    #[must_use]
    pub(crate) fn bytes_of(records: usize) -> usize {
        /// The bytes in a line of a call: a key of 25 bytes, a kind and an address.
        const LINE: usize = 48;
        records * LINE
    }
}

/// Returns the index in `recent_texts` for a place with this text: a hash of its end. The texts of functions differ at
/// the end: in the position in the source, or in the lowest digits of an address.
#[inline]
fn slot_of(text: &[u8]) -> usize {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let (last, before) = match (text.last_chunk(), text.last_chunk::<16>()) {
        (Some(last), Some(both)) => (word(last), both.first_chunk().map_or(0, word)),
        (Some(last), None) => (word(last), text.first_chunk().map_or(0, word)),
        (None, _) => (text.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    hash(last ^ before.rotate_left(23) ^ (text.len() as u64) << 56)
}

/// Returns an index below [`RECENT`] for a word: its highest bits after a multiplication with the golden ratio, which
/// depend on all bits of the word (Fibonacci hashing; Knuth, "The Art of Computer Programming", volume 3, 6.4).
#[inline]
fn hash(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT.ilog2())) as usize
}

/// Separates the number of a span from the text after it; `None` if the payload is not that of a `>` or `<` line.
fn span_and_text(payload: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let Some(rest) = payload.strip_prefix(SPAN) else { return Some((None, payload)) };
    let end = memchr::memchr(b' ', rest)?;
    let span = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((Some(span), &rest[end + 1..]))
}
