//! A renderer for a process that only observes a run: it renders the text that the flusher or a recoverer would write
//! next, but writes no file.

use std::io;

use trace_format::file::Encoding;
use trace_format::life::Looks;
use trace_format::meta::{self, Ended};
use trace_format::render::{Losses, RenderState};
use trace_format::ring::Progress;

use super::{Drain, DrainedRing, PORTION, RunTables, Survivors, TracePlace, first_lines};

/// Renders the records of a ring for a process that only observes the run, without writing a file.
pub struct Observer<'a> {
    drained: DrainedRing<'a>,
    info: &'a meta::Run,
    tables: &'a mut dyn RunTables,
    drain: Drain,
    /// The state of the renderer after everything that is already in the thread's files.
    on_file: RenderState,
}

/// The text that the flusher or a recoverer would append to a thread's file: it follows after the file's published end.
#[derive(Debug, Default)]
pub struct Rest {
    /// The text itself.
    pub text: Vec<u8>,
    /// The number of messages in the text.
    pub records: u64,
    /// The number of lost messages that are reported in the text, but in no file of the thread.
    pub lost: u64,
}

impl<'a> Observer<'a> {
    /// Makes an observer that continues after the records that are already in files: `progress` is what the ring's
    /// consumer has published about them.
    pub fn new(
        drained: DrainedRing<'a>,
        info: &'a meta::Run,
        tables: &'a mut dyn RunTables,
        progress: Progress,
    ) -> Observer<'a> {
        let drain = Drain::continuing_from(drained.header(), progress, Encoding::Text);
        Observer { drained, info, tables, on_file: drain.renderer.state(), drain }
    }

    /// Makes the text begin with the first lines of a file, because the thread's file does not exist any more. The
    /// thread's other files are in the directories of `place`.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn forget_file(&mut self, place: &TracePlace) -> io::Result<()> {
        let (drain, since) = (&mut self.drain, self.drained.since());
        let remaining = place.survey(drain.tid, self.info, since, &drain.progress, None)?;
        drain.leave(&remaining);
        self.on_file = drain.renderer.state();
        Ok(())
    }

    /// Renders the records in `copy`, a copy of the ring of a thread that may still run.
    ///
    /// If `patient` is set, returns `None` if the copy contains a nested record, but not the record inside which it was
    /// made. The caller should then wait and copy the ring again.
    pub fn living(mut self, copy: &Survivors, losses: &Losses, patient: bool) -> Option<Rest> {
        let (consumed, nested_consumed) = self.drain.consumed();
        let (renderer, mut text) = (&mut self.drain.renderer, Vec::new());
        if self.drained.memory.overwrites() {
            copy.report_overwritten(renderer, &mut text);
        }
        let (mut main, mut nested) = copy.records(consumed, nested_consumed);
        renderer.records(&mut main, &mut nested, false, &mut self.tables.references(), usize::MAX, &mut text);
        if nested.peek().is_some() {
            if patient {
                return None;
            }
            renderer.records(
                &mut main,
                &mut nested,
                true,
                &mut self.tables.references(),
                usize::MAX,
                &mut text,
            );
        }
        renderer.losses(losses, &mut text);
        Some(self.finish(text))
    }

    /// Renders the remaining records of a thread of a dead run, as recovery would write them.
    ///
    /// # Errors
    /// The ring is damaged.
    pub fn dead(mut self, ended: Ended) -> io::Result<Rest> {
        let (mut text, mut portion) = (Vec::new(), Vec::new());
        loop {
            portion.clear();
            self.drain.render(self.drained.memory, self.tables, &|| true, PORTION, &mut portion)?;
            if portion.is_empty() {
                break;
            }
            text.append(&mut portion);
        }
        let has_file = self.drain.has_file() || !text.is_empty();
        if has_file && !self.drain.renderer.state().ended {
            let clock = self.drained.looks.and_then(Looks::last);
            self.drain.render_end(self.drained.header(), ended, clock, None, &mut text);
        }
        Ok(self.finish(text))
    }

    fn finish(self, mut text: Vec<u8>) -> Rest {
        if !text.is_empty() && self.drain.progress.file_length == 0 {
            let mut lines = Vec::with_capacity(512 + text.len());
            let thread = (self.drain.tid, None);
            first_lines(thread, Encoding::Text, self.drained, self.info, &self.on_file, &mut lines);
            lines.append(&mut text);
            text = lines;
        }
        let state = self.drain.renderer.state();
        let records = state.records.saturating_sub(self.on_file.records);
        // If there is no file, no file contains the reports of the one that was removed.
        let has_file = self.drain.progress.file_length > 0;
        let on_file = if has_file { self.on_file.lost } else { self.on_file.in_earlier_files.lost };
        let lost = state.lost.iter().zip(on_file).map(|(now, on_file)| now.saturating_sub(on_file));
        Rest { text, records, lost: lost.fold(0, u64::saturating_add) }
    }
}
