//! The wire format of protocol buffers, as far as it is written here: numbers, texts, and messages in
//! messages.

/// The wire types of fields.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;

/// The most bytes that a varint takes.
const LONGEST: usize = 10;

/// Returns a varint in the first bytes, and how many these are.
#[inline]
fn varint(mut number: u64) -> ([u8; LONGEST], usize) {
    let (mut bytes, mut length) = ([0; LONGEST], 1);
    for byte in &mut bytes {
        if number < 0x80 {
            *byte = number as u8;
            break;
        }
        *byte = number as u8 | 0x80;
        number >>= 7;
        length += 1;
    }
    (bytes, length)
}

#[inline]
fn put_varint(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        return out.push(number as u8);
    }
    let (bytes, length) = varint(number);
    out.extend_from_slice(&bytes[..length]);
}

/// Appends a field that is an unsigned number, a truth value, or one of an enumeration.
pub fn put_number(field: u64, number: u64, out: &mut Vec<u8>) {
    put_varint(field << 3 | VARINT, out);
    put_varint(number, out);
}

/// Appends a field that is a signed number.
pub fn put_signed(field: u64, number: i64, out: &mut Vec<u8>) {
    put_number(field, number as u64, out);
}

/// Appends a field that is a float of 64 bits.
pub fn put_double(field: u64, number: f64, out: &mut Vec<u8>) {
    put_fixed(field, number.to_bits(), out);
}

/// Appends a field that is an unsigned number of 64 bits.
pub fn put_fixed(field: u64, number: u64, out: &mut Vec<u8>) {
    put_varint(field << 3 | FIXED_64, out);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a field that is a text.
pub fn put_text(field: u64, text: &str, out: &mut Vec<u8>) {
    put_bytes(field, text.as_bytes(), out);
}

/// Appends a field that is a message, which `write` appends.
pub fn put_message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(field << 3 | BYTES, out);
    let start = out.len();
    // Most messages are short: then nothing has to be moved when the length becomes known.
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
    } else {
        let (digits, count) = varint(length as u64);
        out.splice(start..=start, digits[..count].iter().copied());
    }
}

/// Appends a field that is a message of these bytes.
#[inline]
pub fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(field << 3 | BYTES, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a varint and what is behind it.
    fn read(bytes: &[u8]) -> (u64, &[u8]) {
        let end = bytes.iter().position(|byte| byte & 0x80 == 0).expect("an end");
        let number = bytes[..=end].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
        (number, &bytes[end + 1..])
    }

    #[test]
    fn messages_of_any_length_have_their_length_before_them() {
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
