//! Measures the bridges from `log` and `tracing` beside other subscribers and loggers: a Markdown table on stdout.
//!
//! `cargo run --release --manifest-path benches/bridges/Cargo.toml` measures; an argument is the number of rounds (5).
//! A process has one subscriber, so a separate process measures each row of the table, by turns; the table has the
//! medians over the rounds. A figure is the median over bursts of 1,000 calls, with pauses of 3 ms in which background
//! threads catch up, so that no queue is full. Files are written to a directory in memory if there is one. Full queues
//! wait; this tracer's processes fail unless all of their records are in the rings.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The number of calls in a burst.
const BURST: u32 = 1000;
/// The number of bursts that are measured, and the number of bursts before them that are not measured.
const BURSTS: usize = 100;
const WARM_UP: usize = 20;

/// The measured ways to log, one for each row of the table: the facades alone, then the bridges and the peers of each.
const WAYS: [&str; 13] = [
    "log alone",
    "tracer-log, off",
    "tracer-log",
    "env_logger",
    "tracing alone",
    "registry, nothing",
    "layer, off",
    "subscriber, off",
    "layer",
    "subscriber",
    "subscriber, fast clock",
    "fmt + tracing-appender",
    "tracing-chrome",
];

/// The measured calls, one for each column of the table.
const ROWS: [&str; 6] =
    ["three fields", "three in the text", "fixed text", "enter, leave", "whole span", "three fields, again"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [way, directory] => measure(way, Path::new(directory)),
        _ => run(arguments.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bridges: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures all ways in `rounds` rounds, and prints the table.
fn run(rounds: usize) -> Outcome<()> {
    let memory = Path::new("/dev/shm");
    let mut figures: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        for way in WAYS {
            eprintln!("round {}: {way}", round + 1);
            let directory =
                if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
            let mut command = Command::new(std::env::current_exe()?);
            command.arg(way).arg(directory.path()).env("TRACER_DIR", directory.path());
            let is_on = matches!(way, "tracer-log" | "layer" | "subscriber" | "subscriber, fast clock");
            command.env("TRACER_ENABLE", if is_on { "1" } else { "0" }).env("TRACER_FORMAT", "raw");
            command.env("TRACER_CLOCK", if way.contains("fast") { "fast" } else { "ordered" });
            let output = command.output()?;
            if !output.status.success() {
                return Err(format!("{way}: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
            for line in String::from_utf8(output.stdout)?.lines() {
                let (row, ns) = line.split_once('\t').ok_or("a line without a figure")?;
                figures.entry((way, row.to_owned())).or_default().push(ns.parse()?);
            }
        }
    }
    let mut table = format!("| ns | {} |\n|---|", ROWS.join(" | "));
    table.push_str(&"---|".repeat(ROWS.len()));
    for way in WAYS {
        table.push_str(&format!("\n| {way} |"));
        for row in ROWS {
            match figures.get_mut(&(way, row.to_owned())) {
                Some(taken) => table.push_str(&format!(" {:.1} |", median(taken))),
                None => table.push_str(" |"),
            }
        }
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures one way in this process, with files in `directory`.
fn measure(way: &str, directory: &Path) -> Outcome<()> {
    let file = |name: &str| File::create(directory.join(name));
    // The guards are kept to the end: a drop flushes.
    let mut guards: Vec<Box<dyn std::any::Any>> = Vec::new();
    match way {
        "log alone" | "tracing alone" => {}
        "tracer-log" | "tracer-log, off" => tracer_log::init()?,
        "env_logger" => env_logger::Builder::new()
            .filter_level(log::LevelFilter::Trace)
            .target(env_logger::Target::Pipe(Box::new(file("env_logger")?)))
            .try_init()?,
        "registry, nothing" => tracing_subscriber::registry().with(Nothing).try_init()?,
        "layer" | "layer, off" => tracing_subscriber::registry().with(tracer_tracing::layer()).try_init()?,
        "subscriber" | "subscriber, off" | "subscriber, fast clock" => tracer_tracing::init()?,
        "fmt + tracing-appender" => {
            let waiting = tracing_appender::non_blocking::NonBlockingBuilder::default().lossy(false);
            let (writer, guard) = waiting.finish(BufWriter::new(file("appender")?));
            guards.push(Box::new(guard));
            let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
            tracing_subscriber::registry().with(layer).try_init()?;
        }
        "tracing-chrome" => {
            let builder =
                tracing_chrome::ChromeLayerBuilder::new().file(directory.join("chrome")).include_args(true);
            let (layer, guard) = builder.build();
            guards.push(Box::new(guard));
            tracing_subscriber::registry().with(layer).try_init()?;
        }
        other => return Err(format!("no way {other:?}").into()),
    }
    if way.contains("log") {
        by_log()?;
    } else {
        by_tracing()?;
    }
    let stats = tracer::Tracer::get().stats();
    if stats.lost > 0 || stats.private_rings > 0 {
        return Err(format!("records are lost: {stats:?}").into());
    }
    Ok(())
}

/// A layer that does nothing.
struct Nothing;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Nothing {}

fn by_log() -> Outcome<()> {
    let fields = |n: u64| log::info!(n, int = n as i64 - 7, double = n as f64 / 3.0; "said");
    time(ROWS[0], fields)?;
    time(ROWS[1], |n| log::info!("said {n} {} {}", n as i64 - 7, n as f64 / 3.0))?;
    time(ROWS[2], |_| log::info!("a fixed string"))?;
    time(ROWS[5], fields)
}

fn by_tracing() -> Outcome<()> {
    let fields = |n: u64| tracing::info!(n, int = n as i64 - 7, double = n as f64 / 3.0, "said");
    time(ROWS[0], fields)?;
    time(ROWS[1], |n| tracing::info!("said {n} {} {}", n as i64 - 7, n as f64 / 3.0))?;
    time(ROWS[2], |_| tracing::info!("a fixed string"))?;
    let span = tracing::info_span!("span");
    time(ROWS[3], |n| {
        let _entered = span.enter();
        black_box(n);
    })?;
    time(ROWS[4], |n| {
        let span = tracing::info_span!("whole", n);
        let _entered = span.enter();
        black_box(n);
    })?;
    time(ROWS[5], fields)
}

/// Times calls in bursts, and prints the median time of one call.
fn time(row: &str, call: impl Fn(u64)) -> Outcome<()> {
    let mut taken = Vec::with_capacity(BURSTS);
    for burst in 0..WARM_UP + BURSTS {
        let start = Instant::now();
        for n in 0..BURST {
            call(black_box(u64::from(n)));
        }
        let elapsed = start.elapsed();
        if burst >= WARM_UP {
            taken.push(elapsed.as_nanos() as f64 / f64::from(BURST));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    writeln!(std::io::stdout(), "{row}\t{}", median(&mut taken))?;
    Ok(())
}
