//! The size of a page. If a page would be too large for browsers, it is not written, and a message proposes options
//! that write a page for each of several parts of the trace.

use std::fmt::Write;

use super::MAX_RECORDS;
use crate::ui::messages::Grouped;

/// The number of records of each part of the trace that is proposed.
const PART_RECORDS: u64 = 10_000_000;

/// The number of records so far, and the times at which the proposed parts of the trace begin.
#[derive(Debug, Default)]
pub(super) struct Size {
    records: u64,
    begins: Vec<i64>,
}

impl Size {
    /// Counts a record whose time is `time`, in nanoseconds since the first line.
    pub(super) fn add(&mut self, time: i64) {
        // The time of an end may be before that of the record before it.
        let least = self.begins.last().copied().unwrap_or(0);
        if self.records > 0 && self.records % PART_RECORDS == 0 && time > least {
            self.begins.push(time);
        }
        self.records += 1;
    }

    /// Returns whether the page has more records than a browser can show.
    pub(super) fn is_too_large(&self) -> bool {
        self.records > MAX_RECORDS
    }

    /// Returns a text that says why the page is not written, and which options write a page for each part of the trace.
    pub(super) fn advice(&self) -> String {
        let mut advice = format!(
            "the page would have {} records, and browsers can show {}: `--split 10M` writes several pages; for one \
             page of a part:",
            Grouped(self.records),
            Grouped(MAX_RECORDS)
        );
        let seconds = |time: i64| format!("{}.{:09}s", time / 1_000_000_000, time % 1_000_000_000);
        for part in 0..=self.begins.len() {
            let since = part.checked_sub(1).and_then(|before| self.begins.get(before));
            // Writing to memory does not fail.
            let _ = write!(advice, "{}", if part == 0 { " `" } else { ", `" });
            if let Some(since) = since {
                let _ = write!(advice, "--since {} ", seconds(*since));
            }
            if let Some(until) = self.begins.get(part) {
                let _ = write!(advice, "--until {} ", seconds(*until));
            }
            let _ = write!(advice, "-o part-{}.html`", part + 1);
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_large_names_parts_that_are_not() {
        let mut size = Size::default();
        (0..MAX_RECORDS as i64).for_each(|number| size.add(number * 150));
        assert!(!size.is_too_large());
        size.add(3_000_000_007);
        assert!(size.is_too_large());
        assert_eq!(
            size.advice(),
            "the page would have 20,000,001 records, and browsers can show 20,000,000: `--split 10M` writes several \
             pages; for one page of a part: \
             `--until 1.500000000s -o part-1.html`, `--since 1.500000000s --until 3.000000007s -o part-2.html`, \
             `--since 3.000000007s -o part-3.html`"
        );
    }
}
