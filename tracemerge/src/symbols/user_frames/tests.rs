//! Tests of the shown part of call stacks against handwritten stacks.

use super::*;

/// Returns the shown part of a whole stack. Each function is given as a name, or as a name and a source file with ` @ `
/// between them.
fn shown<'a>(stack: &[&'a str]) -> Vec<&'a str> {
    shown_of(stack, true)
}

fn shown_of<'a>(stack: &[&'a str], is_whole: bool) -> Vec<&'a str> {
    let function = |text: &&'a str| {
        let (name, place) = text.split_once(" @ ").unwrap_or((text, ""));
        StackFunction { name, place }
    };
    let functions: Vec<_> = stack.iter().map(function).collect();
    stack[shown_functions(&functions, is_whole)].to_vec()
}

/// The frames of a panic, the innermost first, in the names of both schemes of Rust.
const PANIC: [&str; 7] = [
    "<alloc::boxed::Box<dyn for<'a, 'b> core::ops::function::Fn<(&'a std::panic::PanicHookInfo<'b>,), Output = ()> \
     + core::marker::Sync> as core::ops::function::Fn<(&std::panic::PanicHookInfo,)>>::call",
    "std::panicking::rust_panic_with_hook",
    "std::panicking::begin_panic_handler::{{closure}}",
    "std::sys::backtrace::__rust_end_short_backtrace::<std::panicking::panic_handler::{closure#0}, !>",
    "rust_begin_unwind",
    "core::panicking::panic_fmt",
    "core::option::unwrap_failed",
];

/// The frames that call `main` in a program in Rust.
const MAIN: [&str; 10] = [
    "call_once<fn(), ()> @ /rustc/17067e9ac6d/library/core/src/ops/function.rs:250",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::rt::lang_start::{{closure}}",
    "std::panicking::try::do_call",
    "std::panicking::catch_unwind::<i32, &dyn core::ops::function::Fn<(), Output = i32>>",
    "std::rt::lang_start_internal",
    "main (symbol)",
    "__libc_start_call_main",
    "__libc_start_main_impl = __libc_start_main = __libc_start_main_alias_1 = 2 more",
    "_start (symbol)",
];

/// The frames that call the function of a thread in a program in Rust.
const THREAD: [&str; 8] = [
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "{closure#0}<app::main::{closure_env#0}, ()> @ /usr/lib/rustlib/src/rust/library/std/src/thread/lifecycle.rs:91",
    "<core::panic::unwind_safe::AssertUnwindSafe<F> as core::ops::function::FnOnce<()>>::call_once",
    "std::thread::Builder::spawn_unchecked_::{{closure}}",
    "core::ops::function::FnOnce::call_once{{vtable.shim}}",
    "std::sys::pal::unix::thread::Thread::new::thread_start",
    "start_thread",
    "__GI___clone3 = clone3",
];

#[test]
fn a_panic_in_main_begins_where_the_user_called_and_ends_at_main() {
    let user = ["app::parse", "core::iter::Iterator::map", "app::run", "app::main"];
    assert_eq!(shown(&[&PANIC[..], &user, &MAIN].concat()), user);
    let windows =
        ["main", "invoke_main", "__scrt_common_main_seh", "BaseThreadInitThunk", "RtlUserThreadStart"];
    assert_eq!(shown(&[&PANIC[..], &user, &MAIN[..6], &windows].concat()), user);
    // An unknown start of the process calls main, too.
    assert_eq!(shown(&[&PANIC[..], &user, &MAIN[..7], &["start"]].concat()), user);
}

#[test]
fn a_panic_in_a_thread_ends_at_the_closure_of_the_thread() {
    let user = ["app::work", "app::main::{{closure}}"];
    assert_eq!(shown(&[&PANIC[..], &user, &THREAD].concat()), user);
    let shim = ["<app::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}"];
    assert_eq!(shown(&[&PANIC[..], &user, &shim, &THREAD].concat()), user);
    // The C library's functions have no names here.
    assert_eq!(shown(&[&PANIC[..], &user, &THREAD[..6], &["", ""]].concat()), user);
    // Line tables have no paths.
    let user =
        ["work @ /home/u/app/src/panicking.rs:3", "{closure#0} @ /home/u/app/library/core/src/lib.rs:7"];
    assert_eq!(shown(&[&PANIC[..], &user, &THREAD].concat()), user);
}

#[test]
fn a_task_ends_at_its_own_future() {
    let user =
        ["app::handle::{{closure}}", "<app::Service as hyper::Service>::call", "app::serve::{{closure}}"];
    let tokio = [
        "tokio::runtime::task::core::Core<T,S>::poll::{{closure}}",
        "tokio::runtime::task::harness::Harness<T,S>::poll",
        "std::panic::catch_unwind",
        "tokio::runtime::scheduler::multi_thread::worker::Context::run_task",
        "<tokio::runtime::blocking::task::BlockingTask<T> as core::future::future::Future>::poll",
        "tokio::runtime::blocking::pool::Inner::run",
    ];
    assert_eq!(shown(&[&PANIC[..], &user, &tokio, &THREAD].concat()), user);
    // A future that the executor runs in main is between two functions of the user.
    let around = [&user[..], &tokio, &["app::main"]].concat();
    assert_eq!(shown(&[&around[..], &MAIN].concat()), around);
}

#[test]
fn a_hook_of_the_user_that_calls_the_tracers_is_no_part_of_the_panic() {
    let user = ["app::parse", "app::main"];
    let hook = [&PANIC[..1], &["app::main::{{closure}}"]].concat();
    assert_eq!(shown(&[&hook[..], &PANIC, &user, &MAIN].concat()), user);
    // A Display that panics is what the user looks for.
    let display =
        [&["<app::Value as core::fmt::Display>::fmt", "core::fmt::write"][..], &PANIC, &user].concat();
    assert_eq!(shown(&[&PANIC[1..], &display, &MAIN].concat()), display);
}

#[test]
fn functions_of_the_tracer_are_left_out_only_at_the_beginning() {
    let stack =
        ["tracer::traced::record::trace", "record_in @ /p/tracer-lib-0.1.0/src/ring/producer.rs:1", "app::a"];
    assert_eq!(shown(&[&stack[..], &["app::main"], &MAIN].concat()), ["app::a", "app::main"]);
    let around =
        ["<app::T as core::fmt::Display>::fmt", "core::fmt::write", "tracer::a", "app::a", "app::main"];
    assert_eq!(shown(&[&around[..], &MAIN].concat()), around);
    // Without a panic or the tracer, the standard library may be where the program crashed or waits.
    let waits = ["std::sync::mpsc::Receiver<T>::recv", "app::main"];
    assert_eq!(shown(&[&waits[..], &MAIN].concat()), waits);
}

#[test]
fn a_stack_in_c_begins_behind_the_signal_and_ends_at_main_or_the_function_of_the_thread() {
    let aborts = ["__pthread_kill_implementation", "__GI_raise = raise = gsignal", "__GI_abort = abort"];
    let main = ["my_abort", "raise_alarm", "main"];
    let start = ["__libc_start_call_main", "", "_start"];
    assert_eq!(shown(&[&aborts[..], &main, &start].concat()), main);
    assert_eq!(shown(&[&["", "raise", "abort"][..], &main, &["", "", ""]].concat()), main);
    let thread = ["work", "thread_start"];
    assert_eq!(shown(&[&aborts[..], &thread, &["start_thread", "clone3"]].concat()), thread);
    assert_eq!(shown(&[&thread[..], &["", "clone3"]].concat()), thread);
    // The program has no names.
    let crash = ["__memmove_avx_unaligned_erms", "", "", ""];
    assert_eq!(shown(&[&crash[..], &["__libc_start_call_main", "_start"]].concat()), crash);
    // A crash in code without names is shown.
    let crash = ["", "parse", "main"];
    assert_eq!(shown(&[&["tracer::a", "__restore_rt"][..], &crash, &start].concat()), crash);
}

#[test]
fn an_exception_and_a_thread_in_cpp_show_the_functions_of_the_user() {
    let throws = [
        "raise",
        "abort",
        "__gnu_cxx::__verbose_terminate_handler()",
        "__cxxabiv1::__terminate(void (*)())",
        "std::terminate()",
        "__cxa_throw",
        "std::__throw_out_of_range_fmt(char const*, ...)",
        "std::vector<app::Item, std::allocator<app::Item> >::at(unsigned long) const",
    ];
    let user = [
        "std::ostream& app::operator<< <int>(std::ostream&, app::T<int> const&)",
        "void std::sort<int*>(int*, int*)",
        "core::Engine::run() const",
        "main::{lambda()#1}::operator()() const",
    ];
    let thread = [
        "void std::__invoke_impl<void, main::{lambda()#1}>(std::__invoke_other, main::{lambda()#1}&&)",
        "std::__invoke_result<main::{lambda()#1}>::type std::__invoke<main::{lambda()#1}>(main::{lambda()#1}&&)",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()",
        "execute_native_thread_routine",
        "start_thread",
        "clone3",
    ];
    assert_eq!(shown(&[&throws[..], &user, &thread].concat()), user);
    let inlined = ["__invoke_impl<void, f> @ /usr/include/c++/12/bits/invoke.h:61"];
    assert_eq!(shown(&[&throws[..], &user, &inlined, &thread[2..]].concat()), user);
}

#[test]
fn names_that_only_look_like_the_runtimes_are_the_users() {
    for name in [
        "app::panicking::panic_fmt",
        "my_main",
        "app::std::panicking::begin_panic",
        "stdx::panicking::panic",
        "tracer_of_rays::cast",
        "test::main",
        "<alloc::vec::Vec<u8> as app::Encode>::encode",
        "<app::Value as core::fmt::Display>::fmt",
        "<&mut app::Value as core::iter::Iterator>::next",
        "<app::Value>::new",
        "app::fold = core::ptr::drop_in_place<app::A>",
        "core::ptr::drop_in_place<app::A> = app::fold",
        "_starts",
        "tokio_app::runtime::f",
    ] {
        assert_eq!(shown(&[&PANIC[..], &[name], &MAIN].concat()), [name]);
    }
    for name in [
        "core::slice::<impl [T]>::sort",
        "<[T]>::sort",
        "<T as core::convert::Into<U>>::into",
        "<fn(&app::A) -> app::B as core::ops::function::FnOnce<()>>::call_once",
        "core::ptr::drop_in_place<app::Value>",
        "core::ptr::drop_in_place<alloc::boxed::Box<dyn core::ops::function::FnOnce() .> app::A>>",
    ] {
        assert_eq!(shown(&[&PANIC[..], &[name, "app::main"], &MAIN].concat()), ["app::main"], "{name}");
    }
}

#[test]
fn a_stack_without_functions_of_the_user_is_shown_whole() {
    for stack in [&PANIC[..], &MAIN, &THREAD, &["", ""], &["__pthread_kill_implementation", ""], &[]] {
        assert_eq!(shown(stack), stack);
    }
    let all = [&PANIC[..], &THREAD].concat();
    assert_eq!(shown(&all), all);
}

#[test]
fn the_end_of_an_incomplete_stack_is_left_out_only_if_it_calls_main_or_the_thread() {
    let stack = ["core::option::unwrap_failed", "app::f", "core::iter::Iterator::fold"];
    assert_eq!(shown_of(&stack, false), stack);
    assert_eq!(shown_of(&[&["app::f", "app::main"], &MAIN[..6]].concat(), false), ["app::f", "app::main"]);
    assert_eq!(shown_of(&["f", "main", ""], false), ["f", "main"]);
}
