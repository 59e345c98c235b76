//! A fuzzer for whole commands: whatever traces, rings, manifests, sites and logs contain, every command, view and
//! format ends in time, within its memory, with a status that it promises, writes valid output, and harms nothing
//! else.
//!
//! `FUZZ_INPUTS=10000 cargo test --test hostile survive -- --nocapture` tries this number of inputs, with seeds from 1
//! on; `FUZZ_SEED=4711` tries the input of that seed or, with `FUZZ_INPUTS`, the inputs from that seed on; `FUZZ_JOBS`
//! inputs are tried at a time. The programs whose traces are changed run anew each time, so a seed means the same
//! changes, but not the same bytes: an input that does harm is kept, and its path is printed.
//!
//! `FUZZ_BEFORE=PATH FUZZ_INPUTS=1000 cargo test --test hostile as_before -- --ignored --nocapture` also runs each
//! command with the older `tracemerge` at PATH, and shows the differences.
#![cfg(target_os = "linux")]

mod bases;
mod beside;
mod changes;
mod command_line;
mod oracle;
mod trial;

use bases::Base;
use beside::Seen;
use command_line::{Commands, ROOT};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use support::quiet::quiet;
use support::torture::Random;
use trial::{Place, Ran};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The words that start the command of this tree.
const TRACEMERGE: [&str; 2] = [SCENARIO, "tracemerge"];
/// The number of inputs in every run of the tests.
const INPUTS: u64 = 300;
/// The number of commands that are tried on an input, beside its plain merge.
const COMMANDS: u64 = 3;
/// The number of other command lines that are tried if the first one is invalid.
const ATTEMPTS: u64 = 4;
/// The number of further comparisons of two commands that differ.
const AGAIN: u32 = 6;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}

/// The commands that were tried, and their results.
#[derive(Default)]
struct Tally {
    /// The number of commands for each exit status.
    statuses: BTreeMap<i32, u64>,
    /// The number of successful commands for each subcommand and format.
    done: BTreeMap<String, u64>,
    wrong: Vec<u64>,
}

/// Calls `try_input` with each requested seed, and a place. Returns the first seed and the number of seeds.
fn for_each_seed(try_input: impl Fn(u64, &mut Place) + Sync) -> (u64, u64) {
    let _quiet = quiet();
    let seed = variable("FUZZ_SEED");
    let inputs = variable("FUZZ_INPUTS").unwrap_or(if seed.is_some() { 1 } else { INPUTS });
    let first = seed.unwrap_or(1);
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..variable("FUZZ_JOBS").unwrap_or(2) {
            scope.spawn(|| {
                let mut place = Place::new();
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= first + inputs {
                        return;
                    }
                    try_input(seed, &mut place);
                }
            });
        }
    });
    (first, inputs)
}

#[test]
fn commands_survive_any_input() {
    let (bases, commands) = (bases::all(SCENARIO), Commands::of(SCENARIO));
    let tally = Mutex::new(Tally::default());
    let (first, inputs) = for_each_seed(|seed, place| try_input(seed, &bases, &commands, place, &tally));
    let Tally { statuses, done, wrong } = tally.into_inner().expect("nobody panics");
    let all: u64 = statuses.values().sum();
    eprintln!(
        "fuzz: {inputs} inputs, {all} commands (by status: {statuses:?}), {} of {} commands and formats did something, {} wrong \
         (seeds {first} to {})",
        done.len(),
        commands.len(),
        wrong.len(),
        first + inputs - 1,
    );
    assert!(wrong.is_empty(), "seeds {wrong:?}");
    let refused = statuses.get(&2).copied().unwrap_or(0);
    assert!(inputs < INPUTS || refused < all / 2, "most commands find something to do");
}

/// Returns whether the command has refused its arguments.
fn is_misuse(ran: &Ran) -> bool {
    ran.status == Some(2) && String::from_utf8_lossy(&ran.err).contains("For more information, try '--help'")
}

#[test]
#[ignore = "by name, with the path of an older command in FUZZ_BEFORE"]
fn commands_behave_as_before() {
    let before = std::env::var("FUZZ_BEFORE").expect("the path of an older tracemerge in FUZZ_BEFORE");
    let (bases, commands) = (bases::all(SCENARIO), Commands::of(SCENARIO));
    let (tried, unsteady, wrong) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (first, inputs) = for_each_seed(|seed, place| {
        let mut random = Random::new(seed);
        let (files, changes) = changes::input(&bases, &mut random);
        for line in lines(seed, &commands, &mut random) {
            // The results of these depend on the moment, or on processes that run now.
            if command_line::follows(&line)
                || line.first().is_some_and(|word| word == "run" || word == "snapshot")
            {
                continue;
            }
            let run = |program: &[&str]| Seen::of(place.run(program, &files, &line));
            let was = run(&[&before]);
            // The older command does not know this command line, or neither accepts it.
            if is_misuse(was.ran()) {
                continue;
            }
            tried.fetch_add(1, Relaxed);
            let mut differences = beside::differences(&was, &run(&TRACEMERGE));
            for _ in 0..AGAIN {
                // A recovery reads the clock, so times may differ by a nanosecond.
                if differences.is_empty() || !beside::differences(&was, &run(&[&before])).is_empty() {
                    unsteady.fetch_add(u64::from(!differences.is_empty()), Relaxed);
                    differences.clear();
                    break;
                }
                differences = beside::differences(&was, &run(&TRACEMERGE));
            }
            if !differences.is_empty() {
                let (line, changes, all) = (line.join(" "), changes.join("; "), differences.join("\n    "));
                eprintln!("FUZZ_SEED={seed}: {line}\n  {changes}\n    {all}\n");
                wrong.lock().expect("nobody panics").push(seed);
            }
        }
    });
    let (tried, wrong) = (tried.into_inner(), wrong.into_inner().expect("nobody panics"));
    eprintln!(
        "beside {before}: {inputs} inputs, {tried} commands, {} never do the same twice, {} differ (seeds {first} to {})",
        unsteady.into_inner(),
        wrong.len(),
        first + inputs - 1
    );
    assert!(tried > 0, "{before} takes none of these commands");
    assert!(wrong.is_empty(), "seeds {wrong:?}");
}

/// Returns the commands that are tried on the input of this seed: the plain merge, and a few others in turn.
fn lines(seed: u64, commands: &Commands, random: &mut Random) -> Vec<Vec<String>> {
    let plain = ["-q", "--all-runs", "-o", "-"].map(str::to_owned);
    let plain = [&plain[..], &[format!("{ROOT}/{}", bases::TRACES)]].concat();
    let start = (seed * COMMANDS) as usize;
    let others = (0..COMMANDS as usize).map(|n| commands.line(start + n, random));
    std::iter::once(plain).chain(others).collect()
}

/// Makes the input of this seed and tries its plain merge and a few commands on it.
fn try_input(seed: u64, bases: &[Base], commands: &Commands, place: &mut Place, tally: &Mutex<Tally>) {
    let mut random = Random::new(seed);
    let (files, changes) = changes::input(bases, &mut random);
    let mut lines = lines(seed, commands, &mut random);
    // All subcommands and formats come in turn.
    let start = (seed * COMMANDS) as usize;
    let mut text = None;
    let logs: usize = files
        .iter()
        .filter(|file| file.path.starts_with(bases::LOGS))
        .filter_map(|f| f.bytes())
        .map(<[u8]>::len)
        .sum();
    for (number, line) in lines.iter_mut().enumerate() {
        let mut ran = place.run(&TRACEMERGE, &files, line);
        // Options that exclude each other say nothing of the input.
        for _ in 0..ATTEMPTS {
            if number == 0 || !is_misuse(&ran) {
                break;
            }
            *line = commands.line(start + number - 1, &mut random);
            ran = place.run(&TRACEMERGE, &files, line);
        }
        let mut wrong = oracle::judge(line, &ran, text);
        wrong.extend(place.describe_outside_harm());
        if number == 0 {
            // Other commands show this text, once or twice.
            text = Some(2 * (ran.out.len() + logs) as u64);
        }
        let mut tally = tally.lock().expect("nobody panics");
        if number > 0 {
            *tally.statuses.entry(ran.status.unwrap_or(-1)).or_default() += 1;
            if matches!(ran.status, Some(0 | 1)) {
                let name = format!("{:?}", commands.names()[(start + number - 1) % commands.len()]);
                *tally.done.entry(name).or_default() += 1;
            }
        }
        if !wrong.is_empty() {
            let kept = oracle::kept_at(seed, number);
            place.keep(&files, line, &TRACEMERGE, &kept);
            std::fs::write(kept.join("stderr"), &ran.err).expect("a file");
            std::fs::write(kept.join("stdout"), &ran.out).expect("a file");
            eprintln!(
                "FUZZ_SEED={seed}: {}\n  {}\n  {}\n  kept in {}\n",
                line.join(" "),
                changes.join("; "),
                wrong.join("; "),
                kept.display()
            );
            tally.wrong.push(seed);
        }
    }
}
