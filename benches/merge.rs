//! Merging against what merging cannot be faster than (`cat`) and against what everybody has (`sort -m`).
//!
//! Eight files, finely interleaved: runs of one to four lines. They lie in memory (`/dev/shm`), as the output
//! does, so that no disk is measured. `MERGE_BENCH_MB` is the size of each file: 100 if not set, 1 in a test;
//! 24 times that must be free there.
//!
//! `cargo bench --bench merge`; as a test: `cargo test --bench merge`.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_format::line::{Kind, Prefix, Ticks};
use trace_format::meta::{ClockKind, Meta, RingPlace, Run, Thread};
use trace_format::wall::Wall;

/// How many threads the traced program had.
const FILES: u64 = 8;
/// The thread id of the first.
const FIRST_TID: u64 = 4711;
/// When the program began.
const FIRST_TICKS: u64 = 0x0128_fd9f_283f;

/// SplitMix64.
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

/// The file of one thread, being written.
struct ThreadFile {
    file: BufWriter<File>,
    prefix: Prefix,
}

impl ThreadFile {
    fn create(app: &Path, tid: u64) -> io::Result<ThreadFile> {
        let file = BufWriter::with_capacity(1 << 20, File::create(of_thread(app, tid))?);
        let mut thread = ThreadFile { file, prefix: Prefix::new(tid) };
        let run = Run {
            version: trace_format::VERSION,
            id: 0x9f0c_23d1,
            root: 0x9f0c_23d1,
            pid: 4711,
            exe: app.as_os_str().as_encoded_bytes().to_vec(),
            boot: b"6c1e4f0a-0000-4000-8000-000000000000".to_vec(),
            ticks: Ticks(FIRST_TICKS),
            wall: Wall(1_795_000_000_000_000_000),
            clock: ClockKind::Ordered,
        };
        let name = format!("worker {}", tid - FIRST_TID + 1).into_bytes();
        thread.meta(&Meta::Run(run))?;
        thread.meta(&Meta::Thread(Thread { name, ring: RingPlace::Shared, why: Vec::new() }))?;
        Ok(thread)
    }

    fn meta(&mut self, meta: &Meta) -> io::Result<()> {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        self.line(Ticks(FIRST_TICKS), Kind::Meta, &payload, &mut Vec::new())?;
        Ok(())
    }

    /// Writes a line; `scratch` is any buffer. Returns the line's length.
    fn line(&mut self, ticks: Ticks, kind: Kind, text: &[u8], scratch: &mut Vec<u8>) -> io::Result<u64> {
        scratch.clear();
        self.prefix.begin(scratch, ticks, kind);
        scratch.extend_from_slice(text);
        scratch.push(b'\n');
        self.file.write_all(scratch)?;
        Ok(scratch.len() as u64)
    }
}

fn of_thread(app: &Path, tid: u64) -> PathBuf {
    let mut name = app.as_os_str().to_owned();
    name.push(format!(".trace.{tid}"));
    name.into()
}

/// What programs say, 30 to 65 bytes of it.
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

/// Files to be merged, and room for what comes out; gone when dropped.
struct Traces {
    directory: TempDir,
    app: PathBuf,
    files: Vec<PathBuf>,
    bytes: u64,
}

impl Traces {
    fn generate(bytes_per_file: u64) -> io::Result<Traces> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let directory = tempfile::Builder::new().prefix("merge-bench-").tempdir_in(place)?;
        let app = directory.path().join("app");
        // An executable of that name: only files that name it are merged.
        File::create(&app)?;
        let tids = FIRST_TID..FIRST_TID + FILES;
        let mut threads =
            tids.clone().map(|tid| ThreadFile::create(&app, tid)).collect::<io::Result<Vec<_>>>()?;
        write_runs(&mut threads, bytes_per_file * FILES)?;
        let files: Vec<PathBuf> = tids.map(|tid| of_thread(&app, tid)).collect();
        for thread in &mut threads {
            thread.file.flush()?;
        }
        let lengths = files.iter().map(|file| Ok(file.metadata()?.len())).collect::<io::Result<Vec<_>>>()?;
        Ok(Traces { directory, app, files, bytes: lengths.iter().sum() })
    }

    fn output(&self) -> PathBuf {
        self.directory.path().join("output")
    }

    /// Merges into `output`; panics where that fails.
    fn tracemerge(&self, output: &Path) {
        let args = ["tracemerge", "-q", "-o"].map(OsStr::new).into_iter();
        let args = args.chain([output.as_os_str(), self.app.as_os_str()]);
        assert_eq!(tracemerge::main(args.map(OsStr::to_os_string)), 0);
    }

    fn sort(&self, output: &Path) {
        let mut sort = Command::new("sort");
        sort.args(["-m", "-s", "-k1.1,1.16", "--batch-size=64", "-o"]).arg(output).args(&self.files);
        succeed(sort.env("LC_ALL", "C"));
    }

    fn cat(&self, output: &Path) {
        let output = File::create(output).expect("an output file");
        succeed(Command::new("cat").args(&self.files).stdout(output));
    }
}

/// Runs of one to four lines, each of another thread than the one before.
fn write_runs(threads: &mut [ThreadFile], bytes: u64) -> io::Result<()> {
    let mut random = Random(20_041_120);
    let (mut ticks, mut at, mut written) = (FIRST_TICKS, 0, 0);
    let (mut text, mut scratch) = (Vec::new(), Vec::new());
    while written < bytes {
        at = (at + 1 + random.below(FILES - 1)) % FILES;
        for _ in 0..=random.below(4) {
            // Now and then two threads at the same time.
            ticks += random.below(2000);
            write_text(&mut text, &mut random)?;
            let thread = &mut threads[usize::try_from(at).map_err(io::Error::other)?];
            written += thread.line(Ticks(ticks), Kind::Message, &text, &mut scratch)?;
        }
    }
    Ok(())
}

fn succeed(command: &mut Command) {
    let status = command.stdin(Stdio::null()).status().expect("a command that can be run");
    assert!(status.success(), "{command:?}: {status}");
}

/// Panics unless `tracemerge` and `sort` agree in every byte.
fn verify(traces: &Traces) {
    let paths = ["ours", "theirs"].map(|name| traces.directory.path().join(name));
    traces.tracemerge(&paths[0]);
    traces.sort(&paths[1]);
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

/// Times `work` into the null device and into a file that is not there before; removing it is off the clock.
fn compare(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, traces: &Traces, work: fn(&Traces, &Path)) {
    group.bench_function(format!("{name}/null"), |b| b.iter(|| work(traces, Path::new("/dev/null"))));
    let output = traces.output();
    group.bench_function(format!("{name}/file"), |b| {
        b.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let start = Instant::now();
                work(traces, &output);
                total += start.elapsed();
                fs::remove_file(&output).expect("a file that can be removed");
            }
            total
        });
    });
}

/// As criterion sees it: `cargo bench` says `--bench`, `cargo test` says nothing.
fn is_test() -> bool {
    let said = |option: &str| std::env::args().any(|arg| arg == option);
    said("--test") || !said("--bench")
}

fn bytes_per_file() -> u64 {
    let megabytes = match std::env::var("MERGE_BENCH_MB") {
        Ok(text) => text.parse().expect("MERGE_BENCH_MB is a number"),
        Err(_) if is_test() => 1,
        Err(_) => 100,
    };
    megabytes * 1_000_000
}

fn merges(c: &mut Criterion) {
    let traces = Traces::generate(bytes_per_file()).expect("room for the traces");
    verify(&traces);
    let mut group = c.benchmark_group("merge");
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Bytes(traces.bytes));
    compare(&mut group, "tracemerge", &traces, Traces::tracemerge);
    compare(&mut group, "cat", &traces, Traces::cat);
    compare(&mut group, "sort -m", &traces, Traces::sort);
    group.finish();
}

fn main() {
    let criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(5));
    let mut criterion = criterion.configure_from_args();
    merges(&mut criterion);
    criterion.final_summary();
}
