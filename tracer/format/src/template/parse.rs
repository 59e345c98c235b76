//! The parser of format strings.

use super::{
    Align, CountSpec, HexCase, Piece, Position, Sign, Spec, Template, TemplateError, TemplateErrorReason,
    Trait,
};

impl Template {
    /// Parses a format string. Cost: one pass.
    ///
    /// # Errors
    /// The text violates the grammar at the position in the error.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let mut parser = TemplateParser { text, at: 0 };
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
}

struct TemplateParser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> TemplateParser<'a> {
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

    /// Reads the part of a placeholder after its `{`, up to its `}`.
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
        // `0$` is a width, and not a flag.
        if !self.rest().starts_with("0$") {
            spec.zero = self.take('0');
        }
        spec.width = self.count()?;
        if self.take('.') {
            spec.precision = if self.take('*') { CountSpec::Star } else { self.count()? };
        }
        for (prefix, case) in [("x?", HexCase::Lower), ("X?", HexCase::Upper)] {
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

    /// Reads a width or a precision: a number, `number$` or `name$`. Does not consume a name without `$`, because that
    /// is the letter of a trait.
    fn count(&mut self) -> Result<CountSpec, TemplateError> {
        if let Some(number) = self.number()? {
            return Ok(if self.take('$') { CountSpec::Index(number) } else { CountSpec::Is(number) });
        }
        let start = self.at;
        let name = self.word()?;
        if !name.is_empty() && self.take('$') {
            return Ok(CountSpec::Name(name.to_owned()));
        }
        self.at = start;
        Ok(CountSpec::None)
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

    /// Reads an identifier, which may be empty. Accepts all characters beyond ASCII as letters: the compiler checks
    /// them.
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
