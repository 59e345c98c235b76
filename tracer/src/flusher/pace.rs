//! The time of the flusher's next look at a ring: before the ring's thread has to wake the flusher. Waking a thread
//! that sleeps takes several microseconds of the thread that wakes it.

use std::time::{Duration, Instant};

/// The flusher plans its next look at a ring for the time at which 1/`PARTS` of the ring is full. A thread wakes the
/// flusher when half of its ring is full, so the flusher may come late by the time in which another quarter fills.
const PARTS: u64 = 4;
/// The longest time until the next look at a ring that has filled faster than expected: the flusher has to measure the
/// ring's new speed.
const LEARNING_TIME: Duration = Duration::from_millis(1);
/// The shortest time between two measurements, and between two looks of the flusher at a ring.
const SHORTEST: Duration = Duration::from_micros(100);

/// The speed at which a ring fills.
#[derive(Debug)]
pub(super) struct Pace {
    /// The time of the last measurement, and the position of the ring's thread then.
    last: Option<(Instant, u64)>,
    /// The times in which 1/[`PARTS`] of the ring fills, as measured at the last look and at the look before it.
    times: [Duration; 2],
    /// The longest time from the last measurement to the next look.
    longest: Duration,
}

/// The time that a part of a ring takes to fill if its thread makes no records.
const NEVER: Duration = Duration::MAX;

impl Pace {
    /// Returns the pace of a ring whose thread has made no records.
    pub(super) const fn new() -> Pace {
        Pace { last: None, times: [NEVER; 2], longest: NEVER }
    }

    /// Measures how fast a ring of `capacity` bytes fills. At the time `now`, the ring's thread is at the position
    /// `head`, and `waiting` bytes before `head` wait for the flusher.
    pub(super) fn look(&mut self, now: Instant, head: u64, waiting: u64, capacity: u64) {
        let (at, from) = *self.last.get_or_insert((now, head));
        let elapsed = now.saturating_duration_since(at);
        if elapsed < SHORTEST {
            return;
        }
        let part = capacity / PARTS;
        let parts_in = |bytes: u64| {
            let ns = elapsed.as_nanos() * u128::from(part) / u128::from(bytes);
            u64::try_from(ns).map_or(NEVER, Duration::from_nanos)
        };
        let bytes = head.saturating_sub(from);
        self.times = [if bytes == 0 { NEVER } else { parts_in(bytes) }, self.times[0]];
        // The thread began to make records in the middle of the time, or makes more of them now.
        let is_unexpected = waiting > part + part / 2;
        self.longest = if is_unexpected { LEARNING_TIME } else { NEVER };
        self.last = Some((now, head));
    }

    /// Returns the time at which the ring has to be looked at next; `None` if its thread makes no records.
    pub(super) fn next_look(&self) -> Option<Instant> {
        // Threads make records in bursts: the shorter of the two times is the better forecast.
        let time = self.times[0].min(self.times[1]).min(self.longest).max(SHORTEST);
        self.last?.0.checked_add(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 1 << 20;

    /// A simulated ring. The flusher looks at it at the times of its pace, and when its thread wakes the flusher
    /// because the ring is half full.
    struct Ring {
        pace: Pace,
        now: Instant,
        head: u64,
        consumed: u64,
        /// The number of times that the thread has woken the flusher; `looks` is the number of all looks.
        wakes: u32,
        looks: u32,
    }

    impl Ring {
        fn idle() -> Ring {
            let mut ring =
                Ring { pace: Pace::new(), now: Instant::now(), head: 0, consumed: 0, wakes: 0, looks: 0 };
            ring.pass(Duration::from_secs(1), 0, Duration::MAX);
            (ring.wakes, ring.looks) = (0, 0);
            ring
        }

        /// Lets `time` pass, in which the thread writes `bytes` bytes at the end of each `gap`. The flusher sleeps for
        /// 100 ms at most, from the last look.
        fn pass(&mut self, time: Duration, bytes: u64, gap: Duration) {
            let end = self.now + time;
            let mut asleep_until = self.now;
            let mut burst = self.now.checked_add(gap);
            while self.now < end {
                let next = burst.unwrap_or(end).min(asleep_until).min(end);
                self.now = next;
                let mut looks = next == asleep_until;
                if burst == Some(next) {
                    self.head += bytes;
                    burst = next.checked_add(gap);
                    let is_half_full = self.head - self.consumed >= CAPACITY / 2;
                    self.wakes += u32::from(is_half_full && !looks);
                    looks |= is_half_full;
                }
                if looks {
                    self.looks += 1;
                    self.pace.look(next, self.head, self.head - self.consumed, CAPACITY);
                    self.consumed = self.head;
                    let longest = next + Duration::from_millis(100);
                    asleep_until = self.pace.next_look().map_or(longest, |at| at.min(longest));
                }
            }
        }
    }

    #[test]
    fn a_thread_that_begins_wakes_the_flusher_at_most_once_whatever_its_pace() {
        for gap_us in [1, 5, 20, 50, 200, 1500, 20_000] {
            for bytes in [40, 700, 60_000] {
                let gap = Duration::from_micros(gap_us);
                let mut ring = Ring::idle();
                // A quarter of the ring in less than a tenth of a millisecond keeps the flusher awake.
                if bytes * 1_000 / gap_us > CAPACITY * 2 {
                    continue;
                }
                // It begins 90 ms after a look.
                ring.pass(Duration::from_millis(90), 0, Duration::MAX);
                ring.pass(Duration::from_secs(2), bytes, gap);
                assert!(ring.wakes <= 1, "{bytes} bytes every {gap_us} us: {} wakes", ring.wakes);
                let filled = Duration::from_secs(2).as_micros() as u64 / gap_us * bytes / (CAPACITY / 4);
                assert!(u64::from(ring.looks) <= 2 * filled + 30, "{bytes}, {gap_us}: {} looks", ring.looks);
            }
        }
    }

    #[test]
    fn the_flusher_sleeps_as_long_as_it_may_once_the_thread_has_stopped() {
        let mut ring = Ring::idle();
        ring.pass(Duration::from_millis(500), 700, Duration::from_micros(5));
        (ring.wakes, ring.looks) = (0, 0);
        ring.pass(Duration::from_secs(10), 0, Duration::MAX);
        assert!(ring.looks <= 103 && ring.wakes == 0, "{} looks in 10 s", ring.looks);
    }

    #[test]
    fn looks_that_follow_each_other_at_once_are_one() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        pace.look(start, 0, 0, CAPACITY);
        let at = start + Duration::from_millis(10);
        pace.look(at, CAPACITY / 8, CAPACITY / 8, CAPACITY);
        pace.look(at + Duration::from_micros(1), CAPACITY / 8, 0, CAPACITY);
        pace.look(at + Duration::from_micros(2), CAPACITY / 8, 0, CAPACITY);
        // An eighth took 10 ms, so a quarter takes 20.
        assert_eq!(pace.next_look(), Some(at + Duration::from_millis(20)));
    }
}
