//! Measures the formats for other programs: one thread writes records that are in memory, in the form in which a merge
//! hands them over, to a file or directory in memory (`/dev/shm`). The measured time includes neither reading nor
//! merging, nor the deletion of the output.
//!
//! The trace has four threads that take turns: of ten records of a thread, four enter functions, four leave them, and
//! two are messages with two integers and a float; now and then there is a stall or a loss. The formats take turns,
//! too. The table shows the median rate of the rounds, and its ratio to the rate of a naive writer of the format (a
//! loop over numbers in memory) that was measured elsewhere. For `ctf` and `perfetto`, such writers are also measured
//! here, by turns with the formats. Seconds are those of the processor if the system reports them, because others may
//! use the processor, too.
//!
//! Then the whole command, `tracemerge --format`, is run on a trace and on one that is four times as long. The table
//! shows the greatest amount of memory of its own that the command had, which does not grow unless the format says
//! so.
//!
//! The command is `cargo bench --bench formats`. `FORMATS_BENCH_RECORDS` is the number of records, three million if
//! it is not set, 2,000 in a test. Words behind `--` choose the formats of these names.

mod memory;
mod naive;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trace_format::kinds::SeparateCounts;
use trace_format::line::Ticks;
use trace_format::meta::{
    Cause, ClockKind, End, EndReason, LossReason, Meta, RingPlace, Run, SystemClocks, Thread, Waited,
};
use trace_format::sites::{Site, SiteKind};
use trace_format::wall::Wall;
use tracemerge::KeptRecords;

use naive::What;

/// The formats, each with the rate of a naive writer that was measured elsewhere, in millions of records a second.
const FORMATS: [(&str, f64); 9] = [
    ("ctf", 26.0),
    ("perfetto", 13.6),
    ("uftrace", 8.0),
    ("parquet", 8.0),
    ("jsonl", 3.0),
    ("csv", 3.0),
    ("chrome", 3.0),
    ("speedscope", 7.4),
    ("folded", 26.0),
];
/// The wanted ratio of a format's rate to that of its naive writer.
const WANTED: f64 = 0.7;
const ROUNDS: usize = 7;
/// The ticks and the wall time at which the traced program began. A tick is half a nanosecond.
const FIRST: u64 = 0x0128_fd9f_283f;
const WALL: u64 = 1_795_000_000_000_000_000;
/// The number of functions, whose sites have the numbers from 1 on, and the number of the site of all messages.
const FUNCTIONS: u32 = 40;
const MESSAGE: u32 = FUNCTIONS + 1;
const PID: u32 = 4711;

/// A naive writer of records in some format: it gets only the records' numbers, in memory.
type NaiveWriter = fn(&[naive::Known], &Path);

/// Returns the naive writer of a format that is measured here, if there is one.
fn naive_writer(format: &str) -> Option<NaiveWriter> {
    match format {
        "ctf" => Some(naive::ctf),
        "perfetto" => Some(naive::perfetto),
        _ => None,
    }
}

/// The raw file of a thread, while it is made.
struct Raw {
    bytes: Vec<u8>,
    tid: u64,
    records: u64,
}

impl Raw {
    const BLOCK: usize = 256 << 10;

    fn put(&mut self, (kind, flags, site): (u64, u64, u32), ticks: u64, payload: &[u8]) {
        let length = 16 + payload.len().next_multiple_of(8);
        if !self.bytes.len().is_multiple_of(Self::BLOCK)
            && self.bytes.len() % Self::BLOCK + length > Self::BLOCK
        {
            self.bytes.extend_from_slice(&1u64.to_le_bytes());
            self.bytes.resize(self.bytes.len().next_multiple_of(Self::BLOCK), 0);
        }
        if self.bytes.len().is_multiple_of(Self::BLOCK) {
            self.bytes.extend_from_slice(b"TRCRAW1\n");
            self.bytes.extend_from_slice(&self.tid.to_le_bytes());
            for site in sites() {
                let mut entry = Vec::new();
                site.write(&mut entry);
                self.word((8, 0, site.id), 0, &entry);
            }
        }
        self.word((kind, flags, site), ticks, payload);
    }

    fn word(&mut self, (kind, flags, site): (u64, u64, u32), ticks: u64, payload: &[u8]) {
        let word = kind | flags << 8 | (payload.len() as u64) << 16 | u64::from(site) << 32;
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.bytes.extend_from_slice(&ticks.to_le_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn meta(&mut self, ticks: u64, meta: &Meta) {
        let mut payload = Vec::new();
        meta.write(&mut payload);
        self.put((7, 0, 0), ticks, &payload);
    }

    /// Appends the record with this number in the whole trace.
    fn record(&mut self, number: u64) {
        let naive::Known { ticks, what, .. } = known(number);
        match what {
            What::Other(STALL) => self.meta(ticks, &Meta::Stall { ns: STALL }),
            What::Other(records) => {
                self.meta(ticks, &Meta::Lost { records, reason: LossReason::Overwritten })
            }
            What::Enter(function) => self.put((9, 0, function), ticks, &[]),
            What::Leave(function) => self.put((9, 4, function), ticks, &[]),
            What::Message(iteration, int, double) => {
                let values = [&iteration.to_le_bytes()[..], &int.to_le_bytes(), &double.to_le_bytes()];
                self.put((3, 0, MESSAGE), ticks, &values.concat());
            }
        }
        self.records += 1;
    }
}

/// The duration of a stall, in nanoseconds, and the number of lost records of a loss.
const STALL: u64 = 1500;
const LOST: u64 = 3;

/// Returns the record with this number in the whole trace. It is record `number / 4` of its thread.
fn known(number: u64) -> naive::Known {
    let (ticks, step) = (FIRST + number * 120, number / 4);
    // The records are calls of two functions, one inside the other, and the same again.
    let inner = u64::from(matches!(step % 10, 1 | 2 | 5 | 6));
    let function = 1 + ((step / 10 + inner * 7) % u64::from(FUNCTIONS)) as u32;
    let what = match step % 10 {
        _ if step % 5000 == 4999 => What::Other(STALL),
        _ if step % 7000 == 6999 => What::Other(LOST),
        0 | 1 | 4 | 5 => What::Enter(function),
        2 | 3 | 6 | 7 => What::Leave(function),
        _ => What::Message(number as i32, number, number as f64 / 8.0),
    };
    naive::Known { thread: (number % 4) as u32, ticks, what }
}

fn sites() -> Vec<Site> {
    let at = |id, kind| Site {
        id,
        line: id,
        kind,
        module: "app::net".to_owned(),
        file: "src/net.rs".to_owned(),
        function: format!("app::net::function_{id}"),
        ..Site::default()
    };
    let mut sites: Vec<Site> = (1..MESSAGE).map(|id| at(id, SiteKind::Function)).collect();
    let template = "Iteration: {0} int: {1} double: {2}".to_owned();
    sites.push(Site {
        format: template.clone(),
        template,
        descriptor: b"lyd".to_vec(),
        names: ["iteration", "int", "double"].map(str::to_owned).to_vec(),
        ..at(MESSAGE, SiteKind::Message)
    });
    sites
}

/// Makes a trace of `records` records in the directory `place`.
fn make_trace(place: &Path, records: u64) {
    let run = Run {
        version: trace_format::VERSION,
        id: 0x9f0c_23d1,
        root: 0x9f0c_23d1,
        pid: PID,
        exe: b"/nowhere/app".to_vec(),
        boot: b"6c1e".to_vec(),
        ticks: Ticks(FIRST),
        wall: Wall(WALL),
        clock: ClockKind::Ordered,
    };
    for thread in 0..4 {
        let mut raw = Raw { bytes: Vec::new(), tid: u64::from(PID) + thread, records: 0 };
        raw.meta(FIRST, &Meta::Run(run.clone()));
        let name = format!("worker {thread}").into();
        raw.meta(FIRST, &Meta::Thread(Thread { name, ring: RingPlace::Shared, why: Vec::new(), file: None }));
        (0..records / 4).for_each(|step| raw.record(step * 4 + thread));
        let end = FIRST + records * 120;
        raw.meta(
            end,
            &Meta::Clock {
                ticks: Ticks(end),
                wall: Wall(WALL + (end - FIRST) / 2),
                system: SystemClocks::default(),
            },
        );
        let (records, reason) = (raw.records, EndReason::Exit);
        raw.meta(
            end,
            &Meta::End(End {
                records,
                lost: 0,
                reason,
                files: None,
                cause: Cause::default(),
                seen: None,
                apart: SeparateCounts::default(),
                waited: Waited::default(),
            }),
        );
        fs::write(place.join(format!("app.trace.{}", raw.tid)), raw.bytes).expect("a trace file");
    }
}

/// Returns the processor time of all threads of this process, if the system reports it.
fn processor_time() -> Option<Duration> {
    let mut ns = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        ns += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(ns))
}

/// The first argument that makes this program be `tracemerge`, as `cargo bench` builds it.
const COMMAND: &str = "tracemerge";

/// Shows the memory that the command takes for each of `formats`, with traces of `records` records and of four times
/// as many.
fn show_memory(formats: &[&str], records: u64, place: &Path) {
    println!();
    println!("{:<12} {:>18} {:>18}", "format", "MiB", "four times as many");
    let traces = [records, 4 * records].map(|records| {
        let traces = place.join(format!("of {records}"));
        fs::create_dir(&traces).expect("a directory");
        make_trace(&traces, records);
        traces
    });
    for format in formats {
        print!("{format:<12}");
        for traces in &traces {
            let out = place.join("out");
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command
                .args([COMMAND, "-q", "--format", format, "-o"])
                .arg(&out)
                .arg(traces)
                .stderr(Stdio::null());
            let (own, _) = memory::memory(command);
            remove(&out);
            print!(" {:>18.1}", own as f64 / 1024.0);
        }
        println!();
    }
}

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).map(OsString::as_os_str) == Some(OsStr::new(COMMAND)) {
        std::process::exit(i32::from(tracemerge::main(args.into_iter().skip(1))));
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_test = !words.iter().any(|word| word == "--bench");
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let given = std::env::var("FORMATS_BENCH_RECORDS").ok().and_then(|text| text.parse().ok());
    let records = given.unwrap_or(if is_test { 2_000 } else { 3_000_000 });
    let rounds = if is_test { 1 } else { ROUNDS };

    let place = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    fs::create_dir(place.path().join("traces")).expect("a directory");
    make_trace(&place.path().join("traces"), records);
    let kept = KeptRecords::read(place.path().join("traces")).expect("the trace");
    assert!(kept.count >= records, "{} of {records} records", kept.count);

    let known: Vec<naive::Known> = (0..records).map(known).collect();
    let mut formats: Vec<Measured> = FORMATS
        .into_iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| *word == name))
        .map(|(name, elsewhere)| Measured { name, elsewhere, ..Measured::default() })
        .collect();
    for _ in 0..rounds {
        for format in &mut formats {
            let out = place.path().join("out");
            let (bytes, took) = timed(|| kept.write(format.name, &out));
            let Ok(bytes) = bytes else { continue };
            remove(&out);
            format.rates.push(kept.count as f64 / took.as_secs_f64() / 1e6);
            format.size = bytes;
            if let Some(write) = naive_writer(format.name) {
                let ((), took) = timed(|| write(&known, &out));
                remove(&out);
                format.naive.push(records as f64 / took.as_secs_f64() / 1e6);
            }
        }
    }
    println!(
        "{:<12} {:>12} {:>14} {:>16} {:>8} {:>11} {:>8}",
        "format", "M records/s", "bytes/record", "naive elsewhere", "ratio", "naive here", "ratio"
    );
    let mut built_in = Vec::new();
    for format in formats {
        let Measured { name, elsewhere, size, .. } = format;
        let Some(median) = median(format.rates) else {
            println!("{name:<12} {:>12}", "not built in");
            continue;
        };
        built_in.push(name);
        let (bytes, part) = (size as f64 / kept.count as f64, median / elsewhere);
        print!("{name:<12} {median:>12.2} {bytes:>14.1} {elsewhere:>16.1} {part:>8.2}");
        match self::median(format.naive) {
            Some(naive) => print!(" {naive:>11.1} {:>8.2}", median / naive),
            None => print!(" {:>11} {:>8}", "", ""),
        }
        println!("{}", if part >= WANTED { "" } else { "  below the goal" });
    }
    drop((known, kept));
    show_memory(&built_in, records / 4, place.path());
}

/// The measurements of a format, in millions of records a second.
#[derive(Default)]
struct Measured {
    name: &'static str,
    /// The rate of a naive writer that was measured elsewhere.
    elsewhere: f64,
    rates: Vec<f64>,
    /// The rates of a naive writer that is measured here.
    naive: Vec<f64>,
    /// The number of bytes of the output.
    size: u64,
}

fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Returns the result of `run`, and the time that it takes.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let (started, before) = (Instant::now(), processor_time());
    let result = run();
    let took = before.and_then(|before| processor_time()?.checked_sub(before));
    (result, took.unwrap_or_else(|| started.elapsed()))
}

fn remove(out: &Path) {
    let removed = if out.is_dir() { fs::remove_dir_all(out) } else { fs::remove_file(out) };
    removed.expect("the output is deleted");
}
