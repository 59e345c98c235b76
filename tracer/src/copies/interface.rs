//! What copies of the library offer each other: functions of C, and nothing that depends on a compiler.
//!
//! Whatever is changed here, or in the layout of records, gets another [`VERSION`].

use std::ffi::c_void;

/// The version of this interface and of the records that are passed through it.
#[cfg_attr(
    not(all(target_os = "linux", not(miri))),
    allow(dead_code, reason = "copies do not meet elsewhere")
)]
pub(crate) const VERSION: u32 = 2;

/// The function by which text is given to a sink; false: no more is wanted.
pub(crate) type Write = unsafe extern "C" fn(sink: *mut c_void, text: *const u8, size: usize) -> bool;
/// The function by which a message is formatted, into `write` with its `sink`: one of `FORMATTED`, `FAILED`, `PANICKED`.
pub(crate) type Format = unsafe extern "C" fn(message: *const c_void, sink: *mut c_void, write: Write) -> u32;

/// The outcomes of [`Format`].
pub(crate) const FORMATTED: u32 = 0;
pub(crate) const FAILED: u32 = 1;
pub(crate) const PANICKED: u32 = 2;

/// The meaning of a process's decision to a guest: nobody can decide now, nothing is recorded, or tracing is on.
pub(crate) const UNDECIDED: u32 = 0;
pub(crate) const QUIET: u32 = 1;
pub(crate) const ON: u32 = 2;

/// What has become of a site that a guest has told.
pub(crate) const SITE_WAITS: u32 = 0;
/// Readers know the site; its arguments may not be captured yet.
pub(crate) const SITE_TOLD: u32 = 1;
/// Readers know the site, and its arguments may be captured.
pub(crate) const SITE_CAPTURED: u32 = 2;

/// The kinds of numbers that no two copies may give.
pub(crate) const SPANS: u32 = 0;
pub(crate) const LOCKS: u32 = 1;

/// The moments of a panic.
pub(crate) const PANIC_BEGINS: u32 = 0;
pub(crate) const PANIC_WAS_TOLD: u32 = 1;
pub(crate) const PANIC_UNWINDS: u32 = 2;

/// What a guest needs to know of the owner's run.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Terms {
    /// [`UNDECIDED`], [`QUIET`] or [`ON`].
    pub stand: u32,
    /// The kind of the clock, as the words of sites have it.
    pub clock: u32,
    /// 1 where the enterings of functions also record where they were called from.
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

/// What a guest offers to its owner.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guest {
    /// Tells that tracing was switched, or set anew.
    pub switched: unsafe extern "C" fn(terms: *const Terms),
    /// Gives `add` the names of a function by its symbol, of `size` bytes.
    pub names_of: unsafe extern "C" fn(symbol: *const u8, size: usize, sink: *mut c_void, add: Write),
}

/// What an owner offers to its guests. None of the functions unwinds. Ticks are those of the clock that [`Terms`] name.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Interface {
    /// The version of the package, with zeros behind it. It is the first field in every version.
    pub package: [u8; 16],
    /// Decides whether the process traces, if nobody has, and stores what a guest needs to know. `every_function`: the first
    /// record is one of a hook.
    pub decide: unsafe extern "C" fn(every_function: bool, terms: *mut Terms),
    /// Has the process trace, and stores what a guest needs to know.
    pub start: unsafe extern "C" fn(terms: *mut Terms),
    /// Has a guest told when tracing is switched, from now on. It is told at once how it stands.
    pub listen: extern "C" fn(guest: &'static Guest),
    /// Forgets a guest, which is about to be unloaded. Waits, at most a second, while it is being told something.
    pub forget: extern "C" fn(guest: &'static Guest),
    /// Counts records as lost that a guest could not pass on.
    pub lose: extern "C" fn(records: u64),
    /// Records `count` words behind word 0, which is `word`.
    pub words: unsafe extern "C" fn(ticks: u64, word: u64, payload: *const u64, count: usize),
    /// Records a message of a site (0: of none), which `format` formats.
    pub message: unsafe extern "C" fn(ticks: u64, site: u32, message: *const c_void, format: Format),
    /// Records the captured arguments of a site; false where the message is to be formatted.
    pub capture: unsafe extern "C" fn(ticks: u64, site: u32, bytes: *const u8, size: usize) -> bool,
    /// Records that a hook tells of the entering of the function in which `address` lies, which will return to `call_site`.
    pub enter: extern "C" fn(ticks: u64, address: u64, call_site: u64),
    /// Records that a hook tells of the leaving of the function that was entered with `address`; 0: of the one that was entered
    /// last. `inside` is an address in it.
    pub leave: extern "C" fn(ticks: u64, address: u64, inside: u64),
    /// Returns whether the calling thread is inside of a record, or of the owner's own code.
    pub is_inside: extern "C" fn() -> bool,
    /// Returns the ticks of the thread's last record; 0 where it has none.
    pub last_ticks: extern "C" fn() -> u64,
    /// Takes a site by the bytes of its entry in the table of sites; `is_captured`: it has types of arguments. Stores its
    /// number, and returns what stands for it in [`Interface::site_stand`], or null.
    pub new_site: unsafe extern "C" fn(
        entry: *const u8,
        size: usize,
        is_captured: bool,
        number: *mut u32,
    ) -> *const c_void,
    /// Returns what has become of a site.
    pub site_stand: unsafe extern "C" fn(site: *const c_void) -> u32,
    /// Returns whether the filter lets records of this name and level be on.
    pub is_allowed: unsafe extern "C" fn(name: *const u8, size: usize, level: u8) -> bool,
    /// Returns the largest level that the filter lets be on.
    pub largest_level: extern "C" fn() -> u8,
    /// Takes `count` numbers of a kind that no other copy gets; returns the first of them.
    pub numbers: extern "C" fn(kind: u32, count: u64) -> u64,
    /// Waits until all is in the files; returns 0 or the number of an error of the system.
    pub flush: extern "C" fn() -> i32,
    /// Stores the counters of the run.
    pub count: unsafe extern "C" fn(counters: *mut Counters),
    /// Catches the signals that end the process.
    pub catch_signals: extern "C" fn(),
    /// Tells of a moment of a panic of the calling thread.
    pub panic: extern "C" fn(moment: u32),
}
