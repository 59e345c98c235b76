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
    /// The texts and placeholders, in order. A text never follows another one directly.
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
    /// `{}`, the next argument: placeholders without an index or a name take the arguments one after the other.
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
    /// The alignment of the value if it is shorter than the width.
    pub align: Option<Align>,
    /// The sign flag, `+` or `-`.
    pub sign: Option<Sign>,
    /// Whether the flag `#`, for the alternate form, is set.
    pub alternate: bool,
    /// Whether the flag `0` is set, which fills a number with zeros after its sign.
    pub zero: bool,
    /// The width: the least number of characters to print. It is never [`CountSpec::Star`].
    pub width: CountSpec,
    /// The precision, which follows the `.`.
    pub precision: CountSpec,
    /// The `x` or `X` of `{:x?}` and `{:X?}`; only with [`Trait::Debug`].
    pub debug_hex: Option<HexCase>,
    /// The trait that formats the argument.
    pub by: Trait,
}

/// The alignment of a value that is shorter than the width of its placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// The value is at the left, as with `{:<8}`.
    Left,
    /// The value is in the middle, as with `{:^8}`.
    Center,
    /// The value is at the right, as with `{:>8}`.
    Right,
}

/// The sign flag of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `+`: positive numbers get a sign, too.
    Plus,
    /// `-`: accepted, but std gives it no meaning.
    Minus,
}

/// The case of the hex digits that `{:x?}` or `{:X?}` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HexCase {
    /// Lower-case hex digits, as with `{:x?}`.
    Lower,
    /// Upper-case hex digits, as with `{:X?}`.
    Upper,
}

/// The width or the precision of a placeholder, as the format string gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountSpec {
    /// The placeholder does not state the width or precision.
    #[default]
    None,
    /// A number in the format string, as in `{:8}` or `{:.3}`.
    Is(usize),
    /// The value of the argument with this index, as in `{:1$}`.
    Index(usize),
    /// The value of the argument with this name, as in `{:name$}`.
    Name(String),
    /// The value of the next argument, as in `{:.*}`; the argument to format comes after that one. Only a precision can
    /// be given like this.
    Star,
}

/// The trait of [`std::fmt`] that formats an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trait {
    /// The trait `Display`, as in `{}`.
    #[default]
    Display,
    /// The trait `Debug`, as in `{:?}`.
    Debug,
    /// Lower-case hexadecimal, as in `{:x}`.
    LowerHex,
    /// Upper-case hexadecimal, as in `{:X}`.
    UpperHex,
    /// Octal, as in `{:o}`.
    Octal,
    /// Binary, as in `{:b}`.
    Binary,
    /// Scientific notation with a lower-case `e`, as in `{:e}`.
    LowerExp,
    /// Scientific notation with an upper-case `E`, as in `{:E}`.
    UpperExp,
    /// The address of a pointer, as in `{:p}`.
    Pointer,
}

impl Trait {
    /// All traits that a format string can name.
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
    /// The kind of mistake at the position `at`.
    pub reason: TemplateErrorReason,
}

/// A mistake in a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorReason {
    /// A placeholder is not closed: its `}` is missing at this position.
    Unclosed,
    /// A `}` has no `{` before it.
    Unopened,
    /// A letter or word is not the name of a trait.
    UnknownTrait,
    /// A number is beyond the range of `usize`.
    TooLarge,
    /// `_` is used as the name of an argument, which is not allowed.
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
    /// that `format_args!` gives it: first come the arguments without names, whose number is `positional`, then those
    /// with `names`. Appends a name that is not among `names` yet: that argument is a variable in the scope of the
    /// call.
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
