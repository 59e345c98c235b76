//! The labels of threads for people: names, if these are unique.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::iter::repeat;

use trace_format::meta::Run;

use crate::input::inputs::{Inputs, Origin};

/// The number of bytes of a thread's name that the operating system keeps. A thread that was given no name
/// has the name of its creator: usually the beginning of the program's name.
const SYSTEM_NAME: usize = 15;
/// The maximum number of characters of a label without its process.
const MAX_WIDTH: usize = 24;

/// Returns the label of each origin's thread. The first thread of a process is `main`. A thread without a
/// name of its own has a number, in the order in which these threads appear. If several threads have the same
/// name, the thread id follows the name. If several processes are shown, the process id and `/` precede the
/// name.
#[must_use]
pub fn thread_labels(inputs: &Inputs) -> Vec<String> {
    let of_files = inputs.boots.iter().flatten().map(|source| source.ends().map_or(0, |ends| ends.0));
    let threads: Vec<(u64, &Origin)> = of_files.chain(repeat(0)).zip(&inputs.origins).collect();
    labels(&threads)
}

/// The key of a thread of a run. Several files may belong to one thread.
type ThreadKey<'a> = (Option<(u32, u32, &'a [u8])>, u64, &'a [u8]);

fn key(origin: &Origin) -> ThreadKey<'_> {
    let run = origin.run.as_ref().map(|run| (run.pid, run.id, &run.boot[..]));
    (run, origin.tid, if origin.is_log { &origin.name } else { &[] })
}

fn labels(origins: &[(u64, &Origin)]) -> Vec<String> {
    let mut threads: BTreeMap<ThreadKey<'_>, (u64, &Origin)> = BTreeMap::new();
    for &(first, origin) in origins {
        let known = threads.entry(key(origin)).or_insert((first, origin));
        known.0 = known.0.min(first);
    }
    let mut in_order: Vec<(&ThreadKey<'_>, &(u64, &Origin))> = threads.iter().collect();
    in_order.sort_by_key(|(key, (first, _))| (*first, **key));
    let mut unnamed: HashMap<_, u32> = HashMap::new();
    let named: Vec<(ThreadKey<'_>, String)> = in_order
        .into_iter()
        .map(|(key, (_, origin))| {
            let number = unnamed.entry(key.0).or_default();
            (*key, own_label(origin, number))
        })
        .collect();
    let mut times: HashMap<_, u32> = HashMap::new();
    for (key, label) in &named {
        *times.entry((key.0, label.clone())).or_default() += 1;
    }
    let processes = named.iter().filter_map(|(key, _)| key.0).collect::<std::collections::HashSet<_>>().len();
    let full: HashMap<ThreadKey<'_>, String> = named
        .iter()
        .map(|(key, label)| {
            let mut text = match key.0 {
                Some((pid, ..)) if processes > 1 => format!("{pid}/{label}"),
                _ => label.clone(),
            };
            if times.get(&(key.0, label.clone())).is_some_and(|times| *times > 1) {
                text.push_str(&format!(" {}", key.1));
            }
            (*key, text)
        })
        .collect();
    origins.iter().map(|(_, origin)| full.get(&key(origin)).cloned().unwrap_or_default()).collect()
}

/// The labels of threads that become known one after another. The label of a thread does not change, so if
/// another thread has the same name, only the later one gets its id after the name.
#[derive(Debug, Default)]
pub struct ThreadLabels {
    /// The number of unnamed threads of each process.
    unnamed: HashMap<Option<u32>, u32>,
    /// The threads that have a label, by process and label.
    given: HashMap<(Option<u32>, String), u64>,
}

impl ThreadLabels {
    /// Returns the label of an origin's thread, without its process.
    pub fn label(&mut self, origin: &Origin) -> String {
        let pid = origin.run.as_ref().map(|run| run.pid);
        let of_thread = |(key, tid): (&(Option<u32>, String), &u64)| {
            (key.0 == pid && *tid == origin.tid).then(|| key.1.clone())
        };
        // A name may be recorded later than the thread, but not on Windows.
        let is_final =
            !origin.name.is_empty() || origin.run.as_ref().is_some_and(|run| is_inherited(&[], run));
        if let Some(known) = self.given.iter().find_map(of_thread).filter(|_| is_final) {
            return known;
        }
        let label = own_label(origin, self.unnamed.entry(pid).or_default());
        match self.given.entry((pid, label.clone())) {
            Entry::Occupied(_) => format!("{label} {}", origin.tid),
            Entry::Vacant(free) => {
                free.insert(origin.tid);
                label
            }
        }
    }
}

/// Returns the label of a thread in its process; `unnamed` counts the unnamed threads of the process.
fn own_label(origin: &Origin, unnamed: &mut u32) -> String {
    let name = String::from_utf8_lossy(&origin.name);
    if origin.is_log {
        return shortened(&name);
    }
    match &origin.run {
        Some(run) if u64::from(run.pid) == origin.tid => "main".to_owned(),
        Some(run) if is_inherited(&origin.name, run) => {
            *unnamed += 1;
            format!("thread {unnamed}")
        }
        _ if name.is_empty() => origin.tid.to_string(),
        _ => shortened(&name),
    }
}

/// Returns whether a thread was given no name: its name is that of its program, or on Windows, where threads
/// inherit no name, it is empty.
fn is_inherited(name: &[u8], run: &Run) -> bool {
    if run.exe.get(1) == Some(&b':') || run.exe.starts_with(b"\\\\") {
        return name.is_empty();
    }
    let program = run.exe.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name == &program[..program.len().min(SYSTEM_NAME)]
}

/// Returns a name that fits into a column, and that a terminal shows unchanged.
fn shortened(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if name.chars().count() <= MAX_WIDTH {
        return name;
    }
    name.chars().take(MAX_WIDTH - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trace_format::line::Ticks;
    use trace_format::meta::ClockKind;
    use trace_format::wall::Wall;

    use super::*;
    use crate::time::clocks::TickClock;

    fn origin(pid: u32, tid: u64, name: &str) -> Origin {
        let run = Run {
            version: 2,
            id: pid,
            root: pid,
            pid,
            exe: b"/srv/a_program_with_a_long_name".to_vec(),
            boot: b"b".to_vec(),
            ticks: Ticks(0),
            wall: Wall(0),
            clock: ClockKind::System,
        };
        Origin {
            run: Some(run),
            tid,
            name: name.as_bytes().to_vec(),
            clock: Arc::new(TickClock::of(ClockKind::System, [])),
            is_shown: true,
            is_log: false,
            has_sites: false,
        }
    }

    fn labels_of(origins: &[(u64, Origin)]) -> Vec<String> {
        labels(&origins.iter().map(|(first, origin)| (*first, origin)).collect::<Vec<_>>())
    }

    #[test]
    fn threads_are_labelled_by_their_names_if_these_are_unique() {
        let inherited = "a_program_with_";
        let origins = [
            (9, origin(5, 7, inherited)),
            (1, origin(5, 5, inherited)),
            (4, origin(5, 8, inherited)),
            (5, origin(5, 10, "worker")),
            (6, origin(5, 11, "worker")),
            (7, origin(5, 12, "logger")),
            (8, origin(5, 12, "logger")),
            (8, origin(5, 13, "")),
        ];
        let expected = ["thread 2", "main", "thread 1", "worker 10", "worker 11", "logger", "logger", "13"];
        assert_eq!(labels_of(&origins), expected);
    }

    #[test]
    fn unnamed_windows_threads_are_numbered() {
        let of_windows = |tid, name| {
            let origin = origin(5, tid, name);
            let run = origin.run.map(|run| Run { exe: br"C:\app.exe".to_vec(), ..run });
            Origin { run, ..origin }
        };
        let origins = [(1, of_windows(6, "main")), (2, of_windows(7, "")), (3, of_windows(8, ""))];
        assert_eq!(labels_of(&origins), ["main", "thread 1", "thread 2"]);
        let mut labels = ThreadLabels::default();
        let mut of = |tid| labels.label(&of_windows(tid, ""));
        assert_eq!([of(7), of(8), of(7)], ["thread 1", "thread 2", "thread 1"]);
    }

    #[test]
    fn labels_of_several_processes_include_the_process() {
        let log = Origin { run: None, tid: 0, is_log: true, ..origin(5, 0, "access.log") };
        let origins = [(1, origin(5, 5, "x")), (2, origin(6, 6, "x")), (3, origin(6, 7, "x")), (1, log)];
        assert_eq!(labels_of(&origins), ["5/main", "6/main", "6/x", "access.log"]);
    }

    #[test]
    fn threads_keep_their_labels_as_others_become_known() {
        let mut labels = ThreadLabels::default();
        let mut of = |tid, name: &str| labels.label(&origin(5, tid, name));
        assert_eq!(of(5, "x"), "main");
        assert_eq!([of(7, "worker"), of(8, "worker"), of(7, "worker")], ["worker", "worker 8", "worker"]);
        assert_eq!([of(9, "a_program_with_"), of(10, "a_program_with_")], ["thread 1", "thread 2"]);
        assert_eq!(of(9, "a_program_with_"), "thread 1");
    }

    #[test]
    fn a_label_fits_its_column_and_cannot_control_the_terminal() {
        assert_eq!(labels_of(&[(1, origin(5, 6, "\x1b[2Jx"))]), ["?[2Jx"]);
        assert_eq!(labels_of(&[(1, origin(5, 6, &"x".repeat(40)))])[0].chars().count(), MAX_WIDTH);
    }
}
