//! Traces stand beside the program under a name that `tracemerge` finds by the program's path, even if its file is
//! gone, or if its name is so long that nothing can be appended to it.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;
use support::merges::tracemerge;
use support::{Scenario, names, output_of_copy, read_directory};
use tempfile::TempDir;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// A lock for copying and starting: if a thread forks while another one has a copy open for writing, the child
/// keeps it open, and the copy cannot be run.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A copy of the program in a directory of its own, under a name.
struct Copy {
    place: TempDir,
    path: PathBuf,
}

impl Copy {
    fn called(name: &OsStr) -> Copy {
        let place = TempDir::new().expect("a directory");
        let path = place.path().join(name);
        std::fs::copy(SCENARIO, &path).expect("a copy of the program");
        Copy { place, path }
    }

    /// Runs the copy in an empty directory, with its traces beside it; returns the scenario, which has the
    /// directory of its rings.
    fn run(&self, args: &[&str]) -> Scenario {
        let mut scenario = Scenario::new(&self.path, args).without("TRACER_DIR");
        let directory = scenario.directory.path().to_owned();
        let command = scenario.command().arg0("its own arguments are UTF-8").current_dir(directory);
        let output = output_of_copy(command);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(names(scenario.directory.path()), [] as [PathBuf; 0]);
        scenario
    }

    fn tracemerge(&self, scenario: &Scenario, args: &[&OsStr]) -> Output {
        let mut command = tracemerge(SCENARIO, scenario.runtime.path(), args);
        command.current_dir(self.place.path()).output().expect("it can be run")
    }

    /// Returns the messages that `tracemerge ./<name>` finds.
    fn merged(&self, scenario: &Scenario) -> Vec<String> {
        let given = Path::new(".").join(self.path.file_name().expect("a name"));
        let output = self.tracemerge(
            scenario,
            &["-o", "-"].map(OsStr::new).into_iter().chain([given.as_os_str()]).collect::<Vec<_>>(),
        );
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().filter_map(|line| Some(line.split_once(" : ")?.1.to_owned())).collect()
    }
}

#[test]
fn the_trace_of_a_deleted_or_replaced_program_is_found_by_its_path() {
    let _turn = ONE_AT_A_TIME.lock();
    for (name, what) in [
        ("app", "deleted"),
        ("app", "replaced"),
        ("app", "kept"),
        ("app (deleted)", "kept"),
        ("app (deleted)", "deleted"),
    ] {
        let copy = Copy::called(name.as_ref());
        let scenario = copy.run(&["own-file-gone", what]);
        assert_eq!(copy.merged(&scenario), [format!("its file was {what}")], "{name:?}");
        let named = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|found| found.to_string_lossy().starts_with(&format!("{name}.trace.")))
        };
        assert!(names(copy.place.path()).iter().any(named), "{name:?}");
    }
}

#[test]
fn programs_with_very_long_names_are_traced_merged_and_cleaned() {
    let _turn = ONE_AT_A_TIME.lock();
    let of_two_bytes =
        |before: usize| format!("{}{}", "x".repeat(before), "\u{e4}".repeat((255 - before) / 2));
    let all = [
        vec![b'x'; 214],
        vec![b'x'; 215],
        vec![b'x'; 240],
        vec![b'x'; 255],
        of_two_bytes(203).into_bytes(),
        of_two_bytes(204).into_bytes(),
        [vec![b'x'; 200], vec![0xff; 55]].concat(),
        vec![0x80; 255],
    ];
    for name in all {
        let shown = String::from_utf8_lossy(&name);
        let copy = Copy::called(OsStr::from_bytes(&name));
        let scenario = copy.run(&["many", "20"]);
        let files = read_directory(copy.place.path());
        assert_eq!(files.len(), 8, "{shown}");
        let written: usize = files.values().map(|file| file.messages.len()).sum();
        assert_eq!(written, 8 * 20, "{shown}");
        if name.len() <= 214 {
            assert!(files.keys().all(|file| file.as_bytes().starts_with(&name)), "{shown}");
        }
        if std::str::from_utf8(&name).is_ok() {
            assert!(
                !files.keys().any(|file| file.contains('\u{fffd}')),
                "{shown}: cut inside of a character"
            );
        }
        assert_eq!(copy.merged(&scenario).len(), written, "{shown}");
        // The program is killed, so that recovery has to find the files by the manifest.
        let mut killed = Scenario::new(&copy.path, &["killed"]).without("TRACER_DIR");
        killed.command().arg0("its own arguments are UTF-8");
        let killed = killed.env("TRACER_RUNTIME_DIR", &scenario.runtime.path().to_string_lossy());
        let killed = killed.run();
        assert!(!killed.output.status.success(), "{shown}");
        let given = Path::new(".").join(OsStr::from_bytes(&name));
        let merged = copy.tracemerge(&scenario, &["-q".as_ref(), given.as_os_str()]);
        assert!(merged.status.success(), "{shown}: {merged:?}");
        let merged = names(copy.place.path())
            .into_iter()
            .find(|file| file.to_string_lossy().ends_with(".trace.merge"));
        let merged = std::fs::read_to_string(merged.expect("a merged file")).expect("it can be read");
        assert_eq!(merged.lines().filter(|line| line.contains(" : ")).count(), 6, "{shown}: {merged}");
        let cleaned = copy.tracemerge(&scenario, &["clean".as_ref(), given.as_os_str()]);
        assert!(cleaned.status.success(), "{shown}: {cleaned:?}");
        assert_eq!(names(copy.place.path()), std::slice::from_ref(&copy.path), "{shown}");
    }
}
