//! The public face: [`Tracer`].

use std::fmt;
use std::io;

use super::builder::Builder;
use crate::shared::process;
use crate::shared::stats::Stats;
use crate::stack::Registers;
use crate::traced::{decision, record, signals, stack_record};
use crate::user::config::Config;

/// The tracer of this process. There is one; [`Tracer::get`] gives it.
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
    /// Gives the tracer. The call costs nothing and reads nothing.
    #[inline(always)]
    #[must_use]
    pub fn get() -> &'static Tracer {
        &TRACER
    }

    /// Records a message with the time of the call and the calling thread.
    ///
    /// The first call in the process, if nothing was decided before, reads `TRACER_ENABLE`.
    ///
    /// * Off: one relaxed load; nothing is formatted. (The *arguments* are evaluated, as for any function.)
    /// * On: the clock is read and the message is formatted, straight into the thread's ring. No lock, no
    ///   allocation, no system call where there is room; a full ring is handled as
    ///   [`FullPolicy`](crate::FullPolicy) says. A thread's first record takes a ring, some microseconds.
    ///
    /// The message may contain anything and have any length; a line feed begins a `|` line in the file. If a
    /// `Display` among the arguments panics, the panic ends here: the record is dropped and counted, the
    /// program goes on as it would without tracing. If one traces itself, its record is kept, too; one level
    /// further in, inside that one's formatting, it is dropped and counted.
    ///
    /// May be called from anywhere: destructors of thread-locals, panic hooks, allocators, signal handlers
    /// (once the thread has traced before).
    #[inline(always)]
    pub fn trace(&self, message: fmt::Arguments<'_>) {
        if !process::is_off() {
            record::trace(0, message);
        }
    }

    /// Records the call stack of the function that calls this: the addresses of its callers, the innermost
    /// first, 120 at most. `tracemerge tree` shows the functions.
    ///
    /// With the feature `unwind` the stack goes up to where the thread began. Without it, it is walked by frame
    /// pointers, which only programs built with `-Cforce-frame-pointers=yes` have everywhere: the record says
    /// that it is not whole. On Windows it is whole either way. Linux on x86-64 and aarch64, and Windows on x86-64; elsewhere
    /// the stack is empty.
    ///
    /// Off, this is one relaxed load. On, it costs a record, and a few nanoseconds for each frame. It takes no
    /// lock and does not allocate, and may be called wherever [`trace`](Tracer::trace) may be.
    #[inline(always)]
    pub fn stack(&self) {
        if !process::is_off() {
            stack_record::record_stack(Registers::here());
        }
    }

    /// Has a signal that ends the process leave its name and the call stack of its thread in the trace, from now on. The
    /// last lines of the files name the signal, too, also if the program runs by itself.
    ///
    /// Caught are the signals that dump a core: `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGQUIT`, `SIGSEGV`, `SIGSYS`,
    /// `SIGTRAP`, `SIGXCPU`, `SIGXFSZ`, but for those that are ignored when this is called. The process ends by its
    /// signal as it would have: with the same status, and a core dump of the place where it failed. A handler that was there
    /// is called behind the record, as the system would have called it, and decides what becomes of the process; so the
    /// message of Rust's library about a stack that has overflown is printed as before. A program that goes on after
    /// such signals, as a virtual machine does, gets two records for each.
    ///
    /// The stack begins where the signal has interrupted the thread. It is found as for [`stack`](Tracer::stack), also where
    /// the thread has used up its stack, or has called what is no code.
    ///
    /// On Windows (x86-64), caught are exceptions that nobody handles, by the names of the signals that they are elsewhere,
    /// and the filter that was set before for them is called behind the record. Not recorded, only named in the last
    /// lines, is that a thread has used up its stack; `abort` and failed checks of the stack end the process without a word,
    /// and nothing is caught under a debugger.
    ///
    /// To be called once tracing is on; where it is off, nothing is done and no handler is set, so is on other systems.
    /// This is the one thing that sets signal handlers. Calling it again changes nothing. It costs some thirty
    /// system calls and a [`flush`](Tracer::flush).
    pub fn catch_signals() {
        signals::catch_and_flush();
    }

    /// Returns whether this process traces. The first call decides, as for [`trace`](Tracer::trace).
    ///
    /// For work that is only worth doing when it is traced.
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        !process::is_off() && decision::is_on()
    }

    /// Makes `variable` the environment variable that switches tracing on, the only one, and decides by it
    /// now: `1`, `true`, `on`, `yes` is on; `0`, `false`, `off`, `no`, empty or unset is off; anything else
    /// is off, with a warning on stderr.
    ///
    /// Returns whether the process traces now. If it traced before and the answer is no, the trace so far is
    /// ended as by [`shutdown`](Tracer::shutdown). Not needed where `TRACER_ENABLE` will do.
    pub fn startup(&self, variable: &str) -> bool {
        decision::decide_anew(Some(variable), Config::of_process())
    }

    /// Settings other than the defaults; ends with [`Builder::startup`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns when all that was traced before this call, by any thread, is in the files.
    ///
    /// In the files means handed to the operating system: safe from the death of the process, not from that
    /// of the machine. Not needed before an exit. Waits for the flusher, so as long as the disk takes.
    ///
    /// # Errors
    /// The first error since the last call that kept the flusher from writing a file; what could not be
    /// written stays in the rings and is tried again. [`io::ErrorKind::WouldBlock`] where it is called inside
    /// of a record (from a `Display` or a handler), which it would wait for in vain.
    pub fn flush(&self) -> io::Result<()> {
        if record::is_inside() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "flush was called inside of a record"));
        }
        decision::flush()
    }

    /// Has the flight recorder write what it holds: the newest records of each thread, as many as its ring
    /// had room for since the last snapshot. See [`FullPolicy::Overwrite`](crate::FullPolicy::Overwrite).
    ///
    /// The same as [`flush`](Tracer::flush), which with the other policies writes the little that is not
    /// written yet. To be called when something went wrong; the program goes on tracing.
    ///
    /// # Errors
    /// As [`flush`](Tracer::flush).
    pub fn snapshot(&self) -> io::Result<()> {
        self.flush()
    }

    /// Ends tracing: everything is written, every file gets its end, the flusher is gone.
    ///
    /// Never needed: an exit does the same. Records made by other threads while this runs may be lost.
    /// Tracing is off afterwards until [`startup`](Tracer::startup) decides anew.
    ///
    /// # Errors
    /// As [`flush`](Tracer::flush).
    pub fn shutdown(&self) -> io::Result<()> {
        if record::is_inside() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "shutdown was called inside of a record"));
        }
        decision::shut_down()
    }

    /// Gives the counters of this run. The call takes a lock and looks at every thread's ring: for now and
    /// then.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of_process()
    }
}
