//! The interface of a merge's work, which consists of jobs: threads share the work by taking one job after another.
//!
//! One thread at a time decides which job is next; the jobs do the work that takes long. The threads are in
//! [`crate::merge::workers`].

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

    /// Returns the approximate number of bytes to merge.
    fn bytes(&self) -> usize;

    /// Returns the next action of the calling thread.
    fn next(&mut self) -> Turn<Self::Job>;

    /// Runs a job, and passes its lines to `out`. Until the job is marked as [done](Self::done), it can be run again
    /// with the same effect, as happens if a file was truncated meanwhile; the caller then discards the lines of the
    /// first attempt.
    ///
    /// # Errors
    /// See [`Stop`].
    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut Self::Job,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop>;

    /// Marks a job as done. Returns the parts of sources that are not needed any more once the job's lines are written.
    fn done(&mut self, job: Self::Job) -> Vec<SlicePart>;

    /// Returns the findings of the whole merge, after the last job.
    fn findings(self) -> Findings;
}

/// The next action of a thread that takes part in a merge.
#[derive(Debug)]
pub(crate) enum Turn<J> {
    /// The thread does this job, which passes on no lines.
    WithoutOutput(J),
    /// The thread does this job, whose lines come after the lines of all jobs that were handed out before.
    Lines(J),
    /// The thread has to wait until another job is done.
    Wait,
    /// Nothing is left to do.
    End,
}

/// Memory of one thread for its jobs, kept from one job to the next.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Memory for rendered lines.
    pub text: Vec<u8>,
    /// Memory for the numbers by which a bucket's stretches are sorted.
    pub order: Vec<u64>,
    /// Memory for decoded records.
    pub records: Vec<Records>,
    /// Memory for the merge of a slice whose lines are represented by words, 64-bit numbers.
    pub in_order: InOrderRoom,
}

/// Runs a job that passes on no lines, and returns the job.
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

/// Calls `run` repeatedly until no file was truncated during a call. After a truncation, `run` may have read zeros in
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

/// Marks these `parts` of `sources` as read for the last time, so that the system may use their memory for something
/// else.
pub(crate) fn forget(sources: &[Source], parts: &[SlicePart]) {
    for part in parts {
        if let PartLines::Text(range) = &part.lines {
            sources[part.source].forget(range.clone());
        }
    }
}
