//! Writes the rows of several files of a table into one file, in the order of their times.
//!
//! The rows of each file are in this order already, so the files are merged. The exception are rows that were made
//! after the wall clock was set back: such a row counts as if it had the time of the rows before it. Memory holds only
//! a few thousand rows of each file, the pages of columns that contain these rows, and up to a row group of the new
//! file. If a file lacks a column, because an earlier version of the schema did not have it, the file's rows have no
//! values in this column.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;

use super::dataset::TableName;
use super::schema::{ColumnSpec, ColumnType};
use super::table::{ROWS, damaged, properties, schema_of, wrong_type};
use crate::file::parquet::{guarded, open};

/// The maximum number of rows that are read from a file at once.
const BATCH: usize = 4096;
/// The size of the texts of a row group, in bytes, at which the group ends.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// The values of a column. Rows without a value take no place.
enum Values {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Truths(Vec<bool>),
    Texts(Vec<ByteArray>),
}

/// Some rows of a column, in memory.
struct Column {
    values: Values,
    /// For each row, 1 if it has a value, otherwise 0 (the definition levels of Parquet).
    levels: Vec<i16>,
    is_optional: bool,
    /// The number of values, from the first on, that were already appended to another column.
    taken: usize,
}

impl Column {
    fn new(of: &ColumnSpec) -> Column {
        let values = match of.of {
            ColumnType::Integer | ColumnType::FewIntegers | ColumnType::Time => Values::Integers(Vec::new()),
            ColumnType::F32 | ColumnType::F64 => Values::Floats(Vec::new()),
            ColumnType::Bool => Values::Truths(Vec::new()),
            ColumnType::Text => Values::Texts(Vec::new()),
        };
        Column { values, levels: Vec::new(), is_optional: of.is_optional, taken: 0 }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Integers(values) => values.clear(),
            Values::Floats(values) => values.clear(),
            Values::Truths(values) => values.clear(),
            Values::Texts(values) => values.clear(),
        }
        self.levels.clear();
        self.taken = 0;
    }

    /// Reads the next `rows` rows, in place of the rows that were read before. `reader` is `None` if the file does not
    /// have the column: then no row has a value.
    fn read(&mut self, reader: Option<&mut ColumnReader>, is_optional: bool, rows: usize) -> Result<()> {
        self.clear();
        let Some(reader) = reader else {
            self.levels.resize(rows, 0);
            return Ok(());
        };
        let levels = is_optional.then_some(&mut self.levels);
        let (found, ..) = match (reader, &mut self.values) {
            (ColumnReader::Int64ColumnReader(from), Values::Integers(to)) => {
                from.read_records(rows, levels, None, to)?
            }
            (ColumnReader::DoubleColumnReader(from), Values::Floats(to)) => {
                from.read_records(rows, levels, None, to)?
            }
            (ColumnReader::BoolColumnReader(from), Values::Truths(to)) => {
                from.read_records(rows, levels, None, to)?
            }
            (ColumnReader::ByteArrayColumnReader(from), Values::Texts(to)) => {
                from.read_records(rows, levels, None, to)?
            }
            _ => return Err(wrong_type()),
        };
        if !is_optional {
            self.levels.resize(found, 1);
        }
        let is_whole = found == rows && self.levels.len() == rows;
        let lacks = !self.is_optional && self.levels.contains(&0);
        if is_whole && !lacks { Ok(()) } else { Err(damaged("a column lacks rows")) }
    }

    /// Appends the rows `rows` of the column `from`, and counts their values as taken from it. The rows of each call
    /// must follow those of the call before. Returns the size of the appended texts, in bytes.
    fn take(&mut self, from: &mut Column, rows: Range<usize>) -> usize {
        let levels = &from.levels[rows];
        let count = levels.iter().filter(|level| **level > 0).count();
        self.levels.extend_from_slice(levels);
        let range = from.taken..from.taken + count;
        from.taken += count;
        match (&mut self.values, &from.values) {
            (Values::Integers(to), Values::Integers(from)) => to.extend_from_slice(&from[range]),
            (Values::Floats(to), Values::Floats(from)) => to.extend_from_slice(&from[range]),
            (Values::Truths(to), Values::Truths(from)) => to.extend_from_slice(&from[range]),
            (Values::Texts(to), Values::Texts(from)) => {
                to.extend_from_slice(&from[range.clone()]);
                return from[range].iter().map(ByteArray::len).sum();
            }
            _ => {}
        }
        0
    }

    /// Writes all rows to a file, and removes them from memory.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = self.is_optional.then_some(&self.levels[..]);
        match (writer, &self.values) {
            (ColumnWriter::Int64ColumnWriter(to), Values::Integers(values)) => {
                to.write_batch(values, levels, None)?
            }
            (ColumnWriter::DoubleColumnWriter(to), Values::Floats(values)) => {
                to.write_batch(values, levels, None)?
            }
            (ColumnWriter::BoolColumnWriter(to), Values::Truths(values)) => {
                to.write_batch(values, levels, None)?
            }
            (ColumnWriter::ByteArrayColumnWriter(to), Values::Texts(values)) => {
                to.write_batch(values, levels, None)?
            }
            _ => return Err(wrong_type()),
        };
        self.clear();
        Ok(())
    }

    /// Returns the integer that a row has in a column in which every row has one.
    fn integer(&self, row: usize) -> i64 {
        match &self.values {
            Values::Integers(values) => values.get(row).copied().unwrap_or(i64::MAX),
            _ => i64::MAX,
        }
    }
}

/// The sort key of a row: its values in the two columns by which rows are sorted.
type Key = (i64, i64);

/// An input file of the merge, with the rows that were read from it.
struct Input {
    reader: SerializedFileReader<File>,
    /// For each column of the table, its index in the file and whether it is optional there; `None` if the file does
    /// not have the column.
    places: Vec<Option<(usize, bool)>>,
    /// The indices of the two columns by which rows are sorted.
    order: [usize; 2],
    /// The index of the column with the name of the run, and the names of the runs whose rows are left out.
    without: (usize, HashSet<Vec<u8>>),
    next_group: usize,
    readers: Vec<Option<ColumnReader>>,
    /// The number of rows of the current row group that were not read yet.
    left: usize,
    columns: Vec<Column>,
    /// The index of the next row among the rows in memory; `rows` is the number of rows in memory.
    at: usize,
    rows: usize,
    /// The greatest sort key of the rows that were taken so far.
    reached: Key,
}

impl Input {
    fn open(file: File, table: TableName, without: &[&str]) -> io::Result<Input> {
        let reader = open(file)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let place = |column: &ColumnSpec| {
            let found = schema.columns().iter().position(|of| of.path().parts() == [&*column.name]);
            let found = found.map(|number| (number, schema.column(number).max_def_level() > 0));
            if found.is_none() && !column.is_optional {
                let text = format!(
                    "it has no column '{}': an earlier version of tracemerge has written the file",
                    column.name
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Ok(found)
        };
        let of = table.columns();
        let places = of.iter().map(place).collect::<io::Result<Vec<_>>>()?;
        let number = |name: &str| of.iter().position(|column| column.name == name).unwrap_or(0);
        let order = table.order().map(number);
        let without = (number("run"), without.iter().map(|run| run.as_bytes().to_vec()).collect());
        let columns = of.iter().map(Column::new).collect();
        let (readers, reached) = (Vec::new(), (i64::MIN, i64::MIN));
        let (next_group, left, at, rows) = (0, 0, 0, 0);
        Ok(Input { reader, places, order, without, next_group, readers, left, columns, at, rows, reached })
    }

    /// If all rows in memory have been taken, reads more rows. Returns whether there is another row.
    fn fill(&mut self) -> Result<bool> {
        while self.at >= self.rows {
            if self.left == 0 {
                if self.next_group >= self.reader.num_row_groups() {
                    return Ok(false);
                }
                let group = self.reader.get_row_group(self.next_group)?;
                self.next_group += 1;
                self.left = usize::try_from(group.metadata().num_rows())
                    .map_err(|_| damaged("its number of rows is impossible"))?;
                let reader = |place: &Option<(usize, bool)>| {
                    place.map(|(number, _)| group.get_column_reader(number)).transpose()
                };
                self.readers = self.places.iter().map(reader).collect::<Result<_>>()?;
                continue;
            }
            let rows = self.left.min(BATCH);
            for ((column, reader), place) in self.columns.iter_mut().zip(&mut self.readers).zip(&self.places)
            {
                column.read(reader.as_mut(), place.is_some_and(|(_, is_optional)| is_optional), rows)?;
            }
            self.left -= rows;
            (self.at, self.rows) = (0, rows);
            self.leave_out();
        }
        Ok(true)
    }

    /// Removes the rows of the runs in `without` from memory.
    fn leave_out(&mut self) {
        let (of_run, without) = &self.without;
        if without.is_empty() {
            return;
        }
        let Values::Texts(runs) = &self.columns[*of_run].values else { return };
        let mut runs = runs.iter();
        let levels = self.columns[*of_run].levels.iter();
        let stays: Vec<bool> = levels
            .map(|level| *level == 0 || runs.next().is_some_and(|run| !without.contains(run.data())))
            .collect();
        if stays.iter().all(|stays| *stays) {
            return;
        }
        for column in &mut self.columns {
            let mut all = std::mem::replace(
                column,
                Column { taken: 0, levels: Vec::new(), values: column.values.empty(), ..*column },
            );
            for (row, stays) in stays.iter().enumerate() {
                match stays {
                    true => {
                        column.take(&mut all, row..row + 1);
                    }
                    false => all.taken += usize::from(all.levels[row] > 0),
                }
            }
        }
        self.rows = stays.iter().filter(|stays| **stays).count();
    }

    /// Returns the sort key of a row; if an earlier row of the file had a greater one, that key.
    fn key(&self, row: usize) -> Key {
        let [first, second] = self.order.map(|column| self.columns[column].integer(row));
        self.reached.max((first, second))
    }

    /// Returns how many rows, from the next one on, may be taken before those of another file: at least one, and at
    /// most `most`. `limit` is the sort key of the other file's next row, and the index of the other file; `number` is
    /// the index of this file.
    fn rows_before(&mut self, limit: Option<(Key, usize)>, number: usize, most: usize) -> usize {
        let begin = self.at;
        let end = self.rows.min(begin + most.max(1));
        let mut row = begin;
        while row < end {
            let key = self.key(row);
            if row > begin && limit.is_some_and(|limit| (key, number) > limit) {
                break;
            }
            self.reached = key;
            row += 1;
        }
        row - begin
    }
}

impl Values {
    fn empty(&self) -> Values {
        match self {
            Values::Integers(_) => Values::Integers(Vec::new()),
            Values::Floats(_) => Values::Floats(Vec::new()),
            Values::Truths(_) => Values::Truths(Vec::new()),
            Values::Texts(_) => Values::Texts(Vec::new()),
        }
    }
}

/// Writes the rows of several files of a table into one file with the metadata `metadata`, and leaves out the rows of
/// the runs `without`. Returns the number of written rows.
///
/// # Errors
/// Returns an error if a file is damaged, or if the new file cannot be written.
pub(crate) fn rewrite(
    table: TableName,
    files: Vec<File>,
    without: &[&str],
    metadata: &[(String, String)],
    out: File,
) -> io::Result<u64> {
    let inputs = files.into_iter().map(|file| Input::open(file, table, without));
    let inputs = inputs.collect::<io::Result<Vec<_>>>()?;
    let merged = guarded(|| merge(table, inputs, metadata, BufWriter::new(out)).map_err(io::Error::other));
    let (rows, mut out) = merged?;
    out.flush()?;
    Ok(rows)
}

fn merge(
    table: TableName,
    mut inputs: Vec<Input>,
    metadata: &[(String, String)],
    out: BufWriter<File>,
) -> Result<(u64, BufWriter<File>)> {
    let of = table.columns();
    let properties = Arc::new(properties(of, metadata)?);
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema_of(of)?), properties)?;
    let mut pending: Vec<Column> = of.iter().map(Column::new).collect();
    let (mut rows, mut bytes, mut written) = (0, 0, 0);
    let mut next = BinaryHeap::new();
    for (number, input) in inputs.iter_mut().enumerate() {
        if input.fill()? {
            next.push(Reverse((input.key(input.at), number)));
        }
    }
    while let Some(Reverse((_, number))) = next.pop() {
        let limit = next.peek().map(|Reverse(next)| *next);
        let input = &mut inputs[number];
        let count = input.rows_before(limit, number, ROWS - rows);
        for (to, from) in pending.iter_mut().zip(&mut input.columns) {
            bytes += to.take(from, input.at..input.at + count);
        }
        input.at += count;
        rows += count;
        if rows >= ROWS || bytes >= MAX_TEXT_BYTES {
            write_group(&mut writer, &mut pending)?;
            written += rows as u64;
            (rows, bytes) = (0, 0);
        }
        if input.fill()? {
            next.push(Reverse((input.key(input.at), number)));
        }
    }
    if rows > 0 {
        write_group(&mut writer, &mut pending)?;
        written += rows as u64;
    }
    Ok((written, writer.into_inner()?))
}

fn write_group(writer: &mut SerializedFileWriter<BufWriter<File>>, columns: &mut [Column]) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        if let Some(mut writer) = group.next_column()? {
            column.write(writer.untyped())?;
            writer.close()?;
        }
    }
    group.close()?;
    Ok(())
}
