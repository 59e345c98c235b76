//! The messages of locks, and how they are told from messages with the same text.
//!
//! Locks say who waits by messages of a fixed form. A program's own message may have any text, which may have come from
//! outside. If it begins as a message of a lock does and its site is not one of the tracer's locks, the first letter is
//! written as an escape: `\x6cock wait id=3`. The text stays the same, for a reader replaces escapes; but
//! [`may_be_of_lock`] sees the difference.

use crate::sites::Site;

/// The beginnings of all messages of locks.
const BEGINNINGS: [&[u8]; 10] = [
    b"lock wait id=",
    b"lock got id=",
    b"lock gave_up id=",
    b"condvar wait id=",
    b"condvar woken id=",
    b"condvar timeout id=",
    b"condvar notify id=",
    b"futex wait address=",
    b"futex woken address=",
    b"futex wake address=",
];

/// The modules whose sites are those of locks.
const MODULES: [&str; 2] = ["tracer::sync::records", "tracer_capi::futex"];

/// Returns whether the payload of the first line of a message may be that of a lock. No other message of a program has
/// such a line.
#[must_use]
pub fn may_be_of_lock(payload: &[u8]) -> bool {
    begins_as_of_lock(payload, false)
}

/// Returns whether a text begins as a message of a lock does. If there is `more` of the text behind, the beginning of a
/// beginning is enough.
#[inline]
pub(crate) fn begins_as_of_lock(text: &[u8], more: bool) -> bool {
    matches!(text.first(), Some(b'l' | b'c' | b'f')) && has_beginning(text, more)
}

#[cold]
fn has_beginning(text: &[u8], more: bool) -> bool {
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning) || (more && beginning.starts_with(text)))
}

/// Returns whether a message may begin as one of a lock does, if this is the literal text before its first value; a
/// message without values has none behind it.
pub(crate) fn can_begin_as_of_lock(literal: &[u8], has_values: bool) -> bool {
    (has_values && literal.is_empty()) || begins_as_of_lock(literal, has_values)
}

/// Returns whether a site is one of the tracer's locks.
pub(crate) fn is_of_lock(site: &Site) -> bool {
    MODULES.contains(&&*site.module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::unescape;
    use crate::fields::SitePlan;
    use crate::line::{Line, Ticks};
    use crate::plans::Plans;
    use crate::render::LineWriter;

    const WAIT: &str = r#"lock wait id=1 for=lock made="a:1" at="b:2" holder=0 since="?:0""#;

    fn site(module: &str, format: &str, descriptor: &[u8]) -> Site {
        let (module, format) = (module.to_owned(), format.to_owned());
        Site { id: 1, module, format, descriptor: descriptor.to_vec(), ..Site::default() }
    }

    fn plan(site: &Site) -> SitePlan {
        let mut plans = Plans::default();
        assert!(plans.add(site));
        plans.get(1).unwrap().clone()
    }

    /// Returns the payload of the line of a message of this plan without values.
    fn payload(plan: &SitePlan, values: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(LineWriter::new(7).captured(Ticks(1), plan, values, &mut out));
        Line::parse(out.strip_suffix(b"\n").unwrap()).unwrap().payload.to_vec()
    }

    #[test]
    fn messages_of_locks_alone_are_written_as_they_are() {
        let of_lock = payload(&plan(&site(MODULES[0], WAIT, b"")), b"");
        assert_eq!(of_lock, WAIT.as_bytes());
        assert!(may_be_of_lock(&of_lock));
        for module in ["app", "tracer", "app::tracer::sync::records", "tracer::sync::records_of_mine"] {
            let of_others = payload(&plan(&site(module, WAIT, b"")), b"");
            assert!(!may_be_of_lock(&of_others), "{module}");
            assert_eq!(unescape(&of_others), WAIT.as_bytes(), "the text is the same");
        }
    }

    #[test]
    fn other_texts_are_written_as_they_are() {
        for text in ["lock the door", "lock", "lockers", "condvar", "futex address", "colour", ""] {
            let plan = plan(&site("app", text, b""));
            assert_eq!(payload(&plan, b""), text.as_bytes());
        }
    }

    #[test]
    fn a_beginning_that_goes_on_behind_a_piece_is_enough() {
        for beginning in BEGINNINGS {
            for end in 1..beginning.len() {
                assert!(begins_as_of_lock(&beginning[..end], true));
                assert!(!begins_as_of_lock(&beginning[..end], false));
            }
            assert!(begins_as_of_lock(beginning, false));
        }
        assert!(!begins_as_of_lock(b"lock x", true));
        assert!(can_begin_as_of_lock(b"", true) && !can_begin_as_of_lock(b"", false));
        assert!(!can_begin_as_of_lock(b"x=", true) && can_begin_as_of_lock(b"lo", true));
    }
}
