//! The last stages together: opens the files, merges them and writes; begins anew where a file shows to be out of order.

use std::io;

use crate::choose::Chosen;
use crate::error::Error;
use crate::findings::Findings;
use crate::merge::Stop;
use crate::messages::{Messages, shown};
use crate::pipeline::asking_once;
use crate::pool::merge_by_all;
use crate::slice::Span;
use crate::source::{Source, split, whole};
use crate::write::{Output, Target};

/// Maps the files, of each run after asking whether it lives: what a live run writes later does not count.
///
/// # Errors
/// Where none can be mapped.
pub fn open(chosen: &Chosen, messages: &mut Messages) -> Result<Vec<Vec<Source>>, Error> {
    let mut boots = Vec::with_capacity(chosen.boots.len());
    let mut is_alive = asking_once();
    for files in &chosen.boots {
        let mut sources = Vec::with_capacity(files.len());
        for trace in files {
            match Source::open(trace, is_alive(trace)) {
                Ok(parts) => sources.extend(parts),
                Err(error) => messages.warn(error),
            }
        }
        boots.push(sources);
    }
    if boots.iter().all(Vec::is_empty) {
        return Err(Error::plain("none of the trace files can be read"));
    }
    Ok(boots)
}

/// Merges and writes, and tells what was found on the way; returns the number of lines, or `None` where the
/// reader of a pipe went away.
pub fn write(boots: &[Vec<Source>], target: &Target, messages: &mut Messages) -> Result<Option<u64>, Error> {
    // Where bytes cannot be taken back, the files are looked through before the first is written.
    let mut split_first = !target.can_restart();
    loop {
        let mut output = target.begin()?;
        let stop = match attempt(boots, split_first, &mut output) {
            Ok(findings) => match target.finish(output) {
                Ok(()) => {
                    boots.iter().zip(&findings).for_each(|(files, found)| found.tell(files, messages));
                    return Ok(Some(findings.iter().map(|found| found.lines).sum()));
                }
                Err(error) => Stop::Write(error),
            },
            Err(stop) => {
                output.abandon();
                stop
            }
        };
        match stop {
            Stop::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
            Stop::Write(error) => return Err(target.error(error)),
            Stop::Backward { .. } if !split_first => split_first = true,
            Stop::Backward { path } => {
                return Err(Error::plain(format!("{} was changed while it was read", shown(&path))));
            }
        }
    }
}

/// Merges boot after boot; ticks of different boots do not compare.
fn attempt(boots: &[Vec<Source>], split_first: bool, output: &mut Output) -> Result<Vec<Findings>, Stop> {
    let one = |sources: &Vec<Source>| {
        let mut findings = Findings::default();
        let pieces = if split_first { split(sources, &mut findings) } else { whole(sources) };
        merge_by_all(sources, &pieces, Span::ALL, output, &mut findings)?;
        Ok(findings)
    };
    boots.iter().map(one).collect()
}
