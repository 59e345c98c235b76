//! The program that the tests trace: it logs messages, and prints them on stdout if a test compares them.
//!
//! A process has one logger, so the program is run for each scenario.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record, debug, error, info, trace, warn};
use support::stdout::InPieces;
use support::words::words;
use tracer::Tracer;

/// Makes a logger that prints the same messages by `env_logger`'s own formatter, on stdout, without the time.
fn oracle() -> env_logger::Logger {
    env_logger::Builder::new()
        .format_timestamp(None)
        .filter_level(LevelFilter::Trace)
        .target(env_logger::Target::Pipe(Box::new(InPieces)))
        .build()
}

struct Point(i32, i32);

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}|{}>", self.0, self.1)
    }
}

/// A value that logs a message while it is formatted.
struct Talks(u32);

impl fmt::Display for Talks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 0 {
            info!(depth = self.0; "inside: {}", Talks(self.0 - 1));
        }
        write!(f, "talked {}", self.0)
    }
}

struct Panics;

impl fmt::Display for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("before ")?;
        panic!("in a Display")
    }
}

/// Logs messages of many kinds, each twice: before readers know its place, and after that.
fn everything() {
    for round in 0..2u8 {
        error!("a fixed text with {{braces}}");
        warn!("round {round}, {:>8.3} and {:?}", 2.5, "text \u{1b}");
        info!(a = 1, b = -1i64, c = u64::MAX; "integers");
        debug!(big = i128::MIN, bigger = u128::MAX; "large ones: {}", round);
        trace!(x = 0.1, y = f64::INFINITY, z = -0.0; "floats");
        info!(yes = true, no = false, letter = 'ß'; "others");
        info!(name = "a name", owned = String::from("two\nlines").as_str(); "texts");
        info!(at:% = Point(round.into(), -7), list:? = [1, 2, 3]; "formatted");
        info!(target: "another::target", n = round; "elsewhere");
        info!(long = "x".repeat(5000).as_str(); "{}", "y".repeat(70_000));
        // Similar calls, distinguished by their texts, levels, targets and keys.
        info!("one");
        info!("two");
        warn!("one");
        info!(target: "other", "one");
        info!(k = 1; "one");
        // A value of another type, or none, is another shape.
        for value in [Some(1), None] {
            info!(value:?; "perhaps");
        }
        let _ = Tracer::get().flush();
    }
}

/// Logs records with keys that are made at run time.
fn dynamic_keys(count: usize) {
    for n in 0..count {
        let key = format!("key{n}");
        let pairs = [(key.as_str(), log::kv::Value::from(n as u64))];
        let mut record = Record::builder();
        record.level(Level::Info).target("dynamic").key_values(&pairs);
        log::logger().log(&record.args(format_args!("number {n}")).build());
    }
}

/// Runs four threads that each log numbers, and count their messages in a shared file.
fn stress(path: &str) {
    let committed = words(Path::new(path), 4);
    let end = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        for (thread, committed) in committed.iter().enumerate() {
            scope.spawn(move || {
                for n in 0u64.. {
                    match n % 3 {
                        0 => info!("{thread} {n}"),
                        1 => info!(n; "{thread}"),
                        _ => info!(n, kind = "text"; "{thread}"),
                    }
                    committed.store(n + 1, Ordering::Release);
                    if n % 1000 == 0 && Instant::now() > end {
                        return;
                    }
                }
            });
        }
    });
}

/// A logger that keeps the messages that it gets: debug and up of target `wanted`.
struct Keeps(Mutex<Vec<String>>);

impl Log for Keeps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "wanted"
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(format!(
            "{} {}",
            record.level(),
            record.args()
        ));
    }

    fn flush(&self) {}
}

impl Log for &'static Wraps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.0.log(record);
    }

    fn flush(&self) {}
}

struct Wraps(Keeps);

static KEEPS: Wraps = Wraps(Keeps(Mutex::new(Vec::new())));

fn both() {
    tracer_log::init_with(Box::new(&KEEPS), LevelFilter::Debug).unwrap_or_else(|e| die(&e));
    say(&format!("max {}", log::max_level()));
    info!(target: "wanted", "both");
    trace!(target: "wanted", "only the trace");
    info!(target: "unwanted", "only the trace, too");
    let _ = Tracer::get().shutdown();
    say(&format!("max {}", log::max_level()));
    info!(target: "wanted", "only the other");
    trace!(target: "wanted", "nobody");
    say(&KEEPS.0.0.lock().unwrap_or_else(|e| e.into_inner()).join("\n"));
}

/// Switches tracing on and off while the program runs.
fn switched() {
    tracer_log::init().unwrap_or_else(|e| die(&e));
    say(&format!("max {}", log::max_level()));
    info!("not said: {}", Tells);
    Tracer::get().startup("SPEAKER_ENABLE");
    say(&format!("max {}", log::max_level()));
    info!("said: {}", Tells);
    debug!("too detailed: {}", Tells);
    let _ = Tracer::get().shutdown();
    say(&format!("max {}", log::max_level()));
    info!("not said: {}", Tells);
    Tracer::get().startup("SPEAKER_ENABLE");
    info!("said again: {}", Tells);
}

/// A value that prints on stdout when it is formatted.
struct Tells;

impl fmt::Display for Tells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        say("formatted");
        f.write_str("told")
    }
}

fn threads() {
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            scope.spawn(move || (0..1000).for_each(|n| info!(thread, n, text = "t"; "from a thread")));
        }
    });
}

fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn die(error: &dyn fmt::Display) -> ! {
    let _ = writeln!(std::io::stderr(), "log_speaker: {error}");
    std::process::exit(2)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let argument = args.get(1).map_or("", String::as_str);
    let init = || tracer_log::init().unwrap_or_else(|e| die(&e));
    match args.first().map_or("", String::as_str) {
        "everything" => {
            let with = oracle();
            tracer_log::init_with(Box::new(with), LevelFilter::Trace).unwrap_or_else(|e| die(&e));
            everything();
        }
        "nested" => {
            init();
            for _ in 0..2 {
                info!("outside: {}", Talks(2));
                let _ = Tracer::get().flush();
            }
        }
        "panics" => {
            init();
            std::panic::set_hook(Box::new(|_| {}));
            info!(after = 1; "it {Panics}");
            info!("going on");
        }
        "filtered" => {
            init();
            say(&format!("max {}", log::max_level()));
            for target in ["app", "app::net", "other"] {
                error!(target: target, "error");
                info!(target: target, "info");
                debug!(target: target, "debug {}", Tells);
            }
        }
        "dynamic" => {
            init();
            dynamic_keys(argument.parse().unwrap_or(0));
        }
        "twice" => {
            init();
            say(&format!("{}", tracer_log::init().is_err()));
            info!("still said");
        }
        "threads" => {
            init();
            threads();
        }
        "both" => both(),
        "switched" => switched(),
        "stress" => {
            init();
            stress(argument);
        }
        "tracemerge" => {
            std::process::exit(i32::from(tracemerge::main(std::env::args_os().skip(1))));
        }
        other => die(&format!("no scenario {other:?}")),
    }
}
