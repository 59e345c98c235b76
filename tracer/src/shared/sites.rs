//! A site: the static behind one call of [`trace!`](crate::trace), and how its entry gets into the site table for
//! readers.
//!
//! The calls themselves are in `traced` and are hot. Sites that bridges make at run time are in `definition`. In this
//! module, which is not hot, the flusher writes the entries that describe sites to readers.

#![allow(unsafe_code, reason = "a list of statics, and a function pointer in an atomic; each argued")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use trace_format::sites::{self, Level, SiteKind};

use super::definition::Dynamic;
use super::process;
use super::run::Run;
use crate::copies::interface::{SITE_CAPTURED, SITE_IN_TABLE, SITE_WAITS};
use crate::copies::{self, Owner};
use crate::ring::clock;
use crate::user::filter::Filter;

/// The word of a site that is off. Every word larger than [`NEW`] belongs to a site that is on.
pub(crate) const OFF: u64 = 0;
pub(crate) const NEW: u64 = 1;
/// The word of a site that is on, that has no entry in the site table yet, and that formats its messages at the call.
/// The upper half of the word is 0, which is no signature.
pub(crate) const FORMATTED: u64 = 2;
/// The word of a site that waits for the flusher to write its table entry. Messages are formatted at the call.
const QUEUED: u64 = 3;
/// The word of a site for which a thread is about to store the types of the arguments.
const CLAIMED: u64 = 4;
/// The word of a site whose entry is in the site table, and whose messages are formatted at the call.
const IN_TABLE: u64 = 5;
/// The word of a site whose entry the flusher could not write: its messages are always formatted at the call.
const NEVER_CAPTURED: u64 = 6;

/// The static description of a call of `trace!`, with its number and its switch.
///
/// The states of `word`, and the threads that change it:
///
/// ```text
///          first_use: tracing is off, or the filter says no
///   NEW ───────────────────────────────────────────────────► OFF
///    │ first_use: on
///    ▼       a thread, with a compare-exchange    the thread     flusher: in the table (Release)
///   FORMATTED ─────────────────────────► CLAIMED ──────────► QUEUED ──────────► numbered
///                                           ▲                  │ flusher: arguments are not captured
///                                           │ a thread whose   ▼
///                                           └──────────── IN_TABLE
///                                             call captures
///
///   all ──► NEW, OFF: tracing is switched on again, is switched off; by the thread that decides
/// ```
///
/// A *numbered* word has the signature of the arguments' types in the upper 30 bits, the kind of the clock in the next
/// two, and the site's number in the lower half. So one load of the word is enough for the hot path. The load is
/// relaxed: the traced thread does not interpret the number, and the table, which the reader of captured arguments
/// needs, is written before the number can be seen.
///
/// A message that is formatted at the call has the number of its site from the first message on, before the table has
/// it: if the process is killed in between, the text is whole and only its site is unknown.
#[derive(Debug)]
pub struct Site {
    pub(crate) word: AtomicU64,
    /// The site's number; 0 before its first record. The number changes at most once, when the site begins to capture
    /// its arguments after its messages were formatted at the call: then the site gets another entry with another
    /// number, because an entry in the table never changes its meaning.
    number: AtomicU32,
    signature: AtomicU32,
    /// A `fn(&mut Vec<u8>)` that describes the arguments; null if they are not captured.
    describe: AtomicPtr<()>,
    /// Whether the table of a run of this process has the site's number; the tables of later runs have the number from
    /// their beginning.
    in_site_table: AtomicBool,
    /// Whether tracing was switched off while the site waited for the flusher to write its table entry. The entry is
    /// still needed, because rings hold records of the site.
    is_due: AtomicBool,
    /// Whether the site is in the list of all sites.
    listed: AtomicBool,
    next: AtomicPtr<Site>,
    pub(crate) place: Place,
    call: Call,
    /// The parts that only a site made at run time has; `None` for other sites.
    dynamic: Option<&'static Dynamic>,
    /// The site's entry for the table, if another copy of the library has announced the site; `None` for a site of this
    /// copy.
    of_guest: Option<&'static sites::Site>,
    /// The handle of this site in the copy of the library that owns the process; null if this copy owns the process, or
    /// if this site has not been announced to the owner.
    in_owner: AtomicPtr<c_void>,
}

/// The position of a call in the source of the program.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The path of the module, directly followed by the path of the source file. Both are one text because each
    /// separate text of a site takes 40 bytes of the program in addition to its letters.
    pub texts: &'static str,
    /// The number of bytes of the path of the module.
    pub module_len: u32,
    /// The line in the file, from 1.
    pub line: u32,
    /// The column in the line, from 1.
    pub column: u32,
    /// A function that returns the path of an item called `__here` in the body that contains the call.
    pub here: fn() -> &'static str,
}

impl Place {
    /// Returns the path of the module.
    pub(crate) fn module(&self) -> &'static str {
        self.texts.get(..self.module_len as usize).unwrap_or_default()
    }

    /// Returns the path of the source file.
    fn file(&self) -> &'static str {
        self.texts.get(self.module_len as usize..).unwrap_or_default()
    }
}

/// The name of the item whose path shows the function that contains a call.
const HERE: &str = "::__here";

/// The kind of a call of a macro, and the texts of the call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The kind of the records that the call makes.
    pub kind: SiteKind,
    /// Three parts, one after the other: the format string as it stands in the program, the format string that names
    /// the captured values by their numbers, and the names of the captured values, each with a zero byte after it.
    pub texts: &'static str,
    /// The numbers of bytes of the two format strings.
    pub format_lens: [u32; 2],
}

impl Call {
    /// Returns the format string as it stands in the program.
    fn template(&self) -> &'static str {
        self.texts.get(..self.format_lens[0] as usize).unwrap_or_default()
    }

    /// Returns the format string that names the captured values by their numbers, and the names of these values.
    fn format_and_names(&self) -> (&'static str, Vec<String>) {
        let rest = self.texts.get(self.format_lens[0] as usize..).unwrap_or_default();
        let (format, names) = rest.split_at_checked(self.format_lens[1] as usize).unwrap_or_default();
        (format, names.split_terminator('\0').map(str::to_owned).collect())
    }
}

/// The types of the arguments of a call that captures them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured {
    /// The signature of the types.
    pub signature: u32,
    /// Appends the descriptors of the types.
    pub describe: fn(&mut Vec<u8>),
}

impl Captured {
    /// A placeholder for a site that another copy of the library has announced: the types of the arguments are
    /// described by the site's entry.
    const OF_GUEST: Captured = Captured { signature: KINDS + 1, describe: |_| {} };
}

/// The bits of the upper half of a site's word that hold the kind of the clock.
pub(crate) const KINDS: u32 = 3;

/// The sites that were used while tracing was on, newest first. The sites are leaked, or are statics, which stay as
/// long as the object that contains them.
static ALL: AtomicPtr<Site> = AtomicPtr::new(std::ptr::null_mut());
/// The largest number that was given to a site.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// The filter that decides which sites are on. It is leaked because a site may use it at any time.
static FILTER: AtomicPtr<Filter> = AtomicPtr::new(std::ptr::null_mut());

impl Site {
    /// Makes a site that has not been used yet.
    #[must_use]
    pub const fn new(place: Place, call: Call) -> Site {
        Site {
            word: AtomicU64::new(NEW),
            number: AtomicU32::new(0),
            signature: AtomicU32::new(0),
            describe: AtomicPtr::new(std::ptr::null_mut()),
            in_site_table: AtomicBool::new(false),
            is_due: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
            place,
            call,
            dynamic: None,
            of_guest: None,
            in_owner: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Makes a site from an entry that another copy of the library has announced, and requests that the flusher puts
    /// the entry into the table. `is_captured` says whether the entry has the types of the arguments. The site stays
    /// for ever.
    pub(crate) fn of_guest(entry: sites::Site, is_captured: bool) -> &'static Site {
        let entry: &'static sites::Site = Box::leak(Box::new(entry));
        // The remaining texts are in the entry.
        let (texts, module_len) = (entry.module.as_str(), entry.module.len() as u32);
        let place = Place { texts, module_len, line: entry.line, column: entry.column, here: || "" };
        let call = Call { kind: entry.kind, texts: "", format_lens: [0, 0] };
        let site = Site { of_guest: Some(entry), word: AtomicU64::new(FORMATTED), ..Site::new(place, call) };
        let site: &'static Site = Box::leak(Box::new(site));
        site.list();
        site.request_entry(is_captured.then_some(Captured::OF_GUEST));
        site
    }

    /// Returns the state of a site that [`of_guest`](Site::of_guest) has made: [`SITE_WAITS`], [`SITE_IN_TABLE`] or
    /// [`SITE_CAPTURED`]. First requests the site's table entry, unless that was done since tracing was switched on.
    pub(crate) fn state_for_guest(&'static self) -> u32 {
        // NEW: tracing was switched on again since the last call. The guest has asked the filter already.
        let _ = self.word.compare_exchange(NEW, FORMATTED, Ordering::Relaxed, Ordering::Relaxed);
        let is_captured = self.signature.load(Ordering::Relaxed) == Captured::OF_GUEST.signature;
        self.request_entry(is_captured.then_some(Captured::OF_GUEST));
        // Acquire: a thread that sees the number may use it.
        match self.word.load(Ordering::Acquire) {
            IN_TABLE | NEVER_CAPTURED => SITE_IN_TABLE,
            word if word > NEVER_CAPTURED => SITE_CAPTURED,
            _ => SITE_WAITS,
        }
    }

    /// Returns the site with `dynamic`, the parts that only a site made at run time has.
    pub(crate) fn made_of(mut self, dynamic: &'static Dynamic) -> Site {
        self.dynamic = Some(dynamic);
        self
    }

    /// Returns the parts that only a site made at run time has; `None` for other sites.
    #[inline(always)]
    pub(crate) fn dynamic(&self) -> Option<&'static Dynamic> {
        self.dynamic
    }

    /// Returns whether the filter allows the records of the site.
    pub(crate) fn is_allowed(&self) -> bool {
        match self.dynamic {
            Some(dynamic) => is_allowed(dynamic.definition.filtered_by(), dynamic.definition.level),
            None => is_allowed(self.place.module(), Level::None),
        }
    }

    /// Adds the site to the list of all sites, unless it is there already.
    pub(crate) fn list(&'static self) {
        if self.listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut first = ALL.load(Ordering::Relaxed);
        loop {
            self.next.store(first, Ordering::Relaxed);
            let this = std::ptr::from_ref(self).cast_mut();
            // Release: a thread that walks the list sees `next`.
            match ALL.compare_exchange_weak(first, this, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Returns the site's number, for a message that is formatted at the call; 0 before the site's first record.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Requests that the flusher writes the site's table entry, unless a thread has requested that before. Afterwards
    /// the site has a number. `captured` has the types of the arguments, if the arguments can be captured.
    pub(crate) fn request_entry(&'static self, captured: Option<Captured>) {
        // Acquire: see `first_use`.
        let _ = self.word.load(Ordering::Acquire);
        if let Some(owner) = copies::joined() {
            return self.request_entry_from_owner(owner, captured);
        }
        if self.number() == 0 {
            // A thread that comes second takes the first one's number; its own number stays unused.
            let fresh = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            let _ = self.number.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        }
        let word = self.word.load(Ordering::Relaxed);
        let is_asked_for = word == FORMATTED || (word == IN_TABLE && captured.is_some());
        let claim = |word| self.word.compare_exchange(word, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        if !is_asked_for || claim(word).is_err() {
            return;
        }
        // Acquire: see `write_queued_entries`.
        let in_site_table = self.in_site_table.load(Ordering::Acquire);
        let is_captured = !self.describe.load(Ordering::Relaxed).is_null();
        match captured {
            Some(captured) if in_site_table && is_captured => {
                // Tracing was switched on before; this run's table has had it from the beginning.
                let same = self.signature.load(Ordering::Relaxed) == captured.signature;
                let word = if same { numbered_word(captured.signature, self.number()) } else { FORMATTED };
                self.word.store(word, Ordering::Relaxed);
                return;
            }
            None if in_site_table => return self.word.store(IN_TABLE, Ordering::Relaxed),
            Some(captured) => {
                if in_site_table {
                    // Another instance of a generic function, whose arguments cannot be captured, was first.
                    self.in_site_table.store(false, Ordering::Relaxed);
                    self.number.store(NUMBERS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                self.signature.store(captured.signature, Ordering::Relaxed);
                self.describe.store(captured.describe as *mut (), Ordering::Relaxed);
            }
            None => {}
        }
        // Release: the flusher that sees it queued sees the stores above.
        self.word.store(QUEUED, Ordering::Release);
        if let Some(run) = process::current().filter(|run| run.is_of_this_process()) {
            run.sites_queued.store(true, Ordering::Release);
            // Sites whose messages are formatted in any case can wait. A function's name is only in the table.
            if captured.is_some() || self.call.kind != SiteKind::Message {
                run.wake.wake();
            }
        }
    }

    /// Does what [`request_entry`](Site::request_entry) does, through the copy of the library that owns the process.
    /// The owner makes a site of its own, and this site takes the number of the owner's site.
    #[cold]
    #[inline(never)]
    fn request_entry_from_owner(&'static self, owner: Owner, captured: Option<Captured>) {
        let publish_entry = |is_captured| {
            let mut entry = Vec::new();
            self.entry().write(&mut entry);
            owner.new_site(&entry, is_captured)
        };
        let word = self.word.load(Ordering::Relaxed);
        let is_asked_for = word == FORMATTED || (word == IN_TABLE && captured.is_some());
        let claim = |word| self.word.compare_exchange(word, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        if !is_asked_for || claim(word).is_err() {
            if self.number() == 0 {
                // Another thread is about to announce the site, but the site needs a number now, because a function's
                // name is only in the table: so the site is announced twice.
                let _ = self.number.compare_exchange(
                    0,
                    publish_entry(false).0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            return;
        }
        let is_captured = !self.describe.load(Ordering::Relaxed).is_null();
        if self.in_owner.load(Ordering::Relaxed).is_null() || (captured.is_some() && !is_captured) {
            if let Some(captured) = captured {
                self.signature.store(captured.signature, Ordering::Relaxed);
                self.describe.store(captured.describe as *mut (), Ordering::Relaxed);
            }
            let (number, site) = publish_entry(captured.is_some());
            self.number.store(number, Ordering::Relaxed);
            self.in_owner.store(site.cast_mut(), Ordering::Relaxed);
        }
        let site = self.in_owner.load(Ordering::Relaxed);
        // SAFETY: not null, and `new_site` has returned it.
        let owner_state = if site.is_null() { SITE_WAITS } else { unsafe { owner.site_state(site) } };
        let signature = self.signature.load(Ordering::Relaxed);
        let is_same = captured.is_some_and(|captured| captured.signature == signature);
        let word = match owner_state {
            SITE_CAPTURED if is_same => numbered_word(signature, self.number()),
            SITE_IN_TABLE if captured.is_none() => IN_TABLE,
            // The next message asks again.
            _ => FORMATTED,
        };
        self.word.store(word, Ordering::Relaxed);
    }

    /// Returns the site's entry for the table. The flusher calls this for sites that are queued or in the table, and a
    /// guest calls it for a site that it announces to the owner.
    fn entry(&self) -> sites::Site {
        if let Some(entry) = self.of_guest {
            return sites::Site { id: self.number(), ..entry.clone() };
        }
        let describe = self.describe.load(Ordering::Relaxed);
        let mut descriptor = Vec::new();
        if let Some(dynamic) = self.dynamic {
            dynamic.types.iter().for_each(|value_type| value_type.describe(&mut descriptor));
        } else if !describe.is_null() {
            // SAFETY: stored by `request_entry`, from a function pointer of this type.
            let describe = unsafe { std::mem::transmute::<*mut (), fn(&mut Vec<u8>)>(describe) };
            describe(&mut descriptor);
        }
        let (place, call) = (&self.place, &self.call);
        let (format, names) = if describe.is_null() { ("", Vec::new()) } else { call.format_and_names() };
        let defined = self.dynamic.map(|dynamic| &dynamic.definition);
        let function = defined.map_or_else(|| function_of((place.here)()), |defined| &defined.function);
        sites::Site {
            id: self.number(),
            line: place.line,
            column: place.column,
            module: place.module().to_owned(),
            file: place.file().to_owned(),
            format: format.to_owned(),
            descriptor,
            function: function.to_owned(),
            level: defined.map_or(Level::None, |defined| defined.level),
            target: defined.map_or_else(String::new, |defined| defined.target.clone()),
            template: call.template().to_owned(),
            names,
            kind: call.kind,
            shares_line: false,
        }
    }
}

/// Returns the path of the function that contains the item with the path `here`: the path without the item's name and
/// without closures.
fn function_of(here: &str) -> &str {
    let mut function = here.strip_suffix(HERE).unwrap_or(here);
    while let Some(outer) = function.strip_suffix("::{{closure}}") {
        function = outer;
    }
    function
}

/// Returns the filter that decides which sites are on, if there is one.
#[inline]
pub(crate) fn filter() -> Option<&'static Filter> {
    let filter = FILTER.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `begin` and never changed.
    unsafe { filter.as_ref() }
}

/// Returns true if there is no filter, so that any record may be on; always false if this copy of the library is the
/// guest of another copy. This is two loads.
#[inline(always)]
pub(crate) fn allows_everything() -> bool {
    copies::joined().is_none() && filter().is_none()
}

/// Returns whether the filter allows records of this level and this name. The name is a module path or a target.
pub(crate) fn is_allowed(name: &str, level: Level) -> bool {
    if let Some(owner) = copies::joined() {
        return owner.is_allowed(name, level as u8);
    }
    filter().is_none_or(|filter| filter.allows(name, level))
}

/// The number of entries of the cache of sites that were made at run time; sites in the cache are found without a lock.
/// A power of two.
const CACHE_ENTRIES: usize = 512;

/// The sites made at run time that were met last, each at the index that its key gives. Release and Acquire: a thread
/// that finds a site sees its contents. Sites are never freed, so a site that is found late can be used as well.
static SITE_CACHE: [AtomicPtr<Site>; CACHE_ENTRIES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CACHE_ENTRIES];

/// Returns the site that was made at run time with this key, if it is in the cache of the sites that were met last.
#[inline(always)]
pub(crate) fn met(key: u64) -> Option<&'static Site> {
    let met = SITE_CACHE[key as usize % CACHE_ENTRIES].load(Ordering::Acquire);
    // SAFETY: null, or a site that stays for ever, of `cache_site`.
    let met = unsafe { met.as_ref() }?;
    (met.dynamic()?.key == key).then_some(met)
}

/// Puts a site into the cache of [`met`], where it replaces the site with the same index.
pub(crate) fn cache_site(site: &'static Site) {
    if let Some(dynamic) = site.dynamic {
        let site = std::ptr::from_ref(site).cast_mut();
        SITE_CACHE[dynamic.key as usize % CACHE_ENTRIES].store(site, Ordering::Release);
    }
}

/// Returns all sites that were used, newest first.
fn all() -> impl Iterator<Item = &'static Site> {
    let mut next = ALL.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: null, or a static that was listed.
        let site = unsafe { next.as_ref() }?;
        next = site.next.load(Ordering::Relaxed);
        Some(site)
    })
}

/// Resets each site, so that its next call checks again whether it is on, because tracing was switched on.
pub(crate) fn begin(filter: Option<Filter>) {
    let filter = filter.map_or(std::ptr::null_mut(), |filter| Box::leak(Box::new(filter)));
    FILTER.store(filter, Ordering::Release);
    fence(Ordering::SeqCst);
    for site in all() {
        // A function that was entered before, for example in the process that this one was forked from, is left by
        // its number: the table of this run, which is made after this, has all sites that have one.
        if site.number() != 0 {
            site.in_site_table.store(true, Ordering::Release);
        }
        site.is_due.store(false, Ordering::Relaxed);
        site.word.store(NEW, Ordering::Relaxed);
    }
}

/// Resets each site, so that its next call checks again whether it is on, because tracing was resumed in the same run.
pub(crate) fn go_on() {
    fence(Ordering::SeqCst);
    for site in all() {
        site.word.store(NEW, Ordering::Relaxed);
    }
}

/// Returns the entries of the sites that are in a site table already, or whose numbers readers may meet, oldest first.
/// The flusher begins a new table with them.
pub(crate) fn in_site_table() -> Vec<sites::Site> {
    // Acquire: see `write_queued_entries`.
    let mut entries: Vec<_> =
        all().filter(|site| site.in_site_table.load(Ordering::Acquire)).map(Site::entry).collect();
    trace_store::sorting::sort(&mut entries, |a, b| a.id < b.id);
    entries
}

/// Switches all sites off, because tracing was switched off.
pub(crate) fn end() {
    // `first_use` has the other half of this handshake.
    fence(Ordering::SeqCst);
    let mut is_due = false;
    for site in all() {
        // Acquire: the flusher, which sees it due by this thread, sees the stores of the thread that queued it.
        if site.word.swap(OFF, Ordering::Acquire) == QUEUED {
            site.is_due.store(true, Ordering::Relaxed);
            is_due = true;
        }
    }
    if let Some(run) = process::current().filter(|run| is_due && run.is_of_this_process()) {
        // Release: the flusher sees which sites are due.
        run.sites_queued.store(true, Ordering::Release);
    }
}

/// Returns the word of a site with this number and this signature; adds the kind of the run's clock.
fn numbered_word(signature: u32, number: u32) -> u64 {
    let upper = signature & !KINDS | clock::kind();
    u64::from(upper) << 32 | u64::from(number)
}

/// Passes the entries of all queued sites to `publish_entry`, which writes an entry for readers. If
/// `publish_entry` returns false for a site, the site's messages are always formatted at the call.
pub(crate) fn write_queued_entries(run: &Run, mut publish_entry: impl FnMut(sites::Site) -> bool) {
    if !run.sites_queued.swap(false, Ordering::Acquire) {
        return;
    }
    // Acquire: as `request_entry` says.
    let waits = |site: &Site| {
        site.word.load(Ordering::Acquire) == QUEUED || site.is_due.swap(false, Ordering::Relaxed)
    };
    for site in all().filter(|site| waits(site)) {
        let word = if !publish_entry(site.entry()) {
            NEVER_CAPTURED
        } else {
            // Release: a forked child that sees this sees the number and the types, too.
            site.in_site_table.store(true, Ordering::Release);
            let is_captured = !site.describe.load(Ordering::Relaxed).is_null();
            let signature = site.signature.load(Ordering::Relaxed);
            if is_captured { numbered_word(signature, site.number()) } else { IN_TABLE }
        };
        // Release: a reader of a record with this number finds the entry. Fails if tracing was switched off.
        let _ = site.word.compare_exchange(QUEUED, word, Ordering::Release, Ordering::Relaxed);
    }
}
