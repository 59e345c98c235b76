//! A host may close all descriptors that it does not know, as daemons do, and its own files may get the numbers of the
//! tracer's descriptors. The tracer leaves these files alone, the run stays alive, and no record is lost.
#![cfg(target_os = "linux")]

use support::processes::{Running, merge};
use support::{Scenario, names, read_directory, runs};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn a_host_that_closes_all_descriptors_keeps_its_files_and_records() {
    let own = tempfile::tempdir().expect("a directory");
    let mut scenario = Scenario::new(SCENARIO, &["closes-all", own.path().to_str().expect("UTF-8")]);
    let mut running = Running::start(&mut scenario);
    assert_eq!(running.hear(), "ready");
    merge(&scenario, &[SCENARIO.as_ref()]);
    let [run] = &runs(scenario.runtime.path())[..] else {
        panic!("the run lives, so its rings are left alone")
    };
    assert!(names(run).iter().any(|path| path.ends_with("manifest")), "{:?}", names(run));
    running.say("end");
    let (status, _) = running.wait();
    assert!(status.success(), "{status}");

    let files = read_directory(scenario.directory.path());
    let mut found = Vec::new();
    for (name, file) in &files {
        let texts = file.texts();
        let who = texts[0].rsplit_once(' ').expect("two parts").0;
        let expected: Vec<String> = (0..texts.len()).map(|n| format!("{who} {n}")).collect();
        assert_eq!(texts, expected, "{name}");
        assert_eq!((file.end().records, file.end().lost), (texts.len() as u64, 0), "{name}");
        found.push((who, texts.len()));
    }
    found.sort_unstable();
    assert_eq!(found, [("ends", 100), ("goes on", 200), ("main", 3)]);
    assert!(runs(scenario.runtime.path()).is_empty(), "nothing is left in memory");
}
