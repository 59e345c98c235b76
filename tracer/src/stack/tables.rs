//! The unwind tables of a module: the function that contains an address in code, and the rule that unwinds its frame
//! there.
//!
//! The tables are in memory in every program that can panic or throw. They are read in place and without allocation,
//! so in a signal handler as well.

use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use gimli::AArch64;
#[cfg(target_arch = "x86_64")]
use gimli::X86_64;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};

use super::module::Module;
#[cfg(target_arch = "x86_64")]
use super::on_return::trampoline;
#[cfg(target_arch = "aarch64")]
use super::rules::FrameEnd;
use super::rules::Rule;

type Bytes = EndianSlice<'static, NativeEndian>;

/// The unwind tables' entry for one function.
pub(super) struct Entry {
    function: FrameDescriptionEntry<Bytes>,
    frames: EhFrame<Bytes>,
    bases: BaseAddresses,
    place: u64,
}

/// The size of `gimli`'s working memory: room for the rules of all registers that a function may save, and for one row
/// of rules that an unwind table saves and restores later.
struct Room;

/// The number of registers with rules: on x86-64 all, on aarch64 those that calls preserve.
const RULES: usize = if cfg!(target_arch = "x86_64") { 20 } else { 32 };

impl UnwindContextStorage<usize> for Room {
    type Rules = [(Register, RegisterRule<usize>); RULES];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

impl Entry {
    /// Finds the entry of the function that contains the instruction at `place`.
    pub(super) fn find(module: &Module, place: usize) -> Option<Entry> {
        let bytes = |address| Some(EndianSlice::new(module.bytes_from(address)?, NativeEndian));
        let index = module.unwind_index()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index as u64);
        let index = EhFrameHdr::from(bytes(index)?);
        let index = index.parse(&bases, 8).ok()?;
        let gimli::Pointer::Direct(start) = index.eh_frame_ptr() else { return None };
        #[allow(unused_mut, reason = "one processor has instructions of its own in these tables")]
        let mut frames = EhFrame::from(bytes(start as usize)?);
        #[cfg(target_arch = "aarch64")]
        frames.set_vendor(gimli::Vendor::AArch64);
        let bases = bases.set_eh_frame(start);
        let place = place as u64;
        let function = index.table()?.fde_for_address(&frames, &bases, place, EhFrame::cie_from_offset);
        Some(Entry { function: function.ok()?, frames, bases, place })
    }

    /// Returns the range of the function's code. If the compiler has split the function, it is the range of one part.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.function.initial_address() as usize;
        start..start + self.function.len() as usize
    }

    /// Returns the rule that unwinds the function's frame at the instruction for which the entry was found; `None` if
    /// [`Rule`] cannot express it.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn rule(&self) -> Option<Rule> {
        if self.function.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::<usize, Room>::new_in();
        let row = self.function.unwind_info_for_address(&self.frames, &self.bases, &mut context, self.place);
        let row = row.ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let by_frame_pointer = match register {
            AArch64::X29 => true,
            AArch64::SP => false,
            _ => return None,
        };
        let saved = |register| match row.register(register) {
            RegisterRule::Undefined | RegisterRule::SameValue => Some(0),
            RegisterRule::Offset(offset) => {
                usize::try_from(offset.checked_neg()?).ok().filter(|below| *below > 0 && below % 8 == 0)
            }
            _ => None,
        };
        let (distance, ret, fp) = (usize::try_from(offset).ok()?, saved(AArch64::X30)?, saved(AArch64::X29)?);
        Some(Rule::Ends(FrameEnd { by_frame_pointer, distance, ret, fp }))
    }

    /// Returns the rule that unwinds the function's frame at the instruction for which the entry was found; `None` if
    /// [`Rule`] cannot express it.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn rule(&self) -> Option<Rule> {
        if self.function.is_signal_trampoline() {
            return Some(Rule::Signal);
        }
        let mut context = UnwindContext::<usize, Room>::new_in();
        let row = self.function.unwind_info_for_address(&self.frames, &self.bases, &mut context, self.place);
        let row = row.ok()?;
        let (base, size) = match *row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => (register, usize::try_from(offset).ok()?),
            CfaRule::Expression(_) => return None,
        };
        match row.register(X86_64::RA) {
            RegisterRule::Undefined => return Some(Rule::Outermost),
            RegisterRule::Offset(-8) => {}
            _ => return None,
        }
        let saved = match row.register(X86_64::RBP) {
            RegisterRule::Undefined | RegisterRule::SameValue => 0,
            RegisterRule::Offset(offset) => usize::try_from(offset.checked_neg()?).ok()?,
            _ => return None,
        };
        match (base, size, saved) {
            (X86_64::RBP, 16, 16) => Some(Rule::FramePointer),
            (X86_64::RSP, size, saved) if size % 8 == 0 && saved % 8 == 0 && size >= 8 && saved <= size => {
                Some(Rule::StackPointer { size, saved })
            }
            _ => None,
        }
    }

    /// Returns the return address that is kept for the trampoline at `pc`, if the entry is that of the trampolines of
    /// `on_return!`, of this or another copy of this library.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn stored_return_address(&self, module: &Module, pc: usize) -> Option<usize> {
        let mut context = UnwindContext::<usize, Room>::new_in();
        let row = self.function.unwind_info_for_address(&self.frames, &self.bases, &mut context, self.place);
        let RegisterRule::Expression(kept) = row.ok()?.register(X86_64::RA) else { return None };
        let kept = kept.get(&self.frames).ok()?;
        (kept.0.slice() == trampoline::PLACE_OF_RETURN)
            .then(|| trampoline::stored_return_address(module, pc))?
    }
}
