//! A view of all selected records as rows of text. In a tree of calls, the rows below a function can be folded.

use std::collections::BTreeSet;

use super::background::{Making, Summary};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::ui::escaping::without_marks;
use crate::ui::units::duration;
use crate::view::request::Request;

/// A view that can be opened: its key, its title, and the subcommand with its options.
#[derive(Debug)]
pub(super) struct Kind {
    pub key: char,
    pub title: &'static str,
    pub view: &'static str,
    options: &'static [&'static str],
}

/// The views that can be opened, in the order of their keys. The key `1` is not among them: it shows the lines of the
/// traces.
pub(super) static KINDS: [Kind; 7] = [
    Kind { key: '2', title: "calls", view: "tree", options: &["--collapse"] },
    Kind { key: '3', title: "spans", view: "spans", options: &["--rows", "all"] },
    Kind { key: '4', title: "not ended", view: NOT_ENDED, options: &["--json"] },
    Kind { key: '5', title: "functions", view: "report", options: &["--rows", "all"] },
    Kind { key: '6', title: "locks", view: "locks", options: &[] },
    Kind { key: '7', title: "messages", view: "stats", options: &["--rows", "all"] },
    Kind { key: '8', title: "summary", view: "summary", options: &[] },
];
/// The view whose JSON is turned into the list of the calls and waits that have not ended.
const NOT_ENDED: &str = "summary";

/// An open view, whose text is rows that can be selected and folded.
#[derive(Debug)]
pub(super) struct Pane {
    pub kind: &'static Kind,
    making: Option<Making>,
    pub rows: Vec<Vec<u8>>,
    /// The column at which the indented text of rows begins, if the view is a tree; `None` if no row is indented.
    indented_from: Option<usize>,
    /// The folded rows: the rows that are indented below them are not shown.
    folded: BTreeSet<usize>,
    pub top: usize,
    pub selected: usize,
}

impl Pane {
    /// Opens a view of the records that a job selects.
    pub(super) fn open(kind: &'static Kind, job: (Vec<App>, Choice, Request)) -> Pane {
        let making = Some(Making::begin(job, kind.view, kind.options));
        let rows = vec![b"...".to_vec()];
        Pane { kind, making, rows, indented_from: None, folded: BTreeSet::new(), top: 0, selected: 0 }
    }

    /// Takes the text of the view from the background thread if the text is complete. Returns whether it was taken.
    pub(super) fn take_made(&mut self) -> bool {
        let Some(made) = self.making.as_ref().and_then(Making::made) else { return false };
        self.making = None;
        match made {
            Ok(text) if self.kind.options == ["--json"] => self.set(&not_ended(&text)),
            Ok(text) => self.set(&text),
            Err(error) => self.set(error.to_string().as_bytes()),
        }
        true
    }

    /// Sets the text of the view, whose lines become the rows.
    pub(super) fn set(&mut self, text: &[u8]) {
        self.rows = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if self.rows.last().is_some_and(Vec::is_empty) {
            self.rows.pop();
        }
        let is_tree = self.kind.view == "tree";
        let heading = |row: &Vec<u8>| {
            let row = without_marks(row);
            row.ends_with(b"function").then(|| row.len() - b"function".len())
        };
        self.indented_from = self.rows.iter().find_map(heading).filter(|_| is_tree);
        self.folded.clear();
        (self.top, self.selected) = (0, self.rows.iter().position(|row| heading(row).is_some()).unwrap_or(0));
    }

    /// Returns the indentation of a row, in columns; `None` if the row is not in a tree.
    fn indentation(&self, row: usize) -> Option<usize> {
        let text = without_marks(self.rows.get(row)?);
        let behind = text.get(self.indented_from?..)?;
        Some(behind.iter().take_while(|byte| **byte == b' ').count())
    }

    /// Returns the index of the last row that is indented below `row`; `row` itself if there is none.
    fn end_of(&self, row: usize) -> usize {
        let Some(own) = self.indentation(row) else { return row };
        let below =
            (row + 1..self.rows.len()).take_while(|row| self.indentation(*row).is_some_and(|of| of > own));
        below.last().unwrap_or(row)
    }

    /// Returns the indices of the rows that are shown, because they are not below a folded row.
    pub(super) fn shown(&self) -> Vec<usize> {
        let (mut shown, mut row) = (Vec::new(), 0);
        while row < self.rows.len() {
            shown.push(row);
            row = if self.folded.contains(&row) { self.end_of(row) + 1 } else { row + 1 };
        }
        shown
    }

    /// Returns whether rows can be folded.
    pub(super) fn is_tree(&self) -> bool {
        self.indented_from.is_some()
    }

    /// Returns the sign that marks a row with other rows below it: `+` if these are folded, otherwise `-`.
    pub(super) fn sign(&self, row: usize) -> Option<char> {
        self.indented_from?;
        let has_below = self.end_of(row) > row && self.indentation(row).is_some() && row > 0;
        has_below.then(|| if self.folded.contains(&row) { '+' } else { '-' })
    }

    /// Folds the selected row (true), unfolds it (false), or toggles it (`None`).
    pub(super) fn fold(&mut self, fold: Option<bool>) {
        let row = self.selected;
        if self.sign(row).is_none() {
            return;
        }
        if fold.unwrap_or(!self.folded.contains(&row)) {
            self.folded.insert(row);
        } else {
            self.folded.remove(&row);
        }
    }

    /// Unfolds all rows if one is folded; otherwise folds all.
    pub(super) fn fold_all(&mut self) {
        if !std::mem::take(&mut self.folded).is_empty() {
            return;
        }
        self.folded = (0..self.rows.len()).filter(|row| self.sign(*row).is_some()).collect();
        while !self.shown().contains(&self.selected) && self.selected > 0 {
            self.selected -= 1;
        }
    }

    /// Moves the selection by a number of shown rows; negative numbers move it up.
    pub(super) fn select(&mut self, rows: i64, height: usize) {
        let shown = self.shown();
        let at = shown.iter().position(|row| *row == self.selected).unwrap_or(0) as i64;
        let at = at.saturating_add(rows).clamp(0, shown.len().saturating_sub(1) as i64) as usize;
        self.selected = shown.get(at).copied().unwrap_or(0);
        self.keep_in_sight(height);
    }

    /// Scrolls so that the selected row is on the screen, which has `height` lines.
    pub(super) fn keep_in_sight(&mut self, height: usize) {
        let shown = self.shown();
        let at = shown.iter().position(|row| *row == self.selected).unwrap_or(0);
        self.top = self.top.min(at).max((at + 1).saturating_sub(height)).min(shown.len().saturating_sub(1));
    }

    /// Selects the next row that matches or, if `forward` is false, the previous one; returns whether there is one.
    pub(super) fn search(&mut self, pattern: &regex::bytes::Regex, forward: bool) -> bool {
        let matches = |row: &usize| pattern.is_match(&without_marks(&self.rows[*row]));
        let found = if forward {
            (self.selected + 1..self.rows.len()).find(matches)
        } else {
            (0..self.selected).rev().find(matches)
        };
        let Some(row) = found else { return false };
        let around: Vec<usize> =
            self.folded.iter().copied().filter(|of| *of < row && row <= self.end_of(*of)).collect();
        around.iter().for_each(|of| {
            self.folded.remove(of);
        });
        self.selected = row;
        true
    }
}

/// Returns the list of the calls and waits that have not ended, made from the JSON of `summary`.
fn not_ended(json: &[u8]) -> Vec<u8> {
    let Some(summary) = Summary::of(json) else { return b"the summary cannot be read".to_vec() };
    let mut rows = Vec::new();
    for wait in &summary.open_waits {
        rows.push((wait.ns, format!("{} waits for {}", wait.thread, wait.what)));
    }
    for call in &summary.open_calls {
        rows.push((call.ns, format!("{} is in {}", call.thread, call.function)));
    }
    if rows.is_empty() {
        return b"every call and every wait has ended".to_vec();
    }
    rows.sort_by(|one, other| other.cmp(one));
    let rows: Vec<String> =
        rows.into_iter().map(|(ns, text)| format!("{:>9}  {text}", duration(ns))).collect();
    format!("     time  until the last sign of life\n{}", rows.join("\n")).into_bytes()
}
