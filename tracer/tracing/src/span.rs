//! Data about the callsites of spans: all spans of one callsite are of one *kind*. A kind is found by its number or by
//! its callsite.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use tracer::__bridge::{Definition, SpanSite};
use tracing_core::{Metadata, callsite};

use crate::patience::lock;
use crate::said;

/// The number of bits for the number of a kind; it limits how many kinds (callsites of spans) can be recorded.
pub(crate) const NUMBER_BITS: u32 = 16;
/// The number of kinds in the first chunk of [`BY_NUMBER`]; each further chunk has twice as many as the one before it.
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 11;

/// The data that all spans of one callsite have in common.
#[derive(Debug)]
pub(crate) struct SpanKind {
    /// The number of the kind, counted from 0 in the order in which kinds are made.
    pub(crate) number: u64,
    pub(crate) site: SpanSite,
    pub(crate) metadata: &'static Metadata<'static>,
}

/// A span that is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedSpan {
    /// The id, which no other span of the run has.
    pub(crate) id: u64,
    pub(crate) kind: &'static SpanKind,
}

/// The kinds of spans by their callsites. The value is `None` if the spans of a callsite cannot be recorded, because
/// there are too many kinds.
type Kinds = HashMap<callsite::Identifier, Option<&'static SpanKind>>;

/// All kinds of spans by their callsites.
static BY_CALLSITE: OnceLock<Mutex<Kinds>> = OnceLock::new();

/// The number of entries of each thread's cache of kinds, a power of two.
const CACHE_ENTRIES: usize = 256;

thread_local! {
    /// The thread's cache of kinds of spans. Each entry is the address of a callsite, and the kind of the callsite's
    /// spans.
    static KIND_CACHE: [Cell<(usize, Option<&'static SpanKind>)>; CACHE_ENTRIES] = const { [const { Cell::new((0, None)) }; CACHE_ENTRIES] };
}

/// A part of [`BY_NUMBER`], which is allocated when the first kind in it is made.
type Chunk = OnceLock<Box<[OnceLock<&'static SpanKind>]>>;

/// All kinds of spans by their numbers, in chunks of growing size. A kind is found here without a lock.
static BY_NUMBER: [Chunk; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// Returns the kind of the spans of a callsite; makes the kind at the first call for the callsite. Later calls usually
/// find the kind in the thread's cache.
#[inline]
pub(crate) fn kind(metadata: &'static Metadata<'static>) -> Option<&'static SpanKind> {
    let callsite = metadata.callsite();
    let address = std::ptr::from_ref(callsite.0).cast::<()>().addr();
    // Statics lie at multiples of 8 at least.
    let way = (address >> 3 ^ address >> 11) % CACHE_ENTRIES;
    let (met, kind) = KIND_CACHE.with(|all| all[way].get());
    if met == address && kind.is_some() {
        return kind;
    }
    let kind = find(callsite, metadata)?;
    KIND_CACHE.with(|all| all[way].set((address, Some(kind))));
    Some(kind)
}

#[cold]
#[inline(never)]
fn find(callsite: callsite::Identifier, metadata: &'static Metadata<'static>) -> Option<&'static SpanKind> {
    let mut kinds = lock(BY_CALLSITE.get_or_init(Mutex::default))?;
    if let Some(kind) = kinds.get(&callsite) {
        return *kind;
    }
    let kind = make(kinds.values().flatten().count(), metadata);
    kinds.insert(callsite, kind);
    kind
}

fn make(number: usize, metadata: &'static Metadata<'static>) -> Option<&'static SpanKind> {
    let (chunk, at) = location(number)?;
    let function = metadata.name().to_owned();
    let site = SpanSite::new(Definition { function, ..said::defined(metadata) })?;
    let kind: &SpanKind = Box::leak(Box::new(SpanKind { number: number as u64, site, metadata }));
    let length = FIRST_CHUNK << chunk;
    let all = BY_NUMBER.get(chunk)?.get_or_init(|| (0..length).map(|_| OnceLock::new()).collect());
    all.get(at)?.set(kind).ok()?;
    Some(kind)
}

/// Returns the kind of spans that has the number `number`.
#[inline]
pub(crate) fn by_number(number: u64) -> Option<&'static SpanKind> {
    let (chunk, at) = location(usize::try_from(number).ok()?)?;
    BY_NUMBER.get(chunk)?.get()?.get(at)?.get().copied()
}

/// Returns the position in [`BY_NUMBER`] of the kind with this number: the index of the chunk, and the index in the
/// chunk. Returns `None` if the number is too large.
#[inline]
fn location(number: usize) -> Option<(usize, usize)> {
    if number >= 1 << NUMBER_BITS {
        return None;
    }
    let chunk = (number / FIRST_CHUNK + 1).ilog2() as usize;
    Some((chunk, number - ((FIRST_CHUNK << chunk) - FIRST_CHUNK)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own_within_its_chunk() {
        let mut expected = (0..CHUNKS).flat_map(|chunk| (0..FIRST_CHUNK << chunk).map(move |at| (chunk, at)));
        for number in 0..1 << NUMBER_BITS {
            assert_eq!(location(number), expected.next(), "{number}");
        }
        assert_eq!(location(1 << NUMBER_BITS), None);
    }
}
