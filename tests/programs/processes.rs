//! Programs that become other programs, and programs that leave children of every kind behind.

use crate::host::{die, hear, say};
use crate::threads::trace_on_two_threads;
use std::ffi::CString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("exec", |args| exec(args.text(0))),
    ("daemon", |args| daemon(args.text(0))),
    ("silent-child", |_| silent_child()),
    ("closes-all", |args| closes_all(args.text(0))),
    ("full-speed-forks", |args| full_speed_forks(args.number(0))),
    ("full-speed-programs", |args| full_speed_programs(args.number(0))),
    ("plugin", |args| plugin(args.text(0))),
];

/// Traces and becomes another program: this one again, which traces and returns, or `sleep`.
pub fn exec(stage: &str) {
    let become_another = |program: &str, args: &[&str]| {
        trace_on_two_threads(100);
        panic!("exec: {}", Command::new(program).args(args).exec());
    };
    let own = std::env::current_exe().expect("its path");
    match stage {
        "itself" => become_another(own.to_str().expect("a path in UTF-8"), &["exec", "again"]),
        "again" => Tracer::get().trace(format_args!("after the exec")),
        _ => become_another("sleep", &["1000"]),
    }
}

/// Waits for a child; returns its status and the number of times that the child itself waited.
fn wait_for(child: libc::pid_t) -> (i32, i64) {
    let mut status = 0;
    // SAFETY: the call waits for our own child; both results are plain memory.
    let waits = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(child, &mut status, 0, &mut usage), child);
        usage.ru_nvcsw
    };
    (status, waits)
}

/// Becomes a daemon: forks, leaves its session, forks again; the processes that stay behind end without their exit
/// handlers. The one in the middle traces if `middle` is "traces".
pub fn daemon(middle: &str) {
    trace_on_two_threads(100);
    let end_parent = || {
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(0) }
    };
    // SAFETY: the child traces and forks, which the tracer makes possible.
    let child = unsafe { libc::fork() };
    if child != 0 {
        assert_eq!(wait_for(child).0, 0);
        end_parent();
    }
    // SAFETY: the call touches no memory.
    unsafe { libc::setsid() };
    if middle == "traces" {
        Tracer::get().trace(format_args!("in the middle"));
    }
    // SAFETY: the reason is the same as above.
    if unsafe { libc::fork() } != 0 {
        end_parent();
    }
    let thread = std::thread::spawn(|| {
        (0..1000).for_each(|n| Tracer::get().trace(format_args!("daemon thread {n}")));
    });
    (0..1000).for_each(|n| Tracer::get().trace(format_args!("daemon {n}")));
    thread.join().expect("its end");
}

/// Traces, forks a child that does not trace and calls `exit`, and is killed after some more records. Prints the
/// number of times that the child waited.
pub fn silent_child() {
    trace_on_two_threads(100);
    // SAFETY: the child only exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call runs the exit handlers that were inherited.
        unsafe { libc::exit(9) };
    }
    let (status, waits) = wait_for(child);
    assert_eq!(libc::WEXITSTATUS(status), 9);
    Tracer::get().trace(format_args!("children 0"));
    say(&format!("{waits}"));
    die();
}

/// Runs `work` while three threads trace numbered records, `parent <thread> <number>`: `count` each at full speed,
/// then more slowly until `work` is done. Passes to `work` a function that returns the number of records so far.
fn at_full_speed(count: u64, work: impl FnOnce(&dyn Fn() -> u64)) {
    static TRACED: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicU64 = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut numbers = 0u64..;
                while let Some(n) = numbers.next().filter(|n| *n < count || DONE.load(Ordering::Relaxed) == 0)
                {
                    Tracer::get().trace(format_args!("parent {thread} {n}"));
                    TRACED.fetch_add(1, Ordering::Relaxed);
                    if n > count {
                        std::thread::sleep(std::time::Duration::from_micros(100));
                    }
                }
                say(&format!("parent {thread} {}", numbers.start - 1));
            });
        }
        work(&|| TRACED.load(Ordering::Relaxed));
        DONE.store(1, Ordering::Relaxed);
    });
}

/// Forks six times while three threads trace at full speed; each child does the same for a while.
pub fn full_speed_forks(count: u64) {
    at_full_speed(count, |traced| {
        let children: Vec<_> = (0..6u64)
            .map(|child| {
                while traced() < child * count / 4 {
                    std::thread::yield_now();
                }
                Tracer::get().trace(format_args!("parent forks {child}"));
                // SAFETY: the child traces, starts threads and exits, which the tracer and the C library of
                // this system make possible.
                let pid = unsafe { libc::fork() };
                if pid != 0 {
                    return pid;
                }
                let work = move |thread: u64| {
                    (0..2000).for_each(|n| Tracer::get().trace(format_args!("child{child} {thread} {n}")));
                };
                let threads: Vec<_> = (1..3).map(|t| std::thread::spawn(move || work(t))).collect();
                work(0);
                threads.into_iter().for_each(|thread| thread.join().expect("its end"));
                std::process::exit(0);
            })
            .collect();
        children.into_iter().for_each(|child| assert_eq!(wait_for(child).0, 0, "a child ends well"));
    });
}

/// Starts other programs in every way there is while three threads trace at full speed.
pub fn full_speed_programs(count: u64) {
    extern "C" fn ends_at_once(_: *mut libc::c_void) -> libc::c_int {
        // SAFETY: a child in its parent's memory may do this.
        unsafe { libc::_exit(7) }
    }
    let own = std::env::current_exe().expect("its path");
    at_full_speed(count, |traced| {
        for round in 0..6 {
            while traced() < round * count / 4 {
                std::thread::yield_now();
            }
            // This starts a program by `posix_spawn`.
            let status = Command::new(&own).arg("return").status().expect("it runs");
            assert!(status.success());
            // This starts a program by `fork` and `exec`.
            let mut forked = Command::new(&own);
            // SAFETY: nothing is done between the two.
            unsafe { forked.pre_exec(|| Ok(())) };
            assert!(forked.arg("return").status().expect("it runs").success());
            // This starts a program as `vfork` does: a child in the memory of its parent, which waits.
            let mut stack = vec![0u64; 8192];
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: the stack is the child's until it has ended, which this waits for; its end is aligned.
            let child = unsafe {
                let top = stack.as_mut_ptr().add(stack.len()).cast();
                libc::clone(ends_at_once, top, flags, std::ptr::null_mut())
            };
            assert_eq!(libc::WEXITSTATUS(wait_for(child).0), 7);
            Tracer::get().trace(format_args!("parent round {round}"));
        }
    });
}

/// Closes all descriptors except the standard streams, and opens files of its own in `directory`, which get their
/// numbers; goes on tracing, prints "ready", and waits for the test before it ends. Panics if other code has
/// written to one of its files, or closed it.
pub fn closes_all(directory: &str) {
    let thread = |name: &'static str| {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (done, traced) = std::sync::mpsc::channel::<()>();
        let work = move || {
            for n in 0..2 {
                (100 * n..100 * n + 100).for_each(|n| Tracer::get().trace(format_args!("{name} {n}")));
                done.send(()).expect("main waits");
                if wait.recv().is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::spawn(work);
        traced.recv().expect("it traces");
        (thread, go_on, traced)
    };
    let (ends, goes_on) = (thread("ends"), thread("goes on"));
    Tracer::get().trace(format_args!("main 0"));
    // After the second flush, the flusher has done everything that it does when a run starts. It cannot protect a
    // descriptor that it has open for a moment.
    let flush_twice = || (0..2).for_each(|_| Tracer::get().flush().expect("a flush"));
    flush_twice();
    // SAFETY: the call closes descriptors that no code in this program uses.
    (3..256).for_each(|number| unsafe {
        libc::close(number);
    });
    let own = |n: u32| std::path::Path::new(directory).join(format!("own-{n}"));
    let mut files: Vec<_> = (0..30).map(|n| std::fs::File::create(own(n)).expect("a file")).collect();
    // The tracer closes the file of this thread now. It must not close one of the program's files instead.
    drop(ends.1);
    ends.0.join().expect("its end");
    goes_on.1.send(()).expect("it waits");
    goes_on.2.recv().expect("it traces");
    Tracer::get().trace(format_args!("main 1"));
    flush_twice();
    for (n, file) in (0..).zip(&mut files) {
        file.write_all(b"its own").expect("it is open");
        assert_eq!(std::fs::read(own(n)).expect("it is there"), b"its own");
    }
    say("ready");
    let _ = hear();
    Tracer::get().trace(format_args!("main 2"));
    goes_on.1.send(()).expect("it waits");
    goes_on.0.join().expect("its end");
}

/// Loads the plugin at `path`, has it trace, closes it; three times. Traces itself before, between and after.
pub fn plugin(path: &str) {
    let path = CString::new(path).expect("a path without NUL");
    let trace = |round: u32| Tracer::get().trace(format_args!("host {round}"));
    for round in 0..3 {
        trace(2 * round);
        // SAFETY: this is a shared object of this workspace, whose function has that signature.
        unsafe {
            let plugin = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!plugin.is_null(), "{:?}", std::ffi::CStr::from_ptr(libc::dlerror()));
            let function = libc::dlsym(plugin, c"plugin_trace".as_ptr());
            assert!(!function.is_null(), "the plugin has its function");
            let function = std::mem::transmute::<*mut libc::c_void, extern "C" fn(u32)>(function);
            function(round);
            trace(2 * round + 1);
            assert_eq!(libc::dlclose(plugin), 0);
        }
    }
    trace(6);
}
