//! Between *read* and *merge*: which runs are merged, and in which order their files stand.
//!
//! A run is one process's life: (boot, pid, id). Runs of the same root are a group: a program and its forks.
//! The order here is the tie part of the merge's total order: pid, run id, thread id, number in the name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use trace_format::meta::Run;
use trace_format::wall::Wall;

use crate::header::Trace;

/// What the user wants merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The newest group and the runs that overlap it in time.
    Newest,
    /// Everything.
    All,
    /// The group of the process `pid` that began at `since` or later.
    Process {
        /// The process.
        pid: u32,
        /// Earlier runs are others' that had the same pid.
        since: Wall,
    },
    /// The runs of the process `pid` that began at `since` or later, and not what it forked.
    Alone {
        /// The process.
        pid: u32,
        /// Earlier runs are others' that had the same pid.
        since: Wall,
    },
}

/// What is merged.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The files, by boot in the order of time, each boot's in the order of ties.
    pub boots: Vec<Vec<Trace>>,
    /// How many runs they are of.
    pub runs: usize,
    /// How many runs are left out ...
    pub left_out_runs: usize,
    /// ... and how many files that are.
    pub left_out_files: usize,
}

impl Chosen {
    /// All that was chosen of several applications; what was found twice counts once.
    #[must_use]
    pub fn together(parts: Vec<Chosen>) -> Chosen {
        let left_out_runs = parts.iter().map(|part| part.left_out_runs).sum();
        let left_out_files = parts.iter().map(|part| part.left_out_files).sum();
        let mut known = HashSet::new();
        let mut files: Vec<Trace> = parts.into_iter().flat_map(|part| part.boots).flatten().collect();
        files.retain(|trace| known.insert((trace.id.clone(), trace.path.clone())));
        let runs = summaries(&files).len();
        sort_for_ties(&mut files);
        Chosen { boots: by_boot(files), runs, left_out_runs, left_out_files }
    }
}

/// A run's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunId {
    boot: Vec<u8>,
    pid: u32,
    id: u32,
}

impl RunId {
    fn of(run: &Run) -> RunId {
        RunId { boot: run.boot.clone(), pid: run.pid, id: run.id }
    }
}

/// What all files of a run say together.
struct Summary {
    root: u32,
    wall: Wall,
    first: u64,
    last: u64,
}

/// Chooses among `traces`, and sorts what is chosen.
#[must_use]
pub fn choose(traces: Vec<Trace>, choice: Choice) -> Chosen {
    let runs = summaries(&traces);
    let wanted: BTreeSet<RunId> = match choice {
        Choice::All => runs.keys().cloned().collect(),
        Choice::Newest => newest(&runs),
        Choice::Process { pid, since } => of_process(&runs, pid, since),
        Choice::Alone { pid, since } => {
            let own = runs.iter().filter(|(id, run)| id.pid == pid && run.wall >= since);
            own.map(|(id, _)| id.clone()).collect()
        }
    };
    // Files that do not name their run: nobody can say that they are not meant.
    let strays = matches!(choice, Choice::Newest | Choice::All);
    let (mut chosen, left): (Vec<Trace>, Vec<Trace>) = traces
        .into_iter()
        .partition(|trace| trace.run.as_ref().map_or(strays, |run| wanted.contains(&RunId::of(run))));
    sort_for_ties(&mut chosen);
    Chosen {
        boots: by_boot(chosen),
        runs: wanted.len(),
        left_out_runs: runs.len() - wanted.len(),
        left_out_files: left.len(),
    }
}

fn summaries(traces: &[Trace]) -> BTreeMap<RunId, Summary> {
    let mut runs: BTreeMap<RunId, Summary> = BTreeMap::new();
    for trace in traces {
        let Some(run) = &trace.run else { continue };
        let summary = runs.entry(RunId::of(run)).or_insert(Summary {
            root: run.root,
            wall: run.wall,
            first: trace.first,
            last: trace.last,
        });
        summary.wall = summary.wall.min(run.wall);
        summary.first = summary.first.min(trace.first);
        summary.last = summary.last.max(trace.last);
    }
    runs
}

/// The group whose root began last, and the runs of the same boot that overlap it.
fn newest(runs: &BTreeMap<RunId, Summary>) -> BTreeSet<RunId> {
    // A group began when its first run did.
    let mut began: BTreeMap<(&[u8], u32), Wall> = BTreeMap::new();
    for (id, run) in runs {
        let group = began.entry((&id.boot, run.root)).or_insert(run.wall);
        *group = run.wall.min(*group);
    }
    let Some(group) = began.iter().max_by_key(|(group, wall)| (**wall, **group)).map(|(group, _)| *group)
    else {
        return BTreeSet::new();
    };
    let in_group = |id: &RunId, run: &Summary| (&id.boot[..], run.root) == group;
    let members = || runs.iter().filter(|(id, run)| in_group(id, run)).map(|(_, run)| run);
    let first = members().map(|run| run.first).min().unwrap_or(0);
    let last = members().map(|run| run.last).max().unwrap_or(u64::MAX);
    let overlaps = |id: &RunId, run: &Summary| id.boot == group.0 && run.first <= last && first <= run.last;
    runs.iter().filter(|(id, run)| in_group(id, run) || overlaps(id, run)).map(|(id, _)| id.clone()).collect()
}

/// The runs of process `pid` since then, and of what it forked.
fn of_process(runs: &BTreeMap<RunId, Summary>, pid: u32, since: Wall) -> BTreeSet<RunId> {
    let recent = || runs.iter().filter(|(_, run)| run.wall >= since);
    let roots: BTreeSet<_> =
        recent().filter(|(id, _)| id.pid == pid).map(|(id, run)| (&id.boot, run.root)).collect();
    recent().filter(|(id, run)| roots.contains(&(&id.boot, run.root))).map(|(id, _)| id.clone()).collect()
}

/// Sorts as the merge breaks ties. Files without a run come first.
fn sort_for_ties(traces: &mut [Trace]) {
    let key = |trace: &Trace| {
        let run = trace.run.as_ref().map(|run| (run.pid, run.id));
        (run, trace.tid, trace.number)
    };
    traces.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path)));
}

/// Splits by boot, earliest first; files without a run go with the newest boot. Keeps the order within.
fn by_boot(traces: Vec<Trace>) -> Vec<Vec<Trace>> {
    let mut began: BTreeMap<Vec<u8>, Wall> = BTreeMap::new();
    for run in traces.iter().filter_map(|trace| trace.run.as_ref()) {
        let wall = began.entry(run.boot.clone()).or_insert(run.wall);
        *wall = run.wall.min(*wall);
    }
    let mut order: Vec<(Wall, Vec<u8>)> = began.into_iter().map(|(boot, wall)| (wall, boot)).collect();
    order.sort();
    let mut boots = vec![Vec::new(); order.len().max(1)];
    for trace in traces {
        let place = trace.run.as_ref().and_then(|run| order.iter().position(|(_, boot)| *boot == run.boot));
        let place = place.unwrap_or(boots.len() - 1);
        boots[place].push(trace);
    }
    boots.retain(|files| !files.is_empty());
    boots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::FileId;
    use itertools::Itertools;
    use trace_format::line::Ticks;
    use trace_format::meta::ClockKind;

    /// A file of run `id` of `root`, which began at `first` by every clock.
    fn trace(boot: &str, root: u32, id: u32, first: u64, last: u64) -> Trace {
        let run = Run {
            version: 1,
            id,
            root,
            pid: id,
            exe: b"/app".to_vec(),
            boot: boot.into(),
            ticks: Ticks(first),
            wall: Wall(first),
            clock: ClockKind::Ordered,
        };
        let path = format!("app.trace.{id}").into();
        Trace {
            path,
            tid: id.into(),
            number: 0,
            id: Some(FileId::Inode(0, id.into())),
            map: None,
            held: None,
            run: Some(run),
            first,
            last,
        }
    }

    fn ids(chosen: &Chosen) -> Vec<Vec<u64>> {
        chosen.boots.iter().map(|files| files.iter().map(|f| f.tid).collect_vec()).collect_vec()
    }

    #[test]
    fn the_newest_group_comes_with_what_overlaps_it() {
        let traces = vec![
            trace("b", 1, 1, 10, 20),
            trace("b", 2, 2, 30, 60),
            trace("b", 3, 3, 50, 70),
            trace("b", 3, 4, 80, 90),
            trace("b", 5, 5, 44, 49),
            trace("older", 6, 6, 40, 90),
        ];
        let chosen = choose(traces.clone(), Choice::Newest);
        assert_eq!(ids(&chosen), [[2, 3, 4]]);
        assert_eq!((chosen.runs, chosen.left_out_runs, chosen.left_out_files), (3, 3, 3));
        assert_eq!(ids(&choose(traces, Choice::All)), [vec![1, 2, 3, 4, 5], vec![6]]);
    }

    #[test]
    fn boots_stand_in_the_order_of_the_wall_clock() {
        let traces = vec![trace("a", 1, 1, 500, 600), trace("z", 2, 2, 10, 20)];
        assert_eq!(ids(&choose(traces, Choice::All)), [[2], [1]]);
    }

    #[test]
    fn a_process_is_chosen_with_its_forks_and_without_its_pids_former_life() {
        let mut old = trace("b", 7, 7, 10, 20);
        old.run.as_mut().unwrap().pid = 3;
        let traces = vec![old, trace("b", 3, 3, 50, 60), trace("b", 3, 4, 55, 58), trace("b", 9, 9, 50, 60)];
        let chosen = choose(traces, Choice::Process { pid: 3, since: Wall(40) });
        assert_eq!(ids(&chosen), [[3, 4]]);
    }

    #[test]
    fn what_was_chosen_of_several_applications_is_put_in_one_order() {
        let part = |traces: &[Trace]| choose(traces.to_vec(), Choice::Newest);
        let (a, b) = (trace("b", 2, 2, 30, 60), trace("b", 1, 1, 10, 20));
        let other_boot = trace("a", 7, 7, 1, 2);
        let all = Chosen::together(vec![
            part(&[a.clone(), trace("b", 9, 9, 1, 2)]),
            part(&[b]),
            part(&[other_boot]),
            part(&[a]),
        ]);
        assert_eq!(ids(&all), vec![vec![7], vec![1, 2]]);
        assert_eq!((all.runs, all.left_out_runs, all.left_out_files), (3, 1, 1));
    }

    #[test]
    fn a_file_without_a_run_goes_with_the_newest_boot() {
        let mut stray = trace("b", 7, 7, 10, 20);
        stray.run = None;
        let traces = vec![trace("a", 1, 1, 10, 20), trace("b", 2, 2, 30, 40), stray];
        assert_eq!(ids(&choose(traces.clone(), Choice::Newest)), [[7, 2]]);
        assert_eq!(ids(&choose(traces, Choice::Process { pid: 9, since: Wall(0) })), [[0; 0]; 0]);
    }
}
