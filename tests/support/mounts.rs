//! Mounts of a program's own: file systems as small, as full or as read-only as a test wants them.

use crate::Scenario;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns a scenario that `sh` runs in a mount namespace of its own: `script` prepares it and runs `program`
/// as `"$@"`.
///
/// `None` where the system refuses that, which is said on stderr: then the test has nothing to show.
pub fn in_own_mounts(script: &str, program: &[&str]) -> Option<Scenario> {
    let Some(flags) = flags() else {
        eprintln!("this system grants no mount namespace (unshare -m, -Urm): not tested");
        return None;
    };
    let script = format!("set -e\n{script}");
    let words: Vec<&str> =
        [flags, "sh", "-c", &script, "sh"].into_iter().chain(program.iter().copied()).collect();
    Some(Scenario::new("unshare", &words))
}

/// Returns the flags for `unshare`: as root plainly, else as root of a user namespace. `None` where neither
/// works.
fn flags() -> Option<&'static str> {
    static FLAGS: OnceLock<Option<&str>> = OnceLock::new();
    let works = |flags: &&str| {
        let mut unshare = Command::new("unshare");
        unshare.args([*flags, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]);
        unshare.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    *FLAGS.get_or_init(|| ["-m", "-Urm"].into_iter().find(works))
}

/// Returns whether this process may act for other users.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    effective == Some("0")
}
