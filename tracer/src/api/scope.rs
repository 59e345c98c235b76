//! The function `scope`, which records that its caller is entered and left, by an address in the caller.
#![allow(unsafe_code, reason = "reads the address of the instruction; argued where it stands")]

use crate::shared::process;
use crate::traced::scope::Scope;

/// Records that the function which calls this is entered, and that it is left when the guard is dropped, also
/// while a panic unwinds.
///
/// ```
/// fn parse(text: &str) -> usize {
///     let _scope = tracer::scope();
///     text.len()
/// }
/// # assert_eq!(parse("abc"), 3);
/// ```
///
/// The records hold the time and an address in the calling function, nothing else. `tracemerge` finds the name later:
/// with line tables (`debug = "line-tables-only"` in the profile) it is the function that contains the call, even if
/// that is generic, a closure, or inlined into another; without them it is the function into which the compiler has
/// inlined the call. [`scope!`](macro@crate::scope) needs no debug information, and the filter of
/// [`trace!`](crate::trace) switches it; this function is on whenever tracing is.
///
/// While tracing is off, the call is one relaxed load. While it is on, entering and leaving each read the clock and
/// store sixteen bytes. The guard has eight bytes. The function may be called from anywhere that
/// [`Tracer::trace`](crate::Tracer::trace) may be.
///
/// On processors other than x86-64 and aarch64 it records nothing.
#[inline(always)]
pub fn scope() -> Scope {
    if cfg!(feature = "compile-out") || process::is_off() {
        return Scope::off();
    }
    match here() {
        0 => Scope::off(),
        address => Scope::enter(address),
    }
}

/// Returns the address of an instruction in the function into which `here` is inlined.
#[inline(always)]
fn here() -> u64 {
    let address: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: puts the address of the instruction itself into a register.
    unsafe {
        std::arch::asm!("2: lea {}, [rip + 2b]", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: puts the address of the instruction itself into a register.
    unsafe {
        std::arch::asm!("adr {}, .", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        address = 0;
    }
    address
}
