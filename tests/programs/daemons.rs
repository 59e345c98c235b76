//! Programs that treat descriptors and users as daemons do: they close descriptors that they do not know, in a
//! sandbox or not, or become another user; and the tracer's messages in such programs.

use crate::host::{die, hear, say};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[
    ("closes-at-once", |args| closes_at_once(args.text(0), args.get(1).unwrap_or_default())),
    ("sandboxed", |args| sandboxed(args.text(0))),
    ("told", |args| told(args.get(0).unwrap_or_default())),
    ("becomes", |args| becomes(args.number(0))),
    ("ringless", |args| ringless(args.number(0), args.get(1).unwrap_or_default())),
];

/// Traces `range` as numbered records of the daemon.
fn trace(range: std::ops::Range<u64>) {
    range.for_each(|n| Tracer::get().trace(format_args!("daemon {n}")));
}

/// Forks and ends the parent.
fn leave_parent() {
    // SAFETY: the child traces, which the tracer makes possible; the parent ends without its exit handlers.
    unsafe {
        if libc::fork() != 0 {
            libc::_exit(0);
        }
    }
}

/// Does the work of a daemon that starts: traces, forks twice, traces once, closes all descriptors that it does not
/// know, opens files of its own in `directory`, which get their numbers, and traces on. Panics unless its own files
/// keep the contents that it has written. With `how` "killed", it is killed after its last record.
pub fn closes_at_once(directory: &str, how: &str) {
    Tracer::get().trace(format_args!("before the daemon"));
    leave_parent();
    // SAFETY: the call touches no memory.
    unsafe { libc::setsid() };
    leave_parent();
    trace(0..1);
    // SAFETY: the call closes descriptors that no code in this program uses.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    let content = |n: usize| vec![b'a' + n as u8; if n.is_multiple_of(4) { 0 } else { 256 * 1024 }];
    let mut files: Vec<File> = (0..12)
        .map(|n| {
            let path = Path::new(directory).join(format!("own-{n}"));
            let options = File::options().read(true).write(true).create(true).truncate(true).clone();
            let mut file = options.open(path).expect("a file");
            file.write_all(&content(n)).expect("room");
            file
        })
        .collect();
    trace(1..501);
    // The flusher runs ten times a second.
    std::thread::sleep(std::time::Duration::from_millis(150));
    trace(501..2501);
    for (n, file) in files.iter_mut().enumerate() {
        let mut found = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut found).map(drop)).expect("it is open");
        assert!(found == content(n), "file {n} has {} bytes of its own", found.len());
    }
    say("as it was");
    if how == "killed" {
        die();
    }
}

/// Traces in a sandbox that refuses the calls by which a thread separates its descriptors from its process's or, if
/// `action` is "kill", kills the process for them.
pub fn sandboxed(action: &str) {
    let action = if action == "kill" {
        libc::SECCOMP_RET_KILL_PROCESS
    } else {
        libc::SECCOMP_RET_ERRNO | libc::EPERM as u32
    };
    let number_at = 0;
    let statement = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = vec![statement(load, 0, number_at)];
    let calls = [libc::SYS_close_range, libc::SYS_unshare];
    for (left, call) in (0..calls.len()).rev().zip(calls) {
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, left as u8 + 1, call as u32));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, action));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid for the time of the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    trace(0..100);
    Tracer::get().flush().expect("a flush");
    trace(100..200);
}

/// Writes to stderr, traces, which makes the tracer write a message there, and writes again. With `how` "main
/// left", the main thread ends before the first record.
pub fn told(how: &str) {
    eprintln!("before");
    let work = |wait: u64| {
        std::thread::sleep(std::time::Duration::from_millis(wait));
        Tracer::get().trace(format_args!("the only record"));
        Tracer::get().flush().expect("a flush");
        // A thread of the tracer writes its messages.
        std::thread::sleep(std::time::Duration::from_millis(100));
        eprintln!("after");
    };
    if how == "main left" {
        std::thread::spawn(move || {
            work(100);
            std::process::exit(0);
        });
        // SAFETY: the call ends this thread, without the unwinding of the C library; nothing of the thread is
        // used any more.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    work(0);
}

/// Traces as root, becomes the user `user`, goes on tracing with old and new threads, prints "ready", and waits
/// until the test ends or kills it.
pub fn becomes(user: u32) {
    let thread = |name: &'static str| {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (done, traced) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            for round in 0..2 {
                (100 * round..100 * round + 100)
                    .for_each(|n| Tracer::get().trace(format_args!("{name} {n}")));
                done.send(()).expect("main waits");
                if wait.recv().is_err() {
                    return;
                }
            }
        });
        traced.recv().expect("it traces");
        (thread, go_on, traced)
    };
    let old = thread("old");
    Tracer::get().flush().expect("a flush");
    // SAFETY: the call touches no memory.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(user), 0);
        assert_eq!(libc::setuid(user), 0);
    }
    // The flusher notices the change when it wakes up; the rings in reserve still belong to the former user.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let new: Vec<_> =
        ["new a", "new b", "new c", "new d", "new e", "new f", "new g", "new h"].map(thread).into();
    old.1.send(()).expect("it waits");
    old.2.recv().expect("it traces");
    say("ready");
    let _ = hear();
    for (thread, go_on, _) in new.into_iter().chain([old]) {
        drop(go_on);
        thread.join().expect("its end");
    }
}

/// Traces on `threads` threads that cannot get a ring, because no memory can be mapped any more; prints the number
/// of records that it has made, and ends or, with `how` "killed", is killed.
pub fn ringless(threads: u64, how: &str) {
    let made = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(1));
    Tracer::get().trace(format_args!("the first ring"));
    Tracer::get().flush().expect("a flush");
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let count = usize::try_from(threads).expect("a few");
    let all_begun = std::sync::Arc::new(std::sync::Barrier::new(count + 1));
    let all_done = std::sync::Arc::new(std::sync::Barrier::new(count));
    let workers: Vec<_> = (0..threads)
        .map(|id| {
            let (made, wait) = (made.clone(), wait.clone());
            let (all_begun, all_done) = (all_begun.clone(), all_done.clone());
            std::thread::spawn(move || {
                all_begun.wait();
                let told = wait.lock().expect("a lock").recv();
                told.expect("main is there");
                for n in 0..50 {
                    Tracer::get().trace(format_args!("worker {id} {n}"));
                    made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                // Until then, no thread gives its ring to another one.
                all_done.wait();
            })
        })
        .collect();
    // The threads run, so each has the signal stack that the standard library maps at its start. From here on the
    // address space must not grow by a ring.
    all_begun.wait();
    let status = std::fs::read_to_string("/proc/self/statm").expect("its size");
    let pages: u64 = status.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    let limit = libc::rlimit { rlim_cur: pages * 4096 + (4 << 20), rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is plain memory.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    (0..threads).for_each(|_| go_on.send(()).expect("they wait"));
    workers.into_iter().for_each(|worker| worker.join().expect("its end"));
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the reason is the same as above.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &all) };
    say(&format!("made {}", made.load(std::sync::atomic::Ordering::Relaxed)));
    if how == "killed" {
        die();
    }
}
