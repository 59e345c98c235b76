//! Tests of single values: every trait with every combination of flags, widths and precisions.

use std::ffi::OsString;
use std::fmt::{Binary, Debug, Display, LowerExp, LowerHex, Octal, Pointer, UpperExp, UpperHex};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

use super::{cases, draw_and_compare, entries, leaf};
use crate::capture::tests::bytes_of;
use crate::capture::{Capture, by};

/// Calls `draw_and_compare` for several types of one trait.
macro_rules! for_types {
    ($by:ident, dyn $trait:ident, $entries:expr, $cases:expr, $($type:ty)*) => {
        $(draw_and_compare::<by::$by, $type, dyn $trait>($entries, |v| v, $cases);)*
    };
}

/// The type `()` under a name that a macro's list of types accepts.
type Void = ();
const TYPES: usize = 12;

#[test]
fn numbers_and_text_by_display_are_as_format_prints_them() {
    let table = entries!(dyn Display, "");
    let cases = cases(20_000) / (TYPES + 5);
    for_types!(Display, dyn Display, &table, cases, i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
    for_types!(Display, dyn Display, &table, cases, f32 f64 bool char String);
}

#[test]
fn single_values_by_debug_are_as_format_prints_them() {
    let table = [entries!(dyn Debug, "?"), entries!(dyn Debug, "x?"), entries!(dyn Debug, "X?")];
    let table: Vec<_> = table.into_iter().flatten().collect();
    let cases = cases(40_000) / (TYPES + 7);
    for_types!(PaddedDebug, dyn Debug, &table, cases,
        i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
    for_types!(PaddedDebug, dyn Debug, &table, cases, f32 f64 bool char String Void *const u8);
}

#[test]
fn addresses_durations_and_names_are_as_format_prints_them() {
    let display = entries!(dyn Display, "");
    let cases = cases(10_000) / 6;
    for_types!(Display, dyn Display, &display, cases, Ipv4Addr Ipv6Addr IpAddr SocketAddrV4 SocketAddrV6 SocketAddr);
    let debug: Vec<_> = [entries!(dyn Debug, "?"), entries!(dyn Debug, "x?")].into_iter().flatten().collect();
    for_types!(PaddedDebug, dyn Debug, &debug, cases,
        Ipv4Addr Ipv6Addr IpAddr SocketAddrV4 SocketAddrV6 SocketAddr Duration OsString PathBuf);
}

#[test]
fn integers_by_their_digits_are_as_format_prints_them() {
    let cases = cases(40_000) / (4 * TYPES);
    macro_rules! digits {
        ($($trait:ident $by:literal)*) => { $({
            let table = entries!(dyn $trait, $by);
            for_types!($trait, dyn $trait, &table, cases, i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
        })* };
    }
    digits!(LowerHex "x" UpperHex "X" Octal "o" Binary "b");
}

#[test]
fn numbers_with_exponents_are_as_format_prints_them() {
    let cases = cases(30_000) / (2 * TYPES + 4);
    macro_rules! exponents {
        ($($trait:ident $by:literal)*) => { $({
            let table = entries!(dyn $trait, $by);
            for_types!($trait, dyn $trait, &table, cases, i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
            for_types!($trait, dyn $trait, &table, cases, f32 f64);
        })* };
    }
    exponents!(LowerExp "e" UpperExp "E");
}

#[test]
fn pointers_are_as_format_prints_them() {
    let table = entries!(dyn Pointer, "p");
    for_types!(Pointer, dyn Pointer, &table, cases(2_000), *const u8);
}

/// Compares many more floats with `{}` and `{:?}`, because the renderer writes these without std.
#[test]
fn the_shortest_digits_of_floats_are_those_of_std() {
    let display = leaf!(dyn Display, "", "");
    let debug = leaf!(dyn Debug, "?", "");
    let cases = cases(50_000);
    for_types!(Display, dyn Display, &display[..1], cases, f32 f64);
    for_types!(Debug, dyn Debug, &debug[..1], cases, f32 f64);
}

/// Compares floats with a precision, because the renderer writes these without std, too.
#[test]
fn rounded_floats_are_those_of_std() {
    let display = leaf!(dyn Display, "", "");
    let cases = cases(50_000);
    for_types!(Display, dyn Display, &display[2..3], cases, f32 f64);
}

/// Compares every float of 32 bits, which takes minutes: `cargo test --release -- --ignored every_f32`.
#[test]
#[ignore = "takes minutes"]
fn every_f32_has_the_digits_of_std() {
    use std::io::Write;
    let plan = super::SitePlan::new("{0} {0:?}", b"f").unwrap();
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    for bits in 0..=u32::MAX {
        let value = f32::from_bits(bits);
        out.clear();
        expected.clear();
        plan.render(&bits.to_le_bytes(), &mut out).unwrap();
        write!(expected, "{value} {value:?}").unwrap();
        assert_eq!(out, expected, "{bits:#x}");
    }
}

/// Compares format strings that contain their widths and precisions as numbers: those in the tables refer to arguments.
#[test]
fn widths_and_precisions_in_the_format_string_apply() {
    macro_rules! same {
        ($($by:ident $format:literal $value:expr;)*) => { $({
            let value = $value;
            let mut descriptor = Vec::new();
            fn describe<By, T: Capture<By>>(_: &T, to: &mut Vec<u8>) { T::describe(to); }
            describe::<by::$by, _>(&value, &mut descriptor);
            let mut out = Vec::new();
            let plan = super::SitePlan::new($format, &descriptor).unwrap();
            plan.render(&bytes_of::<by::$by, _>(&value), &mut out).unwrap();
            assert_eq!(String::from_utf8_lossy(&out), format!($format, value), "{}", $format);
        })* };
    }
    same! {
        Display "{}" 5; Display "{0:} { } {0: }" 5; Display "{{{}}} {0:-}" -5; Display "{:5}|" 12; Display "{:<5}|" 12;
        Display "{:^5}|" 12; Display "{:>5}|" 12; Display "{:05}|" -12; Display "{:+}" 12; Display "{:-05}" -12;
        Display "{:*^9}" "text"; Display "{:.2}" "text"; Display "{:9.2}|" "text"; Display "{:09}|" "text";
        Display "{:<<4}" 'c'; Display "{:}>4}" 'c'; Display "{:{^4}" 'c'; Display "{:.0}|" 'c'; Display "{:3.0}|" 'c';
        Display "{:.3}" 1.0; Display "{:8.3}" -1.0; Display "{:08.3}" -1.0; Display "{:+08.3}" 1.0; Display "{:.}" 1.5;
        Display "{:05}" f64::NAN; Display "{:+05}" f64::INFINITY; Display "{:<+8}|" f64::NAN; Display "{:08}" -0.0;
        LowerHex "{:#x}" 255; LowerHex "{:#06x}" 255u8; LowerHex "{:#010x}" -1i8; UpperHex "{:#X}" 255;
        Octal "{:#o}" 8; Binary "{:#b}" 5; Binary "{:#010b}" 5; Binary "{:032b}" -5; LowerHex "{:.3x}" 5;
        LowerExp "{:e}" 1234; LowerExp "{:.2e}" 1235; LowerExp "{:.0e}" 15; UpperExp "{:E}" 1e-7; LowerExp "{:.1e}" 0;
        LowerExp "{:012.2e}|" -1234.5; LowerExp "{:+e}" u128::MAX; LowerExp "{:.40e}" i128::MIN;
        PaddedDebug "{:5?}|" "a"; PaddedDebug "{:05?}" 1; PaddedDebug "{:8?}|" true; PaddedDebug "{:6?}|" ();
        Debug "{:?}" 1e16; Debug "{:?}" 1e15; Debug "{:?}" 1e-5; Debug "{:?}" 1e-4; Debug "{:?}" 1.0f32;
        Debug "{:.1?}" 1e16; Debug "{:x?}" -1i16; Debug "{:#X?}" 255; Debug "{:+?}" 1.0; Debug "{:?}" "\u{301}a\u{301}\n";
        Pointer "{:p}" std::ptr::without_provenance::<u8>(16); Pointer "{:#p}" std::ptr::without_provenance::<u8>(16);
        Pointer "{:30p}|" std::ptr::without_provenance::<u8>(16); Pointer "{:#30p}|" std::ptr::without_provenance::<u8>(16);
        Debug "{:?}" std::ptr::without_provenance::<u8>(0); Debug "{:#?}" std::ptr::without_provenance::<u8>(1);
        Display "{:65535}" 1; Display "{:.65535}" 0.1; Display "{:.400}" f64::from_bits(1); Display "{}" f64::MAX;
    }
}
