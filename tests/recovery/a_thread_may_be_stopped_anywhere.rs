//! A thread is stopped at any instruction, inside of a record, or with its whole process: the other threads continue,
//! and no record is torn, doubled or lost.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(unsafe_code, reason = "ptrace")]

use std::os::unix::process::CommandExt;
use support::processes::{MIN_WAITS_OF_TIMEOUT, Running, merge};
use support::{APP, Scenario, ThreadTrace, read_directory, wait_until};
use trace_format::meta::{EndReason, LossReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// A thread that the calling thread controls by ptrace.
struct Tracee(libc::pid_t);

impl Tracee {
    fn request(&self, request: libc::c_uint, data: libc::c_long) {
        // SAFETY: none of the requests that are made here touches memory of this process.
        let result = unsafe { libc::ptrace(request, self.0, 0, data) };
        assert_ne!(result, -1, "ptrace: {}", std::io::Error::last_os_error());
    }

    /// Waits until the thread has stopped; returns the signal that stopped it. `None` if the thread has
    /// ended.
    fn wait(&self) -> Option<libc::c_int> {
        let mut status = 0;
        // SAFETY: the result is plain memory.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, libc::__WALL) }, self.0);
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    /// Returns whether the thread has raised its next SIGSTOP: a handler would be stopped at its first
    /// instruction.
    fn is_about_to_stop(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).expect("its status");
        let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).expect("its signals");
        u64::from_str_radix(pending.trim(), 16).expect("a set") & 1 << (libc::SIGSTOP - 1) != 0
    }

    fn step(&self) -> Option<libc::c_int> {
        self.request(libc::PTRACE_SINGLESTEP, 0);
        self.wait()
    }

    /// Lets the thread go on, with a signal or 0, until it stops again.
    fn go_on(&self, signal: libc::c_int) -> Option<libc::c_int> {
        self.request(libc::PTRACE_CONT, signal.into());
        self.wait()
    }
}

/// Starts the program under the control of the calling thread, up to the first stop that the program itself causes.
fn start_traced(scenario: &mut Scenario) -> Tracee {
    // SAFETY: the call may be made between `fork` and `exec`.
    unsafe {
        scenario.command().pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        });
    }
    #[allow(clippy::zombie_processes, reason = "waited for by `waitpid`")]
    let child = scenario.command().spawn().expect("the program starts");
    let tracee = Tracee(libc::pid_t::try_from(child.id()).expect("a process id"));
    assert_eq!(tracee.wait(), Some(libc::SIGTRAP), "it stops when it is loaded");
    assert_eq!(tracee.go_on(0), Some(libc::SIGSTOP));
    tracee
}

/// The result of a thread that was interrupted everywhere.
#[derive(Debug)]
struct Interrupted {
    /// The number of calls of `trace`.
    calls: usize,
    /// The number of calls in which a signal came, each time at a later instruction boundary.
    signals: usize,
}

/// Sends a signal at every `every`-th instruction boundary of a call of `trace`, each time in another call, up to
/// the longest path of a call.
fn interrupt_everywhere(scenario: &mut Scenario, every: usize) -> Interrupted {
    /// The number of calls in a row that must end before the boundary is reached, to show that there is no longer
    /// path.
    const SHORTER: usize = 10;
    let tracee = start_traced(scenario);
    let mut done = Interrupted { calls: 0, signals: 0 };
    let mut shorter = 0;
    while shorter < SHORTER {
        done.calls += 1;
        let reached = (0..done.signals * every).all(|_| tracee.step() == Some(libc::SIGTRAP));
        if reached && !tracee.is_about_to_stop() {
            assert_eq!(tracee.go_on(libc::SIGUSR1), Some(libc::SIGSTOP), "{done:?}");
            done.signals += 1;
            shorter = 0;
            continue;
        }
        if reached {
            assert_eq!(tracee.go_on(0), Some(libc::SIGSTOP), "{done:?}");
        }
        shorter += 1;
    }
    assert_eq!(tracee.go_on(libc::SIGUSR2), None, "it ends");
    done
}

/// Panics unless there are `outer` and `handled` records, each once, in order, and only the usual metadata lines.
fn assert_each_once(file: &ThreadTrace, outer: usize, handled: usize) {
    for (kind, count) in [("outer ", outer), ("handler ", handled)] {
        let texts = file.texts().into_iter();
        let numbers = texts.filter_map(|t| t.strip_prefix(kind)?.split(' ').next()?.parse::<usize>().ok());
        let numbers: Vec<usize> = numbers.collect();
        let wrong = numbers.iter().enumerate().find(|(place, number)| place != *number);
        assert_eq!((wrong, numbers.len()), (None, count), "{kind}");
    }
    assert_eq!(file.messages.len(), outer + handled);
    let usual = |meta: &Meta| {
        matches!(
            meta,
            Meta::Run(_)
                | Meta::Thread(_)
                | Meta::Start { .. }
                | Meta::Clock { .. }
                | Meta::Stall { .. }
                | Meta::Wait(_)
                | Meta::End(_)
        )
    };
    assert!(file.metas.iter().all(usual), "{:?}", file.metas);
    assert_eq!((file.end().records, file.end().lost), (file.messages.len() as u64, 0));
}

/// Returns the distance of interrupted boundaries. `EVERY_INSTRUCTION=1 cargo test --test recovery
/// a_thread_may_be_stopped` leaves none out; nor does a release build, which has fewer.
fn every(otherwise: usize) -> usize {
    let all = std::env::var_os("EVERY_INSTRUCTION").is_some() || !cfg!(debug_assertions);
    if all { 1 } else { otherwise }
}

fn interrupt_records_everywhere(how: &str, ring_size: &str, every: usize) {
    let mut scenario = Scenario::new(SCENARIO, &["stepped", how]).env("TRACER_RING_SIZE", ring_size);
    let Interrupted { calls, signals } = interrupt_everywhere(&mut scenario, every);
    eprintln!(
        "{how} records: a signal at {signals} instruction boundaries, one of {every}, in {calls} calls"
    );
    assert!(signals * every > 100);
    let files = read_directory(scenario.directory.path());
    let [file] = &files.values().collect::<Vec<_>>()[..] else { panic!("one file") };
    // Two calls come before the first stop.
    assert_each_once(file, calls + 2, signals);
}

#[test]
fn a_tracing_handler_may_interrupt_a_record_at_any_instruction() {
    interrupt_records_everywhere("short", "1M", every(2));
}

#[test]
fn a_tracing_handler_may_interrupt_a_capture_at_any_instruction() {
    interrupt_records_everywhere("captured", "1M", 1);
}

#[test]
fn a_tracing_handler_may_interrupt_a_block_change_at_any_instruction() {
    interrupt_records_everywhere("long", "16K", every(5));
}

#[test]
fn a_thread_stopped_inside_a_record_stops_no_other_thread() {
    const COUNT: usize = 20_000;
    let mut scenario = Scenario::new(SCENARIO, &["held-inside", &COUNT.to_string()])
        .env("TRACER_RING_SIZE", "64K")
        .env("TRACER_MAX_STALL", "60000");
    let mut running = Running::start(&mut scenario);
    let tracee = Tracee(running.hear().parse().expect("the thread's id"));
    tracee.request(libc::PTRACE_SEIZE, 0);
    tracee.request(libc::PTRACE_INTERRUPT, 0);
    assert!(tracee.wait().is_some(), "it has stopped");

    running.say("go on without it");
    assert_eq!(running.hear(), "flushed");
    let files = read_directory(scenario.directory.path());
    let of = |who: &str| {
        let has = |file: &&ThreadTrace| file.texts().first().is_some_and(|text| text.starts_with(who));
        files.values().find(has).unwrap_or_else(|| panic!("a file of {who}")).texts()
    };
    for thread in ["other0", "other1"] {
        let expected: Vec<String> = (0..COUNT).map(|n| format!("{thread} {n}")).collect();
        assert_eq!(of(thread), expected, "all of it is written while the other thread is stopped");
    }
    assert_eq!(of("before"), ["before"], "and of that one what was whole");

    tracee.request(libc::PTRACE_DETACH, 0);
    running.say("let it go on");
    let (status, _) = running.wait();
    assert!(status.success(), "{status}");
    let files = read_directory(scenario.directory.path());
    let held = files.values().find(|file| file.texts()[0] == "before").expect("its file");
    assert_eq!(held.texts(), ["before", "held", "inside before", "inside after", "after"]);
    for (name, file) in &files {
        assert_eq!((file.end().records, file.end().lost), (file.messages.len() as u64, 0), "{name}");
    }
}

#[test]
fn a_stopped_flusher_delays_a_thread_once_for_a_bounded_time() {
    const COUNT: u64 = 20_000;
    let mut scenario = Scenario::new(SCENARIO, &["without-flusher", &COUNT.to_string()])
        .env("TRACER_RING_SIZE", "16K")
        .env("TRACER_MAX_STALL", "50");
    let mut running = Running::start(&mut scenario);
    let flusher = Tracee(running.hear().parse().expect("the flusher's id"));
    flusher.request(libc::PTRACE_SEIZE, 0);
    flusher.request(libc::PTRACE_INTERRUPT, 0);
    assert!(flusher.wait().is_some(), "it has stopped");
    running.say("trace");
    // If the thread waited for ever, so would this call.
    assert_eq!(running.hear(), "went on");
    flusher.request(libc::PTRACE_DETACH, 0);
    running.say("the flusher goes on");
    let (status, _) = running.wait();
    assert!(status.success(), "{status}");

    let files = read_directory(scenario.directory.path());
    let file = files.values().next().expect("a file");
    let texts = file.texts();
    assert_eq!((texts[0], texts[texts.len() - 1]), ("before", "after"));
    let kept: Vec<String> = (0..texts.len() - 2).map(|n| format!("record number {n}")).collect();
    assert_eq!(texts[1..texts.len() - 1], kept, "what fits is there");
    let lost: u64 = file
        .metas
        .iter()
        .map(|meta| if let Meta::Lost { records, reason: LossReason::Full } = meta { *records } else { 0 })
        .sum();
    assert_eq!(lost, COUNT - kept.len() as u64, "and the rest is counted");
    let waits: Vec<u64> = file
        .metas
        .iter()
        .filter_map(|meta| match meta {
            Meta::Stall { ns } => Some(*ns),
            Meta::Wait(wait) => Some(wait.ns),
            _ => None,
        })
        .collect();
    let [wait] = waits[..] else { panic!("one wait: {waits:?}") };
    assert!(wait >= 50_000_000, "it waited for the configured time: {wait} ns");
}

/// Returns the number of records of each thread of the stress program. Panics unless they are the first ones,
/// without a gap.
fn count_whole_prefixes(scenario: &Scenario) -> [u64; 8] {
    let mut counts = [0; 8];
    for file in read_directory(scenario.directory.path()).values() {
        for text in file.texts() {
            let mut words = text.split([' ', '\n']).map_while(|word| word.parse::<u64>().ok());
            let (thread, number) = (words.next().expect("a thread"), words.next().expect("a number"));
            assert_eq!(number, counts[thread as usize], "thread {thread}");
            counts[thread as usize] += 1;
        }
    }
    counts
}

#[test]
fn a_stopped_process_is_merged_and_recovered_after_its_kill() {
    let counters = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file of counters");
    std::fs::write(counters.path(), [0; 64]).expect("a file of counters");
    let committed = || -> Vec<u64> {
        let words = std::fs::read(counters.path()).expect("the counters");
        words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes"))).collect()
    };
    let path = counters.path().to_str().expect("a path in UTF-8");
    let mut scenario = Scenario::new(SCENARIO, &["stress", path]);
    let running = Running::start(&mut scenario);
    wait_until(60, "the program at full speed", || committed().iter().all(|n| *n > 1000));
    running.signal(libc::SIGSTOP);
    running.wait_without_reaping(libc::WSTOPPED);

    // The merge is incomplete if a line was being written: then its status says so.
    let merged = merge(&scenario, &[SCENARIO.as_ref()]);
    assert!(merged.waits < MIN_WAITS_OF_TIMEOUT, "it does not wait for the stopped one: {merged:?}");
    assert!(matches!(merged.status, Some(0 | 1)), "{merged:?}");
    assert!(scenario.directory.path().join(format!("{APP}.trace.merge")).exists(), "{merged:?}");
    assert_eq!(support::runs(scenario.runtime.path()).len(), 1, "its rings are left alone");

    running.signal(libc::SIGKILL);
    running.wait_without_reaping(libc::WEXITED);
    merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
    let found = count_whole_prefixes(&scenario);
    for (thread, committed) in committed().into_iter().enumerate() {
        // One more record may have been whole when its call had not returned yet.
        assert!(
            (committed..=committed + 1).contains(&found[thread]),
            "thread {thread}: {found:?} {committed}"
        );
    }
    for (name, file) in read_directory(scenario.directory.path()) {
        assert_eq!((file.end().lost, file.end().reason), (0, EndReason::Killed), "{name}");
    }
}
