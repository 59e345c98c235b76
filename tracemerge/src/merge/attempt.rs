//! The last stages together: opens the files, merges them and writes; begins anew where a file shows to be out of order.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::find::choose::Chosen;
use crate::find::liveness::asking_once;
use crate::input::findings::Findings;
use crate::input::slice::TickSpan;
use crate::input::source::{Source, split, whole};
use crate::merge::Stop;
use crate::merge::workers::merge_by_all;
use crate::output::progress::{Metered, Progress};
use crate::output::target::Target;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};

/// So often a merge is begun anew because files have become shorter.
const AGAIN: u32 = 3;

/// Maps the files, of each run after asking whether it lives: what a live run writes later does not count.
///
/// # Errors
/// None of the files can be mapped.
pub fn open(chosen: &Chosen, messages: &mut Messages) -> Result<Vec<Vec<Source>>, Error> {
    let mut boots = Vec::with_capacity(chosen.boots.len());
    let mut is_alive = asking_once();
    for files in &chosen.boots {
        let mut sources = Vec::with_capacity(files.len());
        for opened in Source::open_all(files, &mut is_alive) {
            match opened {
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
///
/// # Errors
/// Where the output cannot be written.
pub fn write(
    boots: &mut [Vec<Source>],
    target: &Target,
    messages: &mut Messages,
) -> Result<Option<u64>, Error> {
    // Where bytes cannot be taken back, the files are looked through before the first is written.
    let mut split_first = !target.can_restart();
    let (mut cut, mut again) = (BTreeMap::new(), AGAIN);
    loop {
        let mut output = target.begin()?;
        let bytes = || boots.iter().flatten().map(|source| source.size() as u64).sum();
        let progress = Progress::is_wanted(target).then(|| Progress::new(bytes()));
        let result = attempt(boots, split_first, &mut Metered { out: &mut output, progress });
        let is_shorter = give_up_what_was_cut(boots, &mut cut);
        let stop = match result {
            // Zeros may have been merged, or lines that were there a moment ago.
            Ok(_) if is_shorter && target.can_restart() && again > 0 => {
                output.abandon();
                again -= 1;
                continue;
            }
            Ok(findings) => match target.finish(output) {
                Ok(()) => {
                    boots.iter().zip(&findings).for_each(|(files, found)| found.tell(files, messages));
                    tell_cut(&cut, messages);
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

/// Takes what was cut off out of the files, and notes in `cut` where they end now; returns whether there was such.
fn give_up_what_was_cut(boots: &mut [Vec<Source>], cut: &mut BTreeMap<PathBuf, usize>) -> bool {
    let mut any = false;
    for source in boots.iter_mut().flatten() {
        if source.end_where_truncated() {
            cut.insert(source.path.clone(), source.bytes().len());
            any = true;
        }
    }
    any
}

fn tell_cut(cut: &BTreeMap<PathBuf, usize>, messages: &mut Messages) {
    for (path, end) in cut {
        let (path, end) = (shown(path), count(*end as u64, "byte"));
        messages.warn(format_args!(
            "{path} was cut to {end} while it was read: what stood from there on is missing or damaged"
        ));
    }
}

/// Merges boot after boot; ticks of different boots do not compare.
fn attempt(boots: &[Vec<Source>], split_first: bool, output: &mut impl Write) -> Result<Vec<Findings>, Stop> {
    let one = |sources: &Vec<Source>| {
        let mut findings = Findings::default();
        let pieces = if split_first { split(sources, &mut findings) } else { whole(sources) };
        merge_by_all(sources, &pieces, TickSpan::ALL, output, &mut findings)?;
        Ok(findings)
    };
    boots.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
