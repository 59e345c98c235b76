//! The files from which inputs are made: traces and rings that programs have really left, runs of an earlier layout,
//! and logs of other programs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use support::{APP, Scenario, names};
use trace_format::manifest::{Directory, Manifest};

/// The directory of the trace files in an input.
pub const TRACES: &str = "traces";
/// The directory of the directories of runs in an input.
pub const RUNS: &str = "runs";
/// The directory of logs of others in an input.
pub const LOGS: &str = "logs";

/// The greatest number of bytes that are kept of a file; longer files are cut.
const MAX_FILE: usize = 64 << 10;

/// The arguments of a program, and its variables.
type Program = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// The programs that are run, with the variables that are set for them. `COUNTERS` is the path of a file with zeros.
const PROGRAMS: [Program; 18] = [
    (&["free-text"], &[]),
    (&["short-lived", "12"], &[]),
    (&["sites"], &[]),
    (&["functions-placed"], &[("TRACER_CALL_SITES", "1")]),
    (&["functions-polled"], &[]),
    (&["functions-unwound"], &[]),
    (&["functions-killed", "COUNTERS"], &[]),
    (&["functions-everything", "COUNTERS"], &[]),
    (&["stacks", "5"], &[]),
    (&["locks", "3"], &[]),
    (&["locks-notified", "8"], &[]),
    (&["parking-lot-locks-notified", "8"], &[]),
    (&["rotated", "4000"], &[("TRACER_MAX_BYTES", "16K"), ("TRACER_FLUSH_MS", "1")]),
    (&["flight", "killed"], &[("TRACER_FULL", "overwrite")]),
    (&["prey"], &[("TRACER_FLUSH_MS", "60000")]),
    (&["left-in-memory"], &[("TRACER_FLUSH_MS", "60000")]),
    (&["sites-killed"], &[]),
    (&["fork"], &[("TRACER_CLOCK", "fast")]),
];

/// A file of an input.
#[derive(Clone, Debug)]
pub struct File {
    /// The path in the input.
    pub path: String,
    /// The content.
    pub content: Content,
    /// Device and inode of the file that was copied: rings name their files by these.
    pub was: Option<(u64, u64)>,
}

/// The content of a path.
#[derive(Clone, Debug)]
pub enum Content {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A file with these bytes, which a hole makes so long.
    Sparse(Vec<u8>, u64),
    /// A directory.
    Directory,
    /// A named pipe that no process opens.
    Fifo,
    /// A symbolic link to this place.
    Link(String),
}

impl File {
    /// Returns a file with this content.
    pub fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> File {
        File { path: path.into(), content: Content::Bytes(bytes.into()), was: None }
    }

    /// Returns the bytes, if there are any.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Bytes(bytes) | Content::Sparse(bytes, _) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the bytes for a change, if this is a file.
    pub fn bytes_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.content {
            Content::Bytes(bytes) | Content::Sparse(bytes, _) => Some(bytes),
            _ => None,
        }
    }
}

/// The files that one or several programs have left.
#[derive(Clone, Debug)]
pub struct Base {
    /// The description, for people.
    pub name: String,
    /// The files.
    pub files: Vec<File>,
}

/// Makes all bases; `scenario` is the traced program.
pub fn all(scenario: &str) -> Vec<Base> {
    let wanted: Vec<_> =
        PROGRAMS.iter().flat_map(|program| ["text", "raw"].map(|format| (program, format))).collect();
    let (next, bases) = (Mutex::new(wanted.into_iter().enumerate()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().expect("nobody panics").next();
                    let Some((number, ((args, variables), format))) = taken else { return };
                    let base = of_program(scenario, args, variables, format);
                    bases.lock().expect("nobody panics").push((number, base));
                }
            });
        }
    });
    let mut bases = bases.into_inner().expect("nobody panics");
    // The order is part of the meaning of a seed.
    bases.sort_by_key(|(number, _)| *number);
    let mut bases: Vec<Base> = bases.into_iter().map(|(_, base)| base).collect();
    bases.extend(["text", "raw", "recorder"].map(kept));
    bases
}

/// Runs the program, kills it if it does not end, and takes its files.
fn of_program(scenario: &str, args: &[&str], variables: &[(&str, &str)], format: &str) -> Base {
    let counters = tempfile::NamedTempFile::new_in(support::memory()).expect("a file of counters");
    fs::write(counters.path(), [0; 4096]).expect("a file of counters");
    let counted = counters.path().to_str().expect("a path in UTF-8");
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "COUNTERS" { counted } else { arg }).collect();
    let mut scenario =
        Scenario::new(scenario, &args).env("TRACER_RING_SIZE", "16K").env("TRACER_FORMAT", format);
    let command = scenario.command().envs(variables.iter().copied());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    if args.contains(&counted) {
        let has_counted = || fs::read(counted).is_ok_and(|bytes| bytes.iter().any(|byte| *byte > 0));
        support::wait_until(30, "the program traces", has_counted);
        std::thread::sleep(std::time::Duration::from_millis(3));
        child.kill().expect("it lives");
    }
    child.wait().expect("its end");
    let mut files = Vec::new();
    take(scenario.directory.path(), TRACES, &mut files);
    take(scenario.runtime.path(), RUNS, &mut files);
    Base { name: format!("{} {format}", args.join(" ")), files }
}

/// Takes all files below a directory; `path` is that of the directory in the input.
fn take(directory: &Path, path: &str, files: &mut Vec<File>) {
    for entry in names(directory) {
        let name = entry.file_name().expect("a name").to_str().expect("UTF-8");
        let path = format!("{path}/{name}");
        if entry.is_dir() {
            take(&entry, &path, files);
            continue;
        }
        let found = fs::metadata(&entry).expect("a file");
        let mut bytes = fs::read(&entry).expect("a file");
        bytes.truncate(MAX_FILE);
        files.push(File { path, content: Content::Bytes(bytes), was: Some((found.dev(), found.ino())) });
    }
}

/// Returns a run of an earlier version.
fn kept(name: &str) -> Base {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/layout-2").join(name);
    let mut files = Vec::new();
    take(&kept.join("traces"), TRACES, &mut files);
    take(&kept.join("run"), &format!("{RUNS}/1-kept"), &mut files);
    Base { name: format!("kept {name}"), files }
}

/// Logs of others, with the forms in which they write the time.
const LOGS_OF_OTHERS: [&str; 10] = [
    "2026-11-26T07:00:01.5Z one\n  and more\n2026-11-26T07:00:02Z two\n",
    "2026-11-26 07:00:01,250 INFO one\n2026-11-26 07:00:01,251 WARN two\n",
    "Nov 26 07:00:01 host app[1]: one\nNov 26 07:00:03 host app[1]: two\n",
    "127.0.0.1 - - [26/Nov/2026:07:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n",
    "{\"ts\":1795676401.25,\"msg\":\"one\"}\n{\"time\":\"2026-11-26T07:00:02Z\",\"msg\":\"two\"}\n",
    "1795676401.000001 one\n1795676402 two\n1795676403000 three\n",
    "E1126 07:00:01.000001 1 a.cc:1] one\n",
    "[2026-11-26T07:00:01+01:00] one\r\n[2026-11-26T07:00:02 UTC+1] two\r\n",
    "no time at all\nnor here\n",
    "0000000000000001-00000001 : a trace\n",
];

/// Returns a log of another program.
pub fn log(number: usize) -> File {
    let text = LOGS_OF_OTHERS[number % LOGS_OF_OTHERS.len()];
    File::new(format!("{LOGS}/log-{number}"), text.repeat(1 + number % 3))
}

/// Makes an input's files in the directory `root`. Adapts the parts that depend on the place: directories in
/// manifests, device and inode of files in rings.
pub fn write(files: &[File], root: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let private = |path: &Path| {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, PermissionsExt::from_mode(0o700))
    };
    for name in [TRACES, RUNS, LOGS] {
        private(&root.join(name))?;
    }
    let mut places = Vec::new();
    let (rings, others): (Vec<&File>, Vec<&File>) =
        files.iter().partition(|file| file.path.contains("/ring-"));
    for file in others.into_iter().chain(rings) {
        let path = root.join(&file.path);
        if let Some(parent) = path.parent() {
            private(parent)?;
        }
        match &file.content {
            Content::Bytes(bytes) | Content::Sparse(bytes, _) => {
                fs::write(&path, adapt_to_place(&file.path, bytes, root, &places))?;
                fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
                let made = fs::metadata(&path)?;
                places.extend(file.was.map(|was| (was, (made.dev(), made.ino()))));
            }
            Content::Directory => fs::create_dir(&path)?,
            Content::Fifo => assert!(Command::new("mkfifo").arg(&path).status()?.success()),
            Content::Link(to) => symlink(to, &path)?,
        }
        if let Content::Sparse(_, length) = file.content {
            fs::OpenOptions::new().write(true).open(&path)?.set_len(length)?;
        }
    }
    Ok(())
}

/// The number of bytes of a ring's header.
const HEADER_BYTES: usize = 4096;

/// Device and inode of a file.
type Place = (u64, u64);

/// Returns the content of a file, adapted to this place.
fn adapt_to_place(path: &str, bytes: &[u8], root: &Path, places: &[(Place, Place)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let manifest = path.ends_with("/manifest").then(|| Manifest::parse(&bytes).ok()).flatten();
    if let Some(mut manifest) = manifest {
        let here = root.join(TRACES).into_os_string().into_encoded_bytes();
        let directory = Directory { path: here, identity: None };
        manifest.directories.iter_mut().for_each(|one| one.clone_from(&directory));
        return manifest.write();
    }
    if path.contains("/ring-") {
        let of = |(device, inode): Place| [device.to_le_bytes(), inode.to_le_bytes()].concat();
        let header = bytes.len().min(HEADER_BYTES);
        for (was, is) in places {
            let was = of(*was);
            for at in (0..header.saturating_sub(was.len())).step_by(8) {
                if bytes[at..].starts_with(&was) {
                    bytes[at..at + was.len()].copy_from_slice(&of(*is));
                }
            }
        }
    }
    bytes
}

/// Returns the path of the application in an input. The file does not exist, as with copied traces.
pub fn app(root: &Path) -> PathBuf {
    root.join(TRACES).join(APP)
}
