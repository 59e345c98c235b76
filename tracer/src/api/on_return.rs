//! The macro that has something run after a function has returned.

/// Has a closure run right after the current function has returned to its caller:
/// `on_return!(|| ..)`. Returns whether that will be, as a `Result`.
///
/// The closure runs on the same thread, when the function's locals are gone, so it is `FnOnce() + 'static`. It
/// finds the function returned, and what the function returns is on its way to the caller, in registers that
/// stay as they are; `errno` stays as it is, too. Several closures of one function run in reverse order. A
/// panic in a closure ends there, once the panic hook has been called.
///
/// "The current function" is the one that the compiler has made: where the macro's function is inlined into
/// another one, it is that one, and in a closure it is the closure. Mark the function as `#[inline(never)]` to
/// be sure. Where the function ends with a call that the compiler has made a jump, the closure runs when that
/// call has returned.
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
/// * A panic that unwinds the function runs the closure as well, after the function's own destructors and
///   before those of its caller; `std::thread::panicking` is true then. So does `pthread_exit`.
/// * A `longjmp` out of the function drops the closure without running it, when the thread uses the macro next,
///   when a function further out returns, or when the thread ends.
/// * Where the process ends inside of the function, nothing is run, as with locals.
/// * In a child that is forked inside of the function, the closure runs in both processes.
///
/// # Errors
/// An [`OnReturnError`](crate::OnReturnError) says why nothing will be run; the closure is dropped. Where the
/// function's return is on the stack is not guessed: if the unwind tables do not tell, it is an error. So it is
/// on the stack of a coroutine or of a signal handler, and for more than 4080 functions at the same time (16,320
/// with the feature `hooks`).
///
/// # Costs
/// Two allocations and a few hundred nanoseconds; see `docs/performance.md`. At the return, about 3 KiB of the
/// stack are used to save registers.
///
/// # Safety of the process
/// Backtraces, panics and debuggers go through the changed return, as its unwind table leads them; a
/// debugger shows a frame more. A program that looks at its own returns without these tables does not find
/// them. To move the function's frame to another stack while it runs is not possible any more. The macro is not
/// to be used in signal handlers, since it allocates.
///
/// With the feature `unwind`, on Linux on x86-64; elsewhere it does not compile.
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

/// Has a closure run right after the current function has returned: with the feature `unwind`, on Linux on
/// x86-64. Here it does not compile.
#[cfg(not(all(feature = "unwind", target_os = "linux", target_arch = "x86_64")))]
#[macro_export]
macro_rules! on_return {
    ($($arguments:tt)*) => {
        ::core::compile_error!(
            "on_return! needs the feature `unwind` of the package tracer-lib, and Linux on x86-64"
        )
    };
}
