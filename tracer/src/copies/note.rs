//! The note by which copies of the library find each other in a process, and the search for it.
//!
//! A note is found in each object that is loaded, also in a program that exports no symbols, and in a library whose symbols
//! are its own. Its format is that of notes of ELF.
#![allow(unsafe_code, reason = "reads what the loader has mapped; each use argued")]

use super::interface::Interface;

/// The copies of the library in the process.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// The one that owns the process, among those with the interface of this one.
    pub owner: Option<&'static Interface>,
    /// The versions of those that have another interface.
    pub strangers: Vec<String>,
}

/// Puts the note of this copy into its object, as part of the function that this is in. So a program that has linked the
/// library and calls nothing of it keeps neither that function, nor the note, nor what it leads to.
///
/// The relocation of that function, which changes nothing, is what linkers see of the note. They would keep any note that is
/// not in a group of sections.
///
/// The note holds the distance to a pointer, and not the pointer itself: that would have to be made by the loader, so the note
/// would be writable, and linkers put notes among what is not, in one segment with the code.
macro_rules! put_note {
    ($interface:path) => {
        #[cfg(all(
            target_os = "linux",
            not(miri),
            any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
        ))]
        // SAFETY: no instruction; what is put into other sections is data that only the search for notes reads.
        unsafe {
            std::arch::asm!(
                ".reloc ., BFD_RELOC_NONE, 22f",
                // Name and content end at a multiple of eight bytes: so it reads the same by either alignment of notes.
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

/// Returns no copy: they are not looked for on this system.
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

    /// The name of the notes.
    const NAME: [u8; 12] = *b"TracerOwner\0";
    /// The bytes before a note's name: the sizes of name and content, and the type.
    const HEAD: usize = 12;

    /// The most copies that are told apart; a process has hardly three.
    const PLACES: usize = 16;

    /// What is filled in under the loader's lock: in place, for the program's allocator may do anything.
    struct Search {
        own: *const Interface,
        /// The version that the note of the own copy says; none before that note is found.
        own_version: Option<u32>,
        /// The first copies with their versions, in the order of the loader; null where there are fewer.
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

    /// Looks for the copies in all objects that are loaded, in the order in which they were; `own` is this one. Finds none in
    /// a child that was forked while another thread held the loader's lock for such a look.
    ///
    /// Takes the loader's lock, as [`stay_loaded`](crate::sys::stay_loaded) does, which belongs to the same decision. Nobody
    /// can jump out of the look, or the lock would be held for ever: it calls no code of the program, and no signal comes in.
    #[cold]
    pub(crate) fn find(own: &'static Interface) -> Copies {
        let mut search = Search { own, own_version: None, copies: [(0, ptr::null()); PLACES] };
        let looked = without_signals(|| {
            // SAFETY: the function has the type that is asked for, and gets what is given here, which outlives the call.
            with_loader_lock(|| unsafe { libc::dl_iterate_phdr(Some(look_into), (&raw mut search).cast()) })
        });
        // Without a note of its own, as somebody may have linked it, a copy has nothing to do with others.
        let (Some(_), Some(own_version)) = (looked, search.own_version) else { return Copies::default() };
        let found = || search.copies.iter().filter(|(_, copy)| !copy.is_null());
        let same = found().find(|(version, _)| *version == own_version);
        // SAFETY: a note leads to a static of its object, which with this version is an `Interface`.
        let owner = same.and_then(|(_, copy)| unsafe { copy.as_ref() });
        let others = found().filter(|(version, _)| *version != own_version);
        let strangers = others.map(|(_, copy)| {
            // SAFETY: as above. In every version the first field is that of the package.
            let package = unsafe { &*copy.cast::<[u8; 16]>() };
            let end = package.iter().position(|byte| *byte == 0).unwrap_or(package.len());
            String::from_utf8_lossy(&package[..end]).into_owned()
        });
        Copies { owner, strangers: strangers.collect() }
    }

    unsafe extern "C" fn look_into(object: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, which holds during the call, and what `find` has given.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: so many headers are there.
        let headers = unsafe { slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        let start_of =
            |header: &libc::Elf64_Phdr| (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let is_loaded = |address: usize| {
            let mut segments = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            segments.any(|header| address.wrapping_sub(start_of(header)) < header.p_memsz as usize)
        };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
            // SAFETY: notes are mapped as long as their object is, which is not unloaded meanwhile, and nobody writes them.
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
                // SAFETY: the note leads to a pointer of its object, which is there.
                let interface = unsafe { ptr::with_exposed_provenance::<*const Interface>(place).read() };
                // What another thread is loading has no addresses yet.
                if is_loaded(interface.addr()) {
                    search.add(version, interface);
                }
            });
        }
        0
    }

    /// Calls `found` with the type and the content of each note with our name.
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
        fn our_notes_are_found_among_others_by_either_alignment() {
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
        fn notes_that_are_cut_off_end_the_search() {
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
