//! Writes JSON: strings, numbers and values.

use std::io::Write;

use crate::view::values::Value;

/// Appends a string in JSON: escaped, and in quotes.
pub(crate) fn put_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    // Checks all bytes at once, because few texts have a byte that must be escaped.
    let is_odd = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !bytes.iter().fold(false, |any, &byte| any | is_odd(byte)) {
        out.extend_from_slice(bytes);
        return out.push(b'"');
    }
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..=0x1f => 0,
            _ => continue,
        };
        out.extend_from_slice(&bytes[done..at]);
        done = at + 1;
        match short {
            // Writing to memory does not fail.
            0 => drop(write!(out, "\\u{byte:04x}")),
            short => out.extend_from_slice(&[b'\\', short]),
        }
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// Appends a number in decimal digits.
pub(crate) fn put_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a value. Integers of more than 64 bits, and floats that are not finite numbers, become strings.
pub(crate) fn put_value(value: &Value<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match value {
        Value::Signed(number) if i64::try_from(*number).is_ok() => {
            if *number < 0 {
                out.push(b'-');
            }
            put_number(number.unsigned_abs() as u64, out);
            Ok(())
        }
        Value::Unsigned(number) if u64::try_from(*number).is_ok() => {
            put_number(*number as u64, out);
            Ok(())
        }
        Value::Signed(number) => write!(out, "\"{number}\""),
        Value::Unsigned(number) => write!(out, "\"{number}\""),
        Value::F32(number) if number.is_finite() => write!(out, "{number:?}"),
        Value::F64(number) if number.is_finite() => write!(out, "{number:?}"),
        Value::F32(number) => write!(out, "\"{number}\""),
        Value::F64(number) => write!(out, "\"{number}\""),
        Value::Bool(is_so) => write!(out, "{is_so}"),
        Value::Pointer(address) => write!(out, "\"{address:#x}\""),
        Value::Text(text) => {
            put_string(text, out);
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &Value<'_>) -> serde_json::Value {
        let mut out = Vec::new();
        put_value(value, &mut out);
        serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{value:?}: {error}"))
    }

    proptest! {
        #[test]
        fn written_json_is_read_back_by_another_parser(text: String, number: u64, signed: i64, float: f64) {
            prop_assert_eq!(written(&Value::Text(text[..].into())), serde_json::json!(text));
            prop_assert_eq!(written(&Value::Signed(signed.into())), serde_json::json!(signed));
            prop_assert_eq!(written(&Value::Unsigned(number.into())), serde_json::json!(number));
            if float.is_finite() {
                // The other reader may be off by one in the last place.
                let read = written(&Value::F64(float)).as_f64();
                prop_assert!(read.is_some_and(|read| (read - float).abs() <= float.abs() * 1e-15), "{float}");
            }
            let mut out = Vec::new();
            put_number(number, &mut out);
            prop_assert_eq!(String::from_utf8(out).ok(), Some(number.to_string()));
        }
    }

    #[test]
    fn values_that_json_numbers_cannot_hold_are_strings() {
        assert_eq!(written(&Value::F64(f64::NAN)), serde_json::json!("NaN"));
        assert_eq!(written(&Value::F32(f32::NEG_INFINITY)), serde_json::json!("-inf"));
        assert_eq!(written(&Value::Unsigned(u128::MAX)), serde_json::json!(u128::MAX.to_string()));
        assert_eq!(written(&Value::F32(0.1)), serde_json::json!(0.1));
        assert_eq!(written(&Value::Pointer(16)), serde_json::json!("0x10"));
    }
}
