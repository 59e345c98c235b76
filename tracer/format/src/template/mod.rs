//! The grammar of format strings: parser, writer, and the counting of arguments.
//!
//! The macros read a program's format strings with it at compile time, the renderer reads the strings that the
//! macros made of them at run time. The grammar is that of [`std::fmt`]; where its text says little, the
//! behaviour of the compiler's own parser (`rustc_parse_format`) was followed: white space is allowed before
//! `:` and before `}` only, `0$` is a width and no flag, any character before an alignment is a fill.
//!
//! It accepts a little more than the compiler does (identifiers of any letters, numbers of any size): the
//! compiler has seen, or will see, the same string.

mod parse;
mod write;

use std::fmt;

/// A format string, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Texts and arguments as they follow each other. No two literals stand side by side.
    pub pieces: Vec<Piece>,
}

/// A part of a format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself; `{{` and `}}` are single braces here.
    Literal(String),
    /// A place for an argument.
    Argument {
        /// Which one.
        position: Position,
        /// How it is to look.
        spec: Spec,
    },
}

/// Which argument is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// `{}`: the next one that no other place without a number has taken.
    Next,
    /// `{0}`
    Index(usize),
    /// `{name}`
    Name(String),
}

/// How an argument is to look: what follows the `:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The character that fills up to the width. Only where there is an alignment; else it is not written.
    pub fill: Option<char>,
    /// Where the value stands in its width.
    pub align: Option<Align>,
    /// `+` or `-`.
    pub sign: Option<Sign>,
    /// `#`
    pub alternate: bool,
    /// `0`
    pub zero: bool,
    /// The least number of characters. Never [`Count::Star`].
    pub width: Count,
    /// What follows the `.`.
    pub precision: Count,
    /// The `x` or `X` of `{:x?}` and `{:X?}`; only with [`Trait::Debug`].
    pub debug_hex: Option<Case>,
    /// The trait that formats it.
    pub by: Trait,
}

/// Where a value stands in its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// `<`
    Left,
    /// `^`
    Center,
    /// `>`
    Right,
}

/// A sign flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// `+`
    Plus,
    /// `-`, which std gives no meaning.
    Minus,
}

/// The case of hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `x`
    Lower,
    /// `X`
    Upper,
}

/// A width or precision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Count {
    /// There is none.
    #[default]
    None,
    /// A number in the format string.
    Is(usize),
    /// `1$`: the value of an argument.
    Index(usize),
    /// `name$`: the value of an argument.
    Name(String),
    /// `.*`: the value of the next argument, taken before the one that is formatted. Precision only.
    Star,
}

/// The trait of [`std::fmt`] that formats an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trait {
    /// Nothing, as in `{}`.
    #[default]
    Display,
    /// `?`
    Debug,
    /// `x`
    LowerHex,
    /// `X`
    UpperHex,
    /// `o`
    Octal,
    /// `b`
    Binary,
    /// `e`
    LowerExp,
    /// `E`
    UpperExp,
    /// `p`
    Pointer,
}

impl Trait {
    /// All of them.
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

    /// What stands for it in a format string.
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

/// Why a text is no format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Where in the text, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub reason: TemplateErrorReason,
}

/// What is wrong with a format string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateErrorReason {
    /// A `}` should stand here.
    Unclosed,
    /// A `}` without a `{`.
    Unopened,
    /// This names no trait.
    UnknownTrait,
    /// A number beyond all counting.
    TooLarge,
    /// `_` is no name.
    NoName,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.reason {
            TemplateErrorReason::Unclosed => "a '}' is expected",
            TemplateErrorReason::Unopened => "a '}' closes nothing",
            TemplateErrorReason::UnknownTrait => "there is no such format",
            TemplateErrorReason::TooLarge => "the number is too large",
            TemplateErrorReason::NoName => "'_' is no name",
        };
        write!(f, "not a format string: at byte {}, {what}", self.at)
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Replaces every [`Position::Next`], [`Position::Name`], [`Count::Name`] and [`Count::Star`] by the index
    /// that `format_args!` gives it: `positional` arguments come first, then those with `names`. A name that is
    /// not among them is appended: it is captured from the scope of the call.
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
            if spec.precision == Count::Star {
                spec.precision = Count::Index(take_next());
            }
            match position {
                Position::Next => *position = Position::Index(take_next()),
                Position::Name(name) => *position = Position::Index(index_of(name)),
                Position::Index(_) => {}
            }
            for count in [&mut spec.width, &mut spec.precision] {
                if let Count::Name(name) = count {
                    *count = Count::Index(index_of(name));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
