//! A merge as work that threads share: jobs, taken one after the other.
//!
//! One thread at a time decides what is to be done next; the jobs do what takes long, see
//! [`crate::merge::workers`].

use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, SlicePart};
use crate::input::source::Source;
use crate::merge::Stop;
use crate::output::sink::Sink;

/// All the work of a merge.
pub trait MergeWork<'a>: Send {
    /// A part of the work.
    type Job: Send;

    /// About how many bytes there are to merge.
    fn bytes(&self) -> usize;

    /// Decides what the next thread that asks is to do.
    fn next(&mut self) -> Turn<Self::Job>;

    /// Does a job. As long as the job is not [done](Self::done) it may be done again, to the same effect;
    /// what it has passed on before is forgotten then. That happens when a file was truncated meanwhile.
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

    /// Returns what was found, when all is done.
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

/// Does something again and again, until no file was truncated meanwhile: zeros may have been read in the
/// place of lines.
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

/// Says that these parts of the sources were read for the last time.
pub fn forget(sources: &[Source], parts: &[SlicePart]) {
    for part in parts {
        if let PartLines::Text(range) = &part.lines {
            sources[part.source].forget(range.clone());
        }
    }
}
