//! The `# late` line, which stands before lines that are shown too late for their place.

use trace_format::line::{Key, Kind, Line};

/// Writes the `# late` line that stands before so many late `lines`, the first of which begins with `key`;
/// lines up to the ticks `shown` have been shown already.
pub fn write_late(out: &mut Vec<u8>, lines: u64, key: Key, shown: u64) {
    let payload = format!("late lines={lines} ticks={}", shown - key.ticks.0);
    Line { key, kind: Kind::Meta, payload: payload.as_bytes() }.write(out);
}
