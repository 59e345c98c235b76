//! Functions and types for the output of the macros of `tracer-macros`. Not for users: it changes with the macros.
//!
//! Runs on traced threads, between [`Site::word`] and the record: everything is inlined into the call, where the
//! types are known, so that its size is a constant and its copy a few stores.
//!
//! # Which arguments are captured
//!
//! The compiler looks up `Arg::<By, _>::new(&value).__tracer_capture()` like any method. `Arg` has the method if the
//! type is [`Capture<By>`]; it returns [`Captured`]. If not, the compiler goes on to the type that `Arg` derefs to,
//! [`Uncapturable`], whose method returns [`NotCaptured`]. No trait of a user has a method of this name.

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

/// Calls `body`. A closure that is passed as `FnOnce` may return its captures, for example references into
/// `&mut self`; a closure that is called in place may not.
#[inline(always)]
pub fn call_once<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Returns `None` of the given type.
#[inline(always)]
#[must_use]
pub fn none<T>() -> Option<T> {
    None
}

/// An argument of a call, and how it is to be formatted.
pub struct Arg<'a, By, T: ?Sized>(&'a T, PhantomData<By>);

impl<'a, By, T: ?Sized> Arg<'a, By, T> {
    /// Makes the argument for `value`.
    #[inline(always)]
    #[must_use]
    pub fn new(value: &'a T) -> Arg<'a, By, T> {
        Arg(value, PhantomData)
    }
}

impl<'a, By, T: Capture<By> + ?Sized> Arg<'a, By, T> {
    /// Returns the argument as it goes into a record.
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
    /// Returns the mark of an argument that does not go into a record.
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

/// The signature of an argument that is not captured; it is never used.
const NO_SIGNATURE: u32 = 1;

/// The first byte from which the signature of a call is computed.
const CALL: u8 = b'(';

/// Implements [`Arguments`] for tuples. The parts of a tuple may be tuples themselves, so a call may have more
/// arguments than the longest tuple here.
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
