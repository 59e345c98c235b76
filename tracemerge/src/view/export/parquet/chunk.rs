//! The columns of a row group that this program encodes itself, from the data that the rows keep: shared
//! values by a dictionary and their numbers in it, integers by their differences, and texts unchanged. The
//! crate would examine each value of each row several times for that.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::deltas::{Integer, largest, least, put_deltas};
use super::hybrid::{Bits, bits, put_hybrid, put_hybrid_of_bytes, put_run};
use super::words::{NONE, SharedValues, ValueId, put_text};

/// The compression level of columns: the fastest level of zstd.
pub const LEVEL: i32 = 1;
/// The number of bytes of texts at which a page ends, for readers that need a part of a column.
const PAGE: usize = 1 << 20;

/// An encoded column of a row group.
pub struct Chunk {
    /// The pages.
    pub bytes: Bytes,
    /// The metadata of the pages in the file.
    pub close: ColumnCloseResult,
}

/// The texts of a column that are not written yet.
#[derive(Debug, Default)]
pub struct Texts {
    /// The texts in the form of a page.
    bytes: Vec<u8>,
    /// Whether each row of the last page has a text, and the offset of that page in the bytes.
    there: Bits,
    begin: usize,
    /// The earlier pages: their ends in the bytes, and whether each of their rows has a text.
    before: Vec<(usize, Bits)>,
}

impl Texts {
    /// Adds a row. Returns the number of bytes of memory that it takes.
    #[inline]
    pub fn add(&mut self, text: Option<&str>) -> usize {
        self.there.push(text.is_some());
        let Some(text) = text else { return 1 };
        put_text(text, &mut self.bytes);
        if self.bytes.len() - self.begin >= PAGE {
            self.end_page();
        }
        5 + text.len()
    }

    #[cold]
    fn end_page(&mut self) {
        self.begin = self.bytes.len();
        self.before.push((self.begin, std::mem::take(&mut self.there)));
    }
}

/// The keys of rows, from which the values of several columns follow: a number for each row.
#[derive(Debug, Default)]
pub struct Rows {
    keys: Vec<u32>,
    /// The distinct keys, each once, and whether each number is among them.
    distinct: Vec<u32>,
    is_there: Vec<bool>,
}

impl Rows {
    /// Adds a row.
    #[inline]
    pub fn add(&mut self, key: u32) {
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

    /// Returns a number above all keys.
    fn limit(&self) -> usize {
        self.is_there.len()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.keys.clear();
        for key in self.distinct.drain(..) {
            self.is_there[key as usize] = false;
        }
    }
}

/// An encoder of columns.
pub struct Encoder {
    zstd: Compressor<'static>,
    /// The number in the column's dictionary of each word. This and the following fields are buffers.
    places: Vec<u32>,
    /// The number in the dictionary for each key.
    of_keys: Vec<u32>,
    dictionary: Vec<ValueId>,
    numbers: Vec<u32>,
    /// The numbers as bytes, if the dictionary is small enough.
    small: Vec<u8>,
    small_of_keys: Vec<u8>,
    there: Bits,
    body: Vec<u8>,
}

/// The number for a word that is not in the dictionary. Its lowest byte is not a valid number either, if
/// bytes are used.
const NOT_IN_DICTIONARY: u32 = u32::MAX;

/// The pages of a column while they are written.
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
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(encodings)
            .set_num_values(size(rows))
            .set_total_compressed_size(size(self.compressed))
            .set_total_uncompressed_size(size(self.uncompressed))
            .set_dictionary_page_offset(self.dictionary)
            .set_data_page_offset(self.data.unwrap_or(0));
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let metadata = metadata.build()?;
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
    /// Makes an encoder.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn new() -> Result<Encoder> {
        let (places, of_keys, dictionary) = Default::default();
        let (numbers, small, small_of_keys, there, body) = Default::default();
        let zstd = Compressor::new(LEVEL)?;
        Ok(Encoder { zstd, places, of_keys, dictionary, numbers, small, small_of_keys, there, body })
    }

    fn pages() -> Pages {
        let sink = TrackedWrite::new(Vec::new());
        Pages { sink, dictionary: None, data: None, compressed: 0, uncompressed: 0 }
    }

    /// Compresses the body and writes it as a page of rows.
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

    /// Encodes a column of shared values. `of` returns the word for a key of a row.
    ///
    /// # Errors
    /// Returns an error if the column is too large.
    pub fn words(
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
        pages.finish(column, count, vec![Encoding::PLAIN, Encoding::RLE, encoding], None)
    }

    /// Encodes a column of texts, and removes the texts.
    ///
    /// # Errors
    /// Returns an error if the column is too large.
    pub fn texts(&mut self, column: ColumnDescPtr, texts: &mut Texts) -> Result<Chunk> {
        if texts.there.count() > 0 {
            texts.end_page();
        }
        let (mut pages, mut begin, mut rows) = (Encoder::pages(), 0, 0);
        for (end, there) in texts.before.drain(..) {
            self.body.clear();
            if column.max_def_level() > 0 {
                put_levels(&mut self.body, |out| there.put(out));
            }
            self.body.extend_from_slice(&texts.bytes[begin..end]);
            self.put_body(there.count(), Encoding::PLAIN, &mut pages)?;
            (begin, rows) = (end, rows + there.count());
        }
        texts.bytes.clear();
        texts.begin = 0;
        pages.finish(column, rows, vec![Encoding::PLAIN, Encoding::RLE], None)
    }

    /// Encodes a column of integers, and removes the integers. There must be at least one.
    ///
    /// # Errors
    /// Returns an error if the column is too large.
    pub fn integers<T: Integer>(&mut self, column: ColumnDescPtr, numbers: &mut Vec<T>) -> Result<Chunk> {
        let is_unsigned =
            matches!(column.logical_type_ref(), Some(LogicalType::Integer { is_signed: false, .. }));
        let ordered = |number: T| if is_unsigned { number.flip_sign_bit() } else { number };
        let all = || numbers.iter().map(|number| ordered(*number));
        let statistics = T::statistics([least(all()), largest(all())].map(|number| number.map(ordered)));
        let mut pages = Encoder::pages();
        self.body.clear();
        put_deltas(numbers, &mut self.body);
        let encoding = Encoding::DELTA_BINARY_PACKED;
        self.put_body(numbers.len(), encoding, &mut pages)?;
        let count = numbers.len();
        numbers.clear();
        pages.finish(column, count, vec![Encoding::RLE, encoding], Some(statistics))
    }
}

/// Calls `put`, which must append whether each row has a value. Writes the length before that.
fn put_levels(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}
