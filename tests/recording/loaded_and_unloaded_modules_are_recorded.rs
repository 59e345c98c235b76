//! Traces record which file contains the code at an address: the file that the kernel names at the time of the
//! record or, after a kill, the file that the run's directory names.
//!
//! Cargo builds examples, and so the two libraries, for `cargo test`, but not for `cargo test --test ...`. In that
//! case, run `cargo build --examples` first.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use support::processes::merge;
use support::{Scenario, ThreadTrace, read_directory, runs};
use trace_format::function::{FunctionLine, FunctionPlace};
use trace_format::meta::{AddressRange, Between, Meta, Module};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const PAGE: u64 = 4096;

/// Returns the path of a library: `target/<profile>/deps/<this test>` stands beside `target/<profile>/examples/`.
fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test");
    let profile = test.parent().and_then(Path::parent).expect("the directory of the profile");
    let path = profile.join("examples").join(name);
    assert!(path.is_file(), "{} is missing: cargo build --examples", path.display());
    path
}

fn modules(file: &ThreadTrace) -> Vec<&Module> {
    let modules = file.metas.iter();
    modules.filter_map(|meta| if let Meta::Module(module) = meta { Some(module) } else { None }).collect()
}

/// Returns the address in the line of a function.
fn address_in(payload: &str) -> u64 {
    match FunctionLine::parse(payload.as_bytes()).expect("a line").place {
        FunctionPlace::Address(address, _) => address,
        other => panic!("{other:?} in {payload}"),
    }
}

fn named<'a>(modules: &[&'a Module], path: &str) -> &'a Module {
    let found: Vec<_> = modules.iter().filter(|module| module.path == path.as_bytes()).collect();
    assert_eq!(found.len(), 1, "{path}: {modules:?}");
    found[0]
}

/// Panics unless a module is mapped as this line of `/proc/self/maps` says.
fn assert_mapped(module: &Module, maps: &str) {
    let (start, rest) = maps.split_once('-').expect("a range");
    let end = rest.split(' ').next().expect("its end");
    let [start, end] = [start, end].map(|digits| u64::from_str_radix(digits, 16).expect("an address"));
    let AddressRange { start: first, end: behind } = module.range;
    assert!((start..start + PAGE).contains(&first), "{module:?}: {maps}");
    assert!((end - PAGE + 1..=end).contains(&behind), "{module:?}: {maps}");
}

fn gone(file: &ThreadTrace) -> Vec<(AddressRange, Between)> {
    let gone = |meta: &Meta| match meta {
        Meta::Unloaded { range, gone } => Some((*range, *gone)),
        _ => None,
    };
    file.metas.iter().filter_map(gone).collect()
}

#[test]
fn libraries_at_the_same_addresses_are_distinguished_by_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let paths = ["first.so", "second.so"].map(|name| {
        let path = directory.path().join(name);
        std::fs::copy(library("libslow_files.so"), &path).expect("a copy");
        path.to_str().expect("UTF-8").to_owned()
    });
    for format in ["text", "raw"] {
        let scenario = Scenario::new(SCENARIO, &["libraries", &paths[0], &paths[1]]);
        let traced = scenario.env("TRACER_FORMAT", format).run().succeeded();
        traced.assert_whole();
        let file = traced.main_thread();
        let modules = modules(file);
        let [first, second] = [0, 1].map(|n| named(&modules, &paths[n]));
        let said = traced.stdout();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert_mapped(first, lines[0]);
        assert_mapped(second, lines[1]);
        let gone = gone(file);
        assert_eq!(gone.iter().map(|(range, _)| *range).collect::<Vec<_>>(), [first.range, second.range]);
        // The times of the four calls, in pairs: without a library, with the first, with the second, without.
        let times: Vec<u64> = file.calls.iter().map(|(key, ..)| key.ticks.0).collect();
        let [_, alone, with_first, _, with_second, _, again, _] = times[..] else { panic!("{times:?}") };
        let is_between = |between: Between, from: u64, to: u64| {
            assert!(
                from <= between.after.0 && between.after < between.seen && between.seen.0 <= to,
                "{between:?}"
            );
        };
        // A library is loaded between two calls. The tracer finds it before it writes the records of the later
        // call, so no later than the call after that.
        is_between(first.loaded, alone, with_second);
        is_between(gone[0].1, with_first, again);
        is_between(second.loaded, with_first, again);
        assert!(gone[1].1.after.0 >= with_second);
        // A scan that finds a library takes some time, and the library may be unloaded before the scan ends. The
        // end of that scan is therefore no bound for the time of the unloading, but the next scan is.
        assert!(first.loaded.after <= gone[0].1.after && first.loaded.seen < gone[0].1.seen);
        assert!(gone[0].1.seen <= second.loaded.seen);
        if first.range == second.range {
            assert!(gone[0].1.seen.0 <= again, "the place was free before");
        }
        let own = named(&modules, SCENARIO);
        for (_, _, payload) in &file.calls {
            assert!(own.range.contains(address_in(payload)), "{own:?}: {payload}");
        }
        assert_eq!(own.build_id.len(), 20, "{own:?}");
    }
}

#[test]
fn a_plugin_with_its_own_tracer_records_its_module() {
    let plugin = library("libplugin.so");
    let path = plugin.to_str().expect("UTF-8");
    let traced = Scenario::new(SCENARIO, &["plugin", path]).run().succeeded();
    traced.assert_whole();
    let of_plugin = |file: &&ThreadTrace| !file.calls.is_empty();
    let files: Vec<_> = traced.files.values().filter(of_plugin).collect();
    assert!(!files.is_empty());
    for file in files {
        let modules = modules(file);
        let own = named(&modules, path);
        for (_, _, payload) in &file.calls {
            assert!(own.range.contains(address_in(payload)), "{own:?}: {payload}");
        }
    }
}

#[test]
fn recovery_takes_the_modules_from_the_run_directory() {
    for (format, marked) in [("text", false), ("raw", false), ("text", true), ("raw", true)] {
        let mut scenario = Scenario::new(SCENARIO, &["functions-many", "100", "killed"])
            // Nothing is written before the recovery.
            .env("TRACER_FULL", "overwrite")
            .env("TRACER_FORMAT", format);
        assert!(!scenario.command().status().expect("the program runs").success());
        let runs = runs(scenario.runtime.path());
        let [run] = &runs[..] else { panic!("{runs:?}") };
        let table = run.join("modules");
        let text = std::fs::read_to_string(&table).expect("the table of a killed run");
        let path = if marked {
            // Only this file names that path.
            std::fs::write(&table, text.replace(SCENARIO, "/where/it/was")).expect("the table");
            "/where/it/was"
        } else {
            SCENARIO
        };
        merge(&scenario, &[SCENARIO.as_ref()]).succeeded();
        let files = read_directory(scenario.directory.path());
        let [file] = &files.values().collect::<Vec<_>>()[..] else { panic!("one file") };
        assert_eq!(file.records(), 501, "{format}");
        let modules = modules(file);
        let own = named(&modules, path);
        let (_, _, payload) = &file.calls[0];
        assert!(own.range.contains(address_in(payload)), "{own:?}: {payload}");
    }
}

#[test]
fn files_without_addresses_record_no_modules() {
    let traced = Scenario::new(SCENARIO, &["return"]).run().succeeded();
    assert!(traced.files.values().all(|file| modules(file).is_empty()));
}
