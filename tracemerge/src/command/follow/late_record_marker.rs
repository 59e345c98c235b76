//! The stage of a followed view that puts a `# late` line before late records: before records that are shown although
//! records with larger ticks were shown already. It comes after the stage *select*.
//!
//! The view shows only a part of the lines. So a line that was late among all lines may not be late among the shown
//! lines, and a late line may not be shown at all. Therefore this stage determines anew which records are late.

use std::io;

use trace_format::line::Line;

use crate::command::follow::order::write_late;
use crate::file::lines::{lines_of, strip_line_feed};
use crate::file::record_text::RecordText;
use crate::view::lines_to_records::RecordSink;

/// The stage that marks late records. It collects successive late records of one thread to mark them together, and
/// holds them back until the end of the round at most.
#[derive(Debug)]
pub(super) struct LateRecordMarker<T> {
    next: T,
    /// The largest ticks of the records that were passed on so far.
    shown: u64,
    held: Vec<Vec<u8>>,
    of: usize,
    /// The number of late lines that were passed on.
    pub lines: u64,
}

impl<T: RecordSink> LateRecordMarker<T> {
    /// Returns a stage that passes records on to `next`.
    pub(super) fn new(next: T) -> LateRecordMarker<T> {
        LateRecordMarker { next, shown: 0, held: Vec::new(), of: 0, lines: 0 }
    }

    /// Returns the stage to which records are passed on.
    pub(super) fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    /// Passes on the late records that are held back, after their `# late` line.
    ///
    /// # Errors
    /// If the next stage accepts no more.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.held).into_iter().peekable();
        let first = held.peek().and_then(|lines| Line::parse(strip_line_feed(lines_of(lines).next()?)).ok());
        let Some(key) = first.map(|line| line.key) else { return Ok(()) };
        let held: Vec<_> = held.collect();
        let lines: usize = held.iter().map(|lines| lines_of(lines).count()).sum();
        self.lines += lines as u64;
        let mut mark = Vec::new();
        write_late(&mut mark, lines as u64, key, self.shown);
        self.next.record(&RecordText::new(self.of, &mark))?;
        held.iter().try_for_each(|lines| self.next.record(&RecordText::new(self.of, lines)))
    }
}

impl<T: RecordSink> RecordSink for LateRecordMarker<T> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        let is_late = record.ticks.0 < self.shown;
        if !is_late || record.origin != self.of {
            self.flush()?;
        }
        if is_late {
            self.of = record.origin;
            self.held.push(record.lines.to_vec());
            return Ok(());
        }
        self.shown = record.ticks.0;
        self.next.record(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Passed(Vec<(usize, String)>);

    impl RecordSink for Passed {
        fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
            self.0.push((record.origin, String::from_utf8(record.lines.to_vec()).unwrap()));
            Ok(())
        }
    }

    fn record(ticks: u64, lines: usize) -> String {
        (0..lines)
            .map(|n| format!("{ticks:016x}-00000009 {} {n}\n", if n == 0 { ':' } else { '|' }))
            .collect()
    }

    #[test]
    fn late_records_of_one_thread_follow_one_mark() {
        let mut late = LateRecordMarker::new(Passed::default());
        for (origin, ticks, lines) in [(0, 5, 1), (1, 3, 2), (1, 4, 1), (0, 2, 1), (0, 6, 1), (0, 5, 1)] {
            late.record(&RecordText::new(origin, record(ticks, lines).as_bytes())).unwrap();
        }
        late.flush().unwrap();
        let mark = |ticks: u64, payload: &str| format!("{ticks:016x}-00000009 # late {payload}\n");
        let expected = [
            (0, record(5, 1)),
            (1, mark(3, "lines=3 ticks=2")),
            (1, record(3, 2)),
            (1, record(4, 1)),
            (0, mark(2, "lines=1 ticks=3")),
            (0, record(2, 1)),
            (0, record(6, 1)),
            (0, mark(5, "lines=1 ticks=1")),
            (0, record(5, 1)),
        ];
        assert_eq!(late.lines, 5);
        assert_eq!(late.next.0, expected);
    }

    proptest! {
        #[test]
        fn all_records_are_passed_on_and_ticks_go_back_only_after_a_mark(
            records in prop::collection::vec((0..3usize, 0..20u64, 1..3usize, any::<bool>()), 0..40)
        ) {
            let mut late = LateRecordMarker::new(Passed::default());
            let mut given = Vec::new();
            for (origin, ticks, lines, flush) in records {
                late.record(&RecordText::new(origin, record(ticks, lines).as_bytes())).unwrap();
                given.push((origin, record(ticks, lines)));
                if flush {
                    late.flush().unwrap();
                }
            }
            late.flush().unwrap();
            let (mut shown, mut excused, mut passed) = (0, 0usize, Vec::new());
            for (origin, text) in late.next.0 {
                if let Some((_, rest)) = text.split_once(" # late lines=") {
                    prop_assert_eq!(excused, 0);
                    excused = rest.split(' ').next().unwrap().parse().unwrap();
                    continue;
                }
                let ticks = u64::from_str_radix(&text[..16], 16).unwrap();
                prop_assert_eq!(excused > 0, ticks < shown);
                excused = excused.saturating_sub(text.lines().count());
                shown = shown.max(ticks);
                passed.push((origin, text));
            }
            prop_assert_eq!(passed, given);
        }
    }
}
