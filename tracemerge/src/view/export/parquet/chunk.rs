//! The columns of a row group that are encoded here, from what the rows keep of them: values that rows share by a dictionary and
//! their numbers in it, and texts as they are. The crate would look at each value of each row for that.
//!
//! The encodings are those of <https://parquet.apache.org/docs/file-format/data-pages/encodings/>: PLAIN, RLE_DICTIONARY, and
//! the hybrid of runs and packed bits.

use std::ops::Range;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::words::{NONE, WordId, Words, put_text};

/// How columns are compressed: as zstd does it fastest.
pub const LEVEL: i32 = 1;
/// The number of bytes of texts from which on a page ends, for readers that want a part of a column.
const PAGE: usize = 1 << 20;
/// The length of a run from which on it is told as one. Packed values stand in groups of so many.
const GROUP: usize = 8;

/// A column of a row group, as it stands in the file.
pub struct Chunk {
    /// The pages.
    pub bytes: Bytes,
    /// What the file tells of them.
    pub close: ColumnCloseResult,
}

/// Texts of a column that are not written yet.
#[derive(Debug, Default)]
pub struct Texts {
    /// The texts as a page has them.
    bytes: Vec<u8>,
    /// For each row whether it has a text (1) or not (0).
    there: Vec<u32>,
    /// Where pages end: in the bytes and in the rows.
    ends: Vec<(usize, usize)>,
}

impl Texts {
    /// Adds a row; returns how much memory it takes, in bytes.
    #[inline]
    pub fn add(&mut self, text: Option<&str>) -> usize {
        self.there.push(u32::from(text.is_some()));
        let Some(text) = text else { return 4 };
        put_text(text, &mut self.bytes);
        let begin = self.ends.last().map_or(0, |end| end.0);
        if self.bytes.len() - begin >= PAGE {
            self.ends.push((self.bytes.len(), self.there.len()));
        }
        8 + text.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.there.clear();
        self.ends.clear();
    }
}

/// What rows have by which several columns are known: a number for each row.
#[derive(Debug, Default)]
pub struct Rows {
    keys: Vec<u32>,
    /// The numbers that there are, each once, and which are among them.
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

    /// Returns a number that is above all that there are.
    fn limit(&self) -> usize {
        self.is_there.len()
    }

    /// Takes all rows away.
    pub fn clear(&mut self) {
        self.keys.clear();
        for key in self.distinct.drain(..) {
            self.is_there[key as usize] = false;
        }
    }
}

/// Encodes columns.
pub struct Encoder {
    zstd: Compressor<'static>,
    /// The number in the dictionary of each word, in a column. Buffers, as all of these are.
    places: Vec<u32>,
    /// The same by what rows have.
    of_keys: Vec<u32>,
    dictionary: Vec<WordId>,
    numbers: Vec<u32>,
    there: Vec<u32>,
    body: Vec<u8>,
}

/// The place of a word that is not in the dictionary.
const NOWHERE: u32 = u32::MAX;

/// The pages of a column, which are being written.
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

    fn finish(self, column: ColumnDescPtr, rows: usize, encodings: Vec<Encoding>) -> Result<Chunk> {
        let size = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let metadata = ColumnChunkMetaData::builder(column)
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
    /// Makes an encoder.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new() -> Result<Encoder> {
        let (places, of_keys, dictionary) = Default::default();
        let (numbers, there, body) = Default::default();
        Ok(Encoder { zstd: Compressor::new(LEVEL)?, places, of_keys, dictionary, numbers, there, body })
    }

    fn pages() -> Pages {
        let sink = TrackedWrite::new(Vec::new());
        Pages { sink, dictionary: None, data: None, compressed: 0, uncompressed: 0 }
    }

    /// Puts what stands in the body as a page of rows.
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

    /// Encodes a column of values that rows share: `of` returns the word for what a row has.
    ///
    /// # Errors
    /// It is too large.
    pub fn words(
        &mut self,
        column: ColumnDescPtr,
        rows: &Rows,
        of: impl Fn(u32) -> WordId,
        words: &Words,
    ) -> Result<Chunk> {
        self.places.resize(words.count(), NOWHERE);
        self.of_keys.resize(self.of_keys.len().max(rows.limit()), NOWHERE);
        self.dictionary.clear();
        let mut lacks = false;
        for key in &rows.distinct {
            let word = of(*key);
            lacks |= word == NONE;
            let place = &mut self.places[word as usize];
            if word != NONE && *place == NOWHERE {
                *place = u32::try_from(self.dictionary.len()).unwrap_or(NOWHERE);
                self.dictionary.push(word);
            }
            self.of_keys[*key as usize] = *place;
        }
        let is_constant = self.dictionary.is_empty() || (self.dictionary.len() == 1 && !lacks);
        self.numbers.clear();
        self.there.clear();
        if !is_constant {
            let places = rows.keys.iter().map(|key| self.of_keys[*key as usize]);
            if lacks {
                self.there.extend(places.clone().map(|place| u32::from(place != NOWHERE)));
                self.numbers.extend(places.filter(|place| *place != NOWHERE));
            } else {
                self.numbers.extend(places);
            }
        }
        let mut pages = Encoder::pages();
        let encoding = if self.dictionary.is_empty() { Encoding::PLAIN } else { Encoding::RLE_DICTIONARY };
        if !self.dictionary.is_empty() {
            self.body.clear();
            for word in &self.dictionary {
                self.body.extend_from_slice(words.bytes(*word));
                self.places[*word as usize] = NOWHERE;
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
            put_levels(&mut self.body, |out| match &self.there[..] {
                [] => put_run(there, count, 1, out),
                there => put_hybrid(there, 1, out),
            });
        }
        if !self.dictionary.is_empty() {
            let width = bits(self.dictionary.len() - 1);
            self.body.push(width);
            match &self.numbers[..] {
                [] => put_run(0, count, width, &mut self.body),
                numbers => put_hybrid(numbers, width, &mut self.body),
            }
        }
        self.put_body(count, encoding, &mut pages)?;
        pages.finish(column, count, vec![Encoding::PLAIN, Encoding::RLE, encoding])
    }

    /// Encodes a column of texts, of which none is left.
    ///
    /// # Errors
    /// It is too large.
    pub fn texts(&mut self, column: ColumnDescPtr, texts: &mut Texts) -> Result<Chunk> {
        let all = (texts.bytes.len(), texts.there.len());
        if texts.ends.last() != Some(&all) {
            texts.ends.push(all);
        }
        let mut pages = Encoder::pages();
        let mut begin = (0, 0);
        for end in &texts.ends {
            let (bytes, rows): (Range<usize>, _) = (begin.0..end.0, begin.1..end.1);
            self.body.clear();
            if column.max_def_level() > 0 {
                put_levels(&mut self.body, |out| put_hybrid(&texts.there[rows.clone()], 1, out));
            }
            self.body.extend_from_slice(&texts.bytes[bytes]);
            self.put_body(rows.len(), Encoding::PLAIN, &mut pages)?;
            begin = *end;
        }
        texts.clear();
        pages.finish(column, all.1, vec![Encoding::PLAIN, Encoding::RLE])
    }
}

/// Returns the number of bits that numbers up to the largest one have, one at least.
fn bits(largest: usize) -> u8 {
    (usize::BITS - largest.leading_zeros()).max(1) as u8
}

/// Appends what `put` appends, which is for each row whether it has a value, with the length in front.
fn put_levels(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out);
    let length = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends numbers of so many bits: runs of one number, and groups of packed ones.
fn put_hybrid(numbers: &[u32], width: u8, out: &mut Vec<u8>) {
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|number| *number == first).count();
        if run >= GROUP || run == rest.len() {
            put_run(*first, run, width, out);
            rest = &rest[run..];
            continue;
        }
        let is_run = |group: &[u32]| group.iter().all(|number| *number == group[0]);
        // The first group is none. Only the last one of all may be short.
        let groups = rest.chunks(GROUP).take_while(|group| !is_run(group)).count();
        let packed = &rest[..rest.len().min(groups * GROUP)];
        put_length((groups as u64) << 1 | 1, out);
        packed.chunks(GROUP).for_each(|group| put_packed(group, width, out));
        rest = &rest[packed.len()..];
    }
}

/// Appends a number of so many bits that stands there `count` times.
fn put_run(number: u32, count: usize, width: u8, out: &mut Vec<u8>) {
    put_length((count as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..usize::from(width.div_ceil(8))]);
}

/// Appends a group of numbers, the lowest bits first; numbers that it lacks are 0.
#[inline]
fn put_packed(group: &[u32], width: u8, out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0u64, 0);
    for at in 0..GROUP {
        word |= u64::from(group.get(at).copied().unwrap_or(0)) << filled;
        filled += u32::from(width);
        while filled >= 32 {
            out.extend_from_slice(&word.to_le_bytes()[..4]);
            word >>= 32;
            filled -= 32;
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Appends a number in seven bits a byte, the lowest first.
fn put_length(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads numbers as the specification says, one after the other.
    fn read(mut bytes: &[u8], width: u8, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let (mut length, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                length |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (runs, size) = (length >> 1, usize::from(width.div_ceil(8)));
            if length & 1 == 0 {
                let number = (0..size).fold(0, |number, at| number | u32::from(bytes[at]) << (8 * at));
                numbers.extend((0..runs).map(|_| number));
                bytes = &bytes[size..];
            } else {
                let bit = |at: usize| u32::from(bytes[at / 8] >> (at % 8) & 1);
                for at in 0..runs as usize * GROUP {
                    let number = (0..usize::from(width))
                        .fold(0, |number, place| number | bit(at * usize::from(width) + place) << place);
                    numbers.push(number);
                }
                bytes = &bytes[runs as usize * usize::from(width)..];
            }
        }
        assert!(bytes.is_empty());
        assert!(numbers[count..].iter().all(|number| *number == 0), "what fills the last group is 0");
        numbers.truncate(count);
        numbers
    }

    #[test]
    fn numbers_are_read_as_the_specification_says() {
        // Numbers of any width, in runs of all lengths, one behind the other.
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) % below
        };
        for width in 1..=20u8 {
            for _ in 0..50 {
                let mut numbers = Vec::new();
                for _ in 0..random(12) {
                    let (number, run) = (random(1 << width) as u32, 1 + random(20));
                    numbers.extend((0..run).map(|_| number));
                    numbers.extend((0..random(30)).map(|_| random(1 << width) as u32));
                }
                let mut bytes = Vec::new();
                put_hybrid(&numbers, width, &mut bytes);
                assert_eq!(read(&bytes, width, numbers.len()), numbers, "{width} bits");
            }
        }
    }
}
