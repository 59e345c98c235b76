//! The writer of format strings.

use std::fmt;

use super::{Align, CountSpec, HexCase, Piece, Position, Sign, Spec, Template};

/// Writes the template as a format string. [`Template::parse`] reads that string as the same template, if it has made
/// the template itself.
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

/// Writes the part of a placeholder between `:` and `}`.
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
        if self.precision != CountSpec::None {
            write!(f, ".{}", self.precision)?;
        }
        f.write_str(match self.debug_hex {
            None => "",
            Some(HexCase::Lower) => "x",
            Some(HexCase::Upper) => "X",
        })?;
        f.write_str(self.by.letter())
    }
}

impl fmt::Display for CountSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CountSpec::None => Ok(()),
            CountSpec::Is(number) => write!(f, "{number}"),
            CountSpec::Index(index) => write!(f, "{index}$"),
            CountSpec::Name(name) => write!(f, "{name}$"),
            CountSpec::Star => f.write_str("*"),
        }
    }
}
