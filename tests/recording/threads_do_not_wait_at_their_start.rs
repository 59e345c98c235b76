//! The flusher keeps rings ready that are reserved completely, and makes further ones before they are needed: threads
//! that come one after the other do not wait, neither for a ring nor for its memory.

use support::Scenario;
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn a_hundred_threads_find_rings_that_are_reserved() {
    /// Their records take more than the first bytes of a ring that is reserved in part, and less than a ring.
    const RECORDS: u64 = 2000;
    let traced = Scenario::new(SCENARIO, &["one-by-one", "100", &RECORDS.to_string()]).run().succeeded();
    let of_threads = |text: &str| text.starts_with("thread ");
    let mut count = 0;
    for (name, file) in &traced.files {
        let records = file.texts().into_iter().filter(|text| of_threads(text)).count() as u64;
        if records > 0 {
            count += 1;
            assert_eq!(records, RECORDS, "{name}");
            let waits: Vec<&Meta> = file.metas.iter().filter(|m| matches!(m, Meta::Wait(_))).collect();
            assert!(waits.is_empty(), "{name}: {waits:?}");
        }
    }
    assert_eq!(count, 100, "one file per thread");
    traced.assert_whole();
}
