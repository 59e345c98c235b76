//! Key-values of a record, as values with a type and a name.

use log::Record;
use log::kv::{Error, Key, Value, VisitSource, VisitValue};
use tracer::__bridge::Values;

use crate::hash::Hash;

/// Adds the key-values of a record to `values`. If the record reports an error while it lists them, the key-values
/// before the error are kept.
#[inline]
pub(crate) fn add(record: &Record<'_>, values: &mut Values) {
    let _ = record.key_values().visit(&mut ValueCollector(values));
}

/// Returns the keys of a record.
#[cold]
pub(crate) fn names(record: &Record<'_>) -> Vec<String> {
    let mut names = Names(Vec::new());
    let _ = record.key_values().visit(&mut names);
    names.0
}

struct ValueCollector<'a>(&'a mut Values);

impl<'kvs> VisitSource<'kvs> for ValueCollector<'_> {
    #[inline]
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        value.visit(SingleValueCollector { key: Hash::of(0).text(key.as_str()).end(), values: self.0 })
    }
}

struct SingleValueCollector<'a> {
    key: u64,
    values: &'a mut Values,
}

impl<'v> VisitValue<'v> for SingleValueCollector<'_> {
    fn visit_any(&mut self, value: Value<'_>) -> Result<(), Error> {
        self.values.text(self.key, format_args!("{value}"));
        Ok(())
    }

    #[inline]
    fn visit_u64(&mut self, value: u64) -> Result<(), Error> {
        self.values.u64(self.key, value);
        Ok(())
    }

    #[inline]
    fn visit_i64(&mut self, value: i64) -> Result<(), Error> {
        self.values.i64(self.key, value);
        Ok(())
    }

    fn visit_u128(&mut self, value: u128) -> Result<(), Error> {
        self.values.u128(self.key, value);
        Ok(())
    }

    fn visit_i128(&mut self, value: i128) -> Result<(), Error> {
        self.values.i128(self.key, value);
        Ok(())
    }

    #[inline]
    fn visit_f64(&mut self, value: f64) -> Result<(), Error> {
        self.values.f64(self.key, value);
        Ok(())
    }

    #[inline]
    fn visit_bool(&mut self, value: bool) -> Result<(), Error> {
        self.values.bool(self.key, value);
        Ok(())
    }

    #[inline]
    fn visit_str(&mut self, value: &str) -> Result<(), Error> {
        self.values.str(self.key, value);
        Ok(())
    }

    fn visit_char(&mut self, value: char) -> Result<(), Error> {
        self.values.char(self.key, value);
        Ok(())
    }
}

struct Names(Vec<String>);

impl<'kvs> VisitSource<'kvs> for Names {
    fn visit_pair(&mut self, key: Key<'kvs>, _: Value<'kvs>) -> Result<(), Error> {
        self.0.push(key.as_str().to_owned());
        Ok(())
    }
}
