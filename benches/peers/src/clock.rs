//! The clocks by which calls are measured. Bare readings of them are floors of the measurements.

use std::time::{Duration, Instant};

/// Reads the processor's counter after all instructions before the call.
#[inline(always)]
pub fn ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    other::raw()
}

/// Reads the processor's counter at the moment that the processor chooses, before or after instructions nearby.
#[inline(always)]
pub fn plain() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, unused_unsafe)]
    // SAFETY: part of every x86-64 processor.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    other::raw()
}

#[cfg(not(target_arch = "x86_64"))]
mod other {
    use std::sync::LazyLock;

    static CLOCK: LazyLock<quanta::Clock> = LazyLock::new(quanta::Clock::new);

    pub fn raw() -> u64 {
        CLOCK.raw()
    }
}

/// A measurement of the length of a tick, from the call of [`Calibration::begin`] to its end.
pub struct Calibration {
    wall: Instant,
    ticks: u64,
}

impl Calibration {
    /// Begins the measurement.
    pub fn begin() -> Calibration {
        Calibration { wall: Instant::now(), ticks: ordered() }
    }

    /// Ends the measurement after at least 20 ms, and returns the nanoseconds per tick.
    pub fn ns_per_tick(&self) -> f64 {
        pause(Duration::from_millis(20).saturating_sub(self.wall.elapsed()));
        self.wall.elapsed().as_nanos() as f64 / (ordered() - self.ticks) as f64
    }
}

/// Waits without giving the processor away, so that the caches stay as warm for the caller as in a program at work.
pub fn pause(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}
