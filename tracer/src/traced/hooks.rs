//! Entering and leaving as hooks of compilers tell it, which every function of a program calls.
//!
//! Runs on traced threads; everything here is hot. The functions here are called by exported ones that have the names
//! which compilers give to their hooks.

use trace_format::record::{hook_enter_word, hook_leave_word};

use super::{record, scope, stack_record};
use crate::ring::clock;
use crate::shared::process;

/// Records that the function is entered in which `address` lies. `call_site` is the address to which it will return.
///
/// Off, this is one relaxed load. A program whose first record is made here writes raw files, has larger rings, and reads
/// the plain counter, unless its user says otherwise.
#[inline(always)]
pub fn enter(address: u64, call_site: u64) {
    if process::is_off() {
        return;
    }
    let ticks = clock::now();
    record::word_of_hook(ticks, hook_enter_word(address));
    if scope::wants_call_sites() {
        stack_record::record_call_site_of_hook(ticks, address, call_site);
    }
}

/// Records that the function is left whose entering was recorded with `address`; 0: the one that was entered last.
#[inline(always)]
pub fn leave(address: u64) {
    if !process::is_off() {
        record::word_of_hook(clock::now(), hook_leave_word(address));
    }
}
