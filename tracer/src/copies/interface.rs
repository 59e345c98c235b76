//! The interface between copies of the library: C functions, and nothing that depends on a compiler.
//!
//! A change here, or to the layout of records, needs another [`VERSION`].

use std::ffi::c_void;

/// The version of this interface and of the records that are passed through it.
#[cfg_attr(
    not(all(target_os = "linux", not(miri))),
    allow(dead_code, reason = "copies do not meet elsewhere")
)]
pub(crate) const VERSION: u32 = 4;

/// A function that passes `size` bytes of text, which need not be UTF-8, to the receiver `sink`; returns false if the
/// receiver wants no more.
pub(crate) type Write = unsafe extern "C" fn(sink: *mut c_void, text: *const u8, size: usize) -> bool;
/// A function that formats a message, by calls of `write` with `sink`; returns `FORMATTED`, `FAILED` or `PANICKED`.
pub(crate) type Format = unsafe extern "C" fn(message: *const c_void, sink: *mut c_void, write: Write) -> u32;

/// The first of the three results of [`Format`]: the whole message was formatted (`FORMATTED`), formatting has returned
/// an error (`FAILED`), or it has panicked (`PANICKED`).
pub(crate) const FORMATTED: u32 = 0;
pub(crate) const FAILED: u32 = 1;
pub(crate) const PANICKED: u32 = 2;

/// The first of the three states of the decision whether the process traces, as a guest sees them: the decision cannot
/// be made now (`UNDECIDED`), nothing is recorded (`QUIET`), or tracing is on (`ON`).
pub(crate) const UNDECIDED: u32 = 0;
pub(crate) const QUIET: u32 = 1;
pub(crate) const ON: u32 = 2;

/// The state of a guest's site that was announced to the owner, but whose entry is not in the table of sites yet.
pub(crate) const SITE_WAITS: u32 = 0;
/// The state of a guest's site whose entry is in the table of sites, but whose arguments may not be captured.
pub(crate) const SITE_IN_TABLE: u32 = 1;
/// The state of a guest's site whose entry is in the table of sites, and whose arguments may be captured.
pub(crate) const SITE_CAPTURED: u32 = 2;

/// The first of the two kinds of ids that have to be unique among all copies of the library: the ids of spans
/// (`SPANS`), and those of locks (`LOCKS`).
pub(crate) const SPANS: u32 = 0;
pub(crate) const LOCKS: u32 = 1;

/// The first of the three moments of a panic that a guest reports to its owner: the program's panic hook is about to
/// run (`PANIC_BEGINS`), the hook has run (`PANIC_WAS_REPORTED`), and the panic begins to unwind (`PANIC_UNWINDS`).
pub(crate) const PANIC_BEGINS: u32 = 0;
pub(crate) const PANIC_WAS_REPORTED: u32 = 1;
pub(crate) const PANIC_UNWINDS: u32 = 2;

/// The settings of the owner's run that a guest needs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Terms {
    /// The decision whether the process traces: [`UNDECIDED`], [`QUIET`] or [`ON`].
    pub stand: u32,
    /// The kind of the clock, as [`kind`](crate::ring::clock::kind) returns it.
    pub clock: u32,
    /// 1 if function entries also record their call sites.
    pub call_sites: u32,
}

/// Counters of the owner's run.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Counters {
    pub enabled: u64,
    pub records: u64,
    pub lost: u64,
    pub stalls: u64,
    pub stall_ns: u64,
    pub bytes_written: u64,
    pub shared_rings: u64,
    pub private_rings: u64,
}

/// The functions that a guest offers to its owner.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guest {
    /// Notifies the guest that tracing was switched, or has new settings.
    pub switched: unsafe extern "C" fn(terms: *const Terms),
    /// Calls `add` with `sink` and each name of the function that has the given symbol of `size` bytes.
    pub names_of: unsafe extern "C" fn(symbol: *const u8, size: usize, sink: *mut c_void, add: Write),
}

/// The functions that an owner offers to its guests. None of them unwinds. Ticks come from the clock that
/// [`Terms::clock`] names.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Interface {
    /// The version of the package, padded with zeros. It is the first field in every version.
    pub package: [u8; 16],
    /// Decides whether the process traces, unless that is decided, and stores the settings for the guest in `terms`.
    /// `every_function` says whether a compiler's hook makes the first record.
    pub decide: unsafe extern "C" fn(every_function: bool, terms: *mut Terms),
    /// Switches the process's tracing on, and stores the settings for the guest in `terms`.
    pub start: unsafe extern "C" fn(terms: *mut Terms),
    /// Registers a guest: notifies it of the current state at once, and whenever tracing is switched from now on.
    pub listen: extern "C" fn(guest: &'static Guest),
    /// Forgets a guest, which is about to be unloaded. Waits, at most a second, while the guest is being notified.
    pub forget: extern "C" fn(guest: &'static Guest),
    /// Counts as lost the `records` that a guest could not pass on.
    pub count_lost: extern "C" fn(records: u64),
    /// Makes a record that consists of 64-bit words: `word` is word 0, and the payload has `count` words.
    pub words: unsafe extern "C" fn(ticks: u64, word: u64, payload: *const u64, count: usize),
    /// Records a message that `format` formats. `site` is the number of the message's site, or 0 for no site.
    pub message: unsafe extern "C" fn(ticks: u64, site: u32, message: *const c_void, format: Format),
    /// Records the captured arguments of a site, `size` bytes; returns false if the message has to be formatted
    /// instead.
    pub capture: unsafe extern "C" fn(ticks: u64, site: u32, bytes: *const u8, size: usize) -> bool,
    /// Records the entry, reported by a hook, of the function that contains `address`. The function will return to
    /// `call_site`.
    pub enter: extern "C" fn(ticks: u64, address: u64, call_site: u64),
    /// Records the exit, reported by a hook, of the function that was entered with `address`. If `address` is 0, this
    /// is the function that was entered last. `inside` is an address in the function that is left.
    pub leave: extern "C" fn(ticks: u64, address: u64, inside: u64),
    /// Returns whether the calling thread is inside a record, or inside the owner's own code.
    pub is_inside: extern "C" fn() -> bool,
    /// Returns the ticks of the last record of the calling thread; 0 if the thread has made none.
    pub last_ticks: extern "C" fn() -> u64,
    /// Adds a site, given the bytes of its entry in the table of sites. `is_captured` says whether the entry has the
    /// types of the arguments. Stores the site's number, and returns a handle for [`Interface::site_state`], or null.
    pub new_site: unsafe extern "C" fn(
        entry: *const u8,
        size: usize,
        is_captured: bool,
        number: *mut u32,
    ) -> *const c_void,
    /// Returns the state of a site: `SITE_WAITS`, `SITE_IN_TABLE` or `SITE_CAPTURED`.
    pub site_state: unsafe extern "C" fn(site: *const c_void) -> u32,
    /// Returns whether the filter allows records of this level and this name. The name is a module path or a target.
    pub is_allowed: unsafe extern "C" fn(name: *const u8, size: usize, level: u8) -> bool,
    /// Returns the largest level that the filter allows.
    pub largest_level: extern "C" fn() -> u8,
    /// Reserves `count` consecutive ids of a kind, [`SPANS`] or [`LOCKS`], for the calling copy alone; returns the
    /// first of them.
    pub numbers: extern "C" fn(kind: u32, count: u64) -> u64,
    /// Waits until all records that were made before are in the files; returns 0 or the number of a system error.
    pub flush: extern "C" fn() -> i32,
    /// Waits until the module table has the modules that are loaded now.
    pub look_at_modules: extern "C" fn(),
    /// Stores the counters of the run in `counters`.
    pub count: unsafe extern "C" fn(counters: *mut Counters),
    /// Catches the signals that end the process.
    pub catch_signals: extern "C" fn(),
    /// Reports that a panic of the calling thread has reached `moment`, such as [`PANIC_BEGINS`].
    pub panic: extern "C" fn(moment: u32),
}
