//! The hooks that compilers put into every function, exported under the names that compilers give them.
//!
//! | compiler | options | hooks |
//! |---|---|---|
//! | gcc, clang | `-finstrument-functions` | `__cyg_profile_func_enter`, `__cyg_profile_func_exit` |
//! | rustc | `-Cpasses=tsan -Cllvm-args=-tsan-instrument-atomics=0` | `__tsan_func_entry`, `__tsan_func_exit` |
//!
//! A C program that is compiled with these options also runs without this library, because glibc has hooks that do
//! nothing. The hooks here are called if this library comes before glibc in the search order, by linking or by
//! `LD_PRELOAD`.
//!
//! The hooks of rustc are those of ThreadSanitizer's compiler pass, with options that make the pass put nothing else
//! into functions: it instruments no memory accesses and no atomics. ThreadSanitizer itself is not linked, and none of
//! its functions are called. A program that is compiled for the real ThreadSanitizer (`-fsanitize=thread`) has
//! ThreadSanitizer's own hooks in its executable, which take precedence over these.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use cpp_demangle::DemangleOptions;
use tracer::__foreign as foreign;

/// Whether the loader has relocated this code, so that the code can be used. While the loader relocates, it already
/// calls some functions of the program (those that choose an implementation: `ifunc`, `target_clones`), and these call
/// hooks. At that time, this code has no thread-locals and finds no symbols. So each hook first reads this variable,
/// which can be read even then, because it lies at a fixed distance from the code.
static IS_LOADED: AtomicBool = AtomicBool::new(cfg!(not(target_os = "linux")));

/// Calls `record` if the loader has relocated this code, so that it can record.
#[inline(always)]
fn if_loaded(record: impl FnOnce()) {
    if IS_LOADED.load(Ordering::Relaxed) { record() } else { if_relocated(record) }
}

/// Calls `record` if the loader has relocated all objects. This function is separate so that a hook can call it last.
/// If a hook did more after this call, it would have to save its arguments each time, which costs 7 of 23 ns.
#[cold]
#[inline(never)]
fn if_relocated(record: impl FnOnce()) {
    if is_relocated() {
        record();
    }
}

/// Returns whether the loader has relocated this code, so that it can record.
#[inline(always)]
pub(crate) fn is_loaded() -> bool {
    IS_LOADED.load(Ordering::Relaxed) || is_relocated()
}

/// A pointer to the function that the loader calls when it has relocated all objects. The number in the section's name
/// makes the loader call it before the other constructors of the executable or library that contains this code.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array.00000")]
static ON_LOAD: extern "C" fn() = on_load;

#[cfg(target_os = "linux")]
extern "C" fn on_load() {
    IS_LOADED.store(true, Ordering::Relaxed);
}

/// Returns whether the loader has relocated all objects. This is so if the C library is initialized, which happens
/// later. The check is needed because other libraries may be initialized before this one, and their constructors have
/// hooks, too.
#[cfg(target_os = "linux")]
#[cold]
#[inline(never)]
fn is_relocated() -> bool {
    unsafe extern "C" {
        /// The name by which the program was called. Before the C library is initialized, it is an empty text with
        /// glibc, and null with other C libraries.
        static program_invocation_name: *const u8;
    }
    // The loader writes this address. Until then it is null, which the compiler must not rule out.
    let name = std::hint::black_box(&raw const program_invocation_name);
    if std::hint::black_box(name.addr()) == 0 {
        return false;
    }
    // SAFETY: a variable of the C library, which it writes before the program has threads.
    let name = unsafe { *name };
    // SAFETY: null, or a string.
    let is_initialized = !name.is_null() && unsafe { *name } != 0;
    if is_initialized {
        on_load();
    }
    is_initialized
}

#[cfg(not(target_os = "linux"))]
fn is_relocated() -> bool {
    true
}

/// Records that `function`, which will return to `call_site`, is entered.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_enter(function: *const c_void, call_site: *const c_void) {
    if_loaded(|| foreign::enter_compiled(function.addr() as u64, call_site.addr() as u64, names_of));
}

/// Records that `function` is left. While an exception unwinds the stack, functions compiled by gcc call this, but
/// functions compiled by clang do not.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_exit(function: *const c_void, _call_site: *const c_void) {
    if_loaded(|| foreign::leave_compiled(function.addr() as u64, function.addr() as u64, names_of));
}

/// Does nothing. Code that `rustc -Cpasses=tsan` has compiled calls this function when the code is loaded.
#[cfg(naked_functions)]
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_init() {}

/// Records that the calling function, which will return to `call_site`, is entered.
#[cfg(all(naked_functions, target_arch = "x86_64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_func_entry(call_site: *const c_void) {
    // The return address lies in the function. The stack is as the caller has left it, so the target of the jump
    // returns to the caller.
    std::arch::naked_asm!("mov rsi, qword ptr [rsp]", "jmp {}", sym enter_calling)
}

/// Records that the calling function, which will return to `call_site`, is entered.
#[cfg(all(naked_functions, target_arch = "aarch64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_func_entry(call_site: *const c_void) {
    // The return address lies in the function.
    std::arch::naked_asm!("mov x1, x30", "b {}", sym enter_calling)
}

/// Records that the function that was entered last is left. Also called while a panic unwinds the stack.
#[cfg(all(naked_functions, target_arch = "x86_64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_func_exit() {
    // As in `__tsan_func_entry`.
    std::arch::naked_asm!("mov rdi, qword ptr [rsp]", "jmp {}", sym leave_calling)
}

/// Records that the function that was entered last is left. Also called while a panic unwinds the stack.
#[cfg(all(naked_functions, target_arch = "aarch64"))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_func_exit() {
    // As in `__tsan_func_entry`.
    std::arch::naked_asm!("mov x0, x30", "b {}", sym leave_calling)
}

/// Records that a function is entered, which will return to `call_site`. `behind` is the return address of the
/// function's call of the hook, so it lies in the function.
#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64")))]
extern "C" fn enter_calling(call_site: *const c_void, behind: *const c_void) {
    // One less, because after the last instruction of a function another function begins.
    if_loaded(|| foreign::enter_compiled(behind.addr() as u64 - 1, call_site.addr() as u64, names_of));
}

/// Records that the function that was entered last is left. `behind` is the return address of the function's call of
/// the hook, so it lies in the function, or in its caller if the function has jumped to the hook instead of calling it.
#[cfg(all(naked_functions, any(target_arch = "x86_64", target_arch = "aarch64")))]
extern "C" fn leave_calling(behind: *const c_void) {
    if_loaded(|| foreign::leave_compiled(0, behind.addr() as u64 - 1, names_of));
}

/// Returns the names of the function with this symbol, for `TRACER_FUNCTIONS` and `TRACER_TRIGGER`. A function of C++
/// has two: the name that `tracemerge` shows, and that name without parameters and return type.
pub(crate) fn names_of(symbol: &[u8]) -> Vec<String> {
    let path = DemangleOptions::new().no_params().no_return_type();
    let is_rust =
        std::str::from_utf8(symbol).is_ok_and(|symbol| rustc_demangle::try_demangle(symbol).is_ok());
    match cpp_demangle::Symbol::new(symbol) {
        Ok(cpp) if !is_rust => {
            [cpp.demangle(), cpp.demangle_with_options(&path)].into_iter().flatten().collect()
        }
        _ => foreign::names_of(symbol),
    }
}
