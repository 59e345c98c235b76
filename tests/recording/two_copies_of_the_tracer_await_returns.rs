//! A program and a library that it loads have each linked the tracer. Both copies change return addresses on one
//! stack. The changes of one copy mislead neither the other copy nor a stack walk, an unwinder or a panic.
//!
//! Cargo builds examples, and so the library, for `cargo test`, but not for `cargo test --test ...`. In that case,
//! run `cargo build --examples` first.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "loads a library")]

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

use object::{Object, ObjectSymbol};
use support::alone::is_alone;
use tracer::{CalledFrom, is_called_from, on_return};

type Awaits = extern "C-unwind" fn(u64, extern "C" fn(u64), extern "C-unwind" fn()) -> f64;

thread_local! {
    static NOTES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static DEPTH: Cell<u64> = const { Cell::new(0) };
    static AT_BOTTOM: Cell<fn()> = const { Cell::new(|| ()) };
    static PLUGIN: Cell<Option<Awaits>> = const { Cell::new(None) };
}

extern "C" fn note(number: u64) {
    NOTES.with_borrow_mut(|notes| notes.push(number));
}

/// Loads the library: `target/<profile>/deps/<this test>` stands beside `target/<profile>/examples/`.
fn plugin() -> Awaits {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let path = profile.join("examples/libplugin.so");
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    let path = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the library's constructors do no harm, and the function has this type. `RTLD_GLOBAL` makes the
    // library's global symbols visible to the program's copy of the tracer, if anything does.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!library.is_null());
        let function = libc::dlsym(library, c"plugin_awaits".as_ptr());
        assert!(!function.is_null());
        std::mem::transmute::<*mut libc::c_void, Awaits>(function)
    }
}

/// Awaits its own return and calls the library, which awaits its return and calls this function again. Calls
/// `AT_BOTTOM` at depth 0.
#[inline(never)]
extern "C-unwind" fn host_awaits() {
    let depth = DEPTH.get();
    on_return!(move || note(depth)).expect("a slot");
    if depth == 0 {
        return AT_BOTTOM.get()();
    }
    DEPTH.set(depth - 1);
    let plugin = PLUGIN.get().expect("loaded");
    assert_eq!(plugin(100 + depth, note, host_awaits), (100 + depth) as f64 / 2.0);
    black_box(());
}

fn awaited(depth: u64, at_bottom: fn()) -> Vec<u64> {
    PLUGIN.set(Some(plugin()));
    DEPTH.set(depth);
    AT_BOTTOM.set(at_bottom);
    host_awaits();
    NOTES.take()
}

#[test]
fn both_copies_get_their_own_returns_in_order() {
    if !is_alone() {
        return;
    }
    assert_eq!(awaited(3, || ()), [0, 101, 1, 102, 2, 103, 3]);
}

#[test]
fn a_panic_unwinds_through_both_copies() {
    if !is_alone() {
        return;
    }
    let unwound = catch_unwind(|| awaited(3, || resume_unwind(Box::new(7))));
    assert_eq!(unwound.map_err(|payload| payload.downcast().ok()), Err(Some(Box::new(7))));
    assert_eq!(NOTES.take(), [0, 101, 1, 102, 2, 103, 3]);
    assert_eq!(awaited(1, || ()), [0, 101, 1]);
}

#[test]
fn backtraces_and_walks_pass_through_both_copies() {
    if !is_alone() {
        return;
    }
    #[inline(never)]
    fn outermost() {
        assert_eq!(awaited(3, ask), [0, 101, 1, 102, 2, 103, 3]);
    }
    fn ask() {
        assert_eq!(is_called_from!(outermost), CalledFrom::Yes);
        assert_eq!(is_called_from("unrelated_function"), CalledFrom::No);
        let trace = Backtrace::force_capture().to_string();
        let count = |name: &str| trace.lines().filter(|line| line.ends_with(name)).count();
        assert_eq!([count("host_awaits"), count("plugin_awaits")], [4, 3], "{trace}");
        assert!(trace.contains("outermost"), "{trace}");
    }
    outermost();
}

#[inline(never)]
fn unrelated_function() {
    black_box(());
}

/// Checks that the symbol of the trampolines is mangled, so that the symbols of two copies do not clash.
#[test]
fn the_symbol_of_the_trampolines_differs_between_copies() {
    unrelated_function();
    let test = std::env::current_exe().expect("the path of the test");
    let bytes = std::fs::read(test).expect("this test");
    let file = object::File::parse(&*bytes).expect("a program");
    let names = file.symbols().map(|symbol| symbol.name().expect("a name").to_owned());
    let trampolines: Vec<String> = names.filter(|name| name.ends_with("trampolines")).collect();
    let [name] = &trampolines[..] else { panic!("{trampolines:?}") };
    assert!(name.starts_with("_ZN") || name.starts_with("_R"), "not mangled, so without a hash: {name}");
}
