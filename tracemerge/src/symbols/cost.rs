//! The memory that debug information takes, counted before it is read. A few bytes of a file may stand for gigabytes
//! (a compressed section, a line table, ranges that many functions share). Debug information that does not fit into
//! the memory that is [left](Files::take) is not read.

use std::collections::{HashMap, HashSet};

use gimli::{
    AttributeValue, DebugAbbrevOffset, Dwarf, EndianSlice, LineProgramHeader, Reader, RunTimeEndian, Section,
    Unit, UnitHeader,
};

use crate::symbols::files::Files;

type Slice<'f> = EndianSlice<'f, RunTimeEndian>;

/// The number of bytes that are counted for each compilation unit; the constants below are the same for other items of
/// debug information. The numbers include the spare memory of a growing list.
const UNIT: u64 = 1024;
const ABBREVIATION: u64 = 256;
const ATTRIBUTE: u64 = 32;
const RANGE: u64 = 64;
const ROW: u64 = 64;
const FILE: u64 = 64;
const ENTRY: u64 = 128;

/// The compilation units of debug information. Each unit is read at the first lookup of an address in it.
#[derive(Debug)]
pub(super) struct Units<'f> {
    headers: Vec<UnitHeader<Slice<'f>>>,
    /// The ranges of code, in the order of their first addresses. Each has its first address, the address after its
    /// end, the greatest end of all ranges up to this one, and the index of its unit.
    code: Vec<(u64, u64, u64, usize)>,
    /// For each unit in which an address was looked up, by the unit's index: whether enough memory was left to read the
    /// unit.
    counted: HashMap<usize, bool>,
}

/// Reserves memory for the parts of debug information that are read when it is opened. Returns `None` if not enough
/// memory is left.
pub(super) fn count_opening<'f>(
    dwarf: &mut Dwarf<Slice<'f>>,
    files: &Files,
) -> gimli::Result<Option<Units<'f>>> {
    let Some(headers) = headers(dwarf, files)? else { return Ok(None) };
    let shared = dwarf.sup().map(|shared| headers_of_shared(shared, files)).transpose()?;
    let ranges = 2 * dwarf.debug_aranges.reader().len() as u64;
    if shared == Some(false) || !files.take(ranges) {
        return Ok(None);
    }
    dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
    let mut code = Vec::new();
    for (number, header) in headers.iter().enumerate() {
        // The reader leaves out a damaged unit, too.
        let Ok(unit) = dwarf.unit(*header) else { continue };
        let before = code.len();
        if let Ok(mut ranges) = dwarf.unit_ranges(&unit) {
            while let Ok(Some(range)) = ranges.next() {
                if !files.take(RANGE) {
                    return Ok(None);
                }
                code.push((range.begin, range.end, 0, number));
            }
        }
        // If a unit does not state its ranges, the reader takes them from the line table, which it reads at once.
        let fits = match (code.len() == before).then(|| lines(dwarf, &unit, files)) {
            None | Some(Err(_) | Ok(Some(0))) => true,
            Some(Ok(None)) => false,
            Some(Ok(Some(_))) => functions(dwarf, &unit, files).unwrap_or(true),
        };
        if !fits {
            return Ok(None);
        }
    }
    code.sort_unstable();
    let mut greatest = 0;
    for (_, end, up_to, _) in &mut code {
        greatest = greatest.max(*end);
        *up_to = greatest;
    }
    Ok(Some(Units { headers, code, counted: HashMap::new() }))
}

fn headers<'f>(dwarf: &Dwarf<Slice<'f>>, files: &Files) -> gimli::Result<Option<Vec<UnitHeader<Slice<'f>>>>> {
    let (mut units, mut tables, mut headers) = (dwarf.units(), HashSet::new(), Vec::new());
    while let Some(header) = units.next()? {
        let table = header.debug_abbrev_offset();
        if !files.take(UNIT) || tables.insert(table) && !abbreviations(dwarf, table, files)? {
            return Ok(None);
        }
        headers.push(header);
    }
    Ok(Some(headers))
}

fn headers_of_shared(shared: &Dwarf<Slice<'_>>, files: &Files) -> gimli::Result<bool> {
    Ok(headers(shared, files)?.is_some())
}

impl<'f> Units<'f> {
    /// Reserves memory for the units that may have code at an address, for each unit once. Returns false if not enough
    /// memory is left.
    pub(super) fn fit(&mut self, address: u64, dwarf: &Dwarf<Slice<'f>>, files: &Files) -> bool {
        let before = self.code.partition_point(|(begin, ..)| *begin <= address);
        let near = self.code[..before].iter().rev().take_while(|(_, _, up_to, _)| *up_to > address);
        let (headers, counted) = (&self.headers, &mut self.counted);
        near.filter(|(_, end, ..)| *end > address).all(|(.., number)| {
            *counted.entry(*number).or_insert_with(|| {
                // The reader leaves out damaged units, too.
                let unit = dwarf.unit(headers[*number]);
                unit.and_then(|unit| of_unit(dwarf, &unit, files)).unwrap_or(true)
            })
        })
    }
}

/// Reserves memory for a table of abbreviations, which describes the entries of debug information. Returns false if not
/// enough memory is left.
fn abbreviations(dwarf: &Dwarf<Slice<'_>>, at: DebugAbbrevOffset, files: &Files) -> gimli::Result<bool> {
    let mut table = *dwarf.debug_abbrev.reader();
    table.skip(at.0)?;
    while table.read_uleb128()? != 0 {
        table.read_uleb128()?;
        table.read_u8()?;
        if !files.take(ABBREVIATION) {
            return Ok(false);
        }
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                table.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
            if !files.take(ATTRIBUTE) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Reserves memory for the parts of a unit that are read to look up an address. Returns false if not enough memory is
/// left.
fn of_unit(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, files: &Files) -> gimli::Result<bool> {
    // If one of them is damaged, the other one may still be read.
    let lines = lines(dwarf, unit, files).unwrap_or(Some(0));
    Ok(lines.is_some() && functions(dwarf, unit, files)?)
}

/// Reserves memory for a unit's line table. Returns the number of the table's rows; `None` if not enough memory is
/// left.
fn lines(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, files: &Files) -> gimli::Result<Option<u64>> {
    let Some(program) = unit.line_program.clone() else { return Ok(Some(0)) };
    for file in program.header().file_names() {
        if !files.take(FILE + path_length(dwarf, unit, program.header(), file)) {
            return Ok(None);
        }
    }
    let (mut rows, mut number) = (program.rows(), 0);
    while rows.next_row()?.is_some() {
        number += 1;
        if !files.take(ROW) {
            return Ok(None);
        }
    }
    Ok(Some(number))
}

/// Returns the length of the path of a source file in a line table: the reader builds the path of each file.
fn path_length<'f>(
    dwarf: &Dwarf<Slice<'f>>,
    unit: &Unit<Slice<'f>>,
    header: &LineProgramHeader<Slice<'f>>,
    file: &gimli::FileEntry<Slice<'f>>,
) -> u64 {
    let length = |value: Option<AttributeValue<Slice<'f>>>| {
        value.and_then(|value| dwarf.attr_string(unit, value).ok()).map_or(0, |text| text.len() as u64)
    };
    let own = length(Some(file.path_name())) + length(file.directory(header));
    own + unit.comp_dir.as_ref().map_or(0, |folder| folder.len() as u64)
}

fn functions(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, files: &Files) -> gimli::Result<bool> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let is_function =
            [gimli::DW_TAG_subprogram, gimli::DW_TAG_inlined_subroutine].contains(&abbreviation.tag());
        if is_function && !files.take(ENTRY) {
            return Ok(false);
        }
        for wanted in abbreviation.attributes() {
            let attribute = entries.read_attribute(*wanted)?;
            if !is_function || attribute.name() != gimli::DW_AT_ranges {
                continue;
            }
            let Ok(Some(mut ranges)) = dwarf.attr_ranges(unit, attribute.value()) else { continue };
            while let Ok(Some(_)) = ranges.next() {
                if !files.take(RANGE) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Reserves memory for all units of a split file, a separate file with a part of the debug information; it has few
/// units. Returns false if not enough memory is left.
pub(super) fn count_split(dwarf: &Dwarf<Slice<'_>>, files: &Files) -> bool {
    let fits = || {
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let fits = files.take(UNIT) && abbreviations(dwarf, header.debug_abbrev_offset(), files)?;
            if !fits || !of_unit(dwarf, &dwarf.unit(header)?, files)? {
                return Ok(false);
            }
        }
        gimli::Result::Ok(true)
    };
    fits().unwrap_or(false)
}
