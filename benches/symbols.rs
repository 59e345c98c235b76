//! The time to find names for addresses: for a thousand addresses of a big debug binary, each time in a new process,
//! beside `addr2line` of the GNU binutils.
//!
//! The binary is this program itself, or the one that `SYMBOLS_BENCH_BINARY` names. The program starts itself, with a
//! variable that makes the new process find the names; `addr2line` and the new process take turns. All files are in the
//! system's cache. `cargo bench --bench symbols` measures; `cargo test --bench symbols` is a test, with two turns.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_format::meta::{AddressRange, Between, Module};
use tracemerge::symbols::{Files, Lookup, Settings, Source, Symbols};

/// The variable with the path of the binary, for a process that this program has started.
const ROLE: &str = "SYMBOLS_BENCH_OF";
/// The variable with the binary's build-id in hex digits, for a process that this program has started.
const BUILD_ID: &str = "SYMBOLS_BENCH_BUILD_ID";
const ADDRESSES: usize = 1000;

fn main() {
    match std::env::var_os(ROLE) {
        Some(binary) => find_names(Path::new(&binary)),
        None => measure(std::env::args().any(|argument| argument == "--bench")),
    }
}

fn measure(is_bench: bool) {
    let own = std::env::current_exe().expect("this program");
    let binary = std::env::var_os("SYMBOLS_BENCH_BINARY").map_or(own, PathBuf::from);
    let (addresses, build_id) = (addresses(&binary), build_id(&binary));
    let asked = addresses.iter().fold(String::new(), |mut text, address| {
        let _ = writeln!(text, "{address:#x}");
        text
    });
    let (mut own_times, mut tool_times, mut told) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..if is_bench { 15 } else { 2 } {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let (time, output) = timed(command.env(ROLE, &binary).env(BUILD_ID, &build_id), &asked);
        own_times.push(time);
        told = output;
        let mut command = Command::new("addr2line");
        tool_times.push(timed(command.args(["-C", "-f", "-i", "-e"]).arg(&binary), &asked).0);
    }
    let bytes = std::fs::metadata(&binary).expect("the binary").len();
    println!("{} addresses of {} ({:.1} MB)", addresses.len(), binary.display(), bytes as f64 / 1e6);
    println!("by tracemerge: {told}");
    let (own, tool) = (median(&mut own_times), median(&mut tool_times));
    println!(
        "a process, start to end, median: {own:.1?}; addr2line: {tool:.1?}; ratio {:.1}",
        tool.div_duration_f64(own)
    );
}

/// Runs a process that reads the addresses `asked` from its standard input. Returns the time that it takes, and its
/// output.
fn timed(command: &mut Command, asked: &str) -> (Duration, String) {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let mut stdin = child.stdin.take().expect("its input");
    let asked = asked.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    let taken = start.elapsed();
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success());
    (taken, String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds the names of the addresses on standard input. Prints how many have a name, and the time that this took.
fn find_names(binary: &Path) {
    let asked = std::io::read_to_string(std::io::stdin()).expect("addresses");
    let start = Instant::now();
    let files = Files::default();
    let mut symbols = Symbols::new(&files, Settings::default());
    let module = Arc::new(Module {
        range: AddressRange { start: 0, end: u64::MAX },
        bias: 0,
        build_id: bytes(&std::env::var(BUILD_ID).expect("hex digits")),
        path: binary.as_os_str().as_encoded_bytes().to_vec(),
        loaded: Between::default(),
    });
    let (mut named, mut frames, mut first) = (0, 0, None);
    for line in asked.lines() {
        let address = u64::from_str_radix(&line[2..], 16).expect("a hex number");
        let answer = symbols.name(Ok(&module), address, Lookup::Code);
        first.get_or_insert_with(|| start.elapsed());
        named += usize::from(!matches!(answer.source, Source::Nothing(_)));
        frames += answer.frames.len();
    }
    let taken = start.elapsed();
    assert!(named > 0);
    let first = first.unwrap_or_default();
    print!("{named} named, {frames} frames, {taken:.1?}, of which the first name {first:.1?}");
    // The debug information of a big binary may not fit: then some of these names come from its symbol table.
    symbols.take_warnings().iter().for_each(|warning| print!("; {warning}"));
}

/// Returns the build-id of a binary in hex digits, as `readelf` prints it; empty if the binary has none.
fn build_id(binary: &Path) -> String {
    let notes = printed(Command::new("readelf").arg("-n").arg(binary));
    let digits = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    digits.unwrap_or_default().to_owned()
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Returns addresses in the middle of functions, spread evenly over the binary.
fn addresses(binary: &Path) -> Vec<u64> {
    let table = printed(Command::new("nm").args(["-S", "--defined-only"]).arg(binary));
    let mut addresses: Vec<u64> = table.lines().filter_map(middle).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let step = (addresses.len() / ADDRESSES).max(1);
    addresses.into_iter().step_by(step).take(ADDRESSES).collect()
}

/// Returns the address in the middle of the function that a line of `nm` describes.
fn middle(line: &str) -> Option<u64> {
    let [start, size, "t" | "T", _] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(start)? + number(size)? / 2)
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the GNU binutils");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
