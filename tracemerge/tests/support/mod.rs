//! The support of the tests: a fresh directory for each test, trace files to put into it, and the command, which runs
//! in that directory.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test takes what it needs; a failure here fails it"
)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod binaries;
pub mod browser;
mod everything;
pub mod firefox;
pub mod peak;
pub mod programs;
pub mod protobuf;
pub mod quiet;
mod raw;
mod readers;

pub use everything::{Call, Everything, Expected, FIRST, FUNCTIONS, TICK_NS, Times, WALL, everything};
pub use programs::{optional_readers, readers};
pub use raw::{raw_file, raw_file_of_records, raw_file_of_sites};
pub use readers::{ReportRow, agree, answers, asked, number, rows_of_report, shows, written};

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use trace_format::kinds::SeparateCounts;
use trace_format::line::{Key, Kind, Line, Ticks};
use trace_format::meta::{
    Cause, ClockKind, End, EndReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::wall::Wall;

/// A test's own directory, which is the command's current directory and is deleted at the end.
pub struct Place(TempDir);

/// The exit status of a command, and the outputs that it has written.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Place(dir)
    }

    /// Makes a place with one sound file, of thread 9.
    pub fn with_one_file() -> Place {
        let place = Place::new();
        place.write("app.trace.9", file(&run(5, 1), 9, &[3, 7]));
        place
    }

    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(Path::new(name.as_ref()))
    }

    pub fn write(&self, name: impl AsRef<OsStr>, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Writes a program. Another process copies it into place: a file that is open for writing cannot be executed,
    /// and a program that another test starts at the same time inherits the files that this process has open.
    #[cfg(unix)]
    pub fn install(&self, name: impl AsRef<OsStr>, program: impl AsRef<[u8]>) {
        use std::os::unix::fs::PermissionsExt;
        let source = tempfile::NamedTempFile::new().unwrap();
        fs::write(source.path(), program).unwrap();
        fs::set_permissions(source.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp").arg("-p").arg(source.path()).arg(self.path(name)).status();
        assert!(copied.unwrap().success());
    }

    pub fn read(&self, name: impl AsRef<OsStr>) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn text(&self, name: impl AsRef<OsStr>) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|n| n != "tmp")
            .collect();
        names.sort();
        names
    }

    /// Returns a command for any program, which runs in this directory and sees no traces of other tests.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env_remove("TRACER_DIR");
        command.env("TRACER_RUNTIME_DIR", self.path("runtime"));
        // Each system finds the directory for temporary files by one of these variables.
        for name in ["TMPDIR", "TMP", "TEMP"] {
            command.env(name, self.path("tmp"));
        }
        command
    }

    pub fn command(&self) -> Command {
        self.program(env!("CARGO_BIN_EXE_tracemerge"))
    }

    pub fn merge<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        ran(self.command().args(args))
    }
}

pub fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = loop {
        match command.output() {
            // A process that another test has just started holds the program, which a test has written, open.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            output => break output.unwrap(),
        }
    };
    let err = String::from_utf8_lossy(&stderr);
    // Windows writes the paths of this directory with its own separator.
    let err = if cfg!(windows) { err.replace(r".\", "./") } else { err.into_owned() };
    Ran { status: status.code(), out: stdout, err }
}

/// Returns a run that began at `start`, in ticks and in seconds of the wall clock.
pub fn run(pid: u32, start: u64) -> Run {
    Run {
        version: trace_format::VERSION,
        id: pid * 16,
        root: pid * 16,
        pid,
        exe: b"/nowhere/app".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(start),
        wall: Wall(1_795_187_462_000_000_000 + start * 1_000_000_000),
        clock: ClockKind::Ordered,
    }
}

pub fn meta(ticks: u64, tid: u64, meta: &Meta) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    meta.write(&mut payload);
    Line { key: Key { ticks: Ticks(ticks), tid }, kind: Kind::Meta, payload: &payload }.write(&mut out);
    out
}

pub fn header(run: &Run, tid: u64) -> Vec<u8> {
    meta(run.ticks.0, tid, &Meta::Run(run.clone()))
}

pub fn line(ticks: u64, tid: u64, text: &str) -> Vec<u8> {
    format!("{ticks:016x}-{tid:08} : {text}\n").into_bytes()
}

/// Returns a whole file: the header, and lines at `ticks`.
pub fn file(run: &Run, tid: u64, ticks: &[u64]) -> Vec<u8> {
    let lines = ticks.iter().enumerate().map(|(n, &t)| line(t, tid, &format!("line {n} of {tid}")));
    [header(run, tid)].into_iter().chain(lines).collect::<Vec<_>>().concat()
}

/// Returns a file that nothing is missing in: the header, a `# thread` line with a name, lines, and the last two lines.
/// A tick is 250 ns.
pub fn whole_file(run: &Run, tid: u64, name: &str, lines: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(lines.to_vec()).unwrap();
    let last =
        text.lines().last().map_or(run.ticks.0, |line| u64::from_str_radix(&line[..16], 16).unwrap()) + 1;
    let wall = Wall(run.wall.0 + (last - run.ticks.0) * 250);
    let records = text.lines().filter(|line| [":", ">", "<", "^"].contains(&&line[26..27])).count() as u64;
    let name = name.as_bytes().to_vec();
    let end = End {
        records,
        lost: 0,
        reason: EndReason::Exit,
        files: None,
        cause: Cause::default(),
        seen: None,
        apart: SeparateCounts::default(),
        waited: Waited::default(),
    };
    let thread = Thread { name, ring: RingPlace::Shared, why: Vec::new(), file: None };
    [
        header(run, tid),
        meta(run.ticks.0, tid, &Meta::Thread(thread)),
        lines.to_vec(),
        meta(last, tid, &Meta::Clock { ticks: Ticks(last), wall, system: SystemClocks::default() }),
        meta(last, tid, &Meta::End(end)),
    ]
    .concat()
}

/// Returns the output of `sort` for `files`, which are given in the order of ties.
#[cfg(unix)]
pub fn sorted<S: AsRef<OsStr>>(place: &Place, files: impl IntoIterator<Item = S>) -> Vec<u8> {
    let mut sort = place.program("sort");
    sort.env("LC_ALL", "C").args(["-m", "-s", "-k1.1,1.16", "--batch-size=64"]).args(files);
    let ran = ran(&mut sort);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    ran.out
}

/// Returns the files' lines, which are given in the order of ties, in the order of a stable sort by the key's first
/// part. This system has no such `sort`.
#[cfg(not(unix))]
pub fn sorted<S: AsRef<OsStr>>(place: &Place, files: impl IntoIterator<Item = S>) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = files.into_iter().map(|file| place.read(file)).collect();
    let mut lines: Vec<&[u8]> = bytes.iter().flat_map(|file| file.split_inclusive(|b| *b == b'\n')).collect();
    lines.sort_by_key(|line| &line[..16]);
    lines.concat()
}

/// A generator of numbers that are the same in each execution of a test.
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}
