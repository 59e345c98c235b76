//! The measurement of the peak of a process's memory.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

/// Waits for a process; returns its status and the peak of its resident memory in bytes, which includes mapped pages
/// of files. The peak only grows, and is read each half millisecond, so only growth in the last half millisecond is
/// missed.
pub fn waited(child: &mut Child) -> (ExitStatus, u64) {
    let mut peak = 0;
    loop {
        peak = peak_of(child.id()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            return (status, peak);
        }
        thread::sleep(Duration::from_micros(500));
    }
}

fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
