//! Types with `derive(Capture)` are rendered as `derive(Debug)` prints them.

#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fmt::Debug;
use trace_format::fields::SitePlan;
use tracer::Capture as DeriveCapture;
use tracer::capture::{Capture, Cursor, by};

/// Captures and renders a value, and compares with `format!`.
#[track_caller]
fn check<T: Capture<by::Debug> + Debug>(value: &T) {
    let mut payload = vec![0; value.size()];
    let mut cursor = Cursor::new(&mut payload);
    value.write(&mut cursor);
    assert!(!cursor.is_full() && cursor.remaining() == 0, "{value:?}");
    let mut descriptor = Vec::new();
    T::describe(&mut descriptor);
    assert!(T::SIGNATURE != 0 && T::SIGNATURE != u32::MAX);
    let render = |format| {
        let mut text = Vec::new();
        SitePlan::new(format, &descriptor).unwrap().render(&payload, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(render("{0:?}"), format!("{value:?}"));
    assert_eq!(render("{0:#?}"), format!("{value:#?}"));
    assert_eq!(render("{0:.1?} {0:+x?}"), format!("{value:.1?} {value:+x?}"));
}

#[derive(Debug, DeriveCapture)]
struct Unit;

#[derive(Debug, DeriveCapture)]
struct EmptyTuple();

#[derive(Debug, DeriveCapture)]
struct EmptyNamed {}

#[derive(Debug, DeriveCapture)]
struct Tuple(u8, String, (f64, char));

#[derive(Clone, Debug, DeriveCapture)]
struct Named {
    number: i64,
    r#type: Option<&'static str>,
    _größe: [u16; 3],
}

#[test]
fn structs_of_every_kind_print_like_debug() {
    check(&Unit);
    check(&EmptyTuple());
    check(&EmptyNamed {});
    check(&Tuple(1, "text\n".to_owned(), (-0.0, '\'')));
    check(&Named { number: i64::MIN, r#type: Some("\u{301}"), _größe: [1, 2, 3] });
    check(&[Unit, Unit]);
}

#[derive(Debug, DeriveCapture)]
#[allow(dead_code)]
#[repr(u8)]
enum Kinds {
    Nothing,
    NoTuple(),
    NoFields {},
    One(Unit) = 7,
    Two(Result<u32, String>, Vec<Named>),
    Named { x: f32, to: Box<(u8, &'static [bool])>, value: Unit },
    r#Raw { r#fn: usize },
}

#[derive(Debug, DeriveCapture)]
enum Never {}

#[test]
fn enums_of_every_kind_print_like_debug() {
    let named = Named { number: 1, r#type: None, _größe: [0; 3] };
    check(&[Kinds::Nothing, Kinds::NoTuple(), Kinds::NoFields {}]);
    check(&Kinds::One(Unit));
    check(&Kinds::Two(Ok(1), vec![named.clone(), named]));
    check(&Kinds::Two(Err("no".to_owned()), vec![]));
    check(&Kinds::Named { x: f32::NAN, to: Box::new((1, &[true, false])), value: Unit });
    check(&Some(Kinds::Raw { r#fn: 2 }));
    check(&None::<Never>);
    check(&Ok::<u8, Never>(1));
}

trait Named2 {
    type Name;
}

impl Named2 for u8 {
    type Name = char;
}

#[derive(Debug, DeriveCapture)]
struct Generic<'a, T, U: ?Sized, const N: usize = 2>
where
    T: Clone,
{
    array: [T; N],
    borrowed: &'a U,
    boxed: Box<U>,
}

#[derive(Debug, DeriveCapture)]
struct Associated<T: Named2>(T, T::Name, Option<<T as Named2>::Name>)
where
    <T as Named2>::Name: Debug;

#[derive(Debug, DeriveCapture)]
enum Either<L, R = ()> {
    Left(L),
    Right { value: R },
}

#[test]
fn generic_types_print_like_debug() {
    check(&Generic::<_, str> { array: [1, 2], borrowed: "a", boxed: "b".into() });
    check(&Generic { array: [Some("a")], borrowed: &[1, 2][..], boxed: vec![3].into() });
    check(&Associated(1u8, 'a', Some('b')));
    check(&[Either::Left(1.5), Either::Right { value: Unit }]);
    check(&Either::<u8>::Right { value: () });
}

#[derive(Clone, Copy, Debug, DeriveCapture)]
#[repr(C, packed(1))]
struct Packed {
    small: u8,
    large: u64,
}

#[derive(Clone, Copy, Debug, DeriveCapture)]
#[repr(C, packed)]
struct PackedTuple<T: Copy>(u8, T);

#[test]
fn packed_structs_print_like_debug() {
    check(&Packed { small: 1, large: u64::MAX });
    check(&PackedTuple(1, -1));
}

mod hostile {
    //! Items that have the names of those that the macro's code uses, but are others.
    #![allow(non_camel_case_types, unused)]

    struct Vec;
    struct u8;
    struct u32;
    struct usize;
    mod core {}
    mod std {}
    mod tracer {}

    #[derive(Debug, super::DeriveCapture)]
    pub(crate) struct Strange {
        pub(crate) __to: i8,
        pub(crate) value: i8,
        pub(crate) size: i8,
    }
}

#[test]
fn types_among_strange_names_print_like_debug() {
    check(&hostile::Strange { __to: 1, value: 2, size: 3 });
}

#[test]
fn types_that_print_differently_have_different_signatures() {
    mod other {
        #[derive(super::DeriveCapture)]
        pub(crate) struct Unit;
        #[derive(super::DeriveCapture)]
        pub(crate) struct Tuple(u8, String, (f64, char));
        #[derive(super::DeriveCapture)]
        #[allow(dead_code)]
        pub(crate) enum Either<L, R = ()> {
            Left(L),
            Right { other: R },
        }
    }
    fn signature<T: Capture<by::Debug>>() -> u32 {
        T::SIGNATURE
    }
    assert_eq!(signature::<Unit>(), signature::<other::Unit>());
    assert_eq!(signature::<Tuple>(), signature::<&other::Tuple>());
    let different = [
        signature::<Unit>(),
        signature::<EmptyTuple>(),
        signature::<Tuple>(),
        signature::<Either<u8>>(),
        signature::<Either<u8, u8>>(),
        signature::<other::Either<u8>>(),
        signature::<Never>(),
        signature::<()>(),
    ];
    for (i, one) in different.iter().enumerate() {
        assert!(!different[..i].contains(one), "{i}");
    }
}
