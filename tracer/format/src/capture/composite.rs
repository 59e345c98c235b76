//! Captures, for formatting with `{:?}`, of values that consist of other values: options, results, tuples, slices.

use super::descriptor as d;
use super::signature::Signature;
use super::{Capture, Cursor, TOO_LONG, by};

impl<T: Capture<by::Debug>> Capture<by::Debug> for Option<T> {
    const SIGNATURE: u32 = Signature::of(d::OPTION).part(T::SIGNATURE).end();

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::OPTION);
        T::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        match self {
            None => 1,
            Some(value) => value.size().saturating_add(1),
        }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        match self {
            None => to.put([0]),
            Some(value) => {
                to.put([1]);
                value.write(to);
            }
        }
    }
}

impl<T: Capture<by::Debug>, E: Capture<by::Debug>> Capture<by::Debug> for Result<T, E> {
    const SIGNATURE: u32 = Signature::of(d::RESULT).part(T::SIGNATURE).part(E::SIGNATURE).end();

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::RESULT);
        T::describe(descriptor);
        E::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        let size = match self {
            Ok(value) => value.size(),
            Err(error) => error.size(),
        };
        size.saturating_add(1)
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        match self {
            Ok(value) => {
                to.put([0]);
                value.write(to);
            }
            Err(error) => {
                to.put([1]);
                error.write(to);
            }
        }
    }
}

impl<T: Capture<by::Debug>> Capture<by::Debug> for [T] {
    const SIGNATURE: u32 = Signature::of(d::SLICE).part(T::SIGNATURE).end();

    fn describe(descriptor: &mut Vec<u8>) {
        descriptor.push(d::SLICE);
        T::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        if self.len() > usize::from(u16::MAX) { TOO_LONG } else { elements_size(self).saturating_add(2) }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        to.put_length(self.len());
        write_elements(self, to);
    }
}

impl<T: Capture<by::Debug>> Capture<by::Debug> for Vec<T> {
    const SIGNATURE: u32 = <[T]>::SIGNATURE;

    fn describe(descriptor: &mut Vec<u8>) {
        <[T]>::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        self.as_slice().size()
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        self.as_slice().write(to);
    }
}

impl<T: Capture<by::Debug>, const N: usize> Capture<by::Debug> for [T; N] {
    const SIGNATURE: u32 = Signature::of(d::ARRAY).number(N as u64).part(T::SIGNATURE).end();

    fn describe(descriptor: &mut Vec<u8>) {
        // A longer array has more bytes than a record can hold.
        let count = u32::try_from(N).unwrap_or(u32::MAX);
        descriptor.push(d::ARRAY);
        descriptor.extend(count.to_le_bytes());
        T::describe(descriptor);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        if N > usize::from(u16::MAX) { TOO_LONG } else { elements_size(self) }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        write_elements(self, to);
    }
}

/// Returns the number of bytes that captured elements take. Each element counts at least one byte, so that the length
/// of a record limits the number of its elements.
#[inline(always)]
fn elements_size<T: Capture<by::Debug>>(elements: &[T]) -> usize {
    elements.iter().fold(0, |size, element| size.saturating_add(element.size().max(1)))
}

#[inline(always)]
fn write_elements<T: Capture<by::Debug>>(elements: &[T], to: &mut Cursor<'_>) {
    if let Some(size @ 1..) = T::SIZE {
        // There is one test for room and none per element, so the compiler copies many elements at once.
        let room = to.take(elements.len().saturating_mul(size)).unwrap_or_default();
        for (element, room) in elements.iter().zip(room.chunks_exact_mut(size)) {
            element.write(&mut Cursor::new(room));
        }
        return;
    }
    for element in elements {
        let before = to.remaining();
        element.write(to);
        if to.remaining() == before {
            to.put([0]);
        }
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $field:tt)*;)*) => { $(
        impl<$($type: Capture<by::Debug>),*> Capture<by::Debug> for ($($type,)*) {
            const SIGNATURE: u32 = Signature::of_tuple("", $count)$(.part($type::SIGNATURE))*.end();

            fn describe(descriptor: &mut Vec<u8>) {
                d::tuple(descriptor, "", $count);
                $($type::describe(descriptor);)*
            }

            #[inline(always)]
            fn size(&self) -> usize {
                0usize$(.saturating_add(self.$field.size()))*
            }

            #[inline(always)]
            fn write(&self, to: &mut Cursor<'_>) {
                $(self.$field.write(to);)*
            }
        }
    )* };
}

tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
    9: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8;
    10: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9;
    11: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10;
    12: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11;
}
