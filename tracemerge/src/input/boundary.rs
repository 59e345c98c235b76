//! A search in a sorted range for the boundary after which all lines have at least certain ticks. It reads only a few
//! of the lines.

use crate::file::lines::{Token, line_at, next_line_after, skip_bad, ticks_at};

/// The number of bytes that the search reads line by line, instead of jumping: reading a few lines costs no more than a
/// jump.
const LINEAR_SCAN_BYTES: usize = if cfg!(test) { 8 } else { 512 };

/// A position between two lines of a sorted range, or at one end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// The boundary's offset in the bytes of the source.
    pub at: usize,
    /// The ticks of the first line after the boundary; `None` if there is no such line.
    pub ticks: Option<u64>,
}

impl Boundary {
    /// Returns the boundary at the offset `at`. If the bytes there are not a line, they count as a part of the first
    /// line after them.
    #[must_use]
    pub(crate) fn before(bytes: &[u8], at: usize) -> Boundary {
        let line = skip_bad(bytes, at);
        Boundary { at, ticks: if line < bytes.len() { ticks_at(bytes, line) } else { None } }
    }

    /// Returns the boundary at the end of `bytes`.
    #[must_use]
    pub(crate) fn end(bytes: &[u8]) -> Boundary {
        Boundary { at: bytes.len(), ticks: None }
    }

    /// Returns whether all lines after the boundary have `ticks` or more.
    #[inline]
    #[must_use]
    pub(crate) fn starts_at_or_after(&self, ticks: u64) -> bool {
        self.ticks.is_none_or(|first| first >= ticks)
    }
}

/// Finds the boundary before the first line with `ticks` or more. The boundary must lie between `low` and `high`;
/// `step` is an estimate of its distance from `low` in bytes.
///
/// If the bytes are not sorted after all, the result is still a boundary between a line with smaller ticks and one with
/// `ticks` or more.
///
/// This is an interpolation search: each line that it reads shows how many ticks a byte takes in this part, and so at
/// which offset to read next. Every fourth line that it reads is in the middle of the remaining range, so the number of
/// reads grows at most with the logarithm of the distance. If the ticks grow somewhat evenly, two or three reads are
/// enough. The last few lines are read one by one.
#[must_use]
pub(crate) fn first_from(
    bytes: &[u8],
    ticks: u64,
    low: Boundary,
    mut high: Boundary,
    step: usize,
) -> Boundary {
    if low.starts_at_or_after(ticks) {
        return low;
    }
    let low = (low.at, low.ticks.unwrap_or(ticks));
    // `below` is the last line known to have too few ticks; no line begins between `unknown` and `high`.
    let (mut below, mut unknown) = (low, high.at);
    // `guess` is the expected distance from `below`; if `is_near`, the next step walks line by line.
    let (mut guess, mut is_near) = (step, false);
    for looks in 0_u32.. {
        let (at, here) = below;
        let is_all = unknown - at <= LINEAR_SCAN_BYTES;
        if is_all || is_near {
            let limit = if is_all { usize::MAX } else { at + 2 * LINEAR_SCAN_BYTES };
            match walk(bytes, ticks, at, high, limit) {
                Ok(mark) => return mark,
                Err(behind) => (below, is_near, guess) = (behind, false, LINEAR_SCAN_BYTES),
            }
            continue;
        }
        let left = unknown - at;
        let jump = if guess < left && looks % 4 < 3 { guess } else { left / 2 };
        // If nothing limits the jump yet, it is at most as long as doubled steps would be, so that bytes far behind
        // are not read.
        let probe = at + jump.min(step.max(LINEAR_SCAN_BYTES).saturating_mul(2 << looks.min(32)));
        match next_line_after(bytes, probe, unknown) {
            Some((found_at, found)) if found < ticks => {
                guess = ahead(ticks - found, found_at - low.0, found.saturating_sub(low.1));
                (below, is_near) = ((found_at, found), guess <= LINEAR_SCAN_BYTES);
            }
            Some((found_at, found)) => {
                (high, unknown) = (Boundary { at: found_at, ticks: Some(found) }, probe);
                guess = ahead(ticks - here, found_at - at, found - here);
            }
            None => (unknown, guess) = (probe, (probe - at) / 2),
        }
        // A probe that is a bit too near is better: from there it can be walked to the boundary.
        guess = guess.saturating_sub(LINEAR_SCAN_BYTES / 2).max(1);
    }
    high
}

/// Estimates how many bytes of lines correspond to `ticks`, if `others`, another number of ticks, correspond to
/// `bytes`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimate"
)]
fn ahead(ticks: u64, bytes: usize, others: u64) -> usize {
    (ticks as f64 * bytes as f64 / others.max(1) as f64) as usize
}

/// Reads line by line from the offset `at` up to `limit`. Returns the boundary before the first line with `ticks` or
/// more. If no line up to `limit` has `ticks` or more, returns, as an error, the offset and the ticks of the last of
/// these lines.
fn walk(
    bytes: &[u8],
    ticks: u64,
    mut at: usize,
    high: Boundary,
    limit: usize,
) -> Result<Boundary, (usize, u64)> {
    let mut before = (at, ticks);
    while at < high.at {
        match line_at(bytes, at) {
            Token::Line(line) if line.ticks >= ticks => return Ok(Boundary { at, ticks: Some(line.ticks) }),
            Token::Line(_) if at > limit => return Err(before),
            Token::Line(line) => {
                before = (at, line.ticks);
                at = line.end;
            }
            Token::Bad => at = skip_bad(bytes, at),
            Token::End => break,
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_boundary_search_agrees_with_a_linear_scan(
            steps in prop::collection::vec((0..2u64, 0..40usize, 0..9u8), 0..200),
            ticks in 0..400u64, step in 0..9000usize, low in 0..200usize, high in 0..200usize,
        ) {
            let (mut bytes, mut now, mut marks) = (Vec::new(), 0, Vec::new());
            for (more, length, jump) in steps {
                // Most lines come evenly, some do not.
                now += if jump == 0 { 1 << 40 } else { more };
                marks.push(Boundary { at: bytes.len(), ticks: Some(now) });
                bytes.extend(format!("{now:016x}-00000001 : {}\n", "x".repeat(length)).bytes());
            }
            marks.push(Boundary::end(&bytes));
            let ticks = marks.get(low).and_then(|mark| mark.ticks).map_or(ticks, |base| base + ticks % 50);
            let expected = *marks.iter().find(|mark| mark.starts_at_or_after(ticks)).unwrap();
            let below = |place: usize| marks[place.min(marks.len() - 1)];
            let low = Some(below(low)).filter(|mark| mark.at <= expected.at).unwrap_or(marks[0]);
            let high = Some(below(high)).filter(|mark| mark.at >= expected.at).unwrap_or(Boundary::end(&bytes));
            prop_assert_eq!(first_from(&bytes, ticks, low, high, step), expected);
        }
    }
}
