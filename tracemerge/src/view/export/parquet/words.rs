//! The values that many rows share: each value is stored once, and rows refer to it by its number.

use std::collections::HashMap;

/// The number of a value that is stored once, and to which many rows refer.
pub(super) type ValueId = u32;

/// The number that stands for a missing value.
pub(super) const NONE: ValueId = 0;

/// The shared values, each in the encoding that Parquet calls "plain".
#[derive(Debug)]
pub(super) struct SharedValues {
    known: HashMap<Vec<u8>, ValueId>,
    /// The values, by their numbers.
    all: Vec<Vec<u8>>,
}

impl Default for SharedValues {
    fn default() -> SharedValues {
        SharedValues { known: HashMap::new(), all: vec![Vec::new()] }
    }
}

/// Appends a text in the plain encoding of Parquet: its length and its bytes.
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl SharedValues {
    /// Returns the count of stored values, including the entry for a missing value.
    #[must_use]
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the encoded bytes of a value.
    #[must_use]
    pub(super) fn bytes(&self, id: ValueId) -> &[u8] {
        &self.all[id as usize]
    }

    /// Returns the number of a text. Stores the text if it is new.
    pub(super) fn text(&mut self, text: Option<&str>) -> ValueId {
        let Some(text) = text else { return NONE };
        let mut bytes = Vec::with_capacity(4 + text.len());
        put_text(text, &mut bytes);
        self.of(bytes)
    }

    /// Returns the number of an integer. Stores the integer if it is new.
    pub(super) fn integer(&mut self, number: Option<u64>) -> ValueId {
        number.map_or(NONE, |number| self.of(number.to_le_bytes().to_vec()))
    }

    fn of(&mut self, bytes: Vec<u8>) -> ValueId {
        if let Some(id) = self.known.get(&bytes) {
            return *id;
        }
        let id = ValueId::try_from(self.all.len()).unwrap_or(NONE);
        self.all.push(bytes.clone());
        self.known.insert(bytes, id);
        id
    }
}
