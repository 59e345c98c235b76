//! A table: columns that are gathered in memory up to a row group, and the file that they are written to.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as Schema};

/// The number of rows of a row group, unless memory ends it earlier. Readers read row groups side by side.
const ROWS: usize = 1 << 17;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A signed integer of so many bits, 64 at most.
    Signed(u8),
    /// An unsigned integer of so many bits, 64 at most.
    Unsigned(u8),
    /// Nanoseconds since 1970, in UTC.
    Time,
    F32,
    F64,
    Bool,
    /// Text whose values mostly differ.
    Text,
    /// Text whose values mostly are among a few.
    Name,
}

/// The description of a column.
#[derive(Clone, Debug)]
pub struct ColumnOf {
    /// The name, which no other column of the table has.
    pub name: String,
    /// The type.
    pub of: ColumnType,
    /// Whether a row may have no value.
    pub is_optional: bool,
}

/// The values of a column that are not written yet.
#[derive(Debug)]
enum Gathered {
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    /// The bytes of all texts, and where each ends.
    Text(Vec<u8>, Vec<usize>),
}

/// A column of a table: values, and for each row whether it has one (1) or not (0), where it may have none.
#[derive(Debug)]
struct Column {
    values: Gathered,
    there: Option<Vec<i16>>,
}

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// There is no value; only of columns that are optional.
    None,
    /// Of columns of integers and of times. Bits above those of the type are cut off.
    Integer(i64),
    /// Of columns of these floats.
    F32(f32),
    F64(f64),
    /// Of columns of truth values.
    Bool(bool),
    /// Of columns of texts and names.
    Text(&'a str),
}

impl<'a> Cell<'a> {
    /// Returns a cell of a text or a name.
    #[must_use]
    pub fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::None, Cell::Text)
    }

    /// Returns a cell of an integer without a sign.
    #[must_use]
    pub fn unsigned(number: u64) -> Cell<'a> {
        Cell::Integer(i64::from_ne_bytes(number.to_ne_bytes()))
    }
}

/// A table that is being written.
pub struct Table {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Column>,
    rows: usize,
    /// The size of the values that are not written yet.
    bytes: usize,
}

impl Table {
    /// Makes a table of these columns.
    ///
    /// # Errors
    /// Two columns have one name.
    pub fn new(of: &[ColumnOf]) -> Result<Table> {
        let fields: Result<Vec<_>> = of.iter().map(|column| Ok(Arc::new(schema(column)?))).collect();
        let schema = Schema::group_type_builder("records").with_fields(fields?).build()?;
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties(of)?))?;
        let columns = of.iter().map(Column::new).collect();
        Ok(Table { writer, columns, rows: 0, bytes: 0 })
    }

    /// Adds a row, which has a cell for each column, of its type.
    pub fn add(&mut self, cells: &[Cell<'_>]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes += column.add(cell);
        }
        self.rows += 1;
    }

    /// Returns whether the rows that are not written are a row group.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS
    }

    /// Returns how much memory the rows take that are not written yet, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes a row group of the rows that are not written yet. Returns bytes for the end of the file.
    ///
    /// # Errors
    /// The file has too many row groups.
    pub fn write(&mut self) -> Result<Vec<u8>> {
        if self.rows > 0 {
            let mut group = self.writer.next_row_group()?;
            for column in &mut self.columns {
                if let Some(mut writer) = group.next_column()? {
                    column.write(writer.untyped())?;
                    writer.close()?;
                }
            }
            group.close()?;
        }
        (self.rows, self.bytes) = (0, 0);
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// Ends the file. Returns its last bytes.
    ///
    /// # Errors
    /// The file has too many row groups.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let mut bytes = self.write()?;
        bytes.append(&mut self.writer.into_inner()?);
        Ok(bytes)
    }
}

impl Column {
    fn new(of: &ColumnOf) -> Column {
        let values = match of.of {
            ColumnType::Signed(64) | ColumnType::Unsigned(64) | ColumnType::Time => Gathered::I64(Vec::new()),
            ColumnType::Signed(_) | ColumnType::Unsigned(_) => Gathered::I32(Vec::new()),
            ColumnType::F32 => Gathered::F32(Vec::new()),
            ColumnType::F64 => Gathered::F64(Vec::new()),
            ColumnType::Bool => Gathered::Bool(Vec::new()),
            ColumnType::Text | ColumnType::Name => Gathered::Text(Vec::new(), Vec::new()),
        };
        Column { values, there: of.is_optional.then(Vec::new) }
    }

    /// Adds a cell; returns how much memory it takes, in bytes.
    fn add(&mut self, cell: &Cell<'_>) -> usize {
        if let Some(there) = &mut self.there {
            there.push(i16::from(!matches!(cell, Cell::None)));
        }
        match (&mut self.values, cell) {
            (_, Cell::None) => return 2,
            #[expect(clippy::cast_possible_truncation, reason = "the type has no more bits")]
            (Gathered::I32(values), Cell::Integer(number)) => values.push(*number as i32),
            (Gathered::I64(values), Cell::Integer(number)) => values.push(*number),
            (Gathered::F32(values), Cell::F32(number)) => values.push(*number),
            (Gathered::F64(values), Cell::F64(number)) => values.push(*number),
            (Gathered::Bool(values), Cell::Bool(is_so)) => values.push(*is_so),
            (Gathered::Text(bytes, ends), Cell::Text(text)) => {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(bytes.len());
                return 10 + text.len();
            }
            _ => debug_assert!(false, "a cell has the type of its column"),
        }
        10
    }

    /// Writes all values to a column of a row group.
    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let there = self.there.as_deref();
        match (&mut self.values, writer) {
            (Gathered::I32(values), ColumnWriter::Int32ColumnWriter(to)) => {
                to.write_batch(values, there, None)?;
                values.clear();
            }
            (Gathered::I64(values), ColumnWriter::Int64ColumnWriter(to)) => {
                to.write_batch(values, there, None)?;
                values.clear();
            }
            (Gathered::F32(values), ColumnWriter::FloatColumnWriter(to)) => {
                to.write_batch(values, there, None)?;
                values.clear();
            }
            (Gathered::F64(values), ColumnWriter::DoubleColumnWriter(to)) => {
                to.write_batch(values, there, None)?;
                values.clear();
            }
            (Gathered::Bool(values), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(values, there, None)?;
                values.clear();
            }
            (Gathered::Text(bytes, ends), ColumnWriter::ByteArrayColumnWriter(to)) => {
                // The texts share the bytes.
                let all = ByteArray::from(std::mem::take(bytes));
                let begins = [0].into_iter().chain(ends.iter().copied());
                let texts: Vec<ByteArray> =
                    begins.zip(ends.iter()).map(|(begin, end)| all.slice(begin, end - begin)).collect();
                to.write_batch(&texts, there, None)?;
                ends.clear();
            }
            _ => debug_assert!(false, "a column has the type of its writer"),
        }
        if let Some(there) = &mut self.there {
            there.clear();
        }
        Ok(())
    }
}

fn schema(column: &ColumnOf) -> Result<Schema> {
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
        ColumnType::Text | ColumnType::Name => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Schema::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

/// Returns how columns are encoded: times by their differences, names by numbers, all of it compressed.
fn properties(of: &[ColumnOf]) -> Result<WriterProperties> {
    let all = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("tracemerge {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?));
    let with = of.iter().fold(all, |all, column| {
        let path = || ColumnPath::new(vec![column.name.clone()]);
        match column.of {
            ColumnType::Signed(_) | ColumnType::Unsigned(_) | ColumnType::Time => all
                .set_column_dictionary_enabled(path(), false)
                .set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED),
            ColumnType::Text | ColumnType::F32 | ColumnType::F64 | ColumnType::Bool => {
                all.set_column_dictionary_enabled(path(), false)
            }
            ColumnType::Name => all.set_column_dictionary_enabled(path(), true),
        }
    });
    Ok(with.build())
}
