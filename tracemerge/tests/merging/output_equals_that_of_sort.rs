//! The merged output of undamaged files equals the output of the oracle `LC_ALL=C sort -m -s -k1.1,1.16`, byte for
//! byte.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use crate::support::{Place, Seeded, file, header, line, run, sorted};

/// Makes files of several runs and threads with many equal ticks; returns their names in the order of ties.
fn generate(place: &Place, seed: u64) -> Vec<String> {
    let mut random = Seeded::new(seed);
    let mut names = Vec::new();
    for pid in 1..=1 + random.below(3) {
        let run = run(u32::try_from(pid).unwrap(), pid);
        // Ties are broken by the thread's number and not by the text of the name, so 9 comes before 10.
        for tid in 8..8 + random.below(5) + 1 {
            let tid = pid * 100 + tid - 2 * u64::from(pid == 1) * 49;
            let mut ticks = pid;
            let mut bytes = header(&run, tid);
            for n in 0..random.below(200) {
                ticks += random.below(4);
                bytes.extend(line(ticks, tid, &format!("{n} {}", "x".repeat(random.below(300) as usize))));
                if random.below(10) == 0 {
                    bytes.extend(format!("{ticks:016x}-{tid:08} | more\n").into_bytes());
                }
            }
            let name = format!("app.trace.{tid}");
            place.write(&name, bytes);
            names.push(name);
        }
    }
    names
}

#[test]
fn generated_files_are_merged_as_sort_does() {
    for seed in 1..=25 {
        let place = Place::new();
        let names = generate(&place, seed);
        let expected = sorted(&place, &names);
        let ran = place.merge(["--all-runs", "./app"]);
        assert_eq!((ran.status, &ran.out[..]), (Some(0), &b""[..]), "seed {seed}: {}", ran.err);
        assert!(place.read("app.trace.merge") == expected, "seed {seed}");
        let ran = place.merge(["--all-runs", "app", "-o", "-"]);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert!(ran.out == expected, "seed {seed}, to standard output");
    }
}

#[test]
fn ties_are_broken_by_process_run_thread_and_number_of_the_file() {
    let place = Place::new();
    let (first, mut second) = (run(5, 1), run(5, 1));
    second.id += 1;
    second.root = first.root;
    place.write("app.trace.9", file(&first, 9, &[3, 3]));
    place.write("app.trace.10", file(&first, 10, &[3]));
    place.write("app.trace.9.2", file(&second, 9, &[3]));
    place.write("app.trace.9.10", [header(&second, 9), line(3, 9, "another line")].concat());
    place.write("app.trace.11", file(&run(4, 1), 11, &[3]));
    let order = ["app.trace.11", "app.trace.9", "app.trace.10", "app.trace.9.2", "app.trace.9.10"];
    let ran = place.merge(["./app"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("merged 5 files of 3 runs (4 threads, 11 lines) into './app.trace.merge'"),
        "{}",
        ran.err
    );
    assert!(place.read("app.trace.merge") == sorted(&place, order));
}

#[test]
fn quiet_prints_nothing_on_success() {
    let place = Place::new();
    place.write("app.trace.9", file(&run(5, 1), 9, &[3, 4]));
    let ran = place.merge(["-q", "./app"]);
    assert_eq!((ran.status, &ran.err[..]), (Some(0), ""));
}
