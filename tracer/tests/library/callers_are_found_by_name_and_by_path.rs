//! `is_called_from` finds the functions that called the current one.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::hint::black_box;
use std::thread;

use tracer::{CalledFrom, is_called_from};

/// Calls `inside` from functions that the tests ask for.
mod parse {
    use std::hint::black_box;

    #[inline(never)]
    pub fn value<T>(inside: impl Fn() -> T) -> T {
        black_box(inside())
    }

    #[inline(never)]
    pub fn other<T>(inside: impl Fn() -> T) -> T {
        let other = black_box(1u8);
        let result = black_box(inside());
        black_box(other);
        result
    }

    pub struct Parser;

    impl Parser {
        #[inline(never)]
        pub fn run(&self, inside: &dyn Fn() -> super::CalledFrom) -> super::CalledFrom {
            black_box(inside())
        }
    }

    #[inline(never)]
    pub fn plain(depth: usize, inside: &dyn Fn() -> super::CalledFrom) -> super::CalledFrom {
        let depth = black_box(depth);
        black_box(if depth == 0 { inside() } else { plain(depth - 1, inside) })
    }
}

#[inline(never)]
fn ask(name: &str) -> CalledFrom {
    black_box(is_called_from(name))
}

#[inline(never)]
fn ask_for_plain() -> CalledFrom {
    black_box(is_called_from!(parse::plain))
}

#[test]
fn a_caller_is_found_by_the_last_segments_of_its_path() {
    for name in ["value", "parse::value", "callers_are_found_by_name_and_by_path::parse::value"] {
        assert_eq!(parse::value(|| ask(name)), CalledFrom::Yes, "{name}");
        assert_eq!(parse::other(|| ask(name)), CalledFrom::No, "{name}");
        assert_eq!(parse::value(|| parse::other(|| parse::value(|| ask(name)))), CalledFrom::Yes, "{name}");
    }
    assert_eq!(parse::Parser.run(&|| ask("Parser::run")), CalledFrom::Yes);
    assert_eq!(ask("Parser::run"), CalledFrom::No);
}

#[test]
fn a_caller_is_found_by_its_path_at_any_depth() {
    for depth in [0, 1, 50, 2000] {
        assert_eq!(parse::plain(depth, &ask_for_plain), CalledFrom::Yes);
    }
    assert_eq!(ask_for_plain(), CalledFrom::No);
    assert_eq!(parse::value(ask_for_plain), CalledFrom::No);
}

#[test]
fn the_current_function_is_not_its_own_caller() {
    #[inline(never)]
    fn own(depth: usize) -> CalledFrom {
        if black_box(depth) == 0 { is_called_from!(own) } else { black_box(own(depth - 1)) }
    }
    assert_eq!(own(0), CalledFrom::No);
    assert_eq!(own(1), CalledFrom::Yes);
}

#[test]
fn a_generic_function_asks_for_each_of_its_instances() {
    #[inline(never)]
    fn marked<const N: usize>(inside: &dyn Fn() -> CalledFrom) -> CalledFrom {
        black_box(black_box([N; N]));
        black_box(inside())
    }
    #[inline(never)]
    fn asks<const N: usize>() -> CalledFrom {
        black_box(is_called_from!(marked::<N>))
    }
    for _ in 0..3 {
        assert_eq!(marked::<3>(&asks::<3>), CalledFrom::Yes);
        assert_eq!(marked::<3>(&asks::<5>), CalledFrom::No);
        assert_eq!(marked::<5>(&asks::<5>), CalledFrom::Yes);
    }
    // By name, all instances count.
    assert_eq!(marked::<3>(&|| ask("marked")), CalledFrom::Yes);
    assert_eq!(marked::<5>(&|| ask("marked")), CalledFrom::Yes);
}

#[test]
fn a_name_of_no_function_is_unknown() {
    assert_eq!(parse::value(|| ask("parse::values")), CalledFrom::Unknown);
    assert_eq!(parse::value(|| ask("")), CalledFrom::Unknown);
}

#[test]
fn functions_of_the_c_library_are_found() {
    extern "C" fn compare(_: *const libc::c_void, _: *const libc::c_void) -> libc::c_int {
        ANSWER.set(Some(ask("qsort_r")));
        0
    }
    thread_local!(static ANSWER: std::cell::Cell<Option<CalledFrom>> = const { std::cell::Cell::new(None) });
    let mut two = [2u8, 1];
    #[allow(unsafe_code, reason = "calls the C library")]
    // SAFETY: two elements of one byte, and a function that only looks.
    unsafe {
        libc::qsort(two.as_mut_ptr().cast(), 2, 1, Some(compare));
    }
    // `qsort` itself ends in a jump to `qsort_r`. A stripped library has the names that others link with.
    assert_eq!(ANSWER.get(), Some(CalledFrom::Yes));
    assert_eq!(ask("qsort_r"), CalledFrom::No);
}

#[test]
fn threads_may_ask_at_the_same_time() {
    let threads = (0..8).map(|number| {
        thread::spawn(move || {
            for round in 0..200 {
                let name = ["parse::value", "parse::other", "parse::plain"][(number + round) % 3];
                let expected = |is| if is { CalledFrom::Yes } else { CalledFrom::No };
                assert_eq!(parse::value(|| ask(name)), expected(name.ends_with("value")));
                assert_eq!(parse::plain(round, &|| ask(name)), expected(name.ends_with("plain")));
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}
