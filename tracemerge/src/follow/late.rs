//! Behind *select*: a `# late` line before what is shown too late for its place.
//!
//! What was late among all lines need not be so among those that are shown, and of its lines some may not be shown at
//! all; so it is looked for here once more.

use std::io;

use trace_format::line::Line;

use crate::lines::without_feed;
use crate::records::{Record, Take, lines_of};

use super::order::write_late;

/// The stage. What it holds back are late records of one thread, at most until the end of a round.
#[derive(Debug)]
pub struct Late<T> {
    next: T,
    /// The largest ticks that were passed on.
    shown: u64,
    held: Vec<Vec<u8>>,
    of: usize,
    /// How many lines were late.
    pub lines: u64,
}

impl<T: Take> Late<T> {
    /// Records for `next`.
    pub fn new(next: T) -> Late<T> {
        Late { next, shown: 0, held: Vec::new(), of: 0, lines: 0 }
    }

    /// The next stage.
    pub fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    /// Passes on what is held back.
    ///
    /// # Errors
    /// Where the next stage takes no more.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut held = std::mem::take(&mut self.held).into_iter().peekable();
        let first = held.peek().and_then(|lines| Line::parse(without_feed(lines_of(lines).next()?)).ok());
        let Some(key) = first.map(|line| line.key) else { return Ok(()) };
        let held: Vec<_> = held.collect();
        let lines: usize = held.iter().map(|lines| lines_of(lines).count()).sum();
        self.lines += lines as u64;
        let mut mark = Vec::new();
        write_late(&mut mark, lines as u64, key, self.shown);
        self.next.record(&Record::new(self.of, &mark))?;
        held.iter().try_for_each(|lines| self.next.record(&Record::new(self.of, lines)))
    }
}

impl<T: Take> Take for Late<T> {
    fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
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
