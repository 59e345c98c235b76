//! The symbol `syscall`, by which programs that nobody can change tell of their locks: `std`, `parking_lot` and others sleep
//! and wake by `syscall(SYS_futex, ..)` of the C library. Only with the feature `futex`.
//!
//! Runs on any thread, at the moment when it goes to sleep for a lock, or wakes others. Everything else that comes this way
//! goes to the system as the C library would hand it on.

use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_long};
use std::time::Instant;

use tracer::__foreign::{self as foreign, LockRecord};
use tracer::__macro_support::{Registers, record_stack_of_message};

/// Makes a system call, as the C library's function does, and records those for futexes.
///
/// Without a frame of its own: a call like `clone` may return twice.
///
/// Six more arguments may follow the number, as the C library's declaration has it.
///
/// # Safety
/// As of that function: the arguments are what the system call asks for.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    // The arguments come as those of a function do, and go where the system looks for them; the sixth is on the stack.
    naked_asm!(
        "cmp rdi, {of_futex}",
        "je {futex}",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov rdi, rax",
        "jmp {failed}",
        of_futex = const libc::SYS_futex,
        futex = sym futex,
        failed = sym failed,
    )
}

/// What a call for a futex is about, as far as it is recorded.
enum Use {
    /// The thread sleeps while the word has a value.
    Wait,
    /// So many threads at most are woken.
    Wake(u32),
}

/// Makes a system call for a futex. `value` is what the word has to be, or how many threads are woken.
extern "C" fn futex(
    number: c_long,
    address: usize,
    operation: c_int,
    value: u32,
    timeout: usize,
    other: usize,
    bits: usize,
) -> c_long {
    let call = || -> c_long {
        let result;
        // SAFETY: the call is the program's own, with its arguments. The system changes no memory of ours, and of the
        // registers those that are named.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => result,
                in("rdi") address,
                in("rsi") operation as isize,
                in("rdx") value as usize,
                in("r10") timeout,
                in("r8") other,
                in("r9") bits,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result
    };
    let used = match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Some(Use::Wait),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Some(Use::Wake(value)),
        _ => None,
    };
    let result = match used {
        Some(used) if foreign::may_record() => recorded(&used, address, call),
        _ => call(),
    };
    if (-4095..0).contains(&result) { failed(result) } else { result }
}

/// Makes a call, and records it.
#[cold]
fn recorded(used: &Use, address: usize, call: impl FnOnce() -> c_long) -> c_long {
    let (before, word) = (errno(), address as u64);
    let result = match *used {
        Use::Wake(most) => {
            foreign::record_futex(&LockRecord::FutexWake { address: word, most: most.into() });
            call()
        }
        Use::Wait => {
            if foreign::record_futex(&LockRecord::FutexWait { address: word }) {
                record_stack_of_message(Registers::here());
            }
            let since = Instant::now();
            let result = call();
            let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            foreign::record_futex(&LockRecord::FutexWoken { address: word, ns, result });
            result
        }
    };
    set_errno(before);
    result
}

/// Returns what a system call that has failed returns by the C library: -1, with the reason in `errno`.
extern "C" fn failed(result: c_long) -> c_long {
    set_errno((-result) as c_int);
    -1
}

fn errno() -> c_int {
    // SAFETY: the address is that of the thread's own variable.
    unsafe { *libc::__errno_location() }
}

fn set_errno(to: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = to };
}
