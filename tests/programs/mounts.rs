//! What `mount` of util-linux does, as far as the scripts of tests need it.

use std::ffi::{CString, c_ulong};

/// Mounts: `-t KIND -o OPTIONS SOURCE PATH`, `--bind FROM PATH`, or `-o remount,bind,OPTIONS PATH`.
pub fn mount(words: &[String]) {
    let text = |text: &str| CString::new(text).expect("no NUL");
    let (mut kind, mut flags, mut data, mut paths) = (String::new(), 0, Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-t" => kind.push_str(words.next().expect("a kind")),
            "--bind" => flags |= libc::MS_BIND,
            "-o" => {
                for option in words.next().expect("options").split(',') {
                    match option {
                        "ro" => flags |= libc::MS_RDONLY,
                        "rw" => flags &= !libc::MS_RDONLY,
                        "bind" => flags |= libc::MS_BIND,
                        "remount" => flags |= libc::MS_REMOUNT,
                        other => data.push(other),
                    }
                }
            }
            path => paths.push(text(path)),
        }
    }
    let (source, path) = (&paths[0], paths.last().expect("a path"));
    if flags & libc::MS_REMOUNT != 0 {
        flags |= kept(path);
    }
    let (kind, data) = (text(&kind), text(&data.join(",")));
    // SAFETY: all texts end.
    let result =
        unsafe { libc::mount(source.as_ptr(), path.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    assert_eq!(result, 0, "{path:?}: {}", std::io::Error::last_os_error());
}

/// Returns the flags of a mount that nobody has asked to change: who is root in a user namespace only may not do that.
fn kept(path: &CString) -> c_ulong {
    // SAFETY: plain memory, of which every value is valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends, and `found` is as long as the system expects.
    assert_eq!(unsafe { libc::statvfs(path.as_ptr(), &raw mut found) }, 0, "{path:?}");
    let flags = [
        (libc::ST_NOSUID, libc::MS_NOSUID),
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ];
    flags.iter().filter(|(there, _)| found.f_flag & there != 0).fold(0, |all, (_, flag)| all | flag)
}
