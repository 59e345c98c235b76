//! The rights that a process gets from the file of its program, such as those of a set-user-id program.

use std::path::Path;

/// Returns whether the system gives a process of the program `file` more rights than its caller has. If it does, the
/// dynamic linker preloads nothing into that process, and the tracer obeys no variables there.
#[cfg(target_os = "linux")]
#[must_use]
pub(crate) fn changes_rights(file: &Path) -> bool {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};

    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2010;
    let (Ok(metadata), Ok(own)) = (fs::metadata(file), fs::metadata("/proc/self")) else { return false };
    let has = |bits: u32| metadata.mode() & bits == bits;
    let mut capabilities = [0; 64];
    let gives = (has(SET_USER) && metadata.uid() != own.uid())
        || (has(SET_GROUP) && metadata.gid() != own.gid())
        || (own.uid() != 0 && getxattr(file, "security.capability", &mut capabilities[..]).is_ok());
    let ignores_them = || {
        statvfs(file).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID))
            || fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("NoNewPrivs:\t1"))
    };
    gives && !ignores_them()
}

/// Returns false: on this system, this process does not examine whether a program gives rights.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub(crate) fn changes_rights(_file: &Path) -> bool {
    false
}
