//! Mounts of a program's own: file systems as small, as full or as read-only as a test needs them. The programs
//! `unshare` and `mount` are not needed.
#![allow(unsafe_code, reason = "namespaces, between a fork and the start of a program")]

use crate::{Scenario, programs};
use std::ffi::CStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

/// Returns a scenario that `sh` runs in a mount namespace of its own. `script` prepares the namespace, in which
/// `mount` is that of the scenario program, and runs `program` as `"$@"`.
///
/// Returns `None` if the system refuses that, and reports that the test is left out.
pub fn in_own_mounts(script: &str, program: &[&str]) -> Option<Scenario> {
    let scenario = try_in_own_mounts(script, program);
    if scenario.is_none() {
        programs::left_out("a mount namespace, which this system refuses");
    }
    scenario
}

/// Returns the scenario of [`in_own_mounts`]; `None` if the system refuses that. The caller reports the part of its
/// test that is left out.
pub fn try_in_own_mounts(script: &str, program: &[&str]) -> Option<Scenario> {
    let user = ways()?;
    let script = format!("set -e\nmount() {{ TRACER_ENABLE= \"$MOUNTER\" mount \"$@\"; }}\n{script}");
    let words: Vec<&str> = ["-c", &script, "sh"].into_iter().chain(program.iter().copied()).collect();
    let mut scenario = Scenario::new("sh", &words).env("MOUNTER", program[0]);
    apart(scenario.command(), user, false);
    Some(scenario)
}

/// Returns whether a user namespace is needed, in which the caller is root; root needs none. Returns `None` if
/// neither works.
fn ways() -> Option<bool> {
    static WAYS: OnceLock<Option<bool>> = OnceLock::new();
    let works = |user: &bool| {
        let mut nothing = Command::new("true");
        apart(&mut nothing, *user, true);
        nothing.status().is_ok_and(|status| status.success())
    };
    *WAYS.get_or_init(|| [false, true].into_iter().find(works))
}

/// Makes a command run in a mount namespace of its own, whose mounts do not spread to others. If `user` is true, it
/// also gets a user namespace of its own, in which the caller is root. If `tries` is true, it tries a mount.
fn apart(command: &mut Command, user: bool, tries: bool) {
    // SAFETY: the calls touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {uid} 1")),
        (c"/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    let enter = move || {
        let flags = libc::CLONE_NEWNS | if user { libc::CLONE_NEWUSER } else { 0 };
        // SAFETY: the call touches no memory.
        done(unsafe { libc::unshare(flags) })?;
        if user {
            maps.iter().try_for_each(|(file, text)| write(file, text))?;
        }
        mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)?;
        if tries { mount(c"tmpfs", c"/dev/shm", 0) } else { Ok(()) }
    };
    // SAFETY: between the fork and the program's start only system calls are made.
    unsafe { command.pre_exec(enter) };
}

fn mount(kind: &CStr, at: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all texts are C strings; there is no data.
    done(unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
}

/// Writes a short text by one call.
fn write(file: &CStr, text: &str) -> io::Result<()> {
    // SAFETY: the path is a C string, and `text` has as many bytes as are read; the descriptor is this function's.
    unsafe {
        let descriptor = libc::open(file.as_ptr(), libc::O_WRONLY);
        done(descriptor)?;
        let written = libc::write(descriptor, text.as_ptr().cast(), text.len());
        let result = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(descriptor);
        result
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
