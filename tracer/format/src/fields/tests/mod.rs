//! Tests that compare rendered text with `format!` of the same values, and tests that malformed bytes are
//! refused.
//!
//! `CASES=5000000 cargo test --release -p tracer-format fields` tries that many values in each of the tests
//! that draw random values.

mod composites;
mod hostile;
mod messages;
mod scalars;
mod values;

use std::fmt;

use values::{Draw, Drawn};

use super::SitePlan;
use crate::capture::tests::bytes_of;
use crate::capture::{Capture, by};

/// A format string, and the text that `format!` makes of it with a value and, if the string needs them, width
/// and precision.
///
/// The value is argument 0; a width, if there is one, is argument 1, and a precision is the last argument.
struct Entry<V: ?Sized> {
    format: &'static str,
    width: bool,
    precision: bool,
    expected: fn(&V, usize, usize) -> String,
}

/// A reference that forwards every formatting trait to the value: `{:p}` of a plain reference to a pointer would print
/// the reference, and not the pointer.
struct Shown<'a, V: ?Sized>(&'a V);

macro_rules! shown {
    ($($trait:ident)*) => { $(
        impl<V: fmt::$trait + ?Sized> fmt::$trait for Shown<'_, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::$trait::fmt(self.0, f)
            }
        }
    )* };
}

shown!(Display Debug LowerHex UpperHex Octal Binary LowerExp UpperExp Pointer);

/// Makes the entries of one set of flags, with and without width and precision.
macro_rules! leaf {
    ($value:ty, $by:literal, $flags:expr) => {
        [
            $crate::fields::tests::Entry::<$value> {
                format: concat!("{0:", $flags, $by, "}"),
                width: false,
                precision: false,
                expected: |v, _, _| {
                    format!(concat!("{0:", $flags, $by, "}"), $crate::fields::tests::Shown(v))
                },
            },
            $crate::fields::tests::Entry::<$value> {
                format: concat!("{0:", $flags, "1$", $by, "}"),
                width: true,
                precision: false,
                expected: |v, w, _| {
                    format!(concat!("{0:", $flags, "1$", $by, "}"), $crate::fields::tests::Shown(v), w)
                },
            },
            $crate::fields::tests::Entry::<$value> {
                format: concat!("{0:", $flags, ".1$", $by, "}"),
                width: false,
                precision: true,
                expected: |v, _, p| {
                    format!(concat!("{0:", $flags, ".1$", $by, "}"), $crate::fields::tests::Shown(v), p)
                },
            },
            $crate::fields::tests::Entry::<$value> {
                format: concat!("{0:", $flags, "1$.2$", $by, "}"),
                width: true,
                precision: true,
                expected: |v, w, p| {
                    format!(concat!("{0:", $flags, "1$.2$", $by, "}"), $crate::fields::tests::Shown(v), w, p)
                },
            },
        ]
    };
}

/// Makes the entries for the letter of one trait, with every combination of flags.
macro_rules! entries {
    ($value:ty, $by:literal) => { entries!($value, $by; "", "<", "é^", "🦀>") };
    ($value:ty, $by:literal; $($fill:literal),*) => {
        [$(
            leaf!($value, $by, concat!($fill)),
            leaf!($value, $by, concat!($fill, "0")),
            leaf!($value, $by, concat!($fill, "#")),
            leaf!($value, $by, concat!($fill, "#0")),
            leaf!($value, $by, concat!($fill, "+")),
            leaf!($value, $by, concat!($fill, "+0")),
            leaf!($value, $by, concat!($fill, "+#")),
            leaf!($value, $by, concat!($fill, "+#0")),
        )*]
        .into_iter()
        .flatten()
        .collect::<Vec<$crate::fields::tests::Entry<$value>>>()
    };
}
use {entries, leaf};

/// Returns the number of random values that a test tries.
fn cases(usual: usize) -> usize {
    std::env::var("CASES").map_or(usual, |number| number.parse().unwrap())
}

/// Draws values of type `T` and compares, for each of the entries in turn, the rendered text with the
/// expected one.
///
/// As little code as possible is generic over the type: there are many types, and compilers are slow.
fn draw_and_compare<By, T, V>(entries: &[Entry<V>], as_shown: fn(&T) -> &V, cases: usize)
where
    T: Drawn + Capture<By>,
    V: ?Sized,
{
    let mut descriptor = Vec::new();
    T::describe(&mut descriptor);
    compare_all(entries, &descriptor, cases, &|draw, compare| {
        let value = T::draw(draw);
        compare(as_shown(&value), bytes_of(&value));
    });
}

type Compare<'a, V> = dyn FnMut(&V, Vec<u8>) + 'a;

fn compare_all<V: ?Sized>(
    entries: &[Entry<V>],
    descriptor: &[u8],
    cases: usize,
    draw_one: &dyn Fn(&mut Draw, &mut Compare<'_, V>),
) {
    let mut draw = Draw(descriptor.len() as u64);
    let plan = |entry: &Entry<V>| {
        let mut descriptor = descriptor.to_vec();
        for _ in 0..u8::from(entry.width) + u8::from(entry.precision) {
            <usize as Capture<by::Count>>::describe(&mut descriptor);
        }
        SitePlan::new(entry.format, &descriptor).unwrap_or_else(|e| panic!("{}: {e}", entry.format))
    };
    // Miri would take hours for all: it tries a few, which differ from type to type.
    let (step, first) = if cfg!(miri) { (37, draw.pick(&[0, 7, 15, 22, 30])) } else { (1, 0) };
    let entries: Vec<&Entry<V>> = entries.iter().skip(first).step_by(step).collect();
    let plans: Vec<SitePlan> = entries.iter().map(|entry| plan(entry)).collect();
    for (entry, plan) in entries.iter().zip(&plans).cycle().take(cases.max(entries.len())) {
        let width = draw.pick(&[0, 1, 2, 5, 8, 12, 19, 40]);
        let precision = draw.pick(&[0, 1, 2, 3, 6, 9, 17, 30]);
        draw_one(&mut draw, &mut |value, mut payload| {
            for (count, used) in [(width, entry.width), (precision, entry.precision)] {
                if used {
                    payload.extend(bytes_of::<by::Count, usize>(&count));
                }
            }
            let mut out = b"before".to_vec();
            plan.render(&payload, &mut out).unwrap();
            let expected = (entry.expected)(value, width, precision);
            let format = entry.format;
            assert_eq!(String::from_utf8_lossy(&out[6..]), expected, "{format} with {width} and {precision}");
        });
    }
}
