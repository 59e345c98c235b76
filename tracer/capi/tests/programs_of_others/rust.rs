//! `cargo tracer` builds a workspace whose source does not mention tracing; the traces of its programs agree with the
//! programs' own counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::compiled::{Calls, calls, counted, installed, tracemerge};

/// A copy of the workspace, so that nothing is built among the sources.
pub struct Workspace {
    /// The directory of the copy.
    pub place: TempDir,
}

impl Workspace {
    /// Copies the workspace.
    pub fn new() -> Workspace {
        let place = TempDir::new().expect("a directory");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workspace"), place.path());
        Workspace { place }
    }

    /// Runs `cargo tracer` in the workspace, as Cargo does.
    pub fn cargo_tracer(&self, words: &[&str]) -> Output {
        let mut command = Command::new(installed().join("bin/cargo-tracer"));
        command.arg("tracer").args(words).current_dir(self.place.path());
        forget_cargo(&mut command);
        command.output().expect("it runs")
    }

    /// Returns the path of a file that was built, with its traces beside it.
    pub fn built(&self, profile: &str, name: &str) -> PathBuf {
        let place = self.place.path().join("target/tracer").join(env!("HOST_OF_TEST")).join(profile);
        place.join(name)
    }
}

/// Removes the variables that Cargo sets for this test, which are not meant for another build, from a command's
/// environment.
pub fn forget_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let of_cargo = ["CARGO", "TRACER_", "RUST", "DOCTEST_"];
        let is_toolchain = name == "CARGO_HOME" || name == "RUSTUP_HOME" || name == "RUSTUP_TOOLCHAIN";
        if of_cargo.iter().any(|word| name.to_string_lossy().starts_with(word)) && !is_toolchain {
            command.env_remove(&name);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// Returns the output of a program as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns the lines of the merged traces of a program, with names.
fn merged(program: &Path) -> Vec<String> {
    let mut command = tracemerge(program.parent().expect("a directory"));
    let output =
        command.args(["--quiet", "--symbols", "-o", "/dev/stdout"]).arg(program).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Returns the report of a program, with all functions.
fn whole_report(program: &Path) -> String {
    let mut command = tracemerge(program.parent().expect("a directory"));
    let output = command.args(["report", "--rows", "all"]).arg(program).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn each_call_of_an_unedited_program_is_in_its_trace() {
    let workspace = Workspace::new();
    for (profile, words) in [
        ("debug", &["run"][..]),
        ("release", &["run", "--release", "--features", "more"]),
        ("shipped", &["run", "--profile", "shipped", "--features", "more"]),
    ] {
        let output = workspace.cargo_tracer(words);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{said}");
        assert!(printed.starts_with(&format!("42 8 42\nmore {}\n", profile != "debug")), "{printed}");
        let counts = counted(&printed);
        assert!(counts.len() == 6, "{printed}");
        // A report is shown, behind the messages of Cargo. With all rows, it has the same counts.
        assert!(said.lines().any(|line| line.ends_with("  all functions")), "{said}");
        let report = whole_report(&workspace.built(profile, "the-app"));
        for (name, count) in &counts {
            let row = report
                .lines()
                .find(|line| line.contains(&format!("  {name}  (")))
                .unwrap_or_else(|| panic!("{name}: {report}"));
            let calls = row.split_whitespace().next().expect("a count").replace(',', "");
            assert_eq!(calls, count.to_string(), "{row}");
        }
        let calls = calls(&merged(&workspace.built(profile, "the-app")));
        for (name, count) in &counts {
            assert_eq!(calls.entered.get(name), Some(count), "{profile}: {name}: {:?}", calls.entered);
        }
        // All functions are left in the order in which they were entered, even through panics, except those that call
        // `exit`.
        assert_eq!((calls.not_innermost, calls.of_nothing), (0, 0));
        let open: Vec<&String> = calls
            .open
            .values()
            .flatten()
            .filter(|name| !name.starts_with("std::") && !name.starts_with("core::"))
            .collect();
        assert_eq!(open, ["main", "the_app::main"]);
        // Build scripts and procedural macros have no traces, and made none.
        assert!(!calls.entered.keys().any(|name| name.contains("build_script") || name.contains("macros::")));
    }
}

#[test]
fn the_status_of_the_program_is_passed_on_and_crates_can_be_chosen() {
    let workspace = Workspace::new();
    let output = workspace.cargo_tracer(&["run", "--show", "nothing", "--crate", "helper", "--", "7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let place = workspace.place.path().join("target/tracer");
    let chosen = fs::read_dir(&place).expect("a directory").map(|entry| entry.expect("an entry").path());
    let chosen: Vec<PathBuf> = chosen
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chosen-")))
        .collect();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    let calls = calls(&merged(&chosen[0].join(env!("HOST_OF_TEST")).join("debug/the-app")));
    assert_eq!(calls.entered.get("helper::doubled"), Some(&1), "{calls:?}");
    assert!(!calls.entered.keys().any(|name| name.starts_with("the_app::")), "{calls:?}");
}

/// Returns a program that was built in its own directory for the chosen options, and the calls in its trace.
fn chosen(workspace: &Workspace, output: &Output, profile: &str) -> (PathBuf, Calls) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(!said.contains("CSV"), "{said}");
    // Cargo prints the path of the program that it runs.
    let at = said.rsplit_once("target/tracer/").map(|(_, at)| at.split('`').next().unwrap_or_default());
    let place = at.and_then(|at| at.split(env!("HOST_OF_TEST")).next()).expect("the program");
    let place = workspace.place.path().join("target/tracer").join(place).join(env!("HOST_OF_TEST"));
    let program = place.join(profile).join("the-app");
    let calls = calls(&merged(&program));
    (program, calls)
}

/// Returns the functions of a program whose code calls a hook, and the number of all functions of Rust, from the
/// output of objdump; none, and 0, if objdump is missing.
fn with_hooks(program: &Path) -> (BTreeSet<String>, usize) {
    if support::programs::installed_programs(["objdump"]).is_empty() {
        return (BTreeSet::new(), 0);
    }
    let mut command = Command::new("objdump");
    command.args(["--disassemble", "--no-show-raw-insn"]).arg(program);
    let output = command.output().expect("objdump runs");
    let (mut hooked, mut functions, mut own) = (BTreeSet::new(), 0, String::new());
    for line in text(&output.stdout).lines() {
        if let Some(symbol) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            own = format!("{:#}", rustc_demangle::demangle(symbol.1));
            functions += usize::from(rustc_demangle::try_demangle(symbol.1).is_ok());
        } else if line.contains("<__tsan_func_e") && !own.contains("@plt") {
            hooked.insert(own.clone());
        }
    }
    (hooked, functions)
}

#[test]
fn functions_are_excluded_from_the_program_by_their_paths() {
    let workspace = Workspace::new();
    for (profile, how) in [("debug", &["run"][..]), ("release", &["run", "--release"])] {
        let all = workspace.cargo_tracer(how);
        let (whole, entered) = (workspace.built(profile, "the-app"), text(&all.stdout));
        assert!(all.status.success(), "{}", text(&all.stderr));
        let counts = counted(&entered);
        let all = calls(&merged(&whole)).entered;
        let (hooked, functions) = with_hooks(&whole);
        assert!(
            functions == 0 || hooked.contains("the_app::fib") && hooked.contains("helper::doubled"),
            "{hooked:?}"
        );
        for (options, wanted) in CHOICES {
            let output = workspace.cargo_tracer(&[how, &["--show", "nothing"], options].concat());
            let printed = text(&output.stdout);
            assert_eq!(counted(&printed), counts, "the program does what it did");
            let (program, calls) = chosen(&workspace, &output, profile);
            assert_eq!((calls.not_innermost, calls.of_nothing), (0, 0), "{calls:?}");
            // Each wanted function has all of its calls, and no other function has any.
            let expected = all.iter().filter(|(name, _)| wanted(name));
            let expected: BTreeMap<String, u64> =
                expected.map(|(name, count)| (name.clone(), *count)).collect();
            assert!(!expected.is_empty() && expected.len() < all.len(), "{options:?}: {all:?}");
            assert_eq!(calls.entered, expected, "{options:?} {profile}");
            // Only the code of these functions has hooks.
            let expected: BTreeSet<String> = hooked.iter().filter(|name| wanted(name)).cloned().collect();
            assert_eq!(with_hooks(&program), (expected, functions), "{options:?} {profile}");
        }
    }
}

#[test]
fn an_excluded_function_has_the_code_of_a_build_without_tracing() {
    if support::programs::lacks(&["objdump"]) {
        return;
    }
    let workspace = Workspace::new();
    let mut plain = Command::new("cargo");
    forget_cargo(&mut plain);
    // With the options of `cargo tracer`, so that the same functions are inlined.
    plain.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    let built = plain.args(["build", "--release"]).current_dir(workspace.place.path()).output();
    assert!(built.expect("Cargo can be run").status.success());
    let output =
        workspace.cargo_tracer(&["run", "--release", "--show", "nothing", "--exclude", "fib,catches"]);
    let (program, _) = chosen(&workspace, &output, "release");
    let whole = workspace.cargo_tracer(&["build", "--release"]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let (plain, whole) =
        (workspace.place.path().join("target/release/the-app"), workspace.built("release", "the-app"));
    for function in ["the_app::fib", "the_app::catches"] {
        let expected = instructions(&plain, function);
        assert!(expected.len() > 10, "{function}: {expected:?}");
        assert_eq!(instructions(&program, function), expected, "{function}");
        assert_ne!(instructions(&whole, function), expected, "{function}");
    }
}

#[test]
fn a_compiler_that_cannot_exclude_functions_is_reported_first() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new();
    let compiler = workspace.place.path().join("rustc-without-lists");
    let script = "#!/bin/sh\nfor word do shift; case $word in *forceattrs*) ;; *) set -- \"$@\" \"$word\";; esac; done\nexec rustc \"$@\"\n";
    fs::write(&compiler, script).expect("a file");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let build = |words: &[&str]| {
        let mut command = Command::new(installed().join("bin/cargo-tracer"));
        command.args(["tracer", "build", "--package", "helper"]).args(words);
        forget_cargo(&mut command);
        command.env("RUSTC", &compiler).current_dir(workspace.place.path()).output().expect("it runs")
    };
    let refused = build(&["--exclude", "doubled"]);
    let said = text(&refused.stderr);
    let why = "cannot compile programs with hooks in some functions only: a function that should have no hook has one. ";
    assert!(!refused.status.success() && said.contains(why), "{said}");
    let all = build(&[]);
    assert!(all.status.success(), "{}", text(&all.stderr));
}

#[test]
fn a_compiler_is_probed_once() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new();
    let compiler = workspace.place.path().join("compiler");
    fs::write(&compiler, "#!/bin/sh\necho \"$*\" >> \"$0.called\"\nexec rustc \"$@\"\n").expect("a file");
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    // Returns the number of times that a probe was compiled in all builds so far.
    let probed = |words: &[&str]| {
        let mut command = Command::new(installed().join("bin/cargo-tracer"));
        command.args(["tracer", "build", "--package", "helper"]).args(words);
        forget_cargo(&mut command);
        let output = command.env("RUSTC", &compiler).current_dir(workspace.place.path()).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let called = fs::read_to_string(workspace.place.path().join("compiler.called")).expect("calls");
        called.lines().filter(|line| line.contains("/probe.rs ")).count()
    };
    assert_eq!([probed(&[]), probed(&[]), probed(&["--release"])], [1, 1, 1]);
    // Other hooks are tried separately, with each flag that compilers have for them.
    let with_dormant = probed(&["--dormant"]);
    assert!(with_dormant > 1, "{with_dormant}");
    assert_eq!(probed(&["--dormant"]), with_dormant);
    // A newly installed library differs only by its path, so the compiler's version decides.
    let again = "#!/bin/sh\necho \"$*\" >> \"$0.called\"\nif [ \"$*\" = -vV ]; then rustc -vV; echo LLD; else exec rustc \"$@\"; fi\n";
    fs::write(&compiler, again).expect("a file");
    assert_eq!(probed(&[]), with_dormant + 1, "a compiler of another version is tried again");
}

#[test]
fn the_tracer_itself_is_not_traced_in_a_program_built_with_it() {
    let workspace = Workspace::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = workspace.place.path().join("speaks");
    fs::create_dir_all(program.join("src")).expect("a directory");
    let tracer = |name: &str| repository.join("tracer").join(name).display().to_string();
    let manifest = format!(
        "[package]\nname = \"speaks\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nlog = \"0.4\"\n\
         tracer-lib = {{ path = \"{}\" }}\ntracer-log = {{ path = \"{}\" }}\n[workspace]\n",
        tracer(""),
        tracer("log"),
    );
    fs::write(program.join("Cargo.toml"), manifest).expect("a file");
    // With the versions of this repository.
    fs::copy(repository.join("Cargo.lock"), program.join("Cargo.lock")).expect("a copy");
    let source = "\
#[inline(never)]
fn speaks(turn: u32) -> u32 {
    tracer::Tracer::get().trace(format_args!(\"turn {turn}\"));
    log::info!(\"logged {turn}\");
    std::hint::black_box(turn)
}
fn main() {
    tracer_log::init().expect(\"the first one\");
    println!(\"{}\", (0..10).map(speaks).sum::<u32>());
}
";
    fs::write(program.join("src/main.rs"), source).expect("a file");
    let mut command = Command::new(installed().join("bin/cargo-tracer"));
    command.args(["tracer", "run", "--deps", "--offline", "--show", "nothing"]).current_dir(&program);
    forget_cargo(&mut command);
    let output = command.output().expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(text(&output.stdout), "45\n");
    let at =
        said.rsplit_once("target/tracer/").and_then(|(_, at)| at.split('`').next()).expect("the program");
    let lines = merged(&program.join("target/tracer").join(at));
    for message in ["turn 9", "logged 9"] {
        assert!(lines.iter().any(|line| line.ends_with(message)), "{message}: {lines:?}");
    }
    let entered = calls(&lines).entered;
    assert_eq!(entered.get("speaks::speaks"), Some(&10), "{entered:?}");
    let own = |name: &&String| {
        ["tracer", "trace_format", "trace_store"].iter().any(|own| name.starts_with(&format!("{own}::")))
            || name.starts_with("tracer_")
            || name.starts_with("<tracer")
    };
    assert_eq!(entered.keys().filter(own).collect::<Vec<_>>(), [""; 0], "{entered:?}");
    // Other dependencies are traced.
    assert!(entered.keys().any(|name| name.contains("log::")), "{entered:?}");
}

/// Returns the names of a function's instructions, without their operands, which differ by addresses.
fn instructions(program: &Path, function: &str) -> Vec<String> {
    let mut command = Command::new("objdump");
    command.args(["--disassemble", "--no-show-raw-insn"]).arg(program);
    let output = text(&command.output().expect("objdump runs").stdout);
    let is_own = |line: &&str| {
        let symbol = line.strip_suffix(">:").and_then(|line| line.split_once('<'));
        symbol.is_some_and(|(_, symbol)| format!("{:#}", rustc_demangle::demangle(symbol)) == function)
    };
    let lines = output.lines().skip_while(|line| !is_own(line)).skip(1).take_while(|line| !line.is_empty());
    let name = |line: &str| line.split('\t').nth(1)?.split_whitespace().next().map(str::to_owned);
    // The padding up to the next function is not part of it.
    lines.filter_map(name).filter(|name| name != "int3" && !name.starts_with("nop")).collect()
}

/// Options that choose functions, and a function that returns whether a name is chosen.
type Chosen = (&'static [&'static str], fn(&str) -> bool);

const CHOICES: [Chosen; 3] = [
    (&["--exclude", "the_app::fib"], |name| name != "the_app::fib"),
    (
        &["--include", "the_app::*", "--include=helper::doubled", "--exclude", "fails,*::{{closure}}*"],
        |name| {
            let is_included = name.starts_with("the_app::") || name == "helper::doubled";
            is_included && name != "the_app::fails" && !name.contains("::{{closure}}")
        },
    ),
    (&["--deps", "--include", "catches"], |name| name == "the_app::catches"),
];

#[test]
fn dormant_hooks_are_excluded_by_paths_too() {
    let workspace = Workspace::new();
    let all = ["run", "--dormant", "--show", "nothing"];
    let output =
        workspace.cargo_tracer(&[&all[..], &["--include", "the_app::*", "--exclude", "fib"]].concat());
    let counts = counted(&text(&output.stdout));
    let entered = chosen(&workspace, &output, "debug").1.entered;
    assert!(
        entered.keys().all(|name| name.starts_with("the_app::") && name != "the_app::fib"),
        "{entered:?}"
    );
    for name in ["the_app::fails", "the_app::catches", "the_app::after"] {
        assert_eq!(entered.get(name), counts.get(name), "{name}");
    }
}

#[test]
fn leaf_functions_are_traced_on_request() {
    let workspace = Workspace::new();
    // The leaves of the recursion, by Fibonacci's numbers, and one for each panic.
    let fib = |n: u64| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
    let ends: u64 = 20 * (8..12u64).map(|n| fib(n + 1)).sum::<u64>();
    // A panic calls this closure, which does nothing. With optimization, functions that only return their argument
    // are not called.
    let closure = "the_app::main::{{closure}}";
    for (profile, how, leaf, calls_of_leaf) in
        [("debug", &["run"][..], "the_app::one", ends + 80), ("release", &["run", "--release"], closure, 80)]
    {
        let whole = workspace.cargo_tracer(how);
        assert!(whole.status.success(), "{}", text(&whole.stderr));
        let without = calls(&merged(&workspace.built(profile, "the-app"))).entered;
        assert_eq!(without.get(leaf), None, "{without:?}");
        let output = workspace.cargo_tracer(&[how, &["--leaf", "--show", "nothing"]].concat());
        let counts = counted(&text(&output.stdout));
        let (_, calls) = chosen(&workspace, &output, profile);
        assert_eq!(
            (counts["the_app::after"], calls.entered.get(leaf)),
            (80, Some(&calls_of_leaf)),
            "{profile}"
        );
        assert_eq!((calls.not_innermost, calls.of_nothing), (0, 0), "{calls:?}");
        // All other functions are traced as without the option. Another closure has the same name.
        let in_closure = without.get(closure).unwrap_or(&0) + counts["the_app::catches"];
        assert_eq!(calls.entered.get(closure), Some(&in_closure), "{profile}");
        for (name, count) in without.iter().filter(|(name, _)| *name != closure) {
            assert_eq!(calls.entered.get(name), Some(count), "{profile}: {name}");
        }
        // Patterns choose among them as well.
        let only = ["--leaf", "--show", "nothing", "--include", "after", "--include", leaf];
        let output = workspace.cargo_tracer(&[how, &only].concat());
        let (_, calls) = chosen(&workspace, &output, profile);
        let mut expected = ["the_app::after", leaf];
        expected.sort_unstable();
        assert_eq!(calls.entered.keys().collect::<Vec<_>>(), expected, "{profile}");
    }
}

#[test]
fn tests_examples_and_examples_in_documentation_are_built_and_run() {
    let workspace = Workspace::new();
    let output = workspace.cargo_tracer(&["test", "--workspace"]);
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(printed.contains("test doubles ... ok") && said.contains("Doc-tests helper"), "{printed}{said}");
    let output = workspace.cargo_tracer(&["build", "--examples"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let example = workspace.built("debug", "examples/short");
    let run = Command::new(&example).env("TRACER_ENABLE", "1").output().expect("it runs");
    assert_eq!(text(&run.stdout), "2\n");
    assert_eq!(calls(&merged(&example)).entered.get("helper::doubled"), Some(&1));
}

#[test]
fn impossible_requests_are_reported() {
    let workspace = Workspace::new();
    let said = |words: &[&str]| {
        let output = workspace.cargo_tracer(words);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    // Messages begin with the command that the user has called.
    let unknown = said(&["check"]);
    assert!(
        unknown.starts_with("cargo tracer: error: 'check' is not build, run, test or bench"),
        "{unknown}"
    );
    let nowhere = said(&["run", "--manifest-path", "nowhere/Cargo.toml"]);
    assert!(nowhere.starts_with("cargo tracer: error: Cargo finds no workspace"), "{nowhere}");
    let none = workspace.cargo_tracer(&["run", "--include", "nowhere::*", "--", "3"]);
    assert_eq!(none.status.code(), Some(3));
    assert!(
        text(&none.stderr).contains("\ncargo tracer: nothing of 'target/tracer/"),
        "{}",
        text(&none.stderr)
    );
    assert!(said(&["run", "--include"]).starts_with("cargo tracer: error: --include needs "));
    assert!(
        said(&["build", "--target", "wasm32-unknown-unknown"])
            .contains("can be traced, not programs for wasm32")
    );
    assert!(said(&["build", "--manifest-path", "nowhere/Cargo.toml"]).contains("Cargo finds no workspace: "));
}

#[test]
fn a_program_with_dormant_hooks_is_traced_and_runs_without_the_library() {
    let workspace = Workspace::new();
    // With optimization, a function of another crate is inlined, and then has no room for hooks.
    let output = workspace.cargo_tracer(&["run", "--dormant"]);
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let counts = counted(&printed);
    assert!(counts.len() == 6, "{printed}");
    let place = workspace.place.path().join("target/tracer/dormant").join(env!("HOST_OF_TEST"));
    let program = place.join("debug/the-app");
    let calls = calls(&merged(&program));
    for (name, count) in &counts {
        assert_eq!(calls.entered.get(name), Some(count), "{name}: {:?}", calls.entered);
    }
    // In a shipped program nothing of the tracer is needed, and nothing is written.
    let shipped = TempDir::new().expect("a directory");
    let alone = shipped.path().join("the-app");
    fs::copy(&program, &alone).expect("a copy");
    let bytes = fs::read(&alone).expect("the program");
    assert!(!bytes.windows(9).any(|name| name == b"libtracer"), "it names the library");
    let run = Command::new(&alone).env("TRACER_ENABLE", "1").output().expect("it runs");
    assert!(run.status.success() && run.stderr.is_empty(), "{}", text(&run.stderr));
    assert_eq!(fs::read_dir(shipped.path()).expect("a directory").count(), 1);
}
