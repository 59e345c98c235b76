//! What the macros of `tracer-macros` call. Nothing here is for people: it changes with the macros.
//!
//! Runs on traced threads, between [`Site::word`] and the record: everything is inlined, so that where the
//! types of a call are known, its size is a constant and its copy a few stores.
//!
//! # Which arguments are captured
//!
//! `Arg::<By, _>::new(&value).__tracer_capture()` is looked up by the compiler as every method is. `Arg` has
//! one if the type is [`Capture<By>`]; it gives [`Captured`]. If not, the compiler goes on to what `Arg`
//! derefs to, [`Uncapturable`], whose method gives [`NotCaptured`]. The method's name is one that no trait of
//! a user has.

#[cfg(feature = "unwind")]
pub use crate::api::called_from::Question;
pub use crate::ring::Arguments;
pub use crate::shared::sites::{Call, Place, Site};
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
pub use crate::stack::on_return::on_return;
pub use crate::stack::{End, Registers, Walk, walk};
pub use crate::traced::scope::AsyncCall;
pub use crate::traced::stack_record::record_stack_of_message;
pub use trace_format::capture::signature::Signature;
pub use trace_format::capture::{Capture, Cursor, by, descriptor};
pub use trace_format::line::Ticks;
pub use trace_format::sites::SiteKind;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// Calls `body`. What is asked for by `FnOnce` may give away what it has captured, references into `&mut self`
/// for one; a closure that is called where it stands may not.
#[inline(always)]
pub fn call_once<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Returns nothing, of a certain type.
#[inline(always)]
#[must_use]
pub fn none<T>() -> Option<T> {
    None
}

/// An argument of a call, and how it is to be formatted.
pub struct Arg<'a, By, T: ?Sized>(&'a T, PhantomData<By>);

impl<'a, By, T: ?Sized> Arg<'a, By, T> {
    /// Makes the argument behind `value`.
    #[inline(always)]
    #[must_use]
    pub fn new(value: &'a T) -> Arg<'a, By, T> {
        Arg(value, PhantomData)
    }
}

impl<'a, By, T: Capture<By> + ?Sized> Arg<'a, By, T> {
    /// Gives the argument as it goes into a record.
    #[inline(always)]
    #[must_use]
    pub fn __tracer_capture(&self) -> Captured<'a, By, T> {
        Captured(self.0, PhantomData)
    }
}

impl<By, T: ?Sized> Deref for Arg<'_, By, T> {
    type Target = Uncapturable;

    #[inline(always)]
    fn deref(&self) -> &Uncapturable {
        &Uncapturable
    }
}

/// An argument that cannot be captured.
#[derive(Clone, Copy, Debug)]
pub struct Uncapturable;

impl Uncapturable {
    /// Says that the argument does not go into a record.
    #[inline(always)]
    #[must_use]
    pub fn __tracer_capture(&self) -> NotCaptured {
        NotCaptured
    }
}

/// An argument that goes into a record.
pub struct Captured<'a, By, T: ?Sized>(&'a T, PhantomData<By>);

/// An argument that does not go into a record: its call formats the message.
#[derive(Clone, Copy, Debug)]
pub struct NotCaptured;

impl<By, T: ?Sized> fmt::Debug for Arg<'_, By, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Arg")
    }
}

impl<By, T: ?Sized> fmt::Debug for Captured<'_, By, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Captured")
    }
}

impl<By, T: Capture<By> + ?Sized> Arguments for Captured<'_, By, T> {
    const CAPTURED: bool = true;
    const SIGNATURE: u32 = T::SIGNATURE;

    #[inline(always)]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        self.0.write(to);
    }

    fn describe(descriptor: &mut Vec<u8>) {
        T::describe(descriptor);
    }
}

impl Arguments for NotCaptured {
    const CAPTURED: bool = false;
    const SIGNATURE: u32 = NO_SIGNATURE;

    #[inline(always)]
    fn size(&self) -> usize {
        0
    }

    #[inline(always)]
    fn write(&self, _to: &mut Cursor<'_>) {}

    fn describe(_descriptor: &mut Vec<u8>) {}
}

/// The signature of what is not captured; nobody asks for it.
const NO_SIGNATURE: u32 = 1;

/// The first byte of what the signature of a call is made from.
const CALL: u8 = b'(';

/// The parts of a tuple may be tuples themselves: a call may have more arguments than there are tuples here.
macro_rules! tuples {
    ($($($part:ident $field:tt)*;)*) => { $(
        impl<$($part: Arguments),*> Arguments for ($($part,)*) {
            const CAPTURED: bool = true $(&& $part::CAPTURED)*;
            const SIGNATURE: u32 = Signature::of(CALL)$(.part($part::SIGNATURE))*.end();

            #[inline(always)]
            fn size(&self) -> usize {
                0usize$(.saturating_add(self.$field.size()))*
            }

            #[inline(always)]
            fn write(&self, _to: &mut Cursor<'_>) {
                $(self.$field.write(_to);)*
            }

            fn describe(_descriptor: &mut Vec<u8>) {
                $($part::describe(_descriptor);)*
            }
        }
    )* };
}

tuples! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
}
