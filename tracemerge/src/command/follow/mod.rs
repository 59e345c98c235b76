//! `--follow`: shows the records of running applications, merged, as they arrive: from their files, and from their
//! rings before the flusher has written them.
//!
//! Following works in rounds. A round reads the rings of all live runs, then the new parts of files, and queues the
//! lines that were not shown yet. At once, it passes on in order the lines that come before all lines that are only in
//! rings; so the lines of existing files stream through in constant memory. All other lines wait for the next round,
//! which finds the lines of other threads that come before them, and then passes on all of these in order. A line may
//! be found even later, because its thread took long to format it, or because a forked process was found late. Such a
//! line is passed on at once, after a line `# late`.
//!
//! An outlet takes the lines: unchanged, or through the stages of a view.

mod ahead;
mod file_reader;
mod files;
mod late_record_marker;
mod order;
mod outlet;
mod runs;
mod stream;
mod times;
mod view_outlet;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use trace_format::line::Ticks;
use trace_format::meta::Run;
use trace_format::wall::Wall;

use crate::command::follow::files::{Files, ListedFile};
use crate::command::follow::order::Order;
use crate::command::follow::outlet::{Beginning, Outlet};
use crate::command::follow::runs::{FollowedRun, Runs};
use crate::command::follow::stream::{Stream, ThreadKey};
use crate::command::follow::view_outlet::{FollowedView, ViewOutlet};
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::completeness::Completeness;
use crate::find::find_traces;
use crate::find::header::Trace;
use crate::find::owners::Owners;
use crate::find::search::search;
use crate::input::findings::Findings;
use crate::os::signals;
use crate::output::target::Target;
use crate::time::clocks::wall_clock;
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count, shown};
use crate::view::layout::Destination;
use crate::view::request::{Request, is_terminal};
use crate::view::select::is_limit_reached;

/// The pause between rounds. A line waits for the next round before it is shown, in total for a tenth of a second at
/// most.
const PAUSE: Duration = Duration::from_millis(25);
/// The pause between rounds after a time without new lines.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// The number of successive rounds without new lines after which pauses are long.
const QUIET: u32 = 40;

/// Shows the records of `apps` as they arrive. Ends when all their processes have ended, when the user interrupts, or
/// when all requested records are shown.
///
/// # Errors
/// If an option cannot be used with `--follow`, or if the output cannot be written.
pub(crate) fn follow(apps: &[App], request: &Request, messages: &mut Messages) -> Result<(), Error> {
    if let Some(set) = apps.iter().find(|app| app.is_data_set()) {
        return Err(Error::plain(format!(
            "{} is a data set, which no program writes to: follow the application instead",
            shown(&set.given)
        )));
    }
    let view = &request.view;
    let (layout, needs_sites) = (&request.layout, request.layout.needs().sites);
    if needs_sites && !layout.is_summary() {
        return Err(Error::plain(
            "a followed trace does not record where messages come from: leave out the columns module, site and function",
        ));
    }
    let wanted = FollowedView::new(view)?;
    let inputs =
        apps.iter().flat_map(|app| search(app, &[]).candidates).map(|candidate| candidate.id).collect();
    let output = request.output.as_deref().unwrap_or(OsStr::new("-"));
    let target = Target::new(Some(output), Path::new(""), apps, &inputs)?;
    let interrupted = signals::interruption();
    let since = wall_clock(SystemTime::now());
    let mut apps: Vec<Followed> = apps.iter().map(|app| Followed::new(app, since)).collect();
    let anew = apps.iter().all(|app| app.is_awaited);
    for app in apps.iter().filter(|app| app.is_awaited) {
        messages.done(format_args!("{}; waiting for it to start", app.no_traces_message()));
    }
    while apps.iter().all(|app| app.is_awaited) {
        if interrupted.load(Ordering::Relaxed) || wanted.is_over() {
            return Ok(());
        }
        thread::sleep(PAUSE);
        apps.iter_mut().for_each(|app| app.look_for_start(since));
    }
    if needs_sites {
        messages.note(
            "a followed trace does not record where messages come from: they are counted by their text",
        );
    }
    let out = target.open_growing(request.content(view.colours(&target)))?;
    let is_plain = matches!(layout.destination(), Destination::Merged) && !request.names_in_lines;
    let ended = if view.is_asked_for() || view.colours(&target) || !is_plain {
        let looks = (is_terminal(&target), view.colours(&target));
        let part = ViewOutlet::new(&wanted, request, anew, looks, out);
        let part = part.map_err(|error| target.error(error))?;
        Follower::new(apps, since, part).run_to_end(&interrupted, messages)
    } else {
        Follower::new(apps, since, out).run_to_end(&interrupted, messages)
    };
    match ended {
        // The reader of the pipe has closed it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended.map_err(|error| target.error(error)),
    }
}

/// An application or a directory that is followed.
struct Followed {
    app: App,
    runs: Runs,
    /// The users whose files are followed.
    users: Owners,
    files: Files,
    /// Whether the application is still awaited: it has not run since following began.
    is_awaited: bool,
}

impl Followed {
    fn new(app: &App, since: Wall) -> Followed {
        let (app, runs) = (app.clone(), Runs::new(app));
        let users = Owners::of(&app);
        let mut followed = Followed { app, runs, users, files: Files::default(), is_awaited: true };
        followed.look_for_start(since);
        followed
    }

    fn look_for_start(&mut self, since: Wall) {
        self.is_awaited = self.is_awaited && !self.runs.any_since(since, &self.users);
    }

    fn no_traces_message(&self) -> String {
        let given = shown(&self.app.given);
        if self.app.is_directory() {
            return format!("no running program has its traces in {given}");
        }
        format!("{given} is not running")
    }
}

/// Returns the stream of the thread with this key; adds a stream if the thread is new.
fn stream_of<'s>(streams: &'s mut HashMap<ThreadKey, Stream>, key: &ThreadKey) -> &'s mut Stream {
    let number = streams.len();
    streams.entry(key.clone()).or_insert_with(|| Stream::new(key, number))
}

struct Follower<O> {
    apps: Vec<Followed>,
    /// The time when following began.
    since: Wall,
    streams: HashMap<ThreadKey, Stream>,
    /// For the path of each ring, the thread that used the ring when it was last read.
    by_ring: HashMap<PathBuf, ThreadKey>,
    order: Order<O>,
}

impl<O: Outlet> Follower<O> {
    fn new(apps: Vec<Followed>, since: Wall, out: O) -> Follower<O> {
        let (streams, by_ring) = (HashMap::new(), HashMap::new());
        Follower { apps, since, streams, by_ring, order: Order::new(out) }
    }

    fn run_to_end(mut self, interrupted: &Arc<AtomicBool>, messages: &mut Messages) -> io::Result<()> {
        match self.rounds(interrupted, messages) {
            Err(error) if !is_limit_reached(&error) => return Err(error),
            _ => self.order.outlet().finish()?,
        }
        self.report_unseen(messages);
        self.report_findings(messages);
        self.report_completeness(messages);
        let (threads, lines) =
            (count(self.streams.len() as u64, "thread"), count(self.order.lines(), "line"));
        match self.order.outlet().shown() {
            None => messages.done(format_args!("followed {threads}: {lines}, {} late", self.order.late())),
            Some((shown, verb, late)) => {
                let shown = Grouped(shown);
                messages.done(format_args!("followed {threads}: {lines}, {shown} {verb}, {late} late"));
            }
        }
        Ok(())
    }

    /// Reports the losses and the damage that lines state, as a merge does, and the records that were gone before they
    /// could be read.
    fn report_findings(&self, messages: &mut Messages) {
        let mut streams: Vec<&Stream> = self.streams.values().collect();
        streams.sort_by_key(|stream| stream.number());
        let mut findings = Findings::default();
        streams.iter().for_each(|stream| findings.append(stream.findings()));
        findings.report_to_user(|number| streams[number].path(), messages);
        let unseen: u64 = streams.iter().map(|stream| stream.unseen()).sum();
        if unseen > 0 {
            messages.note(format_args!(
                "{} could not be shown: files were deleted, moved or rotated before they were read",
                count(unseen, "record")
            ));
        }
    }

    /// Reports missing files of the followed runs, as a merge at this moment would.
    fn report_completeness(&self, messages: &mut Messages) {
        for app in &self.apps {
            let Ok(found) = find_traces(&app.app, Choice::All, &mut Messages::silent()) else {
                if !self.streams.is_empty() {
                    let given = shown(&app.app.given);
                    messages
                        .warn(format_args!("no trace file of {given} exists any more: a merge finds none"));
                }
                continue;
            };
            let mut chosen = found.chosen;
            let is_followed = |trace: &Trace| trace.run.as_ref().is_some_and(|run| app.runs.is_followed(run));
            chosen.boots.iter_mut().for_each(|boot| boot.retain(is_followed));
            Completeness::of(&chosen, &HashMap::new()).report_to_user(false, messages);
        }
    }

    fn rounds(&mut self, interrupted: &Arc<AtomicBool>, messages: &mut Messages) -> io::Result<()> {
        let (mut quiet, mut lines) = (0u32, 0);
        loop {
            let last = interrupted.load(Ordering::Relaxed) || self.order.outlet().is_over();
            let alive = self.round(messages)?;
            let more = std::mem::replace(&mut lines, self.order.lines()) != lines;
            quiet = if more { 0 } else { quiet.saturating_add(1) };
            if last || !alive {
                return self.order.pass_all(&mut self.streams);
            }
            thread::sleep(if quiet < QUIET { PAUSE } else { LONG_PAUSE });
        }
    }

    /// Executes one round: reads all rings and files, and passes on the lines whose order is settled. Returns whether a
    /// further round is needed, because a run is still alive or may start.
    fn round(&mut self, messages: &mut Messages) -> io::Result<bool> {
        self.order.begin_round();
        let mut looks = Vec::new();
        let mut looked_at = HashSet::new();
        // A thread whose file exists before the rings are read, and that has no ring then, has ended or never had
        // one.
        for (number, app) in self.apps.iter_mut().enumerate() {
            app.look_for_start(self.since);
            let runs = app.runs.look(messages).into_iter().map(|look| (number, look));
            app.files.look(&app.runs, &app.users, messages);
            looks.extend(runs.filter(|(_, look)| looked_at.insert(look.id())));
        }
        let mut in_rings = HashSet::new();
        let mut unread = HashSet::new();
        for (app, look) in &looks {
            if !self.read_rings(*app, look, &mut in_rings, messages) {
                unread.insert(look.id());
            }
        }
        for app in &self.apps {
            let files: Vec<&ListedFile> = app.files.found(&app.runs).collect();
            // A thread continues from file to file, and never returns to an earlier one.
            let mut current: HashMap<&ThreadKey, usize> = HashMap::new();
            for (place, found) in files.iter().enumerate() {
                if self.streams.get(&found.key).is_some_and(|stream| stream.reads(&found.id)) {
                    current.insert(&found.key, place);
                }
            }
            for (place, found) in files.iter().enumerate() {
                let stream = stream_of(&mut self.streams, &found.key);
                let alive = app.runs.is_alive(found.key.run);
                if current.get(&found.key).is_none_or(|current| place >= *current)
                    && !in_rings.contains(&found.key)
                    && !unread.contains(&found.key.run)
                    && !stream.is_done(&found.id, alive)
                {
                    stream.read_to_end_of(&found.path, &found.id, !alive);
                }
            }
        }
        self.begin(&looks);
        self.take_in()?;
        self.order.pass_due(&mut self.streams)?;
        self.order.outlet().end_round()?;
        self.report_unseen(messages);
        Ok(looks.iter().any(|(_, look)| look.is_alive()) || self.apps.iter().any(|app| app.is_awaited))
    }

    /// Tells the outlet, if it wants to know, the runs and threads that exist before the first line is passed on.
    fn begin(&mut self, looks: &[(usize, FollowedRun)]) {
        if self.streams.is_empty() || !self.order.outlet().wants_to_begin() {
            return;
        }
        let of_files = self.apps.iter().flat_map(|app| app.files.found(&app.runs)).map(|found| &found.run);
        let mut runs: Vec<Run> = Vec::new();
        for run in looks.iter().map(|(_, look)| look.run()).chain(of_files) {
            if !runs.contains(run) {
                runs.push(run.clone());
            }
        }
        let threads = self.streams.iter().map(|(key, stream)| {
            let newest = stream.newest().map_or(key.since(), Ticks);
            (key.run, key.since(), newest)
        });
        let threads: Vec<_> = threads.collect();
        self.order.outlet().begin(&Beginning { runs: &runs, threads: &threads });
    }

    fn report_unseen(&mut self, messages: &Messages) {
        if let Some(text) = self.order.outlet().unseen() {
            messages.note(text);
        }
    }

    /// Reads the rings of a run, and adds the keys of the threads that have a ring to `in_rings`. Returns false if a
    /// ring of a live run could not be read.
    fn read_rings(
        &mut self,
        app: usize,
        look: &FollowedRun,
        in_rings: &mut HashSet<ThreadKey>,
        messages: &mut Messages,
    ) -> bool {
        let mut all = true;
        for (ring, change) in self.apps[app].runs.changes(look) {
            match change {
                Ok(runs::Change::Unowned) => {
                    self.by_ring.remove(&ring);
                }
                Ok(runs::Change::Same) => in_rings.extend(self.by_ring.get(&ring).cloned()),
                Ok(runs::Change::Thread(thread)) => {
                    let key = ThreadKey::new(look.id(), thread.tid, thread.since.0);
                    let stream = stream_of(&mut self.streams, &key);
                    stream.look(*thread, look.is_alive());
                    // Most threads have few lines, and filling at once avoids having all files open together.
                    stream.fill(self.order.round());
                    self.by_ring.insert(ring, key.clone());
                    in_rings.insert(key);
                }
                Err(error) => {
                    all = false;
                    if !look.is_alive() {
                        messages.warn(format_args!("{error}; the records in it are not shown"));
                    }
                }
            }
        }
        all || !look.is_alive()
    }

    /// Queues the lines of all threads: first those of files up to their goals, then those of rings, which follow them.
    /// If there are too many lines for the queues, passes on lines whose order is settled.
    fn take_in(&mut self) -> io::Result<()> {
        loop {
            let mut behind = false;
            for stream in self.streams.values_mut() {
                behind |= stream.fill(self.order.round());
            }
            if !behind {
                return Ok(());
            }
            let before = self.order.lines();
            self.order.pass_settled(&mut self.streams)?;
            if self.order.lines() == before {
                // A line in a ring that is older than all these must not make the queues fill the memory.
                self.order.pass_known(&mut self.streams)?;
            }
        }
    }
}
