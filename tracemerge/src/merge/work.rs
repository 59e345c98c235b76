//! The interface through which threads share the work of a merge: jobs, which threads take one after the other.
//!
//! One thread at a time decides which job is next; the jobs do the work that takes long. [`crate::merge::workers`]
//! has the threads.

use crate::file::records::Records;
use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, SlicePart};
use crate::input::source::Source;
use crate::merge::Stop;
use crate::merge::in_order::InOrderRoom;
use crate::output::sink::Sink;

/// The work of a merge, which threads share.
pub(crate) trait MergeWork<'a>: Send {
    /// A part of the work, which one thread does.
    type Job: Send;

    /// Returns the number of bytes to merge, roughly.
    fn bytes(&self) -> usize;

    /// Returns the next turn of the thread that calls this.
    fn next(&mut self) -> Turn<Self::Job>;

    /// Does a job, and passes on its lines to `out`. Until the job is noted as [done](Self::done), it can be done
    /// again with the same effect, as happens if a file was truncated meanwhile; then the caller discards the lines
    /// of the run before.
    ///
    /// # Errors
    /// See [`Stop`].
    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut Self::Job,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop>;

    /// Notes that a job is done. Returns the parts of sources that are not needed any more once the job's lines are
    /// written.
    fn done(&mut self, job: Self::Job) -> Vec<SlicePart>;

    /// Returns the findings, after the last job.
    fn findings(self) -> Findings;
}

/// The next step of a thread.
#[derive(Debug)]
pub(crate) enum Turn<J> {
    /// A job that passes on no lines.
    WithoutOutput(J),
    /// A job whose lines come after those of all jobs that were handed out before.
    Lines(J),
    /// The thread has to wait until another job is done.
    Wait,
    /// Nothing is left to do.
    End,
}

/// Memory that jobs need, kept from one job to the next.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Memory for rendered lines.
    pub text: Vec<u8>,
    /// Memory for the sorted places of lines.
    pub order: Vec<u64>,
    /// Memory for decoded records.
    pub records: Vec<Records>,
    /// Memory for the words of lines.
    pub in_order: InOrderRoom,
}

/// Does a job that passes on no lines.
///
/// # Errors
/// See [`Stop`].
pub(crate) fn run_without_output<'a, W: MergeWork<'a>>(
    sources: &'a [Source],
    mut job: W::Job,
    room: &mut Room,
) -> Result<W::Job, Stop> {
    unless_truncated(|| W::run(sources, &mut job, room, &mut std::io::sink()))?;
    Ok(job)
}

/// Calls `run` repeatedly until no file was truncated meanwhile. After a truncation, `run` may have read zeros in
/// place of lines.
///
/// # Errors
/// The first error of `run`.
pub(crate) fn unless_truncated(mut run: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
    loop {
        let truncations = truncation::count();
        run()?;
        if truncations == truncation::count() {
            return Ok(());
        }
    }
}

/// Marks these `parts` of `sources` as read for the last time.
pub(crate) fn forget(sources: &[Source], parts: &[SlicePart]) {
    for part in parts {
        if let PartLines::Text(range) = &part.lines {
            sources[part.source].forget(range.clone());
        }
    }
}
