//! Programs among enemies: other users have taken the names of files, texts pretend to be something else, and rings
//! will be tampered with.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use support::scenarios::Scenario;
use tracer::Tracer;

pub const SCENARIOS: &[Scenario] =
    &[("planted", |args| planted(args.text(0))), ("forger", |_| forger()), ("prey", |_| prey())];

/// The ways in which another user may put something in the place of a file.
const PLANTS: [fn(&Path, &Path); 6] = [
    |place, victim| symlink(victim, place).expect("a link"),
    |place, victim| symlink(victim.with_extension("none"), place).expect("a link to nowhere"),
    // There are no hard links across file systems.
    |place, victim| fs::hard_link(victim, place).or_else(|_| symlink(victim, place)).expect("a second name"),
    |place, _| fs::create_dir(place).expect("a directory"),
    |place, _| fs::write(place, "an old file\n").expect("a file"),
    |place, _| {
        let path = CString::new(place.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    },
];

fn directory(variable: &str) -> PathBuf {
    std::env::var_os(variable).expect(variable).into()
}

/// Returns the directory of this run. Its name ends in the run's id.
fn run_directory() -> PathBuf {
    let runs = fs::read_dir(directory("TRACER_RUNTIME_DIR")).expect("the directory of runs");
    let mut paths = runs.map(|entry| entry.expect("an entry").path());
    // A list of places stands beside the directory if it cannot stand beside the executable.
    paths.find(|path| path.is_dir()).expect("this run")
}

/// Runs a thread that calls `prepare` with its id before its first record, and traces one.
fn after(prepare: impl FnOnce(i32) + Send, text: &str) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call only returns an id, and touches no memory.
            prepare(unsafe { libc::gettid() });
            Tracer::get().trace(format_args!("{text}"));
        });
    });
}

/// Traces while each name that a file could get is taken, in all possible ways. `victim` must not change.
pub fn planted(victim: &str) {
    let (victim, traces) = (Path::new(victim), directory("TRACER_DIR"));
    Tracer::get().trace(format_args!("main"));
    Tracer::get().flush().expect("a flush");
    let run = run_directory();
    let name = run.file_name().expect("a name").to_string_lossy().into_owned();
    let (_, id) = name.split_once('-').expect("pid and id");
    for (n, plant) in PLANTS.into_iter().enumerate() {
        let own = |tid: i32| plant(&traces.join(format!("scenario.trace.{tid}")), victim);
        after(own, &format!("own name {n}"));
        let unfinished = |tid: i32| plant(&traces.join(format!(".scenario.trace.{tid}.{id}.new")), victim);
        after(unfinished, &format!("unfinished name {n}"));
        Tracer::get().flush().expect("a flush");
    }
    // Rings have numbers; the first few of them are taken.
    let mut plants = PLANTS.into_iter().cycle();
    for number in 0..64 {
        let ring = run.join(format!("ring-{number}"));
        if fs::symlink_metadata(&ring).is_err() {
            plants.next().expect("a cycle")(&ring, victim);
        }
    }
    let all = std::sync::Barrier::new(20);
    std::thread::scope(|scope| {
        for n in 0..20 {
            let all = &all;
            scope.spawn(move || {
                Tracer::get().trace(format_args!("ring {n}"));
                all.wait();
            });
        }
    });
}

/// Returns texts that pretend to be lines, keys, ends of files, or commands of a terminal. The test has the
/// same list.
pub fn texts() -> Vec<String> {
    [
        "\n0000000000000001-00000001 : forged",
        "\r0000000000000001-00000001 : forged\r\n",
        "\n0000000000000001-00000001 # end records=0 lost=0 reason=exit\n",
        "# end records=0 lost=0 reason=exit",
        "\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[31m",
        "\u{9b}31m\u{90}q\u{9c}",
        "\0\0\0",
        "\u{8}\u{8}\u{8}\u{8}\u{7f}",
        r"\x1b[31m\x0a",
        "\" name=\"other",
        "\u{2028}\u{2029}\u{85}\u{b}\u{c}",
        "\u{1b}[31m\nlast words",
    ]
    .map(String::from)
    .to_vec()
}

/// Gives the calling thread the first bytes of a text as its name.
fn take_name(text: &str) {
    let name: Vec<u8> = text.bytes().filter(|b| *b != 0).take(15).chain([0]).collect();
    // SAFETY: a C string of at most 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

fn kill_this_process() {
    // SAFETY: the call touches no memory; the process ends here.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

struct LastWords(String);

impl std::fmt::Display for LastWords {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The flusher writes the inner record only after the outer record has ended.
        Tracer::get().trace(format_args!("{}", self.0));
        kill_this_process();
        Ok(())
    }
}

/// Traces every text of [`texts`] on a thread whose name is that text, too, and the last one as the program is
/// killed.
pub fn forger() {
    let mut texts = texts();
    let last = texts.pop().expect("a text");
    for text in texts {
        let work = move || {
            take_name(&text);
            Tracer::get().trace(format_args!("{text}"));
        };
        std::thread::spawn(work).join().expect("its end");
    }
    take_name(&last);
    Tracer::get().trace(format_args!("{}", LastWords(last)));
}

struct Nested<'a>(&'a str);

impl std::fmt::Display for Nested<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Tracer::get().trace(format_args!("inside {}", self.0));
        f.write_str(self.0)
    }
}

fn flusher_sleeps() -> bool {
    let tasks = fs::read_dir("/proc/self/task").expect("a list of threads").flatten();
    let mut states = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    states.any(|state| state.contains("(tracer-flusher) S "))
}

/// Runs three threads, each with records in its file and with records of all sorts in its ring only; then the
/// program is killed.
pub fn prey() {
    let (written, traced) = (std::sync::Barrier::new(4), std::sync::Barrier::new(4));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (written, traced) = (&written, &traced);
            scope.spawn(move || {
                for n in 0..5 {
                    Tracer::get().trace(format_args!("{thread} {n} in the file"));
                }
                written.wait();
                written.wait();
                for n in 5..20 {
                    match n % 5 {
                        0 => Tracer::get().trace(format_args!("{thread} {n} {}", "long ".repeat(200))),
                        1 => Tracer::get().trace(format_args!("{thread} {n}\nand more\n")),
                        2 => Tracer::get().trace(format_args!("{thread} {n} {}", Nested("outer"))),
                        _ => Tracer::get().trace(format_args!("{thread} {n} in the ring")),
                    }
                }
                traced.wait();
                traced.wait();
            });
        }
        written.wait();
        Tracer::get().flush().expect("a flush");
        // The flusher looks once more before it sleeps.
        while !flusher_sleeps() {
            std::thread::yield_now();
        }
        written.wait();
        traced.wait();
        kill_this_process();
    });
}
