//! A burst of records by a thread that may not make any system call.

use crate::allocations;
use std::sync::atomic::{AtomicU64, Ordering};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] = &[("burst", |_| burst())];

/// Makes the system kill the process at the next system call of the calling thread.
fn forbid_system_calls() {
    let kill = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_KILL_PROCESS,
    };
    let mut filter = [kill];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid for the time of the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Traces 2,000 messages of all sorts without a system call or an allocation; prints the allocations.
pub fn burst() {
    static DONE: AtomicU64 = AtomicU64::new(u64::MAX);
    std::thread::spawn(|| {
        let text = String::from("a string of forty bytes, near enough");
        Tracer::get().trace(format_args!("the first record takes a ring"));
        // The first ring of a process gets all of its memory a moment later; until then a call may wait.
        Tracer::get().flush().expect("a flush");
        forbid_system_calls();
        let before = allocations::count();
        for i in 0..500u64 {
            Tracer::get().trace(format_args!("a fixed string"));
            Tracer::get().trace(format_args!("A number {i}"));
            Tracer::get().trace(format_args!("int {} double {} {:?}", i, i as f64 / 3.0, Some(i)));
            Tracer::get().trace(format_args!("{text}\nand a second line"));
        }
        DONE.store(allocations::count() - before, Ordering::Release);
        // Even the end of a thread is a system call.
        loop {
            std::hint::spin_loop();
        }
    });
    while DONE.load(Ordering::Acquire) == u64::MAX {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    println!("allocations {}", DONE.load(Ordering::Acquire));
}
