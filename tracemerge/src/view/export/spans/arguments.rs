//! The arguments that timelines show for a slice of a span: the values of the span's fields, and the span that opened
//! it.

use std::borrow::Cow;

use crate::view::known_spans::{KnownSpans, Span};
use crate::view::values::Value;

/// The names of a slice's arguments that are not fields of the span. If a field has one of these names, its argument
/// gets the prefix `field `.
const OTHERS: [&str; 10] = [
    "span",
    "parent",
    "parent span",
    "at",
    "called from",
    "cut off",
    "goes on",
    "unwinding",
    "ended",
    "cancelled",
];

/// An argument of a slice: its name and its value.
pub(crate) type Argument<'a> = (Cow<'a, str>, Value<'a>);

/// Returns the values of a span's fields so far, and the name and the id of the span that opened it.
pub(crate) fn arguments<'a>(spans: &'a KnownSpans, span: &'a Span) -> Vec<Argument<'a>> {
    let mut arguments = fields_of(span.fields());
    if let Some(parent) = span.parent {
        arguments.extend(spans.names_of(span).1.map(|name| ("parent".into(), Value::Text(name.into()))));
        arguments.push(("parent span".into(), Value::Unsigned(parent.into())));
    }
    arguments
}

/// Returns the values of those fields of a span that got their first value only after the span's beginning.
pub(crate) fn later_fields(span: &Span) -> Vec<Argument<'_>> {
    let (first, later) = span.fields().split_at(span.first_fields());
    let known = fields_of(first);
    let mut later = fields_of(later.trim_start());
    later.retain(|(name, _)| known.iter().all(|(of, _)| of != name));
    later
}

/// Reads the values of fields from a text such as `path="/" size=3`. If a field has several values, the last one
/// counts.
fn fields_of(mut text: &str) -> Vec<Argument<'_>> {
    let mut fields: Vec<Argument<'_>> = Vec::new();
    while !text.is_empty() {
        // Only the field `message` has no name in the text.
        let (name, behind) = match name_at(text) {
            Some(name) => (name, &text[name.len() + 1..]),
            None => ("message", text),
        };
        let end = end_of_value(behind);
        let name = if OTHERS.contains(&name) { format!("field {name}").into() } else { Cow::from(name) };
        let value = value_of(&behind[..end]);
        match fields.iter_mut().find(|(of, _)| *of == name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
        text = behind[end..].trim_start();
    }
    fields
}

/// Returns the name of the field at the beginning of a text such as `size=3`; `None` if there is none.
fn name_at(text: &str) -> Option<&str> {
    let name = text.split_once('=')?.0;
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '.');
    (is_name && !name.is_empty()).then_some(name)
}

/// Returns the length in bytes of the value at the beginning of a text. A quoted value ends with its quotes, any other
/// value before the next field.
fn end_of_value(text: &str) -> usize {
    if text.starts_with('"') {
        let mut is_escaped = false;
        for (at, letter) in text.char_indices().skip(1) {
            match letter {
                '"' if !is_escaped => return at + 1,
                letter => is_escaped = letter == '\\' && !is_escaped,
            }
        }
        return text.len();
    }
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    spaces.into_iter().find(|at| name_at(&text[at + 1..]).is_some()).unwrap_or(text.len())
}

fn value_of(text: &str) -> Value<'_> {
    if let Some(quoted) = text.strip_prefix('"') {
        return Value::Text(unquoted(quoted.strip_suffix('"').unwrap_or(quoted)));
    }
    let is_number = text.trim_start_matches('-').starts_with(|letter: char| letter.is_ascii_digit());
    if let Ok(number) = text.parse() {
        Value::Unsigned(number)
    } else if let Ok(number) = text.parse() {
        Value::Signed(number)
    } else if let Ok(is_so) = text.parse() {
        Value::Bool(is_so)
    } else {
        match text.parse() {
            Ok(number) if is_number => Value::F64(number),
            _ => Value::Text(text.into()),
        }
    }
}

/// Removes the escapes of the `Debug` format from a text.
fn unquoted(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, escaped)) = rest.split_once('\\') {
        plain.push_str(before);
        let mut letters = escaped.chars();
        let letter = letters.next();
        rest = letters.as_str();
        let code = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let of_code = code.and_then(|(digits, behind)| {
            Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, behind))
        });
        match (letter, of_code) {
            (Some('u'), Some((letter, behind))) => {
                plain.push(letter);
                rest = behind;
            }
            (Some('n'), _) => plain.push('\n'),
            (Some('r'), _) => plain.push('\r'),
            (Some('t'), _) => plain.push('\t'),
            (Some('0'), _) => plain.push('\0'),
            (letter, _) => plain.extend(letter),
        }
    }
    plain.push_str(rest);
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_names_and_typed_values() {
        let text = r#"hello there path="/a \"b\"\u{e9}\n c=1" n=3 delta=-4 rate=0.5 ok=true who=Name { x: 1 } end span=7 n=8"#;
        let found: Vec<String> =
            fields_of(text).into_iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        let expected = [
            r#"message: Text("hello there")"#,
            r#"path: Text("/a \"b\"é\n c=1")"#,
            "n: Unsigned(8)",
            "delta: Signed(-4)",
            "rate: F64(0.5)",
            "ok: Bool(true)",
            r#"who: Text("Name { x: 1 } end")"#,
            "field span: Unsigned(7)",
        ];
        assert_eq!(found, expected);
        // A text that was cut off.
        let [(name, value)] = &fields_of("sql=\"select")[..] else { panic!("one field") };
        assert_eq!((&name[..], format!("{value:?}")), ("sql", r#"Text("select")"#.to_owned()));
    }
}
