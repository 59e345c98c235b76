//! The ways in which a program or a thread can end.

use crate::host::die;
use std::sync::mpsc;
use std::time::Duration;
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("return", |_| Tracer::get().trace(format_args!("the last words of main"))),
    ("return-later", |_| return_later()),
    ("exit", |args| exit(args.get(0))),
    ("panic", |_| panic()),
    ("thread-local", |_| thread_local_destructor()),
    ("ended", |args| ended(args.text(0))),
    ("running-threads", |_| running_threads()),
    ("killed", |_| killed()),
    ("killed-at-once", |_| killed_at_once()),
    ("shutdown", |_| shutdown_and_again()),
    ("at-exit", |_| at_exit()),
    #[cfg(unix)]
    ("own-file-gone", |args| own_file_gone(args.text(0))),
];

/// Returns from `main` when its input ends.
pub fn return_later() {
    Tracer::get().trace(format_args!("before the end"));
    Tracer::get().flush().expect("a flush");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("its input");
}

/// Ends by `exit` called on the main thread or, with "thread", on another.
pub fn exit(place: Option<&str>) {
    Tracer::get().trace(format_args!("before exit"));
    if place == Some("thread") {
        let exiting = std::thread::spawn(|| {
            Tracer::get().trace(format_args!("the exiting thread"));
            std::process::exit(3);
        });
        let _ = exiting.join();
    }
    std::process::exit(3);
}

/// Ends by a panic in `main`.
pub fn panic() {
    Tracer::get().trace(format_args!("before the panic"));
    panic!("as the test wants");
}

struct TracesWhenDropped(&'static str);

impl Drop for TracesWhenDropped {
    fn drop(&mut self) {
        Tracer::get().trace(format_args!("dropped: {}", self.0));
    }
}

thread_local! {
    static TRACES: std::cell::RefCell<Option<TracesWhenDropped>> = const { std::cell::RefCell::new(None) };
}

/// Traces from destructors of thread-locals, of a thread that has traced before, of one that has not, and of
/// the main thread.
pub fn thread_local_destructor() {
    let thread = |name: &'static str, before: bool| {
        let work = move || {
            TRACES.set(Some(TracesWhenDropped(name)));
            if before {
                Tracer::get().trace(format_args!("alive: {name}"));
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(work).expect("a thread").join().expect("its end");
    };
    thread("has traced", true);
    thread("has not traced", false);
    TRACES.set(Some(TracesWhenDropped("main")));
    Tracer::get().trace(format_args!("alive: main"));
}

/// Returns from `main` while other threads still trace.
pub fn running_threads() {
    let (ready, wait) = mpsc::channel();
    for i in 0..3u32 {
        let ready = ready.clone();
        std::thread::spawn(move || {
            for n in 0u64.. {
                Tracer::get().trace(format_args!("thread {i} record {n}"));
                if n == 1000 {
                    ready.send(()).expect("main waits");
                }
                if n > 1000 {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
    }
    for _ in 0..3 {
        wait.recv().expect("each thread has traced 1,001 records");
    }
    Tracer::get().trace(format_args!("main returns"));
}

/// Flushes some records, traces some more and kills itself before the flusher can have seen them.
pub fn killed() {
    Tracer::get().trace(format_args!("flushed"));
    Tracer::get().flush().expect("a flush");
    // The flusher may look once more before it sleeps.
    std::thread::sleep(Duration::from_millis(50));
    for i in 0..5 {
        Tracer::get().trace(format_args!("in the ring {i}"));
    }
    die();
}

/// Traces for the first time, and is killed as soon as that call has returned.
pub fn killed_at_once() {
    println!("{}", std::process::id());
    Tracer::get().trace(format_args!("killed at once"));
    die();
}

/// Ends tracing, traces in vain, starts again; another thread keeps its old ring meanwhile.
pub fn shutdown_and_again() {
    let (go, wait) = mpsc::channel::<()>();
    let (done, finished) = mpsc::channel::<()>();
    let other = std::thread::Builder::new().name("other".into()).spawn(move || {
        for n in 0.. {
            if wait.recv().is_err() {
                return;
            }
            Tracer::get().trace(format_args!("other {n}"));
            done.send(()).expect("main waits");
        }
    });
    let let_other_trace = || {
        go.send(()).expect("the other thread waits");
        finished.recv().expect("the other thread has traced");
    };
    Tracer::get().trace(format_args!("main 1"));
    let_other_trace();
    Tracer::get().shutdown().expect("a clean end");
    assert!(!Tracer::get().is_enabled());
    Tracer::get().trace(format_args!("must not be seen"));
    let_other_trace();
    for _ in 0..20 {
        assert!(Tracer::get().startup("TRACER_ENABLE"));
        Tracer::get().trace(format_args!("main 2"));
        let_other_trace();
        Tracer::get().shutdown().expect("a clean end");
    }
    drop(go);
    other.expect("a thread").join().expect("its end");
    // Once the file of a ring is unlinked, only its mapping shows that the ring still exists.
    #[cfg(unix)]
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of mappings");
    #[cfg(unix)]
    println!("rings {}", maps.lines().filter(|l| l.contains("/ring-")).count());
}

/// Registers handlers of `atexit` that trace, before the first record and after it.
pub fn at_exit() {
    extern "C" fn before() {
        Tracer::get().trace(format_args!("registered before the first record"));
    }
    extern "C" fn after() {
        Tracer::get().trace(format_args!("registered after it"));
        let thread = std::thread::spawn(|| Tracer::get().trace(format_args!("a thread of the handler")));
        thread.join().expect("its end");
    }
    // SAFETY: the handlers are plain functions that live as long as the program.
    let register = |handler: extern "C" fn()| assert_eq!(unsafe { libc::atexit(handler) }, 0);
    register(before);
    Tracer::get().trace(format_args!("the first record"));
    register(after);
}

/// Deletes the file that the program was started from (`deleted`), replaces it by another (`replaced`), or keeps it
/// (`kept`); then traces.
#[cfg(unix)]
pub fn own_file_gone(what: &str) {
    let own = std::env::current_exe().expect("its path");
    match what {
        "deleted" => std::fs::remove_file(own).expect("it can be deleted"),
        "replaced" => {
            let other = own.with_file_name("another program");
            std::fs::write(&other, "another program").expect("a file");
            std::fs::rename(other, own).expect("it can be replaced");
        }
        _ => {}
    }
    Tracer::get().trace(format_args!("its file was {what}"));
}

/// Traces, and ends in the given way, not by a return from `main`.
pub fn ended(how: &str) {
    if how == "hook-aborts" {
        std::panic::set_hook(Box::new(|_| std::process::abort()));
    } else if how == "hook-exits" {
        std::panic::set_hook(Box::new(|_| std::process::exit(7)));
    }
    Tracer::get().trace(format_args!("before the end"));
    match how {
        // SAFETY: no memory is mapped at this address, and the process ends here.
        "fault" => unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        #[cfg(unix)]
        // SAFETY: the call touches no memory; the process ends here.
        "skips-handlers" => unsafe { libc::_exit(3) },
        "exits" => std::process::exit(3),
        "hook-aborts" | "hook-exits" => panic!("as the test wants"),
        "cannot-unwind" => cannot_unwind(),
        "panics-twice" => {
            let _panics = PanicsWhenDropped;
            panic!("as the test wants");
        }
        "panics" => panic!("as the test wants"),
        "aborts" => std::process::abort(),
        "caught" | "caught-and-exits" => {
            std::panic::catch_unwind(|| panic!("as the test wants")).expect_err("the panic");
        }
        "thread-panics" | "thread-panics-and-aborts" => {
            let thread = std::thread::spawn(|| {
                Tracer::get().trace(format_args!("the thread"));
                panic!("as the test wants");
            });
            thread.join().expect_err("the panic");
        }
        "killed" => {}
        other => panic!("no end {other:?}"),
    }
    match how {
        "caught-and-exits" => std::process::exit(4),
        "thread-panics-and-aborts" => std::process::abort(),
        _ => die(),
    }
}

extern "C" fn cannot_unwind() {
    panic!("as the test wants");
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("as the test wants, again");
    }
}
