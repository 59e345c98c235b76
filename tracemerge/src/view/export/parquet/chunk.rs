//! Encodes columns whose values are shared by many rows, as a dictionary and, for each row, the index of its value in
//! the dictionary. Other columns are encoded by the crate `parquet`: it would need the values of all rows to make a
//! dictionary, but here, each row has only a number (a key) that stands for its values.

use bytes::Bytes;
use itertools::Itertools;
use parquet::basic::{Compression, Encoding, Type as Physical, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::hybrid::{Bits, bits, put_hybrid, put_hybrid_of_bytes, put_run};
use super::words::{NONE, SharedValues, ValueId};

/// The level of zstd compression of columns. Level 1 would be a tenth faster and take 3 % more bytes.
pub(super) const LEVEL: i32 = 3;
/// The maximum length, in bytes, of texts in the statistics of a column, which state its smallest and its largest text.
const LONGEST_LIMIT: usize = 64;

/// An encoded column of a row group.
pub(super) struct Chunk {
    /// The encoded pages.
    pub bytes: Bytes,
    /// The metadata of the column in the file.
    pub close: ColumnCloseResult,
}

/// A key for each row of a chunk: for example, the index of the row's thread. Rows with the same key have the same
/// values in several columns, such as the name and the id of the thread.
#[derive(Debug, Default)]
pub(super) struct Rows {
    keys: Vec<u32>,
    /// The distinct keys, each once; `is_there` says, for each possible key, whether it is in this list.
    distinct: Vec<u32>,
    is_there: Vec<bool>,
}

impl Rows {
    /// Adds a row with the key `key`.
    #[inline]
    pub(super) fn add(&mut self, key: u32) {
        self.keys.push(key);
        match self.is_there.get(key as usize) {
            Some(true) => {}
            _ => self.meet(key),
        }
    }

    #[cold]
    fn meet(&mut self, key: u32) {
        self.is_there.resize(self.limit().max(key as usize + 1), false);
        self.is_there[key as usize] = true;
        self.distinct.push(key);
    }

    /// Returns a number that is greater than all keys.
    fn limit(&self) -> usize {
        self.is_there.len()
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        for key in self.distinct.drain(..) {
            self.is_there[key as usize] = false;
        }
    }
}

/// An encoder of columns of shared values.
pub(super) struct Encoder {
    zstd: Compressor<'static>,
    /// For each shared value, its index in the column's dictionary. This field and those below are buffers for one
    /// column.
    places: Vec<u32>,
    /// For each key of rows, the index of its value in the column's dictionary.
    of_keys: Vec<u32>,
    dictionary: Vec<ValueId>,
    numbers: Vec<u32>,
    /// The indices of the rows' values as bytes, in place of `numbers`, if the dictionary is small enough.
    small: Vec<u8>,
    small_of_keys: Vec<u8>,
    there: Bits,
    body: Vec<u8>,
}

/// The index that stands for a value that is not in the dictionary. If indices are stored as bytes, the lowest byte of
/// this number is also no valid index.
const NOT_IN_DICTIONARY: u32 = u32::MAX;

/// The encoded pages of a column that is not complete.
struct Pages {
    sink: TrackedWrite<Vec<u8>>,
    dictionary: Option<i64>,
    data: Option<i64>,
    compressed: usize,
    uncompressed: usize,
}

impl Pages {
    fn put(&mut self, page: Page, uncompressed: usize) -> Result<()> {
        let is_data = page.is_data_page();
        let spec =
            SerializedPageWriter::new(&mut self.sink).write_page(CompressedPage::new(page, uncompressed))?;
        self.compressed += spec.compressed_size;
        self.uncompressed += spec.uncompressed_size;
        let first = if is_data { &mut self.data } else { &mut self.dictionary };
        first.get_or_insert(i64::try_from(spec.offset).unwrap_or(i64::MAX));
        Ok(())
    }

    fn finish(
        self,
        column: ColumnDescPtr,
        rows: usize,
        encodings: Vec<Encoding>,
        statistics: Option<Statistics>,
    ) -> Result<Chunk> {
        let size = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let mut builder = ColumnChunkMetaData::builder(column);
        if let Some(statistics) = statistics {
            builder = builder.set_statistics(statistics);
        }
        let metadata = builder
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(encodings)
            .set_num_values(size(rows))
            .set_total_compressed_size(size(self.compressed))
            .set_total_uncompressed_size(size(self.uncompressed))
            .set_dictionary_page_offset(self.dictionary)
            .set_data_page_offset(self.data.unwrap_or(0))
            .build()?;
        let bytes = Bytes::from(self.sink.into_inner()?);
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(Chunk { bytes, close })
    }
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn new() -> Result<Encoder> {
        let (places, of_keys, dictionary) = Default::default();
        let (numbers, small, small_of_keys, there, body) = Default::default();
        let zstd = Compressor::new(LEVEL)?;
        Ok(Encoder { zstd, places, of_keys, dictionary, numbers, small, small_of_keys, there, body })
    }

    fn pages() -> Pages {
        let sink = TrackedWrite::new(Vec::new());
        Pages { sink, dictionary: None, data: None, compressed: 0, uncompressed: 0 }
    }

    /// Compresses the buffer `body`, and appends it to the column as a page with values of `rows` rows.
    fn put_body(&mut self, rows: usize, encoding: Encoding, pages: &mut Pages) -> Result<()> {
        let page = Page::DataPage {
            buf: self.zstd.compress(&self.body)?.into(),
            num_values: u32::try_from(rows).unwrap_or(u32::MAX),
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        pages.put(page, self.body.len())
    }

    /// Encodes a column of shared values. `of` converts the key of a row to the id of the row's value.
    ///
    /// # Errors
    /// Returns an error if the column is too large.
    pub(super) fn words(
        &mut self,
        column: ColumnDescPtr,
        rows: &Rows,
        of: impl Fn(u32) -> ValueId,
        words: &SharedValues,
    ) -> Result<Chunk> {
        self.places.resize(words.count(), NOT_IN_DICTIONARY);
        self.of_keys.resize(self.of_keys.len().max(rows.limit()), NOT_IN_DICTIONARY);
        self.dictionary.clear();
        let mut lacks = false;
        for key in &rows.distinct {
            let word = of(*key);
            lacks |= word == NONE;
            let place = &mut self.places[word as usize];
            if word != NONE && *place == NOT_IN_DICTIONARY {
                *place = u32::try_from(self.dictionary.len()).unwrap_or(NOT_IN_DICTIONARY);
                self.dictionary.push(word);
            }
            self.of_keys[*key as usize] = *place;
        }
        let is_constant = self.dictionary.is_empty() || (self.dictionary.len() == 1 && !lacks);
        self.numbers.clear();
        self.small.clear();
        self.there.clear();
        if !is_constant && self.dictionary.len() <= usize::from(u8::MAX) {
            let is_there = |place| place != NOT_IN_DICTIONARY as u8;
            self.small_of_keys.clear();
            self.small_of_keys.extend(self.of_keys[..rows.limit()].iter().map(|place| *place as u8));
            self.small.extend(rows.keys.iter().map(|key| self.small_of_keys[*key as usize]));
            if lacks {
                self.there.extend(&self.small, is_there);
                self.small.retain(|place| is_there(*place));
            }
        } else if !is_constant {
            self.numbers.extend(rows.keys.iter().map(|key| self.of_keys[*key as usize]));
            if lacks {
                self.there.extend(&self.numbers, |place| place != NOT_IN_DICTIONARY);
                self.numbers.retain(|place| *place != NOT_IN_DICTIONARY);
            }
        }
        let mut pages = Encoder::pages();
        let encoding = if self.dictionary.is_empty() { Encoding::PLAIN } else { Encoding::RLE_DICTIONARY };
        if !self.dictionary.is_empty() {
            self.body.clear();
            for word in &self.dictionary {
                self.body.extend_from_slice(words.bytes(*word));
                self.places[*word as usize] = NOT_IN_DICTIONARY;
            }
            let page = Page::DictionaryPage {
                buf: self.zstd.compress(&self.body)?.into(),
                num_values: u32::try_from(self.dictionary.len()).unwrap_or(u32::MAX),
                encoding: Encoding::PLAIN,
                is_sorted: false,
            };
            pages.put(page, self.body.len())?;
        }
        self.body.clear();
        let count = rows.keys.len();
        if column.max_def_level() > 0 {
            let there = u32::from(!self.dictionary.is_empty());
            put_levels(&mut self.body, |out| match self.there.count() {
                0 => put_run(there, count, 1, out),
                _ => self.there.put(out),
            });
        }
        if !self.dictionary.is_empty() {
            let width = bits(self.dictionary.len() - 1);
            self.body.push(width);
            match (&self.small[..], &self.numbers[..]) {
                ([], []) => put_run(0, count, width, &mut self.body),
                ([], numbers) => put_hybrid(numbers, width, &mut self.body),
                (small, _) => put_hybrid_of_bytes(small, width, &mut self.body),
            }
        }
        self.put_body(count, encoding, &mut pages)?;
        let without = match (self.there.count(), self.dictionary.is_empty()) {
            (0, true) => count,
            (0, false) => 0,
            _ => count - self.small.len().max(self.numbers.len()),
        };
        let statistics = self.statistics(column.physical_type(), words, without as u64);
        pages.finish(column, count, vec![Encoding::PLAIN, Encoding::RLE, encoding], statistics)
    }
}

impl Encoder {
    /// Returns the statistics of a column, by which readers skip row groups: the smallest and the largest value in the
    /// dictionary, and the number of rows without a value. Returns `None` if a text is too long for statistics.
    fn statistics(&self, of: Physical, words: &SharedValues, without: u64) -> Option<Statistics> {
        let values = || self.dictionary.iter().map(|word| words.bytes(*word));
        if of == Physical::INT64 {
            let (least, largest) = values()
                .filter_map(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?)))
                .minmax()
                .into_option()
                .unzip();
            return Some(Statistics::int64(least, largest, None, Some(without), false));
        }
        // The bytes of a text begin with its length.
        let texts = || values().filter_map(|bytes| bytes.get(size_of::<u32>()..));
        if texts().any(|text| text.len() > LONGEST_LIMIT) {
            return None;
        }
        let (least, largest) = texts()
            .minmax()
            .into_option()
            .map(|(least, largest)| (least.to_vec().into(), largest.to_vec().into()))
            .unzip();
        Some(Statistics::byte_array(least, largest, None, Some(without), false))
    }
}

/// Appends the bytes that `put` appends, after their length. `put` must append the definition levels of all rows, which
/// say whether a row has a value.
fn put_levels(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}
