//! Tests of values that consist of other values, which the `Debug` helpers of std print.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;
#[cfg(unix)]
use std::time::SystemTime;

use super::values::{Draw, Drawn};
use super::{Entry, cases, draw_and_compare, leaf};
use crate::capture::tests::bytes_of;
use crate::capture::tests::types::{Kinds, Named, Nothing, Tuple, Unit};
use crate::capture::{Capture, by};

/// Returns the format strings to compare, without a width: fill, alignment and `0` have no effect then.
fn table() -> Vec<Entry<dyn Debug>> {
    macro_rules! flags {
        ($($flags:literal)*) => {
            [$(
                leaf!(dyn Debug, "?", $flags),
                leaf!(dyn Debug, "x?", $flags),
                leaf!(dyn Debug, "X?", $flags),
            )*]
        };
    }
    let all = flags!("" "0" "#" "#0" "+" "+0" "+#" "+#0" "-" "*^" "é<#" "🦀>+#0");
    all.into_iter().flatten().filter(|entry| !entry.width).collect()
}

impl<T: Drawn> Drawn for Named<'static, T> {
    fn draw(from: &mut Draw) -> Self {
        Named {
            id: T::draw(from), r#type: from.pick(&["", "plain", "\"quoted\"", "two\nlines", "größe 🦀"])
        }
    }
}

impl<T: Drawn> Drawn for Tuple<T> {
    fn draw(from: &mut Draw) -> Self {
        Tuple(T::draw(from), f64::draw(from))
    }
}

impl Drawn for Unit {
    fn draw(_: &mut Draw) -> Self {
        Unit
    }
}

impl Drawn for Nothing {
    fn draw(_: &mut Draw) -> Self {
        Nothing {}
    }
}

impl<T: Drawn> Drawn for Kinds<T> {
    fn draw(from: &mut Draw) -> Self {
        match from.below(0..5) {
            0 => Kinds::Unit,
            1 => Kinds::Tuple(T::draw(from), u8::draw(from)),
            2 => Kinds::Named { x: T::draw(from), unit: Unit },
            3 => Kinds::NoFields(),
            _ => Kinds::NoNames {},
        }
    }
}

#[test]
fn composites_are_as_format_prints_them() {
    let table = table();
    macro_rules! types {
        ($cases:expr; $($type:ty;)*) => {{
            let types = [$(stringify!($type)),*].len();
            $(draw_and_compare::<by::Debug, $type, dyn Debug>(&table, |v| v, $cases / types);)*
        }};
    }
    types! {
        cases(20_000);
        Option<u32>; Option<String>; Option<Option<()>>; Result<i8, String>; Result<(), char>; Option<*const u8>;
        (i64,); (f32, f64); (u8, bool, char); ((), ((),), (((),),)); (i128, u128, (usize, isize), [char; 2]);
        (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, Option<u8>);
        Vec<u16>; Vec<String>; Vec<Vec<()>>; Vec<Option<(f64, i16)>>; Vec<()>; [(); 5]; [[u8; 0]; 3]; [i32; 4];
        Unit; Nothing; Tuple<i32>; Named<'static, u64>; Kinds<i8>; Kinds<Vec<Kinds<Option<Tuple<Unit>>>>>;
        Vec<Unit>; Vec<(Unit, Nothing)>; [Named<'static, Named<'static, Unit>>; 2]; Result<Kinds<f32>, Vec<bool>>;
        [Vec<[Option<Result<(u8, String), Named<'static, char>>>; 2]>; 2];
        Option<Duration>; Vec<Duration>; (IpAddr, Option<SocketAddr>); [SocketAddrV4; 2]; Result<PathBuf, Tuple<Duration>>;
    }
    #[cfg(unix)]
    types! { cases(1_000); SystemTime; Vec<(SystemTime, Duration)>; }
}

#[test]
fn composites_next_to_other_arguments_keep_their_places() {
    let (vector, option, pair) = (vec![Unit; 3], Some("x"), (1.5, [(); 2]));
    let mut descriptor = Vec::new();
    let mut payload = Vec::new();
    fn add<By, T: Capture<By>>(value: &T, descriptor: &mut Vec<u8>, payload: &mut Vec<u8>) {
        T::describe(descriptor);
        payload.extend(bytes_of(value));
    }
    add::<by::Debug, _>(&vector, &mut descriptor, &mut payload);
    add::<by::Count, _>(&9usize, &mut descriptor, &mut payload);
    add::<by::Debug, _>(&option, &mut descriptor, &mut payload);
    add::<by::Display, _>(&"end", &mut descriptor, &mut payload);
    add::<by::Debug, _>(&pair, &mut descriptor, &mut payload);
    let plan = super::SitePlan::new("{3:>1$} {0:?} {2:?} {4:.1?} {3} {0:#?}", &descriptor).unwrap();
    let mut out = Vec::new();
    plan.render(&payload, &mut out).unwrap();
    let expected = format!("{3:>1$} {0:?} {2:?} {4:.1?} {3} {0:#?}", vector, 9, option, "end", pair);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
