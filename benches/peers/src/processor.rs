//! The processor time of a process's background threads.

use std::collections::BTreeMap;
use std::fs;

/// Returns the nanoseconds of processor time of each thread of this process except the first, by thread id; empty if
/// the operating system does not report them.
pub fn of_other_threads() -> BTreeMap<u32, u64> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let others = ids.filter(|id| *id != std::process::id());
    others.filter_map(|id| Some((id, of_thread(id)?))).collect()
}

fn of_thread(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

/// Returns the sum of the times in two readings of [`of_other_threads`]. For a thread that is in both, the later
/// reading counts. Returns `None` if there is no thread. The sum lacks the time of a thread between the first reading
/// and the thread's end.
pub fn sum(mut before: BTreeMap<u32, u64>, after: BTreeMap<u32, u64>) -> Option<u64> {
    before.extend(after);
    (!before.is_empty()).then(|| before.values().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_once_even_if_it_has_ended() {
        let looks = [BTreeMap::from([(1, 10), (2, 20)]), BTreeMap::from([(2, 25), (3, 5)])];
        let [before, after] = looks;
        assert_eq!(sum(before, after), Some(40));
        assert_eq!(sum(BTreeMap::new(), BTreeMap::new()), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_work_of_another_thread_is_counted() {
        let worked = std::thread::scope(|scope| {
            let (ready, told) = std::sync::mpsc::channel();
            scope.spawn(move || {
                crate::clock::pause(std::time::Duration::from_millis(50));
                let _ = ready.send(());
                std::thread::sleep(std::time::Duration::from_millis(100));
            });
            told.recv().unwrap();
            of_other_threads().values().sum::<u64>()
        });
        assert!(worked > 1_000_000, "{worked} ns");
    }
}
