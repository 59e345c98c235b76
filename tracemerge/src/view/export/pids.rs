//! Process numbers for formats that identify a process only by a number: if several processes have the same id, they
//! get different numbers.

use std::collections::BTreeSet;

use crate::view::export::events::{Inventory, sentences};

/// The first of the numbers for processes whose id is unknown or was already used by an earlier process. All process
/// ids of Linux are below it.
const OWN_PIDS: u32 = 1 << 22;

/// The numbers that a format writes in place of process ids.
#[derive(Debug, Default)]
pub(crate) struct Pids {
    /// For each process of the inventory, its number in the output.
    known: Vec<Option<u32>>,
    given: BTreeSet<u32>,
    /// The count of processes whose number is not their id, because an earlier process has the same id.
    renumbered: u64,
}

impl Pids {
    /// Returns the number of a process in the output, and whether this is the first call for the process.
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

    /// Returns a sentence with the count of processes whose number is not their id, if there are any.
    #[must_use]
    pub(crate) fn omissions(&self) -> Vec<String> {
        sentences([(self.renumbered, "process", "with the id of another process: numbered from 4194304 on")])
    }
}
