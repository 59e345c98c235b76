//! A trace records the duration of the run's start once: in the file of the thread that made the first record,
//! after the first two lines, however the run ended and whichever process wrote the file.

use std::collections::BTreeMap;

use support::merges::tracemerge;
use support::{APP, Scenario, ThreadTrace, Traced, read_directory};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the nanoseconds in the file's `# start` line. Panics unless that line is the third one and the only one
/// of its kind.
fn told(file: &ThreadTrace) -> Option<u64> {
    let starts = file.metas.iter().enumerate();
    let mut starts = starts
        .filter_map(|(place, meta)| if let Meta::Start { ns } = meta { Some((place, *ns)) } else { None });
    let first = starts.next();
    assert_eq!(starts.next(), None, "once in a file");
    first.map(|(place, ns)| {
        assert_eq!(place, 2, "behind the first two lines");
        let Meta::Run(run) = &file.metas[0] else { panic!("a run line") };
        assert!(ns > 0 && run.ticks <= file.messages[0].0.ticks);
        ns
    })
}

/// Returns, for each run, the durations of its start that the files of its threads record.
fn start_durations_by_run<'a>(
    files: impl Iterator<Item = &'a ThreadTrace>,
) -> BTreeMap<(u32, u32), Vec<u64>> {
    let mut runs: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for file in files {
        let Meta::Run(run) = &file.metas[0] else { panic!("a run line") };
        runs.entry((run.pid, run.id)).or_default().extend(told(file));
    }
    runs
}

/// Returns the object that `info --json` prints of the traces.
fn info(traced: &Traced) -> serde_json::Value {
    let app = traced.directory.path().join(APP);
    let args = ["info", "--json", app.to_str().expect("a path in UTF-8")];
    let output = tracemerge(SCENARIO, traced.runtime.path(), args).output().expect("the command can be run");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn the_recorded_duration_is_at_most_that_of_the_first_call() {
    for format in ["text", "raw"] {
        let traced =
            Scenario::new(SCENARIO, &["first-records"]).env("TRACER_FORMAT", format).run().succeeded();
        let is_main = |file: &&ThreadTrace| file.messages.iter().any(|(_, m)| m.starts_with("calibration"));
        let main = traced.files.values().find(is_main).expect("the main thread's file");
        let (_, text) = &main.messages[1];
        let took: u64 = text.split_whitespace().next_back().expect("a number").parse().expect("a number");
        let ns = told(main).expect("a start");
        // Both are intervals of one clock, and one lies in the other.
        assert!(ns <= took, "{format}: {ns} of {took}");
        let others: Vec<u64> = traced.files.values().filter(|file| !is_main(file)).filter_map(told).collect();
        assert!(traced.files.len() > 1 && others.is_empty(), "{format}: {others:?}");
        assert_eq!(info(&traced)["runs"][0]["start_ns"], ns, "{format}");
    }
}

#[test]
fn forked_and_restarted_runs_record_their_own_start() {
    let fork = cfg!(unix).then_some(("fork", 2));
    for (scenario, least) in fork.into_iter().chain([("shutdown", 2)]) {
        let traced = Scenario::new(SCENARIO, &[scenario]).run();
        let runs = start_durations_by_run(traced.files.values());
        assert!(runs.len() >= least, "{scenario}: {runs:?}");
        assert!(runs.values().all(|starts| starts.len() == 1), "{scenario}: {runs:?}");
    }
}

/// Runs a process that is killed as soon as its first call has returned, while its flusher is at work.
#[test]
fn the_first_record_and_the_start_duration_outlast_a_kill() {
    for n in 0..60 {
        let format = if n % 2 == 0 { "text" } else { "raw" };
        let traced = Scenario::new(SCENARIO, &["killed-at-once"]).env("TRACER_FORMAT", format).run();
        assert!(!traced.output.status.success());
        let app = traced.directory.path().join(APP);
        let merge =
            tracemerge(SCENARIO, traced.runtime.path(), ["-q", app.to_str().expect("a path in UTF-8")]);
        let output = { merge }.output().expect("the command can be run");
        let files = read_directory(traced.directory.path());
        let [file] = files.values().collect::<Vec<_>>()[..] else { panic!("{:?} {output:?}", files.keys()) };
        assert_eq!(file.texts(), ["killed at once"], "{n}");
        assert!(told(file).is_some(), "{n}: {:?}", file.metas);
        assert!(traced.left_in_runtime().is_empty(), "{n}");
    }
}
