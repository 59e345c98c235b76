//! The normalized format string of a call, which its site keeps: each placeholder names a captured value by its number.

use trace_format::template::{CountSpec, Piece, Position, Spec, Template, Trait};

/// The way in which one argument is captured: the name of a type in `trace_format::capture::by`.
pub(crate) type By = &'static str;

/// A format string and the values that it takes.
#[derive(Debug, PartialEq)]
pub(crate) struct Normalized {
    /// The format string in which every placeholder names one captured value by its number.
    pub(crate) format: String,
    /// The captured values, for each the number of its argument and the way in which it is captured. An argument that
    /// is shown in two ways is captured twice, because its type may allow only one of them.
    pub(crate) values: Vec<(usize, By)>,
    /// The variables in the scope of the call that the format string names. They count as arguments after the given
    /// ones.
    pub(crate) implicit: Vec<String>,
}

impl Normalized {
    /// Returns the normalized format string; `None` if the compiler would not accept these arguments for the format
    /// string.
    pub(crate) fn new(format: &str, positional: usize, named: Vec<String>) -> Option<Normalized> {
        let mut template = Template::parse(format).ok()?;
        if template.pieces.iter().any(has_large_count) {
            return None;
        }
        let given = positional + named.len();
        let mut names = named;
        template.resolve(positional, &mut names);
        let implicit = names.split_off(given - positional);

        let mut values = Vec::new();
        for_each_argument(&mut template, |argument, by| {
            if !values.contains(&(*argument, by)) {
                values.push((*argument, by));
            }
        });
        values.sort_by_key(|(argument, _)| *argument);
        // Every given argument is used, and no other is.
        if !(0..given).all(|argument| values.iter().any(|value| value.0 == argument))
            || values.iter().any(|value| value.0 >= given + implicit.len())
        {
            return None;
        }
        for_each_argument(&mut template, |argument, by| {
            if let Some(number) = values.iter().position(|value| *value == (*argument, by)) {
                *argument = number;
            }
        });
        Some(Normalized { format: template.to_string(), values, implicit })
    }
}

/// Returns whether the width or precision of a piece is too large for some versions of the compiler.
fn has_large_count(piece: &Piece) -> bool {
    let is_large =
        |count: &CountSpec| matches!(count, CountSpec::Is(number) if *number > usize::from(u16::MAX));
    matches!(piece, Piece::Argument { spec, .. } if is_large(&spec.width) || is_large(&spec.precision))
}

/// Calls `see` for each reference to an argument in a resolved template, with the argument's number and the way in
/// which the argument has to be captured.
fn for_each_argument(template: &mut Template, mut see: impl FnMut(&mut usize, By)) {
    for piece in &mut template.pieces {
        let Piece::Argument { position, spec } = piece else { continue };
        let by = by(spec);
        if let Position::Index(argument) = position {
            see(argument, by);
        }
        for count in [&mut spec.width, &mut spec.precision] {
            if let CountSpec::Index(argument) = count {
                see(argument, "Count");
            }
        }
    }
}

fn by(spec: &Spec) -> By {
    let padded = spec.width != CountSpec::None || spec.fill.is_some() || spec.zero;
    match spec.by {
        Trait::Display if spec.precision != CountSpec::None => "PreciseDisplay",
        Trait::Display => "Display",
        Trait::Debug if padded => "PaddedDebug",
        Trait::Debug => "Debug",
        Trait::LowerHex => "LowerHex",
        Trait::UpperHex => "UpperHex",
        Trait::Octal => "Octal",
        Trait::Binary => "Binary",
        Trait::LowerExp => "LowerExp",
        Trait::UpperExp => "UpperExp",
        Trait::Pointer => "Pointer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(format: &str, positional: usize, named: &[&str]) -> Option<Normalized> {
        Normalized::new(format, positional, named.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn arguments_are_numbered_in_the_order_of_their_evaluation() {
        let call = normalized("{b} {} {a:?} {} {c:x} {b}", 2, &["a"]).unwrap();
        assert_eq!(call.format, "{3} {0} {2:?} {1} {4:x} {3}");
        let values = [(0, "Display"), (1, "Display"), (2, "Debug"), (3, "Display"), (4, "LowerHex")];
        assert_eq!(call.values, values);
        assert_eq!(call.implicit, ["b", "c"]);
    }

    #[test]
    fn an_argument_is_captured_once_for_each_way_it_is_shown() {
        let call = normalized("{0} {0:p} {0} {0:?} {0:5?} {0:#?} {1}", 2, &[]).unwrap();
        assert_eq!(call.format, "{0} {1:p} {0} {2:?} {3:5?} {2:#?} {4}");
        let ways = [(0, "Display"), (0, "Pointer"), (0, "Debug"), (0, "PaddedDebug"), (1, "Display")];
        assert_eq!(call.values, ways);
    }

    #[test]
    fn counts_are_arguments() {
        let call = normalized("{:>2$.*} {:w$?} {v:.3$} {v:v$}", 4, &["w"]).unwrap();
        assert_eq!(call.format, "{1:>2$.0$} {3:5$?} {6:.4$} {7:8$}");
        let counts = call.values.iter().filter(|value| value.1 == "Count").map(|value| value.0);
        assert_eq!(counts.collect::<Vec<_>>(), [0, 2, 3, 4, 5]);
    }

    #[test]
    fn calls_that_the_compiler_refuses_have_no_normalized_form() {
        for (format, positional, named) in [
            ("{", 0, &[][..]),
            ("{:y}", 1, &[]),
            ("{}", 0, &[]),
            ("{} {}", 1, &[]),
            ("{1}", 1, &[]),
            ("{:.*}", 1, &[]),
            ("", 1, &[]),
            ("{}", 2, &[]),
            ("", 0, &["a"]),
        ] {
            assert_eq!(normalized(format, positional, named), None, "{format}");
        }
    }
}
