//! The headers of a Windows program or library (PE): the range of its code, and its build-id.
//!
//! The traced process reads the headers in its memory, and `tracemerge` reads them in the file; both get the same
//! build-id. Addresses are relative to the address at which the file is mapped, as in the format.

use std::ops::Range;

/// The number of bytes to read from the beginning of a program: they contain all headers, except in very odd files.
pub const HEADERS: usize = 4096;

/// The greatest number of entries of the debug directory that are read: linkers write a handful.
const MAX_DEBUG_ENTRIES: usize = 16;
/// The size in bytes of an entry of the debug directory.
const ENTRY: usize = 28;

/// The part of the headers of a PE file that the tracer uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The addresses from the first section with code to the end of the last one; empty if no section has code.
    pub code: Range<u32>,
    /// The addresses of the debug directory, which contains the build-id if there is one; empty if the file has no
    /// debug directory.
    debug: Range<u32>,
    /// Three values from the headers: the time when the linker made the file, the linker's checksum of the file, and
    /// the size of the mapped file in bytes.
    stamps: [u32; 3],
}

impl Headers {
    /// Reads the beginning of a file, or of its mapping; `None` if it is not a PE file, or is cut off.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Headers> {
        const PE32: u16 = 0x10b;
        const PE32_PLUS: u16 = 0x20b;
        if !bytes.starts_with(b"MZ") {
            return None;
        }
        let start = word(bytes, 0x3c)? as usize;
        if bytes.get(start..start.checked_add(4)?)? != b"PE\0\0" {
            return None;
        }
        let header = bytes.get(start + 4..)?;
        let sections = usize::from(half(header, 2)?);
        let optional = header.get(20..)?;
        // Both forms have the checksum at the same place; in PE32+, addresses take more room before the directories.
        let directories = match half(optional, 0)? {
            PE32 => 96,
            PE32_PLUS => 112,
            _ => return None,
        };
        let directory = |number: usize| {
            let is_there = (word(optional, directories - 4)? as usize) > number;
            let (at, size) =
                (word(optional, directories + 8 * number)?, word(optional, directories + 8 * number + 4)?);
            (is_there && size > 0).then(|| at..at.saturating_add(size))
        };
        let table = optional.get(usize::from(half(header, 16)?)..)?;
        Some(Headers {
            code: code_in(table, sections)?,
            debug: directory(6).unwrap_or_default(),
            stamps: [word(header, 4)?, word(optional, 64)?, word(optional, 56)?],
        })
    }

    /// Returns the build-id of the file. If the linker has written the id that debuggers compare, the build-id is that
    /// id (16 bytes of a GUID and 4 of its age). Otherwise it consists of the linker's time, its checksum of the file,
    /// and the size (12 bytes); it is empty if the linker has written neither time nor checksum. `read` reads the given
    /// number of bytes of the mapped file at an address.
    pub fn build_id(&self, mut read: impl FnMut(u32, usize) -> Option<Vec<u8>>) -> Vec<u8> {
        let entries = (self.debug.len() / ENTRY).min(MAX_DEBUG_ENTRIES);
        let directory = read(self.debug.start, entries * ENTRY).filter(|_| entries > 0).unwrap_or_default();
        let mut named = directory.chunks_exact(ENTRY).filter_map(code_view);
        if let Some(id) = named.find_map(|at| id_in(&read(at, 24)?)) {
            return id;
        }
        let [time, sum, _] = self.stamps;
        if time == 0 && sum == 0 {
            return Vec::new();
        }
        self.stamps.iter().flat_map(|stamp| stamp.to_le_bytes()).collect()
    }
}

/// Returns whether a build-id that [`Headers::build_id`] has returned is the id that the linker has written for
/// debuggers. That id stays the same if debug information is moved to another file.
#[must_use]
pub fn is_linkers_id(build_id: &[u8]) -> bool {
    build_id.len() == 20
}

/// Returns the addresses from the first section with code to the end of the last one. `table` is the section table, and
/// `sections` is the number of its entries.
fn code_in(table: &[u8], sections: usize) -> Option<Range<u32>> {
    const SECTION: usize = 40;
    const EXECUTABLE: u32 = 0x2000_0000;
    let mut code = 0..0;
    for section in table.get(..sections * SECTION)?.chunks_exact(SECTION) {
        let (size, start) = (word(section, 8)?, word(section, 12)?);
        if word(section, 36)? & EXECUTABLE != 0 && size > 0 {
            let end = start.saturating_add(size);
            code = if code.is_empty() { start..end } else { code.start.min(start)..code.end.max(end) };
        }
    }
    Some(code)
}

/// Returns the address of the build-id; `None` if this entry of the debug directory is for other data.
fn code_view(entry: &[u8]) -> Option<u32> {
    const CODE_VIEW: u32 = 2;
    (word(entry, 12)? == CODE_VIEW).then(|| word(entry, 20))?
}

fn id_in(code_view: &[u8]) -> Option<Vec<u8>> {
    Some(code_view.strip_prefix(b"RSDS")?.get(..20)?.to_vec())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with the given range of the debug directory and the given stamps.
    fn file(debug: Range<u32>, stamps: [u32; 3]) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"MZ");
        put(0x3c, &0x80u32.to_le_bytes());
        put(0x80, b"PE\0\0");
        put(0x86, &3u16.to_le_bytes());
        put(0x88, &stamps[0].to_le_bytes());
        put(0x94, &240u16.to_le_bytes());
        let optional = 0x98;
        put(optional, &0x20bu16.to_le_bytes());
        put(optional + 56, &stamps[2].to_le_bytes());
        put(optional + 64, &stamps[1].to_le_bytes());
        put(optional + 108, &16u32.to_le_bytes());
        put(optional + 112 + 48, &debug.start.to_le_bytes());
        put(optional + 112 + 52, &(debug.len() as u32).to_le_bytes());
        let sections =
            [(0x1000u32, 0x123u32, 0x6000_0020u32), (0x2000, 0x50, 0x4000_0040), (0x3000, 9, 0x2000_0000)];
        for (number, (start, size, rights)) in sections.into_iter().enumerate() {
            let at = optional + 240 + 40 * number;
            put(at + 8, &size.to_le_bytes());
            put(at + 12, &start.to_le_bytes());
            put(at + 36, &rights.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn code_extends_from_the_first_to_the_last_code_section() {
        let headers = Headers::parse(&file(0..0, [0; 3])).expect("headers");
        assert_eq!(headers.code, 0x1000..0x3009);
        assert!(headers.build_id(|_, _| None).is_empty());
    }

    #[test]
    fn the_id_is_the_linkers_or_else_timestamp_checksum_and_size() {
        let entry = |kind: u32, at: u32| {
            let mut entry = [0; ENTRY];
            entry[12..16].copy_from_slice(&kind.to_le_bytes());
            entry[20..24].copy_from_slice(&at.to_le_bytes());
            entry
        };
        let entries = [entry(13, 0x2500), entry(2, 0x2600), entry(2, 0x2700)].concat();
        let guid: Vec<u8> = (1..=20).collect();
        let read = |at: u32, bytes: usize| match at {
            0x2400 => entries.get(..bytes).map(<[u8]>::to_vec),
            0x2600 => Some(b"NB10 of an older linker!".to_vec()),
            0x2700 => Some([b"RSDS", &guid[..]].concat()),
            _ => None,
        };
        let headers = |debug| Headers::parse(&file(debug, [0x1122_3344, 5, 6])).expect("headers");
        assert_eq!(headers(0x2400..0x2454).build_id(read), guid);
        assert!(is_linkers_id(&guid));
        let stamps = [0x44, 0x33, 0x22, 0x11, 5, 0, 0, 0, 6, 0, 0, 0];
        for other in [0x2400..0x2438, 0x2400..0x2410, 0x9000..0x9054, 0..0] {
            let id = headers(other).build_id(read);
            assert!(id == stamps && !is_linkers_id(&id), "{id:x?}");
        }
    }

    #[test]
    fn truncated_and_damaged_headers_cause_no_panic() {
        let whole = file(0x2400..0x2454, [1, 2, 3]);
        assert_eq!(Headers::parse(b"\x7fELF"), None);
        for end in 0..0x98 + 240 + 3 * 40 {
            assert_eq!(Headers::parse(&whole[..end]), None, "{end}");
        }
        for at in (0..whole.len()).step_by(if cfg!(miri) { 41 } else { 1 }) {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Some(headers) = Headers::parse(&damaged) {
                    let _ = headers.build_id(|_, bytes| Some(vec![value; bytes]));
                }
            }
        }
    }
}
