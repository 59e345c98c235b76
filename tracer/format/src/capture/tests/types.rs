//! Types like those of a user, with the code that `derive(Capture)` makes for each kind.

use crate::capture::signature::Signature;
use crate::capture::{Capture, Cursor, by, descriptor};

#[derive(Clone, Debug)]
pub(crate) struct Named<'a, T> {
    pub(crate) id: T,
    pub(crate) r#type: &'a str,
}

#[derive(Clone, Debug)]
pub(crate) struct Tuple<T>(pub(crate) T, pub(crate) f64);

#[derive(Clone, Debug)]
pub(crate) struct Unit;

#[derive(Clone, Debug)]
pub(crate) struct Nothing {}

#[derive(Clone, Debug)]
pub(crate) enum Kinds<T> {
    Unit,
    Tuple(T, u8),
    Named { x: T, unit: Unit },
    NoFields(),
    NoNames {},
}

#[derive(Clone, Debug)]
pub(crate) enum Never {}

impl<T: Capture<by::Debug>> Capture<by::Debug> for Named<'_, T> {
    const SIGNATURE: u32 = Signature::of_named("Named", 2)
        .name("id")
        .part(<T as Capture<by::Debug>>::SIGNATURE)
        .name("type")
        .part(<&str as Capture<by::Debug>>::SIGNATURE)
        .end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::named(to, "Named", 2);
        descriptor::name(to, "id");
        <T as Capture<by::Debug>>::describe(to);
        descriptor::name(to, "type");
        <&str as Capture<by::Debug>>::describe(to);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        0usize
            .saturating_add(Capture::<by::Debug>::size(&self.id))
            .saturating_add(Capture::<by::Debug>::size(&self.r#type))
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        Capture::<by::Debug>::write(&self.id, to);
        Capture::<by::Debug>::write(&self.r#type, to);
    }
}

impl<T: Capture<by::Debug>> Capture<by::Debug> for Tuple<T> {
    const SIGNATURE: u32 = Signature::of_tuple("Tuple", 2)
        .part(<T as Capture<by::Debug>>::SIGNATURE)
        .part(<f64 as Capture<by::Debug>>::SIGNATURE)
        .end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::tuple(to, "Tuple", 2);
        <T as Capture<by::Debug>>::describe(to);
        <f64 as Capture<by::Debug>>::describe(to);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        0usize
            .saturating_add(Capture::<by::Debug>::size(&self.0))
            .saturating_add(Capture::<by::Debug>::size(&self.1))
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        Capture::<by::Debug>::write(&self.0, to);
        Capture::<by::Debug>::write(&self.1, to);
    }
}

impl Capture<by::Debug> for Unit {
    const SIGNATURE: u32 = Signature::of_unit("Unit").end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::unit(to, "Unit");
    }

    #[inline(always)]
    fn size(&self) -> usize {
        0usize
    }

    #[inline(always)]
    fn write(&self, _to: &mut Cursor<'_>) {}
}

impl Capture<by::Debug> for Nothing {
    const SIGNATURE: u32 = Signature::of_named("Nothing", 0).end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::named(to, "Nothing", 0);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        0usize
    }

    #[inline(always)]
    fn write(&self, _to: &mut Cursor<'_>) {}
}

impl<T: Capture<by::Debug>> Capture<by::Debug> for Kinds<T> {
    const SIGNATURE: u32 = Signature::variants(5)
        .unit("Unit")
        .tuple("Tuple", 2)
        .part(<T as Capture<by::Debug>>::SIGNATURE)
        .part(<u8 as Capture<by::Debug>>::SIGNATURE)
        .named("Named", 2)
        .name("x")
        .part(<T as Capture<by::Debug>>::SIGNATURE)
        .name("unit")
        .part(<Unit as Capture<by::Debug>>::SIGNATURE)
        .tuple("NoFields", 0)
        .named("NoNames", 0)
        .end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::variants(to, 5);
        descriptor::unit(to, "Unit");
        descriptor::tuple(to, "Tuple", 2);
        <T as Capture<by::Debug>>::describe(to);
        <u8 as Capture<by::Debug>>::describe(to);
        descriptor::named(to, "Named", 2);
        descriptor::name(to, "x");
        <T as Capture<by::Debug>>::describe(to);
        descriptor::name(to, "unit");
        <Unit as Capture<by::Debug>>::describe(to);
        descriptor::tuple(to, "NoFields", 0);
        descriptor::named(to, "NoNames", 0);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        match self {
            Self::Unit => 2usize,
            Self::Tuple(a, b) => 2usize
                .saturating_add(Capture::<by::Debug>::size(a))
                .saturating_add(Capture::<by::Debug>::size(b)),
            Self::Named { x: a, unit: b } => 2usize
                .saturating_add(Capture::<by::Debug>::size(a))
                .saturating_add(Capture::<by::Debug>::size(b)),
            Self::NoFields() => 2usize,
            Self::NoNames {} => 2usize,
        }
    }

    #[inline(always)]
    fn write(&self, to: &mut Cursor<'_>) {
        match self {
            Self::Unit => to.put(0u16.to_le_bytes()),
            Self::Tuple(a, b) => {
                to.put(1u16.to_le_bytes());
                Capture::<by::Debug>::write(a, to);
                Capture::<by::Debug>::write(b, to);
            }
            Self::Named { x: a, unit: b } => {
                to.put(2u16.to_le_bytes());
                Capture::<by::Debug>::write(a, to);
                Capture::<by::Debug>::write(b, to);
            }
            Self::NoFields() => to.put(3u16.to_le_bytes()),
            Self::NoNames {} => to.put(4u16.to_le_bytes()),
        }
    }
}

impl Capture<by::Debug> for Never {
    const SIGNATURE: u32 = Signature::variants(0).end();

    fn describe(to: &mut Vec<u8>) {
        descriptor::variants(to, 0);
    }

    #[inline(always)]
    fn size(&self) -> usize {
        match *self {}
    }

    #[inline(always)]
    fn write(&self, _to: &mut Cursor<'_>) {
        match *self {}
    }
}
