//! Functions of C are awaited: their results arrive, and functions that are left by `longjmp` leave nothing behind.
#![allow(unsafe_code, clippy::unwrap_used, reason = "loads functions of C; a failure fails a test")]
#![allow(clippy::missing_transmute_annotations, reason = "the types stand in `Functions`")]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::{mem, thread};

use super::super::tests::libraries::{Library, compile};
use super::super::{Registers, leave_by_frame_pointer, leave_by_size};
use super::{Rule, Stack, on_return};

type Called = extern "C-unwind" fn();

/// The functions of `tests.c`.
struct Functions {
    differences: extern "C-unwind" fn(Called, &mut c_int) -> c_int,
    clobber: extern "C-unwind" fn(),
    guarded: extern "C-unwind" fn(Called) -> c_int,
    jumps: extern "C-unwind" fn(Called, c_int),
    returns_after: extern "C-unwind" fn(Called, Called, c_int) -> c_int,
}

/// Compiles the functions and loads them, once.
fn c() -> &'static Functions {
    static LOADED: OnceLock<Functions> = OnceLock::new();
    LOADED.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let library = Library::load(&compile(directory.path(), "tests", include_str!("tests.c")));
        // SAFETY: the functions have these types, and the library stays loaded.
        let functions = unsafe {
            Functions {
                differences: mem::transmute::<*mut c_void, _>(library.function("differences")),
                clobber: mem::transmute::<*mut c_void, _>(library.function("clobber")),
                guarded: mem::transmute::<*mut c_void, _>(library.function("guarded")),
                jumps: mem::transmute::<*mut c_void, _>(library.function("jumps")),
                returns_after: mem::transmute::<*mut c_void, _>(library.function("returns_after")),
            }
        };
        mem::forget(library);
        functions
    })
}

/// Returns the registers of the caller of the function into which this is inlined.
#[inline(always)]
fn of_caller() -> Registers {
    let own = Registers::here();
    let stack = Stack::around(own.sp).unwrap();
    let caller = match Rule::at(own.pc).unwrap() {
        Rule::FramePointer => leave_by_frame_pointer(&stack, own.sp, own),
        Rule::StackPointer { size, saved } => leave_by_size(&stack, own.sp, own, (size, saved)),
        other => panic!("{other:?}"),
    };
    caller.unwrap()
}

thread_local! {
    static RUN: Cell<usize> = const { Cell::new(0) };
    /// The number of closures that were dropped, run or not.
    static DROPPED: Cell<usize> = const { Cell::new(0) };
    static INSIDE: RefCell<Vec<fn()>> = const { RefCell::new(Vec::new()) };
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

/// Awaits the function of C that calls this.
#[inline(never)]
extern "C-unwind" fn await_caller() {
    let counted = Counted;
    let call = move || {
        let _counted = counted;
        RUN.set(RUN.get() + 1);
        (c().clobber)();
    };
    on_return(of_caller(), Box::new(call)).unwrap();
}

fn counts() -> (usize, usize) {
    (RUN.get(), DROPPED.get())
}

#[test]
fn return_values_of_c_functions_are_preserved() {
    let mut functions = 0;
    for _ in 0..3 {
        assert_eq!((c().differences)(await_caller, &mut functions), 0);
    }
    assert_eq!(functions, 17);
    assert_eq!(counts(), (51, 51));
}

extern "C-unwind" fn jump() {
    (c().jumps)(await_caller, 5);
}

#[test]
fn a_function_left_by_a_jump_runs_nothing_and_frees_its_slot() {
    // More often than there are slots.
    for n in 1..=10_000 {
        assert_eq!((c().guarded)(jump), 5);
        assert_eq!(RUN.get(), 0, "it has not returned");
        // The function of the round before is found to be left.
        assert_eq!(DROPPED.get(), n - 1);
    }
    let mut functions = 0;
    assert_eq!((c().differences)(await_caller, &mut functions), 0);
    assert_eq!(counts(), (17, 10_017));
}

#[test]
fn an_outer_function_returns_correctly_after_a_jump() {
    extern "C-unwind" fn deeper() {
        // A further function is awaited, in vain, and one that returns.
        assert_eq!((c().returns_after)(await_caller, jump, 3), 503);
        jump();
    }
    for n in 1..=100 {
        assert_eq!((c().returns_after)(await_caller, deeper, 7), 507);
        // One inner and the outer one have returned; two were left.
        assert_eq!(counts(), (2 * n, 4 * n));
    }
}

#[test]
fn a_jump_over_many_awaited_functions_forgets_all_of_them() {
    thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
    extern "C-unwind" fn nested() {
        DEPTH.set(DEPTH.get() + 1);
        if DEPTH.get() == 1000 {
            jump();
        }
        nest();
    }
    #[inline(never)]
    fn nest() {
        on_return(Registers::here(), Box::new(|| RUN.set(RUN.get() + 1))).unwrap();
        nested();
        std::hint::black_box(());
    }
    for _ in 0..20 {
        DEPTH.set(0);
        assert_eq!((c().guarded)(nested), 5);
    }
    let mut functions = 0;
    assert_eq!((c().differences)(await_caller, &mut functions), 0);
    assert_eq!(RUN.get(), 17);
}

#[test]
fn closures_skipped_by_a_jump_are_dropped_when_the_thread_ends() {
    static LEFT: OnceLock<usize> = OnceLock::new();
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            LEFT.get_or_init(|| 1);
        }
    }
    extern "C-unwind" fn once() {
        #[inline(never)]
        extern "C-unwind" fn await_it() {
            let last = Last;
            on_return(of_caller(), Box::new(move || mem::forget(last))).unwrap();
        }
        (c().jumps)(await_it, 5);
    }
    thread::spawn(|| {
        assert_eq!((c().guarded)(once), 5);
        assert!(LEFT.get().is_none());
    })
    .join()
    .unwrap();
    assert!(LEFT.get().is_some());
}
