//! Leaves out records by their site, by their text and by a limit of their count.
//!
//! Records of unwanted threads, processes and times are not even read: see [`crate::view::wanted_threads`] and
//! [`crate::view::byte_range`]. This module searches each message for a regular expression. It searches the message
//! as the trace contains it: escaped, with its lines joined by line feeds. A `#` line is not a message: it is left
//! out if there is a pattern, even if messages that do not match are wanted. A limit of the count applies to the
//! matching messages. With a limit, the only `#` lines that are shown are those that report missing records.

use std::collections::VecDeque;
use std::io;

use regex::bytes::{Regex, RegexBuilder};

use crate::file::record_text::RecordText;
use crate::input::site_catalog::PerSite;
use crate::view::lines_to_records::RecordSink;
use crate::view::sites::SiteSelection;

/// The conditions by which the wanted records are selected among the merged records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// A pattern that is searched for in each message. If there is one, records other than messages are not wanted.
    pub pattern: Option<Regex>,
    /// Whether the messages that do not match the pattern are wanted instead.
    pub invert: bool,
    /// The limit on how many of the wanted records are shown.
    pub amount: Amount,
    /// The wanted sites; `None` if records are not marked with their sites.
    pub sites: Option<SiteSelection>,
}

/// Compiles a pattern in which `^` and `$` are the ends of each line of a message.
pub(crate) fn compiled(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).multi_line(true).build().map_err(|error| error.to_string())
}

/// A limit on how many records are shown: only the first messages, or only the last ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Amount {
    /// All records.
    #[default]
    All,
    /// The first messages of the output, at most this many, with the warnings between them.
    First(usize),
    /// The last messages of the output, at most this many, with the warnings between them.
    Last(usize),
}

impl Selection {
    /// Returns whether a pattern or a condition for sites may leave out messages. The limit does not matter here.
    #[must_use]
    pub(crate) fn filters_messages(&self) -> bool {
        self.pattern.is_some() || self.sites.as_ref().is_some_and(|sites| !sites.wanted.is_all())
    }

    /// Returns whether no record is left out. Sites of records may be looked up nevertheless.
    #[must_use]
    pub(crate) fn takes_all(&self) -> bool {
        !self.filters_messages() && self.amount == Amount::All
    }

    /// Returns whether all records are wanted, and their sites need not be looked up.
    #[must_use]
    pub(crate) fn is_all(&self) -> bool {
        self.pattern.is_none() && self.amount == Amount::All && self.sites.is_none()
    }
}

/// The stage that passes on the messages that a selection wants: they match the pattern, or do not match it if the
/// selection is inverted, and their sites are wanted. Each record is judged independently of the others, so each thread
/// of a merge may have a stage of its own.
#[derive(Debug)]
pub(crate) struct Matching<'a, T> {
    selection: &'a Selection,
    next: T,
    /// A buffer in which the lines of a message are joined.
    text: Vec<u8>,
    /// For each site, whether its messages are wanted; `None` if sites are not looked up.
    sites: Option<PerSite<bool>>,
}

impl<'a, T: RecordSink> Matching<'a, T> {
    /// Makes a stage that passes on to `next` the records that `selection` wants by pattern and site.
    pub(crate) fn new(selection: &'a Selection, next: T) -> Matching<'a, T> {
        let sites = selection.sites.as_ref().map(|sites| PerSite::new(sites.catalog.clone()));
        Matching { selection, next, text: Vec::new(), sites }
    }

    /// Returns the stage to which records are passed on.
    pub(crate) fn next(&self) -> &T {
        &self.next
    }

    /// Returns a mutable reference to the stage to which records are passed on.
    pub(crate) fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    fn matches(&mut self, record: &RecordText<'_>) -> bool {
        let Selection { pattern: Some(pattern), invert, .. } = self.selection else { return true };
        record.is_traced()
            && searched_text(record, &mut self.text).is_some_and(|text| pattern.is_match(text) != *invert)
    }
}

/// Returns the text of a message in which a pattern is searched for: its lines, joined in `buffer` if there are
/// several. Returns `None` if the record has no line.
pub(crate) fn searched_text<'t>(record: &RecordText<'t>, buffer: &'t mut Vec<u8>) -> Option<&'t [u8]> {
    buffer.clear();
    if let Some(call) = &record.call {
        call.write_payload(buffer);
        return Some(buffer);
    }
    let mut lines = record.parsed();
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(first.payload) };
    buffer.extend_from_slice(first.payload);
    for line in std::iter::once(second).chain(lines) {
        buffer.push(b'\n');
        buffer.extend_from_slice(line.payload);
    }
    Some(buffer)
}

impl<T: RecordSink> RecordSink for Matching<'_, T> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        if let Some((sites, wanted)) = self.sites.as_mut().zip(self.selection.sites.as_ref()) {
            let is_of_site = wanted.wanted.is_all()
                || (record.is_traced()
                    && sites.get(record.site, |site| wanted.wanted.takes(site)).is_some_and(|takes| *takes));
            if !is_of_site {
                return Ok(());
            }
        }
        if self.matches(record) { self.next.record(record) } else { Ok(()) }
    }
}

/// The stage that applies the limit: it passes on only the first or the last records. For the last ones, it holds back
/// no more records than are wanted.
#[derive(Debug)]
pub(crate) struct Limit<T> {
    amount: Amount,
    next: T,
    /// The count of messages that were passed on or are held back.
    taken: usize,
    held: VecDeque<Held>,
}

/// A record that is held back.
#[derive(Debug)]
struct Held {
    origin: usize,
    site: u32,
    is_traced: bool,
    lines: Vec<u8>,
    values: Option<Vec<u8>>,
}

/// The error with which [`Limit`] reports that it wants no more records. It is not a failure.
#[derive(Debug)]
struct LimitReached;

impl std::fmt::Display for LimitReached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("all requested records are shown")
    }
}

impl std::error::Error for LimitReached {}

/// Returns the error with which [`Limit`] reports that it wants no more records; [`is_limit_reached`] recognizes it.
#[must_use]
pub(crate) fn limit_reached() -> io::Error {
    io::Error::other(LimitReached)
}

/// Returns whether an error only reports that no more records are wanted.
#[must_use]
pub(crate) fn is_limit_reached(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<LimitReached>())
}

impl<T: RecordSink> Limit<T> {
    /// Makes a stage that passes on to `next` as many records as `amount` says.
    pub(crate) fn new(amount: Amount, next: T) -> Limit<T> {
        Limit { amount, next, taken: 0, held: VecDeque::new() }
    }

    /// Passes on the records that were held back, and returns the next stage.
    ///
    /// # Errors
    /// Returns an error if the next stage accepts no more records.
    pub(crate) fn finish(mut self) -> io::Result<T> {
        self.pass_held()?;
        Ok(self.next)
    }

    /// Passes on the records that were held back. If the last records are wanted, later records are no longer held
    /// back. For views that follow running applications: they show the records that were the last ones until now, and
    /// then all new ones.
    ///
    /// # Errors
    /// Returns an error if the next stage accepts no more records.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        if matches!(self.amount, Amount::Last(_)) {
            self.amount = Amount::All;
        }
        self.pass_held()
    }

    /// Returns whether all wanted first records have been passed on.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.amount, Amount::First(wanted) if self.taken >= wanted)
    }

    /// Returns the stage to which records are passed on.
    pub(crate) fn next_mut(&mut self) -> &mut T {
        &mut self.next
    }

    fn pass_held(&mut self) -> io::Result<()> {
        for Held { origin, site, lines, values, .. } in self.held.drain(..) {
            let values = values.as_deref();
            self.next.record(&RecordText { site, values, ..RecordText::new(origin, &lines) })?;
        }
        Ok(())
    }

    /// Holds back a record, and drops the oldest held records until only the last `wanted` messages are left.
    fn hold(&mut self, record: &RecordText<'_>, wanted: usize) {
        let &RecordText { origin, site, .. } = record;
        self.held.push_back(Held {
            origin,
            site,
            is_traced: record.is_traced(),
            lines: record.to_lines(),
            values: record.values.map(<[u8]>::to_vec),
        });
        if record.is_traced() {
            self.taken += 1;
        }
        while self.taken > wanted
            || self.held.front().is_some_and(|held| !held.is_traced && self.taken >= wanted)
        {
            if self.held.pop_front().is_some_and(|held| held.is_traced) {
                self.taken -= 1;
            }
        }
    }
}

impl<T: RecordSink> RecordSink for Limit<T> {
    fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
        if self.amount != Amount::All && !record.is_traced() && !record.is_warning() {
            return Ok(());
        }
        match self.amount {
            Amount::All => self.next.record(record),
            Amount::First(_) => {
                if self.is_full() {
                    return Err(limit_reached());
                }
                self.taken += usize::from(record.is_traced());
                self.next.record(record)
            }
            Amount::Last(wanted) => {
                self.hold(record, wanted);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Taken(Vec<Vec<u8>>);

    impl RecordSink for Taken {
        fn record(&mut self, record: &RecordText<'_>) -> io::Result<()> {
            self.0.push(record.lines.to_vec());
            Ok(())
        }
    }

    fn selected(selection: &Selection, records: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut matching = Matching::new(selection, Limit::new(selection.amount, Taken::default()));
        for lines in records {
            match matching.record(&RecordText::new(0, lines)) {
                Err(error) if is_limit_reached(&error) => break,
                result => result.unwrap(),
            }
        }
        matching.next.finish().unwrap().0
    }

    fn record(n: usize, meta: bool) -> Vec<u8> {
        if meta {
            return format!("{n:016x}-00000009 # stall ns={n}\n").into_bytes();
        }
        format!("{n:016x}-00000009 : first {n}\n{n:016x}-00000009 | second {n}\n").into_bytes()
    }

    #[test]
    fn a_pattern_is_searched_in_the_whole_message_only() {
        let records = [record(7, false), record(8, true)];
        let count = |pattern: &str, invert| {
            let pattern = Some(regex::bytes::RegexBuilder::new(pattern).multi_line(true).build().unwrap());
            selected(&Selection { pattern, invert, ..Selection::default() }, &records).len()
        };
        for (pattern, found) in
            [("first 7$", 1), ("^second", 1), ("7\\nsec", 1), ("0009", 0), ("stall", 0), ("", 1), ("x", 0)]
        {
            assert_eq!((count(pattern, false), count(pattern, true)), (found, 1 - found), "{pattern}");
        }
    }

    #[test]
    fn only_warnings_are_shown_between_messages() {
        let clock =
            b"0000000000000001-00000009 # clock ticks=1 wall=2026-11-20T15:11:02.000000000Z\n".to_vec();
        let records =
            [clock.clone(), record(2, false), clock.clone(), record(3, true), record(4, false), clock];
        for amount in [Amount::First(2), Amount::Last(2)] {
            let selection = Selection { amount, ..Selection::default() };
            assert_eq!(
                selected(&selection, &records),
                [&records[1], &records[3], &records[4]].map(Clone::clone)
            );
        }
    }

    #[test]
    fn all_records_after_a_release_are_passed_on() {
        for wanted in [0, 1, 3, 9] {
            let records: Vec<_> = (0..8).map(|n| record(n, n == 7)).collect();
            let mut limit = Limit::new(Amount::Last(wanted), Taken::default());
            for lines in &records[..5] {
                limit.record(&RecordText::new(0, lines)).unwrap();
            }
            assert_eq!(limit.next.0.len(), 0);
            limit.release().unwrap();
            assert_eq!(limit.next.0, records[5usize.saturating_sub(wanted)..5]);
            for lines in &records[5..] {
                limit.record(&RecordText::new(0, lines)).unwrap();
            }
            assert!(!limit.is_full());
            assert_eq!(limit.finish().unwrap().0, records[5usize.saturating_sub(wanted)..]);
        }
    }

    proptest! {
        #[test]
        fn first_and_last_select_contiguous_records_by_message_count(
            metas in prop::collection::vec(any::<bool>(), 0..30), wanted in 0..12usize
        ) {
            let records: Vec<_> = metas.iter().enumerate().map(|(n, &meta)| record(n, meta)).collect();
            let messages: Vec<usize> = (0..metas.len()).filter(|&n| !metas[n]).collect();
            let first = Selection { amount: Amount::First(wanted), ..Selection::default() };
            let end = if wanted == 0 { 0 } else { messages.get(wanted - 1).map_or(records.len(), |n| n + 1) };
            prop_assert_eq!(selected(&first, &records), &records[..end]);
            let last = Selection { amount: Amount::Last(wanted), ..Selection::default() };
            let start = match messages.len().checked_sub(wanted) {
                None => 0,
                Some(before) => messages.get(before).copied().unwrap_or(records.len()),
            };
            prop_assert_eq!(selected(&last, &records), &records[start..]);
        }
    }
}
