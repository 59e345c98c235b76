//! The torture: random settings × random faults × random kills, and one equation: made = in files + reported lost.
//!
//! `TORTURE_TRIALS=10000 cargo test --release --test recovery made_records_are_in -- --nocapture` runs this number of
//! trials, with seeds from 1 on; `TORTURE_SEED=4711` runs the trial of that seed or, with `TORTURE_TRIALS`, the trials
//! from that seed on, and prints the plan of a single trial; `TORTURE_JOBS` trials run at a time. The expectations are
//! in `tests/support/torture/oracle.rs`.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use support::quiet::quiet;
use support::torture::plan::{Policy, ProgramEnd, Runtime, Shapes, TrialPlan};
use support::torture::trial::run;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
/// The number of trials in every run of the tests.
const TRIALS: u64 = 100;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}

#[test]
fn made_records_are_in_files_or_reported_lost() {
    let _quiet = quiet();
    let seed = variable("TORTURE_SEED");
    let trials = variable("TORTURE_TRIALS").unwrap_or(if seed.is_some() { 1 } else { TRIALS });
    let first = seed.unwrap_or(1);
    let jobs = variable("TORTURE_JOBS").unwrap_or(2);
    let start = Instant::now();
    let [next, records, kills] = [AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0)];
    let wrong = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + trials {
                return;
            }
            let plan = TrialPlan::new(seed);
            if trials == 1 {
                eprintln!("{plan:?}");
            }
            // The trial runs in a thread of its own, because it may get mounts of its own.
            let trial = || run(SCENARIO, &plan, &|_| ());
            let trial = std::thread::scope(|scope| scope.spawn(trial).join());
            let outcome =
                trial.unwrap_or_else(|_| panic!("the trial of seed {seed} could not be done: {plan:?}"));
            records.fetch_add(outcome.records, Ordering::Relaxed);
            kills.fetch_add(outcome.kills, Ordering::Relaxed);
            if !outcome.wrong.is_empty() {
                let kept = outcome.kept.unwrap_or_default();
                eprintln!("seed {seed}: {plan:?}\n  kept in {kept:?}\n  {}\n", outcome.wrong.join("\n  "));
                wrong.lock().expect("nobody panics").push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics");
    eprintln!(
        "torture: {trials} trials, {} records, {} kills, {} wrong (seeds {first} to {}, {} s)",
        records.into_inner(),
        kills.into_inner(),
        wrong.len(),
        first + trials - 1,
        start.elapsed().as_secs(),
    );
    assert!(wrong.is_empty(), "seeds {wrong:?}");
}

#[test]
fn a_plan_depends_on_its_seed_alone_and_is_one_line() {
    for seed in 0..1000 {
        let line = format!("{:?}", TrialPlan::new(seed));
        assert_eq!(line, format!("{:?}", TrialPlan::new(seed)));
        assert!(!line.contains('\n') && (seed == 0 || line != format!("{:?}", TrialPlan::new(seed - 1))));
    }
}

/// Returns the plan of a trial without a fault, whose files can be changed.
fn calm() -> TrialPlan {
    let seed = (1..).find(|seed| {
        // The program makes its plan from the seed itself, so the plan must have a seed.
        let plan = TrialPlan::new(*seed);
        let calm = plan.faults.is_empty()
            && plan.copied.is_none()
            && plan.children.is_empty()
            && plan.beside.is_empty()
            && plan.end == ProgramEnd::Return
            && plan.policy == Policy::Block
            && plan.max_stall == 60_000
            && plan.runtime == Runtime::Memory
            && (plan.max_kb, plan.total_kb, plan.disk_kb, plan.descriptors) == (None, None, None, None)
            && !(plan.raw || plan.directory_missing || plan.signals)
            && plan.short_lived == 0;
        let Shapes { huge, panics, jumps, lines, .. } = plan.shapes;
        calm && lines && !(huge || panics || jumps)
    });
    TrialPlan::new(seed.expect("there is one"))
}

/// Returns whether a line is that of a message.
fn is_message(line: &[u8]) -> bool {
    line.windows(3).any(|three| three == b" : ")
}

/// Changes the trace file with the most messages, line by line.
fn change(traces: &Path, change: &dyn Fn(&mut Vec<Vec<u8>>)) {
    let files = support::names(traces);
    let is_trace = |path: &&std::path::PathBuf| path.to_string_lossy().contains(".trace.");
    let lines_of = |path: &std::path::PathBuf| -> Vec<Vec<u8>> {
        let bytes = std::fs::read(path).expect("a file");
        bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let all = files.iter().filter(is_trace).map(|path| (path, lines_of(path)));
    let messages = |lines: &[Vec<u8>]| lines.iter().filter(|line| is_message(line)).count();
    let (path, mut lines) = all.max_by_key(|(_, lines)| messages(lines)).expect("a trace file");
    change(&mut lines);
    std::fs::write(path, lines.concat()).expect("a file");
}

#[test]
fn the_oracle_notices_one_wrong_record() {
    let plan = calm();
    let verdict = |edit: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let outcome = run(SCENARIO, &plan, &|traces| change(traces, edit));
        if let Some(kept) = outcome.kept {
            std::fs::remove_dir_all(kept).expect("a removal");
        }
        outcome.wrong.join("\n")
    };
    let message_from = |lines: &[Vec<u8>], at: usize| {
        at + lines[at..].iter().position(|line| is_message(line)).expect("a message")
    };
    let message = |lines: &[Vec<u8>]| message_from(lines, 5);
    let says = |edit: &dyn Fn(&mut Vec<Vec<u8>>), words: &[&str]| {
        let said = verdict(edit);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    };
    assert_eq!(verdict(&|_| ()), "", "{plan:?}");
    says(&|lines| drop(lines.remove(message(lines))), &["1 are missing", "messages and 0 reported lost"]);
    let doubled = |lines: &mut Vec<Vec<u8>>| {
        let at = message(lines);
        lines.insert(at, lines[at].clone());
    };
    says(&doubled, &["there are too many", "stands before"]);
    let swapped = |lines: &mut Vec<Vec<u8>>| {
        let at = message(lines);
        let next = message_from(lines, at + 1);
        let (first, second) = (lines[at][16..].to_vec(), lines[next][16..].to_vec());
        lines[at].splice(16.., second);
        lines[next].splice(16.., first);
    };
    says(&swapped, &["stands before"]);
    let torn = |lines: &mut Vec<Vec<u8>>| {
        let at = message(lines);
        let end = lines[at].len() - 1;
        lines[at].splice(end..end, *b" more");
    };
    says(&torn, &["torn is "]);
    let lost = |lines: &mut Vec<Vec<u8>>| {
        let at = message(lines);
        let mut line = lines[at].clone();
        line.truncate(line.windows(3).position(|three| three == b" : ").expect("a message"));
        line.extend(b" # lost records=1 reason=full\n");
        lines[at] = line;
    };
    says(&lost, &["are reported lost, reason=full"]);
    let damaged = |lines: &mut Vec<Vec<u8>>| {
        let at = message(lines);
        lines[at][3] = b'x';
    };
    says(&damaged, &["has a damaged line"]);
}
