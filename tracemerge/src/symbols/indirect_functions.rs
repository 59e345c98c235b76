//! Functions whose implementation is chosen while the program is loaded (`ifunc`, `target_clones`). For other code in
//! the same file, the address of such a function is that of a jump in a linkage table; no symbol describes the jump.

use std::collections::HashMap;

use object::{Architecture, Object, ObjectSection, elf};

/// The greatest number of jumps that are read from one file.
const MAX_JUMPS: usize = 1 << 16;

/// A jump to the chosen implementation of a function.
pub(super) struct Jump {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The address of the resolver, the code that chooses the implementation. The function's symbol has the same
    /// address.
    pub(super) chooser: u64,
}

/// Returns the jumps in `object` that lead to functions whose implementation is chosen. Relocations and the code of the
/// linkage tables show these jumps.
pub(super) fn jumps(object: &object::File<'_>) -> Vec<Jump> {
    if object.architecture() != Architecture::X86_64 || !object.is_little_endian() {
        return Vec::new();
    }
    let mut choosers: HashMap<u64, u64> = HashMap::new();
    for section in object.sections().filter(|section| is_named(section, ".rela")) {
        for entry in section.data().unwrap_or_default().chunks_exact(24) {
            // The place, the kind, and the address of the code that chooses.
            let word = |at: usize| entry[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if word(8) == u64::from(elf::R_X86_64_IRELATIVE) && choosers.len() < MAX_JUMPS {
                choosers.insert(word(0), word(16));
            }
        }
    }
    if choosers.is_empty() {
        return Vec::new();
    }
    let mut jumps = Vec::new();
    for section in object.sections().filter(|s| is_named(s, ".plt") || is_named(s, ".iplt")) {
        let code = section.data().unwrap_or_default();
        for at in (0..code.len()).step_by(8).take(MAX_JUMPS) {
            let Some((length, distance)) = jump(&code[at..]) else { continue };
            let start = section.address().wrapping_add(at as u64);
            let end = start.wrapping_add(length);
            if let Some(&chooser) = choosers.get(&end.wrapping_add_signed(distance)) {
                jumps.push(Jump { start, end, chooser });
            }
        }
    }
    jumps
}

fn is_named<'f>(section: &impl ObjectSection<'f>, beginning: &str) -> bool {
    section.name().is_ok_and(|name| name.starts_with(beginning))
}

/// Decodes a jump through memory at the beginning of `code`. Returns the jump's length in bytes, and the distance from
/// the end of the jump to the memory that has the jump's target; `None` if there is no such jump. The instruction
/// `endbr64` and the prefix `bnd` may come before the jump, and count in its length.
fn jump(code: &[u8]) -> Option<(u64, i64)> {
    let after_mark = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let after_prefix = after_mark.strip_prefix(&[0xf2]).unwrap_or(after_mark);
    let distance = after_prefix.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
    let before = code.len() - after_prefix.len();
    Some((before as u64 + 6, i64::from(i32::from_le_bytes(*distance))))
}
