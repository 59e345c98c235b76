//! The record of a wait for a lock or a condition variable, or of a notification. It is a type of record of its own, so
//! no traced message can be mistaken for it.
//!
//! The functions run on traced threads that wait, that notify, or that were woken.

use std::fmt::{self, Write as _};

use trace_format::record::lock_word;

use super::record;
use crate::ring::{MAX_CAPTURED, clock};
use crate::shared::sites::{Call, Place, Site};
use trace_format::sites::SiteKind;

/// The greatest length of a record's text, in words of eight bytes.
const WORDS: usize = MAX_CAPTURED / 8;

/// Makes a site whose only use is that the filter can switch the lock records of a module on and off. The site is never
/// in the table for readers, because lock records name no site.
pub(crate) const fn switch_of(module: &'static str) -> Site {
    let module_len = module.len() as u32;
    let place = Place { texts: module, module_len, line: line!(), column: column!(), here: || "" };
    Site::new(place, Call { kind: SiteKind::Message, texts: "", format_lens: [0, 0] })
}

/// Records the text `what` about a lock, if the filter allows the lock records to which `switch` belongs; returns
/// whether it does.
#[cold]
#[inline(never)]
pub(crate) fn record_lock(switch: &'static Site, what: fmt::Arguments<'_>) -> bool {
    if !switch.is_on(switch.word()) {
        return false;
    }
    let ticks = clock::now();
    let mut text = Text { words: [0; WORDS], bytes: 0 };
    // A text that does not fit is cut, and readers do not take the rest for a record of a lock. Places are short
    // enough.
    let _ = text.write_fmt(what);
    let words = text.words.get(..text.bytes.div_ceil(8)).unwrap_or_default();
    record::words(ticks, lock_word(text.bytes), words);
    true
}

/// A text that is being packed into words, eight bytes in each.
struct Text {
    words: [u64; WORDS],
    bytes: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let word = self.words.get_mut(self.bytes / 8).ok_or(fmt::Error)?;
            *word |= u64::from(byte) << (self.bytes % 8 * 8);
            self.bytes += 1;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_text_fills_the_words_and_is_cut_at_their_end() {
        let mut text = Text { words: [0; WORDS], bytes: 0 };
        let (id, value) = (12, "gr\u{f6}\u{df}e");
        assert!(write!(text, "lock got id={id} ns={value}").is_ok());
        let bytes: Vec<u8> = text.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&bytes[..text.bytes], "lock got id=12 ns=grö\u{df}e".as_bytes());
        assert!(text.write_str(&"x".repeat(MAX_CAPTURED)).is_err());
        assert_eq!(text.bytes, MAX_CAPTURED);
    }
}
