//! Renders what the flusher or a recoverer would write next, for an onlooker, who writes nothing.

use std::io;

use trace_format::file::Encoding;
use trace_format::life::Looks;
use trace_format::meta::{self, Ended};
use trace_format::render::{Losses, RenderState};
use trace_format::ring::Progress;

use super::{Drain, DrainedRing, PORTION, RunTables, Survivors, TracePlace, first_lines};

/// A drain without a file of its own.
pub struct Onlooker<'a> {
    drained: DrainedRing<'a>,
    info: &'a meta::Run,
    tables: &'a mut dyn RunTables,
    drain: Drain,
    /// The state in which the thread's file, and earlier ones, have left the renderer.
    told: RenderState,
}

/// Text that belongs behind the published end of a thread's file.
#[derive(Debug, Default)]
pub struct Rest {
    /// The text itself.
    pub text: Vec<u8>,
    /// The number of messages in the text.
    pub records: u64,
    /// The number of messages that the text tells lost, and that no file of the thread does.
    pub lost: u64,
}

impl<'a> Onlooker<'a> {
    /// Goes on from `progress`, which was published by the ring's consumer.
    pub fn new(
        drained: DrainedRing<'a>,
        info: &'a meta::Run,
        tables: &'a mut dyn RunTables,
        progress: Progress,
    ) -> Onlooker<'a> {
        let drain = Drain::going_on_from(drained.header(), progress, Encoding::Text);
        Onlooker { drained, info, tables, told: drain.renderer.state(), drain }
    }

    /// Notes that there is no file where there should be one: the text begins another. The thread's files are
    /// in `place`.
    ///
    /// # Errors
    /// A file that is there cannot be read.
    pub fn forget_file(&mut self, place: &TracePlace) -> io::Result<()> {
        let (drain, since) = (&mut self.drain, self.drained.since());
        let remaining = place.survey(drain.tid, self.info, since, &drain.progress, None)?;
        drain.leave(&remaining);
        self.told = drain.renderer.state();
        Ok(())
    }

    /// Renders what `copy` has of a thread that may go on. Returns `None` where a nested record waits for the
    /// record that it was made in, and may be waited for.
    pub fn living(mut self, copy: &Survivors, losses: &Losses, patient: bool) -> Option<Rest> {
        let (consumed, nested_consumed) = self.drain.consumed();
        let (renderer, mut text) = (&mut self.drain.renderer, Vec::new());
        if self.drained.memory.overwrites() {
            copy.tell_overwritten(renderer, &mut text);
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

    /// Renders all that is left of a thread of a dead run, as recovery would write it.
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
            first_lines(thread, Encoding::Text, self.drained, self.info, &self.told, &mut lines);
            lines.append(&mut text);
            text = lines;
        }
        let state = self.drain.renderer.state();
        let records = state.records.saturating_sub(self.told.records);
        // Without a file, what was told in one that is gone stands nowhere.
        let has_file = self.drain.progress.file_length > 0;
        let told = if has_file { self.told.lost } else { self.told.elsewhere.lost };
        let lost = state.lost.iter().zip(told).map(|(now, told)| now.saturating_sub(told));
        Rest { text, records, lost: lost.fold(0, u64::saturating_add) }
    }
}
