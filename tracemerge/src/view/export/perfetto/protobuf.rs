//! Encodes protocol buffers, as far as this program needs it: numbers, texts, and nested messages.

/// The wire type of varints. `FIXED_64` is the wire type of values of 64 bits, and `BYTES` that of texts and messages.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;

/// Returns the bits of a number in groups of seven, as in a varint: one group in each byte, the lowest bits first. The
/// last byte has only the highest bit. All bytes but the last have their top bit set, which says that another byte
/// follows.
#[inline]
fn varint_groups(number: u64) -> [u8; 10] {
    // Spreads the lowest 56 bits to groups of seven: moves the halves apart, then the quarters, then the eighths.
    let fours = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let twos = fours & 0x0000_3fff_0000_3fff | (fours & 0x0fff_c000_0fff_c000) << 2;
    let ones = twos & 0x007f_007f_007f_007f | (twos & 0x3f80_3f80_3f80_3f80) << 1;
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&(ones | 0x8080_8080_8080_8080).to_le_bytes());
    bytes[8] = (number >> 56) as u8 | 0x80;
    bytes[9] = (number >> 63) as u8;
    bytes
}

/// Returns the tag byte (number and wire type) of a field that is a number; `field` must be below 16.
#[inline]
pub(super) const fn tag_of_number(field: u64) -> u8 {
    (field << 3 | VARINT) as u8
}

/// Returns the tag byte (number and wire type) of a field that is a text or a message; `field` must be below 16.
#[inline]
pub(super) const fn tag_of_bytes(field: u64) -> u8 {
    (field << 3 | BYTES) as u8
}

/// A buffer on the stack for a few bytes. It is faster than a [`Vec`], which checks its capacity for each field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallBuffer {
    bytes: [u8; SmallBuffer::ROOM],
    length: usize,
}

impl SmallBuffer {
    /// The maximum number of bytes in the buffer.
    pub(super) const ROOM: usize = 32;
    /// The maximum number of bytes that [`SmallBuffer::push_buffer`] appends.
    const MAX_PUSHED_BYTES: usize = 16;

    /// Appends bytes.
    ///
    /// # Panics
    /// Panics if there is not enough room, which is a bug in the program.
    #[inline]
    pub(super) fn push<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.bytes[self.length..][..N].copy_from_slice(bytes);
        self.length += N;
    }

    /// Appends a number as a varint.
    #[inline]
    pub(super) fn push_varint(&mut self, number: u64) {
        let end = self.length + (number | 1).ilog2() as usize / 7 + 1;
        // Appending all bytes and truncating is faster than copying a variable number of bytes.
        self.push(&varint_groups(number));
        self.length = end;
        // No byte follows the last one.
        self.bytes[self.length - 1] &= 0x7f;
    }

    /// Appends a field that is a 64-bit float; `field` must be below 16.
    #[inline]
    pub(super) fn push_double(&mut self, field: u64, number: f64) {
        self.push(&[(field << 3 | FIXED_64) as u8]);
        self.push(&number.to_le_bytes());
    }

    /// Appends the bytes of another buffer.
    #[inline]
    pub(super) fn push_buffer(&mut self, other: &SmallBuffer) {
        self.bytes[self.length..][..Self::MAX_PUSHED_BYTES]
            .copy_from_slice(&other.bytes[..Self::MAX_PUSHED_BYTES]);
        self.length += other.length.min(Self::MAX_PUSHED_BYTES);
    }

    /// Sets the byte at the index `place` to a length: the number of bytes after it in the buffer, plus `more` for
    /// bytes that follow outside of the buffer.
    #[inline]
    pub(super) fn set_length(&mut self, place: usize, more: u8) {
        self.bytes[place] = (self.length - place - 1) as u8 + more;
    }

    /// Returns the bytes.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the bytes to `out`.
    #[inline]
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

#[inline]
fn put_varint(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        return out.push(number as u8);
    }
    let end = out.len() + number.ilog2() as usize / 7 + 1;
    // Appending all bytes and truncating is faster than copying a variable number of bytes.
    out.extend_from_slice(&varint_groups(number));
    out.truncate(end);
    // No byte follows the last one.
    if let Some(last) = out.last_mut() {
        *last &= 0x7f;
    }
}

/// Appends a field that is an unsigned number, a Boolean, or an enumeration value.
#[inline]
pub(super) fn put_number(field: u64, number: u64, out: &mut Vec<u8>) {
    put_varint(field << 3 | VARINT, out);
    put_varint(number, out);
}

/// Appends a field that is a signed number.
pub(super) fn put_signed(field: u64, number: i64, out: &mut Vec<u8>) {
    put_number(field, number as u64, out);
}

/// Appends a field that is a fixed-size unsigned number of 64 bits.
#[inline]
pub(super) fn put_fixed(field: u64, number: u64, out: &mut Vec<u8>) {
    put_varint(field << 3 | FIXED_64, out);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a text field.
pub(super) fn put_text(field: u64, text: &str, out: &mut Vec<u8>) {
    put_bytes(field, text.as_bytes(), out);
}

/// Appends a field that is a message, whose contents `write` appends.
#[inline]
pub(super) fn put_message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(field << 3 | BYTES, out);
    let start = out.len();
    // Most messages are short, and then no bytes must be moved when the length is known.
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
    } else {
        let mut bytes = Vec::new();
        put_varint(length as u64, &mut bytes);
        out.splice(start..=start, bytes);
    }
}

/// Appends a field that is a message, whose encoded contents are `bytes`.
#[inline]
pub(super) fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(field << 3 | BYTES, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a varint, and returns it with the bytes after it.
    fn read(bytes: &[u8]) -> (u64, &[u8]) {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end");
        let number = bytes[..=end].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
        (number, &bytes[end + 1..])
    }

    #[test]
    fn numbers_of_any_length_are_read_back() {
        for bits in 0..64 {
            for number in [1 << bits, (1 << bits) - 1, u64::MAX >> bits, 0x0123_4567_89ab_cdef >> bits] {
                let mut out = Vec::new();
                put_varint(number, &mut out);
                assert_eq!(read(&out), (number, &[][..]), "{number:#x}");
            }
        }
    }

    #[test]
    fn bytes_put_together_equal_those_put_one_by_one() {
        for number in [0, 1, 0x7f, 0x80, 1_795_000_000_000_000_000, u64::MAX] {
            let (mut common, mut few, mut out, mut expected) =
                (SmallBuffer::default(), SmallBuffer::default(), vec![7], vec![7]);
            common.push(&[tag_of_number(10)]);
            common.push_varint(number);
            few.push(&[tag_of_bytes(1), 0]);
            few.push_buffer(&common);
            few.set_length(1, 3);
            few.append_to(&mut out);
            out.extend_from_slice(b"abc");
            put_message(1, &mut expected, |out| {
                put_number(10, number, out);
                out.extend_from_slice(b"abc");
            });
            assert_eq!(out, expected, "{number:#x}");
        }
    }

    #[test]
    fn messages_of_any_length_are_length_prefixed() {
        for length in [0, 1, 127, 128, 1 << 14, (1 << 21) - 1, 1 << 21, 5_000_000] {
            let mut out = Vec::new();
            put_message(3, &mut out, |out| out.resize(out.len() + length, 7));
            put_number(1, u64::MAX, &mut out);
            let (tag, rest) = read(&out);
            let (told, rest) = read(rest);
            assert_eq!((tag, told), (3 << 3 | 2, length as u64));
            assert!(rest[..length].iter().all(|byte| *byte == 7));
            assert_eq!(read(&rest[length + 1..]).0, u64::MAX);
        }
    }
}
