//! The order in which lines are passed on, and the mark for lines that come too late for this order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;

use trace_format::line::{Key, Kind, Line, Ticks};

use crate::command::follow::outlet::Outlet;
use crate::command::follow::stream::{Stream, ThreadKey};

/// The stage that passes lines on to an outlet in the order of their ticks, and counts them.
pub(super) struct Order<O> {
    out: O,
    round: u64,
    /// The largest ticks of the lines that were passed on.
    shown: u64,
    lines: u64,
    late: u64,
}

impl<O: Outlet> Order<O> {
    /// Returns a stage that passes lines on to the outlet `out`.
    pub(super) fn new(out: O) -> Order<O> {
        Order { out, round: 0, shown: 0, lines: 0, late: 0 }
    }

    /// Returns the outlet that lines are passed on to.
    pub(super) fn outlet(&mut self) -> &mut O {
        &mut self.out
    }

    /// Returns the number of the current round of reading.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// Begins another round.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Returns the number of lines that were passed on so far.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of lines that were passed on too late for their order.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    /// Passes on the lines that come before two kinds of lines: the lines that are only in rings, and the lines that
    /// are not read yet.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    pub(super) fn pass_settled(&mut self, streams: &mut HashMap<ThreadKey, Stream>) -> io::Result<()> {
        let bounds = |stream: &Stream| stream.known_until().into_iter().chain(stream.first_ahead()).min();
        let bound = streams.values().filter_map(bounds).min().unwrap_or(0);
        self.pass(streams, bound)
    }

    /// Passes on the lines that come before all lines that are not read yet.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    pub(super) fn pass_known(&mut self, streams: &mut HashMap<ThreadKey, Stream>) -> io::Result<()> {
        let bound = streams.values().filter_map(Stream::known_until).min().unwrap_or(0);
        self.pass(streams, bound)
    }

    /// Passes on the lines that were found in earlier rounds, all lines that come before them, and late lines.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    pub(super) fn pass_due(&mut self, streams: &mut HashMap<ThreadKey, Stream>) -> io::Result<()> {
        let due = streams.values().filter_map(|stream| stream.due(self.round)).max().unwrap_or(0);
        self.pass(streams, due.max(self.shown))
    }

    /// Passes on all queued lines.
    ///
    /// # Errors
    /// If the outlet accepts no more.
    pub(super) fn pass_all(&mut self, streams: &mut HashMap<ThreadKey, Stream>) -> io::Result<()> {
        self.pass(streams, u64::MAX)
    }

    /// Passes on all queued lines whose ticks are at most `bound`.
    fn pass(&mut self, streams: &mut HashMap<ThreadKey, Stream>, bound: u64) -> io::Result<()> {
        let ready = |(key, stream): (&ThreadKey, &Stream)| Some(Reverse((stream.front()?, key.clone())));
        let mut heap: BinaryHeap<_> = streams.iter().filter_map(ready).collect();
        while let Some(Reverse((ticks, key))) = heap.pop() {
            if ticks > bound {
                return Ok(());
            }
            let next = heap.peek().map(|Reverse(next)| next.clone());
            let Some(stream) = streams.get_mut(&key) else { continue };
            let may_go = |ticks: u64| {
                ticks <= bound && next.as_ref().is_none_or(|(other, rank)| (ticks, &key) < (*other, rank))
            };
            self.pass_lines(stream, &key, may_go)?;
            heap.extend(stream.front().map(|ticks| Reverse((ticks, key))));
        }
        Ok(())
    }

    /// Passes on the next lines of one thread, as long as `may_go` accepts their ticks. In one call, either all lines
    /// are late or no line is.
    fn pass_lines(
        &mut self,
        stream: &mut Stream,
        key: &ThreadKey,
        may_go: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        let Some(first) = stream.front() else { return Ok(()) };
        let (is_late, mut lines, mut text) = (first < self.shown, 0, Vec::new());
        // A record that was made inside another one may have been seen before it, so a thread's own lines may be
        // late.
        while let Some(ticks) = stream.front().filter(|ticks| may_go(*ticks)) {
            if (ticks < self.shown) != is_late {
                break;
            }
            lines += 1;
            stream.pop(|line| text.extend_from_slice(line));
            self.shown = self.shown.max(ticks);
        }
        self.lines += lines;
        let mut mark = Vec::new();
        if is_late {
            self.late += lines;
            write_late(&mut mark, lines, Key { ticks: Ticks(first), tid: key.tid() }, self.shown);
        }
        self.out.lines(key, &mark, &text)
    }
}

/// Writes a `# late` line, which precedes late lines. `lines` is the number of late lines, the first of which begins
/// with `key`; `shown` are the largest ticks of the lines shown so far.
pub(super) fn write_late(out: &mut Vec<u8>, lines: u64, key: Key, shown: u64) {
    let payload = format!("late lines={lines} ticks={}", shown - key.ticks.0);
    Line { key, kind: Kind::Meta, payload: payload.as_bytes() }.write(out);
}
