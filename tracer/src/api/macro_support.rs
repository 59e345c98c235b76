//! Functions and types for the code that the macros of `tracer-macros` generate. They are not for users, and change
//! with the macros.
//!
//! The functions run on traced threads, after the load of [`Site::word`] and before the record. All are inlined into
//! the call of the macro, where the types of the arguments are known: so the arguments' size is a constant, and copying
//! them takes a few stores.
//!
//! # Which arguments are captured
//!
//! The compiler looks up `Arg::<By, _>::new(&value).__tracer_capture()` like any method. `Arg` has the method if the
//! type is [`Capture<By>`]; the method returns [`Captured`]. If not, the compiler goes on to the type that `Arg` derefs
//! to, [`TextArg`], which has the method for the types whose text is captured; there it returns [`CapturedText`]. If
//! `TextArg` has no such method either, the compiler goes on to [`Uncapturable`], whose method returns [`NotCaptured`].
//! No trait of a user has a method of this name.

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

use std::cell::OnceCell;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path;

use trace_format::capture::TOO_LONG;

/// Calls `body` and returns its result. A closure that is passed as `FnOnce` may return its captures, for example
/// references into `&mut self`; the compiler does not allow that for a closure that is called where it is written.
#[inline(always)]
pub fn call_once<T>(body: impl FnOnce() -> T) -> T {
    body()
}

/// Returns `None`, as an `Option` of the given type.
#[inline(always)]
#[must_use]
pub fn none<T>() -> Option<T> {
    None
}

/// An argument of a macro's call. `By` says how the argument is formatted, for example by `Display`.
pub struct Arg<'a, By, T: ?Sized>(TextArg<'a, By, T>);

/// An argument that is captured as the text that it prints, if it has one of the few types that allow that.
pub struct TextArg<'a, By, T: ?Sized>(&'a T, PhantomData<By>);

impl<'a, By, T: ?Sized> Arg<'a, By, T> {
    /// Makes the argument for `value`.
    #[inline(always)]
    #[must_use]
    pub fn new(value: &'a T) -> Arg<'a, By, T> {
        Arg(TextArg(value, PhantomData))
    }
}

impl<'a, By, T: Capture<By> + ?Sized> Arg<'a, By, T> {
    /// Returns the argument in a form that can be copied into a record.
    #[inline(always)]
    #[must_use]
    pub fn __tracer_capture(&self) -> Captured<'a, By, T> {
        Captured(self.0.0, PhantomData)
    }
}

impl<'a, By, T: ?Sized> Deref for Arg<'a, By, T> {
    type Target = TextArg<'a, By, T>;

    #[inline(always)]
    fn deref(&self) -> &TextArg<'a, By, T> {
        &self.0
    }
}

impl<'a> TextArg<'a, by::Display, path::Display<'_>> {
    /// Returns the argument, a path that is formatted by `Display`, in a form whose text is copied into the record. The
    /// text is made in the call, on the traced thread, by code of the standard library only.
    #[inline(always)]
    #[must_use]
    pub fn __tracer_capture(&self) -> CapturedText<'a> {
        CapturedText { value: self.0, text: OnceCell::new() }
    }
}

impl<By, T: ?Sized> Deref for TextArg<'_, By, T> {
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
    /// Returns the value that says that the argument is not copied into a record.
    #[inline(always)]
    #[must_use]
    pub fn __tracer_capture(&self) -> NotCaptured {
        NotCaptured
    }
}

/// An argument whose value is copied into a record.
pub struct Captured<'a, By, T: ?Sized>(&'a T, PhantomData<By>);

/// An argument whose text is copied into a record.
pub struct CapturedText<'a> {
    value: &'a dyn fmt::Display,
    /// The text of `value`, made when its size is first asked for.
    text: OnceCell<ShortText>,
}

/// A text of at most 256 bytes.
struct ShortText {
    bytes: [u8; 256],
    /// The number of bytes of the text; [`TOO_LONG`] if the value's text does not fit, or does not represent the value
    /// in all formats, see [`ShortText::write_str`].
    length: usize,
}

impl ShortText {
    /// Returns the text that `value` prints with `{}`.
    #[inline(never)]
    fn of(value: &dyn fmt::Display) -> ShortText {
        let mut text = ShortText { bytes: [0; 256], length: 0 };
        if write!(text, "{value}").is_err() {
            text.length = TOO_LONG;
        }
        text
    }

    #[inline(always)]
    fn get(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // This character stands for bytes of a path that are not Unicode. With a width, versions of std print that path
        // differently.
        if text == "\u{fffd}" {
            return Err(fmt::Error);
        }
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// An argument that is not copied into a record: a call with such an argument formats its message at once.
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

impl<By, T: ?Sized> fmt::Debug for TextArg<'_, By, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextArg")
    }
}

impl fmt::Debug for CapturedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CapturedText")
    }
}

impl Arguments for CapturedText<'_> {
    const CAPTURED: bool = true;
    const SIGNATURE: u32 = <str as Capture<by::Display>>::SIGNATURE;

    #[inline(always)]
    fn size(&self) -> usize {
        match self.text.get_or_init(|| ShortText::of(self.value)).get() {
            Some(text) => text.len() + 2,
            None => TOO_LONG,
        }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        let text = self.text.get().and_then(ShortText::get).unwrap_or_default();
        to.put_length(text.len());
        to.put_slice(text);
    }

    fn describe(descriptor: &mut Vec<u8>) {
        <str as Capture<by::Display>>::describe(descriptor);
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

/// A placeholder for the signature of an argument that is not captured. No code uses the signature of a call with such
/// an argument.
const NO_SIGNATURE: u32 = 1;

/// The byte with which the computation of a call's signature begins; the signatures of the arguments follow.
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
