//! The tables of the directory: one of all records, and one for each template, whose columns
//! are the values of its messages with their names and types.
//!
//! Rows are collected until they form a row group of their table, and up to a memory limit for all tables. So
//! memory does not grow with the number of records.

use std::collections::HashMap;

use parquet::errors::Result;

use super::chunk::Encoder;
use super::table::{ColumnSpec, ColumnType, Head, OF_SUBJECT, Shared, Source, Table};
use super::words::ValueId;
use crate::output::folder::put_part;
use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, TypedSite, sentences};
use crate::view::export::fields::{Row, function_left, message_of, put_fields, row_of};
use crate::view::threads::TimeScale;
use crate::view::values::Type;

/// The number of bytes of all tables above which the largest table is written, however few rows it has.
const MAX_TABLE_BYTES: usize = 128 << 20;
/// The name of the table of all records, without its extension.
const RECORDS: &str = "records";
/// The maximum length of the name of a template's table.
const SHORT: usize = 40;

/// The format of Parquet.
#[derive(Default)]
pub(super) struct ParquetFormat {
    shared: Shared,
    encoder: Option<Encoder>,
    records: Option<Table>,
    /// The tables of the templates, with their names.
    templates: Vec<(String, Table)>,
    /// The table of each template, by the template and the names and types of its values.
    known: HashMap<(String, Vec<(String, ColumnType)>), usize>,
    /// The table of each site.
    of_sites: Vec<Option<usize>>,
    /// The number of each subject, by its properties.
    subjects: HashMap<[ValueId; OF_SUBJECT], u32>,
    /// The subject of each site's messages, without values and with values.
    messages: [Vec<Option<u32>>; 2],
    /// The subject of each function's enter records and of its leave records.
    calls: [Vec<Option<u32>>; 2],
    /// The number of records so far.
    count: u64,
    /// The reason for which the output is incomplete.
    failure: Option<String>,
    /// The number of values that are written as texts because their type does not exist in the format.
    as_text: u64,
    /// A buffer.
    fields: Vec<u8>,
}

/// Returns the columns with which every table begins.
fn common() -> Vec<ColumnSpec> {
    vec![
        column("record", ColumnType::Unsigned(64), false, Source::Head(0)),
        column("ticks", ColumnType::Unsigned(64), false, Source::Head(1)),
        column("time", ColumnType::Time, false, Source::Head(2)),
        column("pid", ColumnType::Unsigned(32), true, Source::OfThread(0)),
        column("tid", ColumnType::Unsigned(64), false, Source::OfThread(1)),
        column("thread", ColumnType::Text, false, Source::OfThread(2)),
    ]
}

fn column(name: &str, of: ColumnType, is_optional: bool, source: Source) -> ColumnSpec {
    ColumnSpec { name: name.to_owned(), of, is_optional, source }
}

/// Returns the columns of the table of all records. Those that belong to a subject are in the order of
/// [`ParquetFormat::new_subject`].
fn columns_of_records() -> Vec<ColumnSpec> {
    let text = |name, is_optional, source| column(name, ColumnType::Text, is_optional, source);
    let more = [
        text("process", false, Source::OfThread(3)),
        text("kind", false, Source::OfSubject(0)),
        text("level", true, Source::OfSubject(1)),
        text("target", true, Source::OfSubject(2)),
        text("module", true, Source::OfSubject(3)),
        text("file", true, Source::OfSubject(4)),
        column("line", ColumnType::Unsigned(32), true, Source::OfSubject(5)),
        text("function", true, Source::OfSubject(6)),
        text("template", true, Source::OfSubject(7)),
        text("message", true, Source::Text(0)),
        text("fields", true, Source::Text(1)),
        text("table", true, Source::OfSubject(8)),
    ];
    common().into_iter().chain(more).collect()
}

/// Returns the type of the column of a value: text if there is no matching type.
fn type_of(of: Type) -> ColumnType {
    let bits = |bits: u32| u8::try_from(bits).ok().filter(|bits| *bits <= 64);
    match of {
        Type::Signed(of) => bits(of).map_or(ColumnType::Text, ColumnType::Signed),
        Type::Unsigned(of) => bits(of).map_or(ColumnType::Text, ColumnType::Unsigned),
        Type::F32 => ColumnType::F32,
        Type::F64 => ColumnType::F64,
        Type::Bool => ColumnType::Bool,
        Type::Pointer(_) => ColumnType::Unsigned(64),
        Type::Char | Type::Text | Type::Unit | Type::Composite => ColumnType::Text,
    }
}

/// Returns the columns of a template's table. Makes names unique without regard to case, because readers
/// ignore it.
fn columns_of(values: &[(String, ColumnType)]) -> Vec<ColumnSpec> {
    let mut columns = common();
    for (number, (name, of)) in values.iter().enumerate() {
        let mut name = name.clone();
        while columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name)) {
            name.push('_');
        }
        columns.push(column(&name, *of, false, Source::Value(number)));
    }
    columns
}

/// Returns the name of a template's table: its number, and the words of the template.
fn name_of(number: usize, template: &str) -> String {
    let words =
        template.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.fold(format!("{number}"), |name, word| format!("{name}_{word}"));
    name.truncate(SHORT);
    name
}

impl ParquetFormat {
    /// Returns the number of the table of a site. Makes the table if it does not exist yet.
    fn table_of(&mut self, number: usize, site: &TypedSite) -> Result<usize> {
        if let Some(Some(table)) = self.of_sites.get(number) {
            return Ok(*table);
        }
        let fields = site.fields.fields().iter();
        let values: Vec<_> = fields.map(|field| (field.name.clone(), type_of(field.of))).collect();
        let key = (site.site.template.clone(), values);
        let table = match self.known.get(&key) {
            Some(table) => *table,
            None => {
                let table = Table::new(&columns_of(&key.1))?;
                self.templates.push((name_of(self.templates.len() + 1, &key.0), table));
                self.known.insert(key, self.templates.len() - 1);
                self.templates.len() - 1
            }
        };
        self.of_sites.resize(self.of_sites.len().max(number + 1), None);
        self.of_sites[number] = Some(table);
        Ok(table)
    }

    /// Returns the number of the thread of an event. Adds the properties of new threads.
    fn thread(&mut self, event: &Event<'_>, inventory: &Inventory) -> u32 {
        let Shared { words, threads, .. } = &mut self.shared;
        for thread in inventory.threads().iter().skip(threads.len()) {
            let process = &inventory.processes()[thread.process];
            let pid = process.run.as_ref().map(|run| run.pid);
            threads.push([
                words.of_32(pid),
                words.of_64(thread.tid),
                words.text(Some(thread.label())),
                words.text(Some(&process.name)),
            ]);
        }
        u32::try_from(event.thread).unwrap_or(u32::MAX)
    }

    /// Returns the number of the subject of an event; `None` if the event has no record.
    #[inline]
    fn subject(&mut self, event: &Event<'_>, inventory: &Inventory) -> Result<Option<u32>> {
        let (of, number) = match &event.what {
            EventContent::Message { site: Some(site), values, .. } => {
                (&mut self.messages[usize::from(values.is_some())], *site)
            }
            EventContent::Enter(call_info) => (&mut self.calls[0], call_info.called.function as usize),
            EventContent::Leave(call_info, ended) => {
                (&mut self.calls[1], function_left(call_info, ended) as usize)
            }
            EventContent::Message { site: None, .. } | EventContent::Stack(_) | EventContent::Meta { .. } => {
                return self.new_subject(event, inventory);
            }
            EventContent::Close(_) => return Ok(None),
        };
        if let Some(Some(subject)) = of.get(number) {
            return Ok(Some(*subject));
        }
        of.resize(of.len().max(number + 1), None);
        let subject = self.new_subject(event, inventory)?;
        match &event.what {
            EventContent::Message { values, .. } => {
                self.messages[usize::from(values.is_some())][number] = subject
            }
            EventContent::Leave(..) => self.calls[1][number] = subject,
            _ => self.calls[0][number] = subject,
        }
        Ok(subject)
    }

    /// Makes the subject of an event, or finds an equal one.
    #[cold]
    fn new_subject(&mut self, event: &Event<'_>, inventory: &Inventory) -> Result<Option<u32>> {
        let Some(row) = row_of(event, inventory) else { return Ok(None) };
        let table = match &event.what {
            EventContent::Message { site: Some(number), values: Some(values), .. } if !values.is_empty() => {
                inventory.site(Some(*number)).map(|site| self.table_of(*number, site)).transpose()?
            }
            _ => None,
        };
        let table = table.and_then(|table| self.templates.get(table)).map(|(name, _)| &name[..]);
        let Row { kind, level, target, module, file, line, function, template, .. } = row;
        let words = &mut self.shared.words;
        let known = [
            words.text(Some(kind)),
            words.text(level),
            words.text(target),
            words.text(module),
            words.text(file),
            words.of_32(line),
            words.text(function),
            words.text(template),
            words.text(table),
        ];
        let subjects = &mut self.shared.subjects;
        Ok(Some(*self.subjects.entry(known).or_insert_with(|| {
            subjects.push(known);
            u32::try_from(subjects.len() - 1).unwrap_or(u32::MAX)
        })))
    }

    /// Adds a record to the table of all records, and its values to the table of its template.
    fn add(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        let Some(subject) = self.subject(event, inventory)? else { return Ok(()) };
        let thread = self.thread(event, inventory);
        let head = Head { number: self.count, ticks: event.ticks.0, time: event.time, thread };
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        match &event.what {
            // Values that are in another table are not repeated.
            EventContent::Message { site: Some(site), values: Some(values), .. } => {
                if let Some(table) =
                    self.of_sites.get(*site).copied().flatten().filter(|_| !values.is_empty())
                {
                    let of = &mut self.templates[table].1;
                    self.as_text += of.add_values(&head, values);
                    if of.is_full() {
                        self.pass_on(Some(table), out)?;
                    }
                }
            }
            _ => put_fields(event, inventory, &mut fields),
        }
        let json = if fields.is_empty() { None } else { std::str::from_utf8(&fields).ok() };
        let records = match &mut self.records {
            Some(records) => records,
            none => none.insert(Table::new(&columns_of_records())?),
        };
        records.add(&head, subject, [message_of(event), json]);
        self.count += 1;
        self.fields = fields;
        if records.is_full() { self.pass_on(None, out) } else { Ok(()) }
    }

    /// Writes the rows of a table; `None` means the table of all records.
    #[cold]
    fn pass_on(&mut self, table: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
        let of = match table {
            Some(number) => self.templates.get_mut(number).map(|(name, table)| (&name[..], table)),
            None => self.records.as_mut().map(|table| (RECORDS, table)),
        };
        let Some((name, of)) = of else { return Ok(()) };
        put(name, &of.write(&self.shared, encoder(&mut self.encoder)?)?, out);
        Ok(())
    }

    /// Writes the rows of the largest table, if all tables together need too much memory.
    fn shrink(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let records = self.records.as_ref().map_or(0, Table::bytes);
        let templates: usize = self.templates.iter().map(|(_, table)| table.bytes()).sum();
        if records + templates < MAX_TABLE_BYTES {
            return Ok(());
        }
        let largest = (0..self.templates.len()).max_by_key(|number| self.templates[*number].1.bytes());
        let largest = largest.filter(|number| self.templates[*number].1.bytes() > records);
        self.pass_on(largest, out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        // The table of all records exists even if there are no records.
        let records = match self.records.take() {
            Some(records) => records,
            None => Table::new(&columns_of_records())?,
        };
        let encoder = encoder(&mut self.encoder)?;
        put(RECORDS, &records.finish(&self.shared, encoder)?, out);
        for (name, table) in std::mem::take(&mut self.templates) {
            put(&name, &table.finish(&self.shared, encoder)?, out);
        }
        Ok(())
    }
}

/// Returns the encoder. Makes it at the first call.
fn encoder(made: &mut Option<Encoder>) -> Result<&mut Encoder> {
    Ok(match made {
        Some(encoder) => encoder,
        none => none.insert(Encoder::new()?),
    })
}

fn put(table: &str, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_part(&format!("{table}.parquet"), bytes, out);
    }
}

impl EventFormat for ParquetFormat {
    fn clock(&self) -> Option<TimeScale> {
        Some(TimeScale::Wall)
    }

    fn event(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) {
        if self.failure.is_some() {
            return;
        }
        let mut added = self.add(event, inventory, out);
        // The sum costs a little, and a few records more do no harm.
        if added.is_ok() && self.count % 1024 == 0 {
            added = self.shrink(out);
        }
        if let Err(error) = added {
            self.failure = Some(format!("the records after record {} are missing: {error}", self.count));
        }
    }

    fn finish(&mut self, _inventory: &Inventory, out: &mut Vec<u8>) {
        if let Err(error) = self.end(out) {
            self.failure.get_or_insert(format!("the tables are incomplete: {error}"));
        }
    }

    fn omissions(&self, inventory: &Inventory) -> Vec<String> {
        let mut omissions: Vec<String> = self.failure.iter().cloned().collect();
        omissions.extend(inventory.text_omissions());
        omissions.extend(sentences([(self.as_text, "integer", "of 128 bits: written as text")]));
        omissions
    }
}
