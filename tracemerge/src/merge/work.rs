//! The interface by which threads share the work of a merge: jobs, which are taken one after the other.
//!
//! One thread at a time decides which job is next; the jobs do the work that takes long.
//! [`crate::merge::workers`] has the threads.

use crate::file::records::Records;
use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, SlicePart};
use crate::input::source::Source;
use crate::merge::Stop;
use crate::output::sink::Sink;

/// The work of a merge, which threads share.
pub trait MergeWork<'a>: Send {
    /// A part of the work, which one thread does.
    type Job: Send;

    /// Returns the number of bytes to merge, roughly.
    fn bytes(&self) -> usize;

    /// Decides the turn of the next thread that asks.
    fn next(&mut self) -> Turn<Self::Job>;

    /// Does a job, and passes on its lines to `out`. As long as the job is not noted as [done](Self::done),
    /// it may be done again to the same effect, as happens when a file was truncated meanwhile; the lines
    /// that it has passed on before are forgotten then.
    ///
    /// # Errors
    /// See [`Stop`].
    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut Self::Job,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop>;

    /// Notes that a job is done. Returns the parts of sources that are not needed any more as soon as the
    /// job's lines are written.
    fn done(&mut self, job: Self::Job) -> Vec<SlicePart>;

    /// Returns the findings, after the last job.
    fn findings(self) -> Findings;
}

/// The next thing for a thread to do.
#[derive(Debug)]
pub enum Turn<J> {
    /// A job that passes on no lines.
    Silent(J),
    /// A job whose lines stand behind those of all jobs that were given out before.
    Lines(J),
    /// The thread has to wait until another job is done.
    Wait,
    /// There is nothing left to do.
    End,
}

/// Memory that jobs need, kept from one to the next.
#[derive(Debug, Default)]
pub struct Room {
    /// Memory for rendered lines.
    pub text: Vec<u8>,
    /// Memory for the sorted places of lines.
    pub order: Vec<u64>,
    /// Memory for decoded records.
    pub records: Vec<Records>,
}

/// Does a job that passes on no lines.
///
/// # Errors
/// See [`Stop`].
pub fn silently<'a, W: MergeWork<'a>>(
    sources: &'a [Source],
    mut job: W::Job,
    room: &mut Room,
) -> Result<W::Job, Stop> {
    unless_truncated(|| W::run(sources, &mut job, room, &mut std::io::sink()))?;
    Ok(job)
}

/// Calls `run` again and again until no file was truncated meanwhile. If one was, zeros may have been read in
/// the place of lines.
///
/// # Errors
/// The first error of `run`.
pub fn unless_truncated(mut run: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
    loop {
        let truncations = truncation::count();
        run()?;
        if truncations == truncation::count() {
            return Ok(());
        }
    }
}

/// Tells `sources` that these `parts` of them were read for the last time.
pub fn forget(sources: &[Source], parts: &[SlicePart]) {
    for part in parts {
        if let PartLines::Text(range) = &part.lines {
            sources[part.source].forget(range.clone());
        }
    }
}
