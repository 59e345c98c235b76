//! The properties that many rows share: those of a row's thread, and those of its *subject*. The subject of a row is,
//! for example, the site of a message, or the function that is entered or left.

use std::collections::HashMap;
use std::sync::Arc;

use parquet::errors::Result;
use trace_format::meta::Run;

use super::schema::{OF_SUBJECT, OfSubject};
use super::table::Shared;
use super::words::{NONE, ValueId};
use crate::view::export::events::{Event, EventContent, Inventory, LockContent, TypedSite};
use crate::view::export::fields::{Row, function_left, row_of};
use crate::view::function_names::FunctionId;
use crate::view::values::Field;

/// The threads and the *subjects* of the rows so far. A subject is a set of properties that many rows share, such as
/// those of a site.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    /// The properties of the threads and of the subjects.
    pub shared: Shared,
    /// The index of each subject, by its properties.
    known: HashMap<[ValueId; OF_SUBJECT], u32>,
    /// For each site, the index of the subject of its messages: of those without values, and (in the second list) of
    /// those with values.
    messages: [Vec<Option<u32>>; 2],
    /// The index of the subject of the messages without a site, and that of the lock records.
    without_site: [Option<u32>; 2],
    /// For each function, the index of the subject of its enter records, and (in the second list) of its leave records.
    calls: [Vec<Option<u32>>; 2],
    /// For each function, the index of the subject of its ended calls without a leave record, and (in the second list)
    /// of those with one.
    ended: [Vec<Option<u32>>; 2],
    /// For each site, the indices of the subjects of its values: one for each value of a message.
    values: Vec<Option<Arc<[u32]>>>,
    /// The name of the machine, if it is known.
    host: Option<String>,
}

impl Subjects {
    /// Creates an object without subjects, for records of the machine `host`.
    pub(super) fn of_host(host: &str) -> Subjects {
        Subjects { host: Some(host.to_owned()), ..Subjects::default() }
    }

    /// Returns the index of an event's thread in the list of threads. If the thread is new, adds its properties to the
    /// list.
    #[inline]
    pub(super) fn thread(&mut self, event: &Event<'_>, inventory: &Inventory) -> u32 {
        if self.shared.threads.len() <= event.thread {
            self.meet_threads(inventory);
        }
        u32::try_from(event.thread).unwrap_or(u32::MAX)
    }

    /// Adds the properties of all threads of the inventory.
    #[cold]
    pub(super) fn meet_threads(&mut self, inventory: &Inventory) {
        let Shared { words, threads, .. } = &mut self.shared;
        for thread in inventory.threads().iter().skip(threads.len()) {
            let process = &inventory.processes()[thread.process];
            let run = process.run.as_ref();
            let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut text = |text: Option<String>| words.text(text.as_deref());
            let host = text(self.host.clone());
            let [boot, exe] =
                [run.map(|run| lossy(&run.boot)), run.map(|run| lossy(&run.exe))].map(&mut text);
            let [name, root] = [run.map(name_of_run), run.map(|run| format!("{:08x}", run.root))].map(text);
            threads.push([
                words.integer(run.map(|run| run.pid.into())),
                words.integer(Some(thread.tid)),
                words.text(Some(thread.label())),
                words.text(Some(&process.name)),
                host,
                boot,
                exe,
                name,
                root,
            ]);
        }
    }

    /// Returns the index of the subject of an event's row; `None` if no record made the event. `table` returns the name
    /// of the table that has the values of the event's message, if there is one.
    ///
    /// # Errors
    /// Returns an error if `table` does.
    #[inline]
    pub(super) fn subject(
        &mut self,
        event: &Event<'_>,
        inventory: &Inventory,
        table: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<Option<u32>> {
        let (of, number) = match &event.what {
            EventContent::Message { site: Some(site), values, .. } => {
                (&mut self.messages[usize::from(values.is_some())], *site)
            }
            EventContent::Enter(call_info) => (&mut self.calls[0], call_info.called.function as usize),
            EventContent::Leave(call_info, ended) => {
                (&mut self.calls[1], function_left(call_info, ended) as usize)
            }
            EventContent::Message { site: None, lock, .. } => {
                let place = usize::from(*lock == LockContent::Record);
                if self.without_site[place].is_none() {
                    self.without_site[place] = self.new_subject(event, inventory, None);
                }
                return Ok(self.without_site[place]);
            }
            EventContent::Stack(_) | EventContent::Meta { .. } => {
                return Ok(self.new_subject(event, inventory, None));
            }
            EventContent::Close(_) => return Ok(None),
        };
        if let Some(Some(subject)) = of.get(number) {
            return Ok(Some(*subject));
        }
        of.resize(of.len().max(number + 1), None);
        let table = table()?;
        let subject = self.new_subject(event, inventory, table.as_deref());
        match &event.what {
            EventContent::Message { values, .. } => {
                self.messages[usize::from(values.is_some())][number] = subject
            }
            EventContent::Leave(..) => self.calls[1][number] = subject,
            _ => self.calls[0][number] = subject,
        }
        Ok(subject)
    }

    /// Returns the index of the subject of a function's calls that have ended in the way `ending`: `left`, or `cut` if
    /// there is no leave record.
    #[inline]
    pub(super) fn of_call(&mut self, function: FunctionId, ending: &str, inventory: &Inventory) -> u32 {
        let (is_left, number) = (usize::from(ending == "left"), function as usize);
        if let Some(Some(subject)) = self.ended[is_left].get(number) {
            return *subject;
        }
        let named = inventory.function(function);
        let place =
            place_of(Some(&named.file).filter(|file| !file.is_empty()).map(|file| &file[..]), named.line);
        let words = &mut self.shared.words;
        let mut properties = [NONE; OF_SUBJECT];
        properties[OfSubject::Kind as usize] = words.text(Some(ending));
        properties[OfSubject::Function as usize] =
            words.text(Some(&named.name[..]).filter(|name| !name.is_empty()));
        properties[OfSubject::Place as usize] = words.text(place.as_deref());
        let subject = self.add(properties);
        let of = &mut self.ended[is_left];
        of.resize(of.len().max(number + 1), None);
        of[number] = Some(subject);
        subject
    }

    /// Returns the index of the subject of the spans that have ended in the way `ending`.
    pub(super) fn of_span(&mut self, ending: &str) -> u32 {
        let mut properties = [NONE; OF_SUBJECT];
        properties[OfSubject::Kind as usize] = self.shared.words.text(Some(ending));
        self.add(properties)
    }

    /// Returns the index of the subject of the waits that have the properties `texts`.
    pub(super) fn of_wait(&mut self, texts: &[(OfSubject, Option<&str>)]) -> u32 {
        let mut properties = [NONE; OF_SUBJECT];
        for (of, text) in texts {
            properties[*of as usize] = self.shared.words.text(*text);
        }
        self.add(properties)
    }

    /// Returns the indices of the subjects of a site's values: one for each value of a message.
    #[inline]
    pub(super) fn of_values(&mut self, number: usize, site: &TypedSite) -> Arc<[u32]> {
        match self.values.get(number) {
            Some(Some(known)) => known.clone(),
            _ => self.meet_values(number, site),
        }
    }

    #[cold]
    fn meet_values(&mut self, number: usize, site: &TypedSite) -> Arc<[u32]> {
        let TypedSite { site, fields, .. } = site;
        let place =
            place_of(Some(&site.file).filter(|file| !file.is_empty()).map(|file| &file[..]), Some(site.line));
        let mut add = |(index, field): (usize, &Field)| {
            let words = &mut self.shared.words;
            let mut properties = [NONE; OF_SUBJECT];
            properties[OfSubject::Template as usize] = words.text(Some(&site.template));
            properties[OfSubject::Place as usize] = words.text(place.as_deref());
            properties[OfSubject::Index as usize] = words.integer(Some(index as u64));
            properties[OfSubject::Name as usize] = words.text(Some(&field.name));
            properties[OfSubject::Type as usize] = words.text(Some(&field.of.name()));
            self.add(properties)
        };
        let made: Arc<[u32]> = fields.fields().iter().enumerate().map(&mut add).collect();
        self.values.resize(self.values.len().max(number + 1), None);
        self.values[number] = Some(made.clone());
        made
    }

    /// Returns the index of the subject with these properties. Adds the subject if it is new.
    fn add(&mut self, properties: [ValueId; OF_SUBJECT]) -> u32 {
        let subjects = &mut self.shared.subjects;
        *self.known.entry(properties).or_insert_with(|| {
            subjects.push(properties);
            u32::try_from(subjects.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// Returns the index of the subject of an event's row, from the properties of the event; `None` if no record made
    /// the event.
    #[cold]
    fn new_subject(&mut self, event: &Event<'_>, inventory: &Inventory, table: Option<&str>) -> Option<u32> {
        let Row { kind, level, target, module, file, line, function, template, .. } =
            row_of(event, inventory)?;
        let place = place_of(file, line);
        let words = &mut self.shared.words;
        let known = [
            words.text(Some(kind)),
            words.text(level),
            words.text(target),
            words.text(module),
            words.text(file),
            words.integer(line.map(u64::from)),
            words.text(function),
            words.text(template),
            words.text(table),
            words.text(place.as_deref()),
        ];
        let mut properties = [NONE; OF_SUBJECT];
        properties[..known.len()].copy_from_slice(&known);
        Some(self.add(properties))
    }
}

/// Returns a text for a place in the source: `file:line`.
fn place_of(file: Option<&str>, line: Option<u32>) -> Option<String> {
    file.map(|file| line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
}

/// Returns the name of a run in a data set: the run's id and its process id. The name is unique among the runs of the
/// machine.
#[must_use]
pub(crate) fn name_of_run(run: &Run) -> String {
    format!("{:08x}-{}", run.id, run.pid)
}
