//! The process numbers in formats that identify a process only by a number: processes with the same id get different
//! numbers.

use std::collections::BTreeSet;

use crate::view::export::events::{Inventory, sentences};

/// The first of the numbers for processes whose id is unknown or belongs to an earlier process. No process id of
/// Linux is as great.
const OWN_PIDS: u32 = 1 << 22;

/// The numbers that a format writes in place of process ids.
#[derive(Debug, Default)]
pub(crate) struct Pids {
    /// The number that each process of the inventory has in the output.
    known: Vec<Option<u32>>,
    given: BTreeSet<u32>,
    /// The count of processes that have another number than their id, because an earlier process has the same id.
    renumbered: u64,
}

impl Pids {
    /// Returns the number of a process in the output, and whether the function was called for the process for the
    /// first time.
    pub(crate) fn of(&mut self, process: usize, inventory: &Inventory) -> (u32, bool) {
        self.known.resize(self.known.len().max(process + 1), None);
        if let Some(pid) = self.known[process] {
            return (pid, false);
        }
        let mut pid = inventory.processes()[process].pid();
        if pid == 0 || !self.given.insert(pid) {
            self.renumbered += u64::from(pid != 0);
            pid = OWN_PIDS + u32::try_from(process).unwrap_or(0);
            self.given.insert(pid);
        }
        self.known[process] = Some(pid);
        (pid, true)
    }

    /// Returns a sentence with the count of processes whose number differs from their id, if there are any.
    #[must_use]
    pub(crate) fn omissions(&self) -> Vec<String> {
        sentences([(self.renumbered, "process", "with the id of another process: numbered from 4194304 on")])
    }
}
