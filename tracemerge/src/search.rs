//! Where in a sorted piece the lines from a moment on begin, found by looking at few places.

use crate::lines::{Next, line_at, line_behind, skip_bad, ticks_at};

/// So many bytes are walked through line by line: a few lines cost no more than another jump.
const WALK: usize = if cfg!(test) { 8 } else { 512 };

/// A place between two lines, or at an end of the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The offset.
    pub at: usize,
    /// The ticks of the first line behind it; `None` at the end.
    pub ticks: Option<u64>,
}

impl Mark {
    /// The mark before everything from `at` on; what is no line there belongs to the first line.
    #[must_use]
    pub fn before(bytes: &[u8], at: usize) -> Mark {
        let line = skip_bad(bytes, at);
        Mark { at, ticks: if line < bytes.len() { ticks_at(bytes, line) } else { None } }
    }

    /// The mark at the end of `bytes`.
    #[must_use]
    pub fn end(bytes: &[u8]) -> Mark {
        Mark { at: bytes.len(), ticks: None }
    }

    /// Whether all behind it is from `ticks` on.
    #[inline]
    #[must_use]
    pub fn is_from(&self, ticks: u64) -> bool {
        self.ticks.is_none_or(|first| first >= ticks)
    }
}

/// The mark before the first line with `ticks` or more. It is known to lie between `low` and `high`; `step` is a
/// guess of how far behind `low`.
///
/// Looks at `log` of the distance many places, and passes over each byte twice at most. In a piece that is not sorted
/// after all, what is found is a mark still: the line before it has smaller ticks, the one behind it has not.
#[must_use]
pub fn first_from(bytes: &[u8], ticks: u64, low: Mark, mut high: Mark, step: usize) -> Mark {
    if low.is_from(ticks) {
        return low;
    }
    let (mut low, mut step) = (low.at, step.max(WALK));
    // Lines that begin behind this are known to be from `high` on.
    let mut unknown = high.at;
    let mut near = true;
    while unknown - low > WALK {
        let jump = if near { step } else { (unknown - low) / 2 };
        let probe = if jump < unknown - low { low + jump } else { low + (unknown - low) / 2 };
        match line_behind(bytes, probe, unknown) {
            Some((at, found)) if found < ticks => {
                low = at;
                step = step.saturating_mul(2);
            }
            Some((at, found)) => {
                high = Mark { at, ticks: Some(found) };
                (unknown, near) = (probe, false);
            }
            None => (unknown, near) = (probe, false),
        }
    }
    walk(bytes, ticks, low, high)
}

/// [`first_from`], line by line.
fn walk(bytes: &[u8], ticks: u64, mut at: usize, high: Mark) -> Mark {
    while at < high.at {
        match line_at(bytes, at) {
            Next::Line(line) if line.ticks < ticks => at = line.end,
            Next::Line(line) => return Mark { at, ticks: Some(line.ticks) },
            Next::Bad => at = skip_bad(bytes, at),
            Next::End => break,
        }
    }
    high
}
