//! The type [`Tracer`], with the functions that programs call.

use std::fmt;
use std::io;

use super::builder::Builder;
use crate::shared::process;
use crate::shared::stats::Stats;
use crate::stack::Registers;
use crate::traced::{decision, record, signals, stack_record};
use crate::user::config::Config;

/// The tracer of this process. There is one; [`Tracer::get`] returns it.
///
/// ```
/// use tracer::Tracer;
///
/// Tracer::get().trace(format_args!("A number {}", 123));
/// ```
#[derive(Debug)]
pub struct Tracer(());

static TRACER: Tracer = Tracer(());

impl Tracer {
    /// Returns the tracer. The call costs nothing and reads nothing.
    #[inline(always)]
    #[must_use]
    pub fn get() -> &'static Tracer {
        &TRACER
    }

    /// Records a message with the time of the call and the calling thread.
    ///
    /// The first call in the process, if nothing was decided before, reads `TRACER_ENABLE`.
    ///
    /// * While tracing is off, the call is one relaxed load, and nothing is formatted. (The *arguments* are evaluated,
    ///   as for any function.)
    /// * While tracing is on, the call reads the clock and formats the message straight into the thread's ring. If the
    ///   ring has room, it takes no lock, allocates nothing and makes no system call; if the ring is full, it does as
    ///   [`FullPolicy`](crate::FullPolicy) says. A thread's first record takes a ring, which costs some microseconds.
    ///
    /// The message may contain anything and have any length; a line feed begins a `|` line in the file. If a
    /// `Display` among the arguments panics, the panic ends here: the record is dropped and counted, and the program
    /// goes on as it would without tracing. If a `Display` itself traces, its record is kept, too; but a record that is
    /// made while the record of a `Display` is being formatted is dropped and counted.
    ///
    /// The function may be called from anywhere: from destructors of thread-locals, panic hooks and allocators, and
    /// from signal handlers if the thread has traced before.
    #[inline(always)]
    pub fn trace(&self, message: fmt::Arguments<'_>) {
        if !process::is_off() {
            record::trace(0, message);
        }
    }

    /// Records the call stack of the function that calls this: the addresses of its callers, the innermost
    /// first, 120 at most. `tracemerge tree` shows the functions.
    ///
    /// With the feature `unwind` the stack reaches the thread's beginning. Without it, the stack is walked by frame
    /// pointers, which only programs built with `-Cforce-frame-pointers=yes` have everywhere; the record says that
    /// the stack is incomplete. On Windows it is complete either way. This works on Linux on x86-64 and aarch64, and
    /// on Windows on x86-64; elsewhere the stack is empty.
    ///
    /// While tracing is off, the call is one relaxed load. While it is on, the call costs a record, and a few
    /// nanoseconds for each frame. It takes no lock and does not allocate, and may be made wherever
    /// [`trace`](Tracer::trace) may be called.
    #[inline(always)]
    pub fn stack(&self) {
        if !process::is_off() {
            stack_record::record_stack(Registers::here());
        }
    }

    /// Catches signals that end the process, from now on: the trace then has the signal's name and the call stack of
    /// its thread. The last lines of the files name the signal, too, even if the program was not started by
    /// `tracemerge run`.
    ///
    /// It catches the signals that dump a core: `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGQUIT`, `SIGSEGV`,
    /// `SIGSYS`, `SIGTRAP`, `SIGXCPU`, `SIGXFSZ`, except those that are ignored when this is called. The process ends
    /// by its signal as before: with the same status, and a core dump of the place where it failed. A handler that
    /// was set before is called after the record, as the system would have called it, and decides whether the process
    /// ends; so the Rust library's message about a stack overflow is printed as before. A program that goes on after
    /// such signals, as a virtual machine does, gets two records for each.
    ///
    /// The stack begins where the signal has interrupted the thread. It is found as for [`stack`](Tracer::stack),
    /// even if the thread has used up its stack, or has called an address that is not code.
    ///
    /// On Windows (x86-64), it catches unhandled exceptions, under the names of the corresponding signals of other
    /// systems, and the filter that was set before for unhandled exceptions is called after the record. A stack
    /// overflow is not recorded, only named in the last lines; `abort` and failed stack checks end the process
    /// unrecorded, and nothing is caught under a debugger.
    ///
    /// Call this function when tracing is on. If tracing is off, and on other systems, it does nothing and sets no
    /// handler. No other function of the tracer sets signal handlers. A second call changes nothing. The function costs
    /// some thirty system calls and a [`flush`](Tracer::flush).
    pub fn catch_signals() {
        signals::catch_and_flush();
    }

    /// Returns whether this process traces. If that is not decided yet, this call decides it, as the first call of
    /// [`trace`](Tracer::trace) would.
    ///
    /// Use it to skip work that is only worth doing for the trace.
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !process::is_off() && decision::is_on()
    }

    /// Makes `variable` the only environment variable that switches tracing on, and decides by it now: `1`, `true`,
    /// `on`, `yes` is on; `0`, `false`, `off`, `no`, empty or unset is off; anything else is off, with a warning on
    /// stderr.
    ///
    /// Returns whether the process traces now. If it traced before and does not trace now, its trace is ended as by
    /// [`shutdown`](Tracer::shutdown). A program for which `TRACER_ENABLE` is enough does not need this call.
    pub fn startup(&self, variable: &str) -> bool {
        decision::decide_again(Some(variable), Config::of_process())
    }

    /// Returns a builder for settings other than the defaults; [`Builder::startup`] applies them.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Waits until everything that any thread has traced before this call is in the files.
    ///
    /// "In the files" means handed to the operating system: the records are safe if the process dies, but not if the
    /// machine stops. The call is not needed before an exit. It waits for the flusher, so it takes as long as the disk
    /// does.
    ///
    /// # Errors
    /// Returns the first error that kept the flusher from writing a file and that no earlier call has returned. The
    /// unwritten records stay in the rings, and the flusher tries again. Returns [`io::ErrorKind::WouldBlock`] if this
    /// is called inside a record (from a `Display` or a signal handler): the call would wait for that record's end in
    /// vain.
    pub fn flush(&self) -> io::Result<()> {
        if record::is_inside() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "flush was called inside of a record"));
        }
        decision::flush()
    }

    /// Writes the flight recorder's records to the files: the newest records of each thread since the last snapshot,
    /// as many as its ring had room for. See [`FullPolicy::Overwrite`](crate::FullPolicy::Overwrite).
    ///
    /// This does the same as [`flush`](Tracer::flush), under a name that fits flight recorders. Under the other
    /// policies, it writes the few records that the flusher has not written yet. Call it when something went wrong; the
    /// program goes on tracing.
    ///
    /// # Errors
    /// Fails for the same reasons as [`flush`](Tracer::flush).
    pub fn snapshot(&self) -> io::Result<()> {
        self.flush()
    }

    /// Ends tracing: writes everything, ends every file and stops the flusher.
    ///
    /// A call is never needed, because an exit does the same. Records that other threads make during the call may be
    /// lost. Afterwards tracing is off until [`startup`](Tracer::startup) decides again.
    ///
    /// # Errors
    /// Fails for the same reasons as [`flush`](Tracer::flush).
    pub fn shutdown(&self) -> io::Result<()> {
        if record::is_inside() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "shutdown was called inside of a record"));
        }
        decision::shut_down()
    }

    /// Returns the counters of this run. The call takes a lock and reads every thread's ring, so it is not meant for
    /// frequent use.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of_process()
    }
}
