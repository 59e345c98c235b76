//! The binary record, as a traced thread writes it into its ring.
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
//! block after its last record is skipped by a *pad*, the one kind that is a single word. A message that
//! does not fit in a block goes on in another record, a *piece*: all its pieces have the ticks of the first,
//! all but the last have [`Flags::MORE`], all but the first have [`Flags::CONT`]. A piece never ends inside
//! a UTF-8 character of a `&str`, nor within [`LOOKAHEAD`](crate::escape::LOOKAHEAD) bytes after a backslash,
//! so each can be escaped by itself. A first piece without its last is a message that was torn.

use crate::line::Ticks;

/// The number of bytes before the payload.
pub const HEADER: usize = 16;
/// The alignment of records in bytes.
pub const ALIGN: usize = 8;
/// The longest payload of one record in bytes: its length fits its field at any block size.
pub const MAX_PAYLOAD: usize = 0xffff;

/// The kind of a record. Values of [`RESERVED`] that are not listed are kept for records to come: 4 and 5 for
/// entering and leaving a function (16 bytes, the address in the place of word 0's upper 56 bits), 6 for a
/// call stack, 9 for entering and leaving a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A pad: the rest of the block is empty.
    Pad = 1,
    /// A message formatted by its thread.
    Message = 2,
    /// The captured arguments of a site, whose number is in word 0; [`crate::capture`] describes the payload.
    /// It is always whole.
    Captured = 3,
    /// The payload of a `#` line; only in raw files, see [`crate::raw`].
    Meta = 7,
    /// The entry of a site, which says what its number means; only in raw files, see [`crate::raw`].
    Site = 8,
}

/// The kinds that a later version may write into a ring. A program that does not know such a record leaves
/// the ring to those that do; any other number that is no kind, zero among them, is damage.
pub const RESERVED: std::ops::RangeInclusive<u8> = 4..=9;

/// Flags of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The flags of a whole message: none.
    pub const NONE: Flags = Flags(0);
    /// The flag of a piece that is not the last of its message.
    pub const MORE: Flags = Flags(1);
    /// The flag of a piece that is not the first of its message.
    pub const CONT: Flags = Flags(2);

    /// Returns whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the flags of both sets.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The word that pads a block.
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

/// Rounds a size or position in bytes up to the alignment of records.
#[must_use]
#[inline]
pub const fn aligned(bytes: u64) -> u64 {
    (bytes + (ALIGN as u64 - 1)) & !(ALIGN as u64 - 1)
}

/// One piece of a message, or the captured arguments of one, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePiece<'a> {
    /// Whether `text` is captured arguments.
    pub captured: bool,
    /// The ticks when the message was begun.
    pub ticks: Ticks,
    /// The number of the site that made the message; 0 for free text.
    pub site: u32,
    /// The flags that say which piece of the message this is.
    pub flags: Flags,
    /// The text, not escaped; or the bytes of the arguments.
    pub text: &'a [u8],
}

/// The committed records of a ring between two positions, in order.
///
/// It reads only the bytes that it is given and treats them as hostile: an impossible record ends the
/// iteration of its block and is counted in [`Records::damaged`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    /// The bytes from `pos` on; the second part is that which follows after the ring's end wrapped to its
    /// start.
    parts: [&'a [u8]; 2],
    pos: u64,
    block: u64,
    damaged: u64,
    unknown: Option<u8>,
}

impl<'a> Records<'a> {
    /// Returns the records in `parts`, whose first byte has position `pos`, in blocks of `block` bytes (a
    /// power of two).
    #[must_use]
    pub fn new(parts: [&'a [u8]; 2], pos: u64, block: u64) -> Records<'a> {
        debug_assert!(block.is_power_of_two() && pos % ALIGN as u64 == 0);
        let parts = if parts[0].is_empty() { [parts[1], &[]] } else { parts };
        Records { parts, pos, block, damaged: 0, unknown: None }
    }

    /// Returns an iteration without records.
    #[must_use]
    pub fn empty(pos: u64, block: u64) -> Records<'a> {
        Records::new([&[], &[]], pos, block)
    }

    /// Returns the position after the last record that was returned.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Goes past the next records as long as they are whole messages that `wanted` takes, lie in one piece,
    /// and have at most `room` bytes together; returns their bytes.
    #[inline]
    pub(crate) fn take_whole(
        &mut self,
        room: usize,
        mut wanted: impl FnMut(&MessagePiece<'a>) -> bool,
    ) -> &'a [u8] {
        let first = self.parts[0];
        let room = room.min(first.len());
        let (pos, mut taken) = (self.pos, 0);
        // This is a local variable of its own, so the values that change stay in registers.
        while let Some((word, rest)) = first.get(taken..).and_then(|rest| rest.split_first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            let whole = is_whole(word);
            let border = self.block - ((pos + taken as u64) & (self.block - 1));
            let Some(message) = whole.then(|| read_message(word, rest, border)).flatten() else { break };
            let end = taken + HEADER + aligned(message.text.len() as u64) as usize;
            if end > room || !wanted(&message) {
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

    /// Returns the first kind of [`RESERVED`] that was met; its record is counted in [`Records::damaged`],
    /// too.
    #[must_use]
    pub fn unknown(&self) -> Option<u8> {
        self.unknown
    }

    /// Returns the next record if it is a whole message, without going on to it. After `None` there may still
    /// be one behind a pad, or a piece of one.
    #[inline(always)]
    pub(crate) fn peek_whole(&self) -> Option<MessagePiece<'a>> {
        let (word, rest) = self.parts[0].split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        if is_whole(word) { read_message(word, rest, self.to_border()) } else { None }
    }

    /// Returns the next piece, without going on to it.
    pub fn peek(&mut self) -> Option<MessagePiece<'a>> {
        loop {
            let (word, rest) = self.parts[0].split_first_chunk::<8>()?;
            let word = u64::from_le_bytes(*word);
            if word == PAD_WORD {
                self.skip_block();
                continue;
            }
            match read_message(word, rest, self.to_border()) {
                Some(message) => return Some(message),
                None => {
                    let kind = word.to_le_bytes()[0];
                    self.unknown = self.unknown.or_else(|| RESERVED.contains(&kind).then_some(kind));
                    self.damaged += 1;
                    self.skip_block();
                }
            }
        }
    }

    /// Goes past a piece that [`peek`](Records::peek) returned.
    #[inline]
    pub fn advance(&mut self, message: &MessagePiece<'_>) {
        self.skip(aligned((HEADER + message.text.len()) as u64));
    }

    #[inline(always)]
    fn to_border(&self) -> u64 {
        // The block's length is a power of two, so this needs no division.
        self.block - (self.pos & (self.block - 1))
    }

    fn skip_block(&mut self) {
        self.skip(self.to_border());
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
    type Item = MessagePiece<'a>;

    fn next(&mut self) -> Option<MessagePiece<'a>> {
        let message = self.peek()?;
        self.advance(&message);
        Some(message)
    }
}

/// Returns whether this is word 0 of a message that is one record.
#[inline(always)]
fn is_whole(word: u64) -> bool {
    word as u16 == RecordKind::Captured as u16 || word as u16 == RecordKind::Message as u16
}

/// Reads the message whose word 0 is `word`; `rest` follows the word, `border` is the distance to the block's
/// end in bytes.
#[inline(always)]
fn read_message(word: u64, rest: &[u8], border: u64) -> Option<MessagePiece<'_>> {
    let [kind, flags, ..] = word.to_le_bytes();
    let captured = kind == RecordKind::Captured as u8;
    let known = if captured { 0 } else { Flags::MORE.0 | Flags::CONT.0 };
    if !(captured || kind == RecordKind::Message as u8) || flags & !known != 0 {
        return None;
    }
    let len = usize::try_from(word >> 16 & MAX_PAYLOAD as u64).ok()?;
    let (ticks, payload) = rest.split_first_chunk::<8>()?;
    if (HEADER + len) as u64 > border {
        return None;
    }
    let site = u32::try_from(word >> 32).ok()?;
    Some(MessagePiece {
        captured,
        ticks: Ticks(u64::from_le_bytes(*ticks)),
        site,
        flags: Flags(flags),
        text: payload.get(..len)?,
    })
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
                prop_assert_eq!((m.ticks.0, m.flags, m.text, m.site), (*ticks, *flags, &text[..], 7));
            }
            prop_assert_eq!(records.next(), None);
            prop_assert_eq!(records.damaged(), 0);
            prop_assert_eq!(records.position(), 128 + bytes.len() as u64);
        }

        #[test]
        fn hostile_bytes_end_and_never_panic(bytes: Vec<u8>, cut: usize, block in 4u32..10) {
            let cut = if bytes.is_empty() { 0 } else { cut % bytes.len() };
            let records = Records::new([&bytes[..cut], &bytes[cut..]], 0, 1 << block);
            prop_assert!(records.count() <= bytes.len() / ALIGN + 1);
        }
    }

    #[test]
    fn a_kind_that_is_kept_for_later_versions_is_told_from_damage() {
        for kind in 0..=u8::MAX {
            let mut block = lay_out(&[(1, Flags::NONE, b"first".to_vec())], 64);
            block.extend_from_slice(&(u64::from(kind) | 0xff << 8).to_le_bytes());
            block.resize(64, 0xee);
            let mut records = Records::new([&block, &[]], 0, 64);
            assert_eq!(records.by_ref().count(), 1);
            let unknown = (4..=9).contains(&kind).then_some(kind);
            assert_eq!((records.unknown(), records.damaged()), (unknown, 1), "{kind}");
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
