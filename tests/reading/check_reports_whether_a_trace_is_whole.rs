//! `tracemerge check` reports whether a trace is whole, and names each reason why it is not.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use support::merges::{Watched, tracemerge};
use support::{APP, Scenario, Traced, names, refused};
use trace_format::life;
use trace_format::meta::{EndReason, Meta};

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

/// The result of a check.
struct Check {
    status: Option<i32>,
    out: String,
    err: String,
}

fn check_in(directory: &Path, runtime: &Path, options: &[&str]) -> Check {
    let app = directory.join(APP);
    let mut check = tracemerge(SCENARIO, runtime, ["check"]);
    // These directories have no other traces.
    check.args(options).arg(app).current_dir("/").env("TMPDIR", runtime);
    let ran = check.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Check { status: ran.status.code(), out: text(ran.stdout), err: text(ran.stderr) }
}

fn check(traced: &Traced, options: &[&str]) -> Check {
    check_in(traced.directory.path(), traced.runtime.path(), options)
}

impl Check {
    /// Panics unless the trace is whole; returns the verdict.
    fn whole(&self) -> &str {
        assert_eq!(self.status, Some(0), "{}{}", self.out, self.err);
        let verdict = self.out.lines().last().unwrap();
        assert!(verdict.starts_with("whole: ") && !self.err.contains("warning"), "{}{}", self.out, self.err);
        verdict
    }

    /// Panics unless the trace is not whole and warnings contain each of these words; returns the verdict.
    fn not_whole(&self, words: &[&str]) -> &str {
        assert_eq!(self.status, Some(1), "{}{}", self.out, self.err);
        let warnings: Vec<&str> = self.err.lines().filter(|line| line.contains(": warning: ")).collect();
        for word in words {
            assert!(warnings.iter().any(|line| line.contains(word)), "{word}: {}", self.err);
        }
        let verdict = self.out.lines().last().unwrap();
        assert!(verdict.starts_with("not whole: "), "{}", self.out);
        verdict
    }
}

fn exited() -> Traced {
    Scenario::new(SCENARIO, &["many", "300"]).run().succeeded()
}

/// Returns a file with one `# end` line; the file of the thread that ended last has another one, for the end of the
/// run.
fn some_file(traced: &Traced) -> PathBuf {
    let is_end = |meta: &&Meta| matches!(meta, Meta::End(_));
    let mut files = traced.files.iter().filter(|(_, file)| file.metas.iter().filter(is_end).count() == 1);
    traced.directory.path().join(files.next().unwrap().0)
}

#[test]
fn the_trace_of_an_exited_program_is_whole() {
    let traced = exited();
    let checked = check(&traced, &[]);
    assert_eq!(checked.whole(), "whole: 1 run, 8 threads, 2,400 records, 0 lost, 0 torn, in order");
    assert_eq!(checked.out.lines().count(), 2, "one line for the run, one for all: {}", checked.out);
    let each = check(&traced, &["-v"]);
    assert_eq!(each.whole(), checked.whole());
    let threads = each.out.lines().filter(|line| line.starts_with("  ") && line.contains(" 300 ")).count();
    assert_eq!(threads, 8, "{}", each.out);
    let quiet = check(&traced, &["-q"]);
    assert_eq!((quiet.status, &*quiet.out, &*quiet.err), (Some(0), "", ""));
}

#[test]
fn the_trace_of_a_killed_program_is_recovered_and_whole() {
    let traced = Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FULL", "overwrite").run();
    let checked = check(&traced, &["-v"]);
    assert_eq!(checked.whole(), "whole: 1 run, 4 threads, 14 records, 0 lost, 0 torn, in order");
    assert!(checked.out.contains("  killed, 5 recovered now\n"), "{}", checked.out);
    assert!(traced.left_in_runtime().is_empty());
    let again = check(&traced, &["-v"]);
    assert_eq!(again.whole(), checked.whole());
    assert!(!again.out.contains(", 5 recovered now"), "{}", again.out);
}

#[test]
fn check_names_the_reason_of_each_loss() {
    let env = [("TRACER_RING_SIZE", "16K"), ("TRACER_FLUSH_MS", "60000")];
    for (scenario, full, reason) in [("full", "drop", "full"), ("full", "overwrite", "overwritten")] {
        let mut program = Scenario::new(SCENARIO, &[scenario, "50000"]).env("TRACER_FULL", full);
        program.command().envs(env);
        let traced = program.run().succeeded();
        let [file] = traced.files.values().collect::<Vec<_>>()[..] else { panic!("one file") };
        let (records, lost) = (file.end().records, file.end().lost);
        assert!(lost > 0 && records + lost == 50_000, "{records} and {lost}");
        let checked = check(&traced, &[]);
        let verdict = checked.not_whole(&[&format!(" records lost ({reason}: ")]);
        let numbers: String = verdict.chars().filter(|c| *c != ',').collect();
        assert!(numbers.contains(&format!(" {records} records {lost} lost ")), "{verdict}");
    }
    let traced =
        Scenario::new(SCENARIO, &["rotated", "20000"]).env("TRACER_MAX_BYTES", "64K").run().succeeded();
    check(&traced, &[]).not_whole(&["(rotated: "]);
}

#[test]
fn a_merge_reports_rotated_records_and_succeeds() {
    let traced =
        Scenario::new(SCENARIO, &["rotated", "20000"]).env("TRACER_MAX_BYTES", "64K").run().succeeded();
    let app = traced.directory.path().join(APP);
    let merge = tracemerge(SCENARIO, traced.runtime.path(), [app]).output().unwrap();
    let said = String::from_utf8_lossy(&merge.stderr).into_owned();
    assert_eq!(merge.status.code(), Some(0), "{said}");
    assert!(said.contains("not kept, by the settings of the program (reason=rotated: "), "{said}");
}

#[test]
fn check_notices_a_file_truncated_anywhere() {
    let traced = exited();
    let path = some_file(&traced);
    let whole = fs::read(&path).unwrap();
    let line = |n: usize| whole.split_inclusive(|&b| b == b'\n').take(n).map(<[u8]>::len).sum::<usize>();
    let lines = whole.iter().filter(|&&b| b == b'\n').count();
    for (length, word) in [
        (whole.len() - 1, "no line end"),
        (whole.len() - 4, "no '# end' line"),
        (line(lines - 1), "no '# end' line"),
        (line(10), "no '# end' line"),
        (line(10) + 5, "5 bytes are damaged"),
        (line(10) + 40, "no line end"),
        (0, "is empty"),
    ] {
        fs::write(&path, &whole[..length]).unwrap();
        let said = check(&traced, &[]);
        assert_eq!(said.status, Some(1), "{length}: {}{}", said.out, said.err);
        said.not_whole(&[word]);
    }
    fs::write(&path, &whole).unwrap();
    check(&traced, &[]).whole();
}

#[test]
fn check_notices_an_edited_file() {
    let traced = exited();
    let path = some_file(&traced);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let edit = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        edit(&mut lines);
        fs::write(&path, lines.concat()).unwrap();
        check(&traced, &[])
    };
    let last = lines.len() - 1;
    // Two messages of different times; the flusher may have put lines of its own anywhere.
    let is_message = |at: usize| lines[at].contains(" : ");
    let at =
        (20..last).find(|&at| is_message(at) && is_message(at + 1) && lines[at][..16] < lines[at + 1][..16]);
    let at = at.unwrap();
    let says = "the '# end' line counts 300 records and 0 lost ones, but the file has ";
    edit(&|lines| drop(lines.remove(at))).not_whole(&[&format!("{says}299 and 0 lost")]);
    edit(&|lines| lines.insert(at, lines[at].clone())).not_whole(&[&format!("{says}301 and 0 lost")]);
    edit(&|lines| lines[at] = lines[at].replace('-', "+"))
        .not_whole(&[" are damaged: no line", &format!("{says}299")]);
    edit(&|lines| lines[at] = lines[at].replace(" : ", " | ")).not_whole(&[&format!("{says}299")]);
    edit(&|lines| lines[last] = lines[last].replace("records=300", "records=30"))
        .not_whole(&["counts 30 records"]);
    edit(&|lines| lines[last] = lines[last].replace("lost=0", "lost=2")).not_whole(&["and 2 lost ones, but"]);
    edit(&|lines| lines.push(lines[at].clone())).not_whole(&["no '# end' line", "ticks go back"]);
    let verdict = edit(&|lines| lines.swap(at, at + 1));
    assert!(verdict.not_whole(&["ticks go back"]).ends_with(", not in order"), "{}", verdict.out);
    let of_another = |line: &str| format!("{}{:08}{}", &line[..17], 7, &line[line.find(' ').unwrap()..]);
    edit(&|lines| lines[at] = of_another(&lines[at])).not_whole(&["no line of this thread's trace"]);
    edit(&|_| ()).whole();
}

#[test]
fn check_notices_a_file_deleted_before_recovery() {
    let killed = || Scenario::new(SCENARIO, &["left-in-memory"]).env("TRACER_FULL", "overwrite").run();
    // This thread has more records in its ring, so its new file reports the loss.
    let traced = killed();
    fs::remove_file(traced.directory.path().join(main_file(&traced))).unwrap();
    check(&traced, &[]).not_whole(&[": 1 record lost (file_removed: 1)"]);
    // This thread has nothing in its ring, but the ring has counted its records, so a new file reports the loss.
    let traced = Scenario::new(SCENARIO, &["killed-when-flushed"]).env("TRACER_FLUSH_MS", "60000").run();
    assert!(!traced.output.status.success());
    fs::remove_file(traced.directory.path().join(main_file(&traced))).unwrap();
    let missed = check(&traced, &[]);
    missed.not_whole(&[": 1 record lost (file_removed: 1)"]);
}

#[test]
fn a_file_not_counted_before_a_kill_keeps_its_own_number() {
    let traced = Scenario::new(SCENARIO, &["killed-behind-a-flush"]).env("TRACER_FLUSH_MS", "60000").run();
    let [run] = &traced.left_in_runtime()[..] else { panic!("one run") };
    let (path, files) = (run.join(life::FILE_NAME), std::mem::offset_of!(life::Life, flusher));
    let mut life = fs::read(&path).unwrap();
    let count = u64::from_le_bytes(life[files..files + 8].try_into().unwrap());
    assert_eq!(count, 1, "the other file is made by recovery");
    life[files..files + 8].copy_from_slice(&(count - 1).to_le_bytes());
    fs::write(&path, life).unwrap();
    let checked = check(&traced, &[]);
    assert_eq!(checked.whole(), "whole: 1 run, 2 threads, 2 records, 0 lost, 0 torn, in order");
    let number = |path: PathBuf| {
        let thread = trace_format::file::thread_of(&fs::read(path).unwrap()).expect("a `# thread` line");
        thread.file
    };
    let mut numbers: Vec<_> = names(traced.directory.path()).into_iter().map(number).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(1), Some(2)]);
}

fn main_file(traced: &Traced) -> String {
    let main = traced.files.iter().find(|(_, file)| file.texts().first() == Some(&"flushed"));
    main.expect("the main thread's file").0.clone()
}

#[test]
fn the_trace_of_a_running_program_is_whole_so_far() {
    // A flight recorder keeps all records in memory.
    let mut watched = Watched::start(SCENARIO, "plain", &[("TRACER_FULL", "overwrite")]);
    watched.go_on_to(5);
    support::wait_until(60, "all have traced", || watched.returned() == [5; 8]);
    let (directory, runtime) = (watched.scenario.directory.path(), watched.scenario.runtime.path());
    let checked = check_in(directory, runtime, &["-v"]);
    assert_eq!(checked.whole(), "whole: 1 run, 8 threads, 40 records, 0 lost, 0 torn, in order");
    assert_eq!(checked.out.matches("  living, 5 in memory\n").count(), 8, "{}", checked.out);
    watched.end();

    let mut watched =
        Watched::start(SCENARIO, "all", &[("TRACER_RING_SIZE", "16K"), ("TRACER_MAX_STALL", "100000")]);
    let (directory, runtime) = (watched.scenario.directory.path(), watched.scenario.runtime.path());
    for checks in 1..=5 {
        // The program goes at full speed.
        watched.go_on_to(checks * 3000);
        support::wait_until(60, "all trace", || watched.returned().iter().all(|n| *n > checks * 3000 - 3000));
        check_in(directory, runtime, &[]).whole();
    }
    watched.end();
    let (directory, runtime) = (watched.scenario.directory.path(), watched.scenario.runtime.path());
    let checked = check_in(directory, runtime, &[]);
    assert!(checked.whole().contains("8 threads") && checked.out.contains(" 0 in memory"), "{}", checked.out);
}

#[test]
fn check_reports_unknown_records_of_private_rings_after_a_kill() {
    let traced = Scenario::new(SCENARIO, &["killed"]).env("TRACER_RUNTIME_DIR", &refused()).run();
    assert!(!traced.output.status.success());
    let checked = check_in(traced.directory.path(), Path::new(&refused()), &[]);
    checked.not_whole(&["no '# end' line: records that were in memory at the kill are lost"]);
}

#[test]
fn check_covers_all_runs_on_request_and_fails_without_a_run() {
    let traced = exited();
    let mut again = Scenario::new(SCENARIO, &["return"]);
    again.command().env("TRACER_DIR", traced.directory.path());
    let _ = again.run().succeeded();
    let newest = check(&traced, &[]);
    assert!(newest.whole().starts_with("whole: 1 run, 1 thread, 1 record,"), "{}", newest.out);
    let all = check(&traced, &["--all-runs"]);
    assert!(all.whole().starts_with("whole: 2 runs, 9 threads, 2,401 records,"), "{}", all.out);
    for file in names(traced.directory.path()) {
        fs::remove_file(file).unwrap();
    }
    let none = check(&traced, &[]);
    assert_eq!((none.status, &*none.out), (Some(2), ""), "{}", none.err);
    // Without an application, it looks for traces below the current directory, where there are none.
    let mut nobody = tracemerge(SCENARIO, traced.runtime.path(), [OsStr::new("check")]);
    assert_eq!(nobody.current_dir(traced.directory.path()).output().unwrap().status.code(), Some(2));
}

#[test]
fn check_and_merge_notice_any_missing_file() {
    // All threads that trace have ended before the exit: the last file records the end of the run.
    let traced = exited();
    let is_final = |file: &&support::ThreadTrace| file.end().reason == EndReason::Exit;
    assert_eq!(traced.files.values().filter(is_final).count(), 1);
    for file in names(traced.directory.path()) {
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let missed = check(&traced, &[]);
        missed.not_whole(&["warning: process "]);
        let is_named = |said: &str| {
            said.contains("1 trace file of its 8 is not here (file=")
                || said.contains("none of those found has the final number of files")
        };
        assert!(is_named(&missed.err), "{}", missed.err);
        let app = traced.directory.path().join(APP);
        let merge = tracemerge(SCENARIO, traced.runtime.path(), [app]).output().unwrap();
        let said = String::from_utf8_lossy(&merge.stderr).into_owned();
        assert_eq!(merge.status.code(), Some(1), "a merge knows the same: {said}");
        assert!(is_named(&said), "{said}");
        fs::write(&file, bytes).unwrap();
    }
    check(&traced, &[]).whole();
}

#[test]
fn check_warns_if_the_number_of_files_is_unknown() {
    let traced = exited();
    for file in names(traced.directory.path()) {
        let text = fs::read_to_string(&file).unwrap();
        let is_final = |line: &&str| !line.contains(" reason=exit files=");
        let without: Vec<&str> = text.split_inclusive('\n').filter(is_final).collect();
        fs::write(&file, without.concat()).unwrap();
    }
    check(&traced, &[]).not_whole(&["none of those found has the final number of files"]);
    for file in names(traced.directory.path()) {
        let text = fs::read_to_string(&file).unwrap();
        let (before, after) = text.split_once(" file=").unwrap();
        let number = after.find('\n').unwrap();
        fs::write(&file, before.to_owned() + &after[number..]).unwrap();
    }
    check(&traced, &[]).not_whole(&["some have no number (file= in the '# thread' line)"]);
}

#[test]
fn merge_and_check_report_a_missing_end() {
    let traced = Scenario::new(SCENARIO, &["killed"]).env("TRACER_RUNTIME_DIR", &refused()).run();
    let app = traced.directory.path().join(APP);
    let merge = tracemerge(SCENARIO, Path::new(&refused()), [app]).output().unwrap();
    let said = String::from_utf8_lossy(&merge.stderr).into_owned();
    assert_eq!(merge.status.code(), Some(1), "{said}");
    assert!(said.contains("records that were in memory at the kill are lost"), "{said}");

    // The rings are gone, as with a mount namespace that has ended.
    let traced = Scenario::new(SCENARIO, &["killed"]).env("TRACER_FLUSH_MS", "60000").run();
    fs::remove_dir_all(&traced.left_in_runtime()[0]).unwrap();
    let app = traced.directory.path().join(APP);
    let merge = tracemerge(SCENARIO, traced.runtime.path(), [app]).output().unwrap();
    let said = String::from_utf8_lossy(&merge.stderr).into_owned();
    assert_eq!(merge.status.code(), Some(1), "{said}");
    assert!(said.contains("the end of the thread's trace is missing"), "{said}");
    check(&traced, &[]).not_whole(&["the end of the thread's trace is missing"]);
}
