//! The definitions of sites that are made at run time, and all such sites of the process.
//!
//! A bridge to another crate learns of a place in the source when the first record is made there. The bridge then has a
//! site made, which stays for ever, like the static of a call of `trace!`. The functions run on any thread. A site is
//! looked up here, under a lock, only if it is not in the cache of the sites that were met last (`sites::met`).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use trace_format::sites::{Level, SiteKind};

use super::sites::{Call, Place, Site};
use crate::ring::{Value, ValueType, Values};
use crate::user::relay;
use crate::words::exclusion::Excluded;

/// The largest number of sites that a process makes at run time.
pub(crate) const MAX_DYNAMIC_SITES: usize = 8192;
/// The largest number of bytes of all texts in a definition; a longer definition gets no site.
pub(crate) const MAX_DEFINITION_TEXT: usize = 4096;
/// The longest time that a thread waits for the lock of the sites while other threads make sites. The wait is limited
/// because, in a forked child, the thread that had the lock may not exist.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// The way in which a value becomes text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// The value becomes text as by `{}`.
    Display,
    /// The value becomes text as by `{:?}`, except a [text that was formatted](ValueType::Text), which stays unchanged.
    Debug,
    /// The value becomes text as by a placeholder with this format specification, the part after the colon. If the
    /// message is formatted at the call, the caller applies the specification.
    As(&'static str),
}

/// The description of a value of a message, with the text before the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The text before the value.
    pub before: String,
    /// The name of the value; empty if it has none.
    pub name: String,
    /// The way in which the value becomes text.
    pub by: By,
}

/// A bridge's description of a place in the source that makes records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// The kind of the records that are made at the place.
    pub kind: SiteKind,
    /// The level of the records that are made at the place.
    pub level: Level,
    /// The name by which the records are filtered; if empty, the module is used.
    pub target: String,
    /// The path of the module.
    pub module: String,
    /// The path of the source file.
    pub file: String,
    /// The line in the file, from 1; 0 if it is not known.
    pub line: u32,
    /// The name of the function or of the span; empty if it is not known.
    pub function: String,
    /// The descriptions of a message's values, in the order of the values.
    pub fields: Vec<Field>,
    /// The text after the last value.
    pub tail: String,
}

/// The parts of a [`Site`] that only a site made at run time has.
#[derive(Debug)]
pub(crate) struct Dynamic {
    pub(crate) definition: Definition,
    pub(crate) types: Vec<ValueType>,
    /// The key that distinguishes the site from all others that [`find`] returns; 0 for a site of spans.
    pub(crate) key: u64,
    pub(crate) signature: u32,
}

impl Definition {
    fn text_bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|field| field.before.len() + field.name.len()).sum();
        let texts = [&self.target, &self.module, &self.file, &self.function, &self.tail];
        fields + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    /// Returns the name by which the site is filtered.
    pub(crate) fn filtered_by(&self) -> &str {
        if self.target.is_empty() { &self.module } else { &self.target }
    }

    /// Returns the format string for values of these types, with numbers or with names as its placeholders.
    fn format(&self, types: &[ValueType], with_names: bool) -> String {
        let mut format = String::new();
        for (at, (field, value_type)) in self.fields.iter().zip(types).enumerate() {
            write_literal(&field.before, &mut format);
            // Readers are fastest with `{}`. For other types both give the same.
            let debug = field.by == By::Debug
                && matches!(value_type, ValueType::F64 | ValueType::Char | ValueType::Str);
            let (colon, by) = match field.by {
                By::As(spec) => (":", spec),
                _ if debug => (":", "?"),
                _ => ("", ""),
            };
            let _ = if with_names && !field.name.is_empty() {
                write!(format, "{{{}{colon}{by}}}", field.name)
            } else {
                write!(format, "{{{at}{colon}{by}}}")
            };
        }
        write_literal(&self.tail, &mut format);
        format
    }
}

fn write_literal(text: &str, format: &mut String) {
    for character in text.chars() {
        if matches!(character, '{' | '}') {
            format.push(character);
        }
        format.push(character);
    }
}

/// A message, to be formatted as text: its definition and its values.
pub(crate) struct Message<'a>(pub(crate) &'a Definition, pub(crate) &'a Values);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Message(definition, values) = self;
        for (field, value) in definition.fields.iter().zip(values.iter()) {
            f.write_str(&field.before)?;
            let debug = field.by == By::Debug;
            match value {
                Value::I64(value) => write!(f, "{value}")?,
                Value::U64(value) => write!(f, "{value}")?,
                Value::I128(value) => write!(f, "{value}")?,
                Value::U128(value) => write!(f, "{value}")?,
                Value::F64(value) if debug => write!(f, "{value:?}")?,
                Value::F64(value) => write!(f, "{value}")?,
                Value::Bool(value) => write!(f, "{value}")?,
                Value::Char(value) if debug => write!(f, "{value:?}")?,
                Value::Char(value) => write!(f, "{value}")?,
                Value::Str(value) if debug => write!(f, "{value:?}")?,
                Value::Str(value) | Value::Text(value) => f.write_str(value)?,
            }
        }
        f.write_str(&definition.tail)
    }
}

/// The sites that were made at run time, by their keys.
static DYNAMIC_SITES: Mutex<BTreeMap<u64, &'static Site>> = Mutex::new(BTreeMap::new());
/// The number of sites that were made at run time, including the sites without a key. Relaxed: the number only serves
/// as a limit, and orders no other memory.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// True if the last thread that waited for the lock did not get the lock in time; then later threads do not wait for
/// it. Relaxed: the flag only saves time.
static LOCK_TIMED_OUT: AtomicBool = AtomicBool::new(false);
/// Whether the message about too many sites was printed.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

/// Returns the site with this key. If there is none, makes the site from the result of `define`. `types` are the types
/// of the site's values.
///
/// Returns `None` if there are too many sites, if the texts of the definition are too long, if the number of its fields
/// differs from the number of `types`, if this is called inside of the tracer's own code, or if the thread cannot get
/// the lock in time. Does not call `define` under the lock.
#[cold]
#[inline(never)]
pub(crate) fn find(
    key: u64,
    types: &[ValueType],
    define: &mut dyn FnMut() -> Definition,
) -> Option<&'static Site> {
    // A handler that interrupts the thread that has the lock, and an allocator that makes a record under it, are
    // refused here.
    let found = |excluded: Option<Excluded>| {
        let _excluded = excluded?;
        lock()?.get(&key).copied()
    };
    if let Some(site) = found(Excluded::enter()) {
        return Some(site);
    }
    let definition = define();
    let _excluded = Excluded::enter()?;
    let mut made = lock()?;
    if let Some(site) = made.get(&key) {
        return Some(site);
    }
    let site = make(definition, types, key)?;
    made.insert(key, site);
    Some(site)
}

/// Makes a site, but does not add it to the sites that [`find`] finds. Returns `None` if there are too many sites, if
/// the texts of the definition are too long, or if the number of its fields differs from the number of types.
pub(crate) fn make(definition: Definition, types: &[ValueType], key: u64) -> Option<&'static Site> {
    if definition.fields.len() != types.len() || definition.text_bytes() > MAX_DEFINITION_TEXT {
        return None;
    }
    if COUNT.fetch_add(1, Ordering::Relaxed) >= MAX_DYNAMIC_SITES {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        if !HAS_WARNED.swap(true, Ordering::Relaxed) {
            relay::say(format_args!(
                "there are more than {MAX_DYNAMIC_SITES} source lines, or sets of fields, of log records, events and spans; \
                 records beyond these are written as text, without a source line and without typed fields"
            ));
        }
        return None;
    }
    let (mut texts, format) = (definition.format(types, true), definition.format(types, false));
    let format_lens = [texts.len() as u32, format.len() as u32];
    texts += &format;
    definition.fields.iter().for_each(|field| texts.extend([field.name.as_str(), "\0"]));
    let place = Place {
        texts: leak(format!("{}{}", definition.module, definition.file)),
        module_len: definition.module.len() as u32,
        line: definition.line,
        column: 0,
        here: || "",
    };
    let call = Call { kind: definition.kind, texts: leak(texts), format_lens };
    let dynamic =
        Box::leak(Box::new(Dynamic { definition, types: types.to_vec(), key, signature: signature(key) }));
    Some(Box::leak(Box::new(Site::new(place, call).made_of(dynamic))))
}

fn leak(text: String) -> &'static str {
    if text.is_empty() { "" } else { text.leak() }
}

fn lock() -> Option<parking_lot::MutexGuard<'static, BTreeMap<u64, &'static Site>>> {
    let guard = DYNAMIC_SITES.try_lock();
    if guard.is_some() || LOCK_TIMED_OUT.load(Ordering::Relaxed) {
        return guard;
    }
    let guard = DYNAMIC_SITES.try_lock_for(MAX_WAIT);
    LOCK_TIMED_OUT.store(guard.is_none(), Ordering::Relaxed);
    guard
}

/// Returns the number that stands in a site's word as the signature of the site's values, computed from the site's key.
/// Like the signatures of types, this number is neither 0 nor the largest number.
#[inline(always)]
pub(crate) fn signature(key: u64) -> u32 {
    ((key >> 32) as u32).clamp(4, u32::MAX - 4)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use trace_format::fields::SitePlan;

    fn field(before: &str, name: &str, by: By) -> Field {
        Field { before: before.into(), name: name.into(), by }
    }

    #[test]
    fn deferred_formatting_equals_formatting_at_the_call() {
        let mut values = Values::new();
        values.text(0, format_args!("{}", "odd {text}\n"));
        values.i64(1, i64::MIN);
        values.u64(2, u64::MAX);
        values.i128(3, i128::MIN);
        values.u128(4, u128::MAX);
        for float in [0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, f64::NAN, f64::NEG_INFINITY] {
            values.f64(5, float);
        }
        values.bool(6, true);
        values.char(7, '\'');
        values.str(8, "tab\t \"quoted\" \u{7f}é");
        for by in [By::Display, By::Debug] {
            let fields =
                (0..values.types().len()).map(|at| field(&format!(" {{f{at}}}="), "x", by)).collect();
            let definition = Definition { fields, tail: "}{".into(), ..Definition::default() };
            let mut descriptor = Vec::new();
            values.types().iter().for_each(|value_type| value_type.describe(&mut descriptor));
            let mut payload = vec![0; crate::ring::Arguments::size(&values)];
            crate::ring::Arguments::write(&values, &mut trace_format::capture::Cursor::new(&mut payload));
            let plan = SitePlan::new(&definition.format(values.types(), false), &descriptor).unwrap();
            let mut later = Vec::new();
            plan.render(&payload, &mut later).unwrap();
            assert_eq!(String::from_utf8(later).unwrap(), Message(&definition, &values).to_string());
        }
    }

    #[test]
    fn a_site_is_made_once_for_each_key() {
        let definition = || Definition {
            level: Level::Warn,
            target: "a target".into(),
            fields: vec![field("a=", "a", By::Debug), field(" b=", "", By::Debug)],
            ..Definition::default()
        };
        let types = [ValueType::Str, ValueType::I64];
        let mut calls = 0;
        let mut get = |key| {
            find(key, &types, &mut || {
                calls += 1;
                definition()
            })
        };
        let (one, same, other) = (get(71).unwrap(), get(71).unwrap(), get(72).unwrap());
        assert!(std::ptr::eq(one, same) && !std::ptr::eq(one, other));
        assert_eq!(calls, 2);
        assert!(find(73, &types[..1], &mut definition.clone()).is_none(), "a value without a field");
        let long = Definition { target: "x".repeat(MAX_DEFINITION_TEXT + 1), ..Definition::default() };
        assert!(find(74, &[], &mut || long.clone()).is_none(), "texts without end");
    }
}
