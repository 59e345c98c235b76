//! Catches signals that end the process with a core dump. For each of them, the handler calls functions of the tracer,
//! and then lets the process end as it would have ended without the tracer.
//!
//! ```text
//! signal ──► on_signal ──► record it ──┬─► there was no handler: note it, restore the default, send the signal again
//!                                      └─► there was one: it decides how the process goes on
//! ```
//!
//! This works on Linux on x86-64 and aarch64. Everything except [`catch_fatal_signals`] runs in the signal handler, in
//! which all signals are blocked.
#![allow(unsafe_code, reason = "signal handlers, and a switch of stacks; each argued where it stands")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{transmute, zeroed};
use std::ptr::{self, null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t, sigset_t};

use super::keep_errno;

/// The signals that are caught, with their names.
const SIGNALS: [(c_int, &str); 10] = [
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGSYS, "SIGSYS"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
];

/// A signal that was caught.
#[derive(Debug)]
pub(crate) struct FatalSignal {
    /// The name of the signal, `SIGSEGV`.
    pub name: &'static str,
    /// The program counter, the stack pointer and the frame pointer of the interrupted function, and the link
    /// register, if there is one.
    pub registers: [usize; 4],
    from: Sender,
}

/// The origin of a signal.
#[derive(Debug)]
enum Sender {
    /// An instruction of the thread has caused the signal. The value is the address that the kernel passes with the
    /// signal: that of the instruction, or of the memory that the instruction could not use.
    Instruction(usize),
    /// The kernel has sent the signal, for another reason.
    Kernel,
    /// The process with this id, which may be this process, has sent the signal.
    Process(libc::pid_t),
}

impl fmt::Display for FatalSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Sender::Instruction(address) => write!(f, "{} at {address:#x}", self.name),
            Sender::Kernel => f.write_str(self.name),
            Sender::Process(pid) => write!(f, "{} from process {pid}", self.name),
        }
    }
}

/// The tracer's functions that the signal handler calls.
#[derive(Debug)]
pub(crate) struct SignalCallbacks {
    /// The function that is called for each signal that is caught.
    pub caught: fn(&FatalSignal),
    /// The function that is called after `caught`, if the signal certainly ends the process.
    pub ends: fn(&FatalSignal),
}

/// For each of [`SIGNALS`], the former action, which this library has replaced; null if the signal is not caught.
///
/// ```text
/// null ──compare-exchange, Release──► the former action, for ever
/// ```
static PREVIOUS_ACTIONS: [AtomicPtr<sigaction>; SIGNALS.len()] =
    [const { AtomicPtr::new(null_mut()) }; SIGNALS.len()];
/// The functions that the signal handler calls; null until [`catch_fatal_signals`] stores them, before it sets the
/// first action.
static SIGNAL_CALLBACKS: AtomicPtr<SignalCallbacks> = AtomicPtr::new(null_mut());

/// Calls the functions of `signal_callbacks` for each fatal signal of this process, from now on. Does not change the
/// action of a signal that is ignored, or that an earlier call has caught: a handler that the program has set since may
/// call this library's handler.
pub(crate) fn catch_fatal_signals(signal_callbacks: &'static SignalCallbacks) {
    SIGNAL_CALLBACKS.store(ptr::from_ref(signal_callbacks).cast_mut(), Ordering::Release);
    for ((signal, _), before) in SIGNALS.iter().zip(&PREVIOUS_ACTIONS) {
        let Some(action) = action_of(*signal).filter(|action| action.sa_sigaction != libc::SIG_IGN) else {
            continue;
        };
        let action = Box::into_raw(Box::new(action));
        // Release: the handler sees the former action. Acquire is not needed: if there is a value already, it is not
        // read.
        if before.compare_exchange(null_mut(), action, Ordering::Release, Ordering::Relaxed).is_ok() {
            set_action(*signal, on_signal as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK);
        } else {
            // SAFETY: made above, and not shared.
            drop(unsafe { Box::from_raw(action) });
        }
    }
}

fn action_of(signal: c_int) -> Option<sigaction> {
    // SAFETY: zeros are a value of this type; the call only queries.
    unsafe {
        let mut action: sigaction = zeroed();
        (sigaction(signal, null(), &mut action) == 0).then_some(action)
    }
}

/// Sets the action of a signal. While the handler runs, all signals are blocked. This is a function of its own because
/// its set of signals would take room on the stack on which the tracer's handler runs.
#[inline(never)]
fn set_action(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: zeros are a value of this type; the handler is `on_signal` or the default action.
    unsafe {
        let mut action: sigaction = zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigfillset(&mut action.sa_mask);
        sigaction(signal, &action, null_mut());
    }
}

/// Returns whether the signal's action is the system's default.
fn has_default_action(signal: c_int) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_DFL)
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let _errno = keep_errno();
    let Some(at) = SIGNALS.iter().position(|(caught, _)| *caught == signal) else { return };
    // SAFETY: stored by `catch_fatal_signals` before this could be called, and never freed.
    let (signal_callbacks, before) = unsafe {
        (
            SIGNAL_CALLBACKS.load(Ordering::Acquire).as_ref(),
            PREVIOUS_ACTIONS[at].load(Ordering::Acquire).as_ref(),
        )
    };
    let (Some(signal_callbacks), Some(before)) = (signal_callbacks, before) else { return };
    // SAFETY: the kernel gives both to a handler with `SA_SIGINFO`.
    let (caught, is_of_instruction) = unsafe { describe(SIGNALS[at].1, &*info, &*context.cast()) };
    on_spare_stack(&mut || (signal_callbacks.caught)(&caught));
    if before.sa_sigaction != libc::SIG_DFL {
        // SAFETY: the former handler gets the arguments that the kernel passed to this one.
        unsafe { call_handler(before, signal, info, context) };
        // A handler that cannot help sets the default action and returns, and the instruction fails again. If a
        // process has sent the signal, there is no such instruction.
        if is_of_instruction {
            on_spare_stack_or_here(&mut || {
                if has_default_action(signal) {
                    (signal_callbacks.ends)(&caught);
                }
            });
        }
        return;
    }
    on_spare_stack_or_here(&mut || {
        let is_ours =
            action_of(signal).is_some_and(|now| now.sa_sigaction == on_signal as *const () as usize);
        // A handler that was set later and calls this one itself decides how a signal that was sent goes on.
        if is_ours || is_of_instruction {
            (signal_callbacks.ends)(&caught);
            end(signal, info);
        }
    });
}

/// Makes the signal do its default action as soon as the handler returns: with the registers of the interrupted
/// function, and with all details of the signal, which a core dump shows.
fn end(signal: c_int, info: *mut siginfo_t) {
    set_action(signal, libc::SIG_DFL, 0);
    // SAFETY: a process may send to itself the same signals that the kernel has sent to it.
    unsafe {
        let sent =
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, super::process_id(), super::thread_id(), signal, info);
        if sent != 0 {
            libc::raise(signal);
        }
    }
}

/// Describes a signal. Also returns whether an instruction of the interrupted thread has caused it: the processor
/// executes that instruction again when the handler returns.
fn describe(name: &'static str, info: &siginfo_t, context: &libc::ucontext_t) -> (FatalSignal, bool) {
    const BY_INSTRUCTION: [c_int; 6] =
        [libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGSYS, libc::SIGTRAP];
    let is_of_instruction = info.si_code > 0 && BY_INSTRUCTION.contains(&info.si_signo);
    // SAFETY: signals of that origin have these fields.
    let from = unsafe {
        match info.si_code {
            _ if is_of_instruction => Sender::Instruction(info.si_addr().addr()),
            code if code > 0 => Sender::Kernel,
            _ => Sender::Process(info.si_pid()),
        }
    };
    (FatalSignal { name, registers: registers(&context.uc_mcontext), from }, is_of_instruction)
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::mcontext_t) -> [usize; 4] {
    let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
        .map(|register| context.gregs[register as usize] as usize);
    [pc, sp, fp, 0]
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::mcontext_t) -> [usize; 4] {
    [context.pc, context.sp, context.regs[29], context.regs[30]].map(|register| register as usize)
}

/// Calls `before`, the handler that this library's handler has replaced, as the kernel would call it.
///
/// # Safety
/// `before` is not a default action, and the other arguments are those that the kernel has passed to a handler.
unsafe fn call_handler(before: &sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if before.sa_flags & libc::SA_RESETHAND != 0 {
        set_action(signal, libc::SIG_DFL, 0);
    }
    // SAFETY: the caller's promise.
    unsafe {
        block_for(before, signal, context);
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(before.sa_sigaction)(
                signal, info, context,
            );
        } else {
            transmute::<usize, extern "C" fn(c_int)>(before.sa_sigaction)(signal);
        }
    }
    block_all();
}

/// Blocks exactly the signals that the system would block while the handler `before` runs. This is a function of its
/// own, like [`block_all`], because its sets of signals would take room on the stack on which the handler runs.
///
/// # Safety
/// `context` is the one that the kernel has passed to a handler.
#[inline(never)]
unsafe fn block_for(before: &sigaction, signal: c_int, context: *mut c_void) {
    // SAFETY: the caller's promise, and a set that outlives the call.
    unsafe {
        let blocked = blocked_in(before, signal, context);
        libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, null_mut());
    }
}

/// Blocks all signals, as they are while this library's handler runs.
#[inline(never)]
fn block_all() {
    // SAFETY: zeros are a value of this type, and the set outlives the calls.
    unsafe {
        let mut all: sigset_t = zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
    }
}

/// Returns the signals that are blocked while the handler `before` runs: those that were blocked when the thread was
/// interrupted, and those that the handler requests.
///
/// # Safety
/// `context` is the one that the kernel has passed to a handler.
unsafe fn blocked_in(before: &sigaction, signal: c_int, context: *mut c_void) -> sigset_t {
    // SAFETY: the kernel's set has 64 bits; the rest of the C library's set has another meaning in a context.
    let interrupted = unsafe {
        (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read_unaligned()
    };
    let mut blocked = before.sa_mask;
    let others = (1..=64).filter(|other| interrupted >> (other - 1) & 1 == 1);
    let own = (before.sa_flags & libc::SA_NODEFER == 0).then_some(signal);
    for other in others.chain(own) {
        // SAFETY: the set is initialised; an invalid number is refused.
        unsafe { libc::sigaddset(&mut blocked, other) };
    }
    blocked
}

/// The length of the spare stack in bytes.
const SPARE: usize = 64 << 10;

#[repr(C, align(64))]
struct SpareStack(UnsafeCell<[u8; SPARE]>);

// SAFETY: used only by the thread that has set `SPARE_TAKEN`.
unsafe impl Sync for SpareStack {}

/// The stack on which the tracer handles a signal: the stack that the thread has for signal handlers may have only
/// eight kilobytes, and the handler that was set before needs room there, too.
static SPARE_STACK: SpareStack = SpareStack(UnsafeCell::new([0; SPARE]));
/// Whether a thread uses [`SPARE_STACK`]: false ──compare-exchange, Acquire──► true ──Release──► false. In a child that
/// was forked while the flag was true, the flag stays true, and the child's signals are not recorded.
static SPARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns whether the calling function, whose stack pointer is `here`, runs on the spare stack.
pub(crate) fn is_on_spare_stack(here: usize) -> bool {
    here.wrapping_sub(SPARE_STACK.0.get().addr()) < SPARE
}

/// Calls `body` on the spare stack or, if other threads use that stack for too long, on the present one.
///
/// The present stack may be almost full: if a signal handler aborts the process, the frames of two signals, with all
/// registers of the processor, are on the thread's stack for signal handlers, and leave only some hundred bytes of
/// eight kilobytes.
fn on_spare_stack_or_here(body: &mut dyn FnMut()) {
    if !on_spare_stack(body) {
        body();
    }
}

/// Calls `body` on the spare stack, and returns true. If other threads use that stack for longer than such a call
/// takes, returns false without calling `body`.
#[inline(never)]
fn on_spare_stack(mut body: &mut dyn FnMut()) -> bool {
    /// The number of attempts to take the stack; after each one that fails, other threads may run.
    const MAX_WAIT: usize = 1 << 16;
    let takes = || {
        let taken = SPARE_TAKEN.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !taken {
            std::thread::yield_now();
        }
        taken
    };
    let is_taken = (0..MAX_WAIT).any(|_| takes());
    if is_taken {
        // SAFETY: the stack is this thread's, and no signal comes while it is used; `call` gets the argument that it
        // expects. It does not unwind, because its ABI does not allow that.
        unsafe { call_on(SPARE_STACK.0.get().cast::<u8>().add(SPARE), call, (&raw mut body).cast()) };
        SPARE_TAKEN.store(false, Ordering::Release);
    }
    is_taken
}

extern "C" fn call(body: *mut c_void) {
    // SAFETY: the pointer comes from `on_spare_stack`, which waits for this.
    unsafe { (*body.cast::<&mut dyn FnMut()>())() };
}

/// Calls `function` on the stack whose upper end is `top`.
///
/// # Safety
/// The stack is aligned and not used otherwise; the function takes `argument`.
unsafe fn call_on(top: *mut u8, function: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: the stack pointer is kept in a register that the callee preserves, and is restored after the call.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov r12, rsp", "mov rsp, {top}", "call {function}", "mov rsp, r12",
            top = in(reg) top, function = in(reg) function, in("rdi") argument, out("r12") _, clobber_abi("C"));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mov x20, sp", "mov sp, {top}", "blr {function}", "mov sp, x20",
            top = in(reg) top, function = in(reg) function, in("x0") argument, out("x20") _, clobber_abi("C"));
    }
}
