//! A table of Parquet that is being written: rows are collected in memory, and written to the table's file as row
//! groups.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type as Schema};

use super::chunk::{Encoder, LEVEL, Rows};
use super::schema::{ColumnSpec, ColumnType, OF_SUBJECT, OF_THREAD, Source, VERSION, VERSION_KEY};
use super::words::{SharedValues, ValueId};
use crate::view::values::Value;

/// The number of rows of a row group, unless the memory limit ends the group earlier. Readers can read several row
/// groups in parallel.
pub(super) const ROWS: usize = 1 << 17;
/// The maximum number of texts that a row has.
const TEXTS: usize = 2;
/// The size in memory of one number of a row, in bytes.
const NUMBER: usize = 8;

/// The data that the rows of all tables share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The values that many rows share, each stored once.
    pub words: SharedValues,
    /// The properties of each thread, in the order of [`OfThread`](super::schema::OfThread).
    pub threads: Vec<[ValueId; OF_THREAD]>,
    /// The properties of each subject, in the order of [`OfSubject`](super::schema::OfSubject).
    pub subjects: Vec<[ValueId; OF_SUBJECT]>,
}

/// The numbers and the thread of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    /// The numbers that every row has, for [`Source::Number`].
    pub numbers: &'a [i64],
    /// The numbers that a row may lack, for [`Source::Optional`].
    pub optional: &'a [Option<i64>],
    /// The index of the row's thread in [`Shared::threads`].
    pub thread: u32,
}

/// The counts of values that have another form in a table than in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// The count of integers that are stored as texts.
    pub as_text: u64,
    /// The count of unsigned integers that are stored as negative numbers.
    pub as_negative: u64,
}

/// The numbers of a column in which a row may have no number: integers, the bits of floating-point numbers, or truth
/// values.
#[derive(Debug, Default)]
struct OptionalNumbers {
    values: Vec<i64>,
    /// For each row, 1 if it has a number, otherwise 0 (the definition levels of Parquet).
    levels: Vec<i16>,
}

impl OptionalNumbers {
    #[inline]
    fn add(&mut self, number: Option<i64>) {
        self.levels.push(number.is_some().into());
        self.values.extend(number);
    }

    /// Writes all numbers to the file, and removes them from memory.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = Some(&self.levels[..]);
        match writer {
            ColumnWriter::Int64ColumnWriter(to) => to.write_batch(&self.values, levels, None)?,
            ColumnWriter::DoubleColumnWriter(to) => {
                let floats: Vec<f64> = self
                    .values
                    .iter()
                    .map(|bits| f64::from_bits(u64::from_ne_bytes(bits.to_ne_bytes())))
                    .collect();
                to.write_batch(&floats, levels, None)?
            }
            ColumnWriter::BoolColumnWriter(to) => {
                let truths: Vec<bool> = self.values.iter().map(|number| *number != 0).collect();
                to.write_batch(&truths, levels, None)?
            }
            _ => return Err(wrong_type()),
        };
        self.values.clear();
        self.levels.clear();
        Ok(())
    }
}

/// The unwritten values of a column, by their type.
#[derive(Debug)]
enum PendingColumn {
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Text(Texts),
}

/// The unwritten texts of a column, one after the other.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    /// The offset in `bytes` at which each text ends.
    ends: Vec<usize>,
    /// For each row, 1 if it has a text, otherwise 0 (the definition levels of Parquet).
    levels: Vec<i16>,
}

impl Texts {
    /// Adds the text of a row, if it has one. Returns the number of bytes of memory that the addition takes.
    #[inline]
    fn add(&mut self, text: Option<&str>) -> usize {
        self.levels.push(text.is_some().into());
        let Some(text) = text else { return size_of::<i16>() };
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
        size_of::<i16>() + size_of::<usize>() + text.len()
    }

    /// Writes all texts to the file, and removes them from memory.
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

/// Returns the signed number with the bits of an unsigned number, because columns have signed numbers.
pub(super) fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

/// A table that is being written.
pub(super) struct Table {
    writer: SerializedFileWriter<Vec<u8>>,
    sources: Vec<Source>,
    /// The unwritten numbers that every row has: a list for each index of [`Source::Number`].
    numbers: Vec<Vec<i64>>,
    optional: Vec<OptionalNumbers>,
    /// The number of rows that are not written yet.
    pending: usize,
    threads: Rows,
    subjects: Rows,
    texts: [Texts; TEXTS],
    values: Vec<PendingColumn>,
    /// The memory that the unwritten values take, in bytes.
    bytes: usize,
}

impl Table {
    /// Creates a table with these columns. `metadata` has pairs of a key and a value.
    ///
    /// # Errors
    /// Returns an error if two columns have the same name.
    pub(super) fn new(of: &[ColumnSpec], metadata: &[(&str, String)]) -> Result<Table> {
        let schema = schema_of(of)?;
        let properties = Arc::new(properties(of, metadata)?);
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
        let sources: Vec<Source> = of.iter().map(|column| column.source).collect();
        let count = |is: fn(&&Source) -> bool| sources.iter().filter(is).count();
        let numbers = vec![Vec::new(); count(|of| matches!(of, Source::Number(_)))];
        let mut optional = Vec::new();
        optional.resize_with(count(|of| matches!(of, Source::Optional(_))), OptionalNumbers::default);
        let is_value = |column: &&ColumnSpec| matches!(column.source, Source::Value(_));
        let values = of.iter().filter(is_value).map(|column| PendingColumn::new(column.of)).collect();
        let (threads, subjects, texts) = Default::default();
        let (pending, bytes) = (0, 0);
        Ok(Table { writer, sources, numbers, optional, pending, threads, subjects, texts, values, bytes })
    }

    #[inline]
    fn add_head(&mut self, head: &Head<'_>) {
        for (all, number) in self.numbers.iter_mut().zip(head.numbers) {
            all.push(*number);
        }
        for (all, number) in self.optional.iter_mut().zip(head.optional) {
            all.add(*number);
        }
        self.threads.add(head.thread);
        self.pending += 1;
        self.bytes += NUMBER * (1 + head.numbers.len() + head.optional.len());
    }

    /// Adds a row with the subject of the index `subject` and with texts.
    #[inline]
    pub(super) fn add(&mut self, head: &Head<'_>, subject: u32, texts: [Option<&str>; TEXTS]) {
        self.add_head(head);
        self.subjects.add(subject);
        for (all, text) in self.texts.iter_mut().zip(texts) {
            self.bytes += all.add(text);
        }
    }

    /// Adds a row with the values of a message, in the order of the columns of values. Returns the counts of values
    /// that have another form in the table.
    pub(super) fn add_values(&mut self, head: &Head<'_>, values: &[Value<'_>]) -> Changed {
        self.add_head(head);
        let mut changed = Changed::default();
        for (gathered, value) in self.values.iter_mut().zip(values) {
            let is_text = matches!(gathered, PendingColumn::Text(_));
            changed.as_text += u64::from(is_text && !matches!(value, Value::Text(_)));
            let is_large =
                |value: &Value<'_>| matches!(value, Value::Unsigned(large) if *large > i64::MAX as u128);
            changed.as_negative += u64::from(!is_text && is_large(value));
            self.bytes += gathered.add(value);
        }
        changed
    }

    /// Returns whether the unwritten rows fill a row group.
    #[must_use]
    pub(super) fn is_full(&self) -> bool {
        self.pending >= ROWS
    }

    /// Returns the number of bytes of memory that the unwritten rows take.
    #[must_use]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the rows in memory as a row group. Returns the bytes to append to the file.
    ///
    /// # Errors
    /// Returns an error if the file has too many row groups.
    pub(super) fn write(&mut self, shared: &Shared, encoder: &mut Encoder) -> Result<Vec<u8>> {
        if self.pending > 0 {
            let columns = self.writer.schema_descr().columns().to_vec();
            let mut group = self.writer.next_row_group()?;
            for (column, source) in columns.into_iter().zip(&self.sources) {
                match *source {
                    Source::OfThread(of) => {
                        let of = |thread| shared.threads[thread as usize][of as usize];
                        let chunk = encoder.words(column, &self.threads, of, &shared.words)?;
                        group.append_column(&chunk.bytes, chunk.close)?;
                    }
                    Source::OfSubject(of) => {
                        let of = |subject| shared.subjects[subject as usize][of as usize];
                        let chunk = encoder.words(column, &self.subjects, of, &shared.words)?;
                        group.append_column(&chunk.bytes, chunk.close)?;
                    }
                    Source::Number(place) => {
                        write_with(&mut group, |to| write_integers(&mut self.numbers[place], to))?;
                    }
                    Source::Optional(place) => {
                        write_with(&mut group, |to| self.optional[place].write(to))?;
                    }
                    Source::Text(place) => write_with(&mut group, |to| self.texts[place].write(to))?,
                    Source::Value(place) => write_with(&mut group, |to| self.values[place].write(to))?,
                }
            }
            group.close()?;
            self.threads.clear();
            self.subjects.clear();
        }
        (self.pending, self.bytes) = (0, 0);
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// Writes the rows in memory, and ends the file. Returns the last bytes of the file.
    ///
    /// # Errors
    /// Returns an error if the file has too many row groups.
    pub(super) fn finish(mut self, shared: &Shared, encoder: &mut Encoder) -> Result<Vec<u8>> {
        let mut bytes = self.write(shared, encoder)?;
        bytes.append(&mut self.writer.into_inner()?);
        Ok(bytes)
    }
}

/// Writes the next column of a row group by `write`, which uses one of the encodings of the crate `parquet`.
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
            ColumnType::Integer | ColumnType::FewIntegers | ColumnType::Time => {
                PendingColumn::I64(Vec::new())
            }
            ColumnType::F32 => PendingColumn::F32(Vec::new()),
            ColumnType::F64 => PendingColumn::F64(Vec::new()),
            ColumnType::Bool => PendingColumn::Bool(Vec::new()),
            ColumnType::Text => PendingColumn::Text(Texts::default()),
        }
    }

    /// Adds the value of a row. Returns the number of bytes of memory that the value takes.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "values of more than 64 bits are in columns of texts; unsigned ones keep their bits"
    )]
    fn add(&mut self, value: &Value<'_>) -> usize {
        match (self, value) {
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

    /// Writes all values to the file, and removes them from memory.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        match (self, writer) {
            (PendingColumn::I64(values), writer) => return write_integers(values, writer),
            (PendingColumn::Text(texts), writer) => return texts.write(writer),
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

/// Writes integers of 64 bits to the file, and removes them from memory.
fn write_integers(values: &mut Vec<i64>, writer: &mut ColumnWriter<'_>) -> Result<()> {
    let ColumnWriter::Int64ColumnWriter(to) = writer else { return Err(wrong_type()) };
    to.write_batch(values, None, None)?;
    values.clear();
    Ok(())
}

/// Returns the error that values have another type than their column.
pub(super) fn wrong_type() -> ParquetError {
    damaged("the values have another type than their column")
}

/// Returns the error for a damaged file; `why` describes the damage.
pub(super) fn damaged(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

/// Returns the schema of a table with these columns.
///
/// # Errors
/// Returns an error if two columns have the same name.
pub(super) fn schema_of(of: &[ColumnSpec]) -> Result<Schema> {
    let fields: Result<Vec<_>> = of.iter().map(|column| Ok(Arc::new(schema(column)?))).collect();
    Schema::group_type_builder("records").with_fields(fields?).build()
}

fn schema(column: &ColumnSpec) -> Result<Schema> {
    let (physical, logical) = match column.of {
        ColumnType::Integer | ColumnType::FewIntegers => {
            (Physical::INT64, Some(LogicalType::Integer { bit_width: 64, is_signed: true }))
        }
        ColumnType::Time => {
            let utc = LogicalType::Timestamp { is_adjusted_to_u_t_c: true, unit: TimeUnit::MICROS };
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

/// Returns the settings of a file: its metadata, and how the crate `parquet` encodes columns. Integers are stored as
/// differences or in a dictionary, values that rows share in a dictionary, and all other values as they are. All
/// columns are compressed.
pub(super) fn properties<K: AsRef<str>>(
    of: &[ColumnSpec],
    metadata: &[(K, String)],
) -> Result<WriterProperties> {
    let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let further = metadata.iter().map(|(key, value)| pair(key.as_ref(), value));
    let metadata = std::iter::once(pair(VERSION_KEY, &VERSION.to_string())).chain(further).collect();
    let builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("tracemerge {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata))
        .set_dictionary_enabled(false)
        // Pages end by their size alone.
        .set_data_page_row_count_limit(ROWS)
        // Offset indexes would give the position of each page of a column, which no reader needs here.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?));
    let set = of.iter().fold(builder, |builder, column| {
        let path = ColumnPath::from(column.name.as_ref());
        if matches!(column.source, Source::OfThread(_) | Source::OfSubject(_)) {
            return builder.set_column_dictionary_enabled(path, true);
        }
        match column.of {
            ColumnType::Integer | ColumnType::Time => {
                builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            ColumnType::FewIntegers => builder.set_column_dictionary_enabled(path, true),
            // Readers would gain nothing from the smallest and the largest text.
            ColumnType::Text => builder.set_column_statistics_enabled(path, EnabledStatistics::None),
            ColumnType::F32 | ColumnType::F64 | ColumnType::Bool => builder,
        }
    });
    Ok(set.build())
}
