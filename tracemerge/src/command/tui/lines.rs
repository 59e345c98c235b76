//! The lines on the screen and the selected line. Further lines of the traces are loaded in small steps, so that keys
//! are answered between the steps: each call of [`Lines::step`] does one step.

use regex::bytes::Regex;

use super::traces::{Place, Traces};
use super::window::{RowId, Window};
use crate::ui::error::Error;
use crate::ui::escaping::without_marks;

/// The number of lines that are shown above a line that a search has found.
const CONTEXT: i64 = 5;

/// A search for the next line that matches a pattern. It goes beyond the loaded parts of the traces.
#[derive(Debug)]
struct Search {
    pattern: Regex,
    forward: bool,
    /// The loaded line at which the search continues; `None` if all loaded lines in its direction were searched.
    from: Option<RowId>,
    /// The position in the traces at which the next part to search begins or, if the search goes backward, ends.
    place: Place,
}

/// The loaded lines: which of them are on the screen, and which one is selected.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) window: Window,
    /// The first line on the screen; `None` if it is not loaded yet. The same holds for `selected`.
    pub(super) top: Option<RowId>,
    pub(super) selected: Option<RowId>,
    /// The number of lines of the screen.
    height: usize,
    /// The number of lines by which `step` still has to move the selection; `scrolls` is the number of lines by which
    /// it still has to scroll the screen. Negative numbers mean up.
    moves: i64,
    scrolls: i64,
    search: Option<Search>,
    /// Whether work remains to be done by `step`.
    is_pending: bool,
}

/// The result of [`Lines::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Work remains: `step` has to be called again.
    More,
    /// No work remains.
    Done,
    /// The search has found no line, and no work remains.
    NotFound,
}

impl Lines {
    /// Makes the state in which the screen begins at a position in the traces, and no line is loaded yet.
    pub(super) fn at(place: Place) -> Lines {
        Lines {
            window: Window::at(place),
            top: None,
            selected: None,
            height: 1,
            moves: 0,
            scrolls: 0,
            search: None,
            is_pending: true,
        }
    }

    /// Shows the lines from a position in the traces on; if there are none, the last lines.
    pub(super) fn go_to(&mut self, place: Place) {
        self.stop();
        self.is_pending = true;
        if let Some(row) = self.window.from(place).filter(|_| self.window.ends.0 <= place) {
            (self.top, self.selected) = (Some(row), Some(row));
            return;
        }
        (self.window, self.top, self.selected) = (Window::at(place), None, None);
    }

    /// Shows the last lines of the traces, which may have grown; `end` is the position of their present end.
    pub(super) fn follow_to(&mut self, end: Place) {
        self.stop();
        (self.window, self.top, self.selected) = (Window::at(end), None, None);
        self.is_pending = true;
    }

    /// Forgets all loaded lines, and loads lines again from the selected line on; if no line is selected, from
    /// `or_from` on.
    pub(super) fn reload(&mut self, or_from: Place) {
        let place = self.place().unwrap_or(or_from);
        self.stop();
        (self.window, self.top, self.selected) = (Window::at(place), None, None);
        self.is_pending = true;
    }

    /// Returns the position of the selected line in the traces.
    pub(super) fn place(&self) -> Option<Place> {
        self.window.place(self.selected?)
    }

    /// Cancels the work that remains for `step`.
    pub(super) fn stop(&mut self) {
        (self.moves, self.scrolls, self.search) = (0, 0, None);
    }

    /// Sets the number of lines of the screen.
    pub(super) fn resize(&mut self, height: usize) {
        self.is_pending |= self.height != height;
        self.height = height.max(1);
    }

    /// Moves the selection by a number of lines; negative numbers move it up.
    pub(super) fn select(&mut self, lines: i64) {
        self.search = None;
        self.moves = self.moves.saturating_add(lines);
        self.is_pending = true;
    }

    /// Scrolls down by a number of lines, or up if the number is negative.
    pub(super) fn scroll(&mut self, lines: i64) {
        self.search = None;
        self.scrolls = self.scrolls.saturating_add(lines);
        self.is_pending = true;
    }

    /// Selects a line on the screen; `line` is its number from the top, beginning with 0.
    pub(super) fn select_on_screen(&mut self, line: usize) {
        if let Some(row) = self.shown().get(line) {
            self.selected = Some(*row);
        }
    }

    /// Returns the lines on the screen.
    pub(super) fn shown(&self) -> Vec<RowId> {
        self.window.rows(self.top, self.height)
    }

    /// Begins to search for the next line that matches or, if `forward` is false, for the previous one.
    pub(super) fn search(&mut self, pattern: &Regex, forward: bool) {
        let Some(selected) = self.selected else { return };
        self.stop();
        let from = if forward { self.window.next(selected) } else { self.window.prev(selected) };
        let place = if forward { self.window.ends.1 } else { self.window.ends.0 };
        self.search = Some(Search { pattern: pattern.clone(), forward, from, place });
        self.is_pending = true;
    }

    /// Returns the position in the traces that the current search has reached; `None` if no search is in progress.
    pub(super) fn searched(&self) -> Option<Place> {
        self.search.as_ref().map(|search| search.place)
    }

    /// Returns whether work remains for `step`.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Does one step of the remaining work: loads a part of the traces, or moves the screen, the selection or the
    /// search.
    ///
    /// # Errors
    /// The traces cannot be read.
    pub(super) fn step(&mut self, traces: &mut Traces) -> Result<Step, Error> {
        let step = self.try_step(traces).inspect_err(|_| {
            self.stop();
            self.is_pending = false;
        })?;
        self.is_pending = step == Step::More;
        Ok(step)
    }

    fn try_step(&mut self, traces: &mut Traces) -> Result<Step, Error> {
        if self.search.is_some() {
            return self.step_search(traces);
        }
        let (Some(mut top), Some(mut selected)) = (self.top, self.selected) else {
            // The first line behind the place, or else the last one before it.
            let forward = self.extend(traces, true)?;
            let more = forward || self.extend(traces, false)?;
            let row = if forward { self.window.first() } else { self.window.last() };
            (self.top, self.selected) = (row, row);
            return Ok(if more { Step::More } else { Step::Done });
        };
        if self.scrolls != 0 {
            let (forward, wanted) = (self.scrolls > 0, self.scrolls);
            let moved = self.walk(if forward { selected } else { top }, wanted).1;
            (top, selected) = (self.walk(top, moved).0, self.walk(selected, moved).0);
            (self.top, self.selected, self.scrolls) = (Some(top), Some(selected), wanted - moved);
            if moved != wanted {
                if self.extend(traces, forward)? {
                    return Ok(Step::More);
                }
                // The screen is at an end of the traces: the selected line goes there.
                let end = if forward { self.window.last() } else { self.window.first() };
                selected = end.unwrap_or(selected);
                (self.selected, self.scrolls) = (Some(selected), 0);
            }
        }
        if self.moves != 0 {
            let (row, moved) = self.walk(selected, self.moves);
            selected = row;
            (self.selected, self.moves) = (Some(row), self.moves - moved);
            if self.moves != 0 {
                if self.extend(traces, self.moves > 0)? {
                    return Ok(Step::More);
                }
                self.moves = 0;
            }
        }
        top = top.min(selected);
        if !self.window.rows(Some(top), self.height).contains(&selected) {
            top = self.walk(selected, 1 - self.height as i64).0;
        }
        self.top = Some(top);
        while self.window.rows(Some(top), self.height).len() < self.height {
            if self.extend(traces, true)? {
                return Ok(Step::More);
            }
            match self.window.prev(top) {
                Some(before) => top = before,
                None if self.extend(traces, false)? => return Ok(Step::More),
                None => break,
            }
            self.top = Some(top);
        }
        Ok(Step::Done)
    }

    /// Goes from the line `from` down by `lines` lines, or up if the number is negative, as far as lines are loaded.
    /// Returns the line that is reached, and the number of lines by which it is further down (negative: up) than
    /// `from`.
    fn walk(&self, from: RowId, lines: i64) -> (RowId, i64) {
        let (mut row, mut moved) = (from, 0);
        while moved != lines {
            let next = if lines > 0 { self.window.next(row) } else { self.window.prev(row) };
            let Some(next) = next else { break };
            (row, moved) = (next, moved + lines.signum());
        }
        (row, moved)
    }

    /// Loads the next part of the traces at one end of the loaded lines; returns whether there was such a part.
    fn extend(&mut self, traces: &mut Traces, forward: bool) -> Result<bool, Error> {
        let ends = self.window.ends;
        let next = if forward { traces.behind(ends.1) } else { traces.before(ends.0) };
        let Some((boot, period)) = next else { return Ok(false) };
        let part = traces.load(boot, period)?;
        if forward {
            self.window.push_back(part)
        } else {
            self.window.push_front(part)
        }
        Ok(true)
    }

    fn step_search(&mut self, traces: &mut Traces) -> Result<Step, Error> {
        let Some(search) = &mut self.search else { return Ok(Step::Done) };
        let (forward, pattern) = (search.forward, search.pattern.clone());
        let matches = |window: &Window, row: RowId| pattern.is_match(&without_marks(window.text(row)));
        if let Some(from) = search.from.take() {
            let window = &self.window;
            let beside = |row: &RowId| if forward { window.next(*row) } else { window.prev(*row) };
            let found = std::iter::successors(Some(from), beside).find(|row| matches(window, *row));
            return Ok(found.map_or(Step::More, |row| self.found(row)));
        }
        let next = if forward { traces.behind(search.place) } else { traces.before(search.place) };
        let Some((boot, period)) = next else {
            self.search = None;
            return Ok(Step::NotFound);
        };
        let ticks = if forward { period.end } else { period.start };
        search.place = Place { boot, ticks };
        let start = Place { boot, ticks: period.start };
        let part = traces.load(boot, period)?;
        let mut window = Window::at(start);
        window.push_back(part);
        let beside = |row: &RowId| if forward { window.next(*row) } else { window.prev(*row) };
        let first = if forward { window.first() } else { window.last() };
        let found = std::iter::successors(first, beside).find(|row| matches(&window, *row));
        let Some(row) = found else { return Ok(Step::More) };
        self.window = window;
        self.top = Some(row);
        Ok(self.found(row))
    }

    /// Selects a line that the search has found, and shows some lines above it.
    fn found(&mut self, row: RowId) -> Step {
        let is_shown = self.shown().contains(&row);
        self.selected = Some(row);
        self.search = None;
        if !is_shown || self.top == Some(row) {
            self.top = Some(row);
            let above = CONTEXT.min(self.height as i64 / 3);
            self.scrolls = -above;
            self.moves = above;
        }
        Step::More
    }
}
