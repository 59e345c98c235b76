//! What the interface for C calls. Not for users: it may change with every version.

use std::fmt;

use trace_format::line::Ticks;
use trace_format::record::{enter_word, leave_word};

use crate::ring::clock;
use crate::shared::process;
use crate::traced::record;

pub use trace_store::variables::PRELOADED;

pub use crate::traced::hooks::{enter as enter_compiled, leave as leave_compiled};

/// Returns the ticks of a message that is going to be written; `None` while tracing is off.
#[inline]
#[must_use]
pub fn begin() -> Option<u64> {
    // A first record decides whether the process traces, and by then the message is made.
    (!process::is_off()).then(|| clock::now().0)
}

/// Records a message whose call was at `ticks`.
#[inline]
pub fn write(ticks: u64, text: &[u8]) {
    if !process::is_off() {
        record::trace_at(Ticks(ticks), 0, format_args!("{}", Text(text)));
    }
}

/// Records that the function is entered in which `address` lies. Returns whether leaving it is to be recorded.
#[inline]
#[must_use]
pub fn enter(address: u64) -> bool {
    let is_on = !process::is_off();
    if is_on {
        record::words(clock::now(), enter_word(address), &[]);
    }
    is_on
}

/// Records that the function is left whose entering has `address`; `unwinding`: an exception leaves it.
#[inline]
pub fn leave(address: u64, unwinding: bool) {
    if !process::is_off() {
        record::words(clock::now(), leave_word(address, unwinding), &[]);
    }
}

/// A text that should be UTF-8. Other bytes of it are shown by their numbers.
struct Text<'a>(&'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
        })
    }
}
