//! The grammar of format strings: parser, writer, and the numbering of arguments.
//!
//! At compile time, the macros read a program's format strings with this parser; later, the renderer reads the strings
//! that the macros have made from them. The grammar is that of [`std::fmt`]. Where the documentation of `std::fmt` is
//! not precise, this module follows the compiler's own parser (`rustc_parse_format`): white space is allowed only
//! before `:` and before `}`, `0$` is a width and not a flag, any character before an alignment is a fill.
//!
//! The parser accepts a little more than the compiler does (identifiers of any letters, numbers of any size):
//! the compiler also checks the same string.

mod parse;
mod write;

use std::fmt;

/// A parsed format string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The texts and arguments, in order. No literal directly follows another.
    pub pieces: Vec<Piece>,
}

/// A part of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself; `{{` and `}}` are single braces here.
    Literal(String),
    /// A placeholder for an argument, `{...}`.
    Argument {
        /// The argument that the placeholder refers to.
        position: Position,
        /// The format of the argument.
        spec: Spec,
    },
}

/// The argument that a placeholder refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// `{}`, the next argument that no earlier placeholder without an index or a name has taken.
    Next,
    /// `{0}`, the argument of this index.
    Index(usize),
    /// `{name}`, the argument of this name.
    Name(String),
}

/// The format of an argument: the part of its placeholder after the `:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The character that pads the value to the width. It has an effect only with an alignment; otherwise the writer
    /// omits it.
    pub fill: Option<char>,
    /// The position of the value in its width.
    pub align: Option<Align>,
    /// The sign flag, `+` or `-`.
    pub sign: Option<Sign>,
    /// Whether the flag `#` is set.
    pub alternate: bool,
    /// Whether the flag `0` is set.
    pub zero: bool,
    /// The least number of characters. It is never [`CountSpec::Star`].
    pub width: CountSpec,
    /// The precision, which follows the `.`.
    pub precision: CountSpec,
    /// The `x` or `X` of `{:x?}` and `{:X?}`; only with [`Trait::Debug`].
    pub debug_hex: Option<HexCase>,
    /// The trait that formats the argument.
    pub by: Trait,
}

/// The position of a value in its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// `<`, at the left.
    Left,
    /// `^`, in the middle.
    Center,
    /// `>`, at the right.
    Right,
}

/// The sign flag of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `+`, a sign also for positive numbers.
    Plus,
    /// `-`, which has no meaning in std.
    Minus,
}

/// The case of the hex digits that `{:x?}` or `{:X?}` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HexCase {
    /// `x`, lower case.
    Lower,
    /// `X`, upper case.
    Upper,
}

/// The width or the precision of a placeholder, as the format string gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountSpec {
    /// No width or precision.
    #[default]
    None,
    /// A number in the format string.
    Is(usize),
    /// `1$`, the value of an argument by its index.
    Index(usize),
    /// `name$`, the value of an argument by its name.
    Name(String),
    /// `.*`, the value of the next argument, which comes before the formatted one; only for a precision.
    Star,
}

/// The trait of [`std::fmt`] that formats an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trait {
    /// No letter, as in `{}`.
    #[default]
    Display,
    /// `?`, as in `{:?}`.
    Debug,
    /// `x`, as in `{:x}`.
    LowerHex,
    /// `X`, as in `{:X}`.
    UpperHex,
    /// `o`, as in `{:o}`.
    Octal,
    /// `b`, as in `{:b}`.
    Binary,
    /// `e`, as in `{:e}`.
    LowerExp,
    /// `E`, as in `{:E}`.
    UpperExp,
    /// `p`, as in `{:p}`.
    Pointer,
}

impl Trait {
    /// All traits.
    pub const ALL: [Trait; 9] = [
        Trait::Display,
        Trait::Debug,
        Trait::LowerHex,
        Trait::UpperHex,
        Trait::Octal,
        Trait::Binary,
        Trait::LowerExp,
        Trait::UpperExp,
        Trait::Pointer,
    ];

    /// Returns the letter that stands for the trait in a format string; empty for [`Trait::Display`].
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Trait::Display => "",
            Trait::Debug => "?",
            Trait::LowerHex => "x",
            Trait::UpperHex => "X",
            Trait::Octal => "o",
            Trait::Binary => "b",
            Trait::LowerExp => "e",
            Trait::UpperExp => "E",
            Trait::Pointer => "p",
        }
    }
}

/// The reason why a text is not a format string, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The position of the error in the text, in bytes.
    pub at: usize,
    /// The mistake at that position.
    pub reason: TemplateErrorReason,
}

/// A mistake in a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorReason {
    /// A `}` is missing at this position.
    Unclosed,
    /// A `}` has no `{` before it.
    Unopened,
    /// A letter or word is not the name of a trait.
    UnknownTrait,
    /// A number is beyond the range of `usize`.
    TooLarge,
    /// `_` is used as a name, which it cannot be.
    NoName,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            TemplateErrorReason::Unclosed => "a '}' is expected",
            TemplateErrorReason::Unopened => "a '}' has no matching '{'",
            TemplateErrorReason::UnknownTrait => "unknown format",
            TemplateErrorReason::TooLarge => "the number is too large",
            TemplateErrorReason::NoName => "'_' is not a name",
        };
        write!(f, "not a format string: at byte {}, {what}", self.at)
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Replaces every [`Position::Next`], [`Position::Name`], [`CountSpec::Name`] and [`CountSpec::Star`] by the index
    /// that `format_args!` gives it: `positional` arguments come first, then those with `names`. If a name is not among
    /// `names`, appends it to them: the argument is captured from the scope of the call.
    ///
    /// Indices are not checked against the number of arguments.
    pub fn resolve(&mut self, positional: usize, names: &mut Vec<String>) {
        let mut next = 0;
        let mut take_next = || {
            next += 1;
            next - 1
        };
        let mut index_of = |name: &str| {
            let known = names.iter().position(|n| n == name);
            positional
                + known.unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                })
        };
        for piece in &mut self.pieces {
            let Piece::Argument { position, spec } = piece else { continue };
            if spec.precision == CountSpec::Star {
                spec.precision = CountSpec::Index(take_next());
            }
            match position {
                Position::Next => *position = Position::Index(take_next()),
                Position::Name(name) => *position = Position::Index(index_of(name)),
                Position::Index(_) => {}
            }
            for count in [&mut spec.width, &mut spec.precision] {
                if let CountSpec::Name(name) = count {
                    *count = CountSpec::Index(index_of(name));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
