//! The rules for unwinding a frame, by the address in its function's code, and the cache of rules that were looked up.
//!
//! The rule for an address in code is the same whenever it is looked up, until the address's module is unloaded. A walk
//! cannot notice the unloading without a lock. So only the rules for modules that stay as long as this code are kept,
//! for all threads, each in one word together with the address, at an index computed from the address. Threads that
//! look up two addresses of one index overwrite each other's words; both words are right. In other modules each frame
//! is looked up anew.
//!
//! ```text
//! word:  0 ──► address | rule << 48 ──► any other address's   (relaxed: the word is all there is)
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use super::Registers;
#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
use crate::words::exclusion;

/// The rule for unwinding a frame, given the address in the code at which the frame's function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The frame pointer points to the saved frame pointer of the caller, and the return address lies above that.
    #[cfg(not(target_arch = "aarch64"))]
    FramePointer,
    /// There is no unwind table for the function. The frame is unwound by the frame pointer, which the function may
    /// have.
    Presumed,
    /// The frame has `size` bytes from the stack pointer on, the return address included. The caller's frame pointer
    /// lies `saved` bytes below the frame's end, or is still in its register if `saved` is 0.
    #[cfg(not(target_arch = "aarch64"))]
    StackPointer { size: usize, saved: usize },
    /// The frame's upper end is at a known distance from the stack pointer or from the frame pointer.
    #[cfg(target_arch = "aarch64")]
    Ends(FrameEnd),
    /// A table of Windows describes the frame. The frame begins at the stack pointer, or `below` bytes below the frame
    /// pointer. From that beginning it has `size` bytes, the return address included, and the caller's frame pointer
    /// lies `saved` bytes above the beginning, which may be above the frame's end. If `saved` is `None`, the
    /// caller's frame pointer is still in its register.
    #[cfg(not(target_arch = "aarch64"))]
    Recorded { below: Option<usize>, size: usize, saved: Option<usize> },
    /// The kernel has made the frame, when it called a signal handler.
    #[cfg(not(target_arch = "aarch64"))]
    Signal,
    /// The function has no caller.
    #[cfg(not(target_arch = "aarch64"))]
    Outermost,
}

/// The end of a frame, and the distances of the caller's saved registers from that end.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameEnd {
    /// Whether `distance` is from the frame pointer; otherwise it is from the stack pointer.
    pub(super) by_frame_pointer: bool,
    /// The number of bytes from the frame pointer or the stack pointer, as `by_frame_pointer` says, up to the frame's
    /// end.
    pub(super) distance: usize,
    /// The number of bytes from the saved return address up to the frame's end; 0 if the return address is in the link
    /// register. If this is 0 for a function that has called another one, the function has no caller.
    pub(super) ret: usize,
    /// The number of bytes from the saved frame pointer of the caller up to the frame's end; 0 if the caller's frame
    /// pointer is still in its register.
    pub(super) fp: usize,
}

/// The rule that was found for an address in code.
struct Found {
    rule: Rule,
    /// Whether the rule stays valid as long as this code is loaded.
    stays: bool,
}

/// The number of rules that are kept at most: a power of two.
const CACHED_RULES: usize = 4096;
static MEMORY: [AtomicU64; CACHED_RULES] = [const { AtomicU64::new(0) }; CACHED_RULES];

/// The bits of a kept word that hold the address; the bits above them hold the packed rule.
const PLACE: u64 = (1 << 48) - 1;
/// The highest address that a program can use: it has 47 bits, on aarch64 48.
const HIGHEST: u64 = if cfg!(target_arch = "aarch64") { PLACE } else { PLACE >> 1 };

#[cfg(not(target_arch = "aarch64"))]
const FRAME_POINTER: u64 = 1;
#[cfg(not(target_arch = "aarch64"))]
const SIGNAL: u64 = 2;
#[cfg(not(target_arch = "aarch64"))]
const OUTERMOST: u64 = 3;
const PRESUMED: u64 = 4;
/// The bit that marks a packed `Rule::StackPointer`. The bits below it are the frame's size in words (12 bits) and the
/// position of the saved frame pointer, in words from the frame's end (3 bits).
#[cfg(not(target_arch = "aarch64"))]
const STACK_POINTER: u64 = 1 << 15;

/// The bit that marks a packed rule that does not fit into 16 bits; such a rule is not kept. In a `Rule::StackPointer`
/// with this bit, the lowest 8 bits are the position of the saved frame pointer in words, and the bits above them are
/// the frame's size in bytes.
const LARGE: u64 = 1 << 63;

/// The bit that marks, together with [`LARGE`], a packed [`Rule::Recorded`]. Two bits below it say which of the
/// optional parts are present. Then follow the frame's size (24 bits), the position of the saved frame pointer (24
/// bits) and the number of bytes below the frame pointer (8 bits).
#[cfg(not(target_arch = "aarch64"))]
const RECORDED: u64 = 1 << 62;
#[cfg(not(target_arch = "aarch64"))]
const IS_BELOW: u64 = 1 << 61;
#[cfg(not(target_arch = "aarch64"))]
const IS_SAVED: u64 = 1 << 60;

impl Rule {
    /// Returns the rule that unwinds the frame of the function that contains the instruction before `pc`; `None` if
    /// there is no code before `pc`, or if the frame cannot be unwound.
    #[inline(always)]
    pub(super) fn at(pc: usize) -> Option<Rule> {
        Rule::decode(code_at(pc))
    }

    /// Does what [`Rule::at`] does, on behalf of a hook. Also returns `None` if this thread is inside a lookup of a
    /// rule already, which has led to the call of the hook.
    #[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
    #[inline(always)]
    pub(super) fn at_for_hook(pc: usize) -> Option<Rule> {
        Rule::decode(cached_at(pc).unwrap_or_else(|| look_up_for_hook(pc)))
    }
}

/// Rules on aarch64. A rule that is kept has this form of 16 bits:
///
/// ```text
/// bit  15: always 1   14: by_frame_pointer   13: the caller's frame pointer is saved, right below the return address
///   12..8: words from the frame's end down to the return address     7..0: distance, in units of 16 bytes
/// ```
///
/// A rule that does not fit is packed into a word with the bit [`LARGE`] and three numbers of bytes, from the lowest
/// bit on: 10 bits each for the positions of the return address and of the caller's frame pointer, then the distance.
/// Bit 62 is set if the distance is from the frame pointer.
#[cfg(target_arch = "aarch64")]
impl Rule {
    const ENDS: u64 = 1 << 15;

    /// Packs the rule into a word: into 16 bits if it fits. Returns 0 for a rule that cannot be packed.
    fn encode(self) -> u64 {
        let Rule::Ends(FrameEnd { by_frame_pointer, distance, ret, fp }) = self else { return PRESUMED };
        let by = u64::from(by_frame_pointer);
        let (distance, ret, fp) = (distance as u64, ret as u64, fp as u64);
        if distance % 16 == 0 && distance < 16 << 8 && ret < 8 << 5 && (fp == 0 || (ret > 0 && fp == ret + 8))
        {
            Rule::ENDS | (by << 14) | (u64::from(fp > 0) << 13) | ((ret / 8) << 8) | (distance / 16)
        } else if ret < 1 << 10 && fp < 1 << 10 && distance < 1 << 40 {
            LARGE | by << 62 | distance << 20 | fp << 10 | ret
        } else {
            0
        }
    }

    #[inline(always)]
    fn decode(code: u64) -> Option<Rule> {
        let field = |from: u64, bits: u64| (code >> from & ((1 << bits) - 1)) as usize;
        if code & LARGE != 0 {
            let (ret, fp, distance) = (field(0, 10), field(10, 10), field(20, 40));
            return Some(Rule::Ends(FrameEnd { by_frame_pointer: field(62, 1) == 1, distance, ret, fp }));
        }
        if code & Rule::ENDS != 0 {
            let ret = field(8, 5) * 8;
            let fp = if field(13, 1) == 1 { ret + 8 } else { 0 };
            let by_frame_pointer = field(14, 1) == 1;
            return Some(Rule::Ends(FrameEnd { by_frame_pointer, distance: field(0, 8) * 16, ret, fp }));
        }
        (code == PRESUMED).then_some(Rule::Presumed)
    }
}

#[cfg(not(target_arch = "aarch64"))]
impl Rule {
    /// Packs the rule into a word: into 16 bits if it fits. Returns 0 for a rule that cannot be packed.
    fn encode(self) -> u64 {
        match self {
            Rule::FramePointer => FRAME_POINTER,
            Rule::Presumed => PRESUMED,
            Rule::Signal => SIGNAL,
            Rule::Outermost => OUTERMOST,
            Rule::StackPointer { size, saved } => {
                let (size, word) = (size as u64, saved as u64 / 8);
                let fits = size < 8 << 12 && word < 8;
                if fits { STACK_POINTER | size | word } else { LARGE | size << 8 | word }
            }
            Rule::Recorded { below, size, saved } => {
                let part = |value: Option<usize>, bits: u32, is_there: u64| match value {
                    // A value that no frame has makes the rule invalid.
                    Some(value) if value >> bits != 0 => RECORDED,
                    Some(value) => value as u64 | is_there,
                    None => 0,
                };
                let below = part(below, 8, IS_BELOW);
                let saved = part(saved, 24, IS_SAVED);
                if size >> 24 != 0 || (below | saved) & RECORDED != 0 {
                    return 0;
                }
                let flags = (below | saved) & (IS_BELOW | IS_SAVED);
                let (below, saved) = (below & 0xff, saved & 0xff_ffff);
                LARGE | RECORDED | flags | (size as u64) << 32 | saved << 8 | below
            }
        }
    }

    #[inline(always)]
    fn decode(code: u64) -> Option<Rule> {
        match code {
            FRAME_POINTER => Some(Rule::FramePointer),
            code if code & LARGE != 0 => Some(Rule::decode_large(code)),
            code if code & STACK_POINTER != 0 => {
                Some(Rule::StackPointer { size: code as usize & 0x7ff8, saved: (code as usize & 7) * 8 })
            }
            PRESUMED => Some(Rule::Presumed),
            SIGNAL => Some(Rule::Signal),
            OUTERMOST => Some(Rule::Outermost),
            _ => None,
        }
    }

    #[cold]
    fn decode_large(code: u64) -> Rule {
        if code & RECORDED != 0 {
            return Rule::Recorded {
                below: (code & IS_BELOW != 0).then_some(code as usize & 0xff),
                size: (code >> 32) as usize & 0xff_ffff,
                saved: (code & IS_SAVED != 0).then_some((code >> 8) as usize & 0xff_ffff),
            };
        }
        Rule::StackPointer { size: ((code & !LARGE) >> 8) as usize, saved: (code as usize & 0xff) * 8 }
    }
}

/// Returns the packed rule for the instruction before `pc`; 0 if there is none. The result is a word and not a value of
/// [`Rule`], because with words a walk keeps all its state in registers.
#[inline(always)]
fn code_at(pc: usize) -> u64 {
    cached_at(pc).unwrap_or_else(|| look_up(pc))
}

/// Returns the packed rule for the instruction before `pc`, if it is kept.
#[inline(always)]
fn cached_at(pc: usize) -> Option<u64> {
    let kept = MEMORY[position(pc)].load(Ordering::Relaxed);
    (kept & PLACE == pc as u64).then_some(kept >> 48)
}

#[cfg(all(feature = "unwind", target_os = "linux", target_arch = "x86_64"))]
#[cold]
#[inline(never)]
fn look_up_for_hook(pc: usize) -> u64 {
    exclusion::once(|| look_up(pc)).unwrap_or(0)
}

#[cold]
#[inline(never)]
fn look_up(pc: usize) -> u64 {
    if pc < 4096 || pc as u64 > HIGHEST {
        return 0;
    }
    // A rule that is too long is rejected.
    let Some(found) = imp::find(pc) else { return 0 };
    let code = found.rule.encode();
    if Rule::decode(code).is_none() {
        return 0;
    }
    if found.stays && code & LARGE == 0 {
        MEMORY[position(pc)].store(pc as u64 | code << 48, Ordering::Relaxed);
    }
    code
}

#[inline(always)]
fn position(pc: usize) -> usize {
    (pc ^ pc >> 12) % CACHED_RULES
}

/// Returns the frame with its rule, if its `pc` is code. A return address that `on_return!` has changed is replaced by
/// the original one.
#[inline(always)]
pub(super) fn check_frame(frame: Registers) -> Option<(Registers, Rule)> {
    let (mut pc, mut code) = (frame.pc, code_at(frame.pc));
    if code == 0 {
        pc = imp::resolve_trampoline(pc);
        code = code_at(pc);
    }
    Some((Registers { pc, ..frame }, Rule::decode(code)?))
}

#[cfg(all(feature = "unwind", target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    use super::{Found, Rule};
    use crate::stack::module::Module;
    #[cfg(target_arch = "x86_64")]
    use crate::stack::on_return;
    use crate::stack::tables;

    #[cfg(target_arch = "x86_64")]
    #[cold]
    #[inline(never)]
    pub(super) fn resolve_trampoline(pc: usize) -> usize {
        on_return::real_return(pc).or_else(|| resolve_foreign_trampoline(pc)).unwrap_or(0)
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub(super) fn resolve_trampoline(_: usize) -> usize {
        0
    }

    /// Returns the original return address of a function that returns to a trampoline of another copy of this
    /// library.
    #[cfg(target_arch = "x86_64")]
    fn resolve_foreign_trampoline(pc: usize) -> Option<usize> {
        let module = Module::with_code(pc)?;
        tables::Entry::find(&module, pc)?.stored_return_address(&module, pc)
    }

    pub(super) fn find(pc: usize) -> Option<Found> {
        #[cfg(target_arch = "x86_64")]
        if on_return::is_trampoline(pc) {
            return None;
        }
        let module = Module::with_code(pc - 1)?;
        let rule = match tables::Entry::find(&module, pc - 1) {
            Some(entry) => entry.rule()?,
            None => Rule::Presumed,
        };
        Some(Found { rule, stays: module.stays() })
    }
}

#[cfg(all(
    not(feature = "unwind"),
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod imp {
    use super::{Found, Rule};
    use crate::stack::module::Module;

    pub(super) fn find(pc: usize) -> Option<Found> {
        let module = Module::with_code(pc - 1)?;
        Some(Found { rule: Rule::Presumed, stays: module.stays() })
    }

    #[inline(always)]
    pub(super) fn resolve_trampoline(_: usize) -> usize {
        0
    }
}

#[cfg(all(windows, target_arch = "x86_64"))]
mod imp {
    use super::Found;
    use crate::stack::pdata::Function;

    pub(super) fn find(pc: usize) -> Option<Found> {
        // A place without an entry is not in a function that calls another one.
        let function = Function::with(pc - 1)?;
        Some(Found { rule: function.rule(pc - 1)?, stays: function.stays() })
    }

    #[inline(always)]
    pub(super) fn resolve_trampoline(_: usize) -> usize {
        0
    }
}

#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(windows, target_arch = "x86_64")
)))]
mod imp {
    use super::Found;

    pub(super) fn find(_: usize) -> Option<Found> {
        None
    }

    #[inline(always)]
    pub(super) fn resolve_trampoline(_: usize) -> usize {
        0
    }
}
