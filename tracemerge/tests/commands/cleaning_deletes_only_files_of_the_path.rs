//! `clean` deletes the files that the named path has made, no files of others, and asks before it goes to other
//! directories.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

use std::fs;
#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{Place, Ran, file, ran, run};
use trace_format::meta::Run;
use trace_format::places;

const NAME: &str = if cfg!(windows) { "app.exe" } else { "app" };

/// Returns the path of a program, in the form that its runs record.
fn exe(place: &Place, directory: &str) -> Vec<u8> {
    let real = trace_store::sys::real_path(&place.path(directory)).unwrap().join(NAME);
    real.as_os_str().as_encoded_bytes().to_vec()
}

fn make_program(place: &Place, directory: &str) -> Vec<u8> {
    fs::create_dir_all(place.path(directory)).unwrap();
    place.write(format!("{directory}/{NAME}"), "a program");
    exe(place, directory)
}

/// Writes a trace file of the program `exe` into `directory`, of thread `tid`.
fn trace(place: &Place, directory: &str, exe: &[u8], tid: u64) -> PathBuf {
    fs::create_dir_all(place.path(directory)).unwrap();
    let run = Run { exe: exe.to_vec(), ..run(tid as u32, 1) };
    let path = place.path(format!("{directory}/{NAME}.trace.{tid}"));
    fs::write(&path, file(&run, tid, &[3, 7])).unwrap();
    path
}

fn clean(place: &Place, args: &[&str], traces: Option<&str>) -> Ran {
    let mut command = place.command();
    if let Some(directory) = traces {
        command.env("TRACER_DIR", place.path(directory));
    }
    ran(command.arg("clean").args(args).stdin(Stdio::null()))
}

fn app(directory: &str) -> String {
    format!("{directory}/{NAME}")
}

#[test]
fn programs_of_one_name_in_one_directory_lose_only_their_own_files() {
    for is_deleted in [false, true] {
        let place = Place::new();
        let (one, two) = (make_program(&place, "one"), make_program(&place, "two"));
        let files = [trace(&place, "traces", &one, 11), trace(&place, "traces", &two, 12)];
        if is_deleted {
            fs::remove_file(place.path(app("one"))).unwrap();
        }
        let cleaned = clean(&place, &[&app("one")], Some("traces"));
        assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
        assert!(cleaned.err.contains("deleted 1 trace file"), "{}", cleaned.err);
        assert_eq!(files.map(|file| file.exists()), [false, true], "{}", cleaned.err);
    }
}

#[test]
fn a_program_that_never_existed_has_nothing_to_delete() {
    let place = Place::new();
    let two = make_program(&place, "two");
    let kept = trace(&place, "traces", &two, 12);
    fs::create_dir(place.path("typo")).unwrap();
    for path in [app("typo"), format!("no such directory/{NAME}")] {
        let cleaned = clean(&place, &[&path, "--yes"], Some("traces"));
        assert_eq!(cleaned.status, Some(2), "{}", cleaned.err);
        assert!(cleaned.err.contains("nothing is deleted"), "{}", cleaned.err);
        assert!(kept.exists());
    }
}

#[test]
fn files_of_another_program_next_to_the_program_are_kept() {
    let place = Place::new();
    let (one, two) = (make_program(&place, "one"), make_program(&place, "two"));
    let files = [
        trace(&place, "one", &one, 11),
        trace(&place, "one", &two, 12),
        // The directory was moved since, so no other program can have made this file.
        trace(&place, "one", b"/where/it/was/before/app", 13),
    ];
    let cleaned = clean(&place, &[&app("one")], None);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    assert_eq!(files.map(|file| file.exists()), [false, true, false], "{}", cleaned.err);
    assert!(
        cleaned.err.contains("not deleted: 1 trace file of other programs of that name"),
        "{}",
        cleaned.err
    );
}

/// Makes a program whose runs have put files into two other directories, with the list of these; returns the files.
fn with_files_elsewhere(place: &Place) -> [PathBuf; 3] {
    let exe = make_program(place, "here");
    let files =
        [trace(place, "here", &exe, 11), trace(place, "keep", &exe, 12), trace(place, "elsewhere", &exe, 13)];
    let mut list = Vec::new();
    for directory in ["keep", "elsewhere"] {
        let real = trace_store::sys::real_path(&place.path(directory)).unwrap();
        let directory = real.as_os_str().as_encoded_bytes().to_vec();
        let known = places::Place { id: 1, pid: 12, wall: run(12, 1).wall, exe: exe.clone(), directory };
        list.extend(known.write());
    }
    place.write(format!("here/{NAME}.trace.places"), list);
    files
}

#[test]
fn other_directories_are_named_and_left_unless_the_user_agrees() {
    let place = Place::new();
    let [here, keep, elsewhere] = with_files_elsewhere(&place);
    let cleaned = clean(&place, &[&app("here")], None);
    assert_eq!(cleaned.status, Some(1), "{}", cleaned.err);
    assert!(!here.exists() && keep.exists() && elsewhere.exists(), "{}", cleaned.err);
    for directory in ["keep", "elsewhere"] {
        let is_named = cleaned.err.lines().any(|line| {
            line.contains("not deleted: 1 trace file in")
                && line.contains(directory)
                && line.contains("--yes")
        });
        assert!(is_named, "{}", cleaned.err);
    }
    // A merge still finds them.
    let merged = place.merge(["--all-runs", "-o", "-", &app("here")]);
    let expected = [fs::read(&keep).unwrap(), fs::read(&elsewhere).unwrap()].concat();
    assert_eq!(merged.out, sorted_lines(&expected));
    // The directory that the user has named for traces is not another directory.
    let cleaned = clean(&place, &[&app("here")], Some("keep"));
    assert_eq!(cleaned.status, Some(1), "{}", cleaned.err);
    assert!(!keep.exists() && elsewhere.exists(), "{}", cleaned.err);
    let cleaned = clean(&place, &[&app("here"), "--yes"], None);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    assert!(!elsewhere.exists() && cleaned.err.contains("elsewhere"), "{}", cleaned.err);
    assert!(!place.path(format!("here/{NAME}.trace.places")).exists());
}

/// Returns the lines of several files in the order of a merge; the files are given in the order of ties.
fn sorted_lines(files: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = files.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_by_key(|line| &line[..16]);
    lines.concat()
}

#[cfg(unix)]
#[test]
fn on_a_terminal_the_answer_decides() {
    if crate::support::programs::lacks(&["script"]) {
        return;
    }
    for (answer, status, left) in [("y\nn\n", 1, 1), ("yes\ny\n", 0, 0), ("\n\n", 1, 2), ("n\nno\n", 1, 2)] {
        let place = Place::new();
        let [here, keep, elsewhere] = with_files_elsewhere(&place);
        let line = format!("'{}' clean {}", env!("CARGO_BIN_EXE_tracemerge"), app("here"));
        let mut script = place.program("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{answer:?}: {text}");
        assert!(text.contains("delete 1 trace file of") && text.contains("[y/N]"), "{text}");
        assert!(!here.exists());
        let there = [keep, elsewhere].iter().filter(|file| file.exists()).count();
        assert_eq!(there, left, "{answer:?}: {text}");
    }
}

const FORMATS: [&str; 11] = [
    "jsonl",
    "csv",
    "html",
    "perfetto",
    "chrome",
    "folded",
    "flamegraph",
    "speedscope",
    "uftrace",
    "ctf",
    "parquet",
];

/// Files that the command did not write, under names that outputs have.
const MINE: [(&str, &str); 9] = [
    ("jsonl", "{\"mine\":1}\n"),
    ("csv", "a,b,c\n1,2,3\n"),
    ("perfetto-trace", "mine"),
    ("chrome.json", "{\"traceEvents\":[]}"),
    ("folded", "a map, folded\n"),
    ("svg", "<svg>a logo</svg>"),
    ("html", "<!doctype html><title>app</title>"),
    ("speedscope.json", "{\"exporter\":\"another\"}"),
    ("ctf", "a note"),
];

#[test]
fn outputs_are_deleted_and_files_of_the_user_are_not() {
    let all = crate::support::everything(1);
    let place = &all.place;
    let before = place.names();
    for format in FORMATS {
        let made = place.merge(["-q", "--all-runs", "--format", format, "app"]);
        assert!(made.status < Some(2) || made.err.contains("was built without"), "{format}: {}", made.err);
    }
    assert!(place.merge(["-q", "--all-runs", "app"]).status < Some(2));
    let opened = ran(place.command().env("TRACEMERGE_OPEN", "text:true").args(["open", "--all-runs", "app"]));
    assert!(opened.status < Some(2), "{}", opened.err);
    assert!(place.names().len() >= before.len() + 10, "{:?}", place.names());
    let cleaned = clean(place, &["app"], None);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    let left: Vec<String> = place.names().into_iter().filter(|name| name.starts_with("app.")).collect();
    assert_eq!(left, [""; 0], "{}", cleaned.err);

    place.write("app", "the program");
    MINE.iter().for_each(|(extension, text)| place.write(format!("app.{extension}"), text));
    fs::create_dir(place.path("app.uftrace")).unwrap();
    place.write("app.uftrace/mine", "mine");
    let cleaned = clean(place, &["app"], None);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    for (extension, text) in MINE {
        assert_eq!(place.text(format!("app.{extension}")), text);
        assert!(cleaned.err.contains(&format!("'app.{extension}' is not deleted")), "{}", cleaned.err);
    }
    assert_eq!(place.text("app.uftrace/mine"), "mine");
}

#[cfg(unix)]
#[test]
fn files_that_are_not_regular_are_kept() {
    let place = Place::with_one_file();
    place.write("precious", "precious");
    std::os::unix::fs::symlink("precious", place.path("app.trace.merge")).unwrap();
    assert_eq!(ran(place.program("mkfifo").arg("app.csv")).status, Some(0));
    let cleaned = clean(&place, &["app"], None);
    assert_eq!(cleaned.status, Some(0), "{}", cleaned.err);
    assert_eq!(place.names(), ["app.csv", "app.trace.merge", "precious"]);
    assert!(cleaned.err.contains("'app.csv' is not deleted: a FIFO has this name"), "{}", cleaned.err);
    assert_eq!(place.text("precious"), "precious");
}

/// Returns names of programs that are odd in one way or another.
#[cfg(unix)]
fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        &b"app (deleted)"[..],
        b"new\nline",
        b"esc\x1b[31mred",
        b"\"quote\"",
        b"sp ace ",
        b"-dash",
        b"--help",
        b"back\\slash",
        b"\xff\xfe",
        b"a.trace.5",
        b"x.trace.merge",
        b"app.trace",
        b"app.trace.",
        b"tab\there",
        b"%s%n",
        b".hidden",
        b"..x",
        b"a~deadbeef",
        b"CON",
        b"a:b",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    names.extend([214, 215, 255].map(|length| vec![b'a'; length]));
    names.push("\u{fc}\u{20ac}".repeat(50).into_bytes());
    names
}

#[cfg(unix)]
#[test]
fn a_program_of_any_name_is_merged_and_cleaned() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    for name in odd_names() {
        let place = Place::new();
        let program = OsStr::from_bytes(&name);
        place.write(program, b"a program");
        let real = fs::canonicalize(place.path(program)).unwrap();
        let stem = trace_format::name::stem(&name).into_owned();
        let run = Run { exe: real.as_os_str().as_bytes().to_vec(), ..run(5, 1) };
        for tid in [9, 10] {
            let mut of_thread = stem.clone();
            of_thread.extend_from_slice(format!(".trace.{tid}").as_bytes());
            place.write(OsStr::from_bytes(&of_thread), file(&run, tid, &[3, 7]));
        }
        let (before, path) = (place.names(), Path::new(".").join(program));
        let opened = ["--".as_ref(), path.as_os_str()];
        let run = |args: &[&str], program: &[&OsStr]| {
            let mut command = place.command();
            let ran = ran(command.env("TRACEMERGE_OPEN", "text:true").args(args).args(program));
            assert!(ran.status < Some(2), "{program:?} {args:?}: {}", ran.err);
            assert!(
                !ran.err.bytes().any(|byte| byte.is_ascii_control() && !b"\n\t".contains(&byte)),
                "{:?}",
                ran.err
            );
            ran
        };
        let mut outputs = 0;
        for args in [
            &[][..],
            &["--format", "jsonl"],
            &["--format", "csv"],
            &["--format", "uftrace"],
            &["--format", "ctf"],
            &["open"],
        ] {
            run(args, &opened);
            outputs += 1;
            assert_eq!(place.names().len(), before.len() + outputs, "{args:?}: {:?}", place.names());
            // An output is not a trace: the number of files stays.
            assert!(run(&["-o", "/dev/null"], &opened).err.contains("merged 2 files"), "{program:?}");
        }
        // Here the name has no directory, unless it would be an option.
        if !name.starts_with(b"-") {
            run(&["check"], &[program]);
        }
        let merged = run(&["-o", "-"], &opened);
        assert_eq!(merged.out.split(|byte| *byte == b'\n').count(), 7, "{program:?}");
        let cleaned = run(&["clean"], &opened);
        let left = fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name != "tmp").collect();
        assert_eq!(left, [program], "{}", cleaned.err);
    }
}
