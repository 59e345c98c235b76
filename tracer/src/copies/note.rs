//! The note by which copies of the library find each other in a process, and the search for it.
//!
//! A note can be found in every loaded object, even in a program that exports no symbols and in a library whose
//! symbols are hidden. Its format is that of ELF notes.
#![allow(unsafe_code, reason = "reads what the loader has mapped; each use argued")]

use super::interface::Interface;

/// The result of the search for copies of the library in the process.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The owner of the process, among the copies with the same interface as this one.
    pub owner: Option<&'static Interface>,
    /// The versions of the copies that have another interface.
    pub incompatible_versions: Vec<String>,
}

/// Puts the note of this copy into its object, as part of the function that contains the macro's call. So a program
/// that links the library without calling it contains neither that function, nor the note, nor the interface.
///
/// The function refers to the note by a relocation, which changes nothing, so that linkers keep the note with the
/// function. Linkers always keep a note that is in no section group.
///
/// The note holds the distance to a pointer, and not the pointer itself: the loader would have to write the pointer, so
/// the note would be writable, and linkers put notes among read-only sections, in one segment with the code.
macro_rules! put_note {
    ($interface:path) => {
        #[cfg(all(
            target_os = "linux",
            not(miri),
            any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
        ))]
        // SAFETY: no instruction; only the search for notes reads the data that is put into other sections.
        unsafe {
            std::arch::asm!(
                ".reloc ., BFD_RELOC_NONE, 22f",
                // Name and content end at a multiple of eight bytes, so the note reads the same with either alignment
                // of notes.
                ".pushsection .note.tracer, \"aG\", @note, tracer_note",
                ".balign 8",
                "22: .long 12, 8, {version}",
                ".ascii \"TracerOwner\\0\"",
                ".quad 23f - .",
                ".popsection",
                ".pushsection .data.rel.ro.tracer_owner, \"aw\", @progbits",
                ".balign 8",
                "23: .quad {interface}",
                ".popsection",
                version = const $crate::copies::interface::VERSION,
                interface = sym $interface,
                options(nomem, nostack, preserves_flags),
            );
        }
    };
}
pub(crate) use put_note;

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) use elf::find;

/// Returns no copies: on this system copies of the library do not search for each other.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(crate) fn find(_: &'static Interface) -> Copies {
    Copies::default()
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod elf {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::slice;

    use trace_store::sys::with_loader_lock;

    use super::super::interface::Interface;
    use super::Copies;
    use crate::sys::without_signals;

    /// The name of the notes by which copies of the library find each other.
    const NAME: [u8; 12] = *b"TracerOwner\0";
    /// The number of bytes before a note's name: they hold the sizes of name and content, and the type.
    const HEAD: usize = 12;

    /// The maximum number of copies that a search finds; a process hardly has three.
    const PLACES: usize = 16;

    /// The result of the search, filled in under the loader's lock. It allocates nothing, because the program's
    /// allocator may do anything.
    struct Search {
        own: *const Interface,
        /// The version in the note of this copy; `None` until that note is found.
        own_version: Option<u32>,
        /// The copies with the versions of their interfaces, in the order in which the loader has loaded them; unused
        /// elements are null.
        copies: [(u32, *const Interface); PLACES],
    }

    impl Search {
        fn add(&mut self, version: u32, interface: *const Interface) {
            if ptr::eq(interface, self.own) {
                self.own_version = Some(version);
            }
            if let Some(free) = self.copies.iter_mut().find(|(_, copy)| copy.is_null()) {
                *free = (version, interface);
            }
        }
    }

    /// Finds the copies in all loaded objects, in the order in which the loader has loaded the objects; `own` is this
    /// copy. Finds none in a child that was forked while another thread held the loader's lock for such a search.
    ///
    /// The search takes the loader's lock. So does [`stay_loaded`](crate::sys::stay_loaded), which the thread calls for
    /// the same decision whether to trace. The search must not be left by a jump, or the lock would be held for ever:
    /// so it calls no code of the program, and signals are blocked.
    #[cold]
    pub(crate) fn find(own: &'static Interface) -> Copies {
        let mut search = Search { own, own_version: None, copies: [(0, ptr::null()); PLACES] };
        let looked = without_signals(|| {
            // SAFETY: the function has the required type, and gets a pointer to `search`, which outlives the call.
            with_loader_lock(|| unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut search).cast()) })
        });
        // A copy may have been linked without its note; it then ignores other copies.
        let (Some(_), Some(own_version)) = (looked, search.own_version) else { return Copies::default() };
        let found = || search.copies.iter().filter(|(_, copy)| !copy.is_null());
        let same = found().find(|(version, _)| *version == own_version);
        // SAFETY: a note leads to a static of its object, which with this version is an `Interface`.
        let owner = same.and_then(|(_, copy)| unsafe { copy.as_ref() });
        let others = found().filter(|(version, _)| *version != own_version);
        let incompatible_versions = others.map(|(_, copy)| {
            // SAFETY: as above. In every version the first field is the version of the package.
            let package = unsafe { &*copy.cast::<[u8; 16]>() };
            let end = package.iter().position(|byte| *byte == 0).unwrap_or(package.len());
            String::from_utf8_lossy(&package[..end]).into_owned()
        });
        Copies { owner, incompatible_versions: incompatible_versions.collect() }
    }

    unsafe extern "C" fn look_into(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, which is valid during the call, and the `search` of `find`.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the object has so many headers.
        let headers = unsafe { slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        let start_of =
            |header: &libc::Elf64_Phdr| (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let is_loaded = |address: usize| {
            let mut segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            segments.any(|header| address.wrapping_sub(start_of(header)) < header.p_memsz as usize)
        };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
            // SAFETY: notes stay mapped as long as their object, which is not unloaded meanwhile, and are never
            // written.
            let notes = unsafe {
                let start = ptr::with_exposed_provenance::<u8>(start_of(header));
                slice::from_raw_parts(start, header.p_memsz as usize)
            };
            each_note(notes, header.p_align as usize, |version, content| {
                let Some(distance) = content.first_chunk() else { return };
                let place = content.as_ptr().addr().wrapping_add(usize::from_ne_bytes(*distance));
                if !is_loaded(place) || place % align_of::<usize>() != 0 {
                    return;
                }
                // SAFETY: the note leads to a pointer in its object, which is loaded.
                let interface = unsafe { ptr::with_exposed_provenance::<*const Interface>(place).read() };
                // An object that another thread is still loading has no addresses yet.
                if is_loaded(interface.addr()) {
                    search.add(version, interface);
                }
            });
        }
        0
    }

    /// Calls `found` with the version and the content of each note that has the name [`NAME`]. The version is the
    /// note's type.
    fn each_note(mut notes: &[u8], align: usize, mut found: impl FnMut(u32, &[u8])) {
        let align = if align == 8 { 8 } else { 4 };
        while let Some((head, _)) = notes.split_first_chunk::<HEAD>() {
            let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
            let (name_size, size, version) = (word(0) as usize, word(4) as usize, word(8));
            let begin = (HEAD + name_size).next_multiple_of(align);
            let name = notes.get(HEAD..HEAD + name_size);
            let content = notes.get(begin..begin + size);
            if let (Some(name), Some(content)) = (name, content) {
                if name == NAME {
                    found(version, content);
                }
            }
            notes = notes.get((begin + size).next_multiple_of(align)..).unwrap_or_default();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn note(name: &[u8], version: u32, content: &[u8], align: usize) -> Vec<u8> {
            let mut bytes = Vec::new();
            for word in [name.len() as u32, content.len() as u32, version] {
                bytes.extend(word.to_ne_bytes());
            }
            for part in [name, content] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(align), 0);
            }
            bytes
        }

        #[test]
        fn our_notes_are_found_among_others_with_either_alignment() {
            for align in [4, 8] {
                let all = [
                    note(b"GNU\0", 3, &[1; 20], align),
                    note(&NAME, 7, &[2; 8], align),
                    note(b"", 7, &[], align),
                    note(&NAME, 8, &[3; 8], align),
                ];
                let mut found = Vec::new();
                each_note(&all.concat(), align, |version, content| found.push((version, content.to_vec())));
                assert_eq!(found, [(7, vec![2; 8]), (8, vec![3; 8])], "{align}");
            }
        }

        #[test]
        fn truncated_notes_end_the_search() {
            let whole = note(&NAME, 7, &[2; 8], 4);
            for end in 0..whole.len() {
                each_note(&whole[..end], 4, |_, _| panic!("{end} bytes are no note"));
            }
            let mut huge = whole;
            huge[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
            each_note(&huge, 4, |_, _| panic!("its name does not end"));
        }
    }
}
