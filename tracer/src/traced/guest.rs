//! This copy of the library as a guest, in a process that another copy owns: it joins the owner's run, and its tracing
//! is switched on and off together with the owner's.
//!
//! The code runs on the thread that decides whether the process traces, and on the owner's thread that switches
//! tracing.
#![allow(unsafe_code, reason = "functions that the owner calls; each argued")]

use std::ffi::c_void;
use std::fmt::Write as _;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::chosen::NamesOf;
use super::owner::interface;
use super::{hooks, own_ring, panic, scope};
use crate::copies::interface::{Guest, Interface, ON, Terms, UNDECIDED, Write};
use crate::copies::{self, Owner, Sink, note};
use crate::ring::clock;
use crate::shared::process::{self, STATE, announce};
use crate::shared::{ringless_records, sites, switched};
use crate::stack;
use crate::sys;
use crate::user::relay;
use crate::words::switch::Attempt;

/// This copy's functions that the owner calls.
static GUEST: Guest = Guest { switched: on_switched, names_of };

/// The interface of the owner of the process; null before this copy has looked for the owner. If this copy is the
/// owner, the interface is its own.
static OWNER: AtomicPtr<Interface> = AtomicPtr::new(std::ptr::null_mut());

/// The function of this copy's hooks that returns the names of a symbol; null before the first hook is called.
static NAMES_OF: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the copy that owns the process, or `None` if this copy does. The first call looks for the owner.
#[cold]
pub(super) fn owner() -> Option<Owner> {
    let known = OWNER.load(Ordering::Relaxed);
    // SAFETY: null, or a static of an object that stays loaded.
    let owner = unsafe { known.as_ref() }.unwrap_or_else(|| {
        let owner = note::find(interface()).owner.unwrap_or(interface());
        // Relaxed: it points to memory that was there before any code of this copy ran.
        OWNER.store(std::ptr::from_ref(owner).cast_mut(), Ordering::Relaxed);
        owner
    });
    (!std::ptr::eq(owner, interface())).then_some(Owner(owner))
}

/// Warns the user about copies of the library with which this copy cannot communicate.
pub(super) fn warn_of_incompatible_copies() {
    for version in note::find(interface()).incompatible_versions {
        relay::say(format_args!(
            "this process has another copy of the tracer, of version {version}, with which this one, of version {}, \
             cannot share files: each copy writes its own, and tracemerge merges them",
            env!("CARGO_PKG_VERSION")
        ));
    }
}

/// Applies the settings of the owner's run, `terms`, in this copy. Must be called before tracing is switched on in this
/// copy.
fn take(terms: Terms) {
    clock::set_kind(terms.clock);
    scope::set_call_sites(terms.call_sites != 0);
}

/// Ends the decision `attempt` as a guest of `owner`: takes over the owner's decision and settings, which are in
/// `terms`. Returns false if another thread has taken the decision over.
pub(super) fn join(attempt: Attempt, owner: Owner, terms: Terms) -> bool {
    take(terms);
    hooks::hand_over();
    copies::join(owner);
    if terms.stand == ON {
        begin_recording();
    }
    if !STATE.end_on(attempt, terms.stand != ON) {
        return false;
    }
    announce();
    true
}

/// Prepares this copy for its first record: makes sure that it is never unloaded, and that ends of threads and panics
/// are handled. As long as tracing was never on, a plugin that contains this copy can be unloaded.
#[inline(always)]
pub(super) fn begin_recording() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    #[cold]
    fn begin() {
        let _errno = sys::keep_errno();
        sys::stay_loaded();
        sys::create_exit_key(own_ring::on_thread_exit);
        panic::arm();
        BEGUN.store(true, Ordering::Relaxed);
    }
    // Relaxed: the flag only says that nothing is left to do.
    if !BEGUN.load(Ordering::Relaxed) {
        begin();
    }
}

/// Registers this copy with the owner, so that the owner tells it whenever tracing is switched on or off. Calls after
/// the first one do nothing.
pub(super) fn listen(owner: Owner) {
    static LISTENS: AtomicBool = AtomicBool::new(false);
    // Relaxed: the flag only says that nothing is left to do.
    if !LISTENS.swap(true, Ordering::Relaxed) {
        sys::call_when_unloaded(on_unloaded);
        owner.listen(&GUEST);
        // These records were made inside of the owner, while it decided.
        match ringless_records::without_ring() {
            0 => {}
            lost => owner.count_lost(lost),
        }
    }
}

fn on_unloaded() {
    if let Some(owner) = copies::joined() {
        owner.forget(&GUEST);
    }
}

/// Switches tracing on or off in this copy. The owner calls this when it has switched its own tracing.
unsafe extern "C" fn on_switched(terms: *const Terms) {
    // SAFETY: valid during the call, by the interface.
    let terms = unsafe { terms.read() };
    match terms.stand {
        UNDECIDED => return,
        ON => {
            take(terms);
            STATE.go_on();
            // The filter may be another one.
            sites::go_on();
        }
        _ => {
            STATE.pause();
            process::begin_era();
            sites::end();
        }
    }
    switched::call_listeners();
}

/// Stores this copy's function that returns the names of symbols, for the owner.
#[inline(always)]
pub(super) fn set_names_function(names_of: NamesOf) {
    if NAMES_OF.load(Ordering::Relaxed).is_null() {
        NAMES_OF.store(names_of as *mut (), Ordering::Relaxed);
    }
}

unsafe extern "C" fn names_of(symbol: *const u8, size: usize, sink: *mut c_void, write: Write) {
    // SAFETY: that many bytes are there, by the interface.
    let symbol = unsafe { slice::from_raw_parts(symbol, size) };
    let known = NAMES_OF.load(Ordering::Relaxed);
    let names_of: NamesOf = if known.is_null() {
        stack::names_of
    } else {
        // SAFETY: stored by `set_names_function`, from a function of this type.
        unsafe { std::mem::transmute::<*mut (), NamesOf>(known) }
    };
    let mut sink = Sink { sink, write };
    for name in names_of(symbol) {
        // The owner takes all.
        let _ = sink.write_str(&name);
    }
}
