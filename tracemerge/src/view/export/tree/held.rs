//! The lines of a tree that wait for an earlier line, so that the tree is in the order of time.
//!
//! The line of a call stands where the call was entered, but its text is known later: when the call is left, or when
//! something inside it is shown. Until then, all later lines are held back, up to a limit.

use std::collections::VecDeque;

use trace_format::line::Ticks;

/// The maximum number of places that are held back. A place is for one line, whether its text is known or still
/// awaited.
pub(super) const MOST_PLACES: usize = 100_000;
/// The maximum number of bytes of text of the lines that are held back.
const MOST_BYTES: usize = 16 << 20;
/// The maximum number of empty buffers that are kept for the texts of later lines.
const SPARE: usize = 64;

/// A line of the tree.
#[derive(Debug)]
pub(super) struct TreeLine {
    /// The index of the thread.
    pub thread: usize,
    /// The ticks of the line; `None` if the line is not in the order of time, so that the column of times stays empty.
    pub ticks: Option<Ticks>,
    /// The duration of the call that the line shows, in nanoseconds.
    pub taken: Option<u64>,
    /// The text after the columns of time, thread and duration.
    pub text: Vec<u8>,
}

/// A place in the order of lines: for a line that is known, or for one that is awaited.
#[derive(Debug)]
enum Place {
    Line(TreeLine),
    /// The first line of an open call of the thread `thread` is awaited; `depth` is the number of open calls around the
    /// call.
    Open {
        thread: usize,
        depth: usize,
    },
    /// The place stays empty: the call is not shown, or its line is at another place.
    Nothing,
}

/// The lines that are held back, in the order of time.
#[derive(Debug, Default)]
pub(super) struct HeldLines {
    places: VecDeque<Place>,
    /// The number of the oldest place that is still held back. Places are numbered in the order in which they were
    /// added.
    first: u64,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl HeldLines {
    /// Returns an empty buffer for the text of a line.
    pub(super) fn text(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the buffer of a written line for the text of a later one.
    pub(super) fn take_back(&mut self, mut text: Vec<u8>) {
        if self.spare.len() < SPARE {
            text.clear();
            self.spare.push(text);
        }
    }

    /// Reserves the place for the first line of a call. Returns the number of the place.
    pub(super) fn reserve(&mut self, thread: usize, depth: usize) -> u64 {
        self.places.push_back(Place::Open { thread, depth });
        self.first + self.places.len() as u64 - 1
    }

    /// Adds a line: at the place `place` if it was reserved for the line, otherwise after all other places.
    pub(super) fn add(&mut self, place: Option<u64>, line: TreeLine) {
        self.bytes += line.text.len();
        match place.and_then(|place| self.place(place)) {
            Some(reserved) => *reserved = Place::Line(line),
            None => self.places.push_back(Place::Line(line)),
        }
    }

    /// Sets the number of calls around the call for which a place is reserved.
    pub(super) fn set_depth(&mut self, place: u64, around: usize) {
        if let Some(Place::Open { depth, .. }) = self.place(place) {
            *depth = around;
        }
    }

    /// Frees a reserved place, whose line will not be shown.
    pub(super) fn give_up(&mut self, place: u64) {
        if let Some(reserved) = self.place(place) {
            *reserved = Place::Nothing;
        }
    }

    fn place(&mut self, place: u64) -> Option<&mut Place> {
        let at = place.checked_sub(self.first)?;
        self.places.get_mut(usize::try_from(at).ok()?)
    }

    /// Removes and returns the oldest line that is held back. Returns `None` if the text of that line is still awaited,
    /// or if there are no lines.
    pub(super) fn pop(&mut self) -> Option<TreeLine> {
        loop {
            if let Place::Open { .. } = self.places.front()? {
                return None;
            }
            self.first += 1;
            if let Some(Place::Line(line)) = self.places.pop_front() {
                self.bytes -= line.text.len();
                return Some(line);
            }
        }
    }

    /// If the oldest line that is held back is the awaited first line of a call, returns the call's thread and the
    /// number of calls around the call. Otherwise returns `None`.
    pub(super) fn awaited(&self) -> Option<(usize, usize)> {
        match self.places.front()? {
            Place::Open { thread, depth } => Some((*thread, *depth)),
            _ => None,
        }
    }

    /// Returns whether no more lines may be held back.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() > MOST_PLACES || self.bytes > MOST_BYTES
    }
}
