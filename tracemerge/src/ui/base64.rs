//! The encoding base64 (RFC 4648), which writes bytes as letters and digits, for the HTML page of a trace and for the
//! clipboard of a terminal.

/// Appends `bytes` to `out`, encoded in base64.
pub(crate) fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |number: u32| DIGITS[(bits >> (18 - 6 * number)) as usize & 63];
        let digits = [digit(0), digit(1), digit(2), digit(3)];
        out.extend_from_slice(&digits[..part.len() + 1]);
        out.extend_from_slice(&b"=="[..3 - part.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            put_base64(bytes.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
