//! A site: the static behind one call of [`trace!`](crate::trace), and how it gets its number.
//!
//! The calls themselves are in `traced`, and hot; here the flusher gives sites their numbers, which is not.

#![allow(unsafe_code, reason = "a list of statics, and a function pointer in an atomic; each argued")]

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use trace_format::sites;

use super::process;
use super::run::Run;
use crate::ring::clock;
use crate::user::filter::Filter;

/// The word of a site that is off. Every word larger than [`NEW`] is that of a site that is on.
pub(crate) const OFF: u64 = 0;
pub(crate) const NEW: u64 = 1;
/// The word of a site that is on, and whose messages are formatted at the call. The upper half is no
/// signature.
pub(crate) const FORMATTED: u64 = 2;
/// The word of a site that formats messages at the call until the flusher has given it a number.
const QUEUED: u64 = 3;

/// A call of `trace!`, and all that is known of it.
///
/// `word`, and who changes it:
///
/// ```text
///          first_use: tracing is off, or the filter says no
///   NEW ───────────────────────────────────────────────────► OFF
///    │ first_use: on
///    ▼       a thread, with a compare-exchange    the thread   flusher: in the table (Release)
///   FORMATTED ─────────────────────────► CLAIMED ──────────► QUEUED ──────────► numbered
///   (and stays so if some argument cannot be captured)
///
///   all ──► NEW, OFF: tracing is switched on anew, is switched off; by the thread that decides
/// ```
///
/// Numbered: the signature of the arguments' types in the upper 30 bits, the kind of the clock in the next
/// two, the number in the lower half. So the one load of it tells the hot path everything. The load is
/// relaxed: a number means nothing to the traced thread, and what the reader of a record needs, the table, is
/// written before the number can be seen.
#[derive(Debug)]
pub struct Site {
    pub(crate) word: AtomicU64,
    /// The number, once the site has one; it is kept as long as the process lives.
    number: AtomicU32,
    signature: AtomicU32,
    /// A `fn(&mut Vec<u8>)` that describes the arguments.
    describe: AtomicPtr<()>,
    /// Tells that the site is in the list of all sites.
    listed: AtomicBool,
    next: AtomicPtr<Site>,
    pub(crate) module: &'static str,
    file: &'static str,
    line: u32,
    column: u32,
    format: &'static str,
}

/// The word of a site of which a thread is about to say what the arguments are.
const CLAIMED: u64 = 4;
/// The bits of the upper half that hold the kind of the clock.
pub(crate) const KINDS: u32 = 3;

/// The sites that were used while tracing was on, newest first. They are statics: they stay as long as the
/// object that they are in.
static ALL: AtomicPtr<Site> = AtomicPtr::new(std::ptr::null_mut());
/// The largest number given.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// The filter that says which sites are on. It is leaked, for a site may ask at any time.
static FILTER: AtomicPtr<Filter> = AtomicPtr::new(std::ptr::null_mut());

impl Site {
    /// Makes a site that nobody has used yet.
    #[must_use]
    pub const fn new(
        module: &'static str,
        file: &'static str,
        line: u32,
        column: u32,
        format: &'static str,
    ) -> Site {
        Site {
            word: AtomicU64::new(NEW),
            number: AtomicU32::new(0),
            signature: AtomicU32::new(0),
            describe: AtomicPtr::new(std::ptr::null_mut()),
            listed: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
            module,
            file,
            line,
            column,
            format,
        }
    }

    /// Adds the site to the list, once.
    pub(crate) fn list(&'static self) {
        if self.listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut first = ALL.load(Ordering::Relaxed);
        loop {
            self.next.store(first, Ordering::Relaxed);
            let this = std::ptr::from_ref(self).cast_mut();
            // Release: who walks the list sees `next`.
            match ALL.compare_exchange_weak(first, this, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Has the flusher give the site its number; the first of several threads does it.
    pub(crate) fn ask_for_number(&'static self, signature: u32, describe: fn(&mut Vec<u8>)) {
        let number = self.number.load(Ordering::Acquire);
        if number != 0 {
            // It had one when tracing was switched on before; another run's table has it as well.
            if self.signature.load(Ordering::Relaxed) == signature {
                self.word.store(numbered_word(signature, number), Ordering::Relaxed);
            }
            return;
        }
        if self.word.compare_exchange(FORMATTED, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        self.signature.store(signature, Ordering::Relaxed);
        self.describe.store(describe as *mut (), Ordering::Relaxed);
        // Release: the flusher that sees it queued sees the two above.
        self.word.store(QUEUED, Ordering::Release);
        if let Some(run) = process::current().filter(|run| run.is_of_this_process()) {
            run.sites_queued.store(true, Ordering::Release);
            run.wake.wake();
        }
    }

    /// Gives what the table says of the site. For the flusher; the site is queued or has its number.
    fn entry(&self, number: u32) -> sites::Site {
        let describe = self.describe.load(Ordering::Relaxed);
        let mut descriptor = Vec::new();
        if !describe.is_null() {
            // SAFETY: stored by `ask_for_number`, from a function pointer of this type.
            let describe = unsafe { std::mem::transmute::<*mut (), fn(&mut Vec<u8>)>(describe) };
            describe(&mut descriptor);
        }
        sites::Site {
            id: number,
            line: self.line,
            column: self.column,
            module: self.module.to_owned(),
            file: self.file.to_owned(),
            format: self.format.to_owned(),
            descriptor,
        }
    }
}

/// Gives the filter that says which sites are on, if there is one.
pub(crate) fn filter() -> Option<&'static Filter> {
    let filter = FILTER.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `begin` and never changed.
    unsafe { filter.as_ref() }
}

/// Gives all sites that were used, newest first.
fn all() -> impl Iterator<Item = &'static Site> {
    let mut next = ALL.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null, or a static that was listed.
        let site = unsafe { next.as_ref() }?;
        next = site.next.load(Ordering::Relaxed);
        Some(site)
    })
}

/// Has each site asked anew whether it is on, since tracing is switched on.
pub(crate) fn begin(filter: Option<Filter>) {
    let filter = filter.map_or(std::ptr::null_mut(), |filter| Box::leak(Box::new(filter)));
    FILTER.store(filter, Ordering::Release);
    fence(Ordering::SeqCst);
    for site in all() {
        site.word.store(NEW, Ordering::Relaxed);
    }
}

/// Gives the sites that have a number, oldest first. For the flusher of a new run, whose table is empty.
pub(crate) fn numbered() -> Vec<sites::Site> {
    let number = |site: &'static Site| Some(site.number.load(Ordering::Acquire)).filter(|n| *n != 0);
    let mut entries: Vec<_> = all().filter_map(|site| Some(site.entry(number(site)?))).collect();
    entries.sort_by_key(|entry| entry.id);
    entries
}

/// Switches all sites off, since tracing is off.
pub(crate) fn end() {
    // See `first_use` for the other half.
    fence(Ordering::SeqCst);
    for site in all() {
        site.word.store(OFF, Ordering::Relaxed);
    }
}

/// Makes the word of a site that has a number, for the clock that is read now.
fn numbered_word(signature: u32, number: u32) -> u64 {
    let upper = signature & !KINDS | clock::kind();
    u64::from(upper) << 32 | u64::from(number)
}

/// Gives numbers to the sites that wait for one. `tell` writes an entry where readers will find it; a site
/// whose entry it refuses goes on formatting at the call.
pub(crate) fn give_numbers(run: &Run, mut tell: impl FnMut(sites::Site) -> bool) {
    if !run.sites_queued.swap(false, Ordering::Acquire) {
        return;
    }
    // Acquire: as `ask_for_number` says.
    for site in all().filter(|site| site.word.load(Ordering::Acquire) == QUEUED) {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        if tell(site.entry(number)) {
            // Release: a forked child that sees the number sees what goes with it.
            site.number.store(number, Ordering::Release);
            let word = numbered_word(site.signature.load(Ordering::Relaxed), number);
            // Release: whoever reads a record with this number finds the entry. Unless tracing was switched
            // off.
            let _ = site.word.compare_exchange(QUEUED, word, Ordering::Release, Ordering::Relaxed);
        } else {
            site.word.store(CLAIMED, Ordering::Relaxed);
        }
    }
}
