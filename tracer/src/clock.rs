//! Reading the performance counter. Runs on the traced thread, inside every record.
//!
//! *Ordered* reads do not happen before what stands ahead of them in the program, a lock that was taken
//! above all; so a record that happens after another never has smaller ticks. On x86-64 that is
//! `lfence; rdtsc` (Intel SDM vol. 2B, RDTSC; AMD64 APM vol. 3: LFENCE is dispatch-serializing, which Linux
//! sets up on all AMD processors), on aarch64 `isb; mrs cntvct_el0` (Arm ARM, D11.2). A plain `rdtsc` costs 6
//! to 7 ns less and may be early by hundreds of nanoseconds.
#![allow(unsafe_code, reason = "the counter is read by intrinsics and one line of assembly")]

use crate::sys;
use std::sync::atomic::{AtomicU32, Ordering};
use trace_format::line::Ticks;
use trace_format::meta::ClockKind;
use trace_format::wall::Wall;

/// The clock that this machine allows, `wanted` or the system's.
pub(crate) fn available(wanted: ClockKind) -> ClockKind {
    if wanted != ClockKind::System && has_counter() && sys::counter_is_trusted() {
        wanted
    } else {
        ClockKind::System
    }
}

#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at one rate in all power states ("invariant TSC"). A
    // hypervisor that hides the bit but names tsc as a trusted source is judged by `counter_is_trusted`.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: every x86-64 processor has CPUID; the leaf is asked for only where it exists.
    unsafe {
        let highest = std::arch::x86_64::__cpuid(0x8000_0000).eax;
        highest >= 0x8000_0007 && std::arch::x86_64::__cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
}

#[cfg(target_arch = "aarch64")]
fn has_counter() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_counter() -> bool {
    false
}

/// The kind of the process's clock: [`ORDERED`], or what [`set`] was told. Relaxed: whoever sees a new kind too late
/// makes records for a run that is being ended.
static KIND: AtomicU32 = AtomicU32::new(ORDERED);
/// The kinds, in the two bits that a site has for them. 0 is none: so a site without a number is of no kind.
pub(crate) const ORDERED: u32 = 1;
pub(crate) const FAST: u32 = 2;
pub(crate) const SYSTEM: u32 = 3;

/// Decides which clock [`now`] reads. There is one run at a time.
pub(crate) fn set(kind: ClockKind) {
    let kind = match kind {
        ClockKind::Ordered => ORDERED,
        ClockKind::Fast => FAST,
        ClockKind::System => SYSTEM,
    };
    KIND.store(kind, Ordering::Relaxed);
}

/// Which clock [`now`] reads.
pub(crate) fn kind() -> u32 {
    KIND.load(Ordering::Relaxed)
}

/// Reads the process's clock. On the hot path that is done before anything else: what follows does not wait for the
/// counter.
#[inline(always)]
pub(crate) fn now() -> Ticks {
    Ticks(match kind() {
        ORDERED => ordered(),
        FAST => fast(),
        _ => system(),
    })
}

/// The system's monotonic clock, in nanoseconds.
#[cold]
pub(crate) fn system() -> u64 {
    sys::monotonic_ns()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ordered() -> u64 {
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: both instructions are part of every x86-64 processor (SSE2) and touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn fast() -> u64 {
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: as in `ordered`.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn ordered() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that user programs may read. Without `nomem` the compiler keeps it behind the
    // loads and stores ahead of it, as `isb` does in the processor.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags))
    };
    ticks
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn fast() -> u64 {
    let ticks: u64;
    // SAFETY: as in `ordered`.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn ordered() -> u64 {
    sys::monotonic_ns()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn fast() -> u64 {
    sys::monotonic_ns()
}

/// The clock and the wall clock at one moment: the closest of three tries.
pub(crate) fn pair() -> (Ticks, Wall) {
    let attempt = || {
        let before = now();
        let wall = std::time::SystemTime::now();
        let after = now();
        let since_epoch = wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX));
        let width = after.0.saturating_sub(before.0);
        (width, Ticks(before.0 + width / 2), wall)
    };
    let (_, ticks, wall) = [attempt(), attempt(), attempt()].into_iter().min().unwrap_or_else(attempt);
    (ticks, wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_of_this_machine_goes_forward() {
        for kind in [available(ClockKind::Ordered), available(ClockKind::Fast), ClockKind::System] {
            set(kind);
            let (before, wall) = pair();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let (after, later) = pair();
            assert!(after > before && later > wall, "{kind:?}");
        }
        set(available(ClockKind::Ordered));
    }
}
