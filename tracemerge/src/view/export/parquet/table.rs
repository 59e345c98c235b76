//! A table: columns that are collected in memory up to a row group, and the file of the table.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type as Schema};

use super::chunk::{Encoder, LEVEL, Rows};
use super::words::{SharedValues, ValueId};
use crate::view::values::Value;

/// The number of rows of a row group, unless the memory limit ends it earlier. Readers read row groups in
/// parallel.
const ROWS: usize = 1 << 17;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ColumnType {
    /// A signed integer of this number of bits, at most 64.
    Signed(u8),
    /// An unsigned integer of this number of bits, at most 64.
    Unsigned(u8),
    /// Nanoseconds since 1970, in UTC.
    Time,
    F32,
    F64,
    Bool,
    /// Text.
    Text,
}

/// The description of a column.
#[derive(Clone, Debug)]
pub(super) struct ColumnSpec {
    /// The name, which no other column of the table has.
    pub name: String,
    /// The type.
    pub of: ColumnType,
    /// Whether a row may have no value.
    pub is_optional: bool,
    /// The source of the values.
    pub source: Source,
}

/// The source of the values of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The numbers of the row's head, at this index: its number, its ticks, and its time.
    Head(usize),
    /// The properties of the row's thread, at this index.
    OfThread(usize),
    /// The properties of the row's subject, at this index.
    OfSubject(usize),
    /// The row's texts, at this index.
    Text(usize),
    /// The row's values, at this index.
    Value(usize),
}

/// The data that rows share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The values.
    pub words: SharedValues,
    /// The properties of each thread.
    pub threads: Vec<[ValueId; OF_THREAD]>,
    /// The properties of each subject.
    pub subjects: Vec<[ValueId; OF_SUBJECT]>,
}

/// The numbers of properties of a thread and of a subject, each with a column.
pub(super) const OF_THREAD: usize = 4;
pub(super) const OF_SUBJECT: usize = 9;
/// The number of texts of a row.
const TEXTS: usize = 2;
/// The memory that the head of a row takes, in bytes.
const HEAD: usize = 32;

/// The data at the beginning of every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The number of the record.
    pub number: u64,
    /// The ticks.
    pub ticks: u64,
    /// The time, in nanoseconds since 1970.
    pub time: u64,
    /// The number of the thread in [`Shared::threads`].
    pub thread: u32,
}

/// The values of a column that are not written yet.
#[derive(Debug)]
enum PendingColumn {
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Text(Texts),
}

/// The texts of a column that are not written yet, one behind the other.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
    /// For each row whether it has a text, in the form of definition levels.
    levels: Vec<i16>,
}

impl Texts {
    /// Adds a row. Returns the number of bytes of memory that it takes.
    #[inline]
    fn add(&mut self, text: Option<&str>) -> usize {
        self.levels.push(text.is_some().into());
        let Some(text) = text else { return size_of::<i16>() };
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
        size_of::<i16>() + size_of::<usize>() + text.len()
    }

    /// Writes all texts, and removes them.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let ColumnWriter::ByteArrayColumnWriter(to) = writer else { return Err(wrong_type()) };
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        let mut start = 0;
        let text = |end| bytes.slice(std::mem::replace(&mut start, end)..end).into();
        let texts: Vec<ByteArray> = self.ends.drain(..).map(text).collect();
        to.write_batch(&texts, Some(&self.levels), None)?;
        self.levels.clear();
        Ok(())
    }
}

/// Reinterprets the bits of an unsigned number as signed, which is the type in columns.
fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

/// A table while it is written.
pub(super) struct Table {
    writer: SerializedFileWriter<Vec<u8>>,
    sources: Vec<Source>,
    /// The numbers, the ticks and the times of the rows.
    heads: [Vec<i64>; 3],
    threads: Rows,
    subjects: Rows,
    texts: [Texts; TEXTS],
    values: Vec<PendingColumn>,
    /// The size of the values that are not written yet.
    bytes: usize,
}

impl Table {
    /// Makes a table with these columns.
    ///
    /// # Errors
    /// Returns an error if two columns have the same name.
    pub(super) fn new(of: &[ColumnSpec]) -> Result<Table> {
        let fields: Result<Vec<_>> = of.iter().map(|column| Ok(Arc::new(schema(column)?))).collect();
        let schema = Schema::group_type_builder("records").with_fields(fields?).build()?;
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties(of)?))?;
        let sources = of.iter().map(|column| column.source).collect();
        let is_value = |column: &&ColumnSpec| matches!(column.source, Source::Value(_));
        let values = of.iter().filter(is_value).map(|column| PendingColumn::new(column.of)).collect();
        let (heads, threads, subjects, texts) = Default::default();
        Ok(Table { writer, sources, heads, threads, subjects, texts, values, bytes: 0 })
    }

    #[inline]
    fn add_head(&mut self, head: &Head) {
        for (all, number) in self.heads.iter_mut().zip([head.number, head.ticks, head.time]) {
            all.push(signed(number));
        }
        self.threads.add(head.thread);
        self.bytes += HEAD;
    }

    /// Adds a row with a subject and texts.
    #[inline]
    pub(super) fn add(&mut self, head: &Head, subject: u32, texts: [Option<&str>; TEXTS]) {
        self.add_head(head);
        self.subjects.add(subject);
        for (all, text) in self.texts.iter_mut().zip(texts) {
            self.bytes += all.add(text);
        }
    }

    /// Adds a row with values, which must be in the order of the value columns. Returns the number of
    /// integers that become texts.
    pub(super) fn add_values(&mut self, head: &Head, values: &[Value<'_>]) -> u64 {
        self.add_head(head);
        let mut as_text = 0;
        for (gathered, value) in self.values.iter_mut().zip(values) {
            let is_text = matches!(gathered, PendingColumn::Text(_)) && !matches!(value, Value::Text(_));
            as_text += u64::from(is_text);
            self.bytes += gathered.add(value);
        }
        as_text
    }

    /// Returns whether the unwritten rows fill a row group.
    #[must_use]
    pub(super) fn is_full(&self) -> bool {
        self.heads[0].len() >= ROWS
    }

    /// Returns the number of bytes of memory that the unwritten rows take.
    #[must_use]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the unwritten rows as a row group. Returns the bytes to append to the file.
    ///
    /// # Errors
    /// Returns an error if the file has too many row groups.
    pub(super) fn write(&mut self, shared: &Shared, encoder: &mut Encoder) -> Result<Vec<u8>> {
        if !self.heads[0].is_empty() {
            let columns = self.writer.schema_descr().columns().to_vec();
            let mut group = self.writer.next_row_group()?;
            for (column, source) in columns.into_iter().zip(&self.sources) {
                match *source {
                    Source::OfThread(place) => {
                        let of = |thread| shared.threads[thread as usize][place];
                        let chunk = encoder.words(column, &self.threads, of, &shared.words)?;
                        group.append_column(&chunk.bytes, chunk.close)?;
                    }
                    Source::OfSubject(place) => {
                        let of = |subject| shared.subjects[subject as usize][place];
                        let chunk = encoder.words(column, &self.subjects, of, &shared.words)?;
                        group.append_column(&chunk.bytes, chunk.close)?;
                    }
                    Source::Head(place) => {
                        write_with(&mut group, |to| write_long_integers(&mut self.heads[place], to))?;
                    }
                    Source::Text(place) => write_with(&mut group, |to| self.texts[place].write(to))?,
                    Source::Value(place) => write_with(&mut group, |to| self.values[place].write(to))?,
                }
            }
            group.close()?;
            self.threads.clear();
            self.subjects.clear();
        }
        self.bytes = 0;
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// Ends the file, and returns its last bytes.
    ///
    /// # Errors
    /// Returns an error if the file has too many row groups.
    pub(super) fn finish(mut self, shared: &Shared, encoder: &mut Encoder) -> Result<Vec<u8>> {
        let mut bytes = self.write(shared, encoder)?;
        bytes.append(&mut self.writer.into_inner()?);
        Ok(bytes)
    }
}

/// Writes the next column of a row group with one of the crate's encodings.
fn write_with(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<()>,
) -> Result<()> {
    if let Some(mut writer) = group.next_column()? {
        write(writer.untyped())?;
        writer.close()?;
    }
    Ok(())
}

impl PendingColumn {
    fn new(of: ColumnType) -> PendingColumn {
        match of {
            ColumnType::Signed(64) | ColumnType::Unsigned(64) | ColumnType::Time => {
                PendingColumn::I64(Vec::new())
            }
            ColumnType::Signed(_) | ColumnType::Unsigned(_) => PendingColumn::I32(Vec::new()),
            ColumnType::F32 => PendingColumn::F32(Vec::new()),
            ColumnType::F64 => PendingColumn::F64(Vec::new()),
            ColumnType::Bool => PendingColumn::Bool(Vec::new()),
            ColumnType::Text => PendingColumn::Text(Texts::default()),
        }
    }

    /// Adds a value. Returns the number of bytes of memory that it takes.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the type of a column of integers has no more bits than it"
    )]
    fn add(&mut self, value: &Value<'_>) -> usize {
        match (self, value) {
            (PendingColumn::I32(values), Value::Signed(number)) => values.push(*number as i32),
            (PendingColumn::I32(values), Value::Unsigned(number)) => values.push(*number as i32),
            (PendingColumn::I64(values), Value::Signed(number)) => values.push(*number as i64),
            (PendingColumn::I64(values), Value::Unsigned(number)) => values.push(*number as i64),
            (PendingColumn::I64(values), Value::Pointer(address)) => values.push(signed(*address)),
            (PendingColumn::F32(values), Value::F32(number)) => values.push(*number),
            (PendingColumn::F64(values), Value::F64(number)) => values.push(*number),
            (PendingColumn::Bool(values), Value::Bool(is_so)) => values.push(*is_so),
            (PendingColumn::Text(texts), Value::Text(text)) => return texts.add(Some(text)),
            (PendingColumn::Text(texts), Value::Signed(number)) => {
                return texts.add(Some(&number.to_string()));
            }
            (PendingColumn::Text(texts), Value::Unsigned(number)) => {
                return texts.add(Some(&number.to_string()));
            }
            _ => debug_assert!(false, "a value has the type of its column"),
        }
        8
    }

    /// Writes all values, and removes them.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        match (self, writer) {
            (PendingColumn::I64(values), writer) => return write_long_integers(values, writer),
            (PendingColumn::Text(texts), writer) => return texts.write(writer),
            (PendingColumn::I32(values), ColumnWriter::Int32ColumnWriter(to)) => {
                to.write_batch(values, None, None)?;
                values.clear();
            }
            (PendingColumn::F32(values), ColumnWriter::FloatColumnWriter(to)) => {
                to.write_batch(values, None, None)?;
                values.clear();
            }
            (PendingColumn::F64(values), ColumnWriter::DoubleColumnWriter(to)) => {
                to.write_batch(values, None, None)?;
                values.clear();
            }
            (PendingColumn::Bool(values), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(values, None, None)?;
                values.clear();
            }
            _ => return Err(wrong_type()),
        }
        Ok(())
    }
}

/// Writes integers of 64 bits, and removes them.
fn write_long_integers(values: &mut Vec<i64>, writer: &mut ColumnWriter<'_>) -> Result<()> {
    let ColumnWriter::Int64ColumnWriter(to) = writer else { return Err(wrong_type()) };
    to.write_batch(values, None, None)?;
    values.clear();
    Ok(())
}

/// Returns the error for values whose type is not that of their column.
fn wrong_type() -> ParquetError {
    ParquetError::General("the values have another type than their column".to_owned())
}

fn schema(column: &ColumnSpec) -> Result<Schema> {
    let integer =
        |bits: u8, is_signed| LogicalType::Integer { bit_width: i8::try_from(bits).unwrap_or(64), is_signed };
    let of_size = |bits| if bits == 64 { Physical::INT64 } else { Physical::INT32 };
    let (physical, logical) = match column.of {
        ColumnType::Signed(bits) => (of_size(bits), Some(integer(bits, true))),
        ColumnType::Unsigned(bits) => (of_size(bits), Some(integer(bits, false))),
        ColumnType::Time => {
            let utc = LogicalType::Timestamp { is_adjusted_to_u_t_c: true, unit: TimeUnit::NANOS };
            (Physical::INT64, Some(utc))
        }
        ColumnType::F32 => (Physical::FLOAT, None),
        ColumnType::F64 => (Physical::DOUBLE, None),
        ColumnType::Bool => (Physical::BOOLEAN, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Schema::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

/// Returns the settings for the columns that the crate encodes: integers by their differences, everything else
/// plain; compressed.
fn properties(of: &[ColumnSpec]) -> Result<WriterProperties> {
    let builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("tracemerge {}", env!("CARGO_PKG_VERSION")))
        .set_dictionary_enabled(false)
        // Pages end by their size alone.
        .set_data_page_row_count_limit(ROWS)
        // Offset indexes would give the position of each page of a column, which no reader needs here.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?));
    let set = of.iter().fold(builder, |builder, column| {
        let path = ColumnPath::from(column.name.as_str());
        match column.of {
            ColumnType::Signed(_) | ColumnType::Unsigned(_) | ColumnType::Time => {
                builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            // The least and the largest text would help no reader.
            ColumnType::Text => builder.set_column_statistics_enabled(path, EnabledStatistics::None),
            ColumnType::F32 | ColumnType::F64 | ColumnType::Bool => builder,
        }
    });
    Ok(set.build())
}
