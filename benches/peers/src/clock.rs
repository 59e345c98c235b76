//! The clocks that calls are measured with, which are floors themselves.

use std::time::{Duration, Instant};

/// The processor's counter, read after everything before it in the program.
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

/// The processor's counter, read when the processor likes.
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

/// Finds out how long a tick is, over the time in which it is alive.
pub struct Calibration {
    wall: Instant,
    ticks: u64,
}

impl Calibration {
    /// Begins.
    pub fn begin() -> Calibration {
        Calibration { wall: Instant::now(), ticks: ordered() }
    }

    /// Ends, after at least 20 ms; returns nanoseconds per tick.
    pub fn ns_per_tick(&self) -> f64 {
        pause(Duration::from_millis(20).saturating_sub(self.wall.elapsed()));
        self.wall.elapsed().as_nanos() as f64 / (ordered() - self.ticks) as f64
    }
}

/// Waits without giving the processor away: the caller stays as warm as a program at work.
pub fn pause(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}
