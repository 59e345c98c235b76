//! If a killed program's files cannot be written, a merge reads its rings and leaves them. Its output has the same
//! bytes as after a recovery, and the command reports why it does not recover the run.
#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use support::follows::without_numbers;
use support::merges::{by_thread, tracemerge};
use support::mounts::in_own_mounts;
use support::programs::lacks_root;
use support::{APP, Scenario, names, runs};
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The results of the merges of one script: the messages of each, with its status last, and its output.
struct Merges {
    output: TempDir,
}

impl Merges {
    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.output.path().join(format!("{name}.said"))).unwrap()
    }

    fn merged(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.output.path().join(name)).unwrap()
    }
}

/// Runs the program, which kills itself, then `script`, in which `merge NAME` merges. Returns `None` if mounts are
/// refused.
///
/// With the policy "overwrite", all records since the flush are in rings; with "block", the flusher may have
/// written some.
fn merges(full: &str, script: &str) -> Option<Merges> {
    let output = TempDir::new().unwrap();
    let script = format!(
        r#"
        merge() {{
            status=0
            "$SCENARIO" tracemerge "$TRACER_DIR/scenario" -o "$OUTPUT/$1" 2> "$OUTPUT/$1.said" || status=$?
            echo "status $status" >> "$OUTPUT/$1.said"
        }}
        left() {{ ls -A "$TRACER_RUNTIME_DIR"; }}
        {script}"#
    );
    let scenario: Scenario = in_own_mounts(&script, &[SCENARIO, "left-in-memory"])?;
    let scenario = scenario.env("OUTPUT", output.path().to_str().unwrap()).env("SCENARIO", SCENARIO);
    let ran = scenario.env("TRACER_FULL", full).env("TRACER_FLUSH_MS", "60000").run().succeeded();
    let left = ran.stdout();
    assert!(left.starts_with(char::is_numeric) && left.ends_with("recovered\n"), "{left}");
    assert!(left.lines().count() == 2, "the rings are there until they are recovered: {left}");
    Some(Merges { output })
}

fn assert_complete(merges: &Merges, why: &str) {
    let said = merges.said("before");
    assert!(said.contains(" are not in its trace files yet: ") && said.contains(why), "{said}");
    assert!(said.contains(" 4 threads, ") || said.contains("(4 threads, "), "{said}");
    assert!(said.ends_with("status 0\n"), "nothing is missing: {said}");
    let again = merges.said("again");
    assert!(again.ends_with("status 0\n") && again.contains(why), "{again}");
    let after = merges.said("after");
    assert!(after.ends_with("status 0\n") && !after.contains(" are not in its trace files yet: "), "{after}");
    let (before, after) = (merges.merged("before"), merges.merged("after"));
    assert!(before == merges.merged("again"), "reading changes nothing");
    let (one, other) = (String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
    assert!(without_numbers(&one) == without_numbers(&other), "a recovery gives the same:\n{one}\n{other}");
    let texts =
        ["in the ring 4 ", ": late 3", "| and more", ": without a file", "reason=killed", "reason=thread"];
    assert!(texts.iter().all(|text| one.contains(text)), "{one}");
}

#[test]
fn a_merge_reads_rings_if_the_trace_directory_is_read_only() {
    let script = r#"
        "$@" || true
        mount --bind "$TRACER_DIR" "$TRACER_DIR"
        mount -o remount,bind,ro "$TRACER_DIR"
        cd /; merge before; merge again; left
        mount -o remount,bind,rw "$TRACER_DIR"
        merge after; left; echo recovered
    "#;
    for full in ["block", "overwrite"] {
        let Some(merges) = merges(full, script) else { return };
        assert_complete(&merges, "Read-only file system");
    }
}

#[test]
fn a_merge_reads_rings_in_read_only_memory() {
    let script = r#"
        "$@" || true
        mount --bind "$TRACER_RUNTIME_DIR" "$TRACER_RUNTIME_DIR"
        mount -o remount,bind,ro "$TRACER_RUNTIME_DIR"
        merge before; merge again; left
        mount -o remount,bind,rw "$TRACER_RUNTIME_DIR"
        merge after; left; echo recovered
    "#;
    for full in ["block", "overwrite"] {
        let Some(merges) = merges(full, script) else { return };
        assert_complete(&merges, "Read-only file system");
    }
}

#[test]
fn a_merge_reads_rings_if_the_disk_is_full() {
    let script = r#"
        mount -t tmpfs -o size=64k tmpfs "$TRACER_DIR"
        "$@" || true
        dd if=/dev/zero of="$TRACER_DIR/filler" bs=4k 2> /dev/null || true
        merge before; merge again; left
        rm "$TRACER_DIR/filler"
        merge after; left; echo recovered
    "#;
    let Some(merges) = merges("overwrite", script) else { return };
    assert_complete(&merges, "No space left on device");
    // One of five records had room in the page that the file ends in, and was recovered before.
    assert!(merges.said("after").contains("recovered 4 records"));
}

#[test]
fn a_missing_manifest_is_named_as_the_reason() {
    let killed = Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FLUSH_MS", "60000").run();
    let [run] = &killed.left_in_runtime()[..] else { panic!("one run") };
    std::fs::remove_file(run.join("manifest")).unwrap();
    let app = killed.directory.path().join(APP);
    let ran =
        tracemerge(SCENARIO, killed.runtime.path(), ["check".as_ref(), app.as_os_str()]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("has no manifest") && !said.contains("only the user"), "{said}");
    assert_eq!(ran.status.code(), Some(1), "{said}");
}

#[test]
fn an_unreadable_ring_is_reported() {
    if lacks_root() {
        return;
    }
    let killed = Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FULL", "overwrite").run();
    let [run] = &killed.left_in_runtime()[..] else { panic!("one run") };
    let ring_of =
        |path: &Path| std::fs::read(path).unwrap().windows(13).any(|bytes| bytes == b"in the ring 4");
    let rings = names(run).into_iter().filter(|path| path.to_string_lossy().contains("/ring-"));
    let ring = rings.into_iter().find(|path| ring_of(path)).expect("the main thread's ring");
    std::os::unix::fs::chown(&ring, Some(65534), None).unwrap();
    let app = killed.directory.path().join(APP);
    let merge = |name: &str| {
        let to = killed.directory.path().join(name);
        let mut merge = tracemerge(SCENARIO, killed.runtime.path(), [&app]);
        let ran = merge.arg("-o").arg(&to).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned(), std::fs::read(to).unwrap())
    };
    let (status, said, merged) = merge("merged");
    let warning = format!("warning: cannot read {ring:?}: it is not a file of this user");
    assert!(said.contains(&warning), "{said}");
    assert_eq!(status, Some(1));
    let text = String::from_utf8(merged).unwrap();
    assert!(text.contains(": flushed\n") && text.contains(": late 3\n") && !text.contains("in the ring 4"));
    // Once the ring is given back, everything is there.
    std::os::unix::fs::chown(&ring, Some(0), None).unwrap();
    let (status, said, merged) = merge("merged");
    assert_eq!(status, Some(0), "{said}");
    assert!(String::from_utf8(merged.clone()).unwrap().contains("in the ring 4"));
    assert!(by_thread(&merged).is_empty(), "no message of this program begins with a number");
}

#[test]
fn root_recovers_rings_of_another_user_with_the_users_rights() {
    if lacks_root() {
        return;
    }
    let mut scenario = Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FULL", "overwrite");
    scenario.command().uid(65534).gid(65534);
    for place in [scenario.directory.path(), scenario.runtime.path()] {
        std::os::unix::fs::chown(place, Some(65534), None).unwrap();
    }
    let status = scenario.command().status().unwrap();
    assert!(!status.success());
    // The list of places may be in that directory, too: this user may not write beside the executable.
    let runs: Vec<_> = runs(scenario.runtime.path()).into_iter().filter(|path| path.is_dir()).collect();
    let [run] = &runs[..] else { panic!("one run") };
    let app = scenario.directory.path().join(APP);
    let ran = tracemerge(SCENARIO, scenario.runtime.path(), [&app]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("recovered ") && !run.exists(), "{said}");
    for file in
        names(scenario.directory.path()).iter().filter(|file| file.extension() != Some("merge".as_ref()))
    {
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(file).unwrap());
        assert_eq!(owner, 65534, "{file:?}");
    }
}
