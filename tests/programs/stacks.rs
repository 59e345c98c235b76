//! Call stacks: recorded with messages, from functions whose names are known, and through libraries that are loaded and
//! unloaded.

#[cfg(unix)]
use std::ffi::{CString, c_void};
use std::hint::black_box;
#[cfg(unix)]
use std::path::Path;
use support::scenarios::Scenario;
use tracer::{Tracer, trace, trace_stack};

pub const SCENARIOS: &[Scenario] = &[
    ("stacks", |args| stacks(args.number(0))),
    #[cfg(unix)]
    ("visits", |args| visits(args.all())),
];

/// Traces a message with its stack, and one message before and one after it.
#[inline(never)]
fn innermost(depth: u32) {
    trace!("before {depth}");
    trace_stack!("why {depth}");
    trace!("behind {depth}");
}

/// Calls itself `depth` times, then [`innermost`].
#[inline(never)]
fn calls_itself(depth: u32, whole: u32) {
    let _scope = tracer::scope();
    if depth == 0 {
        innermost(whole)
    } else {
        calls_itself(depth - 1, whole)
    }
    black_box(());
}

#[inline(never)]
fn all_depths(depth: u32) {
    for depth in 0..depth {
        calls_itself(depth, depth);
    }
    Tracer::get().stack();
    black_box(());
}

/// Records stacks of several depths on two threads, one after the other, before and after sites have their
/// numbers.
pub fn stacks(depth: u32) {
    all_depths(depth);
    Tracer::get().flush().expect("sites have their numbers");
    let thread = std::thread::Builder::new().name("other".into());
    thread.spawn(move || all_depths(depth)).expect("a thread").join().expect("its end");
}

#[cfg(unix)]
extern "C" fn record() {
    trace_stack!("visited");
}

/// Makes the flusher look at the loaded modules: it does so before it writes a record with addresses.
#[cfg(unix)]
fn look() {
    drop(tracer::scope());
    Tracer::get().flush().expect("the flusher has looked");
}

/// Runs steps of the form `HOW:PATH`: loads a library, calls the function with the file's name, which records the
/// stack, and unloads the library unless HOW is `stay`. If HOW is `seen`, the flusher looks before and after the
/// call. The step `look` only makes the flusher look. Prints the address of each library's function.
#[cfg(unix)]
pub fn visits(steps: &[String]) {
    for step in steps {
        match step.split_once(':') {
            None => look(),
            Some((how, path)) => visit(path, how),
        }
    }
}

#[cfg(unix)]
#[inline(never)]
fn visit(path: &str, how: &str) {
    let name = Path::new(path).file_stem().and_then(|name| name.to_str()).expect("a name");
    let [path, name] = [path, name].map(|text| CString::new(text).expect("no NUL"));
    // SAFETY: the library's constructors do nothing, and the function has this type. Nothing of the library is
    // used after it was unloaded.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null(), "{path:?} can be loaded");
        let function = libc::dlsym(library, name.as_ptr());
        assert!(!function.is_null(), "{name:?}");
        println!("{}", function.addr());
        if how == "seen" {
            look();
        }
        std::mem::transmute::<*mut c_void, extern "C" fn(extern "C" fn())>(function)(record);
        if how == "seen" {
            look();
        }
        assert!(how == "stay" || libc::dlclose(library) == 0);
    }
    black_box(());
}
