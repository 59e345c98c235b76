//! The total times for which each thread of a process ran, was ready and was blocked. They come from the kernel's own
//! sums (`/proc/PID/task/TID/schedstat`), which a process may read without special rights.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trace_format::states::ThreadTotals;

/// The pause after the first reading of the sums. Each further pause is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause between two readings of the sums.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The least ratio of a pause to the duration of the reading before it, so that reading takes at most a twentieth of a
/// processor's time.
const PAUSES: u32 = 20;

/// The first and the last reading of the kernel's sums for one thread.
#[derive(Debug)]
struct Seen {
    name: Vec<u8>,
    /// The first reading: the time at which it was made, and the nanoseconds for which the thread had run and had been
    /// ready until then. `last` is the last reading, in the same form.
    first: (Instant, u64, u64),
    last: (Instant, u64, u64),
}

/// A reader of the kernel's sums for the threads of a process, which it reads again and again.
#[derive(Debug)]
pub(crate) struct TotalsReader {
    pid: u32,
    threads: HashMap<u64, Seen>,
}

impl TotalsReader {
    /// Makes a reader for the process `pid`, and reads the sums for the first time.
    #[must_use]
    pub(crate) fn begin(pid: u32) -> TotalsReader {
        let mut reader = TotalsReader { pid, threads: HashMap::new() };
        reader.read();
        reader
    }

    /// Reads the sums of the threads again and again until `has_ended` is true. When the process has ended, another
    /// thread has to set `has_ended` and to unpark this thread. The result lacks everything that a thread did after the
    /// last reading, and all threads that lived only between two readings.
    pub(crate) fn read_until(mut self, has_ended: &AtomicBool) -> Vec<ThreadTotals> {
        let mut pause = FIRST_PAUSE;
        while !has_ended.load(Ordering::Acquire) {
            let begun = Instant::now();
            self.read();
            thread::park_timeout(pause.max(begun.elapsed() * PAUSES));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let totals = |(tid, seen): (u64, Seen)| {
            let ((begin, ran_before, ready_before), (end, ran, ready)) = (seen.first, seen.last);
            let passed = u64::try_from(end.duration_since(begin).as_nanos()).unwrap_or(u64::MAX);
            let busy = (ran - ran_before.min(ran)).saturating_add(ready - ready_before.min(ready));
            ThreadTotals { thread: tid, name: seen.name, ran, ready, blocked: passed.saturating_sub(busy) }
        };
        let mut totals: Vec<ThreadTotals> = self.threads.into_iter().map(totals).collect();
        totals.sort_by_key(|thread| (std::cmp::Reverse(thread.ran), thread.thread));
        totals
    }

    fn read(&mut self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        for task in tasks.into_iter().flatten().flatten() {
            let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
            let Some((tid, (ran, ready))) = tid.zip(sums(&task.path())) else { continue };
            let now = (Instant::now(), ran, ready);
            let name = fs::read(task.path().join("comm")).unwrap_or_default();
            let name = name.strip_suffix(b"\n").unwrap_or(&name).to_vec();
            let seen = self.threads.entry(tid).or_insert(Seen { name: Vec::new(), first: now, last: now });
            seen.last = now;
            // The name of a thread that ends meanwhile cannot be read.
            if !name.is_empty() {
                seen.name = name;
            }
        }
    }
}

/// Returns for how many nanoseconds the thread with the directory `task` in `/proc` has run and has been ready; `None`
/// if the kernel does not count this, or if the thread has ended.
fn sums(task: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_times_of_a_thread_add_up_to_the_time_between_its_readings() {
        let begun = Instant::now();
        let mut reader = TotalsReader::begin(std::process::id());
        // Some kernels count nothing.
        if reader.threads.is_empty() {
            return;
        }
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let sleeper = thread::Builder::new().name("sleeper".to_owned()).spawn(move || {
            let _ = tell.send(());
            let _ = released.recv();
        });
        let _ = told.recv();
        reader.read();
        thread::sleep(Duration::from_millis(20));
        reader.read();
        drop(release);
        let _ = sleeper.map(thread::JoinHandle::join);
        let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let totals = reader.read_until(&AtomicBool::new(true));
        let sleeper = totals.iter().find(|thread| thread.name == b"sleeper");
        let blocked = sleeper.map(|thread| thread.blocked);
        assert!(blocked.is_some_and(|blocked| blocked > 0 && blocked <= passed), "{totals:?} of {passed}");
    }
}
