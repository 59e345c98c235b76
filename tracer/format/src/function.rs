//! The payload of `>`, `<` and `^` lines: entered and left functions, and call stacks.
//!
//! ```text
//! > 0x55d5c0ffee00                        an address in the function
//! > my_crate::parse at src/parse.rs:88    a site
//! < unwinding 0x55d5c0ffee00              left because a panic unwinds the stack
//! > hook 0x55d5c0ffee00                   entered, from a compiler's hook: an address in the compiled function
//! < hook 0x0                              left, the call that was entered last
//! > span=17 my_crate::run at src/run.rs:5 entered by one of the site's spans
//! < span=17 ended my_crate::run at ...    left for the last time; `cancelled`: cancelled before its end
//! > my_crate::parse at src/parse.rs:88 site 12   a site, which shares its line with an earlier one
//! > site 12                               a site of which only the number is known
//! ^ 0x55d5c0ffee00 0x55d5c0ffed11 ...     a call stack, the innermost first; cut off if `...` follows
//! ```
//!
//! After an address there may be a name, as in the line of a site: readers that look up names write it there, and
//! the place of the call if that is known. In a stack, each address may have names in parentheses; inlined functions
//! come before the function into which they are inlined:
//!
//! ```text
//! > 0x55d5c0ffee00 my_crate::parse at src/parse.rs:88 called from src/main.rs:7
//! ^ 0x55d5c0ffee00 (my_crate::next at src/parse.rs:12) (my_crate::parse at src/parse.rs:88) 0x55d5c0ffed11 ...
//! ```
//!
//! [`escape_name`] turns any text into a form that may be part of such a name.

use crate::escape::{EscapeContext, escape_into};
use crate::record::{Flags, Record, RecordKind};
use crate::sites::Site;

/// The flags that the line of a function may show, each with its word in the line.
const FLAGS: [(Flags, &[u8]); 4] = [
    (Flags::UNWINDING, b"unwinding "),
    (Flags::ENDED, b"ended "),
    (Flags::CANCELLED, b"cancelled "),
    (Flags::HOOK, HOOK),
];
/// The text before an address that a compiler's hook has recorded.
pub(crate) const HOOK: &[u8] = b"hook ";
/// The text before the id of a span.
const SPAN: &[u8] = b"span=";
/// The text between the name of a function and its place in the source.
const AT: &[u8] = b" at ";
/// The text between the place of a function in the source and the place from which it was called.
const CALLED_FROM: &[u8] = b" called from ";
/// The text before the number of a site.
const SITE: &[u8] = b"site ";
/// The text after the addresses of a call stack whose outermost frames are missing.
const TRUNCATION_MARK: &[u8] = b" ...";

/// The place in the program that a `>` or `<` line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionPlace<'a> {
    /// An address in the function, and the name of the function if the line has it; otherwise an empty name.
    Address(u64, FunctionName<'a>),
    /// The function of a site, and the number of the site if it shares its source line with an earlier one; otherwise
    /// 0.
    Site(FunctionName<'a>, u32),
    /// The number of a site of which nothing else is known.
    Unknown(u32),
}

/// The name of a function, and its place in the source. The texts are escaped, as in a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionName<'a> {
    /// The name or path of the function; empty if it is not known.
    pub function: &'a [u8],
    /// The source file and the line, `src/parse.rs:88`; empty if they are not known.
    pub at: &'a [u8],
    /// The source file and the line of the call that has entered the function; empty if they are not known.
    pub called_from: &'a [u8],
}

impl<'a> FunctionName<'a> {
    /// Reads `function at file:line called from file:line`.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> FunctionName<'a> {
        let (text, called_from) = split_at_separator(text, CALLED_FROM);
        let (function, at) = split_at_separator(text, AT);
        FunctionName { function, at, called_from }
    }

    /// Returns whether neither the name nor a place of the function is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == FunctionName::default()
    }

    /// Appends the name in the form that [`FunctionName::parse`] reads. Its texts must be [escaped](escape_name).
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.function);
        for (before, text) in [(AT, self.at), (CALLED_FROM, self.called_from)] {
            if !text.is_empty() {
                out.extend_from_slice(before);
                out.extend_from_slice(text);
            }
        }
    }
}

/// Splits a text at the first `separator`; the second part is empty if there is none.
fn split_at_separator<'a>(text: &'a [u8], separator: &[u8]) -> (&'a [u8], &'a [u8]) {
    match text.windows(separator.len()).position(|bytes| bytes == separator) {
        Some(at) => (&text[..at], &text[at + separator.len()..]),
        None => (text, &[]),
    }
}

/// Appends a name or a place, escaped so that it can be part of a line. In addition to the bytes that are escaped
/// everywhere, this escapes spaces that would make the text look like a separator between name and place, and
/// unbalanced parentheses, which would end the name in a call stack.
pub fn escape_name(text: &str, out: &mut Vec<u8>) {
    let mut escaped = Vec::with_capacity(text.len());
    escape_into(&mut escaped, text.as_bytes(), EscapeContext::Line);
    let is_balanced = closing(&[&escaped[..], b")"].concat()) == Some(escaped.len());
    for (at, &byte) in escaped.iter().enumerate() {
        match byte {
            b' ' if is_separator(&escaped[..at], &escaped[at + 1..]) => out.extend_from_slice(b"\\x20"),
            b'(' if !is_balanced => out.extend_from_slice(b"\\x28"),
            b')' if !is_balanced => out.extend_from_slice(b"\\x29"),
            _ => out.push(byte),
        }
    }
}

/// Returns whether a reader could take the space between the texts `before` and `behind` for a part of a separator: of
/// ` at ` or ` called from `.
fn is_separator(before: &[u8], behind: &[u8]) -> bool {
    let is_at = behind.strip_prefix(b"at").is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b' '));
    is_at || (before.ends_with(b"called") && behind.starts_with(b"from"))
}

/// Returns the index of the closing parenthesis that matches an opening parenthesis directly before `text`.
fn closing(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    text.iter().position(|&byte| {
        let is_end = byte == b')' && depth == 0;
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_end
    })
}

/// The payload of a `>` or `<` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLine<'a> {
    /// The function that was entered or left.
    pub place: FunctionPlace<'a>,
    /// The id of the span, if there is one. It is unique in the run.
    pub span: Option<u64>,
    /// The flags that say how the function was recorded, and how it was left: [`Flags::HOOK`], [`Flags::UNWINDING`],
    /// [`Flags::ENDED`], [`Flags::CANCELLED`], if any.
    pub flags: Flags,
}

impl<'a> FunctionLine<'a> {
    /// Reads the payload of a line; `None` if it is not a payload of a `>` or `<` line.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<FunctionLine<'a>> {
        let mut rest = payload;
        let mut span = None;
        if let Some(text) = rest.strip_prefix(SPAN) {
            let end = text.iter().position(|&byte| byte == b' ')?;
            (span, rest) = (Some(std::str::from_utf8(&text[..end]).ok()?.parse().ok()?), &text[end + 1..]);
        }
        let mut flags = Flags::NONE;
        for (flag, word) in FLAGS {
            // The name of a site may begin like this, too; a hook always records an address.
            let is_it = |text: &&[u8]| flag != Flags::HOOK || text.starts_with(b"0x");
            if let Some(text) = rest.strip_prefix(word).filter(is_it) {
                (flags, rest) = (flags.with(flag), text);
            }
        }
        let place = if let Some((address, rest)) = take_address(rest) {
            FunctionPlace::Address(address, FunctionName::parse(rest.strip_prefix(b" ").unwrap_or(rest)))
        } else if let Some(number) = rest.strip_prefix(SITE).and_then(decimal) {
            FunctionPlace::Unknown(number)
        } else {
            let (name, number) = split_number(rest);
            FunctionPlace::Site(FunctionName::parse(name), number)
        };
        Some(FunctionLine { place, span, flags })
    }

    /// Appends the payload in the form that [`FunctionLine::parse`] reads. The texts of names must be
    /// [escaped](escape_name).
    pub fn write(&self, out: &mut Vec<u8>) {
        write_head(self.span, self.flags, out);
        match self.place {
            FunctionPlace::Address(address, named) => {
                write_address(address, out);
                if !named.is_empty() {
                    out.push(b' ');
                    named.write(out);
                }
            }
            FunctionPlace::Site(named, number) => {
                named.write(out);
                write_number(number, out);
            }
            FunctionPlace::Unknown(site) => write_unknown(site, out),
        }
    }
}

fn decimal(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Splits the address at the beginning of `text` from the rest; `None` if there is no address.
fn take_address(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"0x")?;
    let end = digits.iter().position(|&byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    if end == 0 || end > 16 || digits.get(end).is_some_and(|&byte| byte != b' ') {
        return None;
    }
    let value = digits[..end]
        .iter()
        .try_fold(0, |value: u64, digit| Some(value << 4 | u64::from(char::from(*digit).to_digit(16)?)))?;
    Some((value, &digits[end..]))
}

/// The payload of a `^` line: a call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine<'a> {
    /// The frames, the innermost first.
    pub frames: Vec<StackFrame<'a>>,
    /// Whether the stack is whole: its outermost frame is the first one of its thread.
    pub whole: bool,
}

/// A frame of a call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame<'a> {
    /// The return address.
    pub address: u64,
    /// The names of the functions at the address; inlined functions come before the function into which they are
    /// inlined.
    pub names: Vec<FunctionName<'a>>,
}

impl<'a> StackLine<'a> {
    /// Reads the payload of a `^` line; `None` if it is not such a payload.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<StackLine<'a>> {
        let whole = !(payload == b"..." || payload.ends_with(TRUNCATION_MARK));
        let mut rest = payload.strip_suffix(b"...").unwrap_or(payload);
        let mut frames = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                return Some(StackLine { frames, whole });
            }
            let (address, mut behind) = take_address(rest)?;
            let mut names = Vec::new();
            while let Some(text) = behind.strip_prefix(b" (") {
                let end = closing(text)?;
                names.push(FunctionName::parse(&text[..end]));
                behind = &text[end + 1..];
            }
            frames.push(StackFrame { address, names });
            rest = behind;
        }
    }

    /// Appends the payload in the form that [`StackLine::parse`] reads. The texts of names must be
    /// [escaped](escape_name).
    pub fn write(&self, out: &mut Vec<u8>) {
        for (at, frame) in self.frames.iter().enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            write_address(frame.address, out);
            for named in &frame.names {
                out.extend_from_slice(b" (");
                named.write(out);
                out.push(b')');
            }
        }
        write_stack_end(self.whole, self.frames.is_empty(), out);
    }
}

/// Appends the place of a site in the form of a `>` line: `my_crate::parse at src/parse.rs:88`, and the number of the
/// site if it shares its source line with an earlier site.
pub(crate) fn write_site(site: &Site, out: &mut Vec<u8>) {
    let function = if site.function.is_empty() { &site.module } else { &site.function };
    escape_name(function, out);
    out.extend_from_slice(AT);
    escape_name(&site.file, out);
    out.extend_from_slice(format!(":{}", site.line).as_bytes());
    write_number(if site.shares_line { site.id } else { 0 }, out);
}

/// Appends the number of a site after its place, unless the number is 0.
fn write_number(number: u32, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b' ');
        write_unknown(number, out);
    }
}

/// Splits a text into the place of a site and the number of the site after it, which [`write_number`] has appended; 0
/// if there is no number. A place itself never ends like that: it ends with a colon and a line number.
fn split_number(text: &[u8]) -> (&[u8], u32) {
    let start = text.iter().rposition(|&byte| byte == b' ').and_then(|space| space.checked_sub(SITE.len()));
    let split = start.map(|start| text.split_at(start));
    let numbered = split.and_then(|(place, rest)| {
        let number = decimal(rest.strip_prefix(b" ")?.strip_prefix(SITE)?)?;
        Some((place, number))
    });
    numbered.unwrap_or((text, 0))
}

/// Appends the payload of the `>`, `<` or `^` line of a record; `site` is the text of its site's place, if that is
/// known.
pub(crate) fn write(record: &Record<'_>, site: Option<&[u8]>, out: &mut Vec<u8>) {
    if record.kind == RecordKind::Stack {
        return write_stack(record, out);
    }
    write_head(record.span(), record.flags(), out);
    match site {
        _ if record.kind != RecordKind::Scope => write_address(record.address(), out),
        Some(place) => out.extend_from_slice(place),
        None => write_unknown(record.site(), out),
    }
}

/// Appends the beginning of a payload, before the function: the id of the span and the words of the flags.
fn write_head(span: Option<u64>, flags: Flags, out: &mut Vec<u8>) {
    if let Some(id) = span {
        out.extend_from_slice(SPAN);
        out.extend_from_slice(format!("{id} ").as_bytes());
    }
    for (_, word) in FLAGS.iter().filter(|(flag, _)| flags.has(*flag)) {
        out.extend_from_slice(word);
    }
}

fn write_unknown(site: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(SITE);
    out.extend_from_slice(site.to_string().as_bytes());
}

fn write_stack(record: &Record<'_>, out: &mut Vec<u8>) {
    for (at, address) in record.stack().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        write_address(address, out);
    }
    write_stack_end(record.flags().has(Flags::WHOLE), record.payload.is_empty(), out);
}

/// Appends [`TRUNCATION_MARK`] if a stack is not `whole`; without its leading space if the stack has no addresses
/// (`is_empty`).
fn write_stack_end(whole: bool, is_empty: bool, out: &mut Vec<u8>) {
    if !whole {
        out.extend_from_slice(&TRUNCATION_MARK[usize::from(is_empty)..]);
    }
}

/// Appends an address, as lines show it.
pub fn write_address(address: u64, out: &mut Vec<u8>) {
    let mut text = [0; ADDRESS];
    let length = put_address(address, &mut text).unwrap_or(0);
    out.extend_from_slice(&text[..length]);
}

/// The number of bytes of the longest address as text: `0x` and sixteen digits.
const ADDRESS: usize = 18;

/// Writes an address to the beginning of `page`; returns its length in bytes, or `None` if it may not fit.
#[inline(always)]
pub(crate) fn put_address(address: u64, page: &mut [u8]) -> Option<usize> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let page = page.first_chunk_mut::<ADDRESS>()?;
    let digits = (address | 1).ilog2() as usize / 4 + 1;
    page[..2].copy_from_slice(b"0x");
    for (at, place) in page[2..2 + digits].iter_mut().rev().enumerate() {
        *place = DIGITS[(address >> (4 * at)) as usize & 15];
    }
    Some(2 + digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{enter_word, hook_enter_word, hook_leave_word, leave_word, scope_word, stack_word};
    use proptest::prelude::*;

    fn line(word: u64, payload: &[u8], site: Option<&[u8]>) -> String {
        let mut rest = 7u64.to_le_bytes().to_vec();
        rest.extend_from_slice(payload);
        let mut out = Vec::new();
        write(&Record::read(word, &rest).expect("a record"), site, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn lines_show_the_contents_of_the_records() {
        assert_eq!(line(enter_word(0x1a2b), &[], None), "0x1a2b");
        assert_eq!(line(leave_word(0, true), &[], None), "unwinding 0x0");
        assert_eq!(line(hook_enter_word(0x1a2b), &[], None), "hook 0x1a2b");
        assert_eq!(line(hook_leave_word(0), &[], None), "hook 0x0");
        let place: Option<&[u8]> = Some(b"my::f at src/f.rs:3");
        assert_eq!(line(scope_word(5, Flags::NONE), &[], place), "my::f at src/f.rs:3");
        assert_eq!(line(scope_word(5, Flags::LEAVE), &[], None), "site 5");
        let flags = Flags::ID.with(Flags::LEAVE).with(Flags::UNWINDING);
        assert_eq!(line(scope_word(5, flags), &17u64.to_le_bytes(), None), "span=17 unwinding site 5");
        let flags = Flags::ID.with(Flags::LEAVE).with(Flags::ENDED);
        assert_eq!(
            line(scope_word(5, flags), &17u64.to_le_bytes(), place),
            "span=17 ended my::f at src/f.rs:3"
        );
        let addresses = [1u64, 0xff].map(u64::to_le_bytes).concat();
        assert_eq!(line(stack_word(Flags::WHOLE, 16), &addresses, None), "0x1 0xff");
        assert_eq!(line(stack_word(Flags::NONE, 16), &addresses, None), "0x1 0xff ...");
        assert_eq!(line(stack_word(Flags::NONE, 0), &[], None), "...");
    }

    #[test]
    fn a_site_that_shares_its_line_has_its_number_in_the_line() {
        let site = Site { id: 12, function: "f".into(), file: "a site 3".into(), line: 7, ..Site::default() };
        for (shares_line, expected, number) in
            [(false, "f at a site 3:7", 0), (true, "f at a site 3:7 site 12", 12)]
        {
            let mut out = Vec::new();
            write_site(&Site { shares_line, ..site.clone() }, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            let named = FunctionName { function: b"f", at: b"a site 3:7", called_from: b"" };
            let line =
                FunctionLine { place: FunctionPlace::Site(named, number), span: None, flags: Flags::NONE };
            assert_eq!(FunctionLine::parse(&out), Some(line));
            let mut written = Vec::new();
            line.write(&mut written);
            assert_eq!(written, out);
        }
    }

    #[test]
    fn names_after_addresses_are_read() {
        let entered = FunctionLine::parse(b"0x1a f<A, B> at src/a b.rs:3").expect("a line");
        let named = FunctionName { function: b"f<A, B>", at: b"src/a b.rs:3", called_from: b"" };
        assert_eq!(entered.place, FunctionPlace::Address(0x1a, named));
        let entered = FunctionLine::parse(b"0x1a f at a.rs:3 called from b.rs:7").expect("a line");
        let named = FunctionName { function: b"f", at: b"a.rs:3", called_from: b"b.rs:7" };
        assert_eq!(entered.place, FunctionPlace::Address(0x1a, named));
        let stack = StackLine::parse(b"0x1 (f at a.rs:1) 0x2 0x3 (g(int) at b.rs:2) (h at b.rs:9) ...");
        let stack = stack.expect("a stack");
        let told = |function, at| FunctionName { function, at, called_from: b"" };
        let frame = |address, names: &[FunctionName<'static>]| StackFrame { address, names: names.to_vec() };
        let of_three = [told(b"g(int)", b"b.rs:2"), told(b"h", b"b.rs:9")];
        assert_eq!(stack.frames, [frame(1, &[told(b"f", b"a.rs:1")]), frame(2, &[]), frame(3, &of_three)]);
        assert!(!stack.whole);
        assert_eq!(StackLine::parse(b"0x1 (f at a.rs:1"), None, "a name that has no end");
    }

    /// Generates texts with the words and marks that surround names in lines.
    fn odd_name() -> impl Strategy<Value = String> {
        let parts = [
            "at",
            " at ",
            " at",
            "called from",
            " called from ",
            "called",
            " from ",
            "(",
            ")",
            ") (",
            ") 0x1",
            "...",
            " ...",
            "0x1f",
            "\\",
            "\\x20",
            "x41",
            " ",
            "\n",
            "\t",
            "\u{1b}[31m",
            "\u{85}",
            "f<A, B>",
            "{closure#0}",
            "\u{e4}",
        ];
        let part = prop_oneof![4 => prop::sample::select(parts.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    /// Returns a name, escaped as in a line; panics unless it can be unescaped.
    fn escaped(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        escape_name(name, &mut out);
        assert_eq!(crate::escape::unescape(&out), name.as_bytes(), "nothing is lost");
        out
    }

    /// Panics unless a whole line with this payload is read as it was written.
    fn assert_in_a_line(payload: &[u8]) {
        let key = crate::line::Key { ticks: crate::line::Ticks(7), tid: 1 };
        let mut text = Vec::new();
        let line = crate::line::Line { key, kind: crate::line::Kind::Enter, payload };
        line.write(&mut text);
        assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let text = text.strip_suffix(b"\n").expect("a line");
        assert_eq!(crate::escape::harmless_prefix(text), text.len(), "no byte of it should be escaped");
        assert_eq!(crate::line::Line::parse(text).expect("a line").payload, payload);
    }

    proptest! {
        #[test]
        fn written_records_are_read_back(address in 0u64..1 << 54, span: Option<u64>, unwinding: bool, of_site: bool, hook: bool) {
            let flags = if unwinding { Flags::LEAVE.with(Flags::UNWINDING) } else { Flags::LEAVE };
            let (written, span) = if of_site {
                let flags = if span.is_some() { flags.with(Flags::ID) } else { flags };
                let id = span.map(u64::to_le_bytes).unwrap_or_default();
                (line(scope_word(3, flags), &id[..if span.is_some() { 8 } else { 0 }], Some(b"f at x:1")), span)
            } else {
                let word = leave_word(address, unwinding) | if hook { hook_leave_word(0) } else { 0 };
                (line(word, &[], None), None)
            };
            let place = if of_site {
                FunctionPlace::Site(FunctionName { function: b"f", at: b"x:1", called_from: b"" }, 0)
            } else {
                FunctionPlace::Address(address, FunctionName::default())
            };
            let read = FunctionLine::parse(written.as_bytes());
            let flags = if unwinding { Flags::UNWINDING } else { Flags::NONE };
            let flags = if hook && !of_site { flags.with(Flags::HOOK) } else { flags };
            prop_assert_eq!(read, Some(FunctionLine { place, span, flags }));
        }

        #[test]
        fn stacks_are_read_back(addresses: Vec<u64>, whole: bool) {
            let payload: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
            let flags = if whole { Flags::WHOLE } else { Flags::NONE };
            let written = line(stack_word(flags, payload.len()), &payload, None);
            let read = StackLine::parse(written.as_bytes()).expect("a stack");
            prop_assert_eq!(read.whole, whole);
            let frame = |address: &u64| StackFrame { address: *address, names: Vec::new() };
            prop_assert_eq!(read.frames, addresses.iter().map(frame).collect::<Vec<_>>());
        }

        #[test]
        fn any_name_is_read_back_from_the_line_of_a_function(
            address: u64, span: Option<u64>, unwinding: bool,
            (function, at, called_from) in (odd_name(), odd_name(), odd_name()),
        ) {
            let [function, at, called_from] = [function, at, called_from].map(|name| escaped(&name));
            let named = FunctionName { function: &function, at: &at, called_from: &called_from };
            let flags = if unwinding { Flags::UNWINDING } else { Flags::HOOK };
            let line = FunctionLine { place: FunctionPlace::Address(address, named), span, flags };
            let mut written = Vec::new();
            line.write(&mut written);
            assert_in_a_line(&written);
            prop_assert_eq!(FunctionLine::parse(&written), Some(line));
        }

        #[test]
        fn any_names_are_read_back_from_a_stack(
            frames in prop::collection::vec((any::<u64>(), prop::collection::vec((odd_name(), odd_name()), 0..3)), 0..4),
            whole: bool,
        ) {
            let escape = |(function, at): &(String, String)| (escaped(function), escaped(at));
            let texts: Vec<(u64, Vec<_>)> =
                frames.iter().map(|(address, names)| (*address, names.iter().map(escape).collect())).collect();
            let frames = texts.iter().map(|(address, names)| {
                let names = names.iter().map(|(function, at)| FunctionName { function, at, called_from: &[] });
                StackFrame { address: *address, names: names.collect() }
            });
            let stack = StackLine { frames: frames.collect(), whole };
            let mut written = Vec::new();
            stack.write(&mut written);
            assert_in_a_line(&written);
            prop_assert_eq!(StackLine::parse(&written), Some(stack));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = (FunctionLine::parse(&bytes), StackLine::parse(&bytes));
        }
    }
}
