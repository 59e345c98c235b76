//! Functions for the C interface of the tracer, `libtracer`. They are not for users, and may change with every version.

use std::fmt;

use trace_format::line::Ticks;
pub use trace_format::locks::LockRecord;
use trace_format::record::{enter_word, leave_word};

use crate::ring::{Message, Values, WriteBytes, clock};
use crate::shared::definition::Definition;
use crate::shared::process;
use crate::shared::sites::Site;
use crate::stack;
pub use crate::traced::dynamic::ValuesResult;
use crate::traced::lock_record::{record_lock, switch_of};
use crate::traced::{decision, dynamic, record};
use crate::user::{config, relay};
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
use crate::{stack::Registers, traced::hooks};

#[cfg(target_os = "linux")]
pub use trace_store::sys::executable_file;
pub use trace_store::variables::PRELOADED;

pub use crate::traced::hooks::{enter as enter_compiled, leave as leave_compiled};

/// Records that a function is entered and, when the function returns, that it is left. The registers are those of the
/// function: the address after a call in its code, its stack pointer and its frame pointer. `names_of` returns the
/// names of a symbol; the settings select functions by these names. `left` is called when the function returns, and
/// must pass its argument to [`leave_compiled`].
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
#[inline]
pub fn enter_until_return(
    [pc, sp, fp]: [usize; 3],
    names_of: fn(&[u8]) -> Vec<String>,
    left: fn(address: u64),
) {
    hooks::enter_until_return(Registers { pc, sp, fp }, names_of, left);
}

/// Returns the names of the function that has this symbol: paths, without the compiler's additions. Symbols of C++ are
/// not decoded.
#[must_use]
pub fn names_of(symbol: &[u8]) -> Vec<String> {
    stack::names_of(symbol)
}

/// Returns whether the environment asks for tracing, now or later. The call does not decide whether the process traces.
#[must_use]
pub fn is_tracing_requested() -> bool {
    config::is_tracing_requested()
}

/// Writes a line for the user to stderr.
pub fn say(what: fmt::Arguments<'_>) {
    relay::say(what);
}

/// Returns whether tracing is off. This is one relaxed load.
#[inline(always)]
#[must_use]
pub fn is_off() -> bool {
    process::is_off()
}

/// Returns whether the calling thread may record now: tracing is not off, and the thread is not inside the tracer
/// itself.
#[must_use]
pub fn may_record() -> bool {
    !process::is_off() && !record::is_inside()
}

/// Waits until the tracer knows all modules that are loaded now, so that it can name their functions later, even if
/// they are unloaded. Does nothing if the calling thread may not record. A thread calls this before and after it loads
/// or unloads libraries.
pub fn look_at_modules() {
    if may_record() {
        decision::look_at_modules();
    }
}

/// Reads the process's clock and returns the ticks for a message that is about to be written; `None` while tracing is
/// off.
#[inline]
#[must_use]
pub fn begin() -> Option<u64> {
    // Before the decision whether the process traces, tracing is not off: the first message is formatted, and then its
    // record makes the decision.
    (!process::is_off()).then(|| clock::now().0)
}

/// The site by which the filter switches records of futexes, the locks of programs whose source cannot be changed.
static FUTEX: Site = switch_of("tracer_capi::futex");

/// Records a futex operation, if the filter allows records of futexes; returns whether the filter does.
pub fn record_futex(what: &LockRecord<'_>) -> bool {
    record_lock(&FUTEX, format_args!("{what}"))
}

/// Records the message `text` of a call at `ticks`, with the number of its `site` (0: no site). Bytes that are not
/// UTF-8 are recorded as they are.
#[inline]
pub fn write(ticks: u64, site: u32, text: &[u8]) {
    if !process::is_off() {
        let write: &WriteBytes<'_> = &|to| to.write_bytes(text);
        record::trace_at(Ticks(ticks), site, Message::Bytes(&write));
    }
}

/// Records a message with `values` for a call at `ticks`, unless the message has to be formatted at the call: the
/// result says so. `place` is the number of the call's position in the source, and `define` describes this position.
#[inline]
pub fn record_values(
    place: u64,
    ticks: u64,
    values: &Values,
    define: impl FnMut() -> Definition,
) -> ValuesResult {
    if process::is_off() {
        return ValuesResult::Recorded;
    }
    dynamic::record_values(place, Ticks(ticks), values, define)
}

/// Records that the function that contains `address` is entered, unless tracing is off. Returns whether the caller has
/// to record the function's exit by [`leave`].
#[inline]
#[must_use]
pub fn enter(address: u64) -> bool {
    let is_on = !process::is_off();
    if is_on {
        record::words(clock::now(), enter_word(address), &[]);
    }
    is_on
}

/// Records that the function that was entered with `address` is left, unless tracing is off. `unwinding` says whether
/// an exception leaves the function.
#[inline]
pub fn leave(address: u64, unwinding: bool) {
    if !process::is_off() {
        record::words(clock::now(), leave_word(address, unwinding), &[]);
    }
}
