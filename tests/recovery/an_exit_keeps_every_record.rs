//! No call of `shutdown` is needed: however a program or thread ends by itself, its records are in the files.

use support::{MAIN, Scenario, Traced};
use trace_format::meta::EndReason;

fn run(args: &[&str]) -> Traced {
    Scenario::new(env!("CARGO_BIN_EXE_scenario"), args).run()
}

#[test]
fn a_return_from_main_keeps_every_record_and_leaves_no_ring() {
    let traced = run(&["return"]).succeeded();
    assert_eq!(traced.messages(), ["the last words of main"]);
    traced.assert_whole();
    assert_eq!(traced.main_thread().end().reason, EndReason::Exit);
    assert_eq!(traced.left_in_runtime(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn process_exit_keeps_every_record_and_the_status() {
    let traced = run(&["exit"]);
    assert_eq!(traced.output.status.code(), Some(3), "{}", traced.said());
    assert_eq!(traced.messages(), ["before exit"]);
    traced.assert_whole();
}

#[test]
fn process_exit_on_another_thread_keeps_the_records_of_both() {
    let traced = run(&["exit", "thread"]);
    assert_eq!(traced.output.status.code(), Some(3), "{}", traced.said());
    assert_eq!(traced.messages(), ["before exit", "the exiting thread"]);
    traced.assert_whole();
}

#[test]
fn a_panic_in_main_keeps_every_record() {
    let traced = run(&["panic"]);
    assert_eq!(traced.output.status.code(), Some(101), "{}", traced.said());
    let texts = traced.messages();
    assert!(
        texts.len() == 2 && texts[0] == "before the panic" && texts[1].starts_with("panicked at "),
        "{texts:?}"
    );
    traced.assert_whole();
}

#[test]
fn records_from_destructors_of_thread_locals_are_kept() {
    let traced = run(&["thread-local"]).succeeded();
    let texts = |thread: &str| traced.thread(thread).texts().join(", ");
    assert_eq!(texts("has traced"), "alive: has traced, dropped: has traced");
    assert_eq!(texts("has not traced"), "dropped: has not traced");
    // Wine runs no destructors of the main thread's variables when the process ends.
    let main = texts(MAIN);
    assert!(main == "alive: main, dropped: main" || cfg!(windows) && main == "alive: main", "{main}");
    traced.assert_whole();
    assert_eq!(traced.thread("has traced").end().reason, EndReason::Thread);
    assert!(traced.left_in_runtime().is_empty());
}

#[test]
fn threads_that_trace_during_the_exit_keep_their_earlier_records() {
    let scenario = Scenario::new(env!("CARGO_BIN_EXE_scenario"), &["running-threads"]);
    let traced = scenario.run_and_recover().succeeded();
    assert!(traced.left_in_runtime().is_empty());
    let messages = traced.messages();
    assert!(messages.contains(&"main returns".to_string()));
    for thread in 0..3 {
        let own: Vec<_> = messages.iter().filter(|m| m.starts_with(&format!("thread {thread} "))).collect();
        assert!(own.len() > 1000, "all 1,001 records from before, {} found", own.len());
        for (n, message) in own.iter().enumerate() {
            assert_eq!(**message, format!("thread {thread} record {n}"), "none is missing, none is doubled");
        }
    }
}

#[test]
fn shutdown_stops_tracing_and_startup_restarts_it_without_leaks() {
    let traced = run(&["shutdown"]).succeeded();
    let messages = traced.messages();
    let count = |text: &str| messages.iter().filter(|m| m.starts_with(text)).count();
    assert_eq!((count("main 1"), count("main 2"), count("must not")), (1, 20, 0));
    // "other 0" before the first shutdown, "other 1" while off, then 20 more.
    assert_eq!(
        (count("other"), count("other 1\0"), messages.contains(&"other 1".to_string())),
        (21, 0, false)
    );
    // The main thread has not traced since the last shutdown, so it still has its last ring. Only Linux lists
    // mappings.
    assert_eq!(traced.stdout(), if cfg!(unix) { "rings 1\n" } else { "" });
    for file in traced.files.values() {
        assert_eq!(file.end().reason, EndReason::Shutdown);
    }
    traced.assert_whole();
    assert!(traced.left_in_runtime().is_empty());
}
