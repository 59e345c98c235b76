//! Texts that fit into a number of columns, with `…` for the rest. Each character counts as one column.

use std::borrow::Cow;

/// The character that stands for the rest.
const REST: char = '\u{2026}';

/// Returns the beginning of a text that has more than `columns` characters, else the text.
#[must_use]
pub(crate) fn keep_start(text: &str, columns: usize) -> Cow<'_, str> {
    if text.chars().count() <= columns {
        return text.into();
    }
    text.chars().take(columns.saturating_sub(1)).chain([REST]).collect()
}

/// Returns the end of a text that has more than `columns` characters, else the text. The end of a path says more than
/// its beginning.
#[must_use]
pub(crate) fn keep_end(text: &str, columns: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= columns {
        return text.into();
    }
    std::iter::once(REST).chain(text.chars().skip(count + 1 - columns.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_text_loses_its_end_or_its_beginning() {
        assert_eq!([keep_start("größe", 5), keep_end("größe", 5)], ["größe", "größe"]);
        assert_eq!([keep_start("größe", 3), keep_end("größe", 3)], ["gr…", "…ße"]);
        assert_eq!([keep_start("größe", 1), keep_end("größe", 1)], ["…", "…"]);
    }
}
