//! The module table of a process: the files that are mapped as code, and the times when they were mapped.
//!
//! The flusher thread updates the table before it renders records with addresses, and from time to time. The flusher
//! writes the table to the file `modules` of the run's directory, from which a recoverer reads it, and to each trace
//! file that has addresses.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use trace_format::line::Ticks;
use trace_format::manifest::MODULES_NAME;
use trace_format::meta::{Between, Meta, Module};
use trace_format::render::Modules;

use crate::reading::read_at_most;
use crate::sys::{self, LoadedModules};

/// The greatest number of bytes that are read of the file with the module table. A line takes some hundred bytes.
const MAX_TABLE_BYTES: u64 = 16 << 20;

/// The number of modules that this process has ever loaded, and the number that it has unloaded, both in one word; as
/// of the last time that the list of modules was compared with the table.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// The latest ticks at which a thread has found that no module was loaded or unloaded since the list of modules was
/// last compared with the table. Relaxed: the counts of modules only grow, so any stored value is earlier than the
/// changes that the next comparison finds. Set to zero when a table is made, because the next run of the process may
/// use another clock.
static UNCHANGED_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Returns whether modules may have been loaded or unloaded since the list of modules was read last. If none were,
/// stores the ticks of this call: a module that is found later was then loaded after them. `now` reads the clock of the
/// process's records. Any thread may call this; it takes the loader's lock, for a few nanoseconds.
#[must_use]
pub fn may_have_changed(now: fn() -> Ticks) -> bool {
    let before = now();
    let Some(counts) = sys::module_counts() else { return false };
    // Relaxed: if the word is older than the counts, one look too many follows.
    let may_have_changed = counts.0 == 0 || word_of(counts) != SEEN.load(Ordering::Relaxed);
    if !may_have_changed {
        UNCHANGED_UNTIL.fetch_max(before.0, Ordering::Relaxed);
    }
    may_have_changed
}

fn word_of((loaded, unloaded): (u64, u64)) -> u64 {
    loaded << 32 ^ unloaded
}

/// The table of the modules of this process, as far as they have been found by reading the list of loaded modules from
/// time to time.
pub struct ModuleTable {
    now: fn() -> Ticks,
    /// The number of modules that this process has ever loaded, and the number that it has unloaded, when the list of
    /// modules was read last.
    counts: (u64, u64),
    /// The ticks up to which the table is known to be complete: those of the last look at the list of modules.
    updated_at: Ticks,
    /// The modules that were loaded at the last look.
    there: Vec<Module>,
    /// The lines of the table, which describe all changes found so far.
    lines: Vec<Meta>,
    /// The path of the table's file in the run's directory, and the number of lines written to it; `None` if there is
    /// no file.
    file: Option<(PathBuf, usize)>,
    /// Whether the table was ever needed, because records with addresses were rendered.
    needed: bool,
}

impl ModuleTable {
    /// Makes an empty table. `now` reads the clock of the process's records.
    #[must_use]
    pub fn new(now: fn() -> Ticks) -> ModuleTable {
        UNCHANGED_UNTIL.store(0, Ordering::Relaxed);
        ModuleTable {
            now,
            counts: (0, 0),
            updated_at: Ticks(0),
            there: Vec::new(),
            lines: Vec::new(),
            file: None,
            needed: false,
        }
    }

    /// Ensures that the table is in a file in a run's directory, if there is one. The first call for a directory
    /// updates the table. Later calls update it only if records with addresses were rendered; repeated calls then miss
    /// few modules that are loaded only briefly.
    pub fn keep_in(&mut self, directory: Option<&Path>) {
        let Some(directory) = directory else { return self.file = None };
        let known = self.file.as_ref().is_some_and(|(path, _)| path.parent() == Some(directory));
        if !known {
            self.file = Some((directory.join(MODULES_NAME), 0));
        }
        if !known || self.needed {
            self.look();
            self.write();
        }
    }

    /// Ensures that the table in the directory of this process's run has all modules that are loaded now. This is for
    /// a process that is about to end, and whose flusher does not update the table any more.
    pub(crate) fn complete(directory: &Path, user: u32, now: fn() -> Ticks) {
        let mut stored = StoredModules::open(directory, user);
        let mut table = ModuleTable::new(now);
        table.lines = Modules::lines(&mut stored).to_vec();
        for line in &table.lines {
            let (range, between) = match line {
                Meta::Module(module) => (module.range, module.loaded),
                Meta::Unloaded { range, gone } => (*range, *gone),
                _ => continue,
            };
            table.updated_at = table.updated_at.max(between.seen);
            table.there.retain(|other| other.range.end <= range.start || range.end <= other.range.start);
            if let Meta::Module(module) = line {
                table.there.push(module.clone());
            }
        }
        // The counts at that look are not known.
        table.counts = (u64::MAX, u64::MAX);
        table.file = Some((directory.join(MODULES_NAME), table.lines.len()));
        table.look();
    }

    /// Updates the table if modules were loaded or unloaded since the last update. Otherwise the call takes only a few
    /// nanoseconds, in which it holds the loader's lock.
    fn look(&mut self) {
        let before = Between { after: self.unchanged_until(), seen: (self.now)() };
        let Some(counts) = sys::module_counts() else { return };
        if counts == self.counts && !self.lines.is_empty() {
            // The loaded modules were loaded at the moment that was read before the counts.
            self.updated_at = before.seen;
            return;
        }
        let Some(found) = sys::loaded_modules() else { return };
        let seen = (self.now)();
        self.compare(found, Between { seen, ..before });
        // The modules were seen between the two readings of the clock; the next change may have happened in
        // between, too.
        self.updated_at = before.seen;
        self.write();
    }

    /// Returns the latest ticks at which the loaded modules are known to have been the same as at the last look: the
    /// ticks of that look, or later ticks at which a thread has found the counts unchanged.
    fn unchanged_until(&self) -> Ticks {
        let is_compared = word_of(self.counts) == SEEN.load(Ordering::Relaxed);
        let compared_at = if is_compared { UNCHANGED_UNTIL.load(Ordering::Relaxed) } else { 0 };
        self.updated_at.max(Ticks(compared_at))
    }

    /// Appends the lines that describe how `found` differs from the modules at the last look. The changes happened in
    /// the period `between`.
    fn compare(&mut self, found: LoadedModules, between: Between) {
        let is_in = |module: &Module, all: &[Module]| {
            let same = |other: &Module| {
                (other.range, &other.build_id, &other.path) == (module.range, &module.build_id, &module.path)
            };
            all.iter().any(same)
        };
        let (mut came, mut went) = (0, 0);
        let mut lines = Vec::new();
        for old in self.there.iter().filter(|old| !is_in(old, &found.modules)) {
            went += 1;
            lines.push(Meta::Unloaded { range: old.range, gone: between });
        }
        for new in found.modules.iter().filter(|new| !is_in(new, &self.there)) {
            came += 1;
            lines.push(Meta::Module(Module { loaded: between, ..new.clone() }));
        }
        let is_first = self.lines.is_empty();
        let hidden = found.counts.0.saturating_sub(self.counts.0).saturating_sub(came);
        let hidden = hidden.max(found.counts.1.saturating_sub(self.counts.1).saturating_sub(went));
        if hidden > 0 && !is_first {
            lines.push(Meta::Missed { modules: hidden, there: between });
        }
        self.lines.append(&mut lines);
        (self.there, self.counts) = (found.modules, found.counts);
        SEEN.store(word_of(self.counts), Ordering::Relaxed);
    }

    /// Writes the lines that are not in the file yet. If that fails, the next call writes all these lines again, even
    /// one of which the file already has a part.
    fn write(&mut self) {
        let Some((path, written)) = &mut self.file else { return };
        let mut text = Vec::new();
        for line in self.lines.get(*written..).unwrap_or_default() {
            line.write(&mut text);
            text.push(b'\n');
        }
        if text.is_empty() {
            return;
        }
        // This ends a line that was cut because the disk was full; readers ignore such a line.
        let begun = if *written == 0 { &b""[..] } else { b"\n" };
        let file = match sys::create_private_file(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => sys::open_to_append(path),
            file => file,
        };
        if file.and_then(|mut file| file.write_all(&[begun, &text].concat())).is_ok() {
            *written = self.lines.len();
        }
    }
}

impl Modules for ModuleTable {
    fn lines(&mut self) -> &[Meta] {
        self.needed = true;
        self.look();
        &self.lines
    }
}

/// The module table of another process, read from its run's directory when it is needed.
pub(crate) struct StoredModules {
    file: Option<File>,
    lines: Vec<Meta>,
}

impl StoredModules {
    /// Opens the table of the run in `directory`, which belongs to `user`. If there is no table, the result has no
    /// lines.
    pub(crate) fn open(directory: &Path, user: u32) -> StoredModules {
        let file = sys::open_file_of_user_to_read(&directory.join(MODULES_NAME), user).ok();
        StoredModules { file, lines: Vec::new() }
    }
}

impl Modules for StoredModules {
    fn lines(&mut self) -> &[Meta] {
        if let Some(mut file) = self.file.as_ref().filter(|_| self.lines.is_empty()) {
            let bytes = file.rewind().and_then(|()| read_at_most(file, MAX_TABLE_BYTES)).unwrap_or_default();
            // A last line without its end is still being written.
            let whole = bytes.split_inclusive(|&byte| byte == b'\n');
            self.lines = whole.filter_map(|line| parse(line.strip_suffix(b"\n")?)).collect();
        }
        &self.lines
    }
}

/// Parses a line of the module table; returns `None` if it is no such line.
fn parse(line: &[u8]) -> Option<Meta> {
    Meta::parse(line)
        .filter(|meta| matches!(meta, Meta::Module(_) | Meta::Unloaded { .. } | Meta::Missed { .. }))
}
