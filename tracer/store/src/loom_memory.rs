//! The memory of a ring for the model checker Loom, which checks every access to the memory's words for races.
//!
//! This replaces `memory.rs` under `cfg(loom)`, with the same functions. A [`Memory`] is never made.
#![allow(unsafe_code, reason = "the functions that it stands in for are unsafe")]
#![allow(missing_docs, clippy::missing_safety_doc, reason = "what each does is said in `memory.rs`")]

use std::fs::File;
use std::io;
use std::ops::Range;

use loom::cell::UnsafeCell;
use trace_format::ring::{Geometry, Header, Progress};

pub const FIRST_BYTES: u64 = 16 * 1024;
pub const FIRST_NESTED_BYTES: u64 = 4096;
pub const MAX_STEP_BYTES: u64 = 64 * 1024;

pub fn may_begin_small(geometry: &Geometry) -> bool {
    FIRST_BYTES <= geometry.block && FIRST_NESTED_BYTES <= geometry.nested_block
}

/// A mapped ring, which is never made under the model checker.
#[derive(Debug)]
pub enum Memory {}

/// A copy of a ring's header, which is never made under the model checker.
#[derive(Debug)]
pub(crate) enum HeaderCopy {}

impl HeaderCopy {
    pub(crate) fn of(_file: &File, _size: u64) -> io::Result<Option<HeaderCopy>> {
        Err(io::Error::other("there are no mappings in a model"))
    }

    pub(crate) fn header(&self) -> &Header {
        match *self {}
    }
}

impl Memory {
    pub fn shared(_file: &File, _geometry: Geometry) -> io::Result<Memory> {
        Err(io::Error::other("there are no mappings in a model"))
    }

    pub(crate) fn populate(&self, _range: Range<u64>) {
        match *self {}
    }

    pub fn existing(_file: &File) -> io::Result<Option<Memory>> {
        Err(io::Error::other("there are no mappings in a model"))
    }

    pub fn open_read_only(_file: &File) -> io::Result<Option<Memory>> {
        Err(io::Error::other("there are no mappings in a model"))
    }

    pub fn publish(&self, _progress: &Progress) {
        match *self {}
    }

    pub(crate) fn write_header_back(&self) {
        match *self {}
    }

    pub(crate) fn is_copy(&self) -> bool {
        match *self {}
    }

    pub fn private(_geometry: Geometry) -> io::Result<Memory> {
        Err(io::Error::other("there are no mappings in a model"))
    }

    pub fn geometry(&self) -> Geometry {
        match *self {}
    }

    pub fn header(&self) -> &Header {
        match *self {}
    }

    pub fn overwrites(&self) -> bool {
        match *self {}
    }

    pub fn data(&self) -> Data {
        match *self {}
    }

    pub fn nested_data(&self) -> Data {
        match *self {}
    }

    pub fn copy(&self, _range: Range<u64>) -> Vec<u8> {
        match *self {}
    }

    pub fn copy_nested(&self, _range: Range<u64>) -> Vec<u8> {
        match *self {}
    }
}

/// The data of a ring, as words in which the model checker detects unsynchronized access.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    words: &'static [UnsafeCell<u64>],
}

impl Data {
    /// Allocates `capacity` bytes that are never freed.
    pub fn leak(capacity: usize) -> Data {
        let words: Vec<_> = (0..capacity / 8).map(|_| UnsafeCell::new(0)).collect();
        Data { words: Box::leak(words.into_boxed_slice()) }
    }

    pub fn capacity(self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn word(self, position: u64) -> &'static UnsafeCell<u64> {
        &self.words[(position % self.capacity()) as usize / 8]
    }

    pub unsafe fn write_word(self, position: u64, word: u64) {
        assert_eq!(position % 8, 0);
        // SAFETY: loom checks that no other thread has access.
        self.word(position).with_mut(|to| unsafe { *to = word.to_le() });
    }

    pub unsafe fn write_words<const N: usize>(self, position: u64, words: [u64; N]) {
        for (at, word) in (position..).step_by(8).zip(words) {
            // SAFETY: as above.
            unsafe { self.write_word(at, word) };
        }
    }

    pub unsafe fn write_bytes(self, position: u64, bytes: &[u8]) {
        for (at, byte) in (position..).zip(bytes) {
            // SAFETY: loom checks that no other thread has access; the index is below 8.
            self.word(at).with_mut(|to| unsafe { *to.cast::<u8>().add((at % 8) as usize) = *byte });
        }
    }

    pub unsafe fn write_short(self, position: u64, bytes: &[u8]) {
        // SAFETY: by the caller's promise.
        unsafe { self.write_bytes(position, bytes) };
    }

    pub unsafe fn own<'a>(self, position: u64, len: usize) -> &'a mut [u8] {
        unreachable!("captured arguments are not modelled: {position}, {len}")
    }

    pub unsafe fn read_back<const N: usize>(self, position: u64) -> [u8; N] {
        std::array::from_fn(|i| self.byte(position + i as u64))
    }

    fn byte(self, position: u64) -> u8 {
        // SAFETY: loom checks that no thread writes; the index is below 8.
        self.word(position).with(|from| unsafe { *from.cast::<u8>().add((position % 8) as usize) })
    }

    pub unsafe fn parts<'a>(self, range: Range<u64>) -> [&'a [u8]; 2] {
        let to_end = (self.capacity() - range.start % self.capacity()).min(range.end - range.start);
        let copy = |range: Range<u64>| range.map(|at| self.byte(at)).collect::<Vec<u8>>().leak();
        [copy(range.start..range.start + to_end), copy(range.start + to_end..range.end)]
    }
}
