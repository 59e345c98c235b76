//! The loaded lines around the shown position: those of consecutive periods without gaps.

use std::collections::VecDeque;

use super::traces::{Part, Place, Row};

/// The maximum number of bytes of memory for loaded lines.
const MOST: usize = 48 << 20;

/// The number of a loaded line. It stays the same while other parts of the traces are loaded and unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowId {
    part: i64,
    row: usize,
}

/// The loaded parts of the traces, which follow each other without gaps.
#[derive(Debug)]
pub(super) struct Window {
    /// The number of the first loaded part; negative if parts were added before the one that was loaded first.
    first: i64,
    parts: VecDeque<Part>,
    /// The position at which the loaded lines begin, and the position after the last one.
    pub(super) ends: (Place, Place),
}

impl Window {
    /// Makes a window at a position in the traces, with nothing loaded.
    pub(super) fn at(place: Place) -> Window {
        Window { first: 0, parts: VecDeque::new(), ends: (place, place) }
    }

    /// Adds a part of the traces after the last loaded part, and drops parts at the beginning if all parts take too
    /// much memory. A part without lines is not stored: it only moves the end of the window.
    pub(super) fn push_back(&mut self, part: Part) {
        self.ends.1 = Place { boot: part.boot, ticks: part.period.end };
        if part.rows.is_empty() {
            return;
        }
        self.parts.push_back(part);
        while self.bytes() > MOST && self.parts.len() > 2 {
            self.parts.pop_front();
            self.first += 1;
            let Some(first) = self.parts.front() else { return };
            self.ends.0 = Place { boot: first.boot, ticks: first.period.start };
        }
    }

    /// Adds a part of the traces before the first loaded part, and drops parts at the end if all parts take too much
    /// memory. A part without lines is not stored: it only moves the beginning of the window.
    pub(super) fn push_front(&mut self, part: Part) {
        self.ends.0 = Place { boot: part.boot, ticks: part.period.start };
        if part.rows.is_empty() {
            return;
        }
        self.parts.push_front(part);
        self.first -= 1;
        while self.bytes() > MOST && self.parts.len() > 2 {
            self.parts.pop_back();
            let Some(last) = self.parts.back() else { return };
            self.ends.1 = Place { boot: last.boot, ticks: last.period.end };
        }
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }

    fn part(&self, number: i64) -> Option<&Part> {
        self.parts.get(usize::try_from(number - self.first).ok()?)
    }

    /// Returns a loaded line, and the part that contains it.
    pub(super) fn get(&self, id: RowId) -> Option<(&Part, Row)> {
        let part = self.part(id.part)?;
        Some((part, *part.rows.get(id.row)?))
    }

    /// Returns the text of a line, in which style marks stand for the styles.
    pub(super) fn text(&self, id: RowId) -> &[u8] {
        self.get(id).map_or(&[], |(part, row)| part.text(row))
    }

    /// Returns the position of a line in the traces.
    pub(super) fn place(&self, id: RowId) -> Option<Place> {
        self.get(id).map(|(part, row)| Place { boot: part.boot, ticks: row.ticks })
    }

    /// Returns the first loaded line.
    pub(super) fn first(&self) -> Option<RowId> {
        (!self.parts.is_empty()).then_some(RowId { part: self.first, row: 0 })
    }

    /// Returns the last loaded line.
    pub(super) fn last(&self) -> Option<RowId> {
        let part = self.parts.back()?;
        Some(RowId { part: self.first + self.parts.len() as i64 - 1, row: part.rows.len() - 1 })
    }

    /// Returns the loaded line after this one; `None` if there is none.
    pub(super) fn next(&self, id: RowId) -> Option<RowId> {
        let next = RowId { row: id.row + 1, ..id };
        if self.get(next).is_some() {
            return Some(next);
        }
        let next = RowId { part: id.part + 1, row: 0 };
        self.get(next).map(|_| next)
    }

    /// Returns the loaded line before this one; `None` if there is none.
    pub(super) fn prev(&self, id: RowId) -> Option<RowId> {
        if id.row > 0 {
            return Some(RowId { row: id.row - 1, ..id });
        }
        let part = id.part - 1;
        self.part(part).map(|of| RowId { part, row: of.rows.len() - 1 })
    }

    /// Returns the number of loaded lines before a line, and the number of all loaded lines.
    pub(super) fn count(&self, id: RowId) -> (usize, usize) {
        let (mut before, mut all) = (id.row, 0);
        for (number, part) in self.parts.iter().enumerate() {
            if self.first + (number as i64) < id.part {
                before += part.rows.len();
            }
            all += part.rows.len();
        }
        (before, all)
    }

    /// Returns the first loaded line at or after a position in the traces.
    pub(super) fn from(&self, place: Place) -> Option<RowId> {
        for (number, part) in self.parts.iter().enumerate() {
            let row = part.rows.partition_point(|row| Place { boot: part.boot, ticks: row.ticks } < place);
            if row < part.rows.len() {
                return Some(RowId { part: self.first + number as i64, row });
            }
        }
        None
    }

    /// Returns the loaded lines from the line `from` on, at most `count`.
    pub(super) fn rows(&self, from: Option<RowId>, count: usize) -> Vec<RowId> {
        std::iter::successors(from, |id| self.next(*id)).take(count).collect()
    }
}
