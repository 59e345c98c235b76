//! The keys and values of a `#` line's payload.

use crate::escape::{EscapeContext, escape_into, unescape};

/// A writer of the payload of a `#` line, `word key=value ...`.
pub(crate) struct PayloadWriter<'a>(&'a mut Vec<u8>);

impl<'a> PayloadWriter<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, word: &str) -> PayloadWriter<'a> {
        out.extend_from_slice(word.as_bytes());
        PayloadWriter(out)
    }

    pub(crate) fn bare(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(b' ');
        self.0.extend_from_slice(key.as_bytes());
        self.0.push(b'=');
        self.0.extend_from_slice(value.as_bytes());
        self
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.bare(key, &value.to_string())
    }

    pub(super) fn address(&mut self, key: &str, value: u64) -> &mut Self {
        self.bare(key, &format!("{value:016x}"))
    }

    pub(crate) fn quoted(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.bare(key, "\"");
        escape_into(self.0, value, EscapeContext::Quoted);
        self.0.push(b'"');
        self
    }
}

/// A reader of the `key=value` part of a payload, which finds values by key. Payloads are short, so a search per
/// key is cheap.
pub(crate) struct PayloadReader<'a>(&'a [u8]);

/// Splits a payload into its first word and a reader of the keys and values after that word.
pub(crate) fn split(payload: &[u8]) -> Option<(&[u8], PayloadReader<'_>)> {
    let end = payload.iter().position(|&b| b == b' ').unwrap_or(payload.len());
    (end > 0).then(|| (&payload[..end], PayloadReader(&payload[end..])))
}

impl<'a> PayloadReader<'a> {
    /// Returns the raw value of `key`, quotes included.
    pub(super) fn raw(&self, key: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let [b' ', after @ ..] = rest {
            let equals = after.iter().position(|&b| b == b'=')?;
            let (name, value) = (&after[..equals], &after[equals + 1..]);
            let len = match value {
                [b'"', text @ ..] => text.iter().position(|&b| b == b'"')? + 2,
                _ => value.iter().position(|&b| b == b' ').unwrap_or(value.len()),
            };
            if name == key.as_bytes() {
                return Some(&value[..len]);
            }
            rest = &value[len..];
        }
        None
    }

    pub(crate) fn bare(&self, key: &str) -> Option<&'a [u8]> {
        self.raw(key).filter(|value| value.first() != Some(&b'"'))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bare(key)?).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn hex(&self, key: &str) -> Option<u32> {
        let text = self.text(key)?;
        (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok())?
    }

    /// Returns the value of `key`, which must have 16 hex digits in lower case.
    pub(super) fn address(&self, key: &str) -> Option<u64> {
        let digits = self.bare(key)?;
        let value =
            digits.iter().try_fold(0, |value, digit| Some(value << 4 | u64::from(digit_of(*digit)?)))?;
        (digits.len() == 16).then_some(value)
    }

    /// Returns the value of `key` as bytes; it must consist of pairs of hex digits in lower case. An empty value
    /// gives no bytes.
    pub(super) fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let byte = |pair: &[u8]| Some(digit_of(pair[0])? << 4 | digit_of(*pair.get(1)?)?);
        self.bare(key)?.chunks(2).map(byte).collect()
    }

    pub(crate) fn string(&self, key: &str) -> Option<Vec<u8>> {
        match self.raw(key)? {
            [b'"', text @ .., b'"'] => Some(unescape(text)),
            _ => None,
        }
    }
}

/// Returns the value of a hex digit in lower case.
fn digit_of(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
