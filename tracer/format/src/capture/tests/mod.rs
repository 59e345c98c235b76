//! Tests of captured types: each value writes exactly `size()` bytes, descriptors parse, signatures differ.

pub(crate) mod types;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZero, Saturating, Wrapping};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicUsize};
use std::time::Duration;

use proptest::prelude::*;
use types::{Kinds, Named, Never, Nothing, Tuple, Unit};

use super::descriptor::{self, Composite, DescriptorError, FieldTypes, MAX_DEPTH, Scalar, Type};
use super::{Capture, Cursor, by};
use crate::record::MAX_PAYLOAD;

/// Returns the bytes of a value, after checking that their number is `size()`.
pub(crate) fn bytes_of<By, T: Capture<By> + ?Sized>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0xaa; value.size() + 1];
    let mut cursor = Cursor::new(&mut bytes);
    value.write(&mut cursor);
    let end = (cursor.remaining(), cursor.is_full());
    assert_eq!(end, (1, false), "size() is {}", bytes.len() - 1);
    bytes.pop();
    bytes
}

/// Returns the bytes of a value as [`bytes_of`] does, and also checks that the cursor is full if it has less room than
/// the value takes.
fn checked_bytes_of<By, T: Capture<By> + ?Sized>(value: &T) -> Vec<u8> {
    let bytes = bytes_of(value);
    for short in 0..bytes.len() {
        let mut less = vec![0; short];
        let mut cursor = Cursor::new(&mut less);
        value.write(&mut cursor);
        assert!(cursor.is_full());
    }
    bytes
}

fn descriptor_of<By, T: Capture<By> + ?Sized>() -> Vec<u8> {
    let mut descriptor = Vec::new();
    T::describe(&mut descriptor);
    assert_eq!(descriptor::parse(&descriptor).map(|types| types.len()), Ok(1));
    descriptor
}

#[test]
fn bytes_are_as_documented() {
    assert_eq!(checked_bytes_of::<by::Display, _>(&-2i16), [0xfe, 0xff]);
    assert_eq!(checked_bytes_of::<by::LowerHex, _>(&0x0102_0304_u32), [4, 3, 2, 1]);
    assert_eq!(checked_bytes_of::<by::Display, _>(&1usize), [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(checked_bytes_of::<by::Count, _>(&300usize), [44, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(checked_bytes_of::<by::Display, _>(&1.0f32), [0, 0, 0x80, 0x3f]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&true), [1]);
    assert_eq!(checked_bytes_of::<by::Display, _>(&'é'), [0xe9, 0, 0, 0]);
    assert_eq!(checked_bytes_of::<by::PaddedDebug, _>("é"), [2, 0, 0xc3, 0xa9]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&()), []);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Some(7u8)), [1, 7]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&None::<u8>), [0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Ok::<u8, u16>(7)), [0, 7]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Err::<u8, u16>(7)), [1, 7, 0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&(1u8, "a", ())), [1, 1, 0, b'a']);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&[1u8, 2][..]), [2, 0, 1, 2]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&[1u8, 2]), [1, 2]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&[&true, &false][..]), [2, 0, 1, 0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&[Some(1u16), None]), [1, 1, 0, 0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&[Unit, Unit]), [0, 0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&vec![(); 3]), [3, 0, 0, 0, 0]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Kinds::Tuple(1u8, 2)), [1, 0, 1, 2]);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Named { id: 1u8, r#type: "b" }), [1, 1, 0, b'b']);
    assert_eq!(checked_bytes_of::<by::Debug, _>(&Duration::new(2, 3)), [2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(checked_bytes_of::<by::Display, _>(&Ipv4Addr::new(1, 2, 3, 4)), [4, 1, 2, 3, 4]);
    let socket: SocketAddr = "1.2.3.4:258".parse().unwrap();
    assert_eq!(checked_bytes_of::<by::Display, _>(&socket), [4, 1, 2, 3, 4, 2, 1]);
    let socket: SocketAddr = "[1::2%3]:258".parse().unwrap();
    let expected = [6, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0, 3, 0, 0, 0];
    assert_eq!(checked_bytes_of::<by::Display, _>(&socket), expected);
    let place = std::ptr::without_provenance::<u8>(0x1234);
    assert_eq!(checked_bytes_of::<by::Pointer, _>(&place), [0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    let reference: &str = "text";
    assert_eq!(
        checked_bytes_of::<by::Pointer, _>(&reference),
        (reference.as_ptr().addr() as u64).to_le_bytes()
    );
}

#[test]
fn a_wrapped_value_is_captured_like_the_value() {
    macro_rules! same {
        ($by:ident, $value:expr, $($wrapped:expr),*) => {{
            fn both<By, A: Capture<By> + ?Sized, B: Capture<By> + ?Sized>(a: &A, b: &B) {
                assert_eq!(bytes_of(a), bytes_of(b));
                assert_eq!(descriptor_of::<By, A>(), descriptor_of::<By, B>());
                assert_eq!(A::SIGNATURE, B::SIGNATURE);
            }
            $(both::<by::$by, _, _>($value, &$wrapped);)*
        }};
    }
    let mut seven = 7u32;
    same!(LowerHex, &7u32, &&7u32, &mut seven, Wrapping(7u32), Saturating(7u32), NonZero::new(7u32).unwrap());
    same!(Debug, &7u32, Box::new(7u32), Rc::new(7u32), Arc::new(&7u32));
    same!(Display, "ab", "ab", String::from("ab"), Cow::Borrowed("ab"), Box::<str>::from("ab"), &&"ab");
    same!(Debug, &[1u8, 2][..], vec![1u8, 2], &[1u8, 2][..], Box::<[u8]>::from([1, 2]));
    let place = &raw mut seven;
    same!(Pointer, &place, place.cast_const(), NonNull::new(place).unwrap());
    same!(PaddedDebug, &place, place.cast_const());
    same!(Debug, &7u8, AtomicU8::new(7));
    same!(PaddedDebug, &7usize, AtomicUsize::new(7));
    same!(Debug, &-7i64, AtomicI64::new(-7));
    same!(Debug, &true, AtomicBool::new(true));
    same!(Pointer, &place, AtomicPtr::new(place));
    same!(Debug, "a/b", Path::new("a/b"), PathBuf::from("a/b"), OsStr::new("a/b"), OsString::from("a/b"));
    same!(Debug, "a/b", Cow::Borrowed(Path::new("a/b")), Box::<OsStr>::from(OsStr::new("a/b")));
    same!(Display, &IpAddr::from([1; 4]), Ipv4Addr::from([1; 4]));
    same!(Display, &IpAddr::from([1; 16]), Ipv6Addr::from([1; 16]));
    let boxed = Rc::new(5u8);
    same!(Pointer, &boxed, &*boxed, Rc::as_ptr(&boxed));
}

#[test]
#[cfg_attr(miri, ignore = "Miri would take minutes for the length of each value")]
fn values_that_are_too_long_are_reported() {
    let long = "x".repeat(MAX_PAYLOAD + 1);
    assert!(Capture::<by::Display>::size(&long) > MAX_PAYLOAD);
    assert!(vec![(); MAX_PAYLOAD + 1].size() > MAX_PAYLOAD);
    assert!([[(); 1000]; 1000].size() > MAX_PAYLOAD);
    assert!([const { [(); usize::MAX] }; 3].size() > MAX_PAYLOAD);
    assert!(Capture::<by::Count>::size(&(MAX_PAYLOAD + 1)) > MAX_PAYLOAD);
    assert_eq!(Capture::<by::Count>::size(&MAX_PAYLOAD), 8);

    let apostrophe = Path::new("it's");
    assert!(Capture::<by::Debug>::size(apostrophe) > MAX_PAYLOAD);
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        assert!(Capture::<by::Debug>::size(OsStr::from_bytes(b"a\xff")) > MAX_PAYLOAD);
    }

    let mut room = vec![0; 2 * MAX_PAYLOAD];
    let mut cursor = Cursor::new(&mut room);
    Capture::<by::Display>::write(&long, &mut cursor);
    assert!(cursor.is_full());
    assert!(room.iter().all(|&byte| byte == 0));
}

#[test]
fn a_value_without_room_stops_all_further_writing() {
    let mut room = [0; 5];
    let mut cursor = Cursor::new(&mut room);
    cursor.put([1, 2]);
    cursor.put([3, 4, 5, 6]);
    cursor.put([7]);
    cursor.put_slice(&[8]);
    assert!(cursor.is_full());
    assert_eq!(room, [1, 2, 0, 0, 0]);
}

#[test]
fn signatures_distinguish_types() {
    macro_rules! types {
        ($into:ident: $($type:ty),*) => { $into.extend([$((
            <$type as Capture<by::Debug>>::SIGNATURE, descriptor_of::<by::Debug, $type>()
        )),*]) };
    }
    let mut seen = Vec::new();
    types!(seen: i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64, bool, char, str, (), *const u8, Duration, IpAddr, SocketAddr);
    types!(seen: Option<u8>, Option<Option<u8>>, Option<i8>, Result<u8, u16>, Result<u16, u8>, Result<u8, u8>);
    types!(seen: [u8], [[u8; 2]], [u8; 1], [u8; 2], [u16; 1], [(); 1], [[u8; 2]; 1], [[u8; 1]; 2]);
    types!(seen: (u8,), (u8, u8), ((u8,), u8), ((u8, u8),), (u8, (u8,)), (u8, u16), (u16, u8));
    types!(seen: Unit, Nothing, Never, Tuple<u8>, Tuple<u16>, Named<'static, u8>, Named<'static, u16>);
    types!(seen: Kinds<u8>, Kinds<u16>, Kinds<Kinds<u8>>);
    types!(seen: (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8), (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8));
    for (at, (signature, descriptor)) in seen.iter().enumerate() {
        assert!(!matches!(*signature, 0 | u32::MAX));
        for (other, other_descriptor) in &seen[..at] {
            assert_ne!(signature, other);
            assert_ne!(descriptor, other_descriptor);
        }
    }
    assert_eq!(<usize as Capture<by::Count>>::SIGNATURE, <u64 as Capture<by::Debug>>::SIGNATURE);
    assert_ne!(<&str as Capture<by::Pointer>>::SIGNATURE, <&str as Capture<by::Debug>>::SIGNATURE);
}

/// Appends the descriptor of `ty`: the reverse of the parser.
pub(crate) fn write_type(ty: &Type, to: &mut Vec<u8>) {
    match ty {
        Type::Scalar(scalar) => to.push(scalar.tag()),
        Type::Option(inner) => {
            to.push(descriptor::OPTION);
            write_type(inner, to);
        }
        Type::Result(either) => {
            to.push(descriptor::RESULT);
            either.iter().for_each(|ty| write_type(ty, to));
        }
        Type::Slice(inner) => {
            to.push(descriptor::SLICE);
            write_type(inner, to);
        }
        Type::Array(count, inner) => {
            to.push(descriptor::ARRAY);
            to.extend(count.to_le_bytes());
            write_type(inner, to);
        }
        Type::Struct(shape) => write_shape(shape, to),
        Type::Enum(variants) => {
            descriptor::variants(to, variants.len() as u16);
            variants.iter().for_each(|shape| write_shape(shape, to));
        }
    }
}

fn write_shape(shape: &Composite, to: &mut Vec<u8>) {
    match &shape.fields {
        FieldTypes::None => descriptor::unit(to, &shape.name),
        FieldTypes::Tuple(types) => {
            descriptor::tuple(to, &shape.name, types.len() as u16);
            types.iter().for_each(|ty| write_type(ty, to));
        }
        FieldTypes::Named(fields) => {
            descriptor::named(to, &shape.name, fields.len() as u16);
            for (name, ty) in fields {
                descriptor::name(to, name);
                write_type(ty, to);
            }
        }
    }
}

pub(crate) fn any_type() -> impl Strategy<Value = Type> {
    let scalar = prop::sample::select(Scalar::ALL.to_vec()).prop_map(Type::Scalar);
    scalar.prop_recursive(5, 30, 4, |ty| {
        let name = || "[A-Za-zé]{0,5}".prop_map(String::into_boxed_str);
        let types = prop::collection::vec(ty.clone(), 0..4).prop_map(Vec::into_boxed_slice);
        let named = prop::collection::vec((name(), ty.clone()), 0..4).prop_map(Vec::into_boxed_slice);
        let fields = prop_oneof![
            Just(FieldTypes::None),
            types.prop_map(FieldTypes::Tuple),
            named.prop_map(FieldTypes::Named)
        ];
        let shape = (name(), fields).prop_map(|(name, fields)| Composite { name, fields });
        prop_oneof![
            ty.clone().prop_map(|ty| Type::Option(ty.into())),
            [ty.clone(), ty.clone()].prop_map(|either| Type::Result(either.into())),
            ty.clone().prop_map(|ty| Type::Slice(ty.into())),
            (0u32..9, ty).prop_map(|(count, ty)| Type::Array(count, ty.into())),
            shape.clone().prop_map(Type::Struct),
            prop::collection::vec(shape, 0..4).prop_map(|shapes| Type::Enum(shapes.into())),
        ]
    })
}

#[test]
fn types_that_are_nested_too_deep_are_refused() {
    let deep = |depth: usize| [vec![descriptor::OPTION; depth - 1], vec![descriptor::U8]].concat();
    assert!(descriptor::parse(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(descriptor::parse(&deep(MAX_DEPTH + 1)), Err(DescriptorError::TooDeep));
    assert_eq!(descriptor::parse(&deep(100_000)), Err(DescriptorError::TooDeep));
    assert_eq!(descriptor::parse(b"yz"), Err(DescriptorError::UnknownTag(b'z')));
    assert_eq!(descriptor::parse(b"U\x02\0a"), Err(DescriptorError::Cut));
    assert_eq!(descriptor::parse(b"U\x01\0\xff"), Err(DescriptorError::NotText));
    assert_eq!(descriptor::parse(b"E\x01\0y"), Err(DescriptorError::UnknownTag(b'y')));
}

proptest! {
    #[test]
    fn descriptors_parse_back_and_no_prefix_of_one_type_does(types in prop::collection::vec(any_type(), 1..4)) {
        let mut bytes = Vec::new();
        types.iter().for_each(|ty| write_type(ty, &mut bytes));
        prop_assert_eq!(descriptor::parse(&bytes), Ok(types.clone()));
        let mut one = Vec::new();
        write_type(&types[0], &mut one);
        for cut in 1..one.len() {
            prop_assert_eq!(descriptor::parse(&one[..cut]), Err(DescriptorError::Cut));
        }
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(
        bytes in prop_oneof![
            any::<Vec<u8>>(),
            prop::collection::vec(prop::sample::select(b"lyedDIKORSAUTNE\0\x01\x02".to_vec()), 0..60),
        ]
    ) {
        if let Ok(types) = descriptor::parse(&bytes) {
            let mut written = Vec::new();
            types.iter().for_each(|ty| write_type(ty, &mut written));
            prop_assert_eq!(written, bytes);
        }
    }
}
