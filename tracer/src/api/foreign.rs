//! What the interface for C calls. Not for users: it may change with every version.

use std::fmt;

use trace_format::line::Ticks;
pub use trace_format::locks::LockRecord;
use trace_format::record::{enter_word, leave_word};

use crate::ring::Values;
use crate::ring::clock;
use crate::shared::definition::Definition;
use crate::shared::process;
use crate::shared::sites::Site;
use crate::stack;
pub use crate::traced::dynamic::Taken;
use crate::traced::lock_record::{record_lock, switch_of};
use crate::traced::{dynamic, record};
use crate::user::{config, teller};
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
use crate::{stack::Registers, traced::hooks};

pub use trace_store::variables::PRELOADED;

pub use crate::traced::hooks::{enter as enter_compiled, leave as leave_compiled};

/// Records that a function is entered, and that it is left when it returns. `registers` are the address behind a call in that
/// function, and where the stack ends and the frame pointer is there; `left` calls [`leave_compiled`] with what it is given.
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
#[inline]
pub fn enter_until_return(
    [pc, sp, fp]: [usize; 3],
    names_of: fn(&[u8]) -> Vec<String>,
    left: fn(address: u64),
) {
    hooks::enter_until_return(Registers { pc, sp, fp }, names_of, left);
}

/// Returns the names that a symbol is known by, if it is none of C++: paths, without the compiler's additions.
#[must_use]
pub fn names_of(symbol: &[u8]) -> Vec<String> {
    stack::names_of(symbol)
}

/// Returns whether the environment asks for tracing, now or later. Nothing is decided by that.
#[must_use]
pub fn is_asked_for() -> bool {
    config::is_asked_for()
}

/// Tells the user something, in a line on stderr.
pub fn say(what: fmt::Arguments<'_>) {
    teller::say(what);
}

/// Returns whether tracing is off. This is one relaxed load.
#[inline(always)]
#[must_use]
pub fn is_off() -> bool {
    process::is_off()
}

/// Returns whether what the calling thread does may be recorded now: tracing is not off, and the thread is not inside of the
/// tracer itself.
#[must_use]
pub fn may_record() -> bool {
    !process::is_off() && !record::is_inside()
}

/// Returns the ticks of a message that is going to be written; `None` while tracing is off.
#[inline]
#[must_use]
pub fn begin() -> Option<u64> {
    // A first record decides whether the process traces, and by then the message is made.
    (!process::is_off()).then(|| clock::now().0)
}

/// By it the filter says whether the locks of programs that nobody can change tell anything.
static FUTEX: Site = switch_of("tracer_capi::futex");

/// Records what a futex tells, if futexes tell anything; returns whether they do.
pub fn record_futex(what: &LockRecord<'_>) -> bool {
    record_lock(&FUTEX, format_args!("{what}"))
}

/// Records a message of a `site` (0: of none) whose call was at `ticks`.
#[inline]
pub fn write(ticks: u64, site: u32, text: &[u8]) {
    if !process::is_off() {
        record::trace_at(Ticks(ticks), site, format_args!("{}", Text(text)));
    }
}

/// Records a message with `values` of the place that the number `place` stands for, whose call was at `ticks`, if it need not
/// be formatted at the call. `define` tells what the place is.
#[inline]
pub fn record_values(place: u64, ticks: u64, values: &Values, define: impl FnMut() -> Definition) -> Taken {
    if process::is_off() {
        return Taken::Recorded;
    }
    dynamic::record_values(place, Ticks(ticks), values, define)
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
