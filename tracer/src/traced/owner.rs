//! The functions of this copy of the library that other copies in the process call, if this copy owns the process.
//!
//! The other copies, the guests, call these functions on any thread. Each function has the effect that it would have if
//! the code of the guest had called this copy from the beginning.
#![allow(
    unsafe_code,
    reason = "functions that other copies call, and the note by which they find them; each argued"
)]

use std::ffi::c_void;
use std::fmt;
use std::panic::resume_unwind;
use std::ptr;
use std::slice;
use std::str::from_utf8_unchecked;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use trace_format::capture::Cursor;
use trace_format::line::Ticks;
use trace_format::sites::Level;

use super::{decision, dynamic, hooks, panic, record, scope, signals};
use crate::copies::interface::{
    Counters, FORMATTED, Format, Guest, Interface, ON, PANIC_BEGINS, PANIC_UNWINDS, PANIC_WAS_REPORTED,
    PANICKED, QUIET, Terms, UNDECIDED,
};
use crate::copies::note::put_note;
use crate::ring::{Arguments, ByteSink, Message, WriteBytes, clock};
use crate::shared::numbers::{self, Numbers};
use crate::shared::process;
use crate::shared::sites::{self, Site};
use crate::shared::stats::Stats;
use crate::shared::{ringless_records, switched};
use crate::stack;
use crate::sys;
use crate::user::config::{self, Config};
use crate::words::switch::TracingState;

/// The functions that guests, the other copies of the library, call.
static INTERFACE: Interface = Interface {
    package: package(),
    decide,
    start,
    listen,
    forget,
    count_lost,
    words,
    message,
    capture,
    enter,
    leave,
    is_inside,
    last_ticks,
    new_site,
    site_state,
    is_allowed,
    largest_level,
    numbers: take_numbers,
    flush,
    look_at_modules,
    count,
    catch_signals,
    panic: handle_panic,
};

/// Returns the functions that guests call. Other copies of the library find these functions by a note, which this
/// function puts into the object file.
#[inline(never)]
pub(super) fn interface() -> &'static Interface {
    put_note!(INTERFACE);
    &INTERFACE
}

/// The guests that have joined and are loaded.
static GUESTS: Mutex<Vec<&'static Guest>> = Mutex::new(Vec::new());
/// The number of threads that are calling a function of a guest. The number is increased only under the lock of
/// [`GUESTS`]; so a thread that has taken a guest off the list under that lock, and sees 0, knows that none of the
/// guest's functions runs.
static CALLING: AtomicU32 = AtomicU32::new(0);
/// The longest time that the unloading of a guest is held up while one of the guest's functions runs. The time is
/// limited because that function itself may be unloading the guest.
const MAX_WAIT: Duration = Duration::from_secs(1);

const fn package() -> [u8; 16] {
    let (version, mut package) = (env!("CARGO_PKG_VERSION").as_bytes(), [0; 16]);
    let mut at = 0;
    while at < version.len() && at < package.len() {
        package[at] = version[at];
        at += 1;
    }
    package
}

fn terms() -> Terms {
    let stand = match process::stand() {
        TracingState::On => ON,
        TracingState::Off | TracingState::Paused => QUIET,
        TracingState::Undecided | TracingState::Deciding | TracingState::Settling => UNDECIDED,
    };
    Terms { stand, clock: clock::kind(), call_sites: scope::wants_call_sites().into() }
}

unsafe extern "C" fn decide(every_function: bool, to: *mut Terms) {
    // From now on a guest has an address in this object.
    sys::stay_loaded();
    if every_function {
        config::expect_every_function();
    }
    decision::is_on();
    // SAFETY: the result may be written, by the interface.
    unsafe { to.write(terms()) };
}

unsafe extern "C" fn start(to: *mut Terms) {
    if !matches!(process::stand(), TracingState::On | TracingState::Paused) {
        decision::decide_again(None, Config::of_process());
    }
    // SAFETY: as in `decide`.
    unsafe { to.write(terms()) };
}

extern "C" fn listen(guest: &'static Guest) {
    static LISTENS: AtomicBool = AtomicBool::new(false);
    GUESTS.lock().push(guest);
    // Relaxed: the list of listeners has a lock of its own.
    if !LISTENS.swap(true, Ordering::Relaxed) {
        switched::on_switch(|_| notify_guests());
    }
    let terms = terms();
    // SAFETY: a function of a loaded guest, and its argument during the call.
    unsafe { (guest.switched)(&raw const terms) };
}

extern "C" fn forget(guest: &'static Guest) {
    GUESTS.lock().retain(|known| !ptr::eq(*known, guest));
    let begun = sys::monotonic_ns();
    while CALLING.load(Ordering::Acquire) > 0
        && u128::from(sys::monotonic_ns().saturating_sub(begun)) < MAX_WAIT.as_nanos()
    {
        sys::wait_word(&CALLING, CALLING.load(Ordering::Relaxed), Duration::from_millis(1));
    }
}

/// Calls `call` with each guest. The lock of [`GUESTS`] is not held during the calls, because a guest may take it then.
fn each_guest(mut call: impl FnMut(&Guest)) {
    let all = GUESTS.lock().clone();
    for guest in all {
        {
            let loaded = GUESTS.lock();
            if !loaded.iter().any(|known| ptr::eq(*known, guest)) {
                continue;
            }
            CALLING.fetch_add(1, Ordering::Relaxed);
        }
        call(guest);
        // Release: a thread that sees this in `forget` sees that the function has returned.
        CALLING.fetch_sub(1, Ordering::Release);
    }
}

fn notify_guests() {
    let terms = terms();
    // SAFETY: as in `listen`.
    each_guest(|guest| unsafe { (guest.switched)(&raw const terms) });
}

/// Returns all names that this copy and its guests know for a symbol. Only some copies know the names of C++ functions.
fn names_of(symbol: &[u8]) -> Vec<String> {
    let mut names = stack::names_of(symbol);
    let to = (&raw mut names).cast();
    // SAFETY: that many bytes are there, and `add_name` gets the list that it expects, during the call.
    each_guest(|guest| unsafe { (guest.names_of)(symbol.as_ptr(), symbol.len(), to, add_name) });
    trace_store::sorting::sort(&mut names, |a, b| a < b);
    names.dedup();
    names
}

unsafe extern "C" fn add_name(names: *mut c_void, text: *const u8, size: usize) -> bool {
    // SAFETY: the values that `names_of` has passed.
    let (names, text) = unsafe { (&mut *names.cast::<Vec<String>>(), slice::from_raw_parts(text, size)) };
    names.push(String::from_utf8_lossy(text).into_owned());
    true
}

extern "C" fn count_lost(records: u64) {
    ringless_records::count_without_ring(records);
    if let Some(run) = process::running() {
        run.count_ringless(records);
    }
}

unsafe extern "C" fn words(ticks: u64, word: u64, payload: *const u64, count: usize) {
    if !process::is_off() {
        // SAFETY: that many words are there, by the interface.
        let payload = unsafe { slice::from_raw_parts(payload, count) };
        record::words(Ticks(ticks), word, payload);
    }
}

unsafe extern "C" fn message(ticks: u64, site: u32, message: *const c_void, format: Format) {
    if !process::is_off() {
        let write: &WriteBytes<'_> = &|to| write_message(message, format, to);
        record::trace_at(Ticks(ticks), site, Message::Bytes(&write));
    }
}

/// Writes a message that a guest formats.
fn write_message(message: *const c_void, format: Format, mut to: &mut dyn ByteSink) -> fmt::Result {
    // SAFETY: the two values that the guest has passed for each other, and a sink that `write` knows, during the call.
    match unsafe { format(message, (&raw mut to).cast(), write) } {
        FORMATTED => Ok(()),
        // The record ends here, and is counted as one that a panic has ended. The guest's panic hooks were called.
        PANICKED if cfg!(panic = "unwind") => resume_unwind(Box::new(())),
        _ => Err(fmt::Error),
    }
}

unsafe extern "C" fn write(sink: *mut c_void, text: *const u8, size: usize) -> bool {
    // SAFETY: the value that `write_message` has passed, whose lifetime does not matter here, and that many bytes, by
    // the interface.
    let (to, text) = unsafe { (&mut *sink.cast::<&mut dyn ByteSink>(), slice::from_raw_parts(text, size)) };
    to.write_bytes(text).is_ok()
}

unsafe extern "C" fn capture(ticks: u64, site: u32, bytes: *const u8, size: usize) -> bool {
    // SAFETY: that many bytes are there, by the interface.
    let bytes = unsafe { slice::from_raw_parts(bytes, size) };
    !process::is_off() && record::capture(Ticks(ticks), site, &Captured(bytes))
}

/// The arguments of a call of `trace!` that a guest has copied into bytes.
struct Captured<'a>(&'a [u8]);

impl Arguments for Captured<'_> {
    const CAPTURED: bool = true;
    const SIGNATURE: u32 = 0;

    fn size(&self) -> usize {
        self.0.len()
    }

    fn write(&self, to: &mut Cursor<'_>) {
        to.put_slice(self.0);
    }

    fn describe(_: &mut Vec<u8>) {}
}

extern "C" fn enter(ticks: u64, address: u64, call_site: u64) {
    if !process::is_off() {
        hooks::enter_at(Ticks(ticks), address, call_site, names_of);
    }
}

extern "C" fn leave(ticks: u64, address: u64, inside: u64) {
    if !process::is_off() {
        hooks::leave_at(Ticks(ticks), address, inside, names_of);
    }
}

extern "C" fn is_inside() -> bool {
    record::is_inside()
}

extern "C" fn last_ticks() -> u64 {
    record::last_ticks().map_or(0, |ticks| ticks.0)
}

unsafe extern "C" fn new_site(
    entry: *const u8,
    size: usize,
    is_captured: bool,
    number: *mut u32,
) -> *const c_void {
    // SAFETY: that many bytes are there, by the interface.
    let entry = unsafe { slice::from_raw_parts(entry, size) };
    let Some(site) = trace_format::sites::Site::parse(entry) else { return ptr::null() };
    let site = Site::of_guest(site, is_captured);
    // SAFETY: the result may be written, by the interface.
    unsafe { number.write(site.number()) };
    ptr::from_ref(site).cast()
}

unsafe extern "C" fn site_state(site: *const c_void) -> u32 {
    // SAFETY: by the interface, a value that `new_site` has returned: a site that is never freed.
    unsafe { &*site.cast::<Site>() }.state_for_guest()
}

unsafe extern "C" fn is_allowed(name: *const u8, size: usize, level: u8) -> bool {
    // SAFETY: a text of that many bytes, by the interface.
    let name = unsafe { from_utf8_unchecked(slice::from_raw_parts(name, size)) };
    sites::is_allowed(name, Level::of(level))
}

extern "C" fn largest_level() -> u8 {
    dynamic::largest_level() as u8
}

extern "C" fn take_numbers(kind: u32, count: u64) -> u64 {
    numbers::take(if kind == Numbers::Spans as u32 { Numbers::Spans } else { Numbers::Locks }, count)
}

extern "C" fn flush() -> i32 {
    /// The number of the error `EIO` on Linux, for an error that has no number of its own.
    const EIO: i32 = 5;
    match decision::flush() {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(EIO),
    }
}

extern "C" fn look_at_modules() {
    decision::look_at_modules();
}

unsafe extern "C" fn count(counters: *mut Counters) {
    let stats = Stats::of_process();
    let all = Counters {
        enabled: stats.enabled.into(),
        records: stats.records,
        lost: stats.lost,
        stalls: stats.stalls,
        stall_ns: stats.stall_ns,
        bytes_written: stats.bytes_written,
        shared_rings: stats.shared_rings,
        private_rings: stats.private_rings,
    };
    // SAFETY: the result may be written, by the interface.
    unsafe { counters.write(all) };
}

extern "C" fn catch_signals() {
    signals::catch_and_flush();
}

extern "C" fn handle_panic(moment: u32) {
    match moment {
        PANIC_BEGINS => panic::begins(),
        PANIC_WAS_REPORTED => panic::take_panic_snapshot(),
        PANIC_UNWINDS => panic::unwinds(),
        _ => {}
    }
}
