//! Adds runs to a data set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use trace_format::meta::Run;

use crate::command::dataset::files::{compacted, metadata_of, named};
use crate::command::merge::{Job, write_chosen};
use crate::file::parquet::{FILES_KEY, LAST_KEY, STATE_KEY, VERSION, key_of_run, keys, open, runs_of};
use crate::find::app::App;
use crate::find::choose::{Choice, Chosen};
use crate::find::find_traces_of_all;
use crate::find::header::Trace;
use crate::find::set_files::{FilePlace, RUNS, is_plain};
use crate::os::sys::machine_name;
use crate::output::set::{Locked, Set, Staged};
use crate::ui::error::Error;
use crate::ui::messages::{Grouped, Messages, count, shown};
use crate::view::export::parquet::dataset::{DatasetLayout, TABLES, TableName, date_of};
use crate::view::export::parquet::rewrite::rewrite;
use crate::view::export::parquet::subjects::name_of_run;
use crate::view::request::Request;

/// The facts that a data set states about a run that is already in it.
#[derive(Debug, Default)]
struct KnownRun {
    /// A text that identifies the state of the run's traces when the run was added.
    state: String,
    /// The ticks of the run's last record in the set.
    last: u64,
    /// The names of the files that contain the run's rows, in all tables except the table of runs. Each name consists
    /// of table, day and number.
    files: Vec<String>,
}

impl KnownRun {
    /// Reads the metadata about this run in a file of the table of runs; `None` if the file has no row of the run.
    fn read(file: File, run: &str) -> io::Result<Option<KnownRun>> {
        let keys = keys(&open(file)?);
        if !runs_of(&keys).any(|known| known == run) {
            return Ok(None);
        }
        let text = |key| key_of_run(&keys, key, run).unwrap_or_default();
        Ok(Some(KnownRun {
            state: text(STATE_KEY).to_owned(),
            last: text(LAST_KEY).parse().unwrap_or(0),
            files: text(FILES_KEY).split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        }))
    }
}

/// Returns the entry of a run with the newest state of its traces.
fn newest(known: &[KnownRun]) -> Option<&KnownRun> {
    known.iter().max_by_key(|known| (known.last, &known.state))
}

/// A run that is to be added.
struct NewRun<'a> {
    run: &'a Run,
    traces: Vec<Trace>,
    machine: &'a str,
}

impl NewRun<'_> {
    fn name(&self) -> String {
        name_of_run(self.run)
    }

    /// Returns the path that a staged file gets in the data set. The name of a staged file is its table, day and
    /// number, separated by dots.
    fn place(&self, staged: &str) -> Option<FilePlace> {
        let mut words = staged.split('.');
        let mut next = || words.next().map(str::to_owned);
        let (table, day, part) = (next()?, next()?, next()?);
        let name = format!("{}-{part}.parquet", self.name());
        let place = FilePlace { table, day, machine: self.machine.to_owned(), name };
        (TABLES.contains(&&place.table[..]) && is_plain(&place.day) && is_plain(&place.name)).then_some(place)
    }

    /// Returns the path, in the data set, of the run's file in the table of runs.
    fn place_in_runs(&self) -> FilePlace {
        FilePlace {
            table: RUNS.to_owned(),
            day: date_of(self.run.wall),
            machine: self.machine.to_owned(),
            name: format!("{}-0.parquet", self.name()),
        }
    }

    /// Returns a text that identifies the state of the run's traces. The text changes if the traces get other records,
    /// or if another version of this program reads them.
    fn state(&self) -> String {
        let mut sums = crc32fast::Hasher::new();
        let mut bytes = 0;
        for trace in &self.traces {
            let length = trace.held.as_ref().map_or_else(
                || trace.map.as_ref().map_or_else(|| length_of(trace), |map| map.len() as u64),
                |held| (held.file().len() + held.rest().len()) as u64,
            );
            let Trace { tid, number, first, last, .. } = trace;
            sums.update(format!("{tid} {number} {first} {last} {length}\n").as_bytes());
            bytes += length;
        }
        let files = self.traces.len();
        let (program, sums) = (env!("CARGO_PKG_VERSION"), sums.finalize());
        format!("{program}-{VERSION}-{files}-{bytes}-{sums:08x}")
    }
}

fn length_of(trace: &Trace) -> u64 {
    std::fs::metadata(&trace.path).map_or(0, |metadata| metadata.len())
}

/// The result of the addition of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    /// The run was added, or its rows were replaced.
    Now,
    /// The set already had the run, with the present state of its traces or a later one.
    Before,
    /// The run could not be read, or no complete tables could be made of it; this was reported to the user.
    Not,
}

/// Adds the runs of `apps` to the data set at `path`.
///
/// # Errors
/// If there are no traces, or if the set cannot be written.
pub(super) fn add(
    path: &Path,
    apps: &[App],
    machine: Option<String>,
    messages: &mut Messages,
) -> Result<(), Error> {
    if let Some(other) = apps.iter().find(|app| app.is_data_set()) {
        // The records of a data set lack what only traces have, such as the sites of messages.
        return Err(Error::plain(format!(
            "cannot add {}, which is a data set itself: to put data sets together, copy their files into one \
             directory",
            shown(&other.given)
        )));
    }
    let machine = name_of_machine(machine)?;
    let request = Request::default();
    let (now, before) =
        add_chosen(path, &Job { apps, request: &request, choice: Choice::All }, &machine, messages)?;
    let had = if before == 0 {
        String::new()
    } else {
        format!("; already in it: {} of the chosen runs", Grouped(before))
    };
    messages.done(format_args!("added {} to {}{had}", count(now, "run"), shown(path)));
    Ok(())
}

/// Writes the runs that `job` chooses into a new set at `path`, with only the records that `job` selects.
///
/// # Errors
/// If there are no traces, or if the set cannot be written.
pub(super) fn write_new(path: &Path, job: &Job<'_>, messages: &mut Messages) -> Result<(), Error> {
    // No other set has these files.
    let machine = name_of_machine(None).unwrap_or_else(|_| UNNAMED.to_owned());
    add_chosen(path, job, &machine, messages)?;
    Ok(())
}

/// The name that is used instead of this machine's name, if the machine's name cannot be part of a path.
const UNNAMED: &str = "unnamed";

/// Returns the name of the machine that the user has given, or else the name of this machine.
fn name_of_machine(given: Option<String>) -> Result<String, Error> {
    match given {
        Some(name) if is_plain(&name) => Ok(name),
        Some(name) => Err(Error::plain(format!(
            "--machine '{}' is not a name for a machine: expected letters, digits, and . - _, with neither . nor - \
             at the beginning",
            name.escape_debug()
        ))),
        None => machine_name().filter(|name| is_plain(name)).ok_or_else(|| {
            Error::plain(
                "the name of this machine cannot be part of a path: give another one with --machine NAME",
            )
        }),
    }
}

/// Adds the runs that `job` chooses to the set at `path`, as runs of the machine named `machine`. Returns the number of
/// runs that were added or replaced, and the number of runs that the set had already.
fn add_chosen(
    path: &Path,
    job: &Job<'_>,
    machine: &str,
    messages: &mut Messages,
) -> Result<(u64, u64), Error> {
    let failed = |error| Error::io("write to the data set", path, error);
    let set = Set::open(path, &TABLES).map_err(failed)?;
    let found = find_traces_of_all(job.apps, job.choice, messages)?;
    found.completeness.report_to_user(false, messages);
    let (mut by_run, mut without) = (BTreeMap::<_, Vec<Trace>>::new(), 0);
    for trace in found.chosen.boots.into_iter().flatten() {
        match &trace.run {
            Some(run) => {
                let key = (run.boot.clone(), run.id, run.pid, trace.owner);
                by_run.entry(key).or_default().push(trace);
            }
            None => without += 1,
        }
    }
    if without > 0 {
        let files = count(without, "file");
        messages.warn(format_args!(
            "not added: {files} without a '# run' line, so the run of the records is unknown"
        ));
    }
    let (mut now, mut before) = (0, 0);
    for traces in by_run.into_values() {
        let Some(run) = traces.first().and_then(|trace| trace.run.clone()) else { continue };
        match (NewRun { run: &run, traces, machine }).add(&set, job, messages)? {
            Added::Now => now += 1,
            Added::Before => before += 1,
            Added::Not => {}
        }
    }
    Ok((now, before))
}

impl NewRun<'_> {
    /// Adds the run to the set, unless the set already has the run with the present state of its traces or with later
    /// records.
    fn add(self, set: &Set, job: &Job<'_>, messages: &mut Messages) -> Result<Added, Error> {
        let failed = |error| Error::io("write to the data set", &set.path, error);
        let state = self.state();
        let known = self.known(&set.lock(None).map_err(failed)?).map_err(failed)?;
        if newest(&known).is_some_and(|known| known.state == state) {
            return Ok(Added::Before);
        }
        let mut folder = set.begin().map_err(failed)?;
        let layout = DatasetLayout { host: self.machine.to_owned(), run: self.name(), state: state.clone() };
        let request = Request { layout: Arc::new(layout), ..job.request.clone() };
        let chosen = Chosen { boots: vec![self.traces.clone()], runs: 1, ..Chosen::default() };
        let written = write_chosen(&chosen, job.apps, &request, messages, |delivery, messages| {
            delivery.write_once(&mut folder, messages)
        });
        if let Err(error) = written {
            messages.warn(format_args!("run {} is not added: {error}", self.name()));
            return Ok(Added::Not);
        }
        let staged = Staged::of(folder).map_err(failed)?;
        let mut added: Vec<(String, FilePlace)> =
            staged.names.iter().filter_map(|name| Some((name.clone(), self.place(name)?))).collect();
        let in_runs = self.place_in_runs();
        let Some((name, _)) = added.iter().find(|(_, place)| *place == in_runs) else {
            messages.warn(format_args!(
                "run {} is not added: the tables made for it are incomplete",
                self.name()
            ));
            return Ok(Added::Not);
        };
        let new = staged.read(name).and_then(|file| KnownRun::read(file, &self.name())).map_err(failed)?;
        let new = new.unwrap_or_default();
        let locked = set.lock(Some(&staged)).map_err(failed)?;
        let known = self.known(&locked).map_err(failed)?;
        // Another writer may have been faster, and may have read more.
        if newest(&known).is_some_and(|known| known.state == state || known.last > new.last) {
            return Ok(Added::Before);
        }
        let files = known.iter().flat_map(|known| &known.files);
        let old: Vec<FilePlace> = files.filter_map(|name| self.place(name)).collect();
        let mut removed = Vec::new();
        self.write_without(&old, (&staged, &locked), &mut added, &mut removed).map_err(failed)?;
        removed.extend(old);
        locked.change(staged, &added, &removed).map_err(failed)?;
        Ok(Added::Now)
    }

    /// Returns the set's entries for the run. There are several entries if the files of several sets with this run were
    /// copied into one directory.
    fn known(&self, locked: &Locked<'_>) -> io::Result<Vec<KnownRun>> {
        let own = self.place_in_runs();
        let mut known = Vec::new();
        for place in compacted(&own, locked)?.into_iter().chain([own]) {
            let Some(file) = locked.read(&place)? else { continue };
            known.extend(KnownRun::read(file, &self.name()).map_err(|error| named(&place, &error))?);
        }
        Ok(known)
    }

    /// Rewrites the files that have rows of this run and of other runs, without the rows of this run. Looks for such
    /// files in the folders of the files `old` and `added`. Adds the rewritten files to `added`; but if no rows remain
    /// of a file, adds its path to `removed` instead.
    fn write_without(
        &self,
        old: &[FilePlace],
        (staged, locked): (&Staged, &Locked<'_>),
        added: &mut Vec<(String, FilePlace)>,
        removed: &mut Vec<FilePlace>,
    ) -> io::Result<()> {
        let folder = |place: &FilePlace| FilePlace { name: String::new(), ..place.clone() };
        let new = added.iter().map(|(_, place)| place);
        let folders: BTreeSet<FilePlace> = old.iter().chain(new).map(folder).collect();
        let places =
            folders.iter().map(|folder| compacted(folder, locked)).collect::<io::Result<Vec<_>>>()?;
        for (number, place) in places.concat().into_iter().enumerate() {
            let Some((file, table)) = locked.read(&place)?.zip(TableName::named(&place.table)) else {
                continue;
            };
            let keys = keys(&open(file.try_clone()?).map_err(|error| named(&place, &error))?);
            if !runs_of(&keys).any(|run| run == self.name()) {
                continue;
            }
            let others: Vec<&str> = runs_of(&keys).filter(|run| *run != self.name()).collect();
            let name = format!("rewritten.{number}");
            let out = staged.create(&name)?;
            let rows = rewrite(table, vec![file], &[&self.name()], &metadata_of(&others, &[&keys]), out)
                .map_err(|error| named(&place, &error))?;
            if rows == 0 { removed.push(place) } else { added.push((name, place)) }
        }
        Ok(())
    }
}
