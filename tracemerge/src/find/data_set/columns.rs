//! The columns of a file in Parquet, a few thousand rows at a time.

use std::io;

use parquet::column::page::Page;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;

/// The number of rows that are read at once.
pub(super) const BATCH: usize = 4096;

/// The values that a column has in some rows.
enum Values {
    Integers(Vec<i64>),
    Texts(Vec<ByteArray>),
    /// The file does not have the column, or has it with another type.
    None,
}

/// A column of a row group, with the values of the current batch.
pub(super) struct Column {
    reader: Option<ColumnReader>,
    is_optional: bool,
    values: Values,
    /// The definition level of each row of the batch: 0 if the row has no value. The list is empty if every row must
    /// have a value.
    levels: Vec<i16>,
    /// The index of the next row in the batch; `value` is the index of the next value, of which there may be fewer.
    row: usize,
    value: usize,
}

/// Returns the index of the column `name` in a row group; `None` if there is no such column.
fn number_of(group: &RowGroupMetaData, name: &str) -> Option<usize> {
    group.schema_descr().columns().iter().position(|column| column.path().parts() == [name])
}

impl Column {
    /// Opens the column `name` of a row group.
    pub(super) fn open(group: &dyn RowGroupReader, name: &str) -> Result<Column> {
        let number = number_of(group.metadata(), name);
        let reader = number.map(|number| group.get_column_reader(number)).transpose()?;
        let values = match &reader {
            Some(ColumnReader::Int64ColumnReader(_)) => Values::Integers(Vec::new()),
            Some(ColumnReader::ByteArrayColumnReader(_)) => Values::Texts(Vec::new()),
            _ => Values::None,
        };
        let levels = number.map(|number| group.metadata().column(number).column_descr().max_def_level());
        Ok(Column {
            reader,
            is_optional: levels.is_some_and(|most| most > 0),
            values,
            levels: Vec::new(),
            row: 0,
            value: 0,
        })
    }

    /// Reads the next batch, which has `rows` rows.
    pub(super) fn read(&mut self, rows: usize) -> io::Result<()> {
        self.rewind();
        self.levels.clear();
        let levels = self.is_optional.then_some(&mut self.levels);
        let read = match (&mut self.reader, &mut self.values) {
            (Some(ColumnReader::Int64ColumnReader(from)), Values::Integers(to)) => {
                to.clear();
                from.read_records(rows, levels, None, to)
            }
            (Some(ColumnReader::ByteArrayColumnReader(from)), Values::Texts(to)) => {
                to.clear();
                from.read_records(rows, levels, None, to)
            }
            _ => return Ok(()),
        };
        let (found, ..) = read.map_err(io::Error::other)?;
        let is_whole = found == rows && (!self.is_optional || self.levels.len() == rows);
        if is_whole { Ok(()) } else { Err(lacks_rows()) }
    }

    /// Skips the next `rows` rows. Pages that have only skipped rows are not read.
    pub(super) fn skip(&mut self, rows: usize) -> io::Result<()> {
        let skipped = match &mut self.reader {
            Some(ColumnReader::Int64ColumnReader(from)) => from.skip_records(rows),
            Some(ColumnReader::ByteArrayColumnReader(from)) => from.skip_records(rows),
            _ => return Ok(()),
        };
        let found = skipped.map_err(io::Error::other)?;
        if found == rows { Ok(()) } else { Err(lacks_rows()) }
    }

    /// Goes back to the first row of the batch.
    pub(super) fn rewind(&mut self) {
        (self.row, self.value) = (0, 0);
    }

    /// Returns the index of the value of the next row, if it has one.
    fn next(&mut self) -> Option<usize> {
        let has_value = !self.is_optional || self.levels.get(self.row).is_some_and(|level| *level > 0);
        self.row += 1;
        if !has_value {
            return None;
        }
        self.value += 1;
        Some(self.value - 1)
    }

    /// Returns the integer of the next row of the batch.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let at = self.next()?;
        if let Values::Integers(values) = &self.values { values.get(at).copied() } else { None }
    }

    /// Returns the text of the next row of the batch.
    ///
    /// # Errors
    /// The text is not UTF-8.
    pub(super) fn text(&mut self) -> io::Result<Option<&str>> {
        let Some(at) = self.next() else { return Ok(None) };
        let Values::Texts(values) = &self.values else { return Ok(None) };
        let text = values.get(at).map(|bytes| std::str::from_utf8(bytes.data()));
        text.transpose().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a text is not UTF-8"))
    }
}

fn lacks_rows() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a column lacks rows")
}

/// Returns the smallest and the largest integer of a column in a row group, if the row group's statistics state them.
pub(super) fn integers(group: &RowGroupMetaData, name: &str) -> Option<(i64, i64)> {
    match group.column(number_of(group, name)?).statistics()? {
        Statistics::Int64(of) => Some((*of.min_opt()?, *of.max_opt()?)),
        _ => None,
    }
}

/// Returns the text of a column if all rows of a row group have the same text, according to the row group's statistics.
pub(super) fn only_text<'a>(group: &'a RowGroupMetaData, name: &str) -> Option<&'a str> {
    let statistics = group.column(number_of(group, name)?).statistics()?;
    let has_all = statistics.null_count_opt() == Some(0);
    let (least, greatest) = (statistics.min_bytes_opt()?, statistics.max_bytes_opt()?);
    (has_all && least == greatest).then(|| std::str::from_utf8(least).ok()).flatten()
}

/// Returns whether no row of a row group has a value in a column, according to the row group's statistics.
pub(super) fn is_empty(group: &RowGroupMetaData, name: &str) -> bool {
    let of = number_of(group, name).map(|number| group.column(number));
    of.is_some_and(|of| {
        let without = of.statistics().and_then(Statistics::null_count_opt);
        without.is_some_and(|without| i64::try_from(without) == Ok(of.num_values()))
    })
}

/// Returns the different texts of a column in a row group, if it has a dictionary of them.
pub(super) fn dictionary(group: &dyn RowGroupReader, name: &str) -> Option<Vec<String>> {
    let number = number_of(group.metadata(), name)?;
    let mut pages = group.get_column_page_reader(number).ok()?;
    let Some(Page::DictionaryPage { buf, num_values, .. }) = pages.get_next_page().ok()? else { return None };
    let (mut rest, mut texts) = (&buf[..], Vec::new());
    for _ in 0..num_values {
        // The length is before the text.
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        texts.push(std::str::from_utf8(text).ok()?.to_owned());
        rest = behind;
    }
    Some(texts)
}
