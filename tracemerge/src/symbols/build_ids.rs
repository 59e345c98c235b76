//! The build-ids of the files in the directories that the user has named, so that a module's file is found whatever its
//! name is now: programs are renamed, replaced by newer ones, and run from memory or from the file system of a
//! container.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, elf};

use crate::file::map::open_regular;
use crate::os::sys::read_at;

/// The greatest number of files and directories that are examined for build-ids.
const MAX_ENTRIES: usize = 10_000;

/// The number of bytes at the beginning of a file that are searched for a build-id: linkers put the build-id behind the
/// headers.
const HEAD: usize = 16 << 10;

/// The paths of files, by their build-ids.
pub(super) type BuildIds = HashMap<Vec<u8>, Vec<PathBuf>>;

/// Returns the files in `directories` and in the directories below, by their build-ids. Follows links to files only.
pub(super) fn files_by_build_id(directories: &[PathBuf]) -> BuildIds {
    let mut found = BuildIds::new();
    let mut directories: VecDeque<PathBuf> = directories.iter().cloned().collect();
    let (mut left, mut head) = (MAX_ENTRIES, vec![0; HEAD]);
    while let Some(directory) = directories.pop_front() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let mut entries: Vec<fs::DirEntry> = entries.flatten().take(left).collect();
        left -= entries.len();
        // If several files have one build-id, the same one is chosen each time.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push_back(path);
            } else if let Some(id) = read_build_id(&path, &mut head) {
                found.entry(id).or_default().push(path);
            }
        }
    }
    found
}

fn read_build_id(path: &Path, head: &mut [u8]) -> Option<Vec<u8>> {
    let (file, _) = open_regular(path).ok()?;
    let length = read_at(&file, head, 0).ok()?;
    let head = head.get(..length)?;
    match FileKind::parse(head).ok()? {
        FileKind::Elf32 => build_id_in::<elf::FileHeader32<Endianness>>(head),
        FileKind::Elf64 => build_id_in::<elf::FileHeader64<Endianness>>(head),
        _ => None,
    }
}

fn build_id_in<E: FileHeader<Endian = Endianness>>(head: &[u8]) -> Option<Vec<u8>> {
    let header = E::parse(head).ok()?;
    let endian = header.endian().ok()?;
    header.program_headers(endian, head).ok()?.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, head).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}
