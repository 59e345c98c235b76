//! Anchors: readings of the clocks at one moment, as traces record them.

use memchr::memmem;
use trace_format::escape::is_harmless;
use trace_format::line::{Kind, Line, Ticks};
use trace_format::meta::{Meta, Run, SystemClocks};
use trace_format::wall::Wall;

use crate::file::lines::strip_line_feed;

/// The numbers of bytes at the end of a file that are searched for the file's last anchor: first the fewest, then more.
const TAIL_SIZES: [usize; 3] = [16 << 10, 256 << 10, 4 << 20];
/// The number of bytes at the beginning of a file that are searched for anchors. The first thread's file has an anchor
/// behind the list of the modules.
const HEAD: usize = 64 << 10;
/// The beginning of a `# clock` line, without the thread id that comes first.
const CLOCK: &[u8] = b" # clock ticks=";

/// The readings of the clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Anchor {
    /// The value of the processor's counter, or of the clock that is used in its place.
    pub ticks: Ticks,
    /// The wall clock's time.
    pub wall: Wall,
    /// The number of ticks that passed while all clocks were read; 0 if that is not known.
    pub within: u64,
    /// The time of the raw monotonic clock, which nobody adjusts, in nanoseconds; `None` if the trace does not have it.
    pub raw: Option<u64>,
    /// The time since the machine was started, in nanoseconds, including the time for which it was suspended; `None` if
    /// the trace does not have it.
    pub since_boot: Option<u64>,
    /// The greatest error of the wall clock, in nanoseconds, as the system states it; `None` if the system states none,
    /// or if the wall clock is not synchronized.
    pub error: Option<u64>,
}

/// The value of `state` in a `# clock` line if the wall clock is not synchronized: `TIME_ERROR` of `adjtimex`.
const NOT_SYNCHRONIZED: u32 = 5;

impl Anchor {
    /// Makes an anchor of a reading of the ticks and of the wall clock, the two clocks that each trace has.
    #[must_use]
    pub(crate) fn new(ticks: Ticks, wall: Wall) -> Anchor {
        Anchor { ticks, wall, within: 0, raw: None, since_boot: None, error: None }
    }

    /// Returns the anchor in the `# run` line of `run`.
    #[must_use]
    pub(crate) fn of_run(run: &Run) -> Anchor {
        Anchor::new(run.ticks, run.wall)
    }

    /// Returns the anchor in a `# run` or `# clock` line; `None` for any other line.
    #[must_use]
    pub(crate) fn of_line(line: &[u8]) -> Option<Anchor> {
        let line = Line::parse(strip_line_feed(line)).ok()?;
        if line.kind != Kind::Meta || !is_harmless(line.payload) {
            return None;
        }
        Anchor::of_meta(&Meta::parse(line.payload)?)
    }

    /// Returns the anchor in the content of a `# run` or `# clock` line; `None` for any other content.
    #[must_use]
    pub(crate) fn of_meta(meta: &Meta) -> Option<Anchor> {
        match meta {
            Meta::Run(run) => Some(Anchor::of_run(run)),
            Meta::Clock { ticks, wall, system } => {
                let SystemClocks { within, raw, since_boot, error, state, .. } = *system;
                let (ticks, wall, within) = (*ticks, *wall, within.unwrap_or(0));
                let error = error.filter(|_| state != Some(NOT_SYNCHRONIZED));
                Some(Anchor { ticks, wall, within, raw, since_boot, error })
            }
            _ => None,
        }
    }
}

/// Returns the anchors of all `# clock` lines in `bytes`, in order. Each byte is read once, at the speed of a search.
pub(crate) fn anchors_in(bytes: &[u8]) -> impl Iterator<Item = Anchor> {
    memmem::find_iter(bytes, CLOCK).filter_map(|at| {
        let start = memchr::memrchr2(b'\n', 0, &bytes[..at]).map_or(0, |feed| feed + 1);
        let end = memchr::memchr2(b'\n', 0, &bytes[at..]).map_or(bytes.len(), |feed| at + feed);
        Anchor::of_line(&bytes[start..end])
    })
}

/// Returns the anchors of the `# clock` lines at the beginning and at the end of a file: at least the last anchor, if
/// it is within the file's last 4 MiB.
#[must_use]
pub(crate) fn outer_anchors(bytes: &[u8]) -> Vec<Anchor> {
    for tail in TAIL_SIZES {
        let start = bytes.len().saturating_sub(tail);
        let head = start.min(HEAD);
        let last: Vec<Anchor> = anchors_in(&bytes[start..]).collect();
        if !last.is_empty() || start == 0 {
            return anchors_in(&bytes[..head]).chain(last).collect();
        }
    }
    anchors_in(&bytes[..bytes.len().min(HEAD)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn anchors_are_found_in_metadata_and_not_in_messages() {
        let line =
            b"00000000000000ff-00000009 # clock ticks=255 wall=2026-11-20T15:11:02.123456789Z raw=77\n";
        let message =
            b"00000000000000ff-00000009 : x # clock ticks=255 wall=2026-11-20T15:11:02.123456789Z\n";
        let found: Vec<_> = anchors_in(&[&message[..], line, message, line].concat()).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].ticks, found[0].raw), (Ticks(255), Some(77)));
        let far = [&line[..], &message.repeat(1000)].concat();
        assert_eq!(outer_anchors(&far).len(), 1);
        // One at each end, and those between are not looked for.
        let many = message.repeat(2000);
        let outer = [&line[..], &many, line, &many, line].concat();
        assert_eq!(outer_anchors(&outer).len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched_for_anchors_without_panic(bytes: Vec<u8>) {
            let _ = outer_anchors(&[&bytes[..], b" # clock ticks=", &bytes].concat());
        }
    }
}
