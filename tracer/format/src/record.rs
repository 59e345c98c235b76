//! The binary record, which a traced thread writes into its ring.
//!
//! ```text
//!  63            32 31    16 15    8 7     0
//! +----------------+--------+-------+-------+
//! |      site      | length | flags | kind  |  word 0
//! +----------------+--------+-------+-------+
//! |                  ticks                  |  word 1
//! +-----------------------------------------+
//! |  payload: `length` bytes, then zero to  |  words 2..
//! |  seven bytes of no meaning              |
//! +-----------------------------------------+
//! ```
//!
//! Words are little-endian and 8-byte aligned. No record crosses the border of a block; the rest of a
//! block after its last record is skipped by a *pad*, the only kind that is a single word. A message that
//! does not fit in a block continues in another record, a *piece*: all its pieces have the ticks of the first,
//! all except the last have [`Flags::MORE`], all except the first have [`Flags::CONT`]. A piece never ends inside
//! a UTF-8 character, nor within [`LOOKAHEAD`](crate::escape::LOOKAHEAD) bytes after a backslash,
//! so each piece can be escaped alone. A message whose last piece is missing is torn.

use crate::line::Ticks;
use crate::{states, wait};

/// The number of bytes of a record before its payload.
pub const HEADER: usize = 16;
/// The alignment of records in bytes.
pub const ALIGN: usize = 8;
/// The longest payload of one record in bytes: its length fits the field in word 0 at any block size.
pub const MAX_PAYLOAD: usize = 0xffff;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A pad: the rest of the block has no records.
    Pad = 1,
    /// A message formatted by its thread.
    Message = 2,
    /// The captured arguments of a site, whose number is in word 0; [`crate::capture`] describes the payload. The
    /// record is always whole.
    Captured = 3,
    /// A function was entered: word 0 contains an address in the function, see [`Record::address`].
    Enter = 4,
    /// A function was left: word 0 contains the same address as the record of the entry. A hook may record 0 instead:
    /// then the call that was entered last is left.
    Leave = 5,
    /// A call stack: the payload is addresses, the innermost first. The stack belongs to the record before it if both
    /// have the same ticks.
    Stack = 6,
    /// The payload of a `#` line; only in raw files, see [`crate::raw`].
    Meta = 7,
    /// The entry of a site, which defines its number; only in raw files, see [`crate::raw`].
    Site = 8,
    /// The function or span of a site was entered, or left if [`Flags::LEAVE`] is set. The payload is the id of a span
    /// if [`Flags::ID`] is set, and empty otherwise.
    Scope = 9,
    /// An event of a lock or a condition: the payload is the text, see [`crate::locks`].
    Lock = 10,
    /// A wait of the thread because of the tracer, see [`crate::wait`]. No call has made the record, so it is not
    /// counted among the records.
    Wait = 11,
    /// A change of a thread's state that the kernel reports, see [`crate::states`]; only in raw files.
    State = 12,
    /// A record of a kind that only later versions know, with the usual header: [`Record::kind_number`] returns its
    /// number. In a raw file it is copied unchanged; in a ring it is not read, see [`RESERVED`].
    Other = 255,
}

impl RecordKind {
    /// Returns the kind with this number; `None` if no kind has this number.
    #[must_use]
    #[inline]
    pub const fn of(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::Pad,
            2 => RecordKind::Message,
            3 => RecordKind::Captured,
            4 => RecordKind::Enter,
            5 => RecordKind::Leave,
            6 => RecordKind::Stack,
            7 => RecordKind::Meta,
            8 => RecordKind::Site,
            9 => RecordKind::Scope,
            10 => RecordKind::Lock,
            11 => RecordKind::Wait,
            12 => RecordKind::State,
            number if *RESERVED.start() <= number && number <= *RESERVED.end() => RecordKind::Other,
            _ => return None,
        })
    }

    /// Returns whether a ring may contain records of this kind. False for pads, which fill blocks but are not read as
    /// records.
    #[must_use]
    const fn is_in_rings(self) -> bool {
        use RecordKind::{Meta, Other, Pad, Site, State};
        !matches!(self, Pad | Meta | Site | State | Other)
    }

    /// Returns whether calls of the tracer make records of this kind.
    #[must_use]
    const fn is_made(self) -> bool {
        self.is_in_rings() && !matches!(self, RecordKind::Wait)
    }

    /// Returns the flags that records of this kind may have.
    const fn flags(self) -> Flags {
        match self {
            RecordKind::Message => Flags::MORE.with(Flags::CONT),
            RecordKind::Stack => Flags::WHOLE,
            RecordKind::Scope => {
                Flags::LEAVE.with(Flags::ID).with(Flags::UNWINDING).with(Flags::ENDED).with(Flags::CANCELLED)
            }
            RecordKind::Wait => Flags(3),
            RecordKind::State => Flags(7),
            RecordKind::Other => Flags(u8::MAX),
            _ => Flags::NONE,
        }
    }
}

/// The numbers of kinds that later versions may write into a ring; they include some known kinds. If a program finds a
/// kind in this range that it does not know in rings, it leaves the ring to later versions. Any other unknown number,
/// including zero, is damage.
pub const RESERVED: std::ops::RangeInclusive<u8> = 7..=31;

/// Returns whether only a later version can have put a record of this kind into a ring.
fn is_reserved(kind: u8) -> bool {
    RESERVED.contains(&kind) && !RecordKind::of(kind).is_some_and(RecordKind::is_in_rings)
}

/// The flags of a record: a set of bits. The meaning of a bit may depend on the kind of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No flags, as of a message in one piece.
    pub const NONE: Flags = Flags(0);
    /// The flag of a piece that is not the last of its message.
    pub const MORE: Flags = Flags(1);
    /// The flag of a piece that is not the first of its message.
    pub const CONT: Flags = Flags(2);
    /// The flag of a [`RecordKind::Scope`] that is left.
    pub const LEAVE: Flags = Flags(4);
    /// The flag of a [`RecordKind::Scope`] that belongs to a span: its payload is the span's id.
    pub const ID: Flags = Flags(8);
    /// The flag of a scope that is left because a panic unwinds its thread's stack.
    pub const UNWINDING: Flags = Flags(16);
    /// The flag of a call stack that reaches the beginning of its thread.
    pub const WHOLE: Flags = Flags(32);
    /// The flag of a scope that is left and belongs to a span that has ended: it is not entered again.
    pub const ENDED: Flags = Flags(64);
    /// The flag of a scope that is left and belongs to a span that was cancelled before its end.
    pub const CANCELLED: Flags = Flags(128);
    /// The flag of a function that a compiler's hook records: the address is in the compiled function, whatever is
    /// inlined there. It has the same bit as [`Flags::MORE`], which only messages have.
    pub const HOOK: Flags = Flags(1);

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns those of the flags of a [`RecordKind::Scope`] that its `>` or `<` line shows.
    #[must_use]
    pub const fn of_calls(self) -> Flags {
        Flags(self.0 & (Flags::UNWINDING.0 | Flags::ENDED.0 | Flags::CANCELLED.0))
    }

    /// Returns the union of both sets of flags.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The word that fills the rest of a block: a record of the kind `RecordKind::Pad`.
pub const PAD_WORD: u64 = RecordKind::Pad as u64;

/// Returns word 0 of a message piece. `len` must be at most [`MAX_PAYLOAD`].
#[must_use]
#[inline]
pub const fn message_word(site: u32, flags: Flags, len: usize) -> u64 {
    debug_assert!(len <= MAX_PAYLOAD);
    (site as u64) << 32
        | ((len & MAX_PAYLOAD) as u64) << 16
        | (flags.0 as u64) << 8
        | RecordKind::Message as u64
}

/// Returns word 0 of captured arguments. `len` must be at most [`MAX_PAYLOAD`].
#[must_use]
#[inline]
pub const fn captured_word(site: u32, len: usize) -> u64 {
    debug_assert!(len <= MAX_PAYLOAD);
    (site as u64) << 32 | ((len & MAX_PAYLOAD) as u64) << 16 | RecordKind::Captured as u64
}

/// The number of bits of an address in a record, enough for all addresses of user space.
const ADDRESS_BITS: u32 = 54;
/// The number of the bit in word 0 that is set if a compiler's hook has recorded the function.
const HOOK_BIT: u32 = 62;
/// The number of the bit in word 0 that is set if a function is left because a panic unwinds the stack.
const UNWINDING_BIT: u32 = 63;

/// Returns word 0 of a `RecordKind::Enter`; `address` is an address in the function that was entered. Addresses of user
/// space have at most 54 bits unless the program has asked for larger ones.
#[must_use]
#[inline(always)]
pub const fn enter_word(address: u64) -> u64 {
    address_bits(address) | RecordKind::Enter as u64
}

/// Returns word 0 of a `RecordKind::Leave`; `address` is the address in the record of the function's entry. `unwinding`
/// is true if the function is left because a panic unwinds the stack.
#[must_use]
#[inline(always)]
pub const fn leave_word(address: u64, unwinding: bool) -> u64 {
    address_bits(address) | (unwinding as u64) << UNWINDING_BIT | RecordKind::Leave as u64
}

/// Returns word 0 of the record that a compiler's hook makes when the function that contains `address` is entered.
#[must_use]
#[inline(always)]
pub const fn hook_enter_word(address: u64) -> u64 {
    enter_word(address) | 1 << HOOK_BIT
}

/// Returns word 0 of the record that a compiler's hook makes when a function is left. `address` is the address in the
/// record of the entry, or 0 for the call that was entered last.
#[must_use]
#[inline(always)]
pub const fn hook_leave_word(address: u64) -> u64 {
    leave_word(address, false) | 1 << HOOK_BIT
}

#[inline(always)]
const fn address_bits(address: u64) -> u64 {
    (address & ((1 << ADDRESS_BITS) - 1)) << 8
}

/// Returns word 0 of a `RecordKind::Scope`: the function or span of a site was entered, or left if the flags contain
/// [`Flags::LEAVE`].
#[must_use]
#[inline(always)]
pub const fn scope_word(site: u32, flags: Flags) -> u64 {
    let len = if flags.has(Flags::ID) { 8 } else { 0 };
    (site as u64) << 32 | len << 16 | (flags.0 as u64) << 8 | RecordKind::Scope as u64
}

/// Returns word 0 of a call stack of `len` bytes, which must be at most [`MAX_PAYLOAD`].
#[must_use]
#[inline]
pub const fn stack_word(flags: Flags, len: usize) -> u64 {
    debug_assert!(len <= MAX_PAYLOAD);
    ((len & MAX_PAYLOAD) as u64) << 16 | (flags.0 as u64) << 8 | RecordKind::Stack as u64
}

/// Returns word 0 of a lock record whose text has `len` bytes, which must be at most [`MAX_PAYLOAD`].
#[must_use]
#[inline]
pub const fn lock_word(len: usize) -> u64 {
    debug_assert!(len <= MAX_PAYLOAD);
    ((len & MAX_PAYLOAD) as u64) << 16 | RecordKind::Lock as u64
}

/// Rounds a size or position in bytes up to the alignment of records.
#[must_use]
#[inline]
pub const fn aligned(bytes: u64) -> u64 {
    (bytes + (ALIGN as u64 - 1)) & !(ALIGN as u64 - 1)
}

/// A record as it was read from a ring or from a raw file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    word: u64,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The ticks of the record; all pieces of a message have the ticks of its beginning. The ticks have no meaning in a
    /// [`RecordKind::Site`].
    pub ticks: Ticks,
    /// The content of the record: the bytes after its header.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a record: `word` is its word 0, and `rest` are the bytes after that word. Returns `None` if the bytes are
    /// not a record.
    #[inline(always)]
    pub(crate) fn read(word: u64, rest: &'a [u8]) -> Option<Record<'a>> {
        let [kind, flags, ..] = word.to_le_bytes();
        let kind = RecordKind::of(kind).filter(|kind| *kind != RecordKind::Pad)?;
        let (ticks, rest) = rest.split_first_chunk::<8>()?;
        let ticks = Ticks(u64::from_le_bytes(*ticks));
        if matches!(kind, RecordKind::Enter | RecordKind::Leave) {
            return Some(Record { word, kind, ticks, payload: &[] });
        }
        let payload = rest.get(..usize::try_from(word >> 16 & MAX_PAYLOAD as u64).ok()?)?;
        let record = Record { word, kind, ticks, payload };
        let sound = match kind {
            RecordKind::Stack => payload.len() % ALIGN == 0,
            RecordKind::Wait => payload.len() == wait::PAYLOAD,
            RecordKind::State => payload.len() == states::PAYLOAD,
            RecordKind::Scope => payload.len() == if Flags(flags).has(Flags::ID) { 8 } else { 0 },
            _ => true,
        };
        (sound && flags & !kind.flags().0 == 0).then_some(record)
    }

    /// Returns the record of a function's entry or exit with this word 0 and these ticks; `None` if the word is that of
    /// a record of another kind.
    #[inline(always)]
    pub(crate) fn call(word: u64, ticks: Ticks) -> Option<Record<'static>> {
        let kind = match RecordKind::of(word as u8) {
            Some(kind @ (RecordKind::Enter | RecordKind::Leave)) => kind,
            _ => return None,
        };
        Some(Record { word, kind, ticks, payload: &[] })
    }

    /// Returns the payload as `N` words; `None` if the payload is shorter or longer.
    pub(crate) fn words<const N: usize>(&self) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(self.payload.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        (self.payload.len() == 8 * N).then_some(words)
    }

    /// Returns the number of the record's kind, which may be unknown.
    #[must_use]
    pub fn kind_number(&self) -> u8 {
        self.word.to_le_bytes()[0]
    }

    /// Returns the number of bytes of the record with its header, without the bytes that fill its last word.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        HEADER + self.payload.len()
    }

    /// Returns the number of the site of the record; 0 if it has none.
    #[must_use]
    #[inline(always)]
    pub fn site(&self) -> u32 {
        if self.has_address() { 0 } else { (self.word >> 32) as u32 }
    }

    /// Returns the flags of the record.
    #[must_use]
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        if self.has_address() {
            let flag = |bit, flag| if self.word >> bit & 1 == 0 { Flags::NONE } else { flag };
            return flag(HOOK_BIT, Flags::HOOK).with(flag(UNWINDING_BIT, Flags::UNWINDING));
        }
        Flags(self.word.to_le_bytes()[1])
    }

    /// Returns word 0 of the record.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.word
    }

    /// Returns whether word 0 has an address instead of flags, length and site.
    #[inline(always)]
    fn has_address(&self) -> bool {
        matches!(self.kind, RecordKind::Enter | RecordKind::Leave)
    }

    /// Returns the address in a [`RecordKind::Enter`] or [`RecordKind::Leave`].
    #[must_use]
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.word >> 8 & ((1 << ADDRESS_BITS) - 1)
    }

    /// Returns the addresses of a [`RecordKind::Stack`], the innermost first.
    pub fn stack(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.payload.chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        })
    }

    /// Returns the id of the span that a [`RecordKind::Scope`] belongs to, if it belongs to one.
    #[must_use]
    pub fn span(&self) -> Option<u64> {
        let id = self.payload.first_chunk().filter(|_| self.kind == RecordKind::Scope)?;
        Some(u64::from_le_bytes(*id))
    }

    /// Returns whether the record contains addresses, which mean nothing without the module table.
    #[must_use]
    #[inline(always)]
    pub fn needs_modules(&self) -> bool {
        self.has_address() || self.kind == RecordKind::Stack
    }

    /// Returns whether the ticks of the record have a meaning. Only a `RecordKind::Site`, which becomes no line, has
    /// none.
    #[must_use]
    pub fn has_ticks(&self) -> bool {
        self.kind != RecordKind::Site
    }

    /// Returns whether the record is counted as a record: a call of the tracer has made it. Of a message in several
    /// pieces, only the last piece is counted.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> bool {
        self.kind.is_made() && !(self.kind == RecordKind::Message && self.flags().has(Flags::MORE))
    }

    /// Returns whether a call of the tracer has made this record, and the record is not a later piece of a message.
    #[must_use]
    pub fn begins(&self) -> bool {
        self.kind.is_made() && !self.continues()
    }

    /// Returns whether this is a piece of a message other than the first.
    #[must_use]
    #[inline]
    pub fn continues(&self) -> bool {
        self.kind == RecordKind::Message && self.flags().has(Flags::CONT)
    }

    /// Returns whether this is a whole record, and not a piece of a longer message.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.kind != RecordKind::Message || self.flags() == Flags::NONE
    }
}

/// The committed records of a ring between two positions, in order.
///
/// The iterator reads only the given bytes and treats them as hostile: if it finds an impossible record, it skips the
/// rest of the block and counts the block in [`Records::damaged`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    /// The bytes from the position `pos` on, in two parts: up to the end of the ring's data, and from the beginning of
    /// that data on.
    parts: [&'a [u8]; 2],
    pos: u64,
    block: u64,
    damaged: u64,
    unknown: Option<u8>,
}

impl<'a> Records<'a> {
    /// Returns the records in `parts`; `pos` is the position of the first byte, and `block` is the number of bytes of a
    /// block, a power of two.
    #[must_use]
    pub fn new(parts: [&'a [u8]; 2], pos: u64, block: u64) -> Records<'a> {
        debug_assert!(block.is_power_of_two() && pos % ALIGN as u64 == 0);
        let parts = if parts[0].is_empty() { [parts[1], &[]] } else { parts };
        Records { parts, pos, block, damaged: 0, unknown: None }
    }

    /// Returns an iterator without records.
    #[must_use]
    pub fn empty(pos: u64, block: u64) -> Records<'a> {
        Records::new([&[], &[]], pos, block)
    }

    /// Returns the position after the last returned record.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Advances past the next records, and returns their bytes. Stops before a record that
    /// - is not whole,
    /// - begins after the end of the ring's data, where the bytes go on at the beginning of the ring,
    /// - would make the result longer than `room` bytes, or
    /// - is not wanted: `wanted` returns false for it.
    #[inline]
    pub(crate) fn take_whole(
        &mut self,
        room: usize,
        mut wanted: impl FnMut(&Record<'a>) -> bool,
    ) -> &'a [u8] {
        let first = self.parts[0];
        let room = room.min(first.len());
        let (pos, mut taken) = (self.pos, 0);
        // `first`, `pos` and `taken` are local variables, so the values that change stay in registers.
        while let Some((word, rest)) = first.get(taken..).and_then(|rest| rest.split_first_chunk::<8>()) {
            let border = self.block - ((pos + taken as u64) & (self.block - 1));
            let Some(record) = read_whole(u64::from_le_bytes(*word), rest, border) else { break };
            let end = taken + aligned(record.bytes() as u64) as usize;
            if end > room || !wanted(&record) {
                break;
            }
            taken = end;
        }
        self.skip(taken as u64);
        first.get(..taken).unwrap_or_default()
    }

    /// Returns the number of blocks whose rest was skipped because of an impossible record.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns the first kind in [`RESERVED`] that was found and is unknown in rings. [`Records::damaged`] counts the
    /// block with this record, too.
    #[must_use]
    pub fn unknown(&self) -> Option<u8> {
        self.unknown
    }

    /// Returns the next record if it is whole, without advancing. After `None`, further records may follow:
    /// after a pad, or a piece of a message.
    #[inline(always)]
    pub(crate) fn peek_whole(&self) -> Option<Record<'a>> {
        let (word, rest) = self.parts[0].split_first_chunk::<8>()?;
        read_whole(u64::from_le_bytes(*word), rest, self.bytes_to_border())
    }

    /// Returns the next record, without advancing.
    pub fn peek(&mut self) -> Option<Record<'a>> {
        loop {
            let (word, rest) = self.parts[0].split_first_chunk::<8>()?;
            let word = u64::from_le_bytes(*word);
            if word == PAD_WORD {
                self.skip_block();
                continue;
            }
            match read_here(word, rest, self.bytes_to_border()) {
                Some(record) => return Some(record),
                None => {
                    let kind = word.to_le_bytes()[0];
                    self.unknown = self.unknown.or_else(|| is_reserved(kind).then_some(kind));
                    self.damaged += 1;
                    self.skip_block();
                }
            }
        }
    }

    /// Advances past a record that [`peek`](Records::peek) returned.
    #[inline]
    pub fn advance(&mut self, record: &Record<'_>) {
        self.skip(aligned(record.bytes() as u64));
    }

    #[inline(always)]
    fn bytes_to_border(&self) -> u64 {
        // The block's length is a power of two, so this needs no division.
        self.block - (self.pos & (self.block - 1))
    }

    fn skip_block(&mut self) {
        self.skip(self.bytes_to_border());
    }

    #[inline]
    fn skip(&mut self, bytes: u64) {
        let [first, second] = self.parts;
        let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(first.len());
        self.pos += here as u64;
        self.parts[0] = &first[here..];
        if self.parts[0].is_empty() {
            self.parts = [second, &[]];
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let record = self.peek()?;
        self.advance(&record);
        Some(record)
    }
}

/// Reads a record from the bytes of a ring. `word` is word 0 of the record, and `rest` are the bytes after that word;
/// `border` is the number of bytes from the beginning of the record to the end of its block.
#[inline(always)]
fn read_here(word: u64, rest: &[u8], border: u64) -> Option<Record<'_>> {
    Record::read(word, rest).filter(|record| record.kind.is_in_rings() && record.bytes() as u64 <= border)
}

/// Reads a record as [`read_here`] does, but returns `None` also if the record is only a piece of a message.
#[inline(always)]
fn read_whole(word: u64, rest: &[u8], border: u64) -> Option<Record<'_>> {
    read_here(word, rest, border).filter(Record::is_whole)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lays messages out as a producer does: padded at borders, never across one.
    pub(crate) fn lay_out(messages: &[(u64, Flags, Vec<u8>)], block: usize) -> Vec<u8> {
        let mut out: Vec<u8> = Vec::new();
        for (ticks, flags, text) in messages {
            let room = block - out.len() % block;
            if HEADER + text.len() > room {
                out.extend_from_slice(&PAD_WORD.to_le_bytes());
                out.resize(out.len().next_multiple_of(block), 0xee);
            }
            out.extend_from_slice(&message_word(7, *flags, text.len()).to_le_bytes());
            out.extend_from_slice(&ticks.to_le_bytes());
            out.extend_from_slice(text);
            out.resize(out.len().next_multiple_of(ALIGN), 0xee);
        }
        out
    }

    proptest! {
        #[test]
        fn records_are_read_back_wherever_the_ring_wraps(
            texts in prop::collection::vec((any::<u64>(), 0u8..4, prop::collection::vec(any::<u8>(), 0..48)), 0..30),
            cut in 0usize..40,
        ) {
            let messages: Vec<_> = texts.into_iter().map(|(t, f, text)| (t, Flags(f), text)).collect();
            let bytes = lay_out(&messages, 64);
            let cut = (cut * 64).min(bytes.len());
            let mut records = Records::new([&bytes[..cut], &bytes[cut..]], 128, 64);
            for (ticks, flags, text) in &messages {
                let m = records.next().unwrap();
                prop_assert_eq!((m.ticks.0, m.flags(), m.payload, m.site()), (*ticks, *flags, &text[..], 7));
            }
            prop_assert_eq!(records.next(), None);
            prop_assert_eq!(records.damaged(), 0);
            prop_assert_eq!(records.position(), 128 + bytes.len() as u64);
        }

        #[test]
        fn hostile_bytes_are_read_without_panic(bytes: Vec<u8>, cut: usize, block in 4u32..10) {
            let cut = if bytes.is_empty() { 0 } else { cut % bytes.len() };
            let records = Records::new([&bytes[..cut], &bytes[cut..]], 0, 1 << block);
            prop_assert!(records.count() <= bytes.len() / ALIGN + 1);
        }
    }

    #[test]
    fn kinds_reserved_for_later_versions_are_distinguished_from_damage() {
        for kind in 0..=u8::MAX {
            let mut block = lay_out(&[(1, Flags::NONE, b"first".to_vec())], 64);
            // No kind has these flags, except the kinds that have an address in their place.
            block.extend_from_slice(&(u64::from(kind) | 0xff << 8).to_le_bytes());
            block.resize(64, 0);
            let mut records = Records::new([&block, &[]], 0, 64);
            let whole = records.by_ref().count();
            let unknown = [7, 8].contains(&kind) || (12..=31).contains(&kind);
            assert_eq!(whole, if kind == 4 || kind == 5 { 2 } else { 1 }, "{kind}");
            assert_eq!((records.unknown(), records.damaged()), (unknown.then_some(kind), 1), "{kind}");
        }
    }

    #[test]
    fn a_zeroed_block_is_damage_not_records() {
        let zeros = [0u8; 64];
        let mut records = Records::new([&zeros, &[]], 0, 32);
        assert_eq!(records.next(), None);
        assert_eq!((records.damaged(), records.position()), (2, 64));
    }
}
