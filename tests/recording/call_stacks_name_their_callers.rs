//! A call stack stands after the message to which it belongs, in files and in merges. It has the names of the calling
//! functions. A function in a library that is loaded and unloaded has the name that was right at that time, or none.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::path::Path;
use std::process::Command;
use support::merges::tracemerge;
use support::{Scenario, Traced};
use trace_format::function::StackLine;
use trace_format::line::{Kind, Line};
use trace_format::meta::Meta;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");
const FORMATS: [&str; 2] = ["text", "raw"];
const DEPTH: u32 = 6;

fn run(scenario: &[&str], format: &str) -> Traced {
    // With this interval, the flusher seldom looks at the modules between two requests of the program.
    let scenario =
        Scenario::new(SCENARIO, scenario).env("TRACER_FORMAT", format).env("TRACER_FLUSH_MS", "60000");
    let traced = scenario.run().succeeded();
    traced.assert_whole();
    traced
}

/// Runs a subcommand on the traces and returns its standard output.
fn printed(traced: &Traced, args: &[&str]) -> String {
    let mut command = tracemerge(SCENARIO, traced.runtime.path(), args);
    let output = command.arg("scenario").env("TRACER_DIR", traced.directory.path());
    let output = output.current_dir(traced.directory.path()).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the stacks in a tree: for each, the line before it, and the names from the innermost to the outermost.
fn stacks_in(tree: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut stacks, mut before): (Vec<(&str, Vec<&str>)>, _) = (Vec::new(), None);
    // The thread may have waited for the tracer between a message and its stack.
    let is_record = |line: &&str| !line.contains("the tracer made ") && !line.contains("# stall ");
    for line in tree.lines().filter(is_record) {
        match line.split_once(": by ") {
            Some((_, name)) => {
                stacks.extend(before.take().map(|before| (before, Vec::new())));
                stacks.last_mut().expect("a stack").1.push(name);
            }
            None => before = Some(line),
        }
    }
    stacks
}

#[test]
fn a_stack_follows_its_message() {
    for format in FORMATS {
        let traced = run(&["stacks", &DEPTH.to_string()], format);
        for thread in ["scenario", "other"] {
            let file = traced.thread(thread);
            let texts = (0..DEPTH)
                .flat_map(|depth| ["before", "why", "behind"].map(|text| format!("{text} {depth}")));
            assert_eq!(file.texts(), texts.collect::<Vec<_>>());
            let (last, with_message) = file.stacks.split_last().expect("stacks");
            let keys: Vec<_> = file
                .messages
                .iter()
                .filter(|(_, text)| text.starts_with("why"))
                .map(|(key, _)| *key)
                .collect();
            assert_eq!(with_message.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys);
            assert!(last.0.ticks > keys[keys.len() - 1].ticks, "the one without a message");
            // Each stack has one frame more than the one before.
            let frames = with_message.iter().map(|(_, stack)| {
                let stack = StackLine::parse(stack.as_bytes()).expect("a stack");
                assert!(stack.whole);
                stack.frames.len()
            });
            let frames: Vec<usize> = frames.collect();
            assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 1), "{frames:?}");
        }
    }
}

#[test]
fn a_stack_follows_its_message_in_a_merge() {
    for format in FORMATS {
        let traced = run(&["stacks", &DEPTH.to_string()], format);
        let merged = printed(&traced, &["merge", "--quiet", "-o", "-"]);
        let lines = merged.lines().map(|line| Line::parse(line.as_bytes()).expect("a line"));
        let lines: Vec<Line> = lines.filter(|line| line.kind != Kind::Meta).collect();
        let mut found = 0;
        for pair in lines.windows(2).filter(|pair| pair[0].payload.starts_with(b"why ")) {
            assert_eq!((pair[1].kind, pair[1].key), (Kind::Stack, pair[0].key), "{format}");
            found += 1;
        }
        assert_eq!(found, 2 * DEPTH);
    }
}

#[test]
fn the_tree_names_the_callers_of_each_stack() {
    for format in FORMATS {
        let traced = run(&["stacks", &DEPTH.to_string()], format);
        let tree = printed(&traced, &["tree"]);
        let stacks = stacks_in(&tree);
        assert_eq!(stacks.len() as u32, 2 * (DEPTH + 1), "{tree}");
        for (n, (before, names)) in stacks.iter().enumerate() {
            let depth = n % (DEPTH as usize + 1);
            let is_alone = depth == DEPTH as usize;
            assert_eq!(before.ends_with(&format!(": why {depth}")), !is_alone, "{before}");
            let mut expected = vec!["scenario::stacks::all_depths  (stacks.rs:"];
            if !is_alone {
                let own = std::iter::once("scenario::stacks::innermost  (stacks.rs:");
                let recursion = std::iter::repeat_n("scenario::stacks::calls_itself  (stacks.rs:", depth + 1);
                expected.splice(0..0, own.chain(recursion));
            }
            let is_begun_by = names.iter().zip(&expected).all(|(name, expected)| name.starts_with(expected));
            assert!(names.len() > expected.len() && is_begun_by, "{names:?}, not {expected:?}");
            assert!(!names[expected.len()].starts_with("scenario::stacks::all_depths"));
        }
        // Each message is indented by the depth of the recursion.
        let column = |line: &str| line.find(": why").expect("a message");
        let columns: Vec<usize> = stacks[..DEPTH as usize].iter().map(|(before, _)| column(before)).collect();
        assert!(columns.windows(2).all(|pair| pair[0] < pair[1]), "{columns:?}");
    }
}

/// Compiles a library. Its only function has the name of the file and calls its argument. The machine code of all
/// libraries has the same length.
fn library(directory: &Path, name: &str, room: u32) -> String {
    let (source, path) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    let text = format!(
        "void {name}(void (*f)(void)) {{ volatile char room[{room}]; room[0] = 1; f(); room[1] = 2; }}"
    );
    std::fs::write(&source, text).expect("the source");
    let flags = ["-g", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-Wl,--build-id", "-o"];
    let status = Command::new("cc").args(flags).arg(&path).arg(&source).status();
    assert!(status.expect("cc runs").success());
    path.into_os_string().into_string().expect("UTF-8")
}

#[test]
fn callers_in_reloaded_libraries_have_the_right_name_or_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let sizes = [1000, 3000, 2000];
    let mut names = ["first", "second", "third"].into_iter().zip(sizes);
    let [first, second, third] = std::array::from_fn(|_| {
        names.next().map(|(name, room)| library(directory.path(), name, room)).expect("three")
    });
    for format in FORMATS {
        let steps = [
            "visits".to_owned(),
            "look".to_owned(),
            format!("seen:{first}"),
            format!("seen:{second}"),
            format!("seen:{first}"),
            // The program requests no look before another library has taken its place.
            format!("hidden:{third}"),
            format!("stay:{second}"),
            "look".to_owned(),
        ];
        // The flusher may also look on its own and see the hidden library: rarely, and not in each run.
        let is_hidden = (0..20).any(|_| check_caller_names(&steps, format));
        assert!(
            is_hidden,
            "the flusher has seen a library that nobody asked it to look at, in 20 of 20 runs"
        );
    }
}

/// Runs the steps and checks each caller's name. Returns whether the flusher saw neither the hidden library nor the
/// one that took its place before both had called.
fn check_caller_names(steps: &[String; 8], format: &str) -> bool {
    let traced = run(&steps.each_ref().map(String::as_str), format);
    let said = traced.stdout();
    let places: Vec<&str> = said.lines().collect();
    assert!(places.len() == 5 && places[1..] == [places[1]; 4], "not at the same addresses: {places:?}");
    let tree = printed(&traced, &["tree"]);
    let stacks = stacks_in(&tree);
    let callers: Vec<&str> = stacks.iter().map(|(_, names)| names[1]).collect();
    assert_eq!(callers.len(), 5, "{tree}");
    let unseen = |caller: &str| {
        caller.starts_with("0x") && caller.ends_with(" (its module was loaded or unloaded about then)")
    };
    for (n, (caller, name)) in callers.iter().zip(["first", "second", "first", "third", "second"]).enumerate()
    {
        let is_named = *caller == format!("{name}  ({name}.c:1)");
        assert!(is_named || n >= 3 && unseen(caller), "{caller}, not {name}");
    }
    // The other callers are never in doubt: the walk leaves each frame by its own rule.
    for (_, names) in &stacks {
        assert!(names[0].starts_with("scenario::stacks::record"), "{names:?}");
        assert!(names[2].starts_with("scenario::stacks::visit  "), "{names:?}");
        assert!(names[3].starts_with("scenario::stacks::visits"), "{names:?}");
    }
    let metas = &traced.main_thread().metas;
    let is_missed = metas.iter().any(|meta| matches!(meta, Meta::Missed { modules: 1, .. }));
    assert!(!is_missed || unseen(callers[3]), "{callers:?} in {metas:?}");
    is_missed && unseen(callers[4])
}
