//! What the operating system is asked for beyond the standard library, with all `unsafe` that takes.
//!
//! Each function has one meaning on every system; where a system has no such thing, it says the answer that
//! claims least.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Which file a path names, whatever the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileId {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The real path, where there are no inodes.
    #[cfg(not(unix))]
    Path(std::path::PathBuf),
}

/// The identity of the file at `path`, whose metadata are given.
#[must_use]
pub fn file_id(path: &Path, metadata: &Metadata) -> FileId {
    imp::file_id(path, metadata)
}

/// Whether another process holds a record lock on that byte of `file`. Takes no lock.
#[must_use]
pub fn is_locked(file: &File, byte: u32) -> bool {
    imp::is_locked(file, byte)
}

/// Reads from `offset` on until `bytes` is full or the file ends; returns how many bytes that were.
///
/// # Errors
/// As reading has them.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match imp::read_at(file, &mut bytes[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(unix)]
pub use imp::{is_ignored, send_signal, wait_until_ended};

#[cfg(unix)]
mod imp {
    use super::{File, FileId, Metadata, Path, io};
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    pub fn file_id(_path: &Path, metadata: &Metadata) -> FileId {
        FileId::Inode(metadata.dev(), metadata.ino())
    }

    pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(file, bytes, offset)
    }

    pub fn is_locked(file: &File, byte: u32) -> bool {
        // SAFETY: `flock` is plain data of the operating system, valid when all zero.
        let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_start = libc::off_t::from(byte);
        lock.l_len = 1;
        // SAFETY: the descriptor is open as long as `file` is borrowed; F_GETLK writes one `flock`, to `lock`.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
        answer == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
    }

    /// Whether this process ignores `signal`.
    #[must_use]
    pub fn is_ignored(signal: i32) -> bool {
        // SAFETY: `sigaction` is plain data, valid when all zero.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: no new action is given; the old one is written to `action`.
        let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        answer == 0 && action.sa_sigaction == libc::SIG_IGN
    }

    /// Sends `signal` to the process `pid`, which must be a child that is not reaped yet.
    pub fn send_signal(pid: u32, signal: i32) {
        if let Ok(pid) = libc::pid_t::try_from(pid) {
            // SAFETY: `kill` touches no memory of this process.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Waits until the child `pid` has ended, and leaves it to be reaped, so that its pid stays its own.
    ///
    /// # Errors
    /// Where it is no child of this process.
    pub fn wait_until_ended(pid: u32) -> io::Result<()> {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            let flags = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: `info` is writable memory for one `siginfo_t`.
            if unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use super::{File, FileId, Metadata, Path, io};

    pub fn file_id(path: &Path, _metadata: &Metadata) -> FileId {
        FileId::Path(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }

    #[cfg(windows)]
    pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
    }

    pub fn is_locked(_file: &File, _byte: u32) -> bool {
        false
    }
}
