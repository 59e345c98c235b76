//! The site table: the static places in the program that make records, by number.
//!
//! A record contains only its site's number, and the meaning of the number must be readable after the process has
//! ended. So the table is a file of the run's directory, append-only:
//!
//! ```text
//! header  magic "TRCSITE\n", version u32, 4 bytes of zero, used u64
//! entry   length u32 (of the whole entry, a multiple of 8), id u32, line u32, column u32,
//!         then module, file, format, descriptor, each a text;
//!         then kind u8, level u8, shared u8 (1 if an earlier site has the same function, file and line),
//!         a byte of zero, target, function, template, each a text,
//!         and the names of the values: count u32, that many texts;
//!         zeros up to the length
//! text    length u32, bytes
//! ```
//!
//! All numbers are little-endian. `used` is the number of valid bytes, header included; the writer publishes it
//! after it has written the entry. Site 0 is free text and has no entry. If two entries have the same number, the
//! later one counts.
//!
//! An entry may end after its descriptor, as those of earlier versions do: then fewer than eight bytes are
//! left. A reader skips the bytes after the last field that it knows.

use core::fmt;

/// The first eight bytes of a site table.
pub const MAGIC: [u8; 8] = *b"TRCSITE\n";
/// The version of the layout of a site table.
pub const LAYOUT_VERSION: u32 = 2;
/// The number of bytes of a site table before its first entry.
pub const HEADER_BYTES: usize = 24;
/// The position of `used` in the header of a site table, in bytes.
pub const USED_OFFSET: usize = 16;

/// The kind of records that a site makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SiteKind {
    /// The records are messages.
    #[default]
    Message = 0,
    /// The records are calls of a function, entered and left.
    Function = 1,
    /// The records are spans, entered and left, perhaps more than once and on several threads.
    Span = 2,
}

/// The importance that the program gives to a site's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The program does not state the importance.
    #[default]
    None = 0,
    /// The records are errors.
    Error = 1,
    /// The records are warnings.
    Warn = 2,
    /// The records are information.
    Info = 3,
    /// The records are for debugging.
    Debug = 4,
    /// The records are details.
    Trace = 5,
}

impl SiteKind {
    fn of(byte: u8) -> SiteKind {
        match byte {
            1 => SiteKind::Function,
            2 => SiteKind::Span,
            _ => SiteKind::Message,
        }
    }
}

impl Level {
    /// Returns the level with this number; [`Level::None`] if there is none.
    #[must_use]
    pub fn of(byte: u8) -> Level {
        match byte {
            1 => Level::Error,
            2 => Level::Warn,
            3 => Level::Info,
            4 => Level::Debug,
            5 => Level::Trace,
            _ => Level::None,
        }
    }
}

/// One static place in the program that makes records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Site {
    /// The number of the site, from 1.
    pub id: u32,
    /// The line in the source file, from 1.
    pub line: u32,
    /// The column in the line, from 1.
    pub column: u32,
    /// The path of the module that contains the site, `my::module`.
    pub module: String,
    /// The source file's path.
    pub file: String,
    /// The format string that turns captured values into text. It names values by their numbers. It is empty
    /// if values are not captured.
    pub format: String,
    /// The types of the captured values; see [`crate::capture::descriptor`].
    pub descriptor: Vec<u8>,
    /// The kind of records that the site makes.
    pub kind: SiteKind,
    /// The level of the site's records.
    pub level: Level,
    /// Whether an earlier site of the run is in the same line of the same function. Then only their numbers distinguish
    /// the two sites.
    pub shares_line: bool,
    /// The name by which filters select records, if the program gives one; otherwise empty, and filters use the
    /// module.
    pub target: String,
    /// The path of the function that contains the site; empty if it is not known.
    pub function: String,
    /// The format string as it stands in the program; empty if it is not known.
    pub template: String,
    /// The names of the captured values, in their order. A name is empty if the value has none.
    pub names: Vec<String>,
}

/// Returns the header of a site table with `used` valid bytes.
#[must_use]
pub fn header(used: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&LAYOUT_VERSION.to_le_bytes());
    out[USED_OFFSET..].copy_from_slice(&used.to_le_bytes());
    out
}

impl Site {
    /// Appends the site's entry in a site table. No text is longer than 4 GiB: texts are literals of a program.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for number in [0, self.id, self.line, self.column] {
            put_number(out, number);
        }
        for text in [self.module.as_bytes(), self.file.as_bytes(), self.format.as_bytes(), &self.descriptor] {
            put_text(out, text);
        }
        out.extend_from_slice(&[self.kind as u8, self.level as u8, self.shares_line.into(), 0]);
        for text in [&self.target, &self.function, &self.template] {
            put_text(out, text.as_bytes());
        }
        put_number(out, self.names.len() as u32);
        for name in &self.names {
            put_text(out, name.as_bytes());
        }
        out.resize(start + (out.len() - start).next_multiple_of(8), 0);
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads one entry of a site table; `None` if the bytes are not an entry.
    #[must_use]
    pub fn parse(entry: &[u8]) -> Option<Site> {
        let mut rest = EntryBytes(entry.get(4..)?);
        let (id, line, column) = (rest.number()?, rest.number()?, rest.number()?);
        let (module, file, format) = (rest.text()?, rest.text()?, rest.text()?);
        let descriptor = rest.bytes()?.to_vec();
        let site = Site { id, line, column, module, file, format, descriptor, ..Site::default() };
        if rest.0.len() < EXTENDED_FROM {
            return Some(site);
        }
        let [kind, level, shared, _] = rest.number()?.to_le_bytes();
        let (target, function, template) = (rest.text()?, rest.text()?, rest.text()?);
        let mut names = Vec::new();
        for _ in 0..rest.number()? {
            names.push(rest.text()?);
        }
        Some(Site {
            kind: SiteKind::of(kind),
            level: Level::of(level),
            shares_line: shared == 1,
            target,
            function,
            template,
            names,
            ..site
        })
    }
}

/// The least number of bytes that follow the descriptor in an entry with further fields. If fewer bytes follow, the
/// entry ends with its descriptor, and the bytes are zeros that fill it.
const EXTENDED_FROM: usize = 8;

fn put_number(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len() as u32);
    out.extend_from_slice(text);
}

/// The bytes of a site's entry that were not read yet.
struct EntryBytes<'a>(&'a [u8]);

impl<'a> EntryBytes<'a> {
    fn number(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

/// The reason why a file cannot be read as a site table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitesError {
    /// The table has a layout of this version, which is unknown.
    Version(u32),
    /// The file is not a site table.
    Damaged,
}

impl fmt::Display for SitesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SitesError::Version(version) => {
                write!(f, "site-table layout {version} is unknown; this program reads {LAYOUT_VERSION}")
            }
            SitesError::Damaged => f.write_str("it is not a site table"),
        }
    }
}

impl std::error::Error for SitesError {}

/// Reads the sites of a site table; stops at the first invalid entry.
///
/// # Errors
/// The bytes are not a table, or are a table of another layout.
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

    fn site() -> impl Strategy<Value = Site> {
        let numbers = any::<(u32, u32, u32, u8, u8)>();
        let texts = any::<[String; 6]>();
        (numbers, texts, any::<Vec<u8>>(), prop::collection::vec(any::<String>(), 0..4)).prop_map(
            |((id, line, column, kind, level), texts, descriptor, names)| {
                let [module, file, format, target, function, template] = texts;
                let (kind, level) = (SiteKind::of(kind % 4), Level::of(level % 8));
                Site {
                    id,
                    line,
                    column,
                    module,
                    file,
                    format,
                    descriptor,
                    kind,
                    level,
                    target,
                    function,
                    template,
                    names,
                    shares_line: id % 2 == 1,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_table_parses_back_and_a_truncated_one_gives_whole_sites(
            sites in prop::collection::vec(site(), 0..5), cut: usize
        ) {
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
        fn an_entry_that_ends_after_its_descriptor_has_no_names(site in site()) {
            let mut entry = Vec::new();
            for number in [0, site.id, site.line, site.column] {
                put_number(&mut entry, number);
            }
            for text in [site.module.as_bytes(), site.file.as_bytes(), site.format.as_bytes(), &site.descriptor] {
                put_text(&mut entry, text);
            }
            entry.resize(entry.len().next_multiple_of(8), 0);
            let Site { id, line, column, module, file, format, descriptor, .. } = site;
            let expected = Site { id, line, column, module, file, format, descriptor, ..Site::default() };
            prop_assert_eq!(Site::parse(&entry), Some(expected));
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes: Vec<u8>) {
            let _ = parse(&[&header(u64::MAX)[..], &bytes].concat());
        }
    }
}
