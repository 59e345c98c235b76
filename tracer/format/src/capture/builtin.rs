//! Captures of single values (numbers, text, pointers, atomics) and of types that only wrap one.

use std::borrow::Cow;
use std::num::{NonZero, Saturating, Wrapping};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
#[cfg(target_has_atomic = "8")]
use std::sync::atomic::Ordering;
#[cfg(target_has_atomic = "8")]
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicU8};
#[cfg(target_has_atomic = "16")]
use std::sync::atomic::{AtomicI16, AtomicU16};
#[cfg(target_has_atomic = "32")]
use std::sync::atomic::{AtomicI32, AtomicU32};
#[cfg(target_has_atomic = "64")]
use std::sync::atomic::{AtomicI64, AtomicU64};
#[cfg(target_has_atomic = "ptr")]
use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize};

use super::descriptor as d;
use super::signature::Signature;
use super::{Capture, Cursor, TOO_LONG, by};

/// Implements [`Capture`] for a type that is captured as the bytes of another type, `$as`, which has a fixed size. The
/// expression `$bytes` makes an array of these bytes from the value.
macro_rules! fixed {
    ($type:ty, $of:ident, $tag:expr, $as:ty, $value:ident => $bytes:expr) => {
        impl<By: by::$of> Capture<By> for $type {
            const SIGNATURE: u32 = Signature::of($tag).end();
            const SIZE: Option<usize> = Some(size_of::<$as>());

            fn describe(descriptor: &mut Vec<u8>) {
                descriptor.push($tag);
            }

            #[inline(always)]
            fn size(&self) -> usize {
                size_of::<$as>()
            }

            #[inline(always)]
            fn write(&self, to: &mut Cursor<'_>) {
                let $value = self;
                to.put($bytes);
            }
        }
    };
}

/// Implements [`Capture`] for integers and their `NonZero` forms.
macro_rules! integers {
    ($($type:ty: $tag:expr, $as:ty;)*) => { $(
        fixed!($type, OfInteger, $tag, $as, value => (*value as $as).to_le_bytes());
        fixed!(NonZero<$type>, OfInteger, $tag, $as, value => (value.get() as $as).to_le_bytes());
    )* };
}

integers! {
    i8: d::I8, i8;
    i16: d::I16, i16;
    i32: d::I32, i32;
    i64: d::I64, i64;
    i128: d::I128, i128;
    isize: d::ISIZE, d::Isize;
    u8: d::U8, u8;
    u16: d::U16, u16;
    u32: d::U32, u32;
    u64: d::U64, u64;
    u128: d::U128, u128;
    usize: d::USIZE, d::Usize;
}

fixed!(f32, OfFloat, d::F32, f32, value => value.to_le_bytes());
fixed!(f64, OfFloat, d::F64, f64, value => value.to_le_bytes());
fixed!(bool, OfText, d::BOOL, u8, value => [u8::from(*value)]);
fixed!(char, OfText, d::CHAR, u32, value => u32::from(*value).to_le_bytes());

/// Implements [`Capture`] for atomics. Only `{:?}` and its variants print an atomic. The captured value is the one that
/// the atomic has at the call.
macro_rules! atomics {
    ($width:literal: $($type:ty: $tag:expr, $as:ty, $value:ident => $bytes:expr;)*) => { $(
        #[cfg(target_has_atomic = $width)]
        fixed!($type, OfDebug, $tag, $as, atomic => {
            let $value = atomic.load(Ordering::Relaxed);
            $bytes
        });
    )* };
}

atomics! { "8":
    AtomicBool: d::BOOL, u8, value => [u8::from(value)];
    AtomicI8: d::I8, i8, value => value.to_le_bytes();
    AtomicU8: d::U8, u8, value => value.to_le_bytes();
}
atomics! { "16":
    AtomicI16: d::I16, i16, value => value.to_le_bytes();
    AtomicU16: d::U16, u16, value => value.to_le_bytes();
}
atomics! { "32":
    AtomicI32: d::I32, i32, value => value.to_le_bytes();
    AtomicU32: d::U32, u32, value => value.to_le_bytes();
}
atomics! { "64":
    AtomicI64: d::I64, i64, value => value.to_le_bytes();
    AtomicU64: d::U64, u64, value => value.to_le_bytes();
}
atomics! { "ptr":
    AtomicIsize: d::ISIZE, d::Isize, value => (value as d::Isize).to_le_bytes();
    AtomicUsize: d::USIZE, d::Usize, value => (value as d::Usize).to_le_bytes();
}

/// A width or a precision that is an argument of a format string. If its value does not fit into 16 bits, the message
/// is formatted at the call, because the text that std prints for such a value depends on the version of std.
impl Capture<by::Count> for usize {
    const SIGNATURE: u32 = Signature::of(d::U64).end();

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::U64);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        if *self > usize::from(u16::MAX) { TOO_LONG } else { 8 }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        to.put((*self as u64).to_le_bytes());
    }
}

impl<By: by::OfText> Capture<By> for str {
    const SIGNATURE: u32 = Signature::of(d::STR).end();

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::STR);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        // The sum does not overflow: no text is longer than `isize::MAX` bytes.
        self.len() + 2
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        to.put_length(self.len());
        to.put_slice(self.as_bytes());
    }
}

/// Implements [`Capture`] for `()`, for `{:?}` without and with a width: std pads the text `()` as a whole.
macro_rules! unit {
    ($($by:ident)*) => { $(
        impl Capture<by::$by> for () {
            const SIGNATURE: u32 = Signature::of(d::VOID).end();

            fn describe(descriptor: &mut Vec<u8>) {
                descriptor.push(d::VOID);
            }

            #[inline(always)]
            fn size(&self) -> usize {
                0
            }

            #[inline(always)]
            fn write(&self, _to: &mut Cursor<'_>) {}
        }
    )* };
}

unit!(Debug PaddedDebug);

/// Implements [`Capture`] for a type that prints like its inner value, such as a `Box`. The expression `$reached` gets
/// the inner value from the outer one.
macro_rules! transparent {
    ($([$($generics:tt)*] $by:ident, $type:ty => $inner:ty, $value:ident => $reached:expr;)*) => { $(
        impl<$($generics)*> Capture<$by> for $type {
            const SIGNATURE: u32 = <$inner as Capture<$by>>::SIGNATURE;
            const SIZE: Option<usize> = <$inner as Capture<$by>>::SIZE;

            fn describe(descriptor: &mut Vec<u8>) {
                <$inner as Capture<$by>>::describe(descriptor);
            }

            #[inline(always)]
            fn size(&self) -> usize {
                let $value = self;
                <$inner as Capture<$by>>::size($reached)
            }

            #[inline(always)]
            fn write(&self, to: &mut Cursor<'_>) {
                let $value = self;
                <$inner as Capture<$by>>::write($reached, to);
            }
        }
    )* };
}

transparent! {
    [By: by::OfValue, T: Capture<By> + ?Sized] By, &T => T, value => value;
    [By: by::OfValue, T: Capture<By> + ?Sized] By, &mut T => T, value => value;
    [By: by::OfValue, T: Capture<By> + ?Sized] By, Box<T> => T, value => value;
    [By: by::OfValue, T: Capture<By> + ?Sized] By, Rc<T> => T, value => value;
    [By: by::OfValue, T: Capture<By> + ?Sized] By, Arc<T> => T, value => value;
    [By: by::OfValue, T: Capture<By>] By, Wrapping<T> => T, value => &value.0;
    [By: by::OfValue, T: Capture<By>] By, Saturating<T> => T, value => &value.0;
    [By: by::OfText] By, String => str, value => value;
    [By: by::OfText] By, Cow<'_, str> => str, value => value;
}

pub(super) use transparent;

/// Implements [`Capture`] for pointers and references, for the formatting traits that print an address.
macro_rules! pointers {
    ($($(#[$attribute:meta])? [$($generics:tt)*] $by:ty, $type:ty, $value:ident => $address:expr;)*) => { $(
        $(#[$attribute])?
        impl<$($generics)*> Capture<$by> for $type {
            const SIGNATURE: u32 = Signature::of(d::POINTER).end();
            const SIZE: Option<usize> = Some(size_of::<d::Usize>());

            fn describe(descriptor: &mut Vec<u8>) {
                descriptor.push(d::POINTER);
            }

            #[inline(always)]
            fn size(&self) -> usize {
                size_of::<d::Usize>()
            }

            #[inline(always)]
            fn write(&self, to: &mut Cursor<'_>) {
                let $value = self;
                to.put(($address.cast::<()>().addr() as d::Usize).to_le_bytes());
            }
        }
    )* };
}

// Only pointers to sized types implement this for Debug: for others, Debug may print more than an address.
pointers! {
    [By: by::OfPointer, T] By, *const T, value => value;
    [By: by::OfPointer, T] By, *mut T, value => value;
    [By: by::OfPointer, T] By, NonNull<T>, value => value.as_ptr();
    #[cfg(target_has_atomic = "ptr")]
    [By: by::OfPointer, T] By, AtomicPtr<T>, value => value.load(Ordering::Relaxed);
    [T: ?Sized] by::Pointer, &T, value => std::ptr::from_ref::<T>(value);
    [T: ?Sized] by::Pointer, &mut T, value => std::ptr::from_ref::<T>(value);
    [T: ?Sized] by::Pointer, Box<T>, value => std::ptr::from_ref::<T>(value);
    [T: ?Sized] by::Pointer, Rc<T>, value => std::ptr::from_ref::<T>(value);
    [T: ?Sized] by::Pointer, Arc<T>, value => std::ptr::from_ref::<T>(value);
}
