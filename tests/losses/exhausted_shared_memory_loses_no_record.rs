//! Shared memory for rings is small, full, filled by others, or missing. The tracer makes smaller rings, then private
//! ones, and reports that. The trace of a program that exits has all its records, and no program crashes.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use support::mounts::in_own_mounts;
use support::{APP, Traced, tracemerge};
use trace_format::meta::{EndReason, Meta, RingPlace};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// Returns the numbers of rings by place, which is shared or private; for private rings, with the reason.
fn places(traced: &Traced) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for file in traced.files.values() {
        let Some(Meta::Thread(thread)) = file.metas.get(1) else { panic!("a `# thread` line") };
        let why = String::from_utf8_lossy(&thread.why);
        assert_eq!(why.is_empty(), thread.ring == RingPlace::Shared, "a private ring says why");
        let place = if why.is_empty() { "shared".to_string() } else { format!("private: {why}") };
        *places.entry(place).or_default() += 1;
    }
    places
}

fn private(places: &BTreeMap<String, usize>) -> usize {
    places.iter().filter(|(place, _)| place.starts_with("private")).map(|(_, count)| count).sum()
}

/// Runs a hundred threads that trace at once, while `/dev/shm` has `size`. Returns `None` if the system refuses the
/// mount.
fn run_a_hundred_threads(size: &str) -> Option<(Traced, BTreeMap<String, usize>)> {
    let script = format!(
        r#"mount -t tmpfs -o size={size} tmpfs /dev/shm
           unset TRACER_RUNTIME_DIR
           "$@"
           ls -A /dev/shm/tracer-* >&2 || true"#
    );
    let traced = in_own_mounts(&script, &[SCENARIO, "at-once", "100"])?.run().succeeded();
    assert_eq!(traced.stdout(), "lost 0\n", "{}", traced.said());
    assert_eq!(traced.files.len(), 100);
    assert!(traced.files.values().all(|f| f.messages.len() == 20));
    traced.assert_whole();
    let places = places(&traced);
    eprintln!("/dev/shm of {size}: {places:?}");
    Some((traced, places))
}

/// Panics unless one message, and not one for each ring, reports that rings are private.
fn assert_said_once(traced: &Traced, what: &str) {
    let said = traced.stderr();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("tracer: ")).collect();
    assert!(matches!(lines[..], [line] if line.contains(what)), "{said}");
}

#[test]
fn rings_become_smaller_then_private_in_small_shared_memory() {
    let Some((traced, places)) = run_a_hundred_threads("64m") else { return };
    assert!(places["shared"] > 15, "a quarter is 15 rings of 1 MiB, or more that are smaller: {places:?}");
    assert!(private(&places) > 0);
    assert_said_once(&traced, "shared memory");
}

#[test]
fn scarce_shared_memory_gives_one_small_ring_or_none() {
    for (size, shared) in [("150k", 1), ("100k", 0)] {
        let Some((traced, places)) = run_a_hundred_threads(size) else { return };
        assert_eq!(private(&places), 100 - shared, "{places:?}");
        assert_said_once(&traced, "shared memory");
    }
}

#[test]
fn full_shared_memory_makes_all_rings_private() {
    // One page holds one directory entry's content, or nothing at all.
    let Some((traced, places)) = run_a_hundred_threads("4k") else { return };
    assert_eq!(private(&places), 100, "{places:?}");
    assert_said_once(&traced, "will be lost");
}

#[test]
fn memory_filled_by_others_loses_no_record_and_crashes_no_program() {
    let script = r#"mount -t tmpfs -o size=32m,mode=0700 tmpfs "$TRACER_RUNTIME_DIR"; "$@""#;
    let Some(scenario) = in_own_mounts(script, &[SCENARIO, "memory-full"]) else { return };
    let traced = scenario.env("TRACER_RING_SIZE", "64K").run().succeeded();
    assert_eq!(traced.stdout(), "records 6000 lost 0\n", "{}", traced.said());
    assert_eq!(traced.files.len(), 30);
    traced.assert_whole();
    let places = places(&traced);
    eprintln!("{places:?}");
    // Ten shared rings are older than the shortage. Of the last ten threads, some take over private rings that were
    // made meanwhile; the others have shared ones.
    assert!((11..30).contains(&places["shared"]), "{places:?}");
    assert!(places.keys().any(|place| place.contains("No space left")), "{places:?}");
    assert_said_once(&traced, "No space left");
}

#[test]
fn every_page_of_a_ring_is_allocated_before_use() {
    use std::os::unix::fs::MetadataExt;
    let traced = support::Scenario::new(SCENARIO, &["killed"]).env("TRACER_FLUSH_MS", "60000").run();
    let [run] = &traced.left_in_runtime()[..] else { panic!("one run") };
    let rings: Vec<_> =
        support::names(run).into_iter().filter(|path| path.to_string_lossy().contains("/ring-")).collect();
    assert!(!rings.is_empty());
    for ring in rings {
        let found = std::fs::metadata(&ring).expect("a ring");
        // A page that is not allocated may be unavailable at the first access: SIGBUS.
        assert!(found.blocks() * 512 >= found.len(), "{} blocks for {} bytes", found.blocks(), found.len());
    }
}

#[test]
fn rings_are_in_the_temp_directory_without_shared_memory() {
    let script = r#"
        mkdir "$KEPT/dev"
        for device in null zero urandom; do
            touch "$KEPT/dev/$device"
            mount --bind "/dev/$device" "$KEPT/dev/$device"
        done
        mount -t tmpfs tmpfs /dev
        for device in null zero urandom; do
            touch "/dev/$device"
            mount --bind "$KEPT/dev/$device" "/dev/$device"
        done
        unset TRACER_RUNTIME_DIR
        test ! -e /dev/shm
        "$@" || echo "killed: $?"
        ls "$TMPDIR"
        "$1" merge "$TRACER_DIR/scenario"
        ls "$TMPDIR/tracer-$(id -u)"
    "#;
    let Some(scenario) = in_own_mounts(script, &[SCENARIO, "killed"]) else { return };
    let [temp, kept] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let path = |directory: &tempfile::TempDir| directory.path().to_str().expect("UTF-8").to_string();
    let scenario = scenario.env("TMPDIR", &path(&temp)).env("KEPT", &path(&kept));
    let traced = scenario.env("TRACER_FLUSH_MS", "60000").run().succeeded();
    let said = traced.stdout();
    assert!(said.starts_with("killed: 137\ntracer-") && said.lines().count() == 2, "{said}{}", traced.said());
    let mut expected = vec!["flushed".to_string()];
    expected.extend((0..5).map(|i| format!("in the ring {i}")));
    assert_eq!(traced.messages(), expected);
    assert_eq!(traced.main_thread().end().reason, EndReason::Killed);
    let app = traced.directory.path().join(APP);
    assert_eq!(tracemerge(&["-q".as_ref(), app.as_ref()]), 0);
}
