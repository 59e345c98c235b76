//! Memory and output of each command and format grow no faster than its input, for any shape of the input.
//!
//! Each shape is made twice, the second time twice as large. The measured memory is the peak of the process's resident
//! memory, including the mapped pages of the input: these grow with the input, and count against the limits.
//!
//! `cargo test` uses some 12 MB. With 50 MB, for a quarter of an hour:
//! `cargo test --release -p tracemerge --test merging memory_and_output -- --ignored --nocapture`
//! The last run took 292 s beside other work:
//! `22 shapes, 61825961 bytes, 1672 runs of commands, 0 wrong`
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure in a test fails it; a long run says what it did"
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::quiet::quiet;
use crate::support::{Place, header, meta, raw_file_of_records, run};
use trace_format::meta::Meta;
use trace_format::sites::{Site, SiteKind};

/// The limits: of resident bytes, of the ratio to the peak for half the input, of the ratio of output to text, and of
/// additional bytes of output.
const MOST: u64 = 300 << 20;
const RATIO: f64 = 2.2;
const TIMES: u64 = 20;
const BESIDES: u64 = 1 << 20;

const TID: u64 = 9;

fn record(tid: u64, ticks: u64, kind: char, text: &str) -> String {
    format!("{ticks:016x}-{tid:08} {kind} {text}\n")
}

/// Writes a file of one thread: the lines that `line` makes, until they have `bytes` bytes.
fn lines(place: &Place, bytes: usize, mut line: impl FnMut(u64) -> String) {
    let mut text = String::from_utf8(header(&run(5, 1), TID)).unwrap();
    let mut number = 0;
    while text.len() < bytes {
        text.push_str(&line(number));
        number += 1;
    }
    place.write(format!("app.trace.{TID}"), text);
}

/// Writes a file for each thread, until all files have `bytes` bytes.
fn threads(place: &Place, bytes: usize, mut text: impl FnMut(u64) -> String) {
    let (mut sum, mut tid) = (0, TID);
    while sum < bytes {
        let mut file = header(&run(5, 1), tid);
        file.extend(text(tid).into_bytes());
        sum += file.len();
        place.write(format!("app.trace.{tid}"), file);
        tid += 1;
    }
}

fn deep_recursion(place: &Place, bytes: usize) {
    lines(place, bytes, |number| record(TID, 1000 + number, '>', "app::f at src/f.rs:7"));
}

fn deep_and_left(place: &Place, bytes: usize) {
    let calls = bytes as u64 / 110;
    lines(place, bytes, |number| {
        let kind = if number < calls { '>' } else { '<' };
        let call = if number < calls { number } else { (2 * calls).saturating_sub(number + 1) };
        record(TID, 1000 + number, kind, &format!("app::f{} at src/f.rs:{}", call % 7, call % 7))
    });
}

fn leavings_of_nothing(place: &Place, bytes: usize) {
    let calls = bytes as u64 / 110;
    lines(place, bytes, |number| match number < calls {
        true => record(TID, 1000 + number, '>', "app::f at src/f.rs:7"),
        false => record(TID, 1000 + number, '<', &format!("app::g{number} at src/g.rs:7")),
    });
}

fn leaves_of_a_deep_stack(place: &Place, bytes: usize) {
    lines(place, bytes, |number| match number {
        0..63 => record(TID, 1000 + number, '>', &format!("app::f{number} at src/f.rs:7")),
        _ => record(
            TID,
            1000 + number,
            if number % 2 == 1 { '>' } else { '<' },
            &format!("app::leaf{} at src/g.rs:7", (number - 63) / 2),
        ),
    });
}

fn many_threads(place: &Place, bytes: usize) {
    threads(place, bytes, |tid| {
        record(tid, 1000 + tid, ':', "hello") + &record(tid, 2000 + tid, '>', "app::f")
    });
}

fn many_threads_with_functions_of_their_own(place: &Place, bytes: usize) {
    threads(place, bytes, |tid| {
        let name = format!("app::f{tid} at src/f.rs:{tid}");
        record(tid, 1000 + tid, '>', &name) + &record(tid, 100_000 + tid, '<', &name)
    });
}

fn many_pools(place: &Place, bytes: usize) {
    threads(place, bytes, |tid| {
        let name: String = tid.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        let thread = format!("thread name=\"pool of {name}\" ring=shared file={tid}");
        record(tid, 1000, '#', &thread) + &record(tid, 2000 + tid, ':', &format!("a message of {name}"))
    });
}

fn a_long_name(place: &Place, bytes: usize) {
    let name = "n".repeat(bytes / 8);
    let thread = record(TID, 1000, '#', &format!("thread name=\"{name}\" ring=shared file=1"));
    lines(place, bytes, |number| match number {
        0 => thread.clone(),
        _ => record(TID, 1000 + number, ':', "short"),
    });
}

fn long_messages(place: &Place, bytes: usize) {
    let text = "long ".repeat(bytes / 20);
    lines(place, bytes, |number| record(TID, 1000 + number, ':', &text));
}

fn a_message_of_many_lines(place: &Place, bytes: usize) {
    lines(place, bytes, |number| record(TID, 1000, if number == 0 { ':' } else { '|' }, "one more"));
}

fn many_shapes_of_messages(place: &Place, bytes: usize) {
    lines(place, bytes, |number| {
        let word: String = number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
        record(TID, 1000 + number, ':', &format!("of the shape {word}"))
    });
}

fn notifications(place: &Place, bytes: usize) {
    lines(place, bytes, |number| {
        let (id, first) = (number % 3 + 1, number * 65_535 % (1 << 32));
        let text = format!("condvar notify id={id} to=all first={first} wakes=65535 made=\"a:1\" at=\"b:2\"");
        record(TID, 1000 + number, '!', &text)
    });
}

fn wait(tid: u64, holder: u64, id: u64) -> String {
    let text = format!("lock wait id={id} for=lock made=\"a:1\" at=\"b:1\" holder={holder} since=\"c:1\"");
    record(tid, 2000 + tid, '!', &text)
}

fn a_chain_of_waits(place: &Place, bytes: usize) {
    threads(place, bytes, |tid| wait(tid, tid + 1, tid));
}

fn a_chain_of_waits_that_end(place: &Place, bytes: usize) {
    threads(place, bytes, |tid| {
        wait(tid, tid + 1, tid) + &record(tid, 9_000_000 - tid, '!', &format!("lock got id={tid} ns=7"))
    });
}

fn a_ring_of_waits(place: &Place, bytes: usize) {
    let last = bytes as u64 / 350 + TID;
    threads(place, bytes, |tid| wait(tid, if tid == last { TID } else { tid + 1 }, tid));
}

fn many_locks(place: &Place, bytes: usize) {
    lines(place, bytes, |number| {
        let id = number / 2 + 1;
        let text = match number % 2 {
            0 => {
                format!("lock wait id={id} for=lock made=\"a:{id}\" at=\"b:{id}\" holder=7 since=\"c:{id}\"")
            }
            _ => format!("lock got id={id} ns=17"),
        };
        record(TID, 1000 + number, '!', &text)
    });
}

fn many_functions(place: &Place, bytes: usize) {
    lines(place, bytes, |number| {
        let kind = if number % 2 == 0 { '>' } else { '<' };
        record(TID, 1000 + number, kind, &format!("app::f{} at src/f.rs:{}", number / 2, number / 2))
    });
}

fn many_spans(place: &Place, bytes: usize) {
    lines(place, bytes, |number| {
        let kind = if number % 2 == 0 { '>' } else { '<' };
        record(TID, 1000 + number, kind, &format!("span={} app::f at src/f.rs:7", number / 2))
    });
}

fn long_call_stacks(place: &Place, bytes: usize) {
    let mut stack = String::new();
    while stack.len() < bytes / 10 {
        let _ = write!(stack, "{:#x} ", 0x1000 + stack.len());
    }
    lines(place, bytes, |number| record(TID, 1000 + number, '^', stack.trim_end()));
}

fn many_runs(place: &Place, bytes: usize) {
    let (mut sum, mut pid) = (0, 5);
    while sum < bytes {
        let mut file = header(&run(pid, 1), pid.into());
        file.extend(record(pid.into(), 1000 + u64::from(pid), ':', "hello").into_bytes());
        sum += file.len();
        place.write(format!("app.trace.{pid}"), file);
        pid += 1;
    }
}

fn warnings(place: &Place, bytes: usize) {
    lines(place, bytes, |number| match number % 2 {
        0 => String::from_utf8(meta(1000 + number, TID, &Meta::Stall { ns: 7 })).unwrap(),
        _ => format!("no line of a trace {number}\n"),
    });
}

fn a_raw_file(place: &Place, bytes: usize) {
    let site = |id: u32, kind: SiteKind| Site {
        id,
        line: id,
        file: "src/main.rs".to_owned(),
        module: "app".to_owned(),
        function: format!("app::f{id}"),
        kind,
        ..Site::default()
    };
    let number = u32::try_from(bytes / 200).unwrap();
    let mut sites: Vec<Site> = (1..=number).map(|id| site(id, SiteKind::Function)).collect();
    sites.extend((1..=number).map(|id| Site {
        format: "{0}".to_owned(),
        template: "{0}".to_owned(),
        descriptor: b"o".to_vec(),
        names: vec!["value".to_owned()],
        ..site(number + id, SiteKind::Message)
    }));
    let records = (0..3 * u64::from(number)).map(|at| {
        let id = at / 3 + 1;
        let ticks = 2000 + at;
        match at % 3 {
            0 => (9 | id << 32, ticks, Vec::new()),
            1 => (3 | (u64::from(number) + id) << 32, ticks, (1u128 << 100).to_le_bytes().to_vec()),
            _ => (9 | 4 << 8 | id << 32, ticks, Vec::new()),
        }
    });
    place.write("app.trace.9", raw_file_of_records(TID, &[(1, &Meta::Run(run(5, 1)))], &sites, records));
}

/// A maker of a trace with about this number of bytes.
type Shape = (&'static str, fn(&Place, usize));

const SHAPES: &[Shape] = &[
    ("deep recursion", deep_recursion),
    ("deep recursion that ends", deep_and_left),
    ("leavings of nothing", leavings_of_nothing),
    ("leaves of a deep stack", leaves_of_a_deep_stack),
    ("many threads", many_threads),
    ("many threads, each with a function", many_threads_with_functions_of_their_own),
    ("many pools", many_pools),
    ("a long name", a_long_name),
    ("long messages", long_messages),
    ("a message of many lines", a_message_of_many_lines),
    ("many shapes of messages", many_shapes_of_messages),
    ("notifications", notifications),
    ("a chain of waits", a_chain_of_waits),
    ("a chain of waits that end", a_chain_of_waits_that_end),
    ("a ring of waits", a_ring_of_waits),
    ("many locks", many_locks),
    ("many functions", many_functions),
    ("many spans", many_spans),
    ("long call stacks", long_call_stacks),
    ("many runs", many_runs),
    ("warnings", warnings),
    ("a raw file", a_raw_file),
];

/// Returns every command and format. Their output goes to standard output, or to `out`.
fn commands() -> Vec<Vec<&'static str>> {
    let mut all = vec![
        vec!["-o", "-", "--all-runs", "app"],
        vec!["-o", "-", "--all-runs", "--symbols", "app"],
        vec!["-o", "-", "--all-runs", "--time", "wall", "--grep", "e", "app"],
        vec!["show", "--all-runs", "app"],
        vec!["show", "--all-runs", "--columns", "time,delta,process,thread,level,site,function", "app"],
        vec!["stats", "--all-runs", "app"],
        vec!["stats", "--all-runs", "--json", "app"],
        vec!["stats", "--all-runs", "--csv", "app"],
        vec!["rates", "--all-runs", "--every", "1us", "app"],
        vec!["summary", "--all-runs", "app"],
        vec!["summary", "--all-runs", "--json", "app"],
        vec!["spans", "--all-runs", "app"],
        vec!["spans", "--all-runs", "--slow", "10", "app"],
        vec!["spans", "--all-runs", "--id", "7", "app"],
        vec!["tree", "--all-runs", "app"],
        vec!["tree", "--all-runs", "--min-duration", "1us", "app"],
        vec!["tree", "--all-runs", "--depth", "5", "--function", "f", "app"],
        vec!["report", "--all-runs", "app"],
        vec!["report", "--all-runs", "--by-thread", "app"],
        vec!["report", "--all-runs", "--by-thread", "--json", "app"],
        vec!["report", "--all-runs", "--format", "folded", "app"],
        vec!["locks", "--all-runs", "app"],
        vec!["check", "-v", "--all-runs", "app"],
        vec!["info", "--all-runs", "app"],
        vec!["info", "--json", "--all-runs", "app"],
        vec!["diff", ".", "."],
        vec!["diff", "--json", ".", "."],
    ];
    let mut formats = vec!["jsonl", "csv", "perfetto", "chrome", "folded", "speedscope", "uftrace", "ctf"];
    formats.extend(cfg!(feature = "flamegraph").then_some("flamegraph"));
    formats.extend(cfg!(feature = "html").then_some("html"));
    formats.extend(cfg!(feature = "parquet").then_some("parquet"));
    all.extend(formats.iter().map(|format| vec!["--format", format, "-o", "out", "--all-runs", "app"]));
    all
}

/// The number of times that a command is measured that seems to take too much memory.
const TRIES: usize = 3;

/// The bytes that a process takes when it starts. A process that ends before the first look has taken at least these.
const START: u64 = 8 << 20;

/// The memory and the output of a command.
struct Taken {
    peak: u64,
    output: u64,
}

fn size_of(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| size_of(&entry.unwrap().path())).sum(),
        Err(_) => fs::metadata(path).map_or(0, |of| of.len()),
    }
}

/// Runs a command.
fn taken(place: &Place, args: &[&str]) -> Taken {
    let (out, stdout) = (place.path("tmp/out"), place.path("tmp/stdout"));
    let args: Vec<String> = args
        .iter()
        .map(|arg| if *arg == "out" { out.display().to_string() } else { (*arg).to_owned() })
        .collect();
    let mut command = place.command();
    command.args(&args).stdin(Stdio::null()).stdout(File::create(&stdout).unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (status, peak) = crate::support::peak::waited(&mut child);
    // Without messages, `diff` has nothing to compare.
    let most = if args[0] == "diff" { 2 } else { 1 };
    assert!(status.code().is_some_and(|status| status <= most), "{args:?}: {status}");
    let output = size_of(&stdout) + size_of(&out);
    let _ = (fs::remove_file(&out), fs::remove_dir_all(&out));
    Taken { peak, output }
}

/// Checks one shape at `bytes` and twice as many; returns the failures, and the numbers of bytes and of commands.
fn check((name, make): &Shape, bytes: usize) -> (Vec<String>, u64, usize) {
    let places = [bytes, 2 * bytes].map(|bytes| {
        let place = Place::new();
        make(&place, bytes);
        place
    });
    let input: u64 = places.iter().map(|place| size_of(&place.path("."))).sum();
    let mut wrong = Vec::new();
    let text = places.each_ref().map(|place| taken(place, &["-o", "-", "--all-runs", "app"]).output);
    let commands = commands();
    for args in &commands {
        let measure = || places.each_ref().map(|place| taken(place, args));
        let grows_too_much = |[half, whole]: &[Taken; 2]| {
            whole.peak as f64 / half.peak.max(START) as f64 > RATIO || whole.peak > MOST
        };
        let mut measured = measure();
        // A new process begins with the peak of the one that starts it, and other tests run in this one meanwhile.
        for _ in 1..TRIES {
            if grows_too_much(&measured) {
                measured = measure();
            }
        }
        let [half, whole] = measured;
        let mut fails = |is_so: bool, what: String| {
            if is_so {
                wrong.push(format!("{name}: {}: {what}", args.join(" ")));
            }
        };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let ratio = whole.peak as f64 / half.peak.max(START) as f64;
        fails(
            ratio > RATIO,
            format!("{:.1} MiB, and {:.1} MiB for half of it", mib(whole.peak), mib(half.peak)),
        );
        fails(whole.peak > MOST, format!("{:.1} MiB", mib(whole.peak)));
        for (of, text) in [(&half, text[0]), (&whole, text[1])] {
            fails(of.output > TIMES * text + BESIDES, format!("{} bytes of {text} of text", of.output));
        }
    }
    (wrong, input, 2 * commands.len())
}

fn check_all(bytes: usize) {
    let _quiet = quiet();
    let (next, all) = (AtomicUsize::new(0), Mutex::new((Vec::new(), 0, 0)));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(shape) = SHAPES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (wrong, input, commands) = check(shape, bytes);
                    let mut all = all.lock().unwrap();
                    all.0.extend(wrong);
                    (all.1, all.2) = (all.1 + input, all.2 + commands);
                }
            });
        }
    });
    let (wrong, input, commands) = all.into_inner().unwrap();
    println!("{} shapes, {input} bytes, {commands} runs of commands, {} wrong", SHAPES.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn memory_and_output_grow_with_the_input() {
    check_all(180 << 10);
}

#[test]
#[ignore = "it takes a quarter of an hour; its head says how to run it"]
fn memory_and_output_grow_with_an_input_of_50_megabytes() {
    check_all(900 << 10);
}
