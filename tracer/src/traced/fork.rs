//! A forked child, which becomes a run of its own when it makes its first record. The new run belongs to the same tree
//! of forks as the parent's run.

use super::decision;
use crate::shared::process::current;
use crate::shared::run::Run;
use crate::words::exclusion::Excluded;

/// Returns the run of this process, if the process traces; in a forked child, first starts a run of its own. Returns
/// `None` if there is no run, or if it cannot be started.
pub(super) fn run_of_this_process(excluded: &Excluded) -> Option<&'static Run> {
    if !decision::settle(excluded) {
        return None;
    }
    let run = current()?;
    if !run.is_of_this_process() {
        decision::decide_in_child(excluded, run);
    }
    current().filter(|run| run.is_of_this_process())
}
