//! The overview of a page: for each thread and period, how busy the thread was. The browser shows it while it still
//! reads the records.

use super::columns::put_compressed;
use crate::view::export::json::{put_number, put_string};

/// The number of periods of equal length into which the overview divides the trace.
const PERIODS: usize = 600;
/// The maximum number of threads in the overview, because more do not fit on a screen.
const MAX_LANES: usize = 64;
/// The maximum number of rows, one for each depth of calls, that a thread has in the overview.
const MAX_ROWS: usize = 128;
/// The digits that stand for shares of a maximum: `0` for nothing, `f` for the whole.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// For each thread and each period of the trace, the time in which the thread was in calls, and the number of its
/// messages.
#[derive(Debug)]
pub(super) struct Overview {
    /// The time at which the first period begins, in nanoseconds since the first line.
    begin: i64,
    /// The length of a period, in nanoseconds.
    period: u64,
    /// Whether all periods become longer when a time after the last period is added.
    grows: bool,
    lanes: Vec<LaneOverview>,
}

#[derive(Clone, Debug)]
struct LaneOverview {
    rows: usize,
    /// The time at which the thread's outermost open call began, in nanoseconds since the beginning of the overview;
    /// `None` if no call is open.
    since: Option<u64>,
    busy: Vec<u64>,
    messages: Vec<u64>,
}

impl Overview {
    /// Creates an empty overview of a trace that lasts for `last` nanoseconds.
    pub(super) fn new(last: u64) -> Overview {
        Overview { begin: 0, period: last / PERIODS as u64 + 1, grows: false, lanes: Vec::new() }
    }

    /// Creates an empty overview of a page that begins at `begin`, and whose end is not known.
    pub(super) fn beginning_at(begin: i64) -> Overview {
        Overview { begin, period: 1, grows: true, lanes: Vec::new() }
    }

    /// Converts a time to nanoseconds since the beginning of the overview. If the time is after the last period and the
    /// periods may become longer, doubles their length until the time is in one of them.
    fn place(&mut self, time: i64) -> u64 {
        let place = time.saturating_sub(self.begin).max(0) as u64;
        while self.grows && place / self.period >= PERIODS as u64 {
            self.period *= 2;
            for amounts in self.lanes.iter_mut().flat_map(|lane| [&mut lane.busy, &mut lane.messages]) {
                let halved: Vec<u64> = amounts.chunks(2).map(|two| two.iter().sum()).collect();
                amounts.fill(0);
                amounts[..halved.len()].copy_from_slice(&halved);
            }
        }
        place
    }

    fn lane(&mut self, lane: usize) -> Option<&mut LaneOverview> {
        if lane >= MAX_LANES {
            return None;
        }
        if self.lanes.len() <= lane {
            let zeros = || vec![0; PERIODS];
            let empty = LaneOverview { rows: 0, since: None, busy: zeros(), messages: zeros() };
            self.lanes.resize(lane + 1, empty);
        }
        self.lanes.get_mut(lane)
    }

    /// Adds a message of a thread.
    pub(super) fn message(&mut self, lane: usize, time: i64) {
        let period = self.place(time) / self.period;
        if let Some(lane) = self.lane(lane) {
            lane.messages[(period as usize).min(PERIODS - 1)] += 1;
        }
    }

    /// Sets the number of open calls of a thread to `count`, after a call has begun or ended at `time`. If `count` is
    /// 0, adds the time for which the thread was in calls to the periods.
    pub(super) fn open_calls(&mut self, lane: usize, time: i64, count: usize) {
        let (time, length) = (self.place(time), self.period);
        let Some(lane) = self.lane(lane) else { return };
        lane.rows = lane.rows.max(count.min(MAX_ROWS));
        if count > 0 {
            lane.since.get_or_insert(time);
            return;
        }
        let Some(since) = lane.since.take() else { return };
        for (period, busy) in lane.busy.iter_mut().enumerate().skip((since / length) as usize) {
            let begin = period as u64 * length;
            if begin >= time {
                break;
            }
            *busy += time.min(begin + length).saturating_sub(since.max(begin));
        }
    }

    /// Appends the overview to the page, with the names of the threads; `end` is the time at which the page ends.
    pub(super) fn write<'a>(&self, end: i64, names: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
        let used = if self.grows {
            end.saturating_sub(self.begin).max(0) as u64 / self.period + 1
        } else {
            u64::MAX
        };
        let used = usize::try_from(used).unwrap_or(PERIODS).min(PERIODS);
        let most = self.lanes.iter().flat_map(|lane| &lane.messages).max().copied().unwrap_or(0);
        let mut facts = format!("{{\"first\":{},\"last\":{end}", self.begin).into_bytes();
        facts.extend_from_slice(b",\"lanes\":[");
        for (number, (lane, name)) in self.lanes.iter().zip(names).enumerate() {
            facts.extend_from_slice(if number == 0 { b"[" } else { b",[" });
            put_string(name, &mut facts);
            facts.push(b',');
            put_number(lane.rows as u64, &mut facts);
            for (amounts, all) in [(&lane.busy, self.period), (&lane.messages, most)] {
                facts.extend_from_slice(b",\"");
                facts.extend(amounts[..used].iter().map(|amount| digit(*amount, all)));
                facts.push(b'"');
            }
            facts.push(b']');
        }
        facts.extend_from_slice(b"]}");
        out.extend_from_slice(b"<script>overview(\"");
        put_compressed(&facts, out);
        out.extend_from_slice(b"\")</script>\n");
    }
}

/// Returns the digit for the share that `amount` has in `all`. The digit is 0 only if `amount` is 0.
fn digit(amount: u64, all: u64) -> u8 {
    let share = u128::from(amount) * 15 / u128::from(all.max(1));
    DIGITS[(share as usize).max(usize::from(amount > 0)).min(15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_busy_time_of_each_period_that_it_touches() {
        let mut overview = Overview::new(100 * PERIODS as u64 - 1);
        overview.open_calls(1, 150, 1);
        overview.open_calls(1, 160, 2);
        overview.open_calls(1, 170, 1);
        overview.open_calls(1, 310, 0);
        overview.message(1, 299);
        let lane = &overview.lanes[1];
        assert_eq!((overview.period, lane.rows), (100, 2));
        assert_eq!(lane.busy[..5], [0, 50, 100, 10, 0]);
        assert_eq!(lane.messages[..4], [0, 0, 1, 0]);
    }

    #[test]
    fn periods_become_longer_until_the_page_ends() {
        let (mut grown, mut fixed) = (Overview::beginning_at(1000), Overview::new(64 * PERIODS as u64 - 1));
        for (overview, begin) in [(&mut grown, 1000), (&mut fixed, 0)] {
            overview.message(0, begin + 3);
            overview.open_calls(0, begin + 30, 1);
            overview.open_calls(0, begin + 20_000, 0);
            overview.open_calls(0, begin + 20_030, 1);
            overview.open_calls(0, begin + 33_000, 0);
            overview.message(0, begin + 38_000);
        }
        assert_eq!((grown.period, fixed.period), (64, 64));
        assert_eq!(grown.lanes[0].busy, fixed.lanes[0].busy);
        assert_eq!(grown.lanes[0].messages, fixed.lanes[0].messages);
    }

    #[test]
    fn times_outside_of_the_trace_and_many_threads_do_no_harm() {
        let mut overview = Overview::new(0);
        overview.open_calls(0, -5, 1);
        overview.open_calls(0, 1 << 40, 0);
        overview.message(0, i64::MAX);
        overview.message(MAX_LANES, 0);
        assert_eq!(overview.lanes.len(), 1);
        assert_eq!(overview.lanes[0].messages[PERIODS - 1], 1);
    }

    #[test]
    fn only_nothing_has_the_digit_of_nothing() {
        assert_eq!([digit(0, 100), digit(1, 100), digit(50, 100), digit(100, 100)], *b"017f");
    }
}
