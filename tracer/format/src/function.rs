//! The payload of `>`, `<` and `^` lines: which function was entered or left, and call stacks.
//!
//! ```text
//! > 0x55d5c0ffee00                        an address in the function
//! > my_crate::parse at src/parse.rs:88    a site
//! < unwinding 0x55d5c0ffee00              left because a panic unwinds the stack
//! > span=17 my_crate::run at src/run.rs:5 one span of those that enter the site
//! < span=17 ended my_crate::run at ...    left for the last time; `cancelled`: given up before its end
//! > site 12                               a site of which only the number is known
//! ^ 0x55d5c0ffee00 0x55d5c0ffed11 ...     a call stack, the innermost first; cut off where `...` follows
//! ```
//!
//! Behind an address there may be a name, as behind a site: readers that look names up write it there. In a
//! stack each address may have one, between parentheses.

use crate::escape::{EscapeContext, escape_line};
use crate::record::{Flags, Record, RecordKind};
use crate::sites::Site;

/// The words that tell how a function was left, if not as usual.
const LEFT: [(Flags, &[u8]); 3] =
    [(Flags::UNWINDING, b"unwinding "), (Flags::ENDED, b"ended "), (Flags::CANCELLED, b"cancelled ")];
/// What the id of a span stands behind.
const SPAN: &[u8] = b"span=";
/// What stands between the name of a function and its place.
const AT: &[u8] = b" at ";
/// What the number of a site stands behind of which nothing else is known.
const SITE: &[u8] = b"site ";
/// What follows the addresses of a call stack that does not go up to the beginning of its thread.
const CUT_OFF: &[u8] = b" ...";

/// The place in the program that a `>` or `<` line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionPlace<'a> {
    /// An address in the function, and what is told of it behind that.
    Address(u64, Named<'a>),
    /// A site of the function.
    Site(Named<'a>),
    /// The number of a site that nothing else is known of.
    Unknown(u32),
}

/// The name of a function, and where it is. The texts are escaped, as in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Named<'a> {
    /// The name or path of the function; empty where it is not known.
    pub function: &'a [u8],
    /// The source file and the line, `src/parse.rs:88`; empty where they are not known.
    pub at: &'a [u8],
}

impl<'a> Named<'a> {
    /// Reads `function at file:line`.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Named<'a> {
        let at = text.windows(AT.len()).position(|bytes| bytes == AT);
        at.map_or(Named { function: text, at: &[] }, |at| Named {
            function: &text[..at],
            at: &text[at + AT.len()..],
        })
    }
}

/// The payload of a `>` or `<` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLine<'a> {
    /// Which function.
    pub place: FunctionPlace<'a>,
    /// The id of the span, which no other span of the run has, where there is one.
    pub span: Option<u64>,
    /// How the function was left: [`Flags::UNWINDING`], [`Flags::ENDED`], [`Flags::CANCELLED`], if any.
    pub left: Flags,
}

impl<'a> FunctionLine<'a> {
    /// Reads the payload of a line; `None` where it is none.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<FunctionLine<'a>> {
        let mut rest = payload;
        let mut span = None;
        if let Some(text) = rest.strip_prefix(SPAN) {
            let end = text.iter().position(|&byte| byte == b' ')?;
            (span, rest) = (Some(std::str::from_utf8(&text[..end]).ok()?.parse().ok()?), &text[end + 1..]);
        }
        let mut left = Flags::NONE;
        for (flag, word) in LEFT {
            if let Some(text) = rest.strip_prefix(word) {
                (left, rest) = (left.with(flag), text);
            }
        }
        let place = if let Some((address, rest)) = take_address(rest) {
            FunctionPlace::Address(address, Named::parse(rest.strip_prefix(b" ").unwrap_or(rest)))
        } else if let Some(number) = rest.strip_prefix(SITE).and_then(decimal) {
            FunctionPlace::Unknown(number)
        } else {
            FunctionPlace::Site(Named::parse(rest))
        };
        Some(FunctionLine { place, span, left })
    }
}

fn decimal(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Separates the address at the beginning of `text` from what follows; `None` where there is none.
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

/// A call stack as a `^` line tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackLine<'a> {
    /// The return addresses, the innermost first, each with what is told of it.
    pub frames: Vec<(u64, &'a [u8])>,
    /// Whether the stack goes up to where its thread began.
    pub whole: bool,
}

impl<'a> StackLine<'a> {
    /// Reads the payload of a `^` line; `None` where it is none.
    #[must_use]
    pub fn parse(payload: &'a [u8]) -> Option<StackLine<'a>> {
        let whole = !(payload == b"..." || payload.ends_with(CUT_OFF));
        let mut rest = payload.strip_suffix(b"...").unwrap_or(payload);
        let mut frames = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                return Some(StackLine { frames, whole });
            }
            let (address, behind) = take_address(rest)?;
            // A name ends where the next address begins.
            let named = behind.windows(4).position(|bytes| bytes == b") 0x").map(|at| at + 1);
            let (name, next) = match behind.strip_prefix(b" (") {
                Some(text) => {
                    let end = named.unwrap_or(behind.trim_ascii_end().len());
                    (text.get(..end.checked_sub(3)?)?, &behind[end..])
                }
                None => (&[][..], behind),
            };
            frames.push((address, name));
            rest = next;
        }
    }
}

/// Appends the place of a site as `>` lines tell it: `my_crate::parse at src/parse.rs:88`.
pub(crate) fn write_site(site: &Site, out: &mut Vec<u8>) {
    let function = if site.function.is_empty() { &site.module } else { &site.function };
    escape(function, out);
    out.extend_from_slice(AT);
    escape(&site.file, out);
    out.extend_from_slice(format!(":{}", site.line).as_bytes());
}

/// Appends text in one line.
fn escape(text: &str, out: &mut Vec<u8>) {
    // A line feed ends the place: neither names of functions nor of files have any.
    escape_line(out, text.as_bytes(), EscapeContext::Line);
}

/// Appends the payload of the line of a record; `site` is the place of its site, where that is known.
pub(crate) fn write(record: &Record<'_>, site: Option<&[u8]>, out: &mut Vec<u8>) {
    if record.kind == RecordKind::Stack {
        return write_stack(record, out);
    }
    if let Some(id) = record.span() {
        out.extend_from_slice(SPAN);
        out.extend_from_slice(format!("{id} ").as_bytes());
    }
    for (_, word) in LEFT.iter().filter(|(flag, _)| record.flags().has(*flag)) {
        out.extend_from_slice(word);
    }
    match site {
        _ if record.kind != RecordKind::Scope => write_address(record.address(), out),
        Some(place) => out.extend_from_slice(place),
        None => {
            out.extend_from_slice(SITE);
            out.extend_from_slice(record.site().to_string().as_bytes());
        }
    }
}

fn write_stack(record: &Record<'_>, out: &mut Vec<u8>) {
    for (at, address) in record.stack().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        write_address(address, out);
    }
    if !record.flags().has(Flags::WHOLE) {
        out.extend_from_slice(&CUT_OFF[usize::from(record.payload.is_empty())..]);
    }
}

/// Appends an address, as lines show it.
pub fn write_address(address: u64, out: &mut Vec<u8>) {
    let mut text = [0; ADDRESS];
    let length = put_address(address, &mut text).unwrap_or(0);
    out.extend_from_slice(&text[..length]);
}

/// The number of bytes of the longest address.
const ADDRESS: usize = 18;

/// Writes an address to the beginning of `page`; returns its length in bytes. `None` where it does not fit.
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
    use crate::record::{enter_word, leave_word, scope_word, stack_word};
    use proptest::prelude::*;

    fn line(word: u64, payload: &[u8], site: Option<&[u8]>) -> String {
        let mut rest = 7u64.to_le_bytes().to_vec();
        rest.extend_from_slice(payload);
        let mut out = Vec::new();
        write(&Record::read(word, &rest).expect("a record"), site, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn lines_tell_what_the_records_say() {
        assert_eq!(line(enter_word(0x1a2b), &[], None), "0x1a2b");
        assert_eq!(line(leave_word(0, true), &[], None), "unwinding 0x0");
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
    fn names_behind_addresses_are_read() {
        let entered = FunctionLine::parse(b"0x1a f<A, B> at src/a b.rs:3").expect("a line");
        let named = Named { function: b"f<A, B>", at: b"src/a b.rs:3" };
        assert_eq!(entered.place, FunctionPlace::Address(0x1a, named));
        let stack = StackLine::parse(b"0x1 (f at a.rs:1) 0x2 0x3 (g(int) at b.rs:2) ...").expect("a stack");
        assert_eq!(stack.frames, [(1, &b"f at a.rs:1"[..]), (2, b""), (3, b"g(int) at b.rs:2")]);
        assert!(!stack.whole);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(address in 0u64..1 << 55, span: Option<u64>, unwinding: bool, of_site: bool) {
            let flags = if unwinding { Flags::LEAVE.with(Flags::UNWINDING) } else { Flags::LEAVE };
            let (written, span) = if of_site {
                let flags = if span.is_some() { flags.with(Flags::ID) } else { flags };
                let id = span.map(u64::to_le_bytes).unwrap_or_default();
                (line(scope_word(3, flags), &id[..if span.is_some() { 8 } else { 0 }], Some(b"f at x:1")), span)
            } else {
                (line(leave_word(address, unwinding), &[], None), None)
            };
            let place = if of_site {
                FunctionPlace::Site(Named { function: b"f", at: b"x:1" })
            } else {
                FunctionPlace::Address(address, Named::default())
            };
            let read = FunctionLine::parse(written.as_bytes());
            let left = if unwinding { Flags::UNWINDING } else { Flags::NONE };
            prop_assert_eq!(read, Some(FunctionLine { place, span, left }));
        }

        #[test]
        fn stacks_are_read_back(addresses: Vec<u64>, whole: bool) {
            let payload: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
            let flags = if whole { Flags::WHOLE } else { Flags::NONE };
            let written = line(stack_word(flags, payload.len()), &payload, None);
            let read = StackLine::parse(written.as_bytes()).expect("a stack");
            prop_assert_eq!(read.whole, whole);
            prop_assert_eq!(read.frames, addresses.iter().map(|a| (*a, &b""[..])).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = (FunctionLine::parse(&bytes), StackLine::parse(&bytes));
        }
    }
}
