//! The runs that are followed: all live runs, and ended runs that belong to the same trees of forked processes.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trace_format::manifest::FILE_NAME;
use trace_format::meta::Run;
use trace_format::name::trace_file_suffix;
use trace_format::wall::Wall;
use trace_store::inspect::{RingStates, RunInMemory, ThreadInMemory};
use trace_store::recovery::runtime_directories;
use trace_store::sys::private_directory_of;

use crate::command::follow::files::{Directories, first_line};
use crate::find::app::App;
use crate::find::dead_runs::{is_of, recover_dead_runs};
use crate::find::liveness;
use crate::find::owners::{Owners, Rank};
use crate::find::rings;
use crate::find::search::search;
use crate::find::strangers;
use crate::os::sys::effective_user;
use crate::ui::messages::Messages;

pub(super) use trace_store::inspect::Change;

/// The identity of a run, as its files record it: its process id and its run id.
pub(super) type RunId = (u32, u32);

/// The runs that are followed, and the directories of their files.
pub(super) struct Runs {
    app: App,
    /// The paths of the caller's own manifests that existed when manifests were last read.
    manifests: Option<BTreeSet<PathBuf>>,
    /// The directories of other users' runs, each with the time of its last change when manifests were last read.
    of_others: Directories,
    known: Vec<RunInMemory>,
    /// The state of each run's rings when the rings were last read.
    looked: HashMap<RunId, RefCell<RingStates>>,
    alive: HashSet<RunId>,
    /// The runs that are dead and were read to their end.
    finished: HashSet<RunId>,
    /// The trees of forked processes that are followed: the boot and the id of the root run of each tree.
    roots: HashSet<(Vec<u8>, u32)>,
    /// The directories that contain files of the runs, each with the beginning of the files' names, which precedes
    /// `.trace.`.
    places: BTreeSet<(PathBuf, Vec<u8>)>,
    /// The directories that may contain files of runs that started and ended between two rounds.
    shared: Vec<PathBuf>,
    directories: Directories,
}

/// A followed run that has rings in memory now.
pub(super) struct FollowedRun {
    run: RunInMemory,
    alive: bool,
}

impl FollowedRun {
    /// Returns the identity of the run.
    pub(super) fn id(&self) -> RunId {
        id(&self.run.manifest.run)
    }

    /// Returns the run as its manifest describes it.
    pub(super) fn run(&self) -> &Run {
        &self.run.manifest.run
    }

    /// Returns whether the run may still write records.
    pub(super) fn is_alive(&self) -> bool {
        self.alive
    }
}

fn id(run: &Run) -> RunId {
    (run.pid, run.id)
}

impl Runs {
    /// Returns an empty set of runs of `app`.
    pub(super) fn new(app: &App) -> Runs {
        Runs {
            app: app.clone(),
            manifests: None,
            of_others: Directories::default(),
            known: Vec::new(),
            looked: HashMap::new(),
            alive: HashSet::new(),
            finished: HashSet::new(),
            roots: HashSet::new(),
            places: BTreeSet::new(),
            shared: Vec::new(),
            directories: Directories::default(),
        }
    }

    /// Returns whether any run is alive or has begun at `since` or later, even if it has ended since; adds these runs
    /// to the followed ones. Considers only files whose owner is the caller or the executable's owner.
    pub(super) fn any_since(&mut self, since: Wall, users: &Owners) -> bool {
        // Errors are reported when the manifests are next read.
        self.read_manifests(&mut Messages::silent());
        let is_meant = |run: &Run| run.wall >= since || liveness::is_alive(run);
        let meant = self.known.iter().filter(|run| is_meant(&run.manifest.run));
        let meant: Vec<RunInMemory> = meant.cloned().collect();
        for run in &meant {
            self.follow_all(run);
        }
        let mut any = !meant.is_empty();
        if self.shared.is_empty() {
            self.shared = search(&self.app, &[]).places;
        }
        let mut changed = false;
        for place in &self.shared {
            changed |= self.directories.may_have_changed(place);
        }
        for candidate in changed.then(|| search(&self.app, &[]).candidates).into_iter().flatten() {
            let Some((_, run)) = first_line(&candidate.path).filter(|(_, run)| run.wall >= since) else {
                continue;
            };
            let is_others = users.rank(candidate.owner) == Rank::Other;
            if is_others || (candidate.must_match && self.app.exe() != Some(&run.exe[..])) {
                continue;
            }
            let suffix = trace_file_suffix(candidate.tid, candidate.number);
            let name = candidate.path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
            let name = name.strip_suffix(suffix.as_bytes()).unwrap_or(name).to_vec();
            let place = candidate.path.parent().map(Path::to_path_buf).unwrap_or_default();
            self.follow(&run, place, name);
            any = true;
        }
        any
    }

    fn follow_all(&mut self, run: &RunInMemory) {
        for place in run.traces() {
            self.follow(&run.manifest.run, place, run.manifest.name.clone());
        }
    }

    fn follow(&mut self, run: &Run, place: PathBuf, name: Vec<u8>) {
        self.roots.insert((run.boot.clone(), run.root));
        self.places.insert((place, name));
    }

    /// Returns whether the run `run` was alive at the last check.
    pub(super) fn is_alive(&self, run: RunId) -> bool {
        self.alive.contains(&run)
    }

    /// Returns whether the run `run` is followed.
    pub(super) fn is_followed(&self, run: &Run) -> bool {
        self.roots.contains(&(run.boot.clone(), run.root))
    }

    /// Returns the directories of trace files, with the beginning of the files' names.
    pub(super) fn places(&self) -> impl Iterator<Item = &(PathBuf, Vec<u8>)> {
        self.places.iter()
    }

    /// Reads the manifests again if a run has been added or removed since the last call.
    fn read_manifests(&mut self, messages: &mut Messages) {
        let entries = |place: &PathBuf| fs::read_dir(place).into_iter().flatten().flatten();
        let (own, others): (Vec<_>, Vec<_>) = runtime_directories()
            .into_iter()
            .partition(|place| private_directory_of(place) == Some(effective_user()));
        let manifests = own.iter().flat_map(entries).map(|entry| entry.path().join(FILE_NAME));
        let manifests = Some(manifests.filter(|path| path.exists()).collect());
        let mut changed = self.manifests != manifests;
        // Changes by others in their directories cost no more than reading these.
        for place in &others {
            changed |= self.of_others.may_have_changed(place);
        }
        if changed {
            self.known = rings::runs(|manifest| self.app.is_of(manifest));
            self.known.extend(strangers::runs(is_of(&self.app), messages));
            self.manifests = manifests;
        }
    }

    /// Determines which runs are alive, and recovers those that were killed. Returns the runs whose rings have to be
    /// read.
    pub(super) fn look(&mut self, messages: &mut Messages) -> Vec<FollowedRun> {
        self.read_manifests(messages);
        let before = std::mem::take(&mut self.alive);
        self.mark_alive(liveness::is_alive);
        let died = before.iter().any(|run| !self.alive.contains(run));
        let left = |run: &Run| !self.alive.contains(&id(run)) && !self.finished.contains(&id(run));
        let known = || self.known.iter().map(|run| &run.manifest.run);
        if died || known().any(|run| self.is_followed(run) && left(run)) {
            let known: HashSet<RunId> = known().map(id).collect();
            recover_dead_runs(&self.app, messages);
            self.manifests = None;
            self.read_manifests(messages);
            // A run that has begun since then was not checked for life. The next call checks it.
            self.mark_alive(|run| !known.contains(&id(run)));
        }
        let mut looks = Vec::new();
        let followed = |run: &&RunInMemory| self.is_followed(&run.manifest.run);
        let followed: Vec<RunInMemory> = self.known.iter().filter(followed).cloned().collect();
        for run in followed {
            let id = id(&run.manifest.run);
            let alive = self.alive.contains(&id);
            // The rings of a dead run that cannot be recovered do not change.
            if alive || self.finished.insert(id) {
                self.looked.entry(id).or_default();
                looks.push(FollowedRun { run, alive });
            }
        }
        looks
    }

    /// Adds the known runs that `is_alive` returns true for to the live runs, and follows them.
    fn mark_alive(&mut self, is_alive: impl Fn(&Run) -> bool) {
        for run in self.known.clone() {
            if is_alive(&run.manifest.run) {
                self.alive.insert(id(&run.manifest.run));
                self.follow_all(&run);
            }
        }
    }

    /// Reads the rings of a run: of a live run, only the rings that have changed; of a dead run that cannot be
    /// recovered, all rings.
    pub(super) fn changes(&self, look: &FollowedRun) -> Vec<(PathBuf, io::Result<Change>)> {
        if !look.alive {
            let thread = |thread: ThreadInMemory| (thread.ring.clone(), Ok(Change::Thread(Box::new(thread))));
            let all = look.run.threads(false);
            return all.map(|found| found.map_or_else(|e| (PathBuf::new(), Err(e)), thread)).collect();
        }
        match self.looked.get(&look.id()) {
            Some(looked) => look.run.changes(&mut looked.borrow_mut()).collect(),
            None => Vec::new(),
        }
    }
}
