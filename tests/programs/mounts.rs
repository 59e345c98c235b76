//! The parts of `mount` and `unshare` of util-linux that tests need.

use std::ffi::{CString, c_ulong};
use std::io::Error;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use support::scenarios::Scenario;

pub const SCENARIOS: &[Scenario] = &[
    ("in-own-pids", |args| in_own_pids(args.text(0), &args.all()[1..])),
    ("mount", |args| mount(args.all())),
];

/// Runs a command as the first process of a new pid namespace, and ends with its status. The command dies with this
/// process. If `user` is "user", it also gets a user namespace, in which the caller is root.
pub fn in_own_pids(user: &str, words: &[String]) {
    // SAFETY: the calls touch no memory.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let is_user = user == "user";
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | if is_user { libc::CLONE_NEWUSER } else { 0 };
    // SAFETY: the call touches no memory.
    assert_eq!(unsafe { libc::unshare(flags) }, 0, "{}", Error::last_os_error());
    if is_user {
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {uid} 1")),
            ("gid_map", format!("0 {gid} 1")),
        ] {
            std::fs::write(format!("/proc/self/{file}"), text).expect("a map of users");
        }
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    // SAFETY: between the fork and the program's start, only system calls are made, with C strings.
    let ended = unsafe {
        command.pre_exec(|| {
            let none = std::ptr::null();
            let proc = c"proc".as_ptr();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || libc::mount(proc, c"/".as_ptr(), proc, private, none) < 0
                || libc::mount(proc, c"/proc".as_ptr(), proc, 0, none) < 0
            {
                return Err(Error::last_os_error());
            }
            Ok(())
        })
    };
    let status = ended.status().expect("it runs");
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
}

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
    // SAFETY: all texts are C strings.
    let result =
        unsafe { libc::mount(source.as_ptr(), path.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    assert_eq!(result, 0, "{path:?}: {}", Error::last_os_error());
}

/// Returns the flags that a remount must keep: a user who is root in a user namespace only may not change them.
fn kept(path: &CString) -> c_ulong {
    // SAFETY: plain memory; all of its values are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and `found` is as long as the system expects.
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
