//! `--follow`: what a running application traces, merged, as it comes: from its files, and from its rings before the
//! flusher has written it.
//!
//! Works in rounds. A round looks at the rings of all runs that live, then at the files behind, and queues the lines
//! that were not shown yet. Lines that stand before all that is only in rings are passed on at once, in order, so what
//! is in files already streams through in constant memory. Any other line waits for the next round, in which lines
//! of other threads that go before it turn up, and is then passed on with all that stands before it. What turns up
//! even later, because its thread took long to format it or a forked process was found late, is passed on at once,
//! behind a line `# late`.

mod files;
mod order;
mod place;
mod runs;
mod stream;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::discover::{App, search};
use crate::error::Error;
use crate::messages::{Messages, count, shown};
use crate::run::wall_clock;
use crate::signals;
use crate::write::Target;

use self::files::Files;
use self::order::Order;
use self::runs::{Look, Runs};
use self::stream::{Stream, ThreadKey};

/// From one round to the next. A line waits for one, a tenth of a second at most all together.
const PAUSE: Duration = Duration::from_millis(25);
/// The same when nothing has come for a while.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// For so many rounds.
const QUIET: u32 = 40;
const BUFFER: usize = 1 << 16;

/// Shows what `app` traces until all its processes have ended, or somebody interrupts.
///
/// # Errors
/// Where the output cannot be written.
pub fn follow(app: &App, output: Option<&OsStr>, messages: &mut Messages) -> Result<(), Error> {
    let inputs = search(app, &[]).candidates.into_iter().map(|candidate| candidate.id).collect();
    let target = Target::new(Some(output.unwrap_or(OsStr::new("-"))), std::slice::from_ref(app), &inputs)?;
    let interrupted = signals::interruption();
    let mut runs = Runs::new(app);
    let since = wall_clock(SystemTime::now());
    if !runs.any_since(since) {
        messages.done(format_args!("{} is not running; waiting for it to start", shown(&app.given)));
        while !runs.any_since(since) {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }
    let out = BufWriter::with_capacity(BUFFER, open(&target)?);
    let mut follower = Follower {
        runs,
        files: Files::default(),
        streams: HashMap::new(),
        by_ring: HashMap::new(),
        order: Order::new(out),
    };
    match follower.until_the_end(&interrupted, messages) {
        Ok(()) => {}
        // Nobody reads on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Err(error) => return Err(target.error(error)),
    }
    for stream in follower.streams.values().filter(|stream| stream.damaged() > 0) {
        messages.warn(format_args!(
            "{}: {} hold no trace line; '# damaged' lines show them",
            shown(stream.path()),
            count(stream.damaged(), "place")
        ));
    }
    let (threads, lines) =
        (count(follower.streams.len() as u64, "thread"), count(follower.order.lines(), "line"));
    messages.done(format_args!("followed {threads}: {lines}, {} late", follower.order.late()));
    Ok(())
}

/// Opens the output to be written as lines come: nothing is renamed at the end.
fn open(target: &Target) -> Result<Box<dyn Write>, Error> {
    let failed = |error| target.error(error);
    Ok(match target {
        Target::Stdout => Box::new(io::stdout()),
        Target::Direct(path) | Target::Null(path) => {
            Box::new(File::options().write(true).open(path).map_err(failed)?)
        }
        Target::File { real, .. } => Box::new(File::create(real).map_err(failed)?),
    })
}

struct Follower<W: Write> {
    runs: Runs,
    files: Files,
    streams: HashMap<ThreadKey, Stream>,
    /// Who had a ring when it was last read.
    by_ring: HashMap<PathBuf, ThreadKey>,
    order: Order<W>,
}

impl<W: Write> Follower<W> {
    fn until_the_end(&mut self, interrupted: &Arc<AtomicBool>, messages: &mut Messages) -> io::Result<()> {
        let (mut quiet, mut lines) = (0u32, 0);
        loop {
            let last = interrupted.load(Ordering::Relaxed);
            let alive = self.round(messages)?;
            let more = std::mem::replace(&mut lines, self.order.lines()) != lines;
            quiet = if more { 0 } else { quiet.saturating_add(1) };
            if last || !alive {
                self.order.pass_all(&mut self.streams)?;
                return self.order.flush();
            }
            thread::sleep(if quiet < QUIET { PAUSE } else { LONG_PAUSE });
        }
    }

    /// Looks at everything once; whether a run still lives.
    fn round(&mut self, messages: &mut Messages) -> io::Result<bool> {
        self.order.begin_round();
        // Whose file is there before the rings are looked at, and has no ring then, has ended or never had one.
        let looks = self.runs.look(messages);
        self.files.look(&self.runs);
        let mut in_rings = HashSet::new();
        let mut unread = HashSet::new();
        for look in &looks {
            if !self.look_at_rings(look, &mut in_rings, messages) {
                unread.insert(look.id());
            }
        }
        for found in self.files.found(&self.runs) {
            let stream = self.streams.entry(found.key.clone()).or_insert_with(|| Stream::new(&found.key));
            let alive = self.runs.is_alive(found.key.run);
            if !in_rings.contains(&found.key) && !unread.contains(&found.key.run) && !stream.is_done(alive) {
                stream.read_to_end_of(&found.path, &found.id, !alive);
            }
        }
        self.take_in()?;
        self.order.pass_due(&mut self.streams)?;
        self.order.flush()?;
        Ok(looks.iter().any(Look::is_alive))
    }

    /// Whether all rings of the run could be looked at.
    fn look_at_rings(
        &mut self,
        look: &Look,
        in_rings: &mut HashSet<ThreadKey>,
        messages: &mut Messages,
    ) -> bool {
        let mut all = true;
        for (ring, change) in self.runs.changes(look) {
            match change {
                Ok(runs::Change::Nobody) => {
                    self.by_ring.remove(&ring);
                }
                Ok(runs::Change::Same) => in_rings.extend(self.by_ring.get(&ring).cloned()),
                Ok(runs::Change::Thread(thread)) => {
                    let key = ThreadKey::new(look.id(), thread.tid, thread.since.0);
                    let stream = self.streams.entry(key.clone()).or_insert_with(|| Stream::new(&key));
                    stream.look(*thread, look.is_alive());
                    // Most have little, and then their files need not be open at once.
                    stream.fill(self.order.round());
                    self.by_ring.insert(ring, key.clone());
                    in_rings.insert(key);
                }
                Err(error) => {
                    all = false;
                    if !look.is_alive() {
                        messages.warn(format_args!("{error}; what is in there is not shown"));
                    }
                }
            }
        }
        all || !look.is_alive()
    }

    /// Reads the files as far as they are to be read, then what rings have behind them, and passes on what is settled.
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
                // A line in a ring that is older than all these must not fill the memory with them.
                self.order.pass_known(&mut self.streams)?;
            }
        }
    }
}
