//! Determines the run of each file if the file itself does not name it clearly.
//!
//! The run of a file decides whether the file is shown, and a single changed bit in one `# run` line would make its
//! file a newer run that hides all others. So a line with a wrong checksum decides nothing: its file is assigned to the
//! run that the line names only if undamaged files belong to that run. Lines of version 1 have no checksum. But the
//! lines of all files of one process and one run id must agree; if they do not, a bit was changed, and the majority is
//! believed. Every contradiction is reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use itertools::Itertools;
use trace_format::meta::{FIRST_CHECKED, Run, RunDamage};

use crate::find::header::Trace;
use crate::find::owners::Owners;
use crate::ui::messages::{Messages, shown};

/// A file whose run is doubtful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// The path of the file.
    pub path: PathBuf,
    /// The contradiction that was found.
    pub what: RunLineProblem,
}

/// The reason why a `# run` line is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunLineProblem {
    /// The line is damaged. If undamaged files belong to the process that the line names, the number is its id.
    Damaged(RunDamage, Option<u32>),
    /// The line differs from the lines in other files of the same run.
    Differs {
        /// The key of the value that differs.
        key: &'static str,
        /// The process id.
        pid: u32,
        /// Whether equally many files have another value, so that no value is more likely.
        tie: bool,
    },
}

impl Doubt {
    /// Reports the contradiction as a warning.
    pub(crate) fn report_to_user(&self, messages: &mut Messages) {
        let path = shown(&self.path);
        match &self.what {
            RunLineProblem::Damaged(why, Some(pid)) => messages.warn(format_args!(
                "{path}: the '# run' line is damaged: {why}; the file is merged as one of process {pid}, which the \
                 line names"
            )),
            RunLineProblem::Damaged(why, None) => messages.warn(format_args!(
                "{path}: the '# run' line is damaged: {why}; the file is merged, although its run is unknown"
            )),
            RunLineProblem::Differs { key, pid, tie } => {
                let others = if *tie { "another file" } else { "the other files" };
                messages.warn(format_args!(
                    "{path}: its '# run' line has another {key}= than {others} of the same run of process {pid}; \
                     the file is merged as one of that run"
                ));
            }
        }
    }
}

/// The runs whose files contradict each other without a majority. Each run is given by its owner, process id and run
/// id.
pub(crate) type UncertainRuns = BTreeSet<(u32, u32, u32)>;

/// Assigns the files of a run that several users own to one of these users, if the run has recorded that its process
/// became another user's. `recorded` returns the users that a file's process became, according to the file.
pub(crate) fn join_owners(traces: &mut [Trace], owners: &Owners, recorded: impl Fn(&Trace) -> Vec<u32>) {
    let mut of_runs: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    for (place, trace) in traces.iter().enumerate() {
        if let Some(names) = named(trace) {
            of_runs.entry(names).or_default().push(place);
        }
    }
    for files in of_runs.into_values().sorted() {
        if files.iter().map(|file| traces[*file].owner).all_equal() {
            continue;
        }
        // Files are read for this only if their owners differ.
        let said: Vec<(usize, u32)> = files
            .iter()
            .filter(|file| owners.may_record(traces[**file].owner))
            .flat_map(|file| recorded(&traces[*file]).into_iter().map(move |user| (*file, user)))
            .collect();
        // A process may change its user more than once.
        for _ in 0..files.len() {
            let found = said.iter().find_map(|(file, named)| {
                let (keep, give) = owners.together(traces[*file].owner, *named)?;
                let boot = boot(&traces[*file]);
                let joins =
                    |trace: &Trace| trace.owner == give && (boot.is_none() || self::boot(trace) == boot);
                let joining: Vec<usize> =
                    files.iter().copied().filter(|file| joins(&traces[*file])).collect();
                (!joining.is_empty()).then_some((keep, joining))
            });
            let Some((keep, joining)) = found else { break };
            joining.into_iter().for_each(|file| traces[file].owner = keep);
        }
    }
}

/// Returns the process id and the run id that a file's `# run` line names, even if the line is damaged.
fn named(trace: &Trace) -> Option<(u32, u32)> {
    match (&trace.run, &trace.claim) {
        (Some(run), _) => Some((run.pid, run.id)),
        (None, Some(claim)) => Some((claim.pid?, claim.id?)),
        (None, None) => None,
    }
}

fn boot(trace: &Trace) -> Option<Vec<u8>> {
    trace.run.as_ref().map(|run| run.boot.clone())
}

/// Determines the run of each file. Returns the contradictions that were found, and the runs that stay uncertain.
pub(crate) fn settle(traces: &mut [Trace]) -> (Vec<Doubt>, UncertainRuns) {
    let (mut doubts, mut uncertain) = (Vec::new(), UncertainRuns::new());
    let mut of_runs: BTreeMap<(u32, u32, u32), Vec<usize>> = BTreeMap::new();
    for (place, trace) in traces.iter().enumerate() {
        if let Some(run) = &trace.run {
            of_runs.entry((trace.owner, run.pid, run.id)).or_default().push(place);
        }
    }
    for (id, files) in &of_runs {
        if files.iter().map(|file| &traces[*file].run).all_equal() {
            continue;
        }
        for files in by_boot(traces, files) {
            let Some((winner, tie)) = most_likely(traces, &files) else { continue };
            for file in files {
                let trace = &mut traces[file];
                let Some(run) = trace.run.as_ref().filter(|run| **run != winner) else { continue };
                let (path, key) = (trace.path.clone(), difference(run, &winner));
                doubts.push(Doubt { path, what: RunLineProblem::Differs { key, pid: winner.pid, tie } });
                trace.run = Some(winner.clone());
                if tie {
                    uncertain.insert(*id);
                }
            }
        }
    }
    let sound = |trace: &Trace, traces: &[Trace]| {
        let (pid, id) = named(trace)?;
        let files = of_runs.get(&(trace.owner, pid, id))?;
        traces[*files.first()?].run.clone()
    };
    for place in 0..traces.len() {
        let trace = &traces[place];
        let (None, Some(claim)) = (&trace.run, &trace.claim) else { continue };
        let run = sound(trace, traces);
        let what = RunLineProblem::Damaged(claim.why, run.as_ref().map(|run| run.pid));
        doubts.push(Doubt { path: trace.path.clone(), what });
        traces[place].run = run;
    }
    doubts.sort_by(|a, b| a.path.cmp(&b.path));
    (doubts, uncertain)
}

/// Partitions the files of one process and one run id into groups whose `# run` lines have to agree. Lines with a
/// checksum are certain: each boot that they name gets a group. A file whose line has no checksum goes into the group
/// of its boot or, if there is none, into the largest group.
fn by_boot(traces: &[Trace], files: &[usize]) -> Vec<Vec<usize>> {
    let mut boots: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    let mut unchecked = Vec::new();
    for file in files {
        match &traces[*file].run {
            Some(run) if run.version >= FIRST_CHECKED => boots.entry(&run.boot).or_default().push(*file),
            _ => unchecked.push(*file),
        }
    }
    for file in unchecked {
        let own = traces[file].run.as_ref().and_then(|run| boots.get_mut(&run.boot[..]));
        match own {
            Some(files) => files.push(file),
            None => match boots.values_mut().max_by_key(|files| files.len()) {
                Some(files) => files.push(file),
                None => return vec![files.to_vec()],
            },
        }
    }
    boots.into_values().collect()
}

/// Returns the run that most of the `files` name, and whether equally many of them name another run. If several runs
/// are named equally often, chooses the run that fits the remaining `traces` best.
fn most_likely(traces: &[Trace], files: &[usize]) -> Option<(Run, bool)> {
    let mut said: Vec<(&Run, usize)> = Vec::new();
    for run in files.iter().filter_map(|file| traces[*file].run.as_ref()) {
        match said.iter_mut().find(|(known, _)| *known == run) {
            Some((_, times)) => *times += 1,
            None => said.push((run, 1)),
        }
    }
    let elsewhere = |fits: &dyn Fn(&Run) -> bool| {
        let others = traces.iter().enumerate().filter(|(place, _)| !files.contains(place));
        others.filter_map(|(_, trace)| trace.run.as_ref()).filter(|other| fits(other)).count()
    };
    let fits = |run: &Run| {
        let same_boot = elsewhere(&|other| other.boot == run.boot);
        let same_exe = elsewhere(&|other| other.exe == run.exe);
        (run.root == run.id || elsewhere(&|other| other.id == run.root) > 0, same_boot, same_exe, run.wall)
    };
    let most = said.iter().map(|(_, times)| *times).max().unwrap_or(0);
    let likely = said.iter().filter(|(_, times)| *times == most);
    let tie = likely.clone().count() > 1;
    let (winner, _) = likely.max_by_key(|(run, _)| fits(run))?;
    Some(((*winner).clone(), tie))
}

/// Returns the key of the first value in the `# run` line in which two runs differ.
fn difference(one: &Run, other: &Run) -> &'static str {
    let differs = [
        ("boot", one.boot != other.boot),
        ("wall", one.wall != other.wall),
        ("root", one.root != other.root),
        ("exe", one.exe != other.exe),
        ("clock", one.clock != other.clock),
        ("ticks", one.ticks != other.ticks),
        ("version", one.version != other.version),
    ];
    differs.iter().find(|(_, differs)| *differs).map_or("pid", |(key, _)| key)
}
