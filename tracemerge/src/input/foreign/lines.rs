//! Reads the lines of a log. The byte order mark and the line ends are left out, and so are NUL bytes before a line:
//! these are there if a log was truncated while its writer continued at the old offset.

use std::io::{self, BufRead, Read};

/// The maximum length of a line in bytes. Longer lines are split.
const MAX_LOG_LINE: usize = if cfg!(test) { 300 } else { 1 << 20 };
/// The number of bytes at the beginning of a log by which its encoding is recognized.
const ENCODING_BYTES: usize = 64;
/// The maximum number of NUL bytes that are skipped if the log is not a regular file, and so may be endless.
const MOST_NULS: u64 = 64 << 20;

/// A line of a log, or a part of a line that is too long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LogLine {
    /// The text of the line, or of the part, without the line end.
    pub text: Vec<u8>,
    /// Whether this is a further part of a line that was split, and not its beginning.
    pub goes_on: bool,
}

/// The reader of a log's lines.
pub(super) struct LogLines<R> {
    input: R,
    is_whole: bool,
    /// The number of NUL bytes that may still be skipped.
    nuls: u64,
}

impl<R: BufRead> LogLines<R> {
    /// Makes a reader of the lines of `input`. Skips the byte order mark at the beginning, if there is one.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) fn new(input: R, is_regular: bool) -> io::Result<LogLines<io::Chain<io::Cursor<Vec<u8>>, R>>> {
        let (mut input, mut start) = (input, Vec::new());
        input.by_ref().take(ENCODING_BYTES as u64).read_to_end(&mut start)?;
        if let Some(encoding) = encoding(&start) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it is in {encoding}, and logs are read as UTF-8: convert it, for example by iconv"),
            ));
        }
        if start.starts_with("\u{feff}".as_bytes()) {
            start.drain(..3);
        }
        let nuls = if is_regular { u64::MAX } else { MOST_NULS };
        Ok(LogLines { input: io::Cursor::new(start).chain(input), is_whole: true, nuls })
    }

    /// Reads the next line into `line`. Returns whether there was one.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) fn next(&mut self, line: &mut LogLine) -> io::Result<bool> {
        loop {
            line.goes_on = !self.is_whole;
            line.text.clear();
            if self.is_whole {
                self.skip_nuls()?;
            }
            let most = MAX_LOG_LINE as u64;
            if self.input.by_ref().take(most).read_until(b'\n', &mut line.text)? == 0 {
                return Ok(false);
            }
            let is_split = !line.text.ends_with(b"\n") && line.text.len() == MAX_LOG_LINE;
            if is_split && line.text.ends_with(b"\r") && self.input.fill_buf()?.first() == Some(&b'\n') {
                self.input.consume(1);
                line.text.push(b'\n');
            }
            self.is_whole = line.text.ends_with(b"\n");
            if self.is_whole {
                line.text.pop();
            }
            if (self.is_whole || !is_split) && line.text.ends_with(b"\r") {
                line.text.pop();
            }
            // A line that was split directly before its end has no rest.
            if !line.goes_on || !line.text.is_empty() {
                return Ok(true);
            }
        }
    }

    fn skip_nuls(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.input.fill_buf()?;
            let most = usize::try_from(self.nuls).unwrap_or(usize::MAX);
            let nuls = bytes.iter().take(most).take_while(|b| **b == 0).count();
            if nuls == 0 {
                return Ok(());
            }
            self.input.consume(nuls);
            self.nuls -= nuls as u64;
        }
    }
}

/// Returns the name of the encoding of a text that begins with the bytes `start`, if each letter takes several bytes in
/// that encoding; `None` otherwise.
fn encoding(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, 0, 0, ..] => return Some("UTF-32, little-endian"),
        [0, 0, 0xfe, 0xff, ..] => return Some("UTF-32, big-endian"),
        [0xff, 0xfe, ..] => return Some("UTF-16, little-endian"),
        [0xfe, 0xff, ..] => return Some("UTF-16, big-endian"),
        _ => {}
    }
    // Without a mark, every other byte of text in English is NUL.
    let pairs: Vec<&[u8]> = start.chunks_exact(2).collect();
    let all = |nul: usize| pairs.len() >= 8 && pairs.iter().all(|two| two[nul] == 0 && two[1 - nul] != 0);
    if all(1) {
        Some("UTF-16, little-endian")
    } else if all(0) {
        Some("UTF-16, big-endian")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], is_regular: bool) -> io::Result<Vec<(String, bool)>> {
        let mut lines = LogLines::new(bytes, is_regular)?;
        let (mut line, mut all) = (LogLine::default(), Vec::new());
        while lines.next(&mut line)? {
            all.push((String::from_utf8_lossy(&line.text).into_owned(), line.goes_on));
        }
        Ok(all)
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        read(bytes, true).unwrap().into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn line_ends_and_byte_order_marks_are_no_part_of_a_line() {
        assert_eq!(texts(b"a\r\nb\n\r\n\nc\r"), ["a", "b", "", "", "c"]);
        assert_eq!(texts(b"\xef\xbb\xbfa\r\r\n\xef\xbb\xbfb"), ["a\r", "\u{feff}b"]);
        assert!(texts(b"").is_empty() && texts(b"\xef\xbb\xbf").is_empty());
    }

    #[test]
    fn nul_bytes_in_front_of_a_line_are_no_part_of_it() {
        let log = [&[0; 100][..], b"a\0b\0\n", &[0; 70_000], b"c\r\n\0\n\0\0"].concat();
        assert_eq!(texts(&log), ["a\0b\0", "c", ""]);
    }

    #[test]
    fn long_lines_are_split_and_lose_nothing() {
        for length in MAX_LOG_LINE - 2..=MAX_LOG_LINE + 2 {
            for end in ["\n", "\r\n", ""] {
                let log = format!("{}{end}{}", "x".repeat(length), if end.is_empty() { "" } else { "y\n" });
                let lines = read(log.as_bytes(), true).unwrap();
                let long: String = lines.iter().filter(|line| line.0 != "y").map(|line| &*line.0).collect();
                assert_eq!(long, "x".repeat(length), "{length} {end:?}");
                let parts = 1 + usize::from(length > MAX_LOG_LINE);
                let starts = lines.iter().filter(|line| !line.1).count();
                let expected = usize::from(!end.is_empty());
                assert_eq!((lines.len(), starts), (parts + expected, 1 + expected), "{length} {end:?}");
            }
        }
    }

    #[test]
    fn other_encodings_are_named() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let swapped = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for (bytes, name) in [
            (utf16("\u{feff}2026-11-21"), "UTF-16, little-endian"),
            (swapped("\u{feff}2026-11-21"), "UTF-16, big-endian"),
            (utf16("2026-11-21T14:43:52Z hello\r\n"), "UTF-16, little-endian"),
            (swapped("2026-11-21T14:43:52Z hello\r\n"), "UTF-16, big-endian"),
            (b"\xff\xfe\0\x002\0\0\0".to_vec(), "UTF-32, little-endian"),
        ] {
            let error = read(&bytes, true).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("iconv"), "{error}");
        }
    }

    #[test]
    fn an_endless_file_of_nul_bytes_has_a_first_line() {
        let mut lines = LogLines::new(io::BufReader::new(io::repeat(0)), false).unwrap();
        let mut line = LogLine::default();
        assert!(lines.next(&mut line).unwrap());
        assert_eq!(line.text.len(), MAX_LOG_LINE);
    }

    proptest! {
        #[test]
        fn all_bytes_are_in_the_lines(bytes in prop::collection::vec(prop_oneof![
            Just(b'\n'), Just(b'\r'), Just(0u8), Just(b'x'), any::<u8>()
        ], 0..2000)) {
            let Ok(lines) = read(&bytes, true) else { return Ok(()) };
            // Each line of the log, without NUL bytes in front, and without its end.
            let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
            let mut expected: Vec<Vec<u8>> = start.split(|b| *b == b'\n').map(|line| {
                let nuls = line.iter().take_while(|b| **b == 0).count();
                let line = &line[nuls..];
                line.strip_suffix(b"\r").unwrap_or(line).to_vec()
            }).collect();
            // Behind the last line feed there is no line if nothing but NUL bytes stands there.
            if start.rsplit(|b| *b == b'\n').next().is_none_or(|last| last.iter().all(|b| *b == 0)) {
                expected.pop();
            }
            let starts = lines.iter().filter(|(_, goes_on)| !goes_on).count();
            prop_assert_eq!(starts, expected.len());
            let joined: String = lines.iter().map(|(text, _)| &**text).collect();
            if bytes.is_ascii() {
                prop_assert_eq!(joined, String::from_utf8(expected.concat()).unwrap());
            }
        }
    }
}
