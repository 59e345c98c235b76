//! The function `syscall`, which replaces that of the C library, to record the locks of code that cannot be changed:
//! `std`, `parking_lot` and others sleep and wake by `syscall(SYS_futex, ..)`. It exists only with the feature `futex`.
//!
//! It runs on every thread that goes to sleep for a lock or wakes others. All other system calls are passed to the
//! system as the C library would pass them.

use std::arch::{asm, naked_asm};
use std::ffi::{c_int, c_long};
use std::time::Instant;

use tracer::__foreign::{self as foreign, LockRecord};
use tracer::__macro_support::{Registers, record_stack_of_message};

/// Makes a system call, as the C library's function does, and records the calls for futexes.
///
/// It has no frame of its own, because a call like `clone` may return twice.
///
/// Six more arguments may follow the number, as in the C library's declaration.
///
/// # Safety
/// As for the C library's function: the arguments fit the system call.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long) -> c_long {
    // The arguments come in a function's registers, and move to those of a system call; the sixth is on the stack.
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

/// An operation on a futex, of the kinds that the tracer records.
enum FutexOperation {
    /// The thread sleeps as long as the word of the futex has the expected value.
    Wait,
    /// The thread wakes at most this many of the threads that sleep.
    Wake(u32),
}

/// Makes a system call for a futex. `value` is the value that the futex's word is expected to have, or the number of
/// threads to wake.
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
        // SAFETY: the call is the program's own, with its arguments. The system changes no memory of ours, and only
        // the registers that are named.
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
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Some(FutexOperation::Wait),
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Some(FutexOperation::Wake(value)),
        _ => None,
    };
    let result = match used {
        Some(used) if foreign::may_record() => recorded(&used, address, call),
        _ => call(),
    };
    if (-4095..0).contains(&result) { failed(result) } else { result }
}

/// Makes the system call `call` for the futex at `address`, and records it.
#[cold]
fn recorded(used: &FutexOperation, address: usize, call: impl FnOnce() -> c_long) -> c_long {
    let (before, word) = (errno(), address as u64);
    let result = match *used {
        FutexOperation::Wake(most) => {
            foreign::record_futex(&LockRecord::FutexWake { address: word, most: most.into() });
            call()
        }
        FutexOperation::Wait => {
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

/// Returns the C library's result for a system call that has failed: -1, with the reason in `errno`.
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
