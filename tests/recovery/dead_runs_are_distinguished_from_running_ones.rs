//! A run is dead if its lock is free, whatever its process id is: a run may live although no process has that id on
//! this system, and it may be dead although a process has that id.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::process::Command;
use support::processes::{MIN_WAITS_OF_TIMEOUT, Merged, Running, merge};
use support::programs::left_out;
use support::{Scenario, ThreadTrace, names, read_directory, runs, wait_until};
use trace_format::meta::{EndReason, Meta, Run};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns a scenario whose records stay in the rings.
fn unflushed(program: &str, args: &[&str]) -> Scenario {
    Scenario::new(program, args).env("TRACER_FLUSH_MS", "60000")
}

fn run_of(file: &ThreadTrace) -> &Run {
    let Some(Meta::Run(run)) = file.metas.first() else { panic!("a file begins with its run") };
    run
}

/// Panics unless the files hold `count` records of the main thread and of another one, and record that both were
/// killed.
fn assert_recovered<'a>(files: impl IntoIterator<Item = &'a ThreadTrace>, count: u64) {
    let mut threads = Vec::new();
    for file in files {
        let thread = file.texts()[0].split(' ').next().expect("a word");
        let expected: Vec<String> = (0..count).map(|n| format!("{thread} {n}")).collect();
        assert_eq!(file.texts(), expected);
        let end = file.end();
        assert_eq!((end.records, end.lost, end.reason), (count, 0, EndReason::Killed));
        threads.push(thread);
    }
    threads.sort_unstable();
    assert_eq!(threads, ["main", "other"]);
}

fn assert_all_recovered(scenario: &Scenario, count: u64) {
    assert_recovered(read_directory(scenario.directory.path()).values(), count);
    assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
}

fn merge_here(scenario: &Scenario) -> Merged {
    merge(scenario, &[SCENARIO.as_ref()])
}

/// Merges while the run lives. Panics unless the merge does not wait and leaves the run alone.
fn assert_left_alone(scenario: &Scenario, merged: &[&OsStr]) {
    let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run") };
    let before = names(run);
    let merged = merge(scenario, merged);
    assert!(merged.waits < MIN_WAITS_OF_TIMEOUT, "{merged:?}");
    // More rings may have been made meanwhile.
    assert!(before.iter().all(|path| path.exists()), "{before:?} {:?}", names(run));
}

#[test]
fn a_run_ended_by_exec_is_recovered_by_the_next_program() {
    let scenario = unflushed(SCENARIO, &["exec", "itself"]);
    let traced = scenario.run().succeeded();
    let is_new = |file: &&ThreadTrace| file.texts() == ["after the exec"];
    let (new, old): (Vec<&ThreadTrace>, Vec<_>) = traced.files.values().partition(is_new);
    let [new] = new[..] else { panic!("one file of the new program") };
    assert_eq!(new.end().reason, EndReason::Exit);
    assert!(old.iter().all(|old| run_of(old).pid == run_of(new).pid && run_of(old).id != run_of(new).id));
    assert_recovered(old, 100);
    assert!(traced.left_in_runtime().is_empty(), "{:?}", traced.left_in_runtime());
}

#[test]
fn a_run_ended_by_exec_is_recovered_while_its_process_runs() {
    let mut scenario = unflushed(SCENARIO, &["exec", "sleep"]);
    let running = Running::start(&mut scenario);
    let name = format!("/proc/{}/comm", running.pid());
    wait_until(60, "the other program", || std::fs::read_to_string(&name).is_ok_and(|n| n == "sleep\n"));
    merge_here(&scenario).succeeded();
    assert_all_recovered(&scenario, 100);
    running.kill();
}

#[test]
fn a_zombie_process_is_dead() {
    let mut scenario = unflushed(SCENARIO, &["held", "100"]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    running.signal(libc::SIGKILL);
    running.wait_without_reaping(libc::WEXITED);
    merge_here(&scenario).succeeded();
    assert_all_recovered(&scenario, 100);
}

#[test]
fn simultaneous_recoveries_lose_and_double_nothing() {
    let mut scenario = unflushed(SCENARIO, &["held", "9000"]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    running.kill();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| merge_here(&scenario).succeeded());
        }
    });
    assert_all_recovered(&scenario, 9000);
}

/// Recovers a dead run that has over a hundred times as many records as the new one traces before it counts the
/// runs in memory.
#[test]
fn a_recovering_run_still_serves_its_own_threads() {
    const DEAD: u64 = 400_000;
    let mut scenario = unflushed(SCENARIO, &["held", &DEAD.to_string()]).env("TRACER_RING_SIZE", "32M");
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    running.kill();
    let mut next = Scenario::new(SCENARIO, &["beside-the-dead", "3000"])
        .env("TRACER_RING_SIZE", "16K")
        .env("TRACER_MAX_STALL", "60000");
    (next.directory, next.runtime) = (scenario.directory, scenario.runtime);
    let places = [("TRACER_DIR", next.directory.path()), ("TRACER_RUNTIME_DIR", next.runtime.path())];
    let places = places.map(|(name, path)| (name, path.to_path_buf()));
    let output = next.command().envs(places).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"2\n", "it has traced all that before the dead run was recovered");
    let files = read_directory(next.directory.path());
    let is_new = |file: &&ThreadTrace| file.texts()[0] == "beside the dead 0";
    let (new, old): (Vec<&ThreadTrace>, Vec<_>) = files.values().partition(is_new);
    let expected: Vec<String> = (0..3000).map(|n| format!("beside the dead {n}")).collect();
    assert_eq!(new.iter().flat_map(|file| file.texts()).collect::<Vec<_>>(), expected);
    assert_recovered(old, DEAD);
    assert!(names(next.runtime.path()).is_empty(), "nothing is left in memory");
}

/// Returns a command that runs another one as the first process of a new pid namespace; processes that it starts
/// die with it. Returns `None` if the system refuses that, and reports that the test is left out.
fn own_pid_namespace() -> Option<Vec<&'static OsStr>> {
    for whose in ["root", "user"] {
        let command = [SCENARIO, "in-own-pids", whose];
        let found = Command::new(command[0]).args(&command[1..]).arg("true").output();
        if found.is_ok_and(|output| output.status.success()) {
            return Some(command.into_iter().map(OsStr::new).collect());
        }
    }
    left_out("a pid namespace, which this system refuses");
    None
}

/// Starts the program in a pid namespace of its own, after the shell command `before`.
fn start_in(namespace: &[&OsStr], before: &str) -> (Scenario, Running) {
    let mut scenario = unflushed(namespace[0].to_str().expect("UTF-8"), &[]);
    let script = format!("{before}; \"$0\" held 100; exit $?");
    scenario.command().args(&namespace[1..]).args(["sh", "-c", &script, SCENARIO]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    (scenario, running)
}

/// Returns the process id that the only run's process has in its own namespace.
fn own_pid(scenario: &Scenario) -> u32 {
    let [run] = &runs(scenario.runtime.path())[..] else { panic!("one run") };
    let name = run.file_name().and_then(OsStr::to_str).expect("UTF-8");
    name.split_once('-').expect("two parts").0.parse().expect("a number")
}

#[test]
fn a_run_in_another_pid_namespace_is_recovered_only_after_its_death() {
    let Some(namespace) = own_pid_namespace() else { return };
    let (scenario, running) = start_in(&namespace, "true");
    assert_left_alone(&scenario, &[SCENARIO.as_ref()]);
    running.kill();
    let dead =
        || merge_here(&scenario).succeeded().status == Some(0) && runs(scenario.runtime.path()).is_empty();
    // A process that is alone in its namespace dies a moment after the process that has started it.
    wait_until(60, "the death of the other process", dead);
    assert_all_recovered(&scenario, 100);
}

#[test]
fn equal_pids_of_two_pid_namespaces_are_not_confused() {
    let Some(namespace) = own_pid_namespace() else { return };
    let number = "/proc/sys/kernel/ns_last_pid";
    if !std::path::Path::new(number).exists() {
        left_out("a system that lets root choose a process id");
        return;
    }
    let other = Running::start(&mut Scenario::new("sleep", &["1000"]));
    let (scenario, running) = start_in(&namespace, &format!("echo {} > {number}", other.pid() - 1));
    assert_eq!(own_pid(&scenario), other.pid().cast_unsigned());
    assert_left_alone(&scenario, &[SCENARIO.as_ref()]);
    running.kill();
    wait_until(60, "the death of the other process", || {
        merge_here(&scenario).succeeded().status == Some(0) && runs(scenario.runtime.path()).is_empty()
    });
    assert_all_recovered(&scenario, 100);
    assert!(
        std::path::Path::new(&format!("/proc/{}", other.pid())).exists(),
        "the other one of its number lives"
    );
}

#[test]
fn a_recoverer_with_the_pid_of_a_run_recovers_only_dead_runs() {
    let Some(namespace) = own_pid_namespace() else { return };
    let mut scenario = unflushed(namespace[0].to_str().expect("UTF-8"), &[]);
    scenario.command().args(&namespace[1..]).args([SCENARIO, "held", "100"]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    assert_eq!(own_pid(&scenario), 1);
    let recoverer: Vec<&OsStr> = namespace.iter().copied().chain([SCENARIO.as_ref()]).collect();
    assert_left_alone(&scenario, &recoverer);
    running.kill();
    wait_until(60, "the death of the other process", || {
        merge(&scenario, &recoverer).succeeded().status == Some(0) && runs(scenario.runtime.path()).is_empty()
    });
    assert_all_recovered(&scenario, 100);
}
