//! The grammar of format strings: parser, writer, and the counting of arguments.
//!
//! The macros read a program's format strings with it at compile time, the renderer reads the strings that the
//! macros made of them at run time. The grammar is that of [`std::fmt`]; where its text says little, the
//! behaviour of the compiler's own parser (`rustc_parse_format`) was followed: white space is allowed before
//! `:` and before `}` only, `0$` is a width and no flag, any character before an alignment is a fill.
//!
//! It accepts a little more than the compiler does (identifiers of any letters, numbers of any size): the
//! compiler has seen, or will see, the same string.

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
    /// Takes a format string apart. Cost: one pass.
    ///
    /// # Errors
    /// Says where it breaks the grammar.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut parser = Parser { text, at: 0 };
        let mut pieces = Vec::new();
        let mut literal = String::new();
        while let Some(c) = parser.next() {
            if matches!(c, '{' | '}') && parser.take(c) {
                literal.push(c);
            } else if c == '{' {
                if !literal.is_empty() {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                }
                pieces.push(parser.argument()?);
            } else if c == '}' {
                return Err(TemplateError { at: parser.at - 1, reason: TemplateErrorReason::Unopened });
            } else {
                literal.push(c);
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Template { pieces })
    }

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

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn white_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn fail<T>(&self, reason: TemplateErrorReason) -> Result<T, TemplateError> {
        Err(TemplateError { at: self.at, reason })
    }

    /// What stands after a `{`, up to its `}`.
    fn argument(&mut self) -> Result<Piece, TemplateError> {
        let position = match self.number()? {
            Some(index) => Position::Index(index),
            None => match self.word()? {
                "" => Position::Next,
                name => Position::Name(name.to_owned()),
            },
        };
        self.white_space();
        let spec = if self.take(':') { self.spec()? } else { Spec::default() };
        self.white_space();
        if !self.take('}') {
            return self.fail(TemplateErrorReason::Unclosed);
        }
        Ok(Piece::Argument { position, spec })
    }

    fn spec(&mut self) -> Result<Spec, TemplateError> {
        let mut spec = Spec::default();
        let mut ahead = self.rest().chars();
        if let (Some(fill), Some('<' | '^' | '>')) = (ahead.next(), ahead.next()) {
            spec.fill = Some(fill);
            self.at += fill.len_utf8();
        }
        spec.align = match self.peek() {
            Some('<') => Some(Align::Left),
            Some('^') => Some(Align::Center),
            Some('>') => Some(Align::Right),
            _ => None,
        };
        self.at += usize::from(spec.align.is_some());
        if self.take('+') {
            spec.sign = Some(Sign::Plus);
        } else if self.take('-') {
            spec.sign = Some(Sign::Minus);
        }
        spec.alternate = self.take('#');
        // A lone `0$` is a width, and so no flag.
        if !self.rest().starts_with("0$") {
            spec.zero = self.take('0');
        }
        spec.width = self.count()?;
        if self.take('.') {
            spec.precision = if self.take('*') { Count::Star } else { self.count()? };
        }
        for (prefix, case) in [("x?", Case::Lower), ("X?", Case::Upper)] {
            if self.rest().starts_with(prefix) {
                spec.debug_hex = Some(case);
                self.at += 1;
            }
        }
        if self.take('?') {
            spec.by = Trait::Debug;
            return Ok(spec);
        }
        let start = self.at;
        let letter = self.word()?;
        match Trait::ALL.into_iter().find(|by| by.letter() == letter) {
            Some(by) => spec.by = by,
            None => return Err(TemplateError { at: start, reason: TemplateErrorReason::UnknownTrait }),
        }
        Ok(spec)
    }

    /// A number, `number$` or `name$`; a name without `$` is the trait's and left alone.
    fn count(&mut self) -> Result<Count, TemplateError> {
        if let Some(number) = self.number()? {
            return Ok(if self.take('$') { Count::Index(number) } else { Count::Is(number) });
        }
        let start = self.at;
        let name = self.word()?;
        if !name.is_empty() && self.take('$') {
            return Ok(Count::Name(name.to_owned()));
        }
        self.at = start;
        Ok(Count::None)
    }

    fn number(&mut self) -> Result<Option<usize>, TemplateError> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Ok(None);
        }
        match self.rest().get(..digits).unwrap_or("").parse() {
            Ok(number) => {
                self.at += digits;
                Ok(Some(number))
            }
            Err(_) => self.fail(TemplateErrorReason::TooLarge),
        }
    }

    /// An identifier, or nothing. Characters beyond ASCII are taken as letters: the compiler knows better.
    fn word(&mut self) -> Result<&'a str, TemplateError> {
        let letter = |c: char| c == '_' || c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace());
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_numeric()) {
            return Ok("");
        }
        let word = rest.get(..rest.find(|c| !letter(c)).unwrap_or(rest.len())).unwrap_or("");
        if word == "_" {
            return self.fail(TemplateErrorReason::NoName);
        }
        self.at += word.len();
        Ok(word)
    }
}

/// Writes a format string that [`Template::parse`] reads as the same template, if it came from there.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                Piece::Argument { position, spec } => {
                    f.write_str("{")?;
                    match position {
                        Position::Next => {}
                        Position::Index(index) => write!(f, "{index}")?,
                        Position::Name(name) => f.write_str(name)?,
                    }
                    if *spec != Spec::default() {
                        write!(f, ":{spec}")?;
                    }
                    f.write_str("}")?;
                }
            }
        }
        Ok(())
    }
}

/// What stands between `:` and `}`.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        if let Some(align) = self.align {
            self.fill.map_or(Ok(()), |fill| f.write_char(fill))?;
            f.write_str(match align {
                Align::Left => "<",
                Align::Center => "^",
                Align::Right => ">",
            })?;
        }
        f.write_str(match self.sign {
            None => "",
            Some(Sign::Plus) => "+",
            Some(Sign::Minus) => "-",
        })?;
        f.write_str(if self.alternate { "#" } else { "" })?;
        f.write_str(if self.zero { "0" } else { "" })?;
        self.width.fmt(f)?;
        if self.precision != Count::None {
            write!(f, ".{}", self.precision)?;
        }
        f.write_str(match self.debug_hex {
            None => "",
            Some(Case::Lower) => "x",
            Some(Case::Upper) => "X",
        })?;
        f.write_str(self.by.letter())
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Count::None => Ok(()),
            Count::Is(number) => write!(f, "{number}"),
            Count::Index(index) => write!(f, "{index}$"),
            Count::Name(name) => write!(f, "{name}$"),
            Count::Star => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests;
