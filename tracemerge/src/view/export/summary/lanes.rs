//! The lanes of a summary. A lane is a row of `PARTS` characters that shows what a thread did in each part of the
//! trace's time.

/// The number of parts of equal length into which a lane divides the time of the trace. Each part is one character.
pub(super) const PARTS: usize = 56;
/// The maximum number of threads that have a lane. The records and activities of other threads are only added up.
const MAX_LANES: usize = 1000;

/// The activity of a thread at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// The thread was in calls.
    Work = 0,
    /// The thread waited for a lock or a notification.
    Wait = 1,
    /// The thread waited for the tracer.
    Tracer = 2,
    /// Another thread had the processor.
    Preempted = 3,
}

/// The number of kinds of activity.
const KINDS: usize = 4;

/// The lane of a thread: for each part of the trace's time, the nanoseconds that the thread spent on each kind of
/// activity, and the number of its records.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    parts: Vec<[u64; KINDS]>,
    records: Vec<u64>,
}

/// The lanes of all threads.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The steady times of the first and of the last line of the trace, in nanoseconds.
    period: (u64, u64),
    lanes: Vec<Lane>,
    /// For each thread, the nanoseconds that it spent on each kind of activity in the whole trace.
    pub sums: Vec<[u64; KINDS]>,
    /// The number of records of each thread.
    pub records: Vec<u64>,
}

impl Lanes {
    /// Makes empty lanes for the period from `period.0` to `period.1`, in nanoseconds of steady time.
    pub(super) fn new(period: (u64, u64)) -> Lanes {
        Lanes { period, lanes: Vec::new(), sums: Vec::new(), records: Vec::new() }
    }

    /// Returns the period that the lanes show.
    pub(super) fn period(&self) -> (u64, u64) {
        self.period
    }

    /// Returns the length of the period, in nanoseconds.
    pub(super) fn span(&self) -> u64 {
        self.period.1.saturating_sub(self.period.0)
    }

    fn know(&mut self, thread: usize) {
        while self.records.len() <= thread {
            self.records.push(0);
            self.sums.push([0; KINDS]);
            if self.lanes.len() < MAX_LANES {
                self.lanes.push(Lane { parts: vec![[0; KINDS]; PARTS], records: vec![0; PARTS] });
            }
        }
    }

    /// Returns the index of the part of a lane in which a time lies, and the length of each part in nanoseconds.
    fn part(&self, time: u64) -> (usize, u64) {
        let length = (self.span() / PARTS as u64).max(1);
        let part = time.saturating_sub(self.period.0) / length;
        (usize::try_from(part).unwrap_or(PARTS).min(PARTS - 1), length)
    }

    /// Counts a record that a thread made at `time`: for the thread as a whole, and for the part of its lane in which
    /// `time` lies.
    pub(super) fn record(&mut self, thread: usize, time: u64) {
        self.know(thread);
        self.records[thread] += 1;
        let (part, _) = self.part(time);
        if let Some(lane) = self.lanes.get_mut(thread) {
            lane.records[part] += 1;
        }
    }

    /// Adds a period from `from` to `to`, in which a thread had the activity `did`, to the thread's sums and to its
    /// lane.
    pub(super) fn fill(&mut self, thread: usize, from: u64, to: u64, did: Did) {
        self.know(thread);
        let kind = did as usize;
        self.sums[thread][kind] = self.sums[thread][kind].saturating_add(to.saturating_sub(from));
        let ((first, length), (last, _)) = (self.part(from), self.part(to));
        let begin = self.period.0;
        let Some(lane) = self.lanes.get_mut(thread) else { return };
        for part in first..=last {
            let start = begin.saturating_add(part as u64 * length);
            let end = if part == PARTS - 1 { u64::MAX } else { start.saturating_add(length) };
            let time = to.min(end).saturating_sub(from.max(start));
            lane.parts[part][kind] = lane.parts[part][kind].saturating_add(time);
        }
    }

    /// Returns the lane of a thread as text. Each character stands for the thread's main activity in one part of the
    /// time: `#` in calls, `+` in calls for less than half of the part, `-` waiting, `t` waiting for the tracer, `p`
    /// preempted, `.` no calls but records, a space for neither.
    pub(super) fn text(&self, thread: usize) -> String {
        let Some(lane) = self.lanes.get(thread) else { return String::new() };
        let length = (self.span() / PARTS as u64).max(1);
        let cell = |(part, records): (&[u64; KINDS], &u64)| {
            let [work, wait, tracer, preempted] = *part;
            // The time in calls contains the waits.
            let work = work.saturating_sub(wait.saturating_add(tracer).saturating_add(preempted));
            match () {
                // A thread that waits for the tracer is off the processor, too.
                () if tracer > work && tracer >= wait => 't',
                () if preempted > work && preempted > wait => 'p',
                () if wait > work => '-',
                () if work > length / 2 => '#',
                () if work > 0 => '+',
                () if *records > 0 => '.',
                () => ' ',
            }
        };
        lane.parts.iter().zip(&lane.records).map(cell).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_shows_what_took_most_of_each_part() {
        let part = 1_000;
        let mut lanes = Lanes::new((7_000, 7_000 + PARTS as u64 * part));
        let at = |parts: u64| 7_000 + parts * part;
        lanes.fill(0, at(1), at(10), Did::Work);
        lanes.fill(0, at(2) + 100, at(4), Did::Wait);
        lanes.fill(0, at(5), at(6), Did::Tracer);
        lanes.fill(0, at(12), at(12) + 200, Did::Work);
        lanes.fill(0, at(11), at(11) + 500, Did::Preempted);
        lanes.record(0, at(14) + 5);
        lanes.record(0, u64::MAX);
        let expected = format!(" #--#t#### p+ . {}.", " ".repeat(PARTS - 17));
        assert_eq!(lanes.text(0), expected);
        assert_eq!((lanes.sums[0], lanes.records[0]), ([9_200, 1_900, 1_000, 500], 2));
        lanes.record(2, at(0));
        assert_eq!(lanes.text(1).trim(), "");
    }

    #[test]
    fn any_times_fit_a_lane() {
        for period in [(0, 0), (5, 5), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let mut lanes = Lanes::new(period);
            for (from, to) in [(0, u64::MAX), (u64::MAX, 0), (3, 7), (u64::MAX - 1, u64::MAX)] {
                lanes.fill(0, from, to, Did::Work);
                lanes.record(0, from);
            }
            assert_eq!(lanes.text(0).chars().count(), PARTS);
        }
    }
}
