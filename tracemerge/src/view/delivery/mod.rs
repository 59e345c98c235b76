//! The steps from the plan to the output: merging the planned bytes, converting the records into a format, and writing.
//! All steps are repeated if the lines of a file turn out to be out of order, or if a file is truncated meanwhile, as
//! long as nobody can have read the output.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::file::rendered::RecordNeeds;
use crate::input::findings::Findings;
use crate::input::inputs::Inputs;
use crate::input::site_catalog::SiteCatalog;
use crate::input::source::{SortedRange, Source};
use crate::merge::Stop;
use crate::merge::merged_lines::MergedLines;
use crate::merge::workers::merge_by_all;
use crate::output::draft::Draft;
use crate::output::progress::MergeProgress;
use crate::output::sink::Batch;
use crate::output::target::Target;
use crate::ui::console::Content;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};
use crate::view::batch::{Formatted, RecordBatch, Unformatted};
use crate::view::export::{Export, Exporting};
use crate::view::lines_to_records::RecordSink;
use crate::view::plan::Plan;
use crate::view::select::{Amount, Limit, Selection, is_limit_reached};
use crate::view::thread_by_thread;

/// The maximum number of times that a merge is repeated because files were truncated meanwhile.
const RESTARTS: u32 = 3;
/// The largest number of wanted first or last records for which the output is kept in memory until all lines are known
/// to be in order. If more records are wanted, and written output cannot be taken back, the files are examined
/// beforehand.
const KEPT_RECORDS: usize = 1 << 16;

/// Everything that is needed to write a selected part of the traces, in a format, to a destination.
pub(crate) struct Delivery<'a, 'v> {
    /// The traces whose records are written.
    pub inputs: &'a mut Inputs,
    /// The plan: which bytes of the traces are merged.
    pub plan: &'a mut Plan<'v>,
    /// The selection: which records of the planned bytes are written.
    pub selection: &'a Selection,
    /// A function that creates the format anew for each attempt to write the output.
    pub format: &'a dyn Fn() -> Box<dyn Export>,
    /// The destination of the output.
    pub target: &'a Target,
    /// The type of the output's content, such as text.
    pub content: Content,
    /// Whether a pager shows the output.
    pub paged: bool,
}

impl Delivery<'_, '_> {
    /// Merges and writes the wanted lines, and reports the findings to the user. Returns the number of lines;
    /// `None` if the reader of a pipe has closed it.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written, or if files keep changing.
    pub(crate) fn write(self, messages: &mut Messages) -> Result<Option<u64>, Error> {
        let is_kept = match self.selection.amount {
            Amount::First(wanted) | Amount::Last(wanted) => wanted <= KEPT_RECORDS,
            Amount::All => false,
        };
        let can_restart = is_kept || self.target.can_restart() && !self.paged;
        // If written bytes cannot be taken back, the files are examined before the first byte is written.
        let mut is_looked_through = !can_restart;
        if is_looked_through {
            self.plan.check_all_bytes(self.inputs)?;
        }
        let (mut truncated, mut restarts) = (BTreeMap::new(), RESTARTS);
        loop {
            let mut draft = if is_kept {
                Draft::Memory {
                    bytes: Vec::new(),
                    target: self.target,
                    content: self.content,
                    paged: self.paged,
                }
            } else {
                Draft::begin(self.target, self.content, self.paged)?
            };
            let result = self.attempt(draft.writer());
            let is_shorter = self.inputs.give_up_truncated(&mut truncated);
            let stop = match result {
                // The merge may have read zeros in place of lines, or lines that no longer exist.
                Ok(_) if is_shorter && can_restart && restarts > 0 => {
                    draft.abandon();
                    restarts -= 1;
                    is_looked_through = false;
                    self.plan.restart_plan(self.inputs)?;
                    continue;
                }
                Ok((lines, findings, omissions)) => match draft.finish()? {
                    Ok(()) => {
                        let boots = self.inputs.boots.iter().zip(&findings);
                        boots.for_each(|(sources, found)| {
                            found.report_to_user(|source| &sources[source].path, messages)
                        });
                        report_truncated(&truncated, messages);
                        omissions.iter().for_each(|sentence| messages.note(sentence));
                        return Ok(Some(lines));
                    }
                    Err(error) => Stop::Write(error),
                },
                Err(stop) => {
                    draft.abandon();
                    stop
                }
            };
            match stop {
                Stop::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
                Stop::Write(error) => return Err(self.target.error(error)),
                Stop::Backward { .. } if !is_looked_through => {
                    is_looked_through = true;
                    if is_shorter {
                        self.plan.restart_plan(self.inputs)?;
                    }
                    self.plan.check_all_bytes(self.inputs)?;
                }
                Stop::Backward { path } => {
                    return Err(Error::plain(format!(
                        "{} was changed while it was read: run the command again",
                        shown(&path)
                    )));
                }
            }
        }
    }

    /// Merges the wanted lines into `out`, whose content cannot be replaced later, and reports the findings to the
    /// user.
    ///
    /// # Errors
    /// Returns an error if files are out of order, or change while they are read, or if writing to `out` fails.
    #[cfg(feature = "parquet")]
    pub(crate) fn write_once(self, out: &mut dyn Write, messages: &mut Messages) -> Result<(), Stop> {
        let (_, findings, omissions) = self.attempt(out)?;
        let boots = self.inputs.boots.iter().zip(&findings);
        boots.for_each(|(sources, found)| found.report_to_user(|source| &sources[source].path, messages));
        omissions.iter().for_each(|sentence| messages.note(sentence));
        Ok(())
    }

    /// Merges the wanted lines into memory, and discards the findings.
    ///
    /// # Errors
    /// Returns an error if files are out of order, or change while they are read.
    pub(crate) fn write_into(self, out: &mut Vec<u8>) -> Result<(), Stop> {
        self.attempt(out).map(|_| ())
    }

    /// Merges one boot after another, because ticks of different boots cannot be compared. Returns the number
    /// of lines, the findings of each boot, and sentences about the things that the format omits.
    fn attempt(&self, out: &mut dyn Write) -> Result<(u64, Vec<Findings>, Vec<String>), Stop> {
        let mut format = (self.format)();
        let origins = &self.inputs.origins[..];
        let mut text = Vec::new();
        format.begin(origins, &mut text);
        out.write_all(&text)?;
        let (selection, amount) = (self.selection, self.selection.amount);
        let catalog = selection.sites.as_ref().map(|sites| &sites.catalog);
        let wanted = RecordNeeds {
            sites: catalog.map(SiteCatalog::numbers),
            values: catalog.is_some_and(|catalog| catalog.has_values()),
            calls: format.takes_calls(),
        };
        let with_calls = wanted.calls;
        let wanted = (wanted.calls || wanted.sites.is_some()).then_some(&wanted);
        let (lines, findings) = if format.is_verbatim() && selection.is_all() {
            let make = |_, sources| MergedLines::new(sources);
            let findings = self.merge(None, &make, &mut |lines| lines.write(&mut &mut *out))?;
            (findings.iter().map(|found| found.lines).sum(), findings)
        } else if let Some(findings) = self.count_thread_by_thread(&mut *format) {
            (findings.iter().map(|found| found.lines).sum(), findings)
        } else if let Some(copy) = format.copies().filter(|_| amount == Amount::All) {
            let mut lines = 0;
            let make =
                |first, _: &[Source]| RecordBatch::new(selection, first, Formatted::new(copy(), origins));
            let findings = self.merge(wanted, &make, &mut |batch| {
                lines += batch.held().lines;
                out.write_all(&batch.held().text)
            })?;
            (lines, findings)
        } else {
            let mut limit = Limit::new(amount, Exporting::new(&mut *format, origins, out));
            let make = |first, _: &[Source]| RecordBatch::new(selection, first, Unformatted::new(with_calls));
            let findings = self.merge(wanted, &make, &mut |batch| {
                batch.held().records().try_for_each(|record| limit.record(&record))
            })?;
            (limit.finish()?.finish()?, findings)
        };
        text.clear();
        format.finish(&mut text);
        out.write_all(&text)?;
        let mut has_more = true;
        while has_more {
            text.clear();
            has_more = format.further_part(&mut text)?;
            out.write_all(&text)?;
        }
        Ok((lines, findings, format.omissions()))
    }

    /// Passes all records to a format that only counts calls, without a merge. Returns the findings of each
    /// boot. Returns `None`, and leaves the format unchanged, if a merge is needed.
    fn count_thread_by_thread(&self, format: &mut dyn Export) -> Option<Vec<Findings>> {
        let counts = format.call_counts().filter(|_| self.selection.takes_all())?;
        let mut all = counts.anew();
        let findings = thread_by_thread::count(&mut all, self.inputs, self.plan)?;
        *counts = all;
        Some(findings)
    }

    /// Merges the traces of each boot into batches, and passes the batches to `write`. `wanted` says which details the
    /// records of a batch contain. `make` makes a batch from the index of the boot's first source among all sources,
    /// and from the boot's sources. Returns the findings of each boot.
    fn merge<'s, B: Batch>(
        &'s self,
        wanted: Option<&RecordNeeds>,
        make: &(impl Fn(usize, &'s [Source]) -> B + Sync),
        write: &mut impl FnMut(&B) -> io::Result<()>,
    ) -> Result<Vec<Findings>, Stop> {
        let ranges = self.plan.ranges.iter().flatten();
        let bytes = ranges.map(|range| (range.end - range.start) as u64).sum();
        let mut progress = MergeProgress::is_wanted(self.target).then(|| MergeProgress::new(bytes));
        let mut all = Vec::with_capacity(self.inputs.boots.len());
        let mut first = 0;
        for (sources, period) in self.inputs.boots.iter().zip(&self.plan.periods) {
            let here = first..first + sources.len();
            let ranges: Vec<SortedRange> = self.plan.ranges[here.clone()].iter().flatten().copied().collect();
            let mut findings = Findings::default();
            self.plan.add_known_breaks(first, sources, &mut findings);
            let mut write = |batch: &B| {
                if let Some(progress) = &mut progress {
                    progress.add(batch.merged());
                }
                write(batch)
            };
            let make = || make(here.start, sources);
            let merged = merge_by_all(sources, &ranges, *period, wanted, &make, &mut write, &mut findings);
            first = here.end;
            all.push(findings);
            match merged {
                Err(Stop::Write(error)) if is_limit_reached(&error) => break,
                merged => merged?,
            }
        }
        Ok(all)
    }
}

/// Warns of each file that was truncated while it was read, with its new length.
fn report_truncated(ends: &BTreeMap<PathBuf, usize>, messages: &mut Messages) {
    for (path, end) in ends {
        let (path, end) = (shown(path), count(*end as u64, "byte"));
        messages.warn(format_args!(
            "{path} was truncated to {end} while it was read: the later records are missing or damaged"
        ));
    }
}

#[cfg(test)]
mod tests;
