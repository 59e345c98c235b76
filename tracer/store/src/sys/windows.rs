//! The functions of this folder for Windows. docs/systems.md describes the guarantees on Windows, and says which are
//! weaker than on Linux.
#![allow(unsafe_code, reason = "calls of the system; each argued where it stands")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windows_sys::Wdk::Storage::FileSystem::{FileInternalInformation, NtQueryInformationFile};
use windows_sys::Wdk::System::SystemInformation::{NtQuerySystemInformation, SystemTimeOfDayInformation};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FILE_STANDARD_INFO,
    FileStandardInfo, GetFileInformationByHandle, GetFileInformationByHandleEx, LockFile, MoveFileExW,
};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

use super::{FileIdentity, WallQuality, windows_rights as rights};
use crate::variables;

/// The structure `SYSTEM_TIMEOFDAY_INFORMATION` of the system, whose fields the system's own headers do not declare.
/// Source: `phnt`, the headers of System Informer.
#[repr(C)]
#[derive(Default)]
struct TimeOfDay {
    boot: i64,
    current: i64,
    zone_bias: i64,
    zone: u32,
    reserved: u32,
    boot_bias: i64,
    sleep_bias: i64,
}

/// Returns the directory that contains the directories of this user's runs. It is in the user's local application data,
/// which only the user and administrators may enter.
pub fn runtime_directory() -> PathBuf {
    let own = variables::value(variables::LOCAL_DATA);
    own.map_or_else(std::env::temp_dir, PathBuf::from).join("tracer")
}

/// Makes `path` a directory that only this user can enter; succeeds also if it already is such a directory.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match rights::create_private_directory(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if !is_private_directory(path) {
        let why = "it exists, but is not a directory that only this user can enter";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Makes the directory `path`, and those above it that are missing; directories that exist stay unchanged.
pub fn make_directories(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Returns 0: on Windows users have no numbers.
pub fn effective_user() -> u32 {
    0
}

/// Returns false: on Windows a mapped file cannot be truncated, so files of any user can be mapped.
pub fn is_of_another_user(_found: &std::fs::Metadata) -> bool {
    false
}

/// Reads from `offset` on until `bytes` is full or the file ends; returns the number of bytes read.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Writes all of `bytes` at `offset`.
pub fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Makes a new file that other processes may read, write and rename while it is open. Fails if the name exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
        .open(path)
}

/// Calls `open`. If that fails because another process has the file open without sharing it, as virus scanners do for a
/// moment, tries again for at most two seconds.
pub fn open_with_retries<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const SHARING_VIOLATION: i32 = 32;
    const MAX_WAIT: Duration = Duration::from_secs(2);
    const PAUSE: Duration = Duration::from_millis(10);
    let mut pauses = MAX_WAIT.as_millis() / PAUSE.as_millis();
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) && pauses > 0 => {
                pauses -= 1;
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Opens a file for reading and writing.
pub fn open_own_file(path: &Path) -> io::Result<File> {
    open_with_retries(|| OpenOptions::new().read(true).write(true).open(path))
}

/// Opens a file for writing at its end; makes it if it does not exist.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a file that a ring names, for reading and writing.
pub fn open_named_file(path: &Path) -> io::Result<File> {
    open_own_file(path)
}

/// Opens a file for reading, so that other processes may still read, write and delete it. Ignores `_user`: on Windows
/// users have no numbers.
pub fn open_file_of_user_to_read(path: &Path, _user: u32) -> io::Result<File> {
    open_with_retries(|| OpenOptions::new().read(true).open(path))
}

/// Returns the path that `bytes` contain in UTF-8. Bytes that are not UTF-8 are replaced.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Sets the file's size to `bytes`. No space is reserved in the file system.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

/// Makes the file long enough for `bytes` bytes from `offset` on. No space is reserved in the file system.
pub fn reserve_part(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() < offset + bytes { file.set_len(offset + bytes) } else { Ok(()) }
}

/// Makes the system map the pages of a shared mapping in advance, so that the first thread that accesses them need not
/// wait for the system. Other threads may write to these pages during the call.
pub fn populate(start: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    // On other processors, the system prepares each page when it is touched.
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the byte is in a mapping of the caller. It keeps its value even if other threads write it, because
        // the instruction is atomic.
        unsafe { std::arch::asm!("lock or byte ptr [{}], 0", in(reg) start.add(offset), options(nostack)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes, PAGE);
}

/// Returns whether `path` is a directory (and not a link to one) that belongs to this user, and that only this user can
/// enter.
pub fn is_private_directory(path: &Path) -> bool {
    rights::is_private_directory(path)
}

/// Returns 0 if `path` is a directory that only this user can enter, and `None` otherwise. The 0 stands for this user:
/// on Windows users have no numbers.
pub fn private_directory_of(path: &Path) -> Option<u32> {
    is_private_directory(path).then(effective_user)
}

/// Returns an error: on this system no thread acts for another user.
pub fn begin_as_user(_user: u32, _work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes a lock that stands for one byte of the file, or fails at once. The locked byte lies far beyond the file's end,
/// because other processes cannot read locked bytes.
pub fn hold_lock(file: &File, byte: u32) -> io::Result<()> {
    const LOCK_OFFSET: u32 = 1 << 30;
    // SAFETY: the handle is open; a range need not be in the file.
    let locked = unsafe { LockFile(file.as_raw_handle(), byte, LOCK_OFFSET, 1, 0) };
    if locked == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a mapping of a file keeps the locks that were taken through the handle with which it was mapped, even after
/// the handle is closed. On Windows it does not.
pub const MAPPINGS_HOLD_LOCKS: bool = false;

/// Whether a deleted file keeps its name, and prevents its directory from being deleted, until all processes have
/// closed it. On Windows it does.
pub const OPEN_FILES_KEEP_NAMES: bool = true;

/// Does nothing: Windows has no `fork`.
pub fn exclude_from_forks(_start: *mut u8, _bytes: usize) -> io::Result<()> {
    Ok(())
}

/// Returns an error: on Windows a thread cannot have a table of handles of its own.
pub fn take_own_descriptors() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns false: on Windows the tracer does not recognize errors whose cause is that too many files are open.
pub fn is_descriptor_limit_error(_error: &io::Error) -> bool {
    false
}

/// Returns the number of files that this process may have open. Windows has no such limit, so this is an assumption.
pub fn descriptor_limit() -> usize {
    4096
}

/// Returns the limit, in bytes, on the size of files that this process writes: the largest number, because Windows has
/// no such limit.
pub fn file_size_limit() -> u64 {
    u64::MAX
}

/// Returns the identity and the current state of an open file. If the file was deleted, `links` is 0, although the name
/// stays until all processes have closed the file.
pub fn file_identity(file: &File) -> io::Result<FileIdentity> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open; the result is plain memory of the size and layout that the system writes.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut found) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(FileIdentity { device: u64::from(found.dwVolumeSerialNumber), ..open_file_identity(file)? })
}

/// Returns the same as [`file_identity`], except that the device is 0 (unknown).
///
/// This is for repeated checks of open files. Under Wine, reading the device's number is a request to another process.
/// Wine 8 holds its lock on the process's memory during the request: if the process ends then, and with it the
/// requesting thread, the last thread of the process may wait for that lock for ever.
pub fn open_file_identity(file: &File) -> io::Result<FileIdentity> {
    let handle = file.as_raw_handle();
    let (mut done, mut inode) = (IO_STATUS_BLOCK::default(), 0_u64);
    let mut standard = FILE_STANDARD_INFO::default();
    let bytes = size_of::<FILE_STANDARD_INFO>() as u32;
    // SAFETY: the handle is open; the result is plain memory of the size and layout that the system writes.
    if unsafe { GetFileInformationByHandleEx(handle, FileStandardInfo, (&raw mut standard).cast(), bytes) }
        == 0
    {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let status = unsafe {
        NtQueryInformationFile(handle, &mut done, (&raw mut inode).cast(), 8, FileInternalInformation)
    };
    if status < 0 {
        return Err(io::Error::other(format!("cannot get the number of the file: {status:#x}")));
    }
    let links = if standard.DeletePending { 0 } else { u64::from(standard.NumberOfLinks) };
    Ok(FileIdentity { device: 0, inode, links, length: standard.EndOfFile as u64 })
}

/// Returns the identity of the file at `path`. If `path` is a link, returns the identity of the link itself.
pub fn path_identity(path: &Path) -> io::Result<FileIdentity> {
    let mut options = OpenOptions::new();
    options
        .access_mode(FILE_READ_ATTRIBUTES)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT);
    file_identity(&options.open(path)?)
}

/// Returns `None`: on Windows all processes see the same directory at a path, so no identity is needed.
pub fn directory_identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

/// Returns the identity of the file at `path`. If `path` is a link, returns the identity of its target.
pub fn target_identity(path: &Path) -> io::Result<FileIdentity> {
    file_identity(
        &OpenOptions::new()
            .access_mode(FILE_READ_ATTRIBUTES)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
            .open(path)?,
    )
}

/// Returns the canonical form of `path`: without links, with upper and lower case as the file system has stored it, and
/// without the prefix `\\?\` of the system. If the system does not report the canonical form of an existing file (Wine
/// does not for long paths), returns the absolute path, in which only the last name has the stored case.
///
/// # Errors
/// No file is at `path`, or it cannot be opened.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let real = match std::fs::canonicalize(path) {
        Err(_) if path.exists() => with_last_name_as_written(std::path::absolute(path)?),
        real => real?,
    };
    Ok(real.to_str().and_then(without_prefix).map(PathBuf::from).unwrap_or(real))
}

/// Returns the path with its last name in the upper and lower case that the directory has stored.
fn with_last_name_as_written(path: PathBuf) -> PathBuf {
    let lowercase = |name: &OsStr| name.to_string_lossy().to_lowercase();
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return path };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let same = entries.filter(|entry| lowercase(entry) == lowercase(name));
    // A directory may distinguish names by their case.
    let written = same.max_by_key(|entry| entry == name);
    written.map_or_else(|| path.clone(), |written| directory.join(written))
}

/// Returns the path without the prefix `\\?\`, which the system itself uses; `None` if the path has no such prefix.
pub(super) fn without_prefix(path: &str) -> Option<String> {
    match path.strip_prefix(r"\\?\UNC\") {
        Some(share) => Some(format!(r"\\{share}")),
        None => path.strip_prefix(r"\\?\").map(str::to_owned),
    }
}

/// Renames a file, which may be open, from `from` to `to`. A hard link would not do: the caller would have to delete
/// the name `from`, which does not disappear before the file is closed.
///
/// # Errors
/// The name exists already, or the system refuses it.
pub fn give_name(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (verbatim(from)?, verbatim(to)?);
    open_with_retries(|| {
        // SAFETY: both texts end with a zero and outlive the call.
        let moved = unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) };
        if moved == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    })
}

/// Returns the path as a text in UTF-16 that ends with a zero, with the prefix `\\?\`, so that the system accepts any
/// length.
pub(super) fn verbatim(path: &Path) -> io::Result<Vec<u16>> {
    let absolute = std::path::absolute(path)?;
    let path: Vec<u16> = absolute.as_os_str().encode_wide().collect();
    let begins = |with: &str| path.starts_with(&with.encode_utf16().collect::<Vec<u16>>());
    let (prefix, rest) = if begins(r"\\?\") || begins(r"\\.\") {
        ("", &path[..])
    } else if begins(r"\\") {
        (r"\\?\UNC\", &path[2..])
    } else {
        (r"\\?\", &path[..])
    };
    Ok(prefix.encode_utf16().chain(rest.iter().copied()).chain([0]).collect())
}

/// Returns the directory for trace files of programs whose own directory this user may not write, such as installed
/// programs.
pub fn directory_for_traces() -> Option<PathBuf> {
    variables::value(variables::LOCAL_DATA).map(|own| PathBuf::from(own).join("tracer-files"))
}

/// Returns the directories that may contain the directories of this user's runs.
pub fn runtime_directories() -> Vec<PathBuf> {
    vec![runtime_directory()]
}

/// Returns the time at which the system was started, as an id of the boot. The time comes from a clock that is never
/// set, so it is the same in all processes until the next start. Returns an empty id if the system does not report the
/// time.
pub fn boot_id() -> Vec<u8> {
    let mut time = TimeOfDay::default();
    let bytes = size_of::<TimeOfDay>() as u32;
    // SAFETY: this many bytes may be written, and the last argument may be null.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemTimeOfDayInformation,
            (&raw mut time).cast(),
            bytes,
            std::ptr::null_mut(),
        )
    };
    // Setting the clock changes both by the same amount.
    let boot = time.boot.wrapping_sub(time.boot_bias);
    if status < 0 || time.boot == 0 { Vec::new() } else { format!("{boot:x}").into_bytes() }
}

/// Returns whether the processor's counter is the same on all cores. It is if the system itself uses the counter as its
/// performance counter; otherwise the system uses a timer of the machine, which shows in its frequency.
pub fn counter_is_trusted() -> bool {
    is_of_processor(counts_per_second())
}

/// Returns whether the system's performance counter is the processor's counter; `per_second` is the frequency of the
/// performance counter. Windows scales the processor's counter to a round frequency, 10 MHz since Windows 10, and does
/// not scale the machine's timers.
fn is_of_processor(per_second: u64) -> bool {
    const POWER_MANAGEMENT_TIMER: u64 = 3_579_545;
    const HIGH_PRECISION_EVENT_TIMER: u64 = 14_318_180;
    ![0, POWER_MANAGEMENT_TIMER, HIGH_PRECISION_EVENT_TIMER].contains(&per_second)
}

/// Returns the frequency of the system's performance counter, in counts per second; it does not change while the system
/// runs.
fn counts_per_second() -> u64 {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut per_second = 0;
    // SAFETY: the result may be written.
    unsafe { QueryPerformanceFrequency(&mut per_second) };
    let per_second = u64::try_from(per_second).unwrap_or(0);
    KNOWN.store(per_second, Ordering::Relaxed);
    per_second
}

/// Reads the system's monotonic clock in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut count = 0;
    // SAFETY: the result may be written.
    unsafe { QueryPerformanceCounter(&mut count) };
    let ns = u128::from(count as u64) * 1_000_000_000 / u128::from(counts_per_second().max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Reads the clock that is never adjusted, in nanoseconds. On Windows it is the monotonic clock.
pub fn raw_ns() -> Option<u64> {
    Some(monotonic_ns())
}

/// Returns `None`: on Windows the tracer reads no clock that includes the time for which the machine was suspended.
pub fn since_boot_ns() -> Option<u64> {
    None
}

/// Returns no values: Windows does not report how accurate the wall clock is.
pub fn wall_quality() -> WallQuality {
    WallQuality::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_is_known_and_stays_the_same() {
        let boot = boot_id();
        assert!(boot.len() > 8, "{boot:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(boot_id(), boot);
    }

    #[test]
    fn a_name_in_another_case_is_spelt_as_in_its_directory() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("Größe ДОМ.exe"), "").expect("a file");
        for given in ["Größe ДОМ.exe", "GRÖßE дом.EXE"] {
            assert_eq!(with_last_name_as_written(path(given)), path("Größe ДОМ.exe"));
        }
        assert_eq!(with_last_name_as_written(path("other")), path("other"));
    }

    #[test]
    fn the_frequency_distinguishes_timers_from_the_processors_counter() {
        let by = [0, 3_579_545, 14_318_180, 10_000_000, 2_441_406].map(is_of_processor);
        assert_eq!(by, [false, false, false, true, true]);
    }

    #[test]
    fn an_open_file_is_recognized_without_its_device() {
        let place = tempfile::tempdir().expect("a directory");
        let made = |name: &str, text: &str| {
            std::fs::write(place.path().join(name), text).expect("a file");
            File::open(place.path().join(name)).expect("the file")
        };
        let (one, other) = (made("one", "12345"), made("other", "1"));
        let known = file_identity(&one).expect("what it is");
        let again = open_file_identity(&one).expect("what it is");
        assert_eq!(again, FileIdentity { device: 0, ..known });
        assert_eq!((again.links, again.length), (1, 5));
        assert!(again.is_same_file(&known) && !open_file_identity(&other).expect("it").is_same_file(&known));
        assert_ne!(known.device, 0);
    }

    #[test]
    fn a_path_is_shown_without_its_verbatim_prefix() {
        let told = |path| without_prefix(path).unwrap_or_else(|| "as it is".to_owned());
        assert_eq!(told(r"\\?\C:\a\b.exe"), r"C:\a\b.exe");
        assert_eq!(told(r"\\?\UNC\server\share\b.exe"), r"\\server\share\b.exe");
        assert_eq!([told(r"C:\a"), told(r"\\server\share")], ["as it is", "as it is"]);
    }
}
