//! The macro `on_return!`, which runs a closure after a function has returned.

/// Runs a closure right after the current function has returned to its caller: `on_return!(|| ..)`. Returns an error
/// if the closure will not run.
///
/// The closure runs on the same thread, when the function's locals are gone, so it is `FnOnce() + 'static`. By then
/// the function has returned; the registers with its return value, and `errno`, are left unchanged for the caller.
/// Several closures of one function run in reverse order. A panic in a closure ends there, once the panic hook has
/// been called.
///
/// "The current function" is a function of the compiled program: if the function that contains the macro is inlined
/// into its caller, the caller is the current function; in a closure, the closure is. Mark the function as
/// `#[inline(never)]` to be sure. If the function ends with a call that the compiler has turned into a jump, the
/// closure runs when that call has returned.
///
/// ```
/// #[inline(never)]
/// fn answer() -> u64 {
///     let _ = tracer::on_return!(|| tracer::trace!("answer has returned"));
///     42
/// }
///
/// assert_eq!(answer(), 42);
/// ```
///
/// # Functions that do not return
/// * A panic that unwinds the function runs the closure as well, after the function's own destructors and before those
///   of its caller; `std::thread::panicking` is true then. `pthread_exit` runs the closure, too.
/// * After a `longjmp` out of the function, the closure is dropped without running: when the thread next uses the
///   macro, when a function further out returns, or when the thread ends.
/// * If the process ends inside the function, nothing is run, as for locals.
/// * If the process is forked inside the function, the closure runs in both processes.
///
/// # Errors
/// An [`OnReturnError`](crate::OnReturnError) says why the closure will not run; the closure is dropped. The macro
/// does not guess where on the stack the function's return address is: it fails if the unwind tables do not say so.
/// It also fails on the stack of a coroutine or of a signal handler, and for more than 4080 functions at the same
/// time (16,320 with the feature `hooks`).
///
/// # Costs
/// Two allocations and a few hundred nanoseconds; see `docs/performance.md`. At the return, about 3 KiB of the
/// stack are used to save registers.
///
/// # Safety of the process
/// Backtraces, panics and debuggers pass the changed return address, which has an unwind table of its own; a debugger
/// shows one more frame. A program that reads its own return addresses without these tables does not find them. The
/// function's frame can no longer be moved to another stack while it runs. Do not use the macro in signal handlers:
/// it allocates.
///
/// The macro needs the feature `unwind`, and Linux on x86-64; elsewhere it does not compile.
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
#[macro_export]
macro_rules! on_return {
    ($call:expr) => {
        $crate::__macro_support::on_return(
            $crate::__macro_support::Registers::here(),
            ::std::boxed::Box::new($call),
        )
    };
}

/// Runs a closure right after the current function has returned. In this build a call of the macro does not compile: it
/// needs the feature `unwind`, and Linux on x86-64.
#[cfg(not(all(feature = "unwind", target_os = "linux", target_arch = "x86_64")))]
#[macro_export]
macro_rules! on_return {
    ($($arguments:tt)*) => {
        ::core::compile_error!(
            "on_return! needs the feature `unwind` of the package tracer-lib, and Linux on x86-64"
        )
    };
}
