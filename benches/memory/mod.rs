//! The memory that a command takes, for benches that run one.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Runs a command to its end. Returns the greatest amount of memory of its own that its process had, and its greatest
/// resident amount, which includes pages of files, in kilobytes. Both amounts are read repeatedly while the process
/// runs.
pub fn memory(mut command: Command) -> (u64, u64) {
    let mut child = command.spawn().expect("a command that can be run");
    let (mut own, mut all) = (0, 0);
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        own = own.max(field("RssAnon:"));
        all = all.max(field("VmHWM:"));
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.success(), "{command:?}: {status}");
            return (own, all);
        }
        thread::sleep(Duration::from_millis(1));
    }
}
