//! The ranges of the numbers in messages: for each placeholder of a site's template, the least and the greatest number
//! that the site's messages have there.

use std::collections::HashMap;

use memchr::memmem;
use serde::Serialize;
use trace_format::sites::Site;
use trace_format::template::{Piece, Position, Template};

/// The numbers in the messages of one site, by the placeholders of the site's template.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    /// The text of the template before each placeholder, and after the last one.
    literals: Vec<String>,
    places: Vec<Place>,
}

/// A placeholder of a template, and the range of the numbers that messages have there.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    range: Option<(f64, f64)>,
    /// Whether the placeholder has had a value that is not a number.
    is_other: bool,
}

/// The range of the numbers that an argument has in the messages of a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ArgumentRange {
    /// The argument's name, or its index if it has none.
    pub name: String,
    /// The smallest number that was a value of the argument.
    pub min: f64,
    /// The greatest number that was a value of the argument.
    pub max: f64,
}

impl Arguments {
    /// Prepares the search for the arguments of a site's messages. Finds no arguments if two placeholders of
    /// the template are adjacent, because the end of the first one is ambiguous.
    #[must_use]
    pub(super) fn of(site: &Site) -> Arguments {
        let (mut literals, mut places) = (vec![String::new()], Vec::new());
        let pieces = Template::parse(&site.template).map(|template| template.pieces).unwrap_or_default();
        let mut next = 0;
        for piece in &pieces {
            match piece {
                Piece::Literal(text) => {
                    if let Some(last) = literals.last_mut() {
                        last.push_str(text);
                    }
                }
                Piece::Argument { position, .. } => {
                    let name = match position {
                        Position::Name(name) => name.clone(),
                        Position::Index(index) => name_of(site, *index),
                        Position::Next => {
                            next += 1;
                            name_of(site, next - 1)
                        }
                    };
                    places.push(Place { name, range: None, is_other: false });
                    literals.push(String::new());
                }
            }
        }
        let touch = literals.iter().skip(1).rev().skip(1).any(String::is_empty);
        if touch {
            places.clear();
        }
        Arguments { literals, places }
    }

    /// Adds the values in the text of a message to the ranges of the arguments.
    pub(super) fn take(&mut self, text: &str) {
        let Arguments { literals, places } = self;
        let Some(mut rest) = literals.first().and_then(|first| text.strip_prefix(first.as_str())) else {
            return;
        };
        let count = places.len();
        for (number, (place, behind)) in places.iter_mut().zip(literals.iter().skip(1)).enumerate() {
            // The last literal may also occur inside an argument, so it is searched for at the end.
            let end = if number + 1 == count {
                rest.len().checked_sub(behind.len()).filter(|_| rest.ends_with(behind.as_str()))
            } else {
                memmem::find(rest.as_bytes(), behind.as_bytes())
            };
            let Some(end) = end else { return };
            place.take(&rest[..end]);
            rest = &rest[end + behind.len()..];
        }
    }

    /// Returns the ranges of the arguments that were numbers in all messages.
    #[must_use]
    pub(super) fn ranges(&self) -> Vec<ArgumentRange> {
        let mut ranges: Vec<ArgumentRange> = Vec::new();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for place in self.places.iter().filter(|place| !place.is_other) {
            let Some((min, max)) = place.range else { continue };
            // A template may show an argument twice.
            if seen.insert(&place.name, ranges.len()).is_none() {
                ranges.push(ArgumentRange { name: place.name.clone(), min, max });
            }
        }
        ranges
    }
}

/// Returns the name of a captured value, or its index if it has none.
fn name_of(site: &Site, index: usize) -> String {
    site.names.get(index).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| index.to_string())
}

impl Place {
    fn take(&mut self, text: &str) {
        let Some(number) = number(text.trim()) else {
            self.is_other = true;
            return;
        };
        let (min, max) = self.range.unwrap_or((number, number));
        self.range = Some((min.min(number), max.max(number)));
    }
}

fn number(text: &str) -> Option<f64> {
    if let Some(hex) = text.strip_prefix("0x") {
        #[expect(clippy::cast_precision_loss, reason = "a range is shown with a few digits")]
        return u64::from_str_radix(hex, 16).ok().map(|number| number as f64);
    }
    let is_number = text.ends_with(|c: char| c.is_ascii_digit());
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(template: &str, names: &[&str], messages: &[&str]) -> Vec<(String, f64, f64)> {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let mut arguments = Arguments::of(&Site { template: template.to_owned(), names, ..Site::default() });
        messages.iter().for_each(|message| arguments.take(message));
        arguments.ranges().into_iter().map(|range| (range.name, range.min, range.max)).collect()
    }

    #[test]
    fn the_numbers_of_each_argument_have_a_range() {
        let messages = ["job 7 of host a: -1.5 ms (0x1f)", "job 9 of host 1: 30 ms (0x20)"];
        let found =
            ranges("job {} of host {host}: {:>4} ms ({:#x})", &["self.id", "took", "flags"], &messages);
        let named = |name: &str, min, max| (name.to_owned(), min, max);
        assert_eq!(
            found,
            [named("self.id", 7.0, 9.0), named("took", -1.5, 30.0), named("flags", 31.0, 32.0)]
        );
    }

    #[test]
    fn ambiguous_arguments_have_no_range() {
        assert_eq!(ranges("{}{}", &[], &["12"]), []);
        assert_eq!(ranges("{} {x", &[], &["12"]), []);
        assert_eq!(ranges("a {}", &[], &["b 1"]), []);
        assert_eq!(ranges("{}", &[], &["nan", "1"]), []);
        assert_eq!(ranges("{} and {0}", &["x"], &["1 and 1"]), [("x".to_owned(), 1.0, 1.0)]);
        assert_eq!(ranges("", &[], &["", "x"]), []);
    }
}
