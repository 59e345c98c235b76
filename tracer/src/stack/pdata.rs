//! Windows on x86-64: the unwind tables that each module has for all functions that call others, which the system
//! itself uses for exceptions. They are read where they are, in place and without allocation.
//!
//! The system says which entry is of a place, without the loader's lock. What is in an entry says exactly where the
//! caller's frame begins, so no frame pointers are needed.
#![allow(unsafe_code, reason = "reads the unwind tables of modules; each argued where it stands")]

use std::ops::Range;
#[cfg(feature = "unwind")]
use std::path::PathBuf;
use std::{ptr, slice};

use super::rules::Rule;
#[cfg(feature = "unwind")]
use crate::sys;

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    fn RtlLookupFunctionEntry(place: usize, base: *mut usize, history: *mut u8) -> *const Entry;
}

unsafe extern "C" {
    /// The beginning of the module that has this code, by the linker.
    static __ImageBase: u8;
}

/// An entry of a table: a function, or a part of one. Relative to the module's base, as all that is here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    end: u32,
    info: u32,
}

/// The number of entries that may be chained: compilers write one or two parts of a function behind its first.
const MOST_CHAINED: usize = 32;

/// The number of the frame pointer's register in the tables.
const RBP: u8 = 5;

/// A function, or a part of one, of a loaded module.
pub(super) struct Function {
    base: usize,
    entry: Entry,
}

impl Function {
    /// Finds the function that has the instruction at `place`. One that calls nobody and has no frame has no entry.
    pub(super) fn with(place: usize) -> Option<Function> {
        let mut base = 0;
        // SAFETY: takes any address; the result may be written. What is returned is in the table of a module.
        let entry = unsafe { RtlLookupFunctionEntry(place, &mut base, ptr::null_mut()).as_ref() };
        Some(Function { base, entry: *entry? })
    }

    /// Returns whether the module stays as long as this code: it is the one that has it, or the executable.
    pub(super) fn stays(&self) -> bool {
        self.base == (&raw const __ImageBase).addr() || self.base == executable()
    }

    /// Returns where the code is.
    #[cfg_attr(
        not(feature = "unwind"),
        allow(dead_code, reason = "functions are looked for with the feature")
    )]
    pub(super) fn range(&self) -> Range<usize> {
        self.base + self.entry.start as usize..self.base + self.entry.end as usize
    }

    /// Returns how the function's frame is left at `place`; `None` where that takes more than [`Rule`] can say: a frame
    /// that is found by another register than the frame pointer's, or that the processor has made.
    pub(super) fn rule(&self, place: usize) -> Option<Rule> {
        let mut frame = Frame::default();
        let (mut entry, mut done) = (self.entry, place - self.base - self.entry.start as usize);
        for _ in 0..MOST_CHAINED {
            // SAFETY: the entry of a module's table leads to what describes it, in the same module.
            let info = unsafe { Info::at(self.base + entry.info as usize)? };
            frame.undo(&info, done)?;
            let Some(outer) = info.chained() else { return Some(frame.rule()) };
            // All of the other part's beginning was done before this one was come to.
            (entry, done) = (outer, usize::MAX);
        }
        None
    }
}

/// Returns the base of the executable.
fn executable() -> usize {
    let base: usize;
    // SAFETY: the thread's description leads to that of its process, which has the base; both are always there.
    unsafe {
        std::arch::asm!("mov {base}, gs:[0x60]", "mov {base}, [{base} + 0x10]", base = out(reg) base,
            options(nostack, preserves_flags, readonly));
    }
    base
}

/// What an entry says of its frame: the steps of the function's beginning, the last one first.
struct Info {
    flags: u8,
    frame_register: u8,
    frame_offset: usize,
    /// Each step takes one to three words.
    steps: &'static [u16],
}

impl Info {
    /// Reads what is at `address`; `None` for a form that is not known.
    ///
    /// # Safety
    /// The unwind table of a loaded module says that this is there.
    unsafe fn at(address: usize) -> Option<Info> {
        if address % 4 != 0 {
            return None;
        }
        let start = ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: the promise; it begins with four bytes, the third of which is the number of words behind them. They
        // are aligned to four bytes, and not written any more.
        let (head, steps) = unsafe {
            let head = slice::from_raw_parts(start, 4);
            // One more is there if the number is odd, and behind that an entry, if the flags say so.
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

    /// Returns the entry of the part of the function that has come before this one.
    fn chained(&self) -> Option<Entry> {
        const CHAINED: u8 = 4;
        let words = self.steps.len().next_multiple_of(2);
        // SAFETY: with this flag an entry follows, aligned to four bytes.
        (self.flags & CHAINED != 0).then(|| unsafe { *self.steps.as_ptr().add(words).cast::<Entry>() })
    }
}

/// A frame, as far as the steps that have made it are undone.
#[derive(Default)]
struct Frame {
    /// Whether it is found by the frame pointer: where the stack pointer was when that was set is so many bytes below it.
    by_frame_pointer: Option<usize>,
    /// How many bytes above that the undone steps have come.
    undone: usize,
    /// How many bytes above that the caller's frame pointer is.
    saved: Option<usize>,
}

impl Frame {
    /// Undoes the steps of a part, of which `done` bytes of code are done; `None` for what cannot be undone.
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
                // The frame's register is set: from there on all is found by it.
                3 => {
                    if is_done {
                        if info.frame_register != RBP || self.by_frame_pointer.is_some() {
                            return None;
                        }
                        (self.by_frame_pointer, self.undone) = (Some(info.frame_offset), 0);
                    }
                    0
                }
                // mov [rsp + ..]: not by what is undone, but by what the stack pointer was.
                4 | 5 => {
                    let (at, words) = if operation == 4 { (word(0)? * 8, 1) } else { (long()?, 2) };
                    if is_done && kind >> 4 == RBP {
                        self.saved = Some(at);
                    }
                    words
                }
                // Ends of the function, and registers that no walk needs.
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

/// Returns the modules that are loaded: where, and their files.
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
