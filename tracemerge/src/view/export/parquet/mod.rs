//! Apache Parquet: a directory with a table of all records, and one for each template whose columns are the values of its
//! messages, with their names and types.
//!
//! Rows are gathered up to a row group for each table, and up to a limit for all of them, so memory does not grow with the
//! number of records.

mod table;

use std::collections::HashMap;

use parquet::errors::Result;

use self::table::{Cell, ColumnOf, ColumnType, Table};
use crate::output::folder::put_part;
use crate::view::export::events::{Event, EventFormat, Scene, TypedSite, What, sentences};
use crate::view::export::fields::{Row, row_of};
use crate::view::values::{Type, Value};

/// The number of bytes from which on the largest table is written, however few rows it has.
const MOST: usize = 128 << 20;
/// The name of the table of all records, without its extension.
const RECORDS: &str = "records";
/// The number of letters of a template that are in the name of its table at most.
const SHORT: usize = 40;
/// The number of columns that each table of a template begins with.
const COMMON: usize = 6;

/// The format of Parquet.
#[derive(Default)]
pub struct ParquetFormat {
    records: Option<Table>,
    /// The tables of the templates, with their names.
    templates: Vec<(String, Table)>,
    /// The table of each template, by the template and the names and types of its values.
    known: HashMap<(String, Vec<(String, ColumnType)>), usize>,
    /// The table of each site.
    of_sites: HashMap<usize, usize>,
    /// The number of records so far.
    count: u64,
    /// Why there is not all of the output.
    failure: Option<String>,
    /// The number of values that have no type here.
    as_text: u64,
    /// A buffer.
    fields: Vec<u8>,
}

fn column(name: &str, of: ColumnType, is_optional: bool) -> ColumnOf {
    ColumnOf { name: name.to_owned(), of, is_optional }
}

/// Returns the columns that every table begins with.
fn common() -> [ColumnOf; COMMON] {
    [
        column("record", ColumnType::Unsigned(64), false),
        column("ticks", ColumnType::Unsigned(64), false),
        column("time", ColumnType::Time, false),
        column("pid", ColumnType::Unsigned(32), true),
        column("tid", ColumnType::Unsigned(64), false),
        column("thread", ColumnType::Name, false),
    ]
}

/// Returns the columns of the table of all records.
fn columns_of_records() -> Vec<ColumnOf> {
    let name = |name| column(name, ColumnType::Name, true);
    let more = [
        column("process", ColumnType::Name, false),
        column("kind", ColumnType::Name, false),
        name("level"),
        name("target"),
        name("module"),
        name("file"),
        column("line", ColumnType::Unsigned(32), true),
        name("function"),
        name("template"),
        column("message", ColumnType::Text, true),
        column("fields", ColumnType::Text, true),
        name("table"),
    ];
    common().into_iter().chain(more).collect()
}

/// Returns the type of the column of a value. What has none is text.
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

/// Returns the columns of a template's table. Readers take names for the same that differ in capitals only.
fn columns_of(values: &[(String, ColumnType)]) -> Vec<ColumnOf> {
    let mut columns = common().to_vec();
    for (name, of) in values {
        let mut name = name.clone();
        while columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name)) {
            name.push('_');
        }
        columns.push(ColumnOf { name, of: *of, is_optional: false });
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

/// Returns the cell of a value in a column of the type; `text` holds the text of what has no type.
fn cell<'a>(of: ColumnType, value: &'a Value<'_>, text: &'a mut String) -> Cell<'a> {
    #[expect(clippy::cast_possible_truncation, reason = "the type has no more bits")]
    match value {
        Value::Signed(number) if of != ColumnType::Text => Cell::Integer(*number as i64),
        Value::Unsigned(number) if of != ColumnType::Text => Cell::unsigned(*number as u64),
        Value::Signed(number) => {
            *text = number.to_string();
            Cell::Text(text)
        }
        Value::Unsigned(number) => {
            *text = number.to_string();
            Cell::Text(text)
        }
        Value::F32(number) => Cell::F32(*number),
        Value::F64(number) => Cell::F64(*number),
        Value::Bool(is_so) => Cell::Bool(*is_so),
        Value::Pointer(address) => Cell::unsigned(*address),
        Value::Text(text) => Cell::Text(text),
    }
}

impl ParquetFormat {
    /// Returns the number of the table of a site, which is made where there is none yet.
    fn table_of(&mut self, number: usize, site: &TypedSite) -> Result<usize> {
        if let Some(table) = self.of_sites.get(&number) {
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
        self.of_sites.insert(number, table);
        Ok(table)
    }

    /// Adds a record to the table of all, and its values to that of its template.
    fn add(&mut self, event: &Event<'_>, scene: &Scene, out: &mut Vec<u8>) -> Result<()> {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        // Values that a table has are not told once more.
        let plain = match &event.what {
            What::Message { site, text, values: Some(_) } => {
                Some(What::Message { site: *site, text, values: None })
            }
            _ => None,
        };
        let untyped = plain.map(|what| Event { what, ..*event });
        let Some(row) = row_of(untyped.as_ref().unwrap_or(event), scene, &mut fields) else {
            self.fields = fields;
            return Ok(());
        };
        let common = self.common(event, &row);
        let mut table = None;
        if let What::Message { site: Some(number), values: Some(values), .. } = &event.what {
            if let Some(site) = scene.site(Some(*number)).filter(|_| !values.is_empty()) {
                let of = self.table_of(*number, site)?;
                self.add_values(of, &common, site, values);
                self.pass_on(Some(of), false, out)?;
                table = Some(of);
            }
        }
        let table = table.and_then(|table| self.templates.get(table)).map(|(name, _)| &name[..]);
        let json = std::str::from_utf8(&fields).ok().filter(|json| !json.is_empty());
        let more = [
            Cell::Text(row.process),
            Cell::Text(row.kind),
            Cell::text(row.level),
            Cell::text(row.target),
            Cell::text(row.module),
            Cell::text(row.file),
            row.line.map_or(Cell::None, |line| Cell::Integer(line.into())),
            Cell::text(row.function),
            Cell::text(row.template),
            Cell::text(row.message),
            Cell::text(json),
            Cell::text(table),
        ];
        let mut cells = [Cell::None; COMMON + 12];
        cells[..COMMON].copy_from_slice(&common);
        cells[COMMON..].copy_from_slice(&more);
        match &mut self.records {
            Some(records) => records.add(&cells),
            none => none.insert(Table::new(&columns_of_records())?).add(&cells),
        }
        self.count += 1;
        self.fields = fields;
        self.pass_on(None, false, out)
    }

    /// Returns the cells that every row of a record begins with.
    fn common<'a>(&self, event: &Event<'_>, row: &Row<'a>) -> [Cell<'a>; COMMON] {
        [
            Cell::unsigned(self.count),
            Cell::unsigned(event.ticks.0),
            Cell::unsigned(event.wall),
            row.pid.map_or(Cell::None, |pid| Cell::Integer(pid.into())),
            Cell::unsigned(row.tid),
            Cell::Text(row.thread),
        ]
    }

    fn add_values(&mut self, table: usize, common: &[Cell<'_>], site: &TypedSite, values: &[Value<'_>]) {
        let types: Vec<ColumnType> = site.fields.fields().iter().map(|field| type_of(field.of)).collect();
        let mut texts = vec![String::new(); values.len()];
        let of_values =
            types.iter().zip(values).zip(&mut texts).map(|((of, value), text)| cell(*of, value, text));
        let cells: Vec<Cell<'_>> = common.iter().copied().chain(of_values).collect();
        self.templates[table].1.add(&cells);
        self.as_text += texts.iter().filter(|text| !text.is_empty()).count() as u64;
    }

    /// Writes the rows of a table, that of all records if none is named, if they are enough or `is_wanted`.
    fn pass_on(&mut self, table: Option<usize>, is_wanted: bool, out: &mut Vec<u8>) -> Result<()> {
        let of = match table {
            Some(number) => self.templates.get_mut(number).map(|(name, table)| (&name[..], table)),
            None => self.records.as_mut().map(|table| (RECORDS, table)),
        };
        let Some((name, of)) = of else { return Ok(()) };
        if of.is_full() || is_wanted {
            put(name, &of.write()?, out);
        }
        Ok(())
    }

    /// Writes the rows of the largest table, if all together take too much memory.
    fn shrink(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let records = self.records.as_ref().map_or(0, Table::bytes);
        let templates: usize = self.templates.iter().map(|(_, table)| table.bytes()).sum();
        if records + templates < MOST {
            return Ok(());
        }
        let largest = (0..self.templates.len()).max_by_key(|number| self.templates[*number].1.bytes());
        let largest = largest.filter(|number| self.templates[*number].1.bytes() > records);
        self.pass_on(largest, true, out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        // The table of all records is there also if there is none.
        let records = match self.records.take() {
            Some(records) => records,
            None => Table::new(&columns_of_records())?,
        };
        put(RECORDS, &records.finish()?, out);
        for (name, table) in std::mem::take(&mut self.templates) {
            put(&name, &table.finish()?, out);
        }
        Ok(())
    }
}

fn put(table: &str, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_part(&format!("{table}.parquet"), bytes, out);
    }
}

impl EventFormat for ParquetFormat {
    fn event(&mut self, event: &Event<'_>, scene: &Scene, out: &mut Vec<u8>) {
        if self.failure.is_some() {
            return;
        }
        let mut added = self.add(event, scene, out);
        // Summing up costs a little, and a few records more do no harm.
        if added.is_ok() && self.count % 1024 == 0 {
            added = self.shrink(out);
        }
        if let Err(error) = added {
            self.failure = Some(format!("the records behind {} are missing: {error}", self.count));
        }
    }

    fn finish(&mut self, _scene: &Scene, out: &mut Vec<u8>) {
        if let Err(error) = self.end(out) {
            self.failure.get_or_insert(format!("the tables have no end: {error}"));
        }
    }

    fn untold(&self, scene: &Scene) -> Vec<String> {
        let mut untold: Vec<String> = self.failure.iter().cloned().collect();
        untold.extend(scene.odd_texts());
        untold.extend(sentences([(self.as_text, "integer", "of 128 bits: a text")]));
        untold
    }
}
