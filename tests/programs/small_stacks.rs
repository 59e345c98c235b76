//! Threads with small stacks, and signal handlers on small stacks of their own, which make the first records of their
//! threads.

use std::sync::atomic::{AtomicU64, Ordering};
use support::scenarios::Scenario;
use tracer::{Tracer, trace};

pub const SCENARIOS: &[Scenario] = &[("small-stacks", |args| small_stacks(args.all()))];

/// The number of signals, or of turns of the small thread.
const TURNS: u64 = 4;
/// The byte that the memory below a signal stack is filled with.
const UNTOUCHED: u8 = 0xa5;

static MADE: AtomicU64 = AtomicU64::new(0);

fn records() {
    let n = MADE.load(Ordering::Relaxed);
    trace!("captured {}", n);
    Tracer::get().trace(format_args!("formatted {}", n + 1));
    MADE.fetch_add(2, Ordering::Relaxed);
}

extern "C" fn on_signal(_: libc::c_int) {
    records();
}

/// Makes records on a signal stack of `size` bytes. Refuses sizes that are too small for the kernel's own frame of a signal.
extern "C" fn on_signal_stack(size: *mut libc::c_void) -> *mut libc::c_void {
    let size = size.addr();
    let mut memory = vec![UNTOUCHED; size + (256 << 10)].into_boxed_slice();
    let low = memory.len() - size;
    // SAFETY: the stack is memory of this function's, which outlives its use; the handler is one that may trace.
    unsafe {
        if (size as u64) < libc::getauxval(libc::AT_MINSIGSTKSZ) {
            println!("refused");
            std::process::exit(3);
        }
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().add(low).cast(), ss_flags: 0, ss_size: size };
        if libc::sigaltstack(&stack, std::ptr::null_mut()) != 0 {
            println!("refused");
            std::process::exit(3);
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        for _ in 0..TURNS {
            libc::raise(libc::SIGUSR1);
        }
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        assert_eq!(libc::sigaltstack(&none, std::ptr::null_mut()), 0);
    }
    let deepest = memory[..low].iter().position(|byte| *byte != UNTOUCHED);
    if let Some(deepest) = deepest {
        println!("overflow of {} bytes", low - deepest);
        std::process::exit(4);
    }
    std::ptr::null_mut()
}

extern "C" fn on_small_stack(_: *mut libc::c_void) -> *mut libc::c_void {
    (0..TURNS).for_each(|_| records());
    std::ptr::null_mut()
}

/// Makes records on a "signal" stack, or on the stack of a "thread", of the given size in bytes. With "warm",
/// another thread makes a record first. Prints the number of all records.
pub fn small_stacks(words: &[String]) {
    let [kind, size, warmth] = words else { panic!("a kind, a size, a warmth") };
    let size: usize = size.parse().expect("a size");
    if warmth == "warm" {
        Tracer::get().trace(format_args!("another thread's"));
        MADE.fetch_add(1, Ordering::Relaxed);
    }
    let (run, stack): (extern "C" fn(*mut libc::c_void) -> *mut libc::c_void, _) =
        if kind == "signal" { (on_signal_stack, 1 << 20) } else { (on_small_stack, size) };
    // SAFETY: the attributes are initialised before they are used; the function takes a number.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        assert_eq!(libc::pthread_attr_setstacksize(&mut attributes, stack), 0);
        let mut thread = std::mem::zeroed();
        let argument = std::ptr::without_provenance_mut(size);
        assert_eq!(libc::pthread_create(&mut thread, &attributes, run, argument), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
    }
    Tracer::get().trace(format_args!("the last one"));
    println!("{}", MADE.load(Ordering::Relaxed) + 1);
}
