//! The hooks that compilers put into every function: exported under the names that compilers give them.
//!
//! | compiler | options | hooks |
//! |---|---|---|
//! | gcc, clang | `-finstrument-functions` | `__cyg_profile_func_enter`, `__cyg_profile_func_exit` |
//!
//! A program that is compiled so runs without this library, too: glibc has hooks that do nothing. Where this library comes
//! before glibc, by linking or by `LD_PRELOAD`, its hooks are called.

use std::ffi::c_void;

use tracer::__foreign as foreign;

/// Records that `function` is entered, which will return to `call_site`.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_enter(function: *const c_void, call_site: *const c_void) {
    foreign::enter_compiled(function.addr() as u64, call_site.addr() as u64);
}

/// Records that `function` is left. An exception that unwinds the stack calls this where gcc has compiled the function, and
/// does not where clang has.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_exit(function: *const c_void, _call_site: *const c_void) {
    foreign::leave_compiled(function.addr() as u64);
}
