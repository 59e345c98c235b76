//! Tests of whole messages: several arguments, literals of any length, texts that do not fit in a small page.

use super::values::{Draw, Drawn};
use super::{SitePlan, cases};
use crate::capture::tests::bytes_of;
use crate::capture::{Capture, by};
use crate::escape::{EscapeContext, escape_into};

/// A message that is put together piece by piece, as the bytes that a call captures and as the text that `format!`
/// makes.
#[derive(Default)]
struct DrawnMessage {
    format: String,
    descriptor: Vec<u8>,
    payload: Vec<u8>,
    expected: String,
}

impl DrawnMessage {
    fn literal(&mut self, text: &str) {
        self.format += &text.replace('{', "{{").replace('}', "}}");
        self.expected += text;
    }

    fn argument<By, T: Capture<By>>(&mut self, value: &T, place: &str, expected: &str) {
        self.format += place;
        T::describe(&mut self.descriptor);
        self.payload.extend(bytes_of::<By, T>(value));
        self.expected += expected;
    }

    /// Adds an argument of a random type, by `{}`, `{:?}`, `{:x}` or `{:p}`.
    fn any_argument(&mut self, draw: &mut Draw) {
        macro_rules! display {
            ($type:ty) => {{
                let value = <$type>::draw(draw);
                self.argument::<by::Display, _>(&value, "{}", &format!("{value}"));
            }};
        }
        macro_rules! digits {
            ($type:ty) => {{
                let value = <$type>::draw(draw);
                match draw.below(0..4) {
                    0 => self.argument::<by::LowerHex, _>(&value, "{:x}", &format!("{value:x}")),
                    1 => self.argument::<by::LowerHex, _>(&value, "{:#x}", &format!("{value:#x}")),
                    2 => self.argument::<by::Debug, _>(&value, "{:?}", &format!("{value:?}")),
                    _ => self.argument::<by::Display, _>(&value, "{}", &format!("{value}")),
                }
            }};
        }
        match draw.below(0..20) {
            0 => digits!(i8),
            1 => digits!(i16),
            2 => digits!(i32),
            3 => digits!(i64),
            4 => digits!(u8),
            5 => digits!(u16),
            6 => digits!(u32),
            7 => digits!(u64),
            8 => display!(f32),
            9 => display!(f64),
            10 => display!(bool),
            11 => display!(char),
            12 => display!(u128),
            13 => {
                let value = <*const u8>::draw(draw);
                self.argument::<by::Pointer, _>(&value, "{:p}", &format!("{value:p}"));
            }
            14 => {
                let value = f64::draw(draw);
                self.argument::<by::Debug, _>(&value, "{:?}", &format!("{value:?}"));
            }
            15 => {
                let value = f32::draw(draw);
                self.argument::<by::PaddedDebug, _>(&value, "{:^9?}", &format!("{value:^9?}"));
            }
            16 => {
                let value = f64::draw(draw);
                self.argument::<by::Display, _>(&value, "{:.2}", &format!("{value:.2}"));
            }
            17 => {
                let value = f32::draw(draw);
                self.argument::<by::Display, _>(&value, "{:.9}", &format!("{value:.9}"));
            }
            _ => display!(String),
        }
    }

    fn check(&self) {
        let plan = SitePlan::new(&self.format, &self.descriptor).unwrap();
        let mut out = b"before".to_vec();
        plan.render(&self.payload, &mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out[6..]), self.expected, "{}", self.format);
        // Whatever the room, text that is written without escapes is the same, and needs no
        // escapes.
        for room in [0, 20, 100, self.expected.len(), self.expected.len() + 200] {
            let mut page = vec![0xee; room];
            if let Some(length) = plan.write_plain(&self.payload, &mut page) {
                assert_eq!(String::from_utf8_lossy(&page[..length]), self.expected, "{}", self.format);
                let mut escaped = Vec::new();
                escape_into(&mut escaped, &page[..length], EscapeContext::Line);
                assert_eq!(String::from_utf8_lossy(&escaped), self.expected, "{}", self.format);
            }
        }
    }
}

#[test]
fn usual_messages_need_no_escape() {
    let descriptor = number_and_text();
    let payload = [bytes_of::<by::Display, _>(&1u64), bytes_of::<by::Display, _>("text")].concat();
    let written = |format: &str| {
        let mut page = [0; 200];
        let length = SitePlan::new(format, &descriptor).unwrap().write_plain(&payload, &mut page)?;
        Some(String::from_utf8(page[..length].to_vec()).unwrap())
    };
    assert_eq!(written("number {} and {}, 5 \u{b5}s").unwrap(), "number 1 and text, 5 \u{b5}s");
    for format in ["{} \n {}", "{} \\x4{}", "\x1b{} {}", "{} {:?}", "{1} {0}"] {
        assert_eq!(written(format), None, "{format:?}");
    }
}

fn number_and_text() -> Vec<u8> {
    let mut descriptor = Vec::new();
    <u64 as Capture<by::Display>>::describe(&mut descriptor);
    <&str as Capture<by::Display>>::describe(&mut descriptor);
    descriptor
}

#[test]
fn messages_of_many_pieces_are_as_format_prints_them() {
    let mut draw = Draw(2);
    for _ in 0..cases(20_000) {
        let mut message = DrawnMessage::default();
        for _ in 0..draw.below(0..6) {
            let text = String::draw(&mut draw);
            message.literal(&text);
            message.any_argument(&mut draw);
        }
        let text = String::draw(&mut draw);
        message.literal(&text);
        message.check();
    }
}

#[test]
fn more_arguments_than_usual_are_rendered() {
    let mut draw = Draw(3);
    for count in [15, 16, 17, 40, 300] {
        let mut message = DrawnMessage::default();
        (0..count).for_each(|_| message.any_argument(&mut draw));
        message.argument::<by::Debug, _>(&Some(1), "{:?}", "Some(1)");
        message.check();
    }
}

#[test]
fn literals_and_texts_of_every_length_are_whole() {
    let text: String = ('a'..='z').cycle().take(300).collect();
    // Miri would take half an hour for all of them.
    let (step, longest) = if cfg!(miri) { (37, 1000) } else { (1, 65_533) };
    for length in (0..=300).step_by(step).chain([longest]) {
        let mut message = DrawnMessage::default();
        let text = text.chars().cycle().take(length).collect::<String>();
        message.literal(&text);
        message.check();
        message.argument::<by::Display, _>(&text, "{}", &text);
        message.check();
        message.literal(&text);
        message.argument::<by::Display, _>(&-5i8, "{}", "-5");
        message.check();
    }
}

#[test]
fn an_argument_may_be_shown_twice_or_in_another_order() {
    let mut descriptor = Vec::new();
    <u8 as Capture<by::Display>>::describe(&mut descriptor);
    <&str as Capture<by::Display>>::describe(&mut descriptor);
    let payload = [bytes_of::<by::Display, _>(&7u8), bytes_of::<by::Display, _>("text")].concat();
    for (format, expected) in [
        ("{1} {0}", format!("{1} {0}", 7, "text")),
        ("{0} {0} {1:?} {0:x}", format!("{0} {0} {1:?} {0:x}", 7, "text")),
        ("{1}", "text".into()),
        ("{} {}", "7 text".into()),
        ("{} {} {0}", "7 text 7".into()),
    ] {
        let mut out = Vec::new();
        SitePlan::new(format, &descriptor).unwrap().render(&payload, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{format}");
    }
}
