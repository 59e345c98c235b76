//! A map for keys that are looked up once for each record: numbers, and the texts of functions.

use rustc_hash::FxHashMap;

/// A map that is several times as fast as the standard one for short keys. Its hashes are predictable: a trace that
/// somebody has made as an attack could make the map slow, but could do no other harm.
pub(crate) type FastMap<K, V> = FxHashMap<K, V>;
