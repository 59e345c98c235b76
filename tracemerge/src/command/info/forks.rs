//! Trees of forked processes: a program's run and the runs of its forks. A `# run` line names only the run at the root
//! of its tree, not the parents between.

use std::collections::BTreeMap;

use crate::command::info::model::{ForkTree, RunInfo};

/// Groups `runs` into trees of forked processes, by boot and root, in the order in which the trees appear; sets
/// `root_pid` in each run.
pub(super) fn trees(runs: &mut [RunInfo]) -> Vec<ForkTree> {
    let mut trees: Vec<ForkTree> = Vec::new();
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for run in runs.iter() {
        let (Some(id), Some(root), Some(boot)) = (&run.run, &run.root, &run.boot) else { continue };
        let place = *known.entry((boot.clone(), root.clone())).or_insert_with(|| {
            trees.push(ForkTree { root: root.clone(), root_pid: None, boot: boot.clone(), runs: Vec::new() });
            trees.len() - 1
        });
        trees[place].runs.push(id.clone());
        if id == root {
            trees[place].root_pid = run.pid;
        }
    }
    for run in runs {
        let (Some(root), Some(boot)) = (&run.root, &run.boot) else { continue };
        let tree = known.get(&(boot.clone(), root.clone())).map(|place| &trees[*place]);
        run.root_pid = tree.and_then(|tree| tree.root_pid);
    }
    trees
}
