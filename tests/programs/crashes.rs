//! Ends of a program by signals, with `Tracer::catch_signals`, in functions whose names are known.

use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use support::scenarios::Scenario;
use tracer::Tracer;

use crate::signals::handle;

pub const SCENARIOS: &[Scenario] = &[
    ("crashed", |args| crashed(args.text(0), true)),
    ("crashed-uncaught", |args| crashed(args.text(0), false)),
];

/// Catches signals if `caught` is true, and fails in the way that `how` names. `outer` calls `middle`, which calls
/// `fails`.
pub fn crashed(how: &str, caught: bool) {
    prepare(how);
    Tracer::get().trace(format_args!("before the end"));
    if caught {
        Tracer::catch_signals();
        // The second call changes nothing.
        Tracer::catch_signals();
    }
    match how {
        "another-thread" => std::thread::spawn(|| outer("fault")).join().expect("no panic"),
        "forked" => crash_in_child(),
        "replaced" => {
            replace(libc::SIGQUIT);
            outer("quits");
        }
        _ => outer(how),
    }
    Tracer::get().trace(format_args!("behind it"));
}

#[inline(never)]
fn outer(how: &str) {
    middle(black_box(how));
    black_box(());
}

#[inline(never)]
fn middle(how: &str) {
    fails(black_box(how));
    black_box(());
}

/// Selects the instruction of x86-64, or of the other processor.
#[cfg(target_arch = "x86_64")]
macro_rules! if_x86_64 {
    ($this:literal, $other:literal) => {
        $this
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! if_x86_64 {
    ($this:literal, $other:literal) => {
        $other
    };
}

#[inline(never)]
fn fails(how: &str) {
    match how {
        "fault" | "handled" | "handler-exits" => write_to_nowhere(),
        "aborts" => std::process::abort(),
        "overflow" => drop(black_box(overflow(black_box(1)))),
        // SAFETY: the process ends here.
        "null-call" => unsafe {
            let function: extern "C" fn() = std::mem::transmute(black_box(8usize));
            function();
        },
        // SAFETY: the process ends here.
        "traps" => unsafe { std::arch::asm!(if_x86_64!("int3", "brk 0")) },
        // SAFETY: the process ends here.
        "illegal" => unsafe { std::arch::asm!(if_x86_64!("ud2", "udf 0")) },
        // SAFETY: the process ends here. (On aarch64 a division by 0 is 0.)
        #[cfg(target_arch = "x86_64")]
        "divides" => unsafe {
            std::arch::asm!("div {0}", in(reg) 0u64, inout("rax") 1u64 => _, inout("rdx") 0u64 => _);
        },
        // SAFETY: the call touches no memory.
        "quits" | "ignored" => _ = unsafe { libc::raise(libc::SIGQUIT) },
        "in-display" => Tracer::get().trace(format_args!("never whole: {Faults}")),
        other => panic!("no crash {other:?}"),
    }
    black_box(());
}

/// The length in bytes of the instruction that faults.
const LENGTH: usize = if cfg!(target_arch = "x86_64") { 3 } else { 4 };

#[inline(never)]
fn write_to_nowhere() {
    // SAFETY: no memory is mapped at this address; a handler goes on after the instruction, which has `LENGTH`
    // bytes.
    unsafe {
        std::arch::asm!(if_x86_64!("mov byte ptr [{0}], 1", "strb wzr, [{0}]"), "nop", in(reg) black_box(8usize));
    }
}

#[allow(unconditional_recursion, reason = "the stack is to be used up")]
#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let room = black_box([depth; 40]);
    overflow(depth + 1) + black_box(room)[3]
}

struct Faults;

impl fmt::Display for Faults {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_to_nowhere();
        Ok(())
    }
}

fn prepare(how: &str) {
    extern "C" fn exits(_: libc::c_int) {
        // SAFETY: a handler may end the process.
        unsafe { libc::_exit(7) };
    }
    match how {
        "handled" => handle_fault(),
        "handler-exits" => handle(libc::SIGSEGV, exits),
        // SAFETY: no handler is set.
        "ignored" => _ = unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) },
        // A shell makes its background jobs ignore this signal, so the tests may have inherited that.
        // SAFETY: no handler is set.
        _ => _ = unsafe { libc::signal(libc::SIGQUIT, libc::SIG_DFL) },
    }
}

/// Installs a handler for faults that goes on after the instruction.
fn handle_fault() {
    extern "C" fn skips(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives the context to a handler; the instruction is that of `write_to_nowhere`.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
            #[cfg(target_arch = "x86_64")]
            {
                registers.gregs[libc::REG_RIP as usize] += LENGTH as i64;
            }
            #[cfg(target_arch = "aarch64")]
            {
                registers.pc += LENGTH as u64;
            }
        }
    }
    // SAFETY: the handler touches nothing but its context.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = skips as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
    }
}

/// Sets a handler that calls the one that it replaces.
fn replace(signal: libc::c_int) {
    static BEFORE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    extern "C" fn call_previous_handler(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        let before = *BEFORE.get().expect("set before the handler");
        // SAFETY: the replaced handler has this type.
        unsafe { std::mem::transmute::<usize, Handler>(before)(signal, info, context) };
    }
    // SAFETY: the handler calls the one that it replaces, as the kernel would.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal, std::ptr::null(), &mut action), 0);
        BEFORE.set(action.sa_sigaction).expect("once");
        action.sa_sigaction = call_previous_handler as *const () as usize;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Forks a child that has not traced and that fails; prints the signal that ended it.
fn crash_in_child() {
    // SAFETY: the child makes no call that needs another thread.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            outer("fault");
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        println!("{}", if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 });
    }
}
