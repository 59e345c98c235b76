//! The position of a merge in one sorted range. It advances line by line; each line is looked at once, and neighbouring
//! lines are passed on together.

use std::ops::Range;

use trace_format::line::{Key as LineKey, Line};

use crate::file::damage::write_damaged;
use crate::file::lines::{LineAt, Token, line_at, skip_bad, strip_line_feed};
use crate::file::records::Records;
use crate::input::findings::Findings;
use crate::input::source::Source;
use crate::merge::Stop;
use crate::merge::loser_tree::TreeKey;
use crate::output::sink::Sink;

/// A position in a sorted range: at a line that was found and is not passed on yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineCursor<'a> {
    /// The index of the cursor's source among all sources.
    pub source: u32,
    /// The bytes of the source up to the end of the range.
    pub bytes: &'a [u8],
    /// The offset up to which all bytes are passed on already. It is less than the offset of `line` only if the range
    /// begins with bytes that are not a line.
    pub done: usize,
    /// The line and the offset at which it begins; `None` at the end of the range.
    pub line: Option<(usize, LineAt)>,
}

/// The parameters of [`LineCursor::run`]: the bytes that the cursor reads, and the sink and the findings to which it
/// adds.
#[derive(Debug)]
pub(super) struct Pass<'a, S> {
    /// The bytes that the cursor reads.
    pub bytes: &'a [u8],
    /// The source of the bytes.
    pub source: &'a Source,
    /// The index of the source among all sources.
    pub number: usize,
    /// The sink that takes the lines that the cursor passes on.
    pub out: &'a mut S,
    /// The findings of the merge so far, such as counts and damage, to which the cursor adds.
    pub findings: &'a mut Findings,
}

impl<'a> LineCursor<'a> {
    /// Makes a cursor at the first line of `bytes` whose offset is `start` or more.
    #[must_use]
    pub(super) fn new(
        bytes: &'a [u8],
        start: usize,
        source: usize,
        findings: &mut Findings,
    ) -> LineCursor<'a> {
        let at = skip_bad(bytes, start);
        let line = match line_at(bytes, at) {
            Token::Line(line) => Some((at, line)),
            Token::Bad | Token::End => None,
        };
        if line.is_none() && start < bytes.len() {
            // The file has changed since the last look at it; no line's key places these bytes.
            findings.damaged(source, start, bytes.len() - start);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each source is a mapping or a box: there are fewer than 2^32"
        )]
        let source = source as u32;
        LineCursor { source, bytes, done: start, line }
    }

    /// Returns the key by which the merge orders the cursor's line; [`TreeKey::EXHAUSTED`] if no line is left. `rank`
    /// is the rank of the cursor's sorted range.
    #[inline]
    #[must_use]
    pub(super) fn key(&self, rank: usize) -> TreeKey {
        self.line.map_or(TreeKey::EXHAUSTED, |(_, line)| TreeKey::new(line.ticks, rank))
    }

    /// Passes on the cursor's line and all lines after it whose keys are not greater than `limit`.
    ///
    /// # Errors
    /// See [`Stop`].
    #[inline]
    pub(super) fn run<S: Sink>(
        &mut self,
        pass: &mut Pass<'_, S>,
        rank: usize,
        limit: TreeKey,
    ) -> Result<(), Stop> {
        let Some((mut at, mut line)) = self.line else { return Ok(()) };
        if self.done < at {
            self.put_damaged(pass, self.done, at, at)?;
            self.done = at;
        }
        loop {
            pass.findings.lines += 1;
            if line.meta {
                note_metadata(pass.number, &pass.bytes[at..line.end], pass.findings);
            }
            let mut next_at = line.end;
            let mut next = line_at(pass.bytes, next_at);
            if next == Token::Bad {
                pass.write_lines(self.done, next_at)?;
                let end = skip_bad(pass.bytes, next_at);
                self.put_damaged(pass, next_at, end, at)?;
                (self.done, next_at) = (end, end);
                next = line_at(pass.bytes, end);
            }
            let Token::Line(next) = next else { return self.finish(pass, at) };
            if next.ticks < line.ticks {
                return Err(Stop::Backward { path: pass.source.path.clone() });
            }
            (at, line) = (next_at, next);
            if TreeKey::new(line.ticks, rank) > limit {
                pass.write_lines(self.done, at)?;
                (self.done, self.line) = (at, Some((at, line)));
                return Ok(());
            }
        }
    }

    /// Passes on the bytes of the range that are not passed on yet, after the range's last line, at the offset `at`,
    /// was found. The cursor has no line afterwards.
    #[cold]
    fn finish<S: Sink>(&mut self, pass: &mut Pass<'_, S>, at: usize) -> Result<(), Stop> {
        if self.done < self.bytes.len() {
            pass.write_lines(self.done, self.bytes.len())?;
            if pass.bytes.last() != Some(&b'\n') {
                pass.findings.torn(self.source as usize, at);
            }
        }
        self.line = None;
        Ok(())
    }

    /// Passes on a `# damaged` line about the bytes from `start` to `end`. The `# damaged` line gets the key of the
    /// line at the offset `line`.
    #[cold]
    fn put_damaged<S: Sink>(
        &self,
        pass: &mut Pass<'_, S>,
        start: usize,
        end: usize,
        line: usize,
    ) -> Result<(), Stop> {
        let key = key_at(pass.bytes, line);
        let mut text = Vec::new();
        write_damaged(key, &pass.source.path, start, &pass.bytes[start..end], &mut text);
        pass.out.lines(pass.number, &text)?;
        pass.findings.lines += 1;
        pass.findings.damaged(self.source as usize, start, end - start);
        Ok(())
    }
}

impl<S: Sink> Pass<'_, S> {
    /// Passes on the whole lines from `start` to `end`. Adds a line feed if the last line lacks it.
    #[inline]
    fn write_lines(&mut self, start: usize, end: usize) -> Result<(), Stop> {
        let lines = &self.bytes[start..end];
        if lines.last().is_some_and(|&b| b != b'\n') {
            return self.write_unended(lines);
        }
        Ok(self.out.lines(self.number, lines)?)
    }

    /// Passes on lines, the last of which ends at a NUL or at the end of its file, and adds the missing line feed.
    #[cold]
    fn write_unended(&mut self, lines: &[u8]) -> Result<(), Stop> {
        // Both in one call, because the line may continue the line before it.
        Ok(self.out.lines(self.number, &[lines, b"\n"].concat())?)
    }
}

/// A position in a list of records, decoded from a part of one source and sorted by ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordCursor<'a> {
    /// The records in which the cursor moves.
    pub records: &'a Records,
    /// The number of records that were passed on already, which is the index of the cursor's record.
    pub at: usize,
}

impl RecordCursor<'_> {
    /// Returns the key by which the merge orders the cursor's record; `TreeKey::EXHAUSTED` if no record is left. `rank`
    /// is the rank of the sorted range that has the records.
    #[inline]
    #[must_use]
    pub(super) fn key(&self, rank: usize) -> TreeKey {
        if self.at == self.records.len() {
            return TreeKey::EXHAUSTED;
        }
        TreeKey::new(self.records.ticks(self.at), rank)
    }

    /// Passes on the cursor's record and all records after it whose keys are not greater than `limit`.
    ///
    /// # Errors
    /// See [`Stop`].
    #[inline]
    pub(super) fn run<S: Sink>(
        &mut self,
        rank: usize,
        limit: TreeKey,
        out: &mut S,
        findings: &mut Findings,
    ) -> Result<(), Stop> {
        let start = self.at;
        self.at += 1;
        while self.key(rank) <= limit && self.at < self.records.len() {
            self.at += 1;
        }
        note_records(self.records, start..self.at, findings);
        Ok(out.records(self.records, start..self.at)?)
    }
}

/// Adds the records in `range` to the findings: the number of their lines, and the contents of `#` lines.
#[inline]
pub(crate) fn note_records(records: &Records, range: Range<usize>, findings: &mut Findings) {
    for at in range {
        match records.meta(at) {
            None => findings.lines += records.lines(at),
            Some((source, payload)) => {
                findings.lines += 1;
                findings.metadata(source, payload);
            }
        }
    }
}

/// Returns the key of the line at the offset `at`, which must be the beginning of a line.
pub(super) fn key_at(bytes: &[u8], at: usize) -> LineKey {
    let Token::Line(line) = line_at(bytes, at) else { return LineKey::default() };
    Line::parse(strip_line_feed(&bytes[at..line.end])).map_or_else(|_| LineKey::default(), |line| line.key)
}

/// Adds the contents of a `#` line of the source with the index `source` to the findings.
#[cold]
pub(super) fn note_metadata(source: usize, line: &[u8], findings: &mut Findings) {
    if let Ok(line) = Line::parse(strip_line_feed(line)) {
        findings.metadata(source, line.payload);
    }
}
