//! Reads the processor's counter, checks whether the counter can be trusted, and reads the wall clock at the same
//! moment.
//!
//! *Ordered* reads take place after all earlier instructions of the program, in particular after a lock was taken. So a
//! record that happens after another never has smaller ticks. On x86-64 an ordered read is `lfence; rdtsc` (Intel SDM
//! vol. 2B, RDTSC; AMD64 APM vol. 3: LFENCE is dispatch-serializing, which Linux sets up on all AMD processors), on
//! aarch64 `isb; mrs cntvct_el0` (Arm ARM, D11.2). A plain `rdtsc` costs 6 to 7 ns less, but may be executed hundreds
//! of nanoseconds earlier.
//!
//! [`ordered`], [`fast`] and [`system`] run on the traced thread, inside every record.
#![allow(unsafe_code, reason = "the counter is read by intrinsics and one line of assembly")]

use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Meta, SystemClocks};
use trace_format::wall::Wall;

use crate::sys;

/// Returns `wanted` if this clock can be used on this machine, and the system's clock otherwise.
pub fn available(wanted: ClockKind) -> ClockKind {
    if wanted != ClockKind::System && has_counter() && sys::counter_is_trusted() {
        wanted
    } else {
        ClockKind::System
    }
}

#[cfg(target_arch = "x86_64")]
fn has_counter() -> bool {
    // Leaf 0x8000_0007, EDX bit 8: the counter runs at one rate in all power states ("invariant TSC"). A
    // hypervisor may hide the bit although the kernel trusts tsc; then the system's clock is used.
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: every x86-64 processor has CPUID; the leaf is read only if it exists.
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

/// Reads the system's monotonic clock, in nanoseconds.
#[cold]
#[inline]
pub fn system() -> u64 {
    sys::monotonic_ns()
}

/// Reads the processor's counter after all earlier instructions of the program.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn ordered() -> u64 {
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: both instructions are part of every x86-64 processor (SSE2) and touch no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

/// Reads the processor's counter, perhaps before earlier instructions of the program have finished.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
pub fn fast() -> u64 {
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: as in `ordered`.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

/// Reads the processor's counter after all earlier instructions of the program.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
pub fn ordered() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that user programs may read. Without `nomem` the compiler keeps it after the
    // loads and stores before it, as `isb` does in the processor.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags))
    };
    ticks
}

/// Reads the processor's counter, perhaps before earlier instructions of the program have finished.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
pub fn fast() -> u64 {
    let ticks: u64;
    // SAFETY: as in `ordered`.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
/// Reads the system's monotonic clock, because this processor has no known counter.
#[must_use]
pub fn ordered() -> u64 {
    sys::monotonic_ns()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
/// Reads the system's monotonic clock, because this processor has no known counter.
#[must_use]
pub fn fast() -> u64 {
    sys::monotonic_ns()
}

/// Reads a counter and the wall clock at the same moment: of three tries, returns the one in which the reading took the
/// fewest ticks. `now` reads the counter.
pub fn pair(now: impl Fn() -> Ticks) -> (Ticks, Wall) {
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

/// Reads a counter and all clocks of the system at the same moment: of three tries, returns the one in which the
/// reading took the fewest ticks. `now` reads the counter.
pub fn look(now: impl Fn() -> Ticks) -> Meta {
    let attempt = || {
        let before = now();
        let (raw, wall, since_boot) = (sys::raw_ns(), std::time::SystemTime::now(), sys::since_boot_ns());
        let after = now();
        let since_epoch = wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let wall = Wall(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX));
        let within = after.0.saturating_sub(before.0);
        (within, before, wall, raw, since_boot)
    };
    let closest = [attempt(), attempt(), attempt()].into_iter().min_by_key(|read| read.0);
    let (within, before, wall, raw, since_boot) = closest.unwrap_or_else(attempt);
    let system = SystemClocks { within: Some(within), raw, since_boot, ..SystemClocks::default() };
    Meta::Clock { ticks: Ticks(before.0 + within / 2), wall, system }
}

/// Reads the clocks as [`look`] does, and the accuracy of the wall clock, for a `# clock` line. The accuracy is read
/// first, so that its system calls do not come between the other readings.
pub fn clock_line(now: impl Fn() -> Ticks) -> Meta {
    let quality = sys::wall_quality();
    let mut line = look(now);
    if let Meta::Clock { system, .. } = &mut line {
        (system.error, system.status, system.state) = (quality.error, quality.status, quality.state);
    }
    line
}
