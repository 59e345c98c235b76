//! Windows on x86-64: the unwind tables that each module has for all functions that call others, and that the system
//! itself uses for exceptions. They are read in place and without allocation.
//!
//! The system finds the entry for an address in code without the loader's lock. An entry gives exactly where the
//! caller's frame begins, so no frame pointers are needed.
#![allow(unsafe_code, reason = "reads the unwind tables of modules; each argued where it stands")]

use std::ops::Range;
#[cfg(feature = "unwind")]
use std::path::PathBuf;
use std::{ptr, slice};

use windows_sys::Win32::System::Diagnostics::Debug::{IMAGE_RUNTIME_FUNCTION_ENTRY, RtlLookupFunctionEntry};

use super::rules::Rule;
#[cfg(feature = "unwind")]
use crate::sys;

unsafe extern "C" {
    /// The beginning of the module that contains this code, set by the linker.
    static __ImageBase: u8;
}

/// An entry of an unwind table: a function, or a part of one. All addresses in it are relative to the beginning of the
/// module.
type Entry = IMAGE_RUNTIME_FUNCTION_ENTRY;

/// The number of entries that may be chained: compilers write one or two parts of a function after its first.
const MAX_CHAINED_ENTRIES: usize = 32;

/// The number of the frame pointer's register in the tables.
const RBP: u8 = 5;

/// A function, or a part of one, of a loaded module.
pub(super) struct Function {
    base: usize,
    entry: Entry,
}

impl Function {
    /// Finds the function that contains the instruction at `place`. A function that calls no other and has no frame
    /// has no entry.
    pub(super) fn with(place: usize) -> Option<Function> {
        let mut base = 0;
        // SAFETY: takes any address; the result may be written. The returned entry is in the table of a module.
        let entry = unsafe { RtlLookupFunctionEntry(place as u64, &mut base, ptr::null_mut()).as_ref() };
        Some(Function { base: base as usize, entry: *entry? })
    }

    /// Returns whether the module stays as long as this code: it is the executable, or the module that contains this
    /// code.
    pub(super) fn stays(&self) -> bool {
        self.base == (&raw const __ImageBase).addr() || self.base == executable()
    }

    /// Returns the range of the function's code.
    #[cfg_attr(
        not(feature = "unwind"),
        allow(dead_code, reason = "functions are looked for with the feature")
    )]
    pub(super) fn range(&self) -> Range<usize> {
        self.base + self.entry.BeginAddress as usize..self.base + self.entry.EndAddress as usize
    }

    /// Returns the rule that unwinds the function's frame at `place`; `None` if [`Rule`] cannot express it: the frame
    /// is found by another register than the frame pointer's, or the processor has made it.
    pub(super) fn rule(&self, place: usize) -> Option<Rule> {
        let mut frame = Frame::default();
        let (mut entry, mut done) = (self.entry, place - self.base - self.entry.BeginAddress as usize);
        for _ in 0..MAX_CHAINED_ENTRIES {
            // SAFETY: both forms of the field are this number; the entry of a module's table leads to its description,
            // in the same module.
            let info = unsafe { Info::at(self.base + entry.Anonymous.UnwindData as usize)? };
            frame.undo(&info, done)?;
            let Some(outer) = info.chained() else { return Some(frame.rule()) };
            // The other part's steps were all done before this part was reached.
            (entry, done) = (outer, usize::MAX);
        }
        None
    }
}

/// Returns the address at which the executable begins in memory.
fn executable() -> usize {
    let base: usize;
    // SAFETY: the thread's description leads to that of its process, which has the base; both are always there.
    unsafe {
        std::arch::asm!("mov {base}, gs:[0x60]", "mov {base}, [{base} + 0x10]", base = out(reg) base,
            options(nostack, preserves_flags, readonly));
    }
    base
}

/// The description of a frame, to which an `Entry` points: the steps by which the beginning of the function makes the
/// frame, the last step first.
struct Info {
    flags: u8,
    frame_register: u8,
    frame_offset: usize,
    /// The words of the steps: each step takes one to three of them.
    steps: &'static [u16],
}

impl Info {
    /// Reads the description at `address`; `None` if its form is not known.
    ///
    /// # Safety
    /// The address comes from the unwind table of a loaded module.
    unsafe fn at(address: usize) -> Option<Info> {
        if address % 4 != 0 {
            return None;
        }
        let start = ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the promise; it begins with four bytes, the third of which is the number of words after them. They
        // are aligned to four bytes, and not written any more.
        let (head, steps) = unsafe {
            let head = slice::from_raw_parts(start, 4);
            // If the number is odd, one more follows, and after that an entry, if the flags say so.
            (head, slice::from_raw_parts(start.add(4).cast::<u16>(), usize::from(head[2])))
        };
        let [version, flags, frame] = [head[0] & 7, head[0] >> 3, head[3]];
        [1, 2].contains(&version).then_some(Info {
            flags,
            frame_register: frame & 15,
            frame_offset: usize::from(frame >> 4) * 16,
            steps,
        })
    }

    /// Returns the entry of the part of the function that runs before this one, if there is one.
    fn chained(&self) -> Option<Entry> {
        const CHAINED: u8 = 4;
        let words = self.steps.len().next_multiple_of(2);
        // SAFETY: with this flag an entry follows, aligned to four bytes.
        (self.flags & CHAINED != 0).then(|| unsafe { *self.steps.as_ptr().add(words).cast::<Entry>() })
    }
}

/// A frame that is being unwound: the steps by which the function has made the frame are undone one after the other.
#[derive(Default)]
struct Frame {
    /// If the frame is found by the frame pointer: the number of bytes by which the frame pointer was set above the
    /// stack pointer of that moment.
    by_frame_pointer: Option<usize>,
    /// The number of bytes that are undone. They are counted from the stack pointer or, if the frame pointer was set,
    /// from the position that the stack pointer had at that moment.
    undone: usize,
    /// The number of bytes from the position at which `undone` begins up to the saved frame pointer of the caller;
    /// `None` if no step has saved it.
    saved: Option<usize>,
}

impl Frame {
    /// Undoes the steps of a part of a function, of which `done` bytes of code have run; `None` for a step that cannot
    /// be undone.
    fn undo(&mut self, info: &Info, done: usize) -> Option<()> {
        let mut steps = info.steps;
        while let [step, rest @ ..] = steps {
            let [offset, kind] = step.to_le_bytes();
            let (operation, operand) = (kind & 15, usize::from(kind >> 4));
            let word = |at: usize| rest.get(at).map(|word| usize::from(*word));
            let long = || Some(word(0)? | word(1)? << 16);
            let is_done = usize::from(offset) <= done;
            let words = match operation {
                // push
                0 => {
                    if is_done {
                        if kind >> 4 == RBP {
                            self.saved = Some(self.undone);
                        }
                        self.undone += 8;
                    }
                    0
                }
                // sub rsp
                1 => {
                    let (size, words) = if operand == 0 { (word(0)? * 8, 1) } else { (long()?, 2) };
                    self.undone += if is_done { size } else { 0 };
                    words
                }
                2 => {
                    self.undone += if is_done { operand * 8 + 8 } else { 0 };
                    0
                }
                // The frame's register is set: from here on everything is found by it.
                3 => {
                    if is_done {
                        if info.frame_register != RBP || self.by_frame_pointer.is_some() {
                            return None;
                        }
                        (self.by_frame_pointer, self.undone) = (Some(info.frame_offset), 0);
                    }
                    0
                }
                // mov [rsp + ..]: relative to the stack pointer at that step, not to the undone part.
                4 | 5 => {
                    let (at, words) = if operation == 4 { (word(0)? * 8, 1) } else { (long()?, 2) };
                    if is_done && kind >> 4 == RBP {
                        self.saved = Some(at);
                    }
                    words
                }
                // Ends of the function, and registers that walks do not need.
                6 | 8 => 1,
                9 => 2,
                _ => return None,
            };
            steps = rest.get(words..)?;
        }
        Some(())
    }

    fn rule(&self) -> Rule {
        let size = self.undone + 8;
        match (self.by_frame_pointer, self.saved) {
            (Some(0), Some(0)) if size == 16 => Rule::FramePointer,
            (None, None) => Rule::StackPointer { size, saved: 0 },
            (None, Some(saved)) if saved < size - 8 => Rule::StackPointer { size, saved: size - saved },
            (base, saved) => Rule::Recorded { below: base, size, saved },
        }
    }
}

/// Returns, for each loaded module, its address in memory and the path of its file.
#[cfg(feature = "unwind")]
pub(super) fn loaded() -> Vec<(usize, PathBuf)> {
    let found = trace_store::sys::loaded_modules().unwrap_or_default().modules;
    found.into_iter().map(|m| (m.bias as usize, trace_store::sys::path_from_bytes(&m.path))).collect()
}

/// Returns a number that changes when a module is loaded or unloaded. The first call takes the loader's lock.
#[cfg(feature = "unwind")]
pub(super) fn generation() -> u64 {
    let counts = trace_store::sys::module_counts().or_else(|| {
        sys::stay_loaded();
        trace_store::sys::module_counts()
    });
    counts.map_or(0, |(came, went)| came << 32 | went)
}
