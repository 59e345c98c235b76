//! Threads that leave their processor in each way, and the kernel's own counts of that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::scenarios::Scenario;
use tracer::{Tracer, scope};

pub const SCENARIOS: &[Scenario] = &[
    ("switches", |args| switches(args.text(0) == "killed")),
    ("without-events", |_| {
        refuse_events();
        std::process::exit(tracemerge::main(std::env::args_os().skip(1)).into())
    }),
];

/// Makes the kernel refuse this process and its children events, as the filters of containers do.
fn refuse_events() {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_perf_event_open as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid for the time of the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Returns how often this thread has left its processor by itself, and how often it was taken off.
fn counted() -> (i64, i64) {
    // SAFETY: `rusage` is plain data, valid when all zero, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage
    };
    (usage.ru_nvcsw, usage.ru_nivcsw)
}

/// Traces the counts of this thread until a record is certainly made between two equal counts, and says so.
fn trace_counts() {
    loop {
        let before = counted();
        Tracer::get().trace(format_args!("counts {} {}", before.0, before.1));
        if counted() == before {
            Tracer::get().trace(format_args!("exact"));
            return;
        }
    }
}

/// Puts this thread on the first processor that it may use.
fn share_one_processor() {
    // SAFETY: both calls get a set of their own, valid when all zero.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first.expect("a processor"), &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &one), 0);
    }
}

/// Traces the processor's time of this thread that the `work` of a function takes, in nanoseconds.
fn trace_time(function: &str, work: impl FnOnce()) {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes the time.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let before = now();
    work();
    Tracer::get().trace(format_args!("cpu of {function} {}", now() - before));
}

/// Sleeps for 20 ms or longer in all.
fn sleep_often() {
    let _scope = scope!();
    trace_time("sleep_often", || (0..200).for_each(|_| std::thread::sleep(Duration::from_micros(100))));
}

/// Computes until another thread has had the processor three times.
fn spin_until_preempted() {
    let _scope = scope!();
    trace_time("spin_until_preempted", || {
        let (_, first) = counted();
        while counted().1 < first + 3 {
            (0..10_000).for_each(|_| std::hint::spin_loop());
        }
    });
}

/// Runs a thread that sleeps, one that waits for another, and one that a rival preempts; each traces its counts
/// before and after. Then ends, or kills itself.
fn switches(killed: bool) {
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            trace_counts();
            sleep_often();
            trace_counts();
        });
        let (ask, asked) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        scope.spawn(move || {
            trace_counts();
            for _ in 0..200 {
                let _ = ask.send(());
                let _ = answered.recv();
            }
            trace_counts();
        });
        scope.spawn(move || asked.iter().for_each(|()| answer.send(()).unwrap_or_default()));
        scope.spawn(move || {
            share_one_processor();
            trace_counts();
            spin_until_preempted();
            trace_counts();
            is_over.store(true, Ordering::Relaxed);
        });
        scope.spawn(move || {
            share_one_processor();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    });
    if killed {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
