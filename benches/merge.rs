//! Compares merging by `tracemerge` with a command that is a lower bound (`cat`) and with the command that every system
//! has (`sort -m`). Prints one table, in which each row has its goal.
//!
//! The files are in memory (`/dev/shm`), as is the output, so no disk is measured; a seeded generator makes them. The
//! contenders of a row take turns, and their medians are compared, so a busy machine is busy for all of them; the
//! processor time shows how much work each does. Each command is a process of its own.
//!
//! The command is `cargo bench --bench merge`. `MERGE_BENCH_MB` is the size of each of eight files in megabytes: 100 if
//! it is not set, 1 in a test. At most 24 times that size must be free. Words behind `--` choose the rows that have one
//! of them in their names. As a test: `cargo test --bench merge`.
//!
//! `MERGE_BENCH_WINDOWS` is the path of a `tracemerge.exe` that Wine runs beside the native one, for the rows
//! `windows`.

mod memory;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_format::line::{Kind, Prefix, Ticks};
use trace_format::meta::{ClockKind, Meta, Run, SystemClocks};
use trace_format::wall::Wall;

/// The thread id of the first thread.
const FIRST_TID: u64 = 4711;
/// The ticks at which the traced program began.
const FIRST_TICKS: u64 = 0x0128_fd9f_283f;
/// The wall time at which the traced program began.
const FIRST_WALL: Wall = Wall(1_795_000_000_000_000_000);
/// The number of bytes of a thread's file that are gathered before they are written.
const BUFFER: usize = 1 << 20;
/// The first argument that makes this program be `tracemerge`.
const COMMAND: &str = "tracemerge";

/// The generator of random numbers SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The file of one thread, while it is made. It is open only during a write.
struct ThreadFile {
    path: PathBuf,
    buffer: Vec<u8>,
    prefix: Prefix,
}

impl ThreadFile {
    fn new(app: &Path, tid: u64) -> ThreadFile {
        let mut thread =
            ThreadFile { path: of_thread(app, tid), buffer: Vec::new(), prefix: Prefix::new(tid) };
        let run = Run {
            version: trace_format::VERSION,
            id: 0x9f0c_23d1,
            root: 0x9f0c_23d1,
            pid: 4711,
            exe: app.as_os_str().as_encoded_bytes().to_vec(),
            boot: b"6c1e4f0a-0000-4000-8000-000000000000".to_vec(),
            ticks: Ticks(FIRST_TICKS),
            wall: FIRST_WALL,
            clock: ClockKind::Ordered,
        };
        // A file without a `# thread` line is not damaged because it has no `# end` line.
        thread.meta(&Meta::Run(run));
        thread
    }

    fn meta(&mut self, meta: &Meta) {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        let ticks = if let Meta::Clock { ticks, .. } = meta { *ticks } else { Ticks(FIRST_TICKS) };
        self.line(ticks, Kind::Meta, &payload);
    }

    /// Appends a line to the file. Returns the line's number of bytes.
    fn line(&mut self, ticks: Ticks, kind: Kind, text: &[u8]) -> u64 {
        let before = self.buffer.len();
        self.prefix.begin(&mut self.buffer, ticks, kind);
        self.buffer.extend_from_slice(text);
        self.buffer.push(b'\n');
        (self.buffer.len() - before) as u64
    }

    fn write(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

fn of_thread(app: &Path, tid: u64) -> PathBuf {
    let mut name = app.as_os_str().to_owned();
    name.push(format!(".trace.{tid}"));
    name.into()
}

/// Replaces `text` by a message of 30 to 65 bytes, similar to the messages of programs.
fn write_text(text: &mut Vec<u8>, random: &mut Random) -> io::Result<()> {
    text.clear();
    let (a, b) = (random.below(1_000_000), random.below(5000));
    match random.below(5) {
        0 => write!(text, "take: job {a} from the queue, {b} left, 0 waiting"),
        1 => write!(text, "request {a}: received, {b} bytes from 127.0.0.1:{}", 32_768 + b),
        2 => write!(text, "request {a}: replied, {b} bytes after {}.{:03} µs", b % 90, a % 1000),
        3 => write!(text, "cache: miss for key {a:#018x}, loading from shard {}", b % 16),
        _ => write!(text, "enters the critical section, ticket {a}"),
    }
}

/// The number of lines that one thread writes before another thread writes.
#[derive(Clone, Copy)]
enum Grain {
    /// A thread writes one to four lines.
    Fine,
    /// A thread writes a thousand lines.
    Coarse,
}

/// The files to be merged, in a directory that has room for the output and is deleted when this is dropped.
struct Traces {
    directory: TempDir,
    app: PathBuf,
    files: Vec<PathBuf>,
    bytes: u64,
}

impl Traces {
    /// Makes `files` files, which have `bytes` bytes in all.
    fn generate(files: u64, bytes: u64, grain: Grain) -> Traces {
        Traces::try_generate(files, bytes, grain).expect("room for the traces")
    }

    fn try_generate(files: u64, bytes: u64, grain: Grain) -> io::Result<Traces> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("merge-bench-").tempdir_in(place)?;
        let app = directory.path().join("app");
        // An executable has that name, so only files that name it are merged.
        File::create(&app)?;
        let mut threads: Vec<_> =
            (FIRST_TID..FIRST_TID + files).map(|tid| ThreadFile::new(&app, tid)).collect();
        write_lines(&mut threads, bytes, grain)?;
        let files: Vec<PathBuf> = threads.into_iter().map(|thread| thread.path).collect();
        let lengths = files.iter().map(|file| Ok(file.metadata()?.len())).collect::<io::Result<Vec<_>>>()?;
        Ok(Traces { directory, app, files, bytes: lengths.iter().sum() })
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("output")
    }

    /// Returns the command that merges the traces by `tracemerge`, under a limit of 256 descriptors.
    fn tracemerge(&self, output: &Path) -> Command {
        let mut command = Command::new("sh");
        let program = std::env::current_exe().expect("this program");
        command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]).arg(program);
        command.args([COMMAND, "-q", "-o"]).arg(output).arg(&self.app);
        command
    }

    fn sort(&self, output: &Path) -> Command {
        let mut sort = Command::new("sort");
        sort.args(["-m", "-s", "-k1.1,1.16", "--batch-size=64", "-o"]).arg(output).args(&self.files);
        sort.env("LC_ALL", "C");
        sort
    }

    fn cat(&self, output: &Path) -> Command {
        let mut cat = Command::new("cat");
        cat.args(&self.files).stdout(File::create(output).expect("an output file"));
        cat
    }
}

/// Returns the command that merges the files by the `tracemerge.exe` at the path `tracemerge`, under Wine. File names
/// are relative to the directory of the traces: a path that begins with a slash is on another disk for Wine.
fn under_wine(tracemerge: &OsStr, traces: &Traces, output: &Path) -> Command {
    let mut command = Command::new("wine");
    let name = |path: &Path| path.file_name().expect("a name").to_os_string();
    command.arg(tracemerge).args(["-q", "-o"]).args([name(output), name(&traces.app)]);
    command.current_dir(traces.directory.path());
    command
}

/// Writes lines of one thread after another, `bytes` bytes in all; `grain` decides how many lines each thread writes in
/// its turn.
fn write_lines(threads: &mut [ThreadFile], bytes: u64, grain: Grain) -> io::Result<()> {
    let mut random = Random(20_041_120);
    let files = threads.len() as u64;
    let buffer = BUFFER.min((64 << 20) / threads.len());
    let (mut ticks, mut at, mut written, mut text) = (FIRST_TICKS, 0, 0, Vec::new());
    while written < bytes {
        at = (at + 1 + random.below(files - 1)) % files;
        let thread = &mut threads[usize::try_from(at).map_err(io::Error::other)?];
        let lines = match grain {
            Grain::Fine => 1 + random.below(4),
            Grain::Coarse => 1000,
        };
        for _ in 0..lines {
            // Now and then two lines have the same ticks.
            ticks += random.below(2000);
            write_text(&mut text, &mut random)?;
            written += thread.line(Ticks(ticks), Kind::Message, &text);
        }
        if thread.buffer.len() > buffer {
            thread.write()?;
        }
    }
    // A second reading of the clock makes it possible to convert ticks to times of day.
    let wall = Wall(FIRST_WALL.0 + (ticks - FIRST_TICKS) / 2);
    threads.iter_mut().for_each(|thread| {
        thread.meta(&Meta::Clock { ticks: Ticks(ticks), wall, system: SystemClocks::default() })
    });
    threads.iter_mut().try_for_each(ThreadFile::write)
}

/// The time that a command took.
#[derive(Clone, Copy)]
struct Took {
    elapsed: Duration,
    /// The processor time of all threads of the command, including the time in the system.
    processor: Duration,
}

/// Runs a command to its end.
fn time(mut command: Command) -> Took {
    let before = processor_time_of_children();
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).status().expect("a command that can be run");
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    Took { elapsed, processor: processor_time_of_children().saturating_sub(before) }
}

fn processor_time_of_children() -> Duration {
    // SAFETY: `rusage` is plain data, valid when all zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `getrusage` writes one `rusage`, to `usage`.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let duration = |time: libc::timeval| {
        let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// Panics unless the outputs of `tracemerge` and `sort` agree in every byte.
fn verify(traces: &Traces) {
    let paths = ["ours", "theirs"].map(|name| traces.directory.path().join(name));
    time(traces.tracemerge(&paths[0]));
    time(traces.sort(&paths[1]));
    let [mut ours, mut theirs] =
        paths.each_ref().map(|path| BufReader::new(File::open(path).expect("a merged file")));
    let (mut a, mut b) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut left = traces.bytes;
    while left > 0 {
        let length = usize::try_from(left.min(1 << 20)).expect("at most a MiB");
        ours.read_exact(&mut a[..length]).expect("as many bytes as went in");
        theirs.read_exact(&mut b[..length]).expect("as many bytes as went in");
        assert!(
            a[..length] == b[..length],
            "the output differs from that of sort, {left} bytes before the end"
        );
        left -= length as u64;
    }
    for (path, mut rest) in paths.iter().zip([ours, theirs]) {
        assert_eq!(rest.read(&mut a).expect("an end"), 0, "more came out than went in");
        fs::remove_file(path).expect("a file that can be removed");
    }
}

/// A contender: its name, and its command for an output.
type Contender<'a> = (&'a str, &'a dyn Fn(&Path) -> Command);

/// Returns the median times of the contenders, which take turns. The output file does not exist before a turn; deleting
/// it is not timed.
fn medians(contenders: &[Contender<'_>], output: &Path) -> Vec<Took> {
    let rounds = if is_test() { 1 } else { 7 };
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((_, command), times) in contenders.iter().zip(&mut times) {
            times.push(time(command(output)));
            if output != Path::new("/dev/null") {
                fs::remove_file(output).expect("a file that can be removed");
            }
        }
    }
    let median = |times: &[Took], which: fn(&Took) -> Duration| {
        let mut times: Vec<Duration> = times.iter().map(which).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let medians = |times: &Vec<Took>| Took {
        elapsed: median(times, |took| took.elapsed),
        processor: median(times, |took| took.processor),
    };
    times.iter().map(medians).collect()
}

/// Returns whether this is a test: `cargo bench` passes `--bench`, `cargo test` passes nothing.
fn is_test() -> bool {
    let said = |option: &str| std::env::args().any(|arg| arg == option);
    said("--test") || !said("--bench")
}

/// Returns whether the row with the name `row` is wanted.
fn is_wanted(row: &str) -> bool {
    let words: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    words.is_empty() || words.iter().any(|word| row.contains(word.as_str()))
}

fn bytes_per_file() -> u64 {
    let megabytes = match std::env::var("MERGE_BENCH_MB") {
        Ok(text) => text.parse().expect("MERGE_BENCH_MB is a number"),
        Err(_) if is_test() => 1,
        Err(_) => 100,
    };
    megabytes * 1_000_000
}

/// Prints a row of the table.
fn row(name: &str, measured: &str, reached: &str, goal: &str) {
    println!("| {name} | {measured} | {reached} | {goal} |");
}

/// Compares the times of `tracemerge` and of another command, and prints their ratio: the other's time by ours if
/// `faster` is set, and our time by the other's otherwise.
fn compare(name: &str, traces: &Traces, output: &Path, other: Contender<'_>, faster: bool, goal: &str) {
    if !is_wanted(name) {
        return;
    }
    let ours = |output: &Path| traces.tracemerge(output);
    let times = medians(&[("tracemerge", &ours), other], output);
    let [ours, theirs] = [times[0], times[1]].map(|took| took.elapsed.as_secs_f64());
    let [our_work, their_work] = [times[0], times[1]].map(|took| took.processor.as_secs_f64());
    let measured = format!(
        "tracemerge {ours:.3} s (processor {our_work:.3}), {} {theirs:.3} s (processor {their_work:.3})",
        other.0
    );
    let reached = if faster {
        format!("{:.2} x as fast", theirs / ours)
    } else {
        format!("{:.2} x the time", ours / theirs)
    };
    row(name, &measured, &reached, goal);
}

fn eight_files() {
    let all = 8 * bytes_per_file();
    let null = Path::new("/dev/null");
    for (grain, word, goal) in [(Grain::Fine, "fine", "<= 1.20"), (Grain::Coarse, "coarse", "<= 1.05")] {
        let names = [format!("8 files, {word}, null"), format!("8 files, {word}, file")];
        if !names.iter().any(|name| is_wanted(name)) {
            continue;
        }
        let traces = Traces::generate(8, all, grain);
        verify(&traces);
        let sort = |output: &Path| traces.sort(output);
        let cat = |output: &Path| traces.cat(output);
        compare(&names[0], &traces, null, ("sort -m", &sort), true, ">= 2.50");
        compare(&names[1], &traces, &traces.output(), ("cat", &cat), false, goal);
    }
}

/// Compares `tracemerge` for Windows, run by Wine, with `tracemerge` for this system, on the same files.
fn under_windows() {
    let Some(tracemerge) = std::env::var_os("MERGE_BENCH_WINDOWS") else { return };
    for (grain, word) in [(Grain::Fine, "fine"), (Grain::Coarse, "coarse")] {
        let name = format!("windows, 8 files, {word}, file");
        if !is_wanted(&name) {
            continue;
        }
        let traces = Traces::generate(8, 8 * bytes_per_file(), grain);
        let paths = ["ours", "theirs"].map(|name| traces.directory.path().join(name));
        time(traces.tracemerge(&paths[0]));
        time(under_wine(&tracemerge, &traces, &paths[1]));
        let same = Command::new("cmp").args(&paths).status().expect("cmp");
        assert!(same.success(), "the two systems merge to other bytes");
        paths.iter().for_each(|path| fs::remove_file(path).expect("a file that can be removed"));
        let native = |output: &Path| traces.tracemerge(output);
        let wine = |output: &Path| under_wine(&tracemerge, &traces, output);
        let times = medians(&[("wine", &wine), ("native", &native)], &traces.output());
        let [wine, native] = [times[0], times[1]].map(|took| took.elapsed.as_secs_f64());
        let measured = format!("under Wine {wine:.3} s, native {native:.3} s");
        row(&name, &measured, &format!("{:.2} x the time", wine / native), "<= 1.50");
    }
}

fn many_files() {
    let all = 10 * bytes_per_file();
    for (grain, word) in [(Grain::Fine, "fine"), (Grain::Coarse, "coarse")] {
        let names = ["null", "file"].map(|to| format!("10,000 files, {word}, {to}"));
        if !names.iter().any(|name| is_wanted(name)) {
            continue;
        }
        let (few, many) = (Traces::generate(8, all, grain), Traces::generate(10_000, all, grain));
        let [of_few, of_many] = [&few, &many].map(|traces| move |output: &Path| traces.tracemerge(output));
        for (name, output) in names.iter().zip([PathBuf::from("/dev/null"), many.output()]) {
            if !is_wanted(name) {
                continue;
            }
            let times = medians(&[("8 files", &of_few), ("10,000 files", &of_many)], &output);
            let per_byte =
                |took: Took, traces: &Traces| took.elapsed.as_secs_f64() * 1e9 / traces.bytes as f64;
            let [few, many] = [per_byte(times[0], &few), per_byte(times[1], &many)];
            let measured = format!("{many:.3} ns per byte, 8 files {few:.3}");
            row(name, &measured, &format!("{:.2} x the time per byte", many / few), "<= 2.00");
        }
    }
}

/// Measures views of all lines beside a plain merge of the same files.
fn views() {
    let null = Path::new("/dev/null");
    for (grain, word) in [(Grain::Fine, "fine"), (Grain::Coarse, "coarse")] {
        let views: [(&[&str], &str); 5] = [
            (&["--thread", "*"], "<= 1.10"),
            (&["--time", "offset"], "<= 1.50"),
            (&["--time", "wall"], "no goal"),
            (&["--time", "delta"], "no goal"),
            (&["--grep", "queue|cache"], "no goal"),
        ];
        let name = |options: &[&str]| format!("view {}, {word}, null", options.join(" "));
        if !views.iter().any(|(options, _)| is_wanted(&name(options))) {
            continue;
        }
        let traces = Traces::generate(8, 8 * bytes_per_file(), grain);
        for (options, goal) in views.into_iter().filter(|(options, _)| is_wanted(&name(options))) {
            let view = |output: &Path| {
                let mut command = traces.tracemerge(output);
                command.args(options);
                command
            };
            let plain = |output: &Path| traces.tracemerge(output);
            let times = medians(&[("view", &view), ("merge", &plain)], null);
            let [view, plain] = [times[0], times[1]].map(|took| took.elapsed.as_secs_f64());
            let work = times[0].processor.as_secs_f64();
            let measured = format!("view {view:.3} s (processor {work:.3}), plain merge {plain:.3} s");
            row(&name(options), &measured, &format!("{:.2} x the time", view / plain), goal);
        }
    }
}

fn memory_of_large_files() {
    let name = "memory, 8 files ten times as large";
    if !is_wanted(name) {
        return;
    }
    let traces = Traces::generate(8, 80 * bytes_per_file(), Grain::Fine);
    let (own, all) = memory::memory(traces.tracemerge(Path::new("/dev/null")));
    let mebibytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
    let measured = format!("{:.1} MiB, mapped files included {:.1} MiB", mebibytes(own), mebibytes(all));
    row(name, &measured, &format!("{:.1} MiB", mebibytes(own)), "<= 64 MiB");
}

fn numbers_of_files() {
    let mut of_two = None;
    for files in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        let name = format!("inputs: {files}");
        if !is_wanted(&name) {
            continue;
        }
        let traces = Traces::generate(files, 4 * bytes_per_file(), Grain::Fine);
        let ours = |output: &Path| traces.tracemerge(output);
        let took = medians(&[("tracemerge", &ours)], Path::new("/dev/null"))[0].elapsed.as_secs_f64();
        let per_byte = took * 1e9 / traces.bytes as f64;
        let first = *of_two.get_or_insert(per_byte);
        let reached = format!("{:.2} x that of the first", per_byte / first);
        row(&name, &format!("{per_byte:.3} ns per byte"), &reached, "grows with log(inputs)");
    }
}

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).map(OsString::as_os_str) == Some(OsStr::new(COMMAND)) {
        std::process::exit(i32::from(tracemerge::main(args.into_iter().skip(1))));
    }
    println!("| row | measured | reached | goal |");
    println!("|---|---|---|---|");
    eight_files();
    under_windows();
    views();
    many_files();
    memory_of_large_files();
    numbers_of_files();
}
