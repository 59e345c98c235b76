//! The tables of a directory in Parquet: one of all records, and one for each template, whose columns are the values of
//! the template's messages, with their names and types.
//!
//! Rows are collected in memory until they form a row group of their table, or until all tables together reach a memory
//! limit. So the needed memory does not grow with the number of records.

use std::collections::HashMap;

use parquet::errors::Result;

use super::chunk::Encoder;
use super::schema::{COMMON, ColumnSpec, ColumnType, RECORDS, Source};
use super::subjects::Subjects;
use super::table::{Changed, Head, Table, signed};
use crate::output::folder::put_part;
use crate::view::export::events::{Event, EventContent, EventFormat, Inventory, TypedSite, sentences};
use crate::view::export::fields::{foreign_error_ns, message_of, put_fields};
use crate::view::threads::TimeScale;
use crate::view::values::Type;

/// The size in memory of all tables together, in bytes, at which the rows of the largest table are written, however few
/// they are.
pub(super) const MAX_TABLE_BYTES: usize = 128 << 20;
/// The name of the table of all records, without its extension.
const RECORDS_NAME: &str = "records";
/// The number of nanoseconds of a microsecond.
pub(super) const MICROSECOND: u64 = 1_000;
/// The maximum length of the name of a template's table, in characters.
const SHORT: usize = 40;

/// The writer of the format `parquet`.
#[derive(Default)]
pub(super) struct ParquetFormat {
    subjects: Subjects,
    encoder: Option<Encoder>,
    records: Option<Table>,
    templates: TemplateTables,
    /// The number of records so far.
    count: u64,
    /// Why the output is incomplete; `None` if it is not.
    failure: Option<String>,
    /// The counts of values that have another form in the tables than in the trace.
    changed: Changed,
    /// A buffer for the text of a record's fields.
    fields: Vec<u8>,
}

/// The tables for the values of messages, one for each template.
#[derive(Default)]
struct TemplateTables {
    /// The tables, with their names.
    tables: Vec<(String, Table)>,
    /// The index of each table in `tables`, by the template and the names and types of its values.
    known: HashMap<(String, Vec<(String, ColumnType)>), usize>,
    /// For each site, by its index, the index of the table of its template.
    of_sites: Vec<Option<usize>>,
}

/// Returns the columns of the table of all records.
fn columns_of_records() -> Vec<ColumnSpec> {
    COMMON.into_iter().chain(RECORDS).collect()
}

/// Returns the type of the column for values of the type `of`: text if no other type fits.
fn type_of(of: Type) -> ColumnType {
    match of {
        Type::Signed(..=64) | Type::Unsigned(..=64) | Type::Pointer(_) => ColumnType::Integer,
        Type::F32 => ColumnType::F32,
        Type::F64 => ColumnType::F64,
        Type::Bool => ColumnType::Bool,
        Type::Signed(_) | Type::Unsigned(_) => ColumnType::Text,
        Type::Char | Type::Text | Type::Unit | Type::Composite => ColumnType::Text,
    }
}

/// Returns the columns of a template's table. Readers ignore case, so the names of the columns differ by more than
/// case.
fn columns_of(values: &[(String, ColumnType)]) -> Vec<ColumnSpec> {
    let mut columns = COMMON.to_vec();
    for (number, (name, of)) in values.iter().enumerate() {
        let mut name = name.clone();
        while columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name)) {
            name.push('_');
        }
        let source = Source::Value(number);
        columns.push(ColumnSpec { name: name.into(), of: *of, is_optional: false, source });
    }
    columns
}

/// Returns the name of a template's table: the number of the table, and the words of the template.
fn name_of(number: usize, template: &str) -> String {
    let words =
        template.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.fold(format!("{number}"), |name, word| format!("{name}_{word}"));
    name.truncate(SHORT);
    name
}

impl TemplateTables {
    /// Returns the index of the table for a site's messages. Creates the table if it does not exist yet.
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
                let table = Table::new(&columns_of(&key.1), &[])?;
                self.tables.push((name_of(self.tables.len() + 1, &key.0), table));
                self.known.insert(key, self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.of_sites.resize(self.of_sites.len().max(number + 1), None);
        self.of_sites[number] = Some(table);
        Ok(table)
    }

    /// Returns the name of the table for the values of an event's message; `None` if the event has no values.
    fn name_of(&mut self, event: &Event<'_>, inventory: &Inventory) -> Result<Option<String>> {
        let table = match &event.what {
            EventContent::Message { site: Some(number), values: Some(values), .. } if !values.is_empty() => {
                inventory.site(Some(*number)).map(|site| self.table_of(*number, site)).transpose()?
            }
            _ => None,
        };
        Ok(table.and_then(|table| self.tables.get(table)).map(|(name, _)| name.clone()))
    }
}

impl ParquetFormat {
    /// Adds the record of an event to the table of all records, and its values to the table of its template.
    fn add(&mut self, event: &Event<'_>, inventory: &Inventory, out: &mut Vec<u8>) -> Result<()> {
        let table = || self.templates.name_of(event, inventory);
        let Some(subject) = self.subjects.subject(event, inventory, table)? else { return Ok(()) };
        let thread = self.subjects.thread(event, inventory);
        let numbers = [signed(self.count), signed(event.ticks.0), signed(event.time / MICROSECOND)];
        let error = [foreign_error_ns(event, inventory).map(signed)];
        let head = Head { numbers: &numbers, optional: &error, thread };
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        match &event.what {
            // Values that are in another table are not repeated.
            EventContent::Message { site: Some(site), values: Some(values), .. } => {
                let of_sites = &self.templates.of_sites;
                if let Some(table) = of_sites.get(*site).copied().flatten().filter(|_| !values.is_empty()) {
                    let of = &mut self.templates.tables[table].1;
                    let changed = of.add_values(&head, values);
                    self.changed.as_text += changed.as_text;
                    self.changed.as_negative += changed.as_negative;
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
            none => none.insert(Table::new(&columns_of_records(), &[])?),
        };
        records.add(&head, subject, [message_of(event), json]);
        self.count += 1;
        self.fields = fields;
        if records.is_full() { self.pass_on(None, out) } else { Ok(()) }
    }

    /// Writes the rows of a table that are in memory; `None` means the table of all records.
    #[cold]
    fn pass_on(&mut self, table: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
        let of = match table {
            Some(number) => self.templates.tables.get_mut(number).map(|(name, table)| (&name[..], table)),
            None => self.records.as_mut().map(|table| (RECORDS_NAME, table)),
        };
        let Some((name, of)) = of else { return Ok(()) };
        put(name, &of.write(&self.subjects.shared, encoder(&mut self.encoder)?)?, out);
        Ok(())
    }

    /// If all tables together need too much memory, writes the rows of the table that needs most.
    fn shrink(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let records = self.records.as_ref().map_or(0, Table::bytes);
        let templates: usize = self.templates.tables.iter().map(|(_, table)| table.bytes()).sum();
        if records + templates < MAX_TABLE_BYTES {
            return Ok(());
        }
        let tables = &self.templates.tables;
        let largest = (0..tables.len()).max_by_key(|number| tables[*number].1.bytes());
        let largest = largest.filter(|number| tables[*number].1.bytes() > records);
        self.pass_on(largest, out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        // The table of all records exists even if there are no records.
        let records = match self.records.take() {
            Some(records) => records,
            None => Table::new(&columns_of_records(), &[])?,
        };
        let encoder = encoder(&mut self.encoder)?;
        put(RECORDS_NAME, &records.finish(&self.subjects.shared, encoder)?, out);
        for (name, table) in std::mem::take(&mut self.templates.tables) {
            put(&name, &table.finish(&self.subjects.shared, encoder)?, out);
        }
        Ok(())
    }
}

/// Returns the encoder of columns. Creates it at the first call.
pub(super) fn encoder(made: &mut Option<Encoder>) -> Result<&mut Encoder> {
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
        // Summing up the tables' memory costs a little, and a few more records than allowed do no harm.
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
        omissions.extend(sentences([
            (self.changed.as_text, "integer", "of 128 bits: written as text"),
            (self.changed.as_negative, "integer", "of 2^63 and more: written with 2^64 less"),
        ]));
        omissions
    }
}
