//! Messages of `tracer_trace` whose arguments are copied at the call and formatted later, like those of `trace!`.
//!
//! Each place in the program that calls `tracer_trace` keeps a *plan*: the conversions of its format. The header
//! `tracer.h` fetches the arguments that the plan lists, because only the program's compiler knows how, and the code
//! here copies them. A conversion of `printf` is supported if Rust's formatting gives the same bytes for every value of
//! the type, or for all but some values that can be recognized:
//!
//! | conversion | copied as | not supported |
//! |---|---|---|
//! | `d i u x X o` with `-`, `+`, `0`, a width, any length | an integer | a precision, a space, `#` except `%#x` of non-zero values |
//! | `f F` with `-`, `+`, `0`, a width, a precision | a float | infinities, NaN; `long double`; a space, `#` |
//! | `s` with `-`, a width, a precision | a text | null; texts that are not ASCII, or longer than [`MAX_TEXT_BYTES`] |
//! | `c` with `-`, a width | a character | characters that are not ASCII, and 0 |
//! | `p` with `-`, a width | an integer | null |
//!
//! A message with any other conversion (`e`, `g`, `a`, `n`, `m`, `*`, `%2$d`, `'`, wide characters) is formatted at
//! the call by the program's C library, and so is every message before the flusher has put its place into the table
//! for readers.

use std::ffi::{CStr, CString, c_char, c_long, c_uint, c_void};
use std::fmt::Write as _;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use tracer::__bridge::{By, Definition, Field, Values};
use tracer::__foreign::{self as foreign, ValuesResult};

/// The maximum length in bytes of a text that is copied.
const MAX_TEXT_BYTES: usize = 512;
/// The maximum number of arguments of a message: `TRACER_MOST_VALUES` in `tracer.h`.
const MOST_VALUES: usize = 16;
/// The maximum width and precision that are supported.
const MAX_WIDTH: usize = 200;

/// A place of the program where a message is recorded: `struct tracer_place`.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    file: *const c_char,
    function: *const c_char,
    line: c_uint,
    /// The plan for the format of the place's messages.
    ///
    /// ```text
    /// null ──the first call──► a plan, or NONE; for ever
    /// ```
    ///
    /// Plans are never freed or changed. If two threads make a plan for the place at once, the second plan is dropped.
    plan: AtomicPtr<c_void>,
}

/// An argument of a message: `union tracer_value`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Value {
    integer: i64,
    real: f64,
    text: *const c_char,
}

/// The plan of a format: its conversions, as far as recording needs them.
#[derive(Debug)]
struct Plan {
    /// A copy of the format; `at` is the address of the original. If the place has another format later, messages with
    /// that format are formatted at the call.
    format: CString,
    at: *const c_char,
    /// The letters that tell the header `tracer.h` the types of the arguments, one letter for each.
    letters: CString,
    conversions: Vec<Conversion>,
    /// The text after the last conversion.
    tail: String,
}

/// A conversion in a format, such as `%d`, that is supported.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Conversion {
    /// The text before the conversion, from the end of the conversion before it or from the beginning of the format.
    before: String,
    kind: Kind,
    /// The format specification of Rust that gives the same text as the conversion, without the colon.
    spec: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A signed integer of this many bytes.
    Signed(usize),
    /// An unsigned integer of this many bytes.
    Unsigned(usize),
    /// An unsigned integer of this many bytes that is not 0.
    NotZero(usize),
    Float,
    /// A text; at most this many bytes of it are read.
    Text(Option<usize>),
    Character,
    Pointer,
}

/// The target of a place's pointer `plan` if the place's messages are formatted at the call.
static NONE: u8 = 0;

fn none() -> *mut c_void {
    (&raw const NONE).cast_mut().cast()
}

impl Place {
    /// Returns the plan for a format, if there is one.
    fn plan(&self, format: &CStr) -> Option<&'static Plan> {
        // Acquire: a thread that sees a plan sees its contents.
        let mut plan = self.plan.load(Ordering::Acquire);
        if plan.is_null() {
            let made = Plan::of(format).map_or_else(none, |plan| Box::into_raw(Box::new(plan)).cast());
            // Release: as above.
            plan = match self.plan.compare_exchange(plan, made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(other) => {
                    if made != none() {
                        // SAFETY: made from a box above, and not shared.
                        drop(unsafe { Box::from_raw(made.cast::<Plan>()) });
                    }
                    other
                }
            };
        }
        if plan == none() {
            return None;
        }
        // SAFETY: neither null nor NONE, so it was made from a box here, which is never freed.
        let plan = unsafe { &*plan.cast::<Plan>() };
        (plan.at == format.as_ptr() && *plan.format == *format).then_some(plan)
    }

    fn define(&self, plan: &Plan) -> Definition {
        let text = |text: *const c_char| {
            if text.is_null() {
                return String::new();
            }
            // SAFETY: a literal of the program.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        let field = |conversion: &Conversion| Field {
            before: conversion.before.clone(),
            name: String::new(),
            by: if conversion.spec.is_empty() { By::Display } else { By::As(conversion.spec.clone().leak()) },
        };
        Definition {
            file: text(self.file),
            line: self.line,
            function: text(self.function),
            fields: plan.conversions.iter().map(field).collect(),
            tail: plan.tail.clone(),
            ..Definition::default()
        }
    }
}

impl Plan {
    /// Reads a format; returns `None` if one of its conversions is not supported.
    fn of(format: &CStr) -> Option<Plan> {
        let mut rest = format.to_str().ok().filter(|text| text.is_ascii())?;
        let (mut before, mut conversions, mut letters) = (String::new(), Vec::new(), Vec::new());
        while let Some((text, behind)) = rest.split_once('%') {
            before.push_str(text);
            if let Some(behind) = behind.strip_prefix('%') {
                before.push('%');
                rest = behind;
                continue;
            }
            let (kind, spec, letter, behind) = conversion(behind)?;
            conversions.push(Conversion { before: std::mem::take(&mut before), kind, spec });
            letters.push(letter);
            rest = behind;
        }
        before.push_str(rest);
        if conversions.len() > MOST_VALUES {
            return None;
        }
        Some(Plan {
            format: format.to_owned(),
            at: format.as_ptr(),
            letters: CString::new(letters).ok()?,
            conversions,
            tail: before,
        })
    }

    /// Copies the arguments of a message; returns `None` if one of them is not supported.
    ///
    /// # Safety
    /// `values` has one value for each conversion, of its type.
    unsafe fn values(&self, values: *const Value) -> Option<Values> {
        let mut copied = Values::new();
        for (at, conversion) in self.conversions.iter().enumerate() {
            // SAFETY: by the caller's promise.
            let value = unsafe { *values.add(at) };
            // SAFETY: of the conversion's type, by the caller's promise.
            unsafe { conversion.copy(value, at as u64, &mut copied) }?;
        }
        Some(copied)
    }
}

impl Conversion {
    /// Copies an argument, if it is supported.
    ///
    /// # Safety
    /// The value has the conversion's type.
    unsafe fn copy(&self, value: Value, key: u64, to: &mut Values) -> Option<()> {
        // SAFETY: integers and pointers are stored here, by the caller's promise; a float's bits are an integer, too.
        let integer = unsafe { value.integer };
        match self.kind {
            Kind::Signed(bytes) => to.i64(key, sign_extended(integer, bytes)),
            Kind::Unsigned(bytes) => to.u64(key, truncated(integer, bytes)),
            Kind::NotZero(bytes) => match truncated(integer, bytes) {
                0 => return None,
                integer => to.u64(key, integer),
            },
            Kind::Pointer if integer == 0 => return None,
            Kind::Pointer => to.u64(key, integer as u64),
            Kind::Character => {
                let byte = u8::try_from(integer & 0xff).ok().filter(|byte| byte.is_ascii() && *byte != 0)?;
                to.char(key, byte.into());
            }
            Kind::Float => {
                // SAFETY: by the caller's promise.
                let real = unsafe { value.real };
                if !real.is_finite() {
                    return None;
                }
                to.f64(key, real);
            }
            Kind::Text(most) => {
                // SAFETY: by the caller's promise.
                let text = unsafe { value.text };
                if text.is_null() {
                    return None;
                }
                // SAFETY: a string of C, or as many bytes as the precision says.
                to.str(key, unsafe { ascii(text.cast(), most) }?);
            }
        }
        Some(())
    }
}

/// Returns the text at `text`, which ends with a zero byte or after `most` bytes, if it is ASCII and not too long.
///
/// # Safety
/// The bytes up to there are readable, and do not change meanwhile.
unsafe fn ascii<'a>(text: *const u8, most: Option<usize>) -> Option<&'a str> {
    let limit = most.unwrap_or(usize::MAX).min(MAX_TEXT_BYTES + 1);
    // SAFETY: no byte after the first zero is read, and none after `most`.
    let length = (0..limit).take_while(|at| unsafe { *text.add(*at) } != 0).count();
    if length > MAX_TEXT_BYTES {
        return None;
    }
    // SAFETY: they were read just now.
    let bytes = unsafe { std::slice::from_raw_parts(text, length) };
    std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii())
}

fn sign_extended(integer: i64, bytes: usize) -> i64 {
    let unused = 64 - 8 * bytes as u32;
    integer << unused >> unused
}

fn truncated(integer: i64, bytes: usize) -> u64 {
    let unused = 64 - 8 * bytes as u32;
    integer as u64 & (u64::MAX >> unused)
}

/// Reads the conversion after `%`: its kind, the format specification of Rust, the letter for the header, and the rest
/// of the text. Returns `None` if the conversion is not supported.
fn conversion(text: &str) -> Option<(Kind, String, u8, &str)> {
    let flags = text.len() - text.trim_start_matches(['-', '+', ' ', '#', '0']).len();
    let (flags, text) = text.split_at(flags);
    let has = |flag: char| flags.contains(flag);
    if has(' ') {
        return None;
    }
    let (width, text) = number(text)?;
    let (precision, text) = match text.strip_prefix('.') {
        Some(text) => {
            let (precision, text) = number(text)?;
            (Some(precision.unwrap_or(0)), text)
        }
        None => (None, text),
    };
    let (length, text) = ["hh", "h", "ll", "l", "j", "z", "t"]
        .into_iter()
        .find_map(|length| Some((length, text.strip_prefix(length)?)))
        .unwrap_or(("", text));
    let (bytes, letter) = match length {
        "" => (4, b'i'),
        "hh" => (1, b'i'),
        "h" => (2, b'i'),
        "l" => (size_of::<c_long>(), b'l'),
        "ll" => (8, b'q'),
        "j" => (8, b'j'),
        "z" => (size_of::<usize>(), b'z'),
        _ => (size_of::<isize>(), b't'),
    };
    let kind = text.bytes().next()?;
    let rest = &text[1..];
    let is_plain = !has('+') && !has('#') && !has('0');
    let (kind, letter, rust) = match kind {
        b'd' | b'i' if !has('#') && precision.is_none() => (Kind::Signed(bytes), letter, ""),
        b'u' if !has('+') && !has('#') && precision.is_none() => (Kind::Unsigned(bytes), letter, ""),
        b'o' if !has('+') && !has('#') && precision.is_none() => (Kind::Unsigned(bytes), letter, "o"),
        b'X' if !has('+') && !has('#') && precision.is_none() => (Kind::Unsigned(bytes), letter, "X"),
        b'x' if !has('+') && precision.is_none() => {
            (if has('#') { Kind::NotZero(bytes) } else { Kind::Unsigned(bytes) }, letter, "x")
        }
        b'f' | b'F' if !has('#') && matches!(length, "" | "l") => (Kind::Float, b'f', ""),
        b's' if is_plain && length.is_empty() => (Kind::Text(precision), b's', ""),
        b'c' if is_plain && length.is_empty() && precision.is_none() => (Kind::Character, b'i', ""),
        b'p' if is_plain && length.is_empty() && precision.is_none() => (Kind::Pointer, b'p', "#x"),
        _ => return None,
    };
    let mut spec = String::new();
    if let Some(width) = width {
        spec.push_str(if has('-') {
            "<"
        } else if has('0') {
            ""
        } else {
            ">"
        });
        spec.push_str(if has('+') { "+" } else { "" });
        spec.push_str(if rust == "#x" || has('#') { "#" } else { "" });
        spec.push_str(if has('0') && !has('-') { "0" } else { "" });
        let _ = write!(spec, "{width}");
    } else {
        spec.push_str(if has('+') { "+" } else { "" });
        spec.push_str(if rust == "#x" || has('#') { "#" } else { "" });
    }
    match kind {
        Kind::Float => _ = write!(spec, ".{}", precision.unwrap_or(6)),
        Kind::Text(Some(most)) => _ = write!(spec, ".{most}"),
        _ => {}
    }
    spec.push_str(rust.trim_start_matches('#'));
    Some((kind, spec, letter, rest))
}

/// Reads the width or precision at the beginning of a text. Returns the number, if there is one, and the rest of the
/// text. Returns `None` if the number is too great, or if `*` or `$` shows that it refers to an argument.
fn number(text: &str) -> Option<(Option<usize>, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    if rest.starts_with(['*', '$']) {
        return None;
    }
    let number =
        if number.is_empty() { None } else { Some(number.parse().ok().filter(|n| *n <= MAX_WIDTH)?) };
    Some((number, rest))
}

/// Returns the letters that tell the types of the arguments to be passed to [`tracer_record`], one letter for each
/// argument. Returns null if the message must be formatted at the call.
///
/// # Safety
/// `place` is valid, is used only by this function and [`tracer_record`], and stays; `format` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_letters(place: *const Place, format: *const c_char) -> *const c_char {
    if place.is_null() || format.is_null() {
        return ptr::null();
    }
    // SAFETY: the caller vouches for both.
    let (place, format) = unsafe { (&*place, CStr::from_ptr(format)) };
    place.plan(format).map_or(ptr::null(), |plan| plan.letters.as_ptr())
}

/// Records a message with its arguments, and returns -1. `ticks` are those of the call. If the message must be
/// formatted at the call instead, records nothing and returns the number that its place has in the table for readers,
/// or 0 if it has none.
///
/// # Safety
/// As for [`tracer_letters`], which has just returned letters for this place and this format; `values` are the
/// arguments for these letters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracer_record(
    place: *const Place,
    format: *const c_char,
    ticks: u64,
    values: *const Value,
) -> i64 {
    // SAFETY: the caller vouches for both.
    let (here, format) = unsafe { (&*place, CStr::from_ptr(format)) };
    let Some(plan) = here.plan(format) else { return 0 };
    // SAFETY: the caller vouches for it.
    let Some(values) = (unsafe { plan.values(values) }) else { return 0 };
    match foreign::record_values(place.addr() as u64, ticks, &values, || here.define(plan)) {
        ValuesResult::Recorded => -1,
        ValuesResult::Unformatted(site) => site.into(),
    }
}
