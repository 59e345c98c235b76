//! A merge as work that threads share: jobs, taken one after the other.
//!
//! What is to be done next is decided by one at a time, what takes long is done in jobs. Here they are all done by one
//! thread, in [`crate::merge::workers`] by several.

use crate::file::truncation;
use crate::input::findings::Findings;
use crate::input::slice::{PartLines, SlicePart};
use crate::input::source::Source;
use crate::merge::Stop;
use crate::output::sink::Sink;

/// What there is to do, to merge all.
pub trait MergeWork<'a>: Send {
    /// A part of it.
    type Job: Send;

    /// About how many bytes there are to merge.
    fn bytes(&self) -> usize;

    /// What the next thread that asks is to do.
    fn next(&mut self) -> Turn<Self::Job>;

    /// Does a job. It may be done again as long as it is not [done](Self::done), to the same effect; what it has passed
    /// on before is forgotten then. So it is where a file was cut meanwhile.
    ///
    /// # Errors
    /// See [`Stop`].
    fn run<S: Sink>(
        sources: &'a [Source],
        job: &mut Self::Job,
        room: &mut Room,
        out: &mut S,
    ) -> Result<(), Stop>;

    /// Takes note that a job is done. Returns what is not needed any more as soon as its lines are written.
    fn done(&mut self, job: Self::Job) -> Vec<SlicePart>;

    /// What was found, when all is done.
    fn findings(self) -> Findings;
}

/// The next thing that a thread has to do.
#[derive(Debug)]
pub enum Turn<J> {
    /// A job that passes on no lines.
    Silent(J),
    /// A job whose lines stand behind those of all jobs that were given out before.
    Lines(J),
    /// Nothing, before another job is done.
    Wait,
    /// Nothing any more.
    End,
}

/// Room that jobs need, kept from one to the next.
#[derive(Debug, Default)]
pub struct Room {
    /// For lines that are made.
    pub text: Vec<u8>,
    /// For where lines are, in order.
    pub order: Vec<u64>,
}

/// Does all jobs in this thread, and returns what was found.
///
/// # Errors
/// See [`Stop`].
pub fn all<'a, S: Sink, W: MergeWork<'a>>(
    mut work: W,
    sources: &'a [Source],
    out: &mut S,
) -> Result<Findings, Stop> {
    let mut room = Room::default();
    loop {
        match work.next() {
            Turn::Silent(job) => {
                let job = silently::<W>(sources, job, &mut room)?;
                work.done(job);
            }
            Turn::Lines(mut job) => {
                W::run(sources, &mut job, &mut room, out)?;
                forget(sources, &work.done(job));
            }
            Turn::Wait | Turn::End => return Ok(work.findings()),
        }
    }
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

/// Does something again and again, until no file was cut meanwhile: zeros may have been read in the place of lines.
///
/// # Errors
/// The errors of `run`.
pub fn unless_truncated(mut run: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
    loop {
        let truncations = truncation::count();
        run()?;
        if truncations == truncation::count() {
            return Ok(());
        }
    }
}

/// Says that these bytes were read for the last time.
pub fn forget(sources: &[Source], parts: &[SlicePart]) {
    for part in parts {
        if let PartLines::Text(range) = &part.lines {
            sources[part.source].forget(range.clone());
        }
    }
}
