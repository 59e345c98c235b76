//! The addition of runs to a data set.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use trace_format::meta::Run;

use crate::command::merge::write_chosen;
use crate::find::app::App;
use crate::find::choose::{Choice, Chosen};
use crate::find::find_traces_of_all;
use crate::find::header::Trace;
use crate::os::sys::machine_name;
use crate::output::set::{FilePlace, Locked, Set, Staged, is_plain};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, count, shown};
use crate::view::export::parquet::dataset::{DatasetLayout, RUNS, TABLES, date_of};
use crate::view::export::parquet::footer::keys_of;
use crate::view::export::parquet::schema::{FILES_KEY, LAST_KEY, STATE_KEY, VERSION};
use crate::view::export::parquet::subjects::name_of_run;
use crate::view::request::Request;

/// The state in which a set has a run.
#[derive(Debug, Default)]
struct KnownRun {
    /// The state of the run's traces.
    state: String,
    /// The ticks of its last record.
    last: u64,
    /// Its files in all tables but that of runs, each as table, day and number.
    files: Vec<String>,
}

impl KnownRun {
    /// Reads the metadata of a run's file in the table of runs.
    fn read(file: File) -> io::Result<KnownRun> {
        let keys: HashMap<String, String> = keys_of(file)?;
        let text = |key: &str| keys.get(key).map_or("", |value| &value[..]);
        Ok(KnownRun {
            state: text(STATE_KEY).to_owned(),
            last: text(LAST_KEY).parse().unwrap_or(0),
            files: text(FILES_KEY).split(' ').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        })
    }
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

    /// Returns the place of a file by its name in the stream: table, day and number, with dots between them.
    fn place(&self, staged: &str) -> Option<FilePlace> {
        let mut words = staged.split('.');
        let mut next = || words.next().map(str::to_owned);
        let (table, day, part) = (next()?, next()?, next()?);
        let name = format!("{}-{part}.parquet", self.name());
        let place = FilePlace { table, day, machine: self.machine.to_owned(), name };
        (TABLES.contains(&&place.table[..]) && is_plain(&place.day) && is_plain(&place.name)).then_some(place)
    }

    /// Returns the place of the run's file in the table of runs.
    fn place_in_runs(&self) -> FilePlace {
        FilePlace {
            table: RUNS.to_owned(),
            day: date_of(self.run.wall),
            machine: self.machine.to_owned(),
            name: format!("{}-0.parquet", self.name()),
        }
    }

    /// Returns a text that is another one if the traces have other records, or if another version of this program
    /// reads them.
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
    /// The set has it now.
    Now,
    /// The set had it before, in this state or a later one.
    Before,
    /// It could not be read; the user knows.
    Not,
}

/// Adds the runs of `apps` to the set at `path`.
///
/// # Errors
/// If there are no traces, or if the set cannot be written.
pub(super) fn add(
    path: &Path,
    apps: &[App],
    machine: Option<String>,
    messages: &mut Messages,
) -> Result<(), Error> {
    let machine = match machine {
        Some(name) if is_plain(&name) => name,
        Some(name) => {
            return Err(Error::plain(format!(
                "--machine '{}' is no name of a machine: it may have letters, digits, and . - _ inside",
                name.escape_debug()
            )));
        }
        None => machine_name().filter(|name| is_plain(name)).ok_or_else(|| {
            Error::plain("this machine has no name that can be part of a path; name it with --machine NAME")
        })?,
    };
    let failed = |error| Error::io("write to the data set", path, error);
    let set = Set::open(path, &TABLES).map_err(failed)?;
    let found = find_traces_of_all(apps, Choice::All, messages)?;
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
        messages
            .warn(format_args!("{files} without a '# run' line: not in the set, which has records by runs"));
    }
    let (mut now, mut before) = (0, 0);
    for traces in by_run.into_values() {
        let Some(run) = traces.first().and_then(|trace| trace.run.clone()) else { continue };
        match (NewRun { run: &run, traces, machine: &machine }).add(&set, apps, messages)? {
            Added::Now => now += 1,
            Added::Before => before += 1,
            Added::Not => {}
        }
    }
    let had = if before == 0 { String::new() } else { format!("; it has {} already", count(before, "run")) };
    messages.done(format_args!("added {} to {}{had}", count(now, "run"), shown(path)));
    Ok(())
}

impl NewRun<'_> {
    /// Adds the run, if the set does not have it in this state.
    fn add(self, set: &Set, apps: &[App], messages: &mut Messages) -> Result<Added, Error> {
        let failed = |error| Error::io("write to the data set", &set.path, error);
        let state = self.state();
        let known = self.known(&set.lock(None).map_err(failed)?).map_err(failed)?;
        if known.is_some_and(|known| known.state == state) {
            return Ok(Added::Before);
        }
        let mut folder = set.begin().map_err(failed)?;
        let layout = DatasetLayout { host: self.machine.to_owned(), run: self.name(), state: state.clone() };
        let request = Request { layout: Arc::new(layout), ..Request::default() };
        let chosen = Chosen { boots: vec![self.traces.clone()], runs: 1, ..Chosen::default() };
        let written = write_chosen(&chosen, apps, &request, messages, |delivery, messages| {
            delivery.write_once(&mut folder, messages)
        });
        if let Err(error) = written {
            messages.warn(format_args!("run {} is not added: {error}", self.name()));
            return Ok(Added::Not);
        }
        let staged = Staged::of(folder).map_err(failed)?;
        let added: Vec<(String, FilePlace)> =
            staged.names.iter().filter_map(|name| Some((name.clone(), self.place(name)?))).collect();
        let in_runs = self.place_in_runs();
        let Some((name, _)) = added.iter().find(|(_, place)| *place == in_runs) else {
            messages.warn(format_args!("run {} is not added: its tables are incomplete", self.name()));
            return Ok(Added::Not);
        };
        let new = staged.read(name).and_then(KnownRun::read).map_err(failed)?;
        let locked = set.lock(Some(&staged)).map_err(failed)?;
        let known = self.known(&locked).map_err(failed)?.unwrap_or_default();
        // Another writer may have been faster, and may have read more.
        if known.state == state || known.last > new.last {
            return Ok(Added::Before);
        }
        let old = known.files.iter().filter_map(|name| self.place(name));
        let removed: Vec<FilePlace> = old.filter(|old| added.iter().all(|(_, place)| place != old)).collect();
        locked.change(staged, &added, &removed).map_err(failed)?;
        Ok(Added::Now)
    }

    /// Returns the state in which the set has the run.
    fn known(&self, locked: &Locked<'_>) -> io::Result<Option<KnownRun>> {
        locked.read(&self.place_in_runs())?.map(KnownRun::read).transpose()
    }
}
