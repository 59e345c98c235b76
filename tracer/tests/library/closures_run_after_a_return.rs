//! `on_return!` runs closures right after functions have returned, and disturbs nothing else.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a failure in a function of a test fails it")]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/programs.rs"]
mod programs;

use alone::{alone, is_alone};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::{mem, ptr, thread};

use tracer::{CalledFrom, OnReturnError, is_called_from, on_return};

/// The texts that the closures of a test have stored, in the order in which these have run.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl Notes {
    fn note(&self, text: impl Into<String>) {
        self.0.borrow_mut().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.borrow_mut())
    }

    /// Returns a closure that appends `text` to these texts.
    fn noting(&self, text: impl Into<String>) -> impl FnOnce() + 'static {
        let (notes, text) = (self.clone(), text.into());
        move || notes.note(text)
    }
}

/// A local variable that appends its text to the notes when it is dropped.
struct Local(Notes, &'static str);

impl Drop for Local {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

#[test]
fn a_closure_runs_after_locals_are_dropped_and_before_the_caller() {
    #[inline(never)]
    fn function(notes: &Notes) -> u64 {
        let _local = Local(notes.clone(), "local");
        on_return!(notes.noting("returned")).unwrap();
        notes.note("body");
        black_box(42)
    }
    let notes = Notes::default();
    for _ in 0..3 {
        assert_eq!(function(&notes), 42);
        notes.note("caller");
        assert_eq!(notes.take(), ["body", "local", "returned", "caller"]);
    }
}

#[test]
fn several_closures_of_a_function_run_in_reverse_order() {
    #[inline(never)]
    fn function(notes: &Notes) {
        for number in ["first", "second", "third"] {
            on_return!(notes.noting(number)).unwrap();
        }
    }
    let notes = Notes::default();
    function(&notes);
    assert_eq!(notes.take(), ["third", "second", "first"]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Large([u64; 40]);

/// Makes functions that return a value of each class of registers, and compares.
macro_rules! returned {
    ($($type:ty = $value:expr;)*) => {$({
        #[inline(never)]
        fn plain() -> $type {
            on_return!(|| clobber(7)).unwrap();
            black_box($value)
        }
        #[inline(never)]
        extern "C" fn of_c() -> $type {
            on_return!(|| clobber(7)).unwrap();
            black_box($value)
        }
        assert_eq!(plain(), $value);
        assert_eq!(of_c(), $value);
    })*};
}

/// Overwrites registers of all kinds, and memory.
#[inline(never)]
fn clobber(number: u64) {
    let floats: Vec<f64> = (0..64).map(|i| (i as f64 + number as f64).sqrt()).collect();
    let text = format!("{floats:?} {}", u128::from(number) * 3);
    black_box((floats, text));
}

#[test]
#[allow(improper_ctypes_definitions, reason = "the registers of C are those of interest")]
fn return_values_are_preserved() {
    returned! {
        u8 = 200;
        u64 = 0x1234_5678_9abc_def0;
        u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
        (u64, u64) = (1, 2);
        f32 = 1.5;
        f64 = -2.25;
        (f64, f64) = (3.5, -4.5);
        (u64, f64) = (5, 6.5);
        [f32; 4] = [1.0, 2.0, 3.0, 4.0];
        &'static str = "text";
        Option<Box<u8>> = None;
        Large = Large([9; 40]);
    }
}

#[test]
fn vector_registers_are_preserved() {
    use std::arch::x86_64::{__m256i, _mm256_set1_epi64x, _mm256_storeu_si256};
    if !is_x86_feature_detected!("avx") {
        return;
    }
    #[target_feature(enable = "avx")]
    #[inline(never)]
    #[allow(improper_ctypes_definitions, reason = "the registers of C are those of interest")]
    extern "C" fn vector(number: i64) -> __m256i {
        on_return!(|| clobber(7)).unwrap();
        black_box(_mm256_set1_epi64x(number))
    }
    #[target_feature(enable = "avx")]
    fn check() -> [i64; 4] {
        let mut lanes = [0; 4];
        let vector = vector(0x0123_4567_89ab_cdef);
        #[allow(unsafe_code, reason = "stores to an array")]
        // SAFETY: the array has 32 bytes.
        unsafe {
            _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector);
        }
        lanes
    }
    #[allow(unsafe_code, reason = "the processor has it")]
    // SAFETY: checked above.
    let lanes = unsafe { check() };
    assert_eq!(lanes, [0x0123_4567_89ab_cdef; 4]);
}

#[inline(never)]
fn recurse(depth: usize, count: &Rc<Cell<usize>>) -> usize {
    let seen = count.clone();
    // The innermost returns first.
    on_return!(move || assert_eq!(seen.replace(seen.get() + 1), depth)).unwrap();
    if depth == 0 { 0 } else { black_box(recurse(depth - 1, count)) + 1 }
}

#[test]
fn recursive_functions_return_one_after_the_other() {
    for depth in [1, 10, 1000] {
        let count = Rc::new(Cell::new(0));
        assert_eq!(recurse(depth, &count), depth);
        assert_eq!(count.get(), depth + 1);
        assert_eq!(Rc::strong_count(&count), 1, "no closure is left");
    }
}

#[test]
fn threads_wait_for_their_own_returns() {
    let threads = (0..8).map(|_| {
        thread::spawn(|| {
            for depth in 0..200 {
                let count = Rc::new(Cell::new(0));
                recurse(depth % 50, &count);
                assert_eq!(count.get(), depth % 50 + 1);
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

/// Panics `depth` functions further in; each has a closure and a local.
#[inline(never)]
fn panics(depth: usize, notes: &Notes, innermost: &dyn Fn()) {
    on_return!(notes.noting(format!("closure {depth}"))).unwrap();
    let _local = Local(notes.clone(), "local");
    if depth == 0 {
        innermost();
        resume_unwind(Box::new("on purpose"));
    }
    panics(depth - 1, notes, innermost);
    black_box(depth);
}

#[test]
fn a_panic_runs_the_closures_of_the_functions_that_it_leaves() {
    let notes = Notes::default();
    for _ in 0..5 {
        let caught = catch_unwind(AssertUnwindSafe(|| panics(3, &notes, &|| ())));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
        let expected: Vec<String> =
            (0..4).flat_map(|depth| ["local".to_owned(), format!("closure {depth}")]).collect();
        assert_eq!(notes.take(), expected);
    }
}

#[test]
fn a_panic_may_be_caught_while_another_one_unwinds() {
    struct Catches(Notes);
    impl Drop for Catches {
        fn drop(&mut self) {
            let notes = &self.0;
            assert!(catch_unwind(AssertUnwindSafe(|| panics(1, notes, &|| ()))).is_err());
        }
    }
    #[inline(never)]
    fn outer(notes: &Notes) {
        on_return!(notes.noting("outer")).unwrap();
        let _catches = Catches(notes.clone());
        panics(0, notes, &|| ());
    }
    let notes = Notes::default();
    assert!(catch_unwind(AssertUnwindSafe(|| outer(&notes))).is_err());
    let inner = ["local", "closure 0", "local", "closure 1"];
    assert_eq!(notes.take(), [&["local", "closure 0"][..], &inner, &["outer"]].concat());
}

#[test]
fn a_panic_in_a_closure_ends_there() {
    #[inline(never)]
    fn function(notes: &Notes) -> u64 {
        on_return!(notes.noting("other")).unwrap();
        on_return!(|| resume_unwind(Box::new(()))).unwrap();
        black_box(3)
    }
    let notes = Notes::default();
    assert_eq!(function(&notes), 3);
    assert_eq!(notes.take(), ["other"]);
    // Also while another panic unwinds.
    let both = || panics(0, &notes, &|| assert_eq!(function(&notes), 3));
    assert!(catch_unwind(AssertUnwindSafe(both)).is_err());
    assert_eq!(notes.take(), ["other", "local", "closure 0"]);
}

#[test]
fn a_closure_may_use_the_macro_itself() {
    #[inline(never)]
    fn inner(notes: &Notes) {
        on_return!(notes.noting("inner")).unwrap();
    }
    #[inline(never)]
    fn outer(notes: &Notes, panic: bool) {
        let of_closure = notes.clone();
        on_return!(move || {
            inner(&of_closure);
            of_closure.note("outer");
        })
        .unwrap();
        if panic {
            resume_unwind(Box::new(()));
        }
    }
    let notes = Notes::default();
    outer(&notes, false);
    assert!(catch_unwind(AssertUnwindSafe(|| outer(&notes, true))).is_err());
    assert_eq!(notes.take(), ["inner", "outer", "inner", "outer"]);
}

#[inline(never)]
fn named_outermost(inside: &dyn Fn() -> String) -> String {
    on_return!(|| ()).unwrap();
    black_box(named_middle(inside))
}

#[inline(never)]
fn named_middle(inside: &dyn Fn() -> String) -> String {
    on_return!(|| ()).unwrap();
    on_return!(|| ()).unwrap();
    let text = black_box(inside());
    black_box(text)
}

#[test]
fn backtraces_and_caller_queries_cross_changed_returns() {
    let trace = named_outermost(&|| Backtrace::force_capture().to_string());
    // The last occurrence: the name of the innermost closure contains the name of the test.
    let at = |name: &str| trace.rfind(name).unwrap_or_else(|| panic!("{name} is not in {trace}"));
    assert!(at("named_middle") < at("named_outermost"));
    assert!(at("named_outermost") < at("backtraces_and_caller_queries_cross_changed_returns"));
    let answer = |name: &'static str| named_outermost(&|| format!("{:?}", is_called_from(name)));
    assert_eq!(answer("named_outermost"), format!("{:?}", CalledFrom::Yes));
    assert_eq!(answer("recurse"), "No");
}

#[test]
fn a_closure_sees_the_caller_and_not_the_function() {
    thread_local!(static ANSWERS: RefCell<Vec<CalledFrom>> = const { RefCell::new(Vec::new()) });
    #[inline(never)]
    fn function() {
        let ask = || {
            let answers =
                ["a_closure_sees_the_caller_and_not_the_function::function", "caller"].map(is_called_from);
            ANSWERS.with_borrow_mut(|all| all.extend(answers));
        };
        on_return!(ask).unwrap();
    }
    #[inline(never)]
    fn caller() {
        function();
        black_box(());
    }
    caller();
    assert_eq!(ANSWERS.take(), [CalledFrom::No, CalledFrom::Yes]);
}

#[test]
fn errno_is_kept() {
    #[inline(never)]
    #[allow(unsafe_code, reason = "the thread's own `errno`")]
    fn function() {
        // SAFETY: the thread's own.
        on_return!(|| unsafe { *libc::__errno_location() = 1 }).unwrap();
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = 4711 };
    }
    function();
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(4711));
}

#[test]
fn too_many_closures_at_once_are_refused_and_all_slots_are_freed() {
    #[inline(never)]
    fn fill(depth: usize, refused: &Cell<usize>) -> usize {
        if let Err(error) = on_return!(|| ()) {
            assert_eq!(error, OnReturnError::TooMany);
            refused.set(refused.get() + 1);
        }
        if depth == 0 { 0 } else { black_box(fill(depth - 1, refused)) + 1 }
    }
    let in_thread = || {
        for panic in [false, true, false] {
            let refused = Cell::new(0);
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                assert_eq!(fill(17_000, &refused), 17_000);
                if panic {
                    resume_unwind(Box::new(()));
                }
            }));
            assert_eq!(unwound.is_err(), panic);
            assert!(refused.get() >= 17_001 - 16_320, "{}", refused.get());
        }
    };
    // Other tests need slots.
    if is_alone() {
        thread::Builder::new().stack_size(64 << 20).spawn(in_thread).unwrap().join().unwrap();
    }
}

#[test]
fn panics_leave_no_slot_taken() {
    let notes = Notes::default();
    for _ in 0..3000 {
        assert!(catch_unwind(AssertUnwindSafe(|| panics(2, &notes, &|| ()))).is_err());
        assert_eq!(notes.take().len(), 6);
    }
}

#[test]
fn a_thread_that_ends_inside_runs_its_closures() {
    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });
    extern "C-unwind" fn main(seen: *mut libc::c_void) -> *mut libc::c_void {
        inside(seen.addr());
        unreachable!("the thread has ended")
    }
    #[inline(never)]
    fn inside(seen: usize) {
        let note = move || {
            COUNT.set(COUNT.get() + 1);
            #[allow(unsafe_code, reason = "a counter of the test")]
            // SAFETY: the test waits for the thread.
            unsafe {
                *ptr::with_exposed_provenance_mut::<usize>(seen) += 1;
            }
        };
        on_return!(note).unwrap();
        #[allow(unsafe_code, reason = "of the C library")]
        unsafe extern "C-unwind" {
            fn pthread_exit(value: *mut libc::c_void) -> !;
        }
        #[allow(unsafe_code, reason = "ends a thread of C")]
        // SAFETY: no local of these functions has a destructor.
        unsafe {
            pthread_exit(ptr::null_mut())
        }
    }
    let mut seen = 0usize;
    #[allow(unsafe_code, reason = "makes a thread of C")]
    // SAFETY: the thread is waited for. The signature differs in the ABI's name only.
    unsafe {
        let mut id = 0;
        let main: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void =
            mem::transmute(main as extern "C-unwind" fn(*mut libc::c_void) -> *mut libc::c_void);
        let argument = ptr::with_exposed_provenance_mut((&raw mut seen).expose_provenance());
        assert_eq!(libc::pthread_create(&mut id, ptr::null(), main, argument), 0);
        libc::pthread_join(id, ptr::null_mut());
    }
    assert_eq!(black_box(seen), 1);
}

#[test]
fn a_coroutine_is_refused_and_drops_the_closure() {
    thread_local!(static CONTEXTS: Cell<[*mut libc::ucontext_t; 2]> = const { Cell::new([ptr::null_mut(); 2]) });
    thread_local!(static RESULT: Cell<Option<Result<(), OnReturnError>>> = const { Cell::new(None) });
    extern "C" fn coroutine() {
        tries();
        let [main, own] = CONTEXTS.get();
        #[allow(unsafe_code, reason = "switches stacks")]
        // SAFETY: both are live.
        unsafe {
            libc::swapcontext(own, main)
        };
    }
    #[inline(never)]
    fn tries() {
        RESULT.set(Some(on_return!(|| unreachable!("refused"))));
    }
    /// Switches to the coroutine, while a closure waits for this function's return.
    #[inline(never)]
    #[allow(unsafe_code, reason = "switches stacks")]
    fn switches(notes: &Notes) {
        on_return!(notes.noting("switched")).unwrap();
        let mut stack = vec![0u8; 256 << 10];
        // SAFETY: contexts and stack live until the coroutine has come back.
        unsafe {
            let mut contexts: [libc::ucontext_t; 2] = mem::zeroed();
            let [main, own] = &mut contexts;
            libc::getcontext(own);
            own.uc_stack.ss_sp = stack.as_mut_ptr().cast();
            own.uc_stack.ss_size = stack.len();
            CONTEXTS.set([&raw mut *main, &raw mut *own]);
            libc::makecontext(own, coroutine, 0);
            libc::swapcontext(main, own);
        }
    }
    let notes = Notes::default();
    switches(&notes);
    assert_eq!(RESULT.get(), Some(Err(OnReturnError::ForeignStack)));
    assert_eq!(notes.take(), ["switched"]);
}

#[test]
fn a_child_forked_inside_returns_like_its_parent() {
    if !is_alone() {
        return;
    }
    #[inline(never)]
    fn inner(notes: &Notes) -> (libc::pid_t, u128) {
        on_return!(notes.noting("inner")).unwrap();
        #[allow(unsafe_code, reason = "forks")]
        // SAFETY: the child only returns, compares and ends.
        let child = unsafe { libc::fork() };
        (child, black_box(1 << 100))
    }
    #[inline(never)]
    fn outer(notes: &Notes) -> (libc::pid_t, f64) {
        on_return!(notes.noting("outer")).unwrap();
        let (child, number) = inner(notes);
        // A further one, in each of the two processes.
        assert_eq!(recurse(20, &Rc::new(Cell::new(0))), 20);
        (child, number as f64)
    }
    let notes = Notes::default();
    let (child, number) = outer(&notes);
    let is_right = number == (1u128 << 100) as f64 && notes.take() == ["inner", "outer"];
    #[allow(unsafe_code, reason = "ends the child, and waits for it")]
    // SAFETY: the child has no other thread.
    unsafe {
        if child == 0 {
            libc::_exit(i32::from(!is_right));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0);
    }
    assert!(is_right);
}

#[test]
#[allow(unsafe_code, reason = "has a signal handled")]
fn signal_handlers_may_run_at_any_instruction() {
    if !is_alone() {
        return;
    }
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use tracer::__macro_support::{Registers, walk};

    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    static FRAMES: AtomicUsize = AtomicUsize::new(0);
    /// Uses the stack far below the interrupted frame, and vector registers; walks through the interrupted functions.
    extern "C" fn handler(_: libc::c_int) {
        let mut frames = [u64::MAX; 256];
        let walked = walk(Registers::here(), black_box(&mut frames), 0);
        black_box([f64::from_bits(frames[0]); 64].map(f64::sqrt));
        FRAMES.fetch_add(walked.len, Ordering::Relaxed);
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    #[inline(never)]
    fn function(count: &Rc<Cell<u64>>, number: u64) -> (u64, f64) {
        let count = count.clone();
        on_return!(move || count.set(count.get() + 1)).unwrap();
        black_box((number, number as f64))
    }
    let done = AtomicBool::new(false);
    // SAFETY: the handler does only what handlers may do, on this thread, which lives while signals are sent to it.
    let target = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
        libc::pthread_self()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: as above.
                unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                // At irregular intervals.
                (0..HANDLED.load(Ordering::Relaxed) % 977).for_each(|n| _ = black_box(n));
            }
        });
        let count = Rc::new(Cell::new(0));
        let mut number = 0;
        while HANDLED.load(Ordering::Relaxed) < 20_000 {
            assert_eq!(function(&count, number), (number, number as f64));
            number += 1;
            assert_eq!(count.get(), number);
        }
        done.store(true, Ordering::Relaxed);
    });
    // The walks find more than the handler, the frame of the kernel and the interrupted function.
    assert!(FRAMES.load(Ordering::Relaxed) > 3 * HANDLED.load(Ordering::Relaxed));
}

/// The function at which the debugger stops.
#[unsafe(no_mangle)]
#[inline(never)]
#[allow(unsafe_code, reason = "a name that a debugger gets")]
extern "C" fn tracer_test_stop() {
    black_box(());
}

/// The variable that makes this program the one that is debugged.
const STOP: &str = "TRACER_TEST_STOP";

#[test]
fn a_debugger_shows_the_callers_of_awaited_functions() {
    if std::env::var_os(STOP).is_some() {
        named_outermost(&|| {
            tracer_test_stop();
            String::new()
        });
        return;
    }
    if programs::lacks(&["gdb"]) {
        return;
    }
    let mut debugger = std::process::Command::new("gdb");
    debugger
        .args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "break tracer_test_stop"])
        .args(["-ex", "run", "-ex", "bt", "-ex", "finish", "-ex", "continue", "--args"])
        .arg(std::env::current_exe().unwrap())
        .env(STOP, "1");
    let debugger = alone(&mut debugger).output().unwrap();
    let [said, errors] = [&debugger.stdout, &debugger.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if !said.contains("Breakpoint 1, ") {
        return programs::left_out(&format!("gdb to be allowed to run programs: {errors}"));
    }
    let at = |name: &str| said.find(name).unwrap_or_else(|| panic!("{name} is not in {said}{errors}"));
    assert!(at("tracer_test_stop") < at("named_middle"), "{said}");
    assert!(at("named_middle") < at("named_outermost"), "{said}");
    assert!(at("named_outermost") < at("__rust_begin_short_backtrace"), "{said}");
    // The program goes on from there to its end.
    assert!(said.contains("exited normally"), "{said}{errors}");
}
