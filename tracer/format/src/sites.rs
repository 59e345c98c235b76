//! The site table: the static places in the program that make records, by number.
//!
//! A record holds only its site's number, and the meaning of the number must be readable when the process is
//! gone. So the table is a file of the run's directory, append-only:
//!
//! ```text
//! header  magic "TRCSITE\n", version u32, 4 bytes of zero, used u64
//! entry   length u32 (of the whole entry, a multiple of 8), id u32, line u32, column u32,
//!         then module, file, format, descriptor, each: length u32, bytes; zeros up to the length
//! ```
//!
//! All numbers are little-endian. `used` is the number of bytes that count, header included; it is published
//! after the entry is written. Site 0 is free text and has no entry.

use core::fmt;

/// The first eight bytes of the file.
pub const MAGIC: [u8; 8] = *b"TRCSITE\n";
/// The version of the table's layout.
pub const LAYOUT_VERSION: u32 = 2;
/// The number of bytes before the first entry.
pub const HEADER_BYTES: usize = 24;
/// The position of `used` in the header, in bytes.
pub const USED_OFFSET: usize = 16;

/// One static place in the program that makes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The number of the site, from 1.
    pub id: u32,
    /// The line in the source file, from 1.
    pub line: u32,
    /// The column in the line, from 1.
    pub column: u32,
    /// The module's path.
    pub module: String,
    /// The source file's path.
    pub file: String,
    /// The format string, or the function's name.
    pub format: String,
    /// The types of the site's arguments; see [`crate::capture::descriptor`].
    pub descriptor: Vec<u8>,
}

/// Returns the header of a table in which `used` bytes count.
#[must_use]
pub fn header(used: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&LAYOUT_VERSION.to_le_bytes());
    out[USED_OFFSET..].copy_from_slice(&used.to_le_bytes());
    out
}

impl Site {
    /// Appends the entry. Texts beyond 4 GiB do not occur: they are literals of a program.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let words = [0, self.id, self.line, self.column];
        out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        let texts = [&self.module, &self.file, &self.format].map(String::as_bytes);
        for text in texts.into_iter().chain([&self.descriptor[..]]) {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text);
        }
        out.resize(start + (out.len() - start).next_multiple_of(8), 0);
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads one entry; `None` where the bytes are none.
    #[must_use]
    pub fn parse(entry: &[u8]) -> Option<Site> {
        let mut rest = entry.get(4..)?;
        let mut number = || {
            let (word, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            Some(u32::from_le_bytes(*word))
        };
        let (id, line, column) = (number()?, number()?, number()?);
        let mut bytes = || {
            let (len, after) = rest.split_first_chunk::<4>()?;
            let (bytes, after) = after.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
            rest = after;
            Some(bytes.to_vec())
        };
        let mut text = || String::from_utf8(bytes()?).ok();
        let (module, file, format) = (text()?, text()?, text()?);
        Some(Site { id, line, column, module, file, format, descriptor: bytes()? })
    }
}

/// A reason why a file is no site table that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitesError {
    /// The table has a layout that is not known here, of this version.
    Version(u32),
    /// The file is no site table.
    Damaged,
}

impl fmt::Display for SitesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SitesError::Version(version) => {
                write!(f, "layout {version} of the site table is not known here, only {LAYOUT_VERSION}")
            }
            SitesError::Damaged => f.write_str("it is no site table"),
        }
    }
}

impl std::error::Error for SitesError {}

/// Reads the sites of a table; stops at the first entry that is impossible.
///
/// # Errors
/// The bytes are no table, or one of another layout.
pub fn parse(table: &[u8]) -> Result<Vec<Site>, SitesError> {
    let (head, _) = table.split_first_chunk::<HEADER_BYTES>().ok_or(SitesError::Damaged)?;
    let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if head[..8] != MAGIC {
        return Err(SitesError::Damaged);
    }
    if word(8) != LAYOUT_VERSION {
        return Err(SitesError::Version(word(8)));
    }
    let used = head[USED_OFFSET..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let used = usize::try_from(used).unwrap_or(usize::MAX).min(table.len());
    let mut rest = table.get(HEADER_BYTES..used).unwrap_or(&[]);
    let mut sites = Vec::new();
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((entry, after)) = rest.split_at_checked(length) else { break };
        let Some(site) = Site::parse(entry) else { break };
        sites.push(site);
        rest = after;
    }
    Ok(sites)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_parses_back_and_a_cut_one_gives_whole_sites(
            given in prop::collection::vec(any::<(u32, u32, u32, String, String, String, Vec<u8>)>(), 0..5), cut: usize
        ) {
            let sites: Vec<Site> = given.into_iter().map(|(id, line, column, module, file, format, descriptor)| {
                Site { id, line, column, module, file, format, descriptor }
            }).collect();
            let mut entries = Vec::new();
            for site in &sites {
                site.write(&mut entries);
            }
            let table = [&header((HEADER_BYTES + entries.len()) as u64)[..], &entries].concat();
            let read = parse(&table);
            prop_assert_eq!(read.as_ref(), Ok(&sites));
            let cut = HEADER_BYTES + cut % (entries.len() + 1);
            let fewer = parse(&table[..cut]).unwrap();
            prop_assert_eq!(&fewer[..], &sites[..fewer.len()]);
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = parse(&[&header(u64::MAX)[..], &bytes].concat());
        }
    }
}
