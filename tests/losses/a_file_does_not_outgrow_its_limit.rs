//! `TRACER_MAX_BYTES`: a file that reaches this limit loses its older half, up to the end of a message, and reports the
//! loss.

use std::process::{Command, Stdio};
use std::time::Duration;
use support::kills::later;
use support::{APP, Scenario, ThreadTrace, names, parse, runs};
use trace_format::meta::{LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const LIMIT: u64 = 128 * 1024;
/// The number of bytes that may be written at once beyond the limit: a quarter of it, and the longest message.
const SLACK: u64 = LIMIT / 4 + 40_000;

/// The formats in which files are written.
const FORMATS: [&str; 2] = ["text", "raw"];

fn scenario(records: u64, format: &str) -> Scenario {
    let scenario = Scenario::new(SCENARIO, &["rotated", &records.to_string()]).env("TRACER_FORMAT", format);
    scenario.env("TRACER_MAX_BYTES", &LIMIT.to_string()).env("TRACER_FLUSH_MS", "1")
}

/// Returns the numbers of the messages. Panics unless they have no gap and the messages are whole.
fn numbers(file: &ThreadTrace) -> Vec<u64> {
    let number = |text: &&str| {
        let number = text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
        let whole = match number % 1000 {
            7 => format!("{number} {}", "long ".repeat(3000)),
            8 => format!("{number} \nsecond line\n"),
            _ => number.to_string(),
        };
        assert_eq!(*text, whole, "a message is whole");
        number
    };
    let numbers: Vec<u64> = file.texts().iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "there is no gap");
    numbers
}

fn lost(file: &ThreadTrace) -> Vec<(LossReason, u64)> {
    let told = file.metas.iter().filter_map(|meta| match meta {
        Meta::Lost { records, reason } => Some((*reason, *records)),
        _ => None,
    });
    told.collect()
}

#[test]
fn rotation_keeps_the_newest_half_and_counts_the_dropped_records() {
    FORMATS.into_iter().for_each(assert_newest_half_is_kept);
}

fn assert_newest_half_is_kept(format: &str) {
    const RECORDS: u64 = 50_000;
    let traced = scenario(RECORDS, format).run().succeeded();
    let [path] = &names(traced.directory.path())[..] else { panic!("one file: {:?}", traced.files.keys()) };
    let size = std::fs::metadata(path).expect("the file").len();
    assert!((LIMIT / 2 - 20_000..LIMIT + SLACK).contains(&size), "{size} bytes");
    let file = traced.main_thread();
    let numbers = numbers(file);
    assert_eq!(numbers.last(), Some(&(RECORDS - 1)));
    assert_eq!(lost(file), [(LossReason::Rotated, RECORDS - numbers.len() as u64)]);
    let end = file.end();
    assert_eq!((end.records, end.lost), (numbers.len() as u64, RECORDS - numbers.len() as u64));
}

#[test]
fn rotation_reports_the_losses_of_the_dropped_half_again() {
    // Records that find no room are dropped as well: the flusher is far slower than the program.
    FORMATS.into_iter().for_each(assert_losses_are_reported_again);
}

fn assert_losses_are_reported_again(format: &str) {
    let scenario = scenario(50_000, format).env("TRACER_FULL", "drop").env("TRACER_RING_SIZE", "16K");
    let traced = scenario.run().succeeded();
    let file = traced.main_thread();
    let told: u64 = lost(file).iter().map(|(_, records)| records).sum();
    let end = file.end();
    assert_eq!(told, end.lost);
    assert_eq!(end.records, file.messages.len() as u64);
    assert_eq!(end.records + end.lost, 50_000);
}

#[test]
fn a_kill_at_any_moment_of_a_rotation_leaves_a_whole_file() {
    let mut rotated = 0;
    for kill in 0..60u64 {
        let mut scenario = scenario(u64::MAX, FORMATS[kill as usize % 2]);
        let mut child = scenario.command().stderr(Stdio::null()).spawn().expect("the program starts");
        std::thread::sleep(later(Duration::from_micros(20_000 + (kill * 7919) % 60_000)));
        child.kill().expect("it runs");
        child.wait().expect("its end");
        let mut merge = Command::new(SCENARIO);
        let app = scenario.directory.path().join(APP);
        let merged = merge.arg("merge").arg(app).env("TRACER_RUNTIME_DIR", scenario.runtime.path()).output();
        let merged = merged.expect("the merge can be run");
        let left = names(scenario.directory.path());
        let said = || format!("{left:?} {}", String::from_utf8_lossy(&merged.stderr));
        assert!(runs(scenario.runtime.path()).is_empty(), "{}", said());
        let file = left.iter().find(|path| !path.to_string_lossy().ends_with(".merge"));
        let Some(path) = file else { continue };
        assert_eq!(left.len(), 2, "one file and the merged one: {}", said());
        let file = parse("the file", &std::fs::read(path).expect("the file"));
        let numbers = numbers(&file);
        let lost: u64 = lost(&file).iter().map(|(_, records)| records).sum();
        assert_eq!(
            numbers.first().copied().unwrap_or(0),
            lost,
            "the missing records are reported: {}",
            said()
        );
        assert_eq!((file.end().records, file.end().lost), (numbers.len() as u64, lost));
        rotated += u64::from(lost > 0);
    }
    assert!(rotated > 20, "most are killed after their first rotation: {rotated}");
}
