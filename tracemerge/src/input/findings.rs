//! The problems that a merge finds in files, such as damaged bytes and lost records. They are collected while the merge
//! runs, and reported to the user when it is done.
//!
//! A file with a million damaged places takes as much memory as one with three: only the first few are stored, and the
//! others are counted.

use std::collections::BTreeMap;
use std::path::Path;

use itertools::Itertools;
use trace_format::line::{Ticks, ticks_digits};
use trace_format::meta::{LossReason, Meta, Name};

use crate::ui::few::FirstItems;
use crate::ui::messages::{Messages, are, count, shown, were};

/// The problems that were found in one file.
#[derive(Clone, Debug, Default, PartialEq)]
struct FileFindings {
    /// The ranges of bytes that are not lines: the offset and the number of bytes of each.
    damaged: FirstItems<(usize, usize)>,
    /// The lines whose ticks are smaller than those of the previous line: the offset, the previous line's ticks, and
    /// the line's own ticks.
    breaks: FirstItems<(usize, u64, u64)>,
    /// The number of `# backward` lines. Such a line says that ticks went back; the tracer or the reader of a raw file
    /// writes it.
    backward: u64,
    /// The offset of the file's last line, if that has no line feed.
    torn: Option<usize>,
}

/// The problems that a merge has found, in all files.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// The number of lines that were merged, including the `# damaged` lines that the merge itself has added.
    pub lines: u64,
    files: BTreeMap<usize, FileFindings>,
    lost: Vec<(LossReason, u64)>,
    /// The numbers of records that were lost for reasons that this version does not know, by reason.
    lost_otherwise: Vec<(Name, u64)>,
    /// The number of `# lost` lines whose number of lost records is not readable.
    lost_unread: u64,
}

impl Findings {
    /// Adds damage: the `bytes` bytes at the offset `at` of a source are not a line.
    pub(crate) fn damaged(&mut self, source: usize, at: usize, bytes: usize) {
        self.files.entry(source).or_default().damaged.push((at, bytes));
    }

    /// Adds a break: the line at the offset `at` of a source has the ticks `after`, which are smaller than the ticks
    /// `before` of the previous line.
    pub(crate) fn broken(&mut self, source: usize, at: usize, before: u64, after: u64) {
        self.files.entry(source).or_default().breaks.push((at, before, after));
    }

    /// Stores that the last line of a source, at the offset `at`, has no line feed.
    pub(crate) fn torn(&mut self, source: usize, at: usize) {
        self.files.entry(source).or_default().torn = Some(at);
    }

    /// Counts the loss or the backward step of ticks that the payload of a `#` line reports, if it reports one.
    pub(crate) fn metadata(&mut self, source: usize, payload: &[u8]) {
        if payload.starts_with(b"backward ") {
            self.files.entry(source).or_default().backward += 1;
        }
        if !payload.starts_with(b"lost ") {
            return;
        }
        match Meta::parse(payload) {
            Some(Meta::Lost { records, reason }) => self.lost(reason, records),
            Some(Meta::LostOtherwise { records, reason }) => {
                add_loss(&mut self.lost_otherwise, reason, records);
            }
            _ => self.lost_unread += 1,
        }
    }

    fn lost(&mut self, reason: LossReason, records: u64) {
        match self.lost.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum = sum.saturating_add(records),
            None => self.lost.push((reason, records)),
        }
    }

    /// Adds the findings `later`, which come from later lines of the same merge.
    pub(crate) fn append(&mut self, later: Findings) {
        self.lines += later.lines;
        for (source, of_file) in later.files {
            let all = self.files.entry(source).or_default();
            all.damaged.append(of_file.damaged);
            all.breaks.append(of_file.breaks);
            all.backward += of_file.backward;
            all.torn = of_file.torn.or(all.torn);
        }
        later.lost.into_iter().for_each(|(reason, records)| self.lost(reason, records));
        for (reason, records) in later.lost_otherwise {
            add_loss(&mut self.lost_otherwise, reason, records);
        }
        self.lost_unread += later.lost_unread;
    }

    /// Reports all findings to the user. `path` returns the path of a source, given its index.
    pub(crate) fn report_to_user<'p>(&self, path: impl Fn(usize) -> &'p Path, messages: &mut Messages) {
        for (source, file) in &self.files {
            file.report_to_user(path(*source), messages);
        }
        let loss_sentence = |text: &str, by_design: bool| {
            let known = self.lost.iter().filter(|(reason, _)| is_requested_loss(*reason) == by_design);
            let known = known.map(|(reason, records)| (reason.name(), *records));
            // It is not known whether the user has asked for these.
            let otherwise = self.lost_otherwise.iter().filter(|_| !by_design);
            let otherwise = otherwise.map(|(reason, records)| (reason.as_str(), *records));
            let lost: Vec<_> = known.chain(otherwise).filter(|(_, records)| *records > 0).collect();
            let sum = lost.iter().fold(0, |sum: u64, (_, records)| sum.saturating_add(*records));
            let reasons =
                lost.iter().map(|(reason, records)| format!("reason={reason}: {records}")).join(", ");
            let (records, were) = (count(sum, "record"), were(sum));
            (sum > 0).then(|| format!("the traces say that {records} {were} {text} ({reasons})"))
        };
        if let Some(lost) = loss_sentence("lost", false) {
            messages.warn(lost);
        }
        if let Some(dropped) = loss_sentence("not kept, by the settings of the program", true) {
            messages.note(dropped);
        }
        if self.lost_unread > 0 {
            let places = count(self.lost_unread, "place");
            messages.warn(format_args!(
                "the traces report losses in {places} without a readable number of records; see their '# lost' \
                 lines"
            ));
        }
    }
}

/// Returns whether losses for this `reason` follow from a setting of the user: a flight recorder keeps only the newest
/// records, and a file with a size limit keeps only its newer half.
fn is_requested_loss(reason: LossReason) -> bool {
    matches!(reason, LossReason::Overwritten | LossReason::Rotated)
}

/// The maximum number of unknown reasons that are counted separately: a damaged file may state a different reason in
/// every line.
pub(crate) const REASONS: usize = 16;

/// Adds `records` to the number of records that were lost for `reason`, which this version does not know. If `losses`
/// has [`REASONS`] other reasons already, adds them to the last of these instead.
pub(crate) fn add_loss(losses: &mut Vec<(Name, u64)>, reason: Name, records: u64) {
    let known = losses.iter().position(|(known, _)| *known == reason);
    let known = known.or_else(|| losses.len().checked_sub(1).filter(|_| losses.len() >= REASONS));
    match known {
        Some(place) => losses[place].1 = losses[place].1.saturating_add(records),
        None => losses.push((reason, records)),
    }
}

impl FileFindings {
    fn report_to_user(&self, path: &Path, messages: &mut Messages) {
        let path = shown(path);
        for (at, bytes) in &self.damaged.first {
            let (bytes, are) = (count(*bytes as u64, "byte"), are(*bytes as u64));
            messages.warn(format_args!(
                "{path}: {bytes} at offset {at} {are} not a trace line; a '# damaged' line shows them"
            ));
        }
        if self.damaged.more() > 0 {
            messages.warn(format_args!("{path}: and {} more", count(self.damaged.more(), "damaged place")));
        }
        for (at, before, after) in &self.breaks.first {
            let (before, after) = (digits(*before), digits(*after));
            messages.warn(format_args!(
                "{path}: ticks go back from {before} to {after} at offset {at}; the lines are sorted anyway"
            ));
        }
        if self.breaks.more() > 0 {
            let places = count(self.breaks.more(), "place");
            messages.warn(format_args!("{path}: ticks go back in {places} more"));
        }
        if self.backward > 0 {
            let places = count(self.backward, "place");
            messages.warn(format_args!(
                "{path}: ticks go back in {places}, so the order is not certain there; see its '# backward' lines"
            ));
        }
        if let Some(at) = self.torn {
            messages.warn(format_args!(
                "{path}: the last line, at offset {at}, has no line end and may be incomplete"
            ));
        }
    }
}

fn digits(ticks: u64) -> String {
    String::from_utf8_lossy(&ticks_digits(Ticks(ticks))).into_owned()
}

/// The part of the findings that does not depend on the order in which lines were merged.
#[cfg(test)]
#[derive(Debug, PartialEq)]
pub(crate) struct FindingCounts {
    lines: u64,
    files: Vec<(usize, u64, u64, u64, Option<usize>)>,
    lost: Vec<(String, u64)>,
    lost_unread: u64,
}

#[cfg(test)]
impl From<&Findings> for FindingCounts {
    fn from(all: &Findings) -> FindingCounts {
        let of_file = |(source, file): (&usize, &FileFindings)| {
            (*source, file.damaged.count, file.breaks.count, file.backward, file.torn)
        };
        let lost = all.lost.iter().map(|(reason, records)| (reason.name().to_owned(), *records));
        let otherwise = all.lost_otherwise.iter();
        let otherwise = otherwise.map(|(reason, records)| (reason.as_str().to_owned(), *records));
        let lost = lost.chain(otherwise).sorted();
        FindingCounts {
            lines: all.lines,
            files: all.files.iter().map(of_file).collect(),
            lost: lost.collect(),
            lost_unread: all.lost_unread,
        }
    }
}
