//! Texts that are shortened to a number of columns, with `…` in the place of the part that is left out. Each character
//! counts as one column.

use std::borrow::Cow;

/// The character in the place of the part that is left out.
const REST: char = '\u{2026}';

/// Returns the beginning of `text`, with `…` behind it, if `text` has more than `columns` characters, else all of
/// `text`.
#[must_use]
pub(crate) fn keep_start(text: &str, columns: usize) -> Cow<'_, str> {
    if text.chars().count() <= columns {
        return text.into();
    }
    text.chars().take(columns.saturating_sub(1)).chain([REST]).collect()
}

/// Returns the end of `text`, with `…` before it, if `text` has more than `columns` characters, else all of `text`. The
/// end of a path says more than its beginning.
#[must_use]
pub(crate) fn keep_end(text: &str, columns: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= columns {
        return text.into();
    }
    std::iter::once(REST).chain(text.chars().skip(count + 1 - columns.max(1))).collect()
}

/// Returns the beginning and the end of `text`, with `…` between them, if `text` has more than `columns` characters, else
/// all of `text`. The ids of threads are at the ends of their labels.
#[must_use]
pub(crate) fn keep_ends(text: &str, columns: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= columns {
        return text.into();
    }
    let shown = columns.saturating_sub(1);
    let behind = text.chars().skip(count - shown / 2);
    text.chars().take(shown.div_ceil(2)).chain([REST]).chain(behind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_text_loses_its_end_or_its_beginning() {
        assert_eq!([keep_start("größe", 5), keep_end("größe", 5)], ["größe", "größe"]);
        assert_eq!([keep_start("größe", 3), keep_end("größe", 3)], ["gr…", "…ße"]);
        assert_eq!([keep_start("größe", 1), keep_end("größe", 1)], ["…", "…"]);
        assert_eq!([keep_ends("größe", 5), keep_ends("größe", 4)], ["größe", "gr…e"]);
        assert_eq!([keep_ends("größe", 3), keep_ends("größe", 1)], ["g…e", "…"]);
    }
}
