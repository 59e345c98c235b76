//! The choice of the runs to merge, and the order of their files.
//!
//! A run is one process's life: (boot, pid, id). Runs with the same root form a group: a program and its forks. The
//! order here breaks ties in the merge's total order: by pid, run id, thread id, and the number in the file's name.
//!
//! A run has one owner, and only runs of one owner are shown together unless all runs are requested: see
//! [`crate::find::owners`].

use std::collections::{BTreeMap, BTreeSet, HashSet};

use itertools::Itertools;
use trace_format::line::Ticks;
use trace_format::meta::{ClockKind, Run};
use trace_format::wall::Wall;

use crate::find::copies::{FileCopy, remove_copies};
use crate::find::header::Trace;
use crate::find::identity::{Doubt, UncertainRuns, join_owners, settle};
use crate::find::owners::{Owners, Rank};
use crate::time::clocks::Clocks;

/// The runs that the user wants merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The newest group of runs (of a process and of the processes that it has forked), and the runs that overlap with
    /// this group in time.
    Newest,
    /// All runs.
    All,
    /// The group of the process `pid` that began at `since` or later.
    Process {
        /// The process id.
        pid: u32,
        /// The earliest time at which the process can have begun: a run with the same pid that began before belongs to
        /// another process.
        since: Wall,
    },
    /// The runs of the process `pid` that began at `since` or later, without the runs of its forks.
    Alone {
        /// The process id.
        pid: u32,
        /// The earliest time at which the process can have begun: a run with the same pid that began before belongs to
        /// another process.
        since: Wall,
    },
}

/// The traces that are merged, and the facts to report about the traces that are left out.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// The files that are merged, in one list for each boot and clock. The lists are in the order of time, and the
    /// files of a list in the order that breaks ties in the merge.
    pub boots: Vec<Vec<Trace>>,
    /// The number of runs that the traces belong to.
    pub runs: usize,
    /// The number of runs that are left out.
    pub left_out_runs: usize,
    /// The number of files that are left out.
    pub left_out_files: usize,
    /// The number of files that are left out because the files of another user are shown, by the id of their owner.
    pub others: BTreeMap<u32, usize>,
    /// The number of files that are shown, by the id of their owner.
    pub owners: BTreeMap<u32, usize>,
    /// The contradictions that were found in the files, whether these are shown or left out.
    pub doubts: Vec<Doubt>,
    /// The files that are left out because they are copies of other files.
    pub copies: Vec<FileCopy>,
}

impl Chosen {
    /// Combines the choices of several applications. A file that several applications have found counts once. If a file
    /// of one application is a copy of a file of another application, the copy is left out and added at the end of
    /// `copies`.
    #[must_use]
    pub(crate) fn together(parts: Vec<Chosen>, owners: &Owners) -> Chosen {
        let mut copies: Vec<FileCopy> = parts.iter().flat_map(|part| part.copies.iter().cloned()).collect();
        let left_out_runs = parts.iter().map(|part| part.left_out_runs).sum();
        let left_out_files = parts.iter().map(|part| part.left_out_files).sum();
        let (mut others, mut shown, mut doubts) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for part in &parts {
            part.others.iter().for_each(|(owner, files)| *others.entry(*owner).or_default() += files);
            part.owners.iter().for_each(|(owner, files)| *shown.entry(*owner).or_default() += files);
            doubts.extend(part.doubts.iter().cloned());
        }
        let mut known = HashSet::new();
        let mut files: Vec<Trace> = parts.into_iter().flat_map(|part| part.boots).flatten().collect();
        files.retain(|trace| known.insert((trace.id.clone(), trace.path.clone())));
        copies.extend(remove_copies(&mut files, owners));
        let runs = summaries(&files).len();
        sort_for_ties(&mut files);
        let boots = by_boot(files);
        Chosen { boots, runs, left_out_runs, left_out_files, others, owners: shown, doubts, copies }
    }
}

impl Chosen {
    /// Returns the largest disagreement between the clocks of two runs of one boot, in nanoseconds. Only runs that use
    /// the system's clock for their ticks are compared, by the offset of their ticks from the wall clock.
    #[must_use]
    pub(crate) fn system_clocks_differ_by(&self) -> u64 {
        let apart = |files: &Vec<Trace>| {
            let runs = files.iter().filter_map(|trace| trace.run.as_ref());
            let of_system = runs.filter(|run| run.clock == ClockKind::System);
            let offsets = of_system.map(|run| i128::from(run.wall.0) - i128::from(run.ticks.0));
            let (least, most) = offsets.minmax().into_option()?;
            Some(u64::try_from(most - least).unwrap_or(u64::MAX))
        };
        self.boots.iter().filter_map(apart).max().unwrap_or(0)
    }
}

/// The identity of a run, together with its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedRunId {
    owner: u32,
    boot: Vec<u8>,
    pid: u32,
    id: u32,
}

impl OwnedRunId {
    fn of(trace: &Trace, run: &Run) -> OwnedRunId {
        OwnedRunId { owner: trace.owner, boot: run.boot.clone(), pid: run.pid, id: run.id }
    }
}

/// The properties of a run that are needed to choose runs, computed from all its files.
struct Summary {
    root: u32,
    clock: ClockKind,
    wall: Wall,
    first: u64,
    last: u64,
}

/// Returns the files of the runs that `choice` selects, in the order that breaks ties in the merge. `recorded` returns
/// the users that a trace's process became, according to the trace: with it, files of several owners are recognized as
/// one run.
#[must_use]
pub(crate) fn choose_runs(
    mut traces: Vec<Trace>,
    choice: Choice,
    owners: &Owners,
    recorded: impl Fn(&Trace) -> Vec<u32>,
) -> Chosen {
    join_owners(&mut traces, owners, recorded);
    let (doubts, uncertain) = settle(&mut traces);
    let runs = summaries(&traces);
    let (wanted, owner): (BTreeSet<OwnedRunId>, Option<u32>) = match choice {
        Choice::All => (runs.keys().cloned().collect(), None),
        Choice::Newest => newest(&runs, &traces, owners, &uncertain),
        Choice::Process { pid, since } => of_process(&runs, owners, pid, since, true),
        Choice::Alone { pid, since } => of_process(&runs, owners, pid, since, false),
    };
    // A file that does not name its run may always belong to the wanted one.
    let is_stray_wanted = |trace: &Trace| match choice {
        Choice::All => true,
        Choice::Newest => Some(trace.owner) == owner,
        Choice::Process { pid, .. } | Choice::Alone { pid, .. } => {
            let names = |id: &OwnedRunId, claimed: Option<u32>| Some(id.id) == claimed;
            let claim = trace.claim.as_ref().filter(|_| Some(trace.owner) == owner);
            claim.is_some_and(|claim| claim.pid == Some(pid) || wanted.iter().any(|id| names(id, claim.id)))
        }
    };
    let is_wanted = |trace: &Trace| match &trace.run {
        Some(run) => wanted.contains(&OwnedRunId::of(trace, run)),
        None => is_stray_wanted(trace),
    };
    let (mut chosen, left): (Vec<Trace>, Vec<Trace>) = traces.into_iter().partition(is_wanted);
    let copies = remove_copies(&mut chosen, owners);
    sort_for_ties(&mut chosen);
    let is_left_out = |trace: &&Trace| owner.is_none_or(|owner| trace.owner == owner);
    let mut of_others = BTreeMap::new();
    for trace in left.iter().filter(|trace| !is_left_out(trace)) {
        *of_others.entry(trace.owner).or_default() += 1;
    }
    let mut shown = BTreeMap::new();
    chosen.iter().for_each(|trace| *shown.entry(trace.owner).or_default() += 1);
    let own_runs = runs.keys().filter(|run| owner.is_none_or(|owner| run.owner == owner)).count();
    // Doubts about traces that are left out are reported only if the traces of the same owner are shown.
    let is_reported = |doubt: &Doubt| {
        let of_owner = || left.iter().filter(is_left_out).any(|trace| trace.path == doubt.path);
        let all = matches!(choice, Choice::All | Choice::Newest);
        chosen.iter().any(|trace| trace.path == doubt.path) || (all && of_owner())
    };
    let doubts = doubts.into_iter().filter(is_reported).collect();
    Chosen {
        boots: by_boot(chosen),
        runs: wanted.len(),
        left_out_runs: own_runs - wanted.len(),
        left_out_files: left.iter().filter(is_left_out).count(),
        others: of_others,
        owners: shown,
        doubts,
        copies,
    }
}

/// Returns the traces of the user who is nearest to the caller, if that user is the caller or the executable's owner,
/// and the number of files of each other user. `recorded` returns the users that a trace's process became, according to
/// the trace.
#[must_use]
pub(crate) fn of_nearest(
    mut traces: Vec<Trace>,
    owners: &Owners,
    recorded: impl Fn(&Trace) -> Vec<u32>,
) -> (Vec<Trace>, BTreeMap<u32, usize>) {
    join_owners(&mut traces, owners, recorded);
    let nearest = traces.iter().map(|trace| owners.rank(trace.owner)).min();
    let is_nearest = |trace: &Trace| {
        let rank = owners.rank(trace.owner);
        rank != Rank::Other && Some(rank) == nearest
    };
    let (near, far): (Vec<Trace>, Vec<Trace>) = traces.into_iter().partition(is_nearest);
    let mut others = BTreeMap::new();
    far.iter().for_each(|trace| *others.entry(trace.owner).or_default() += 1);
    (near, others)
}

fn summaries(traces: &[Trace]) -> BTreeMap<OwnedRunId, Summary> {
    let mut runs: BTreeMap<OwnedRunId, Summary> = BTreeMap::new();
    for trace in traces {
        let Some(run) = &trace.run else { continue };
        // The ticks of the first line have no checksum: a file that seems to begin later than its run did does not
        // shorten the run.
        let (first, last) = (trace.first.min(run.ticks.0), trace.last.max(trace.first));
        let (root, clock, wall) = (run.root, run.clock, run.wall);
        let begun = Summary { root, clock, wall, first, last };
        let summary = runs.entry(OwnedRunId::of(trace, run)).or_insert(begun);
        summary.wall = summary.wall.min(wall);
        summary.first = summary.first.min(first);
        summary.last = summary.last.max(last);
    }
    runs
}

/// Returns the group whose root began last, the runs of the same boot that overlap it, and the runs whose beginning is
/// uncertain; and the owner of all these runs.
fn newest(
    runs: &BTreeMap<OwnedRunId, Summary>,
    traces: &[Trace],
    owners: &Owners,
    uncertain: &UncertainRuns,
) -> (BTreeSet<OwnedRunId>, Option<u32>) {
    let Some(rank) = traces.iter().map(|trace| owners.rank(trace.owner)).min() else {
        return (BTreeSet::new(), None);
    };
    let is_uncertain = |id: &OwnedRunId| uncertain.contains(&(id.owner, id.pid, id.id));
    let of_rank = || runs.iter().filter(|(id, _)| owners.rank(id.owner) == rank);
    let newest = newest_group(of_rank(), is_uncertain);
    let Some(group) = newest else {
        // There are only files whose run is unknown.
        let nearest = traces.iter().filter(|trace| owners.rank(trace.owner) == rank);
        return (BTreeSet::new(), nearest.map(|trace| trace.owner).min());
    };
    let in_group = |id: &OwnedRunId, run: &Summary| (id.owner, &id.boot[..], run.root) == group;
    let times = Times::of(traces, group.1);
    let period = runs.iter().filter(|(id, run)| in_group(id, run)).fold(None, |period, (_, run)| {
        let (first, last) = times.of_run(group.1, run);
        Some(period.map_or((first, last), |(from, to): (u64, u64)| (first.min(from), last.max(to))))
    });
    let (first, last) = period.unwrap_or((0, u64::MAX));
    let overlaps = |id: &OwnedRunId, run: &Summary| {
        let (from, to) = times.of_run(&id.boot, run);
        id.boot == group.1 && from <= last && first <= to
    };
    let is_wanted = |id: &OwnedRunId, run: &Summary| {
        id.owner == group.0 && (in_group(id, run) || overlaps(id, run) || is_uncertain(id))
    };
    (runs.iter().filter(|(id, run)| is_wanted(id, run)).map(|(id, _)| id.clone()).collect(), Some(group.0))
}

/// A group of runs, which is a program and its forks: the owner, the boot, and the id of the run at the root.
type Group<'a> = (u32, &'a [u8], u32);

/// Returns the group that began last. Groups of one boot and clock are compared by ticks, because the wall clock may
/// have been set between two runs; other groups are compared by the wall clock.
fn newest_group<'a>(
    runs: impl Iterator<Item = (&'a OwnedRunId, &'a Summary)>,
    is_uncertain: impl Fn(&OwnedRunId) -> bool,
) -> Option<Group<'a>> {
    // The beginning of a group is the beginning of its first run.
    let mut began: BTreeMap<Group, Beginning> = BTreeMap::new();
    for (id, run) in runs {
        let clock = run.clock;
        let own = Beginning { is_certain: !is_uncertain(id), ticks: run.first, wall: run.wall, clock };
        let group = began.entry((id.owner, &id.boot, run.root)).or_insert(own);
        group.is_certain &= own.is_certain;
        group.ticks = group.ticks.min(own.ticks);
        group.wall = group.wall.min(own.wall);
    }
    let mut of_clocks: BTreeMap<(&[u8], bool), (Beginning, Group)> = BTreeMap::new();
    for (group, own) in began {
        let newest = of_clocks.entry((group.1, own.clock == ClockKind::System)).or_insert((own, group));
        let rank = |(began, group): &(Beginning, Group<'a>)| (began.is_certain, began.ticks, *group);
        if rank(newest) < rank(&(own, group)) {
            *newest = (own, group);
        }
    }
    let newest = of_clocks.into_values().max_by_key(|(began, group)| (began.is_certain, began.wall, *group));
    newest.map(|(_, group)| group)
}

/// The beginning of a group. A group with an uncertain beginning is the newest only if the beginnings of all groups are
/// uncertain.
#[derive(Clone, Copy)]
struct Beginning {
    is_certain: bool,
    ticks: u64,
    wall: Wall,
    clock: ClockKind,
}

fn bytes_of(trace: &Trace) -> &[u8] {
    trace.map.as_deref().map_or(&[], |map| map)
}

/// The scale for comparing runs of one boot: their ticks or, if their clocks differ, the wall clock.
struct Times(Option<Clocks>);

impl Times {
    fn of(traces: &[Trace], boot: &[u8]) -> Times {
        let of_boot = || {
            let files = traces.iter().filter_map(|trace| Some((trace.run.as_ref()?, trace)));
            files.filter(|(run, _)| run.boot == boot)
        };
        let mut clocks = of_boot().map(|(run, _)| run.clock == ClockKind::System);
        if clocks.next().is_none_or(|first| clocks.all(|clock| clock == first)) {
            return Times(None);
        }
        Times(Some(Clocks::read(of_boot().map(|(run, trace)| (run, bytes_of(trace))))))
    }

    /// Returns the beginning and the end of a run, in ticks or, if these are not comparable, in wall time.
    fn of_run(&self, boot: &[u8], run: &Summary) -> (u64, u64) {
        let Some(clock) = self.0.as_ref().and_then(|clocks| clocks.of_clock(boot, run.clock)) else {
            return (run.first, run.last);
        };
        (clock.wall(Ticks(run.first)).0, clock.wall(Ticks(run.last)).0)
    }
}

/// Returns the runs of process `pid` that began at `since` or later and, with `with_forks`, the runs of its forks; and
/// the owner of all these runs.
fn of_process(
    runs: &BTreeMap<OwnedRunId, Summary>,
    owners: &Owners,
    pid: u32,
    since: Wall,
    with_forks: bool,
) -> (BTreeSet<OwnedRunId>, Option<u32>) {
    let recent = || runs.iter().filter(|(_, run)| run.wall >= since);
    let own = || recent().filter(|(id, _)| id.pid == pid);
    let owner = own().map(|(id, _)| (owners.rank(id.owner), id.owner)).min().map(|(_, owner)| owner);
    let roots: BTreeSet<_> = own().map(|(id, run)| (id.owner, &id.boot, run.root)).collect();
    let is_wanted = |id: &OwnedRunId, run: &Summary| {
        let in_tree = with_forks && roots.contains(&(id.owner, &id.boot, run.root));
        Some(id.owner) == owner && (id.pid == pid || in_tree)
    };
    (recent().filter(|(id, run)| is_wanted(id, run)).map(|(id, _)| id.clone()).collect(), owner)
}

/// Sorts files in the order that breaks ties in the merge. Files without a run come first.
fn sort_for_ties(traces: &mut [Trace]) {
    let key = |trace: &Trace| {
        let run = trace.run.as_ref().map(|run| (run.pid, run.id, trace.owner));
        (run, trace.tid, trace.number)
    };
    traces.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path)));
}

/// Partitions files by boot and clock, earliest first: ticks are comparable only within one boot and one clock. Files
/// without a run go with the newest boot. Files of a boot keep their order.
fn by_boot(traces: Vec<Trace>) -> Vec<Vec<Trace>> {
    let key = |run: &Run| (run.boot.clone(), run.clock == ClockKind::System);
    let mut began: BTreeMap<(Vec<u8>, bool), Wall> = BTreeMap::new();
    for run in traces.iter().filter_map(|trace| trace.run.as_ref()) {
        let wall = began.entry(key(run)).or_insert(run.wall);
        *wall = run.wall.min(*wall);
    }
    let mut order: Vec<(Wall, (Vec<u8>, bool))> =
        began.into_iter().map(|(boot, wall)| (wall, boot)).collect();
    order.sort();
    let places: BTreeMap<_, usize> =
        order.into_iter().enumerate().map(|(place, (_, boot))| (boot, place)).collect();
    let mut boots = vec![Vec::new(); places.len().max(1)];
    for trace in traces {
        let place = trace.run.as_ref().and_then(|run| places.get(&key(run)).copied());
        let place = place.unwrap_or(boots.len() - 1);
        boots[place].push(trace);
    }
    boots.retain(|files| !files.is_empty());
    boots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::marks::Marks;
    use crate::os::sys::FileId;

    /// Returns a trace of run `id` of `root`, which began at `first` by every clock.
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
            holes: 0,
            held: None,
            owner: OWNERS.own,
            run: Some(run),
            marks: Marks::default(),
            claim: None,
            first,
            last,
        }
    }

    const OWNERS: Owners = Owners { own: 1000, executable: Some(0) };

    /// Calls [`choose_runs`] for runs that have not changed their user.
    fn choose(traces: Vec<Trace>, choice: Choice) -> Chosen {
        super::choose_runs(traces, choice, &OWNERS, |_| Vec::new())
    }

    fn ids(chosen: &Chosen) -> Vec<Vec<u64>> {
        chosen.boots.iter().map(|files| files.iter().map(|f| f.tid).collect_vec()).collect_vec()
    }

    #[test]
    fn the_newest_run_is_chosen_with_the_runs_that_overlap_it() {
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
    fn the_newest_run_of_a_boot_is_chosen_by_ticks() {
        let (first, mut second) = (trace("b", 1, 1, 10, 20), trace("b", 2, 2, 30, 40));
        second.run.as_mut().unwrap().wall = Wall(5);
        let chosen = choose(vec![first.clone(), second.clone()], Choice::Newest);
        assert_eq!(ids(&chosen), [[2]], "the wall clock was set back between the runs");
        assert_eq!(ids(&choose(vec![second, first], Choice::All)), [[1, 2]]);
    }

    #[test]
    fn runs_with_different_clocks_of_one_boot_are_not_compared_by_ticks() {
        let with_system = |root, id, first, last, wall| {
            let mut trace = trace("b", root, id, first, last);
            let run = trace.run.as_mut().unwrap();
            (run.clock, run.wall) = (ClockKind::System, Wall(wall));
            trace
        };
        // The system's clock began to count before the processor's: its ticks are larger at the same time.
        let traces =
            || vec![trace("b", 1, 1, 50, 60), with_system(2, 2, 1000, 1010, 40), trace("b", 3, 3, 70, 80)];
        assert_eq!(ids(&choose(traces(), Choice::Newest)), [[3]]);
        assert_eq!(ids(&choose(traces(), Choice::All)), vec![vec![2], vec![1, 3]]);
    }

    #[test]
    fn boots_are_ordered_by_the_wall_clock() {
        let traces = vec![trace("a", 1, 1, 500, 600), trace("z", 2, 2, 10, 20)];
        assert_eq!(ids(&choose(traces, Choice::All)), [[2], [1]]);
    }

    #[test]
    fn a_process_is_chosen_with_its_forks_but_not_older_users_of_its_pid() {
        let mut old = trace("b", 7, 7, 10, 20);
        old.run.as_mut().unwrap().pid = 3;
        let traces = vec![old, trace("b", 3, 3, 50, 60), trace("b", 3, 4, 55, 58), trace("b", 9, 9, 50, 60)];
        let chosen = choose(traces, Choice::Process { pid: 3, since: Wall(40) });
        assert_eq!(ids(&chosen), [[3, 4]]);
    }

    #[test]
    fn chosen_runs_of_several_applications_are_put_in_one_order() {
        let part = |traces: &[Trace]| choose(traces.to_vec(), Choice::Newest);
        let (a, b) = (trace("b", 2, 2, 30, 60), trace("b", 1, 1, 10, 20));
        let other_boot = trace("a", 7, 7, 1, 2);
        let parts =
            vec![part(&[a.clone(), trace("b", 9, 9, 1, 2)]), part(&[b]), part(&[other_boot]), part(&[a])];
        let all = Chosen::together(parts, &OWNERS);
        assert_eq!(ids(&all), vec![vec![7], vec![1, 2]]);
        assert_eq!((all.runs, all.left_out_runs, all.left_out_files), (3, 1, 1));
    }

    #[test]
    fn a_file_without_a_run_belongs_to_the_newest_boot() {
        let mut stray = trace("b", 7, 7, 10, 20);
        stray.run = None;
        let traces = vec![trace("a", 1, 1, 10, 20), trace("b", 2, 2, 30, 40), stray];
        assert_eq!(ids(&choose(traces.clone(), Choice::Newest)), [[7, 2]]);
        assert_eq!(ids(&choose(traces, Choice::Process { pid: 9, since: Wall(0) })), [[0; 0]; 0]);
    }
}
