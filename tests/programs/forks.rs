//! A program that forks while it traces.

use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[("fork", |_| fork())];

/// Forks with two threads tracing; both sides go on.
pub fn fork() {
    let other = std::thread::spawn(|| {
        for i in 0..2000 {
            Tracer::get().trace(format_args!("other thread {i}"));
        }
    });
    Tracer::get().trace(format_args!("parent before"));
    // SAFETY: the child only traces and exits, which the tracer makes possible.
    let child = unsafe { libc::fork() };
    if child == 0 {
        Tracer::get().trace(format_args!("child first"));
        let thread = std::thread::spawn(|| Tracer::get().trace(format_args!("child thread")));
        // A join waits for the whole end of the thread, the end of a scope does not.
        thread.join().expect("its end");
        Tracer::get().trace(format_args!("child last"));
        std::process::exit(0);
    }
    // A second child never traces and runs the exit handlers.
    // SAFETY: the child only exits, which the tracer makes possible.
    let silent = unsafe { libc::fork() };
    if silent == 0 {
        std::process::exit(0);
    }
    for pid in [child, silent] {
        let mut status = 0;
        // SAFETY: the call waits for our own children.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        assert_eq!(status, 0, "a child ends well");
    }
    Tracer::get().trace(format_args!("parent after"));
    other.join().expect("the other thread ends");
    println!("{child}");
}
