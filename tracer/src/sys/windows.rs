//! Windows. Type-checked, not yet run.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use super::FileIdentity;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn GetCurrentThreadId() -> u32;
    fn GetLastError() -> u32;
    fn SetLastError(error: u32);
    fn FlsAlloc(callback: unsafe extern "system" fn(*mut u8)) -> u32;
    fn FlsSetValue(index: u32, value: *mut u8) -> i32;
    fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut *mut core::ffi::c_void) -> i32;
    fn LockFile(file: *mut core::ffi::c_void, low: u32, high: u32, bytes_low: u32, bytes_high: u32) -> i32;
}

#[link(name = "api-ms-win-core-synch-l1-2-0", kind = "raw-dylib")]
unsafe extern "system" {
    fn WaitOnAddress(address: *const u32, compare: *const u32, size: usize, milliseconds: u32) -> i32;
    fn WakeByAddressAll(address: *const u32);
}

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> i32;
}

/// The calling process's id.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// The calling thread's id.
pub(crate) fn thread_id() -> u64 {
    // SAFETY: asks only.
    u64::from(unsafe { GetCurrentThreadId() })
}

/// The calling thread's name as Rust knows it, cut to 16 bytes.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    let current = std::thread::current();
    for (to, from) in name.iter_mut().zip(current.name().unwrap_or_default().bytes()) {
        *to = from;
    }
    name
}

/// The path of the program that this process runs.
pub(crate) fn executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Gives the calling thread's last error back as it was, when dropped.
pub(crate) struct KeptErrno(u32);

/// Keeps the last error: a host may trace between a call that fails and its look at why.
pub(crate) fn keep_errno() -> KeptErrno {
    // SAFETY: asks only.
    KeptErrno(unsafe { GetLastError() })
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: this thread's own.
        unsafe { SetLastError(self.0) };
    }
}

/// Not known here: a thread is taken to live until its exit is seen.
pub(crate) fn thread_lives(_tid: u64) -> bool {
    true
}

static EXIT_INDEX: OnceLock<u32> = OnceLock::new();

/// Has [`crate::thread::on_thread_exit`] called when the calling thread ends.
pub(crate) fn call_at_thread_exit() {
    if let Some(&index) = EXIT_INDEX.get() {
        // SAFETY: the index was allocated below and is never freed; the value is never dereferenced.
        unsafe { FlsSetValue(index, std::ptr::without_provenance_mut(1)) };
    }
}

/// Makes what [`call_at_thread_exit`] uses, once for the process.
pub(crate) fn create_exit_key() {
    unsafe extern "system" fn at_exit(_value: *mut u8) {
        crate::thread::on_thread_exit();
    }
    // SAFETY: the callback is a plain function that lives as long as the program.
    EXIT_INDEX.get_or_init(|| unsafe { FlsAlloc(at_exit) });
}

/// Writes to stderr; what cannot be written is dropped.
pub(crate) fn write_stderr(text: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text);
}

/// Starts a thread.
pub(crate) fn spawn_hidden(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name("tracer".into()).spawn(body).map(drop)
}

/// Nothing to do: it has its name.
pub(crate) fn name_thread(_name: &CStr) {}

/// There are no signal stacks.
pub(crate) fn on_alternate_stack() -> bool {
    false
}

/// Sleeps while `word` is `expected`, at most `timeout`; may wake without reason.
pub(crate) fn wait_word(word: &AtomicU32, expected: u32, timeout: Duration) {
    let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX - 1).max(1);
    // SAFETY: both words outlive the call and have the size given.
    unsafe { WaitOnAddress(word.as_ptr(), &expected, 4, milliseconds) };
}

/// Wakes those that sleep on `word`: all of them, whatever `count` says.
pub(crate) fn wake_word(word: &AtomicU32, _count: i32) {
    // SAFETY: the address is not dereferenced.
    unsafe { WakeByAddressAll(word.as_ptr()) };
}

/// A zeroed page; there is no `fork`.
pub(crate) fn page_wiped_on_fork() -> *mut u8 {
    Box::leak(Box::new([0u64; 512])).as_mut_ptr().cast()
}

/// Gives back a page of [`page_wiped_on_fork`].
///
/// # Safety
/// Nobody may use it any more.
pub(crate) unsafe fn release_page(page: *mut u8) {
    // SAFETY: made by `page_wiped_on_fork` with this type; unused by the caller's promise.
    drop(unsafe { Box::from_raw(page.cast::<[u64; 512]>()) });
}

/// Has [`crate::exit::on_process_exit`] called at `exit`.
pub(crate) fn arm_exit_handler() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler is a plain function that lives as long as the program.
    ONCE.call_once(|| unsafe {
        atexit(crate::exit::on_process_exit);
    });
}

/// Keeps the library that this code is in from being unloaded: the flusher runs on.
pub(crate) fn stay_loaded() {
    const PIN: u32 = 1;
    const FROM_ADDRESS: u32 = 4;
    let own = stay_loaded as fn() as *const u16;
    let mut module = std::ptr::null_mut();
    // SAFETY: with `FROM_ADDRESS` the name is any address in the module; the result may be written.
    unsafe { GetModuleHandleExW(PIN | FROM_ADDRESS, own, &mut module) };
}

/// Where the directories of this user's runs are.
pub(crate) fn runtime_directory() -> PathBuf {
    std::env::temp_dir().join("tracer")
}

/// The temp directory is the user's own.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}

/// Makes `path` a directory, with those above it; what is there stays as it is.
pub(crate) fn make_directories(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Users have no numbers here.
pub(crate) fn effective_user() -> u32 {
    0
}

/// Makes a new file that others may read and rename while it is open; fails where the name exists.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    const SHARE_READ_WRITE_DELETE: u32 = 7;
    OpenOptions::new().read(true).write(true).create_new(true).share_mode(SHARE_READ_WRITE_DELETE).open(path)
}

/// Opens a file for reading and writing.
pub(crate) fn open_own_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Opens a file for writing at its end; makes it if it is not there.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a file that a ring names.
pub(crate) fn open_named_file(path: &Path) -> io::Result<File> {
    open_own_file(path)
}

/// Opens a file for reading, and lets others do with it what they like. Files have no users' numbers here.
pub(crate) fn open_file_of_user_to_read(path: &Path, _user: u32) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// A path of the bytes that std's encoding has for it; what is not UTF-8 is replaced.
pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Gives the file its size.
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Whether `path` is a directory. The temp directory is the user's own.
pub(crate) fn is_private_directory(path: &Path) -> bool {
    path.is_dir()
}

/// The user whose `path` is, if it is a directory. The temp directory is the user's own.
pub(crate) fn private_directory_of(path: &Path) -> Option<u32> {
    path.is_dir().then_some(0)
}

/// Nobody acts for other users here.
pub(crate) fn as_user<T: Send>(_user: u32, _work: impl FnOnce() -> T + Send) -> Option<T> {
    None
}

/// Takes a lock that stands for one byte of the file. Not on the byte itself: what is locked here, others cannot
/// read.
pub(crate) fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    const FAR_BEHIND_THE_END: u32 = 1 << 30;
    // SAFETY: the handle is open; a range need not be in the file.
    let locked = unsafe { LockFile(file.as_raw_handle(), byte, FAR_BEHIND_THE_END, 1, 0) };
    if locked == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// There are no files without names.
pub(crate) fn create_unnamed_file(_directory: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// As above.
pub(crate) fn link_unnamed_file(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a file can be made in `directory`; it is called `probe` for a moment.
///
/// # Errors
/// Why not.
pub(crate) fn try_to_make_file(_directory: &Path, probe: &Path) -> io::Result<()> {
    super::create_private_file(probe)?;
    std::fs::remove_file(probe)
}

/// Whether a mapping of a file keeps the locks that were taken through the handle that it was mapped from.
pub(crate) const MAPPINGS_HOLD_LOCKS: bool = false;

/// Nothing to do: there is no `fork`.
pub(crate) fn keep_from_children(_start: *mut u8, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// A thread has no handles of its own here.
pub(crate) fn take_own_descriptors() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never told apart here.
pub(crate) fn is_without_descriptors(_error: &io::Error) -> bool {
    false
}

/// How many files this process may have open: as good as any number.
pub(crate) fn descriptor_limit() -> usize {
    4096
}

/// How long a file may become that this process writes.
pub(crate) fn file_size_limit() -> u64 {
    u64::MAX
}

/// What the open file is; its creation time stands in for the number that std does not show on this system.
pub(crate) fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity { device: 0, inode: found.creation_time(), links: 1, length: found.file_size() })
}

/// What stands at `path`.
pub(crate) fn path_identity(path: &Path) -> io::Result<FileIdentity> {
    let found = std::fs::symlink_metadata(path)?;
    Ok(FileIdentity { device: 0, inode: found.creation_time(), links: 1, length: found.file_size() })
}

/// Where they may be.
pub(crate) fn runtime_directories() -> Vec<PathBuf> {
    vec![runtime_directory()]
}

/// How much all rings together may take.
pub(crate) fn shared_memory_budget(_directory: &Path) -> u64 {
    256 << 20
}

/// Not known here.
pub(crate) fn boot_id() -> Vec<u8> {
    Vec::new()
}

/// There is no setuid.
pub(crate) fn privileged() -> bool {
    false
}

/// Whether the processor's counter is the same on all cores.
pub(crate) fn counter_is_trusted() -> bool {
    true
}

/// Nanoseconds of the system's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    static CLOCK: OnceLock<quanta::Clock> = OnceLock::new();
    let clock = CLOCK.get_or_init(quanta::Clock::new);
    clock.delta_as_nanos(0, clock.raw())
}
