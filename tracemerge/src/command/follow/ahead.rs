//! Recognizes lines of a thread that would otherwise be shown twice: they are read first from the thread's ring, and
//! later from a file.
//!
//! A ring loses lines in two cases: the flusher writes them to a file, which may be another file than the one that is
//! being read, or newer lines overwrite them. The two cases look the same, so the digests of lost lines are kept for
//! some rounds of reading.

use std::collections::VecDeque;

/// The digest of a line: its ticks, and a hash of its content.
pub(super) type LineDigest = (u64, u64);

/// The number of rounds of reading for which the digest of a line is kept after the ring has lost the line. Within
/// these rounds, the file that contains the line is found.
const ROUNDS: u64 = 16;
/// The maximum number of digests that are kept of lines which the ring has lost: about as many lines as a ring of 1 MiB
/// has. It bounds memory if a flight recorder overwrites its records.
const MAX_LINES_AHEAD: usize = 1 << 16;

/// The lines of a thread that were read from its ring and not from any file yet, in the order of their ticks.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The lines that a reading of the ring did not find in the ring any more, each with the number of the round of
    /// this reading.
    lost: VecDeque<(LineDigest, u64)>,
    /// The lines that the ring had when it was last read.
    in_ring: VecDeque<LineDigest>,
}

impl Ahead {
    /// Returns whether a line of a file was already shown from the ring. Forgets this line, and all lines with fewer
    /// ticks: they were overwritten in the ring, because files are read in the order in which they were written.
    pub(super) fn take(&mut self, digest: LineDigest) -> bool {
        remove(&mut self.lost, digest, |lost| lost.0, drop)
            || remove(&mut self.in_ring, digest, |line| *line, drop)
    }

    /// Begins a new reading of the ring, in the round with the number `round`.
    pub(super) fn look(&mut self, round: u64) -> RingLook<'_> {
        let before = std::mem::take(&mut self.in_ring);
        RingLook { ahead: self, before, round }
    }
}

/// One reading of a ring's lines. [`RingLook::end`] ends it.
pub(super) struct RingLook<'a> {
    ahead: &'a mut Ahead,
    /// The lines that the previous reading found in the ring, except those that this reading has already passed.
    before: VecDeque<LineDigest>,
    round: u64,
}

impl RingLook<'_> {
    /// Adds the next line of the ring to this reading; returns whether the line is new, so that it has to be shown.
    pub(super) fn is_new(&mut self, digest: LineDigest) -> bool {
        let (lost, round) = (&mut self.ahead.lost, self.round);
        let was_shown = remove(&mut self.before, digest, |line| *line, |line| lost.push_back((line, round)));
        self.ahead.in_ring.push_back(digest);
        !was_shown
    }

    /// Ends the reading, after the last line of the ring was added.
    pub(super) fn end(self) {
        let RingLook { ahead: Ahead { lost, .. }, before, round } = self;
        lost.extend(before.into_iter().map(|line| (line, round)));
        let too_many = lost.len().saturating_sub(MAX_LINES_AHEAD);
        lost.drain(..too_many);
        while lost.front().is_some_and(|(_, since)| since.saturating_add(ROUNDS) < round) {
            lost.pop_front();
        }
    }
}

/// Removes a line from `lines`; returns whether it was there. Also removes the lines with fewer ticks, and calls `pass`
/// with each of these.
fn remove<T>(
    lines: &mut VecDeque<T>,
    digest: LineDigest,
    line: impl Fn(&T) -> LineDigest,
    mut pass: impl FnMut(T),
) -> bool {
    while lines.front().is_some_and(|item| line(item).0 < digest.0) {
        lines.pop_front().map(&mut pass);
    }
    let same_ticks = lines.iter().take_while(|item| line(item).0 == digest.0);
    let found = same_ticks.map(&line).position(|other| other == digest);
    found.and_then(|at| lines.remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> LineDigest {
        (number / 2, number)
    }

    /// Returns the numbers of the lines that a look shows.
    fn look(ahead: &mut Ahead, numbers: &[u64], round: u64) -> Vec<u64> {
        let mut look = ahead.look(round);
        let shown = numbers.iter().copied().filter(|number| look.is_new(line(*number))).collect();
        look.end();
        shown
    }

    #[test]
    fn lines_are_shown_once_from_ring_or_file() {
        let mut ahead = Ahead::default();
        assert_eq!(look(&mut ahead, &[1, 2, 3], 1), [1, 2, 3]);
        assert_eq!(look(&mut ahead, &[1, 2, 3, 4], 2), [4]);
        assert!(ahead.take(line(1)) && ahead.take(line(2)));
        assert!(!ahead.take(line(2)), "a second line of the same content is another line");
        assert_eq!(look(&mut ahead, &[3, 4, 5], 3), [5]);
        assert!([3, 4, 5].into_iter().all(|number| ahead.take(line(number))));
        assert!(!ahead.take(line(6)));
    }

    #[test]
    fn lines_that_left_the_ring_before_their_file_was_found_are_recognized() {
        let mut ahead = Ahead::default();
        assert_eq!(look(&mut ahead, &[1, 2, 3, 4], 1), [1, 2, 3, 4]);
        // The flusher has put the first two lines into a file that is not known yet.
        assert_eq!(look(&mut ahead, &[3, 4, 5], 2), [5]);
        assert!(look(&mut ahead, &[], 3).is_empty());
        assert!([1, 2, 3, 4, 5].into_iter().all(|number| ahead.take(line(number))));
    }

    #[test]
    fn overwritten_lines_are_forgotten() {
        let mut ahead = Ahead::default();
        assert_eq!(look(&mut ahead, &[1], 1), [1]);
        assert_eq!(look(&mut ahead, &[2], 2), [2]);
        assert!(look(&mut ahead, &[2], 3 + ROUNDS).is_empty());
        assert!(!ahead.take(line(1)) && ahead.lost.is_empty());
        assert!(ahead.take(line(2)));
        for round in 0..10 {
            let first = 10 + round * (MAX_LINES_AHEAD as u64);
            look(&mut ahead, &(first..first + MAX_LINES_AHEAD as u64).collect::<Vec<_>>(), round);
        }
        assert!(ahead.lost.len() <= MAX_LINES_AHEAD);
    }
}
