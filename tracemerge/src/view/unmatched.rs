//! Describes the existing records to a user whose pattern selects none of them: how many there are, what most of them
//! look like, and whether a similar pattern selects any.

use regex::bytes::Regex;
use trace_format::line::Kind;

use crate::file::record_text::RecordText;
use crate::input::inputs::{Inputs, Origin};
use crate::output::target::Target;
use crate::ui::console::Content;
use crate::ui::messages::{Grouped, are, count};
use crate::view::delivery::Delivery;
use crate::view::export::Export;
use crate::view::plan::Plan;
use crate::view::select::{Amount, Selection, compiled, searched_text};
use crate::view::shape::Shapes;

/// The maximum number of records that are read for the description.
const MOST_RECORDS: usize = 100_000;
/// The maximum number of bytes of a record that are compared with other records.
const COMPARED_BYTES: usize = 120;
/// The maximum number of characters of a record that are shown.
const SHOWN_CHARS: usize = 60;
/// The maximum number of shapes of records that are listed.
const LISTED_SHAPES: usize = 3;

/// Returns a text that describes the planned records, of which the pattern of `selection` has selected none. The text
/// continues a sentence. Returns `None` if there is no pattern, or if the other conditions of the selection already
/// leave out all records.
#[must_use]
pub(crate) fn unmatched_in_words(
    inputs: &mut Inputs,
    plan: &mut Plan<'_>,
    selection: &Selection,
) -> Option<String> {
    let pattern = selection.pattern.as_ref()?;
    let (amount, sites) = (Amount::First(MOST_RECORDS), selection.sites.clone());
    let format = || -> Box<dyn Export> { Box::new(Unmatched::new(pattern, selection.invert)) };
    let delivery = Delivery {
        inputs,
        plan,
        selection: &Selection { pattern: None, invert: false, amount, sites },
        format: &format,
        target: &Target::Stdout,
        content: Content::Data,
        paged: false,
    };
    let mut text = Vec::new();
    delivery.write_into(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty())
}

/// A variant of the user's pattern, such as one that ignores case.
struct Reading {
    pattern: Regex,
    /// The number of records that the variant selects.
    selected: u64,
}

/// The format whose output is the text that [`unmatched_in_words`] returns.
struct Unmatched {
    readings: Vec<Reading>,
    /// Whether the user wants the records that do not match.
    invert: bool,
    shapes: Shapes,
    /// The number of records of each shape, by the id of the shape.
    counts: Vec<u64>,
    records: u64,
    /// The number of calls whose functions have no names in the records.
    unnamed_calls: u64,
    text: Vec<u8>,
}

impl Unmatched {
    fn new(pattern: &Regex, invert: bool) -> Unmatched {
        let text = pattern.as_str();
        let plain = regex::escape(text);
        let others = [format!("(?i){text}"), plain.clone(), format!("(?i){plain}")];
        let is_other = |reading: &&String| !invert && reading.as_str() != text;
        let readings = others.iter().filter(is_other).filter_map(|reading| compiled(reading).ok());
        let readings = readings.map(|pattern| Reading { pattern, selected: 0 }).collect();
        Unmatched {
            readings,
            invert,
            shapes: Shapes::default(),
            counts: Vec::new(),
            records: 0,
            unnamed_calls: 0,
            text: Vec::new(),
        }
    }

    fn in_words(&self) -> String {
        let first = if self.records >= MOST_RECORDS as u64 { "the first " } else { "" };
        let all = format!("{first}{}", count(self.records, "record"));
        if self.invert && self.records > 0 {
            return format!("; the pattern matches {all}");
        }
        let mut parts = Vec::new();
        if let Some(other) = self.readings.iter().find(|reading| reading.selected > 0) {
            parts.push(format!("'{}' would fit {}", other.pattern.as_str(), Grouped(other.selected)));
        }
        let mut shapes: Vec<(u64, u32)> = self.counts.iter().copied().zip(0..).collect();
        shapes.sort_by_key(|(count, shape)| (std::cmp::Reverse(*count), *shape));
        let listed: Vec<String> = shapes
            .iter()
            .take(LISTED_SHAPES)
            .map(|(count, shape)| {
                format!(
                    "{} {} like '{}'",
                    Grouped(*count),
                    are(*count),
                    shown_shape(self.shapes.text(*shape))
                )
            })
            .collect();
        if let Some((last, others)) = listed.split_last() {
            let others = others.iter().map(|other| format!("{other}, ")).collect::<String>();
            parts.push(format!("of {all}, {others}{last}"));
        }
        if self.unnamed_calls > 0 {
            let calls = count(self.unnamed_calls, "call");
            parts.push(format!("--grep does not search the names of the functions of {calls}"));
        }
        parts.iter().map(|part| format!("; {part}")).collect()
    }
}

/// Returns a shape as it is shown: shortened so that it takes only a part of a line on a terminal.
fn shown_shape(shape: &[u8]) -> String {
    let text = String::from_utf8_lossy(shape);
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() { shown + "..." } else { shown }
}

impl Export for Unmatched {
    fn begin(&mut self, _origins: &[Origin], _out: &mut Vec<u8>) {}

    fn record(&mut self, _origin: &Origin, record: &RecordText<'_>, _out: &mut Vec<u8>) {
        if !record.is_traced() {
            return;
        }
        let Some(text) = searched_text(record, &mut self.text) else { return };
        self.records += 1;
        if matches!(record.kind, Kind::Enter | Kind::Leave) && text.starts_with(b"0x") {
            self.unnamed_calls += 1;
            return;
        }
        for reading in &mut self.readings {
            reading.selected += u64::from(reading.pattern.is_match(text));
        }
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let shape = self.shapes.of(&line[..line.len().min(COMPARED_BYTES)]) as usize;
        if shape >= self.counts.len() {
            self.counts.resize(shape + 1, 0);
        }
        self.counts[shape] += 1;
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.in_words().as_bytes());
    }
}
