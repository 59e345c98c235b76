//! `cargo tracer` in projects as people have them: with a configuration of Cargo, in directories of any name, and with
//! other programs around the compiler and the traced program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::programs::in_part;
use tempfile::TempDir;

use crate::compiled::{installed, tracemerge};
use crate::rust::{forget_cargo, text};

const HOST: &str = env!("HOST_OF_TEST");

/// Characters that a shell, a linker, LLVM, TOML or a list of libraries treats in a special way.
const ODD: &str = "a b, c'd \"e\" {f} é";

const FILES: [(&str, &str); 9] = [
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\", \"dep\"]\ndefault-members = [\"app\"]\nresolver = \"2\"\n\
         [profile.shipped]\ninherits = \"release\"\nlto = \"fat\"\nstrip = true\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n\
         dep = { path = \"../dep\" }\n[[bench]]\nname = \"fast\"\nharness = false\n",
    ),
    (
        "app/src/main.rs",
        "fn main() {
    for name in [\"APP_HOME\", \"RUSTC_WRAPPER\", \"RUSTDOC\", \"CARGO_TRACER_LIBRARY\"] {
        println!(\"{name}={}\", std::env::var(name).unwrap_or_default());
    }
    println!(\"arguments: {:?}\", std::env::args().skip(1).collect::<Vec<_>>());
    println!(\"flagged: {}, unwinds: {}\", cfg!(flagged), cfg!(panic = \"unwind\"));
    dep::loud(3);
}
#[test]
fn in_a_test() { assert_eq!(dep::loud(3), 7); assert_eq!(std::env::var(\"APP_HOME\").unwrap_or_default(), \"\"); }
",
    ),
    ("app/examples/short.rs", "fn main() { dep::loud(1); }\n"),
    ("app/benches/fast.rs", "fn main() { dep::loud(2); }\n"),
    ("dep/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    (
        "dep/src/lib.rs",
        "#[inline(never)]
pub fn quiet(n: u64) -> u64 { (0..n).map(std::hint::black_box).collect::<Vec<_>>().len() as u64 }
#[inline(never)]
pub fn loud(n: u64) -> u64 { quiet(n) + quiet(n + 1) }
",
    ),
    ("with-home", "#!/bin/sh\necho \"runner: $#\"\nif [ \"$1\" = 'a b' ]; then shift; fi\nAPP_HOME=/opt/app exec \"$@\"\n"),
    ("wrapper", "#!/bin/sh\necho \"$*\" >> \"${0%/*}/wrapped\"\nexec \"$@\"\n"),
];

/// A workspace with two packages, and a directory in which its traces are.
struct Project {
    place: TempDir,
    root: PathBuf,
    prefix: PathBuf,
    variables: Vec<(String, OsString)>,
}

/// The output and the status of a command.
struct Ran {
    printed: String,
    said: String,
    /// The number of calls of each function whose line in the source is known.
    calls: BTreeMap<String, u64>,
}

impl Project {
    /// Makes the workspace in a directory of this name.
    fn new(name: &str) -> Project {
        let place = TempDir::new().expect("a directory");
        let root = place.path().join(name);
        for (path, text) in FILES {
            write(&root.join(path), text);
        }
        for program in ["with-home", "wrapper"] {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join(program), mode).expect("a file of ours");
        }
        Project { place, root, prefix: installed().to_owned(), variables: Vec::new() }
    }

    /// Replaces the configuration of the workspace.
    fn configure(&self, text: &str) {
        write(&self.root.join(".cargo/config.toml"), text);
    }

    /// Sets a variable for the following commands.
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Runs `cargo tracer` with these words, which must succeed.
    fn run(&self, words: &[&str]) -> Ran {
        self.run_in(&self.root, words)
    }

    fn run_in(&self, directory: &Path, words: &[&str]) -> Ran {
        let traces = TempDir::new_in(self.place.path()).expect("a directory");
        let program = self.prefix.join("bin/cargo-tracer");
        let mut command = self.command(&program, &[&["tracer"], words].concat(), traces.path());
        let output = command.current_dir(directory).output().expect("it runs");
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {said}\n{printed}");
        Ran { calls: calls_in(traces.path()), printed, said }
    }

    /// Returns a command in the workspace, with the variables of the project and this directory of traces.
    fn command(&self, program: impl AsRef<OsStr>, words: &[&str], traces: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.root);
        forget_cargo(&mut command);
        command.env("TRACER_DIR", traces).env("CARGO_NET_OFFLINE", "true");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the program that was built last.
    fn newest_program(&self) -> PathBuf {
        let mut programs = Vec::new();
        find(self.place.path(), &mut |path| {
            let is_program = path.ends_with("debug/app") && path.is_file();
            if is_program {
                programs.push((
                    fs::metadata(path).and_then(|data| data.modified()).expect("a time"),
                    path.to_owned(),
                ));
            }
        });
        programs.sort();
        programs.pop().expect("a program").1
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

fn find(directory: &Path, found: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            find(&path, found);
        } else {
            found(&path);
        }
    }
}

/// Returns the calls of `app` and `dep` in the traces of a directory.
fn calls_in(traces: &Path) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    let mut programs: Vec<String> = Vec::new();
    find(traces, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        programs.extend(name.split_once(".trace.").map(|(program, _)| program.to_owned()));
    });
    programs.sort();
    programs.dedup();
    for program in programs {
        let mut command = tracemerge(traces);
        command.args(["report", "--rows", "all"]).arg(traces.join(program));
        let output = command.output().expect("it runs");
        for row in text(&output.stdout).lines() {
            let Some((before, _)) = row.rsplit_once("  (") else { continue };
            let name = before.rsplit("  ").next().unwrap_or_default();
            if name.starts_with("app::") || name.starts_with("dep::") {
                let count = row.split_whitespace().next().and_then(|count| count.parse().ok());
                calls.insert(name.to_owned(), count.expect("a count"));
            }
        }
    }
    calls
}

/// Returns the expected number of calls of each function of `app` and `dep`, without the function `left_out`.
fn all_but(left_out: &str) -> BTreeMap<String, u64> {
    let all = [("app::main", 1), ("dep::loud", 1), ("dep::quiet", 2)];
    let named = all.iter().filter(|(name, _)| *name != left_out);
    named.map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// Returns the calls of functions that are not closures or tests.
fn of_program(ran: &Ran) -> BTreeMap<String, u64> {
    let named = ran.calls.iter().filter(|(name, _)| !name.contains('{'));
    named.map(|(name, count)| (name.clone(), *count)).collect()
}

const RUNNER: &str = "\"./with-home\"";

#[test]
fn a_runner_of_each_form_starts_the_traced_program() {
    let mut project = Project::new(ODD);
    let other = format!("target.{HOST}.runner = {RUNNER}");
    write(&project.root.join(".cargo/other.toml"), &other);
    let option = format!("target.{HOST}.runner=[\"./with-home\", \"a b\"]");
    let forms: [(&str, String, &[&str]); 11] = [
        ("a text", format!("[target.{HOST}]\nrunner = {RUNNER}"), &[]),
        ("a text with arguments", format!("[target.{HOST}]\nrunner = \"./with-home env X=1\""), &[]),
        ("a list", format!("[target.{HOST}]\nrunner = [{RUNNER}, \"a b\"]"), &[]),
        ("a condition", format!("[target.'cfg(unix)']\nrunner = {RUNNER}"), &[]),
        (
            "a condition and a list",
            format!("[target.'cfg(all(target_os = \"linux\"))']\nrunner = [{RUNNER}]"),
            &[],
        ),
        (
            "a condition among others",
            format!(
                "[target.'cfg(windows)']\nrunner = \"none\"\n[target.\"cfg(not(windows))\"]\nrunner = {RUNNER}"
            ),
            &[],
        ),
        (
            "a target before a condition",
            format!("[target.'cfg(unix)']\nrunner = \"none\"\n[target.{HOST}]\nrunner = {RUNNER}"),
            &[],
        ),
        ("an option", String::new(), &["--config", &option]),
        ("an option over a file", format!("target.{HOST}.runner = [\"none\"]"), &["--config", &option]),
        ("an option that names a file", String::new(), &["--config", ".cargo/other.toml"]),
        ("no form", String::new(), &[]),
    ];
    for (form, configuration, options) in &forms {
        project.configure(configuration);
        let ran = project.run(&[&["run", "--show", "nothing"], *options, &["--", "x y"]].concat());
        let is_run = *form != "no form";
        assert_eq!(ran.printed.contains("runner: "), is_run, "{form}: {}", ran.printed);
        assert!(ran.printed.contains(if is_run { "APP_HOME=/opt/app" } else { "APP_HOME=\n" }), "{form}");
        assert!(ran.printed.contains("arguments: [\"x y\"]"), "{form}: {}", ran.printed);
        assert_eq!(of_program(&ran), all_but(""), "{form}");
    }
    // Cargo 1.95 treats such a list differently from run to run.
    project.configure(&format!("{}\n[profile.dev]\ndebug = 1", forms[2].1));
    for _ in 0..6 {
        let ran = project.run(&["run", "--show", "nothing", "--", "x y"]);
        assert!(ran.printed.starts_with("runner: 3\n"), "{}", ran.printed);
        assert_eq!(ran.printed.matches("runner: ").count(), 1, "{}", ran.printed);
    }
    // A variable names a path relative to the current directory, or a program in `PATH`.
    project.configure(&forms[2].1.replace("./with-home", "none"));
    let name = format!("CARGO_TARGET_{}_RUNNER", HOST.replace('-', "_").to_uppercase());
    project.set(&name, "./with-home");
    let ran = project.run(&["run", "--show", "nothing"]);
    assert!(ran.printed.contains("APP_HOME=/opt/app"), "{}", ran.printed);
    let mut path = project.root.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    project.set("PATH", path);
    project.set(&name, "with-home");
    // The dormant hooks of the program are woken, not those of the runner.
    for words in [&["run"][..], &["run", "--dormant"], &["run", "--leaf"]] {
        let ran = project.run(words);
        assert!(ran.printed.contains("APP_HOME=/opt/app"), "{words:?}: {}", ran.printed);
        assert_eq!(of_program(&ran), all_but(""), "{words:?}");
        assert!(ran.said.contains("dep::quiet"), "{words:?}: {}", ran.said);
    }
    // The trace of an earlier process is not shown if this one has none.
    let kept = project.place.path().join("kept");
    fs::create_dir(&kept).expect("a directory");
    project.set("TRACER_DIR", kept);
    let ran = project.run(&["run"]);
    assert!(ran.said.contains("dep::quiet"), "{}", ran.said);
    // An earlier process began more than a second before, by which clocks may differ.
    std::thread::sleep(std::time::Duration::from_secs(2));
    project.set(&name, "env -u TRACER_ENABLE");
    let ran = project.run(&["run"]);
    assert!(ran.said.contains("does not pass TRACER_ENABLE on"), "{}", ran.said);
    assert!(!ran.said.contains("dep::quiet"), "{}", ran.said);
    project.configure("");
    project.variables.retain(|(variable, _)| *variable != name);
    project.set("TRACER_ENABLE", "0");
    let ran = project.run(&["run"]);
    assert!(ran.said.contains("TRACER_ENABLE is 0, or no function was called"), "{}", ran.said);
    assert!(!ran.said.contains("dep::quiet"), "{}", ran.said);
}

/// A case for the test below: a name for the place where Cargo builds, a configuration of Cargo, options and variables.
type Place = (&'static str, &'static str, &'static [&'static str], &'static [(&'static str, &'static str)]);

#[test]
fn each_choice_of_functions_has_its_own_build_wherever_cargo_builds() {
    let places: [Place; 7] = [
        ("Cargo's place", "", &[], &[]),
        ("a directory of the configuration", "[build]\ntarget-dir = \"made\"", &[], &[]),
        ("a directory of an option", "", &["--target-dir", "made here"], &[]),
        ("a directory of a variable", "", &["--target-dir=over"], &[("CARGO_TARGET_DIR", "made")]),
        ("a build directory", "[build]\nbuild-dir = \"between\"", &[], &[]),
        ("a build directory of a variable", "", &[], &[("CARGO_BUILD_BUILD_DIR", "between")]),
        (
            "a build directory of a template, and another one",
            "[build]\ntarget-dir = \"made\"\nbuild-dir = \"{workspace-root}/between/{workspace-path-hash}\"",
            &["--config", "build.jobs=2"],
            &[],
        ),
    ];
    for (place, configuration, options, variables) in places {
        let mut project = Project::new("plain");
        project.configure(configuration);
        for (name, value) in variables {
            project.set(name, *value);
        }
        let run = |words: &[&str]| project.run(&[&["run", "--show", "nothing"], words, options].concat());
        let choices: [(&[&str], &str); 3] =
            [(&[], ""), (&["--exclude", "dep::quiet"], "dep::quiet"), (&["--dormant"], "")];
        for is_again in [false, true] {
            for (words, left_out) in choices {
                let ran = run(words);
                assert_eq!(of_program(&ran), all_but(left_out), "{place}: {words:?}");
                assert_eq!(ran.said.contains("Compiling"), !is_again, "{place}: {words:?}: {}", ran.said);
                let needs = fs::read(project.newest_program()).expect("the program");
                let needs = needs.windows(9).any(|name| name == b"libtracer");
                assert!(is_again || needs == (words != ["--dormant"]), "{place}: {words:?}");
            }
        }
    }
}

#[test]
fn any_path_can_be_that_of_a_project_a_temporary_file_a_home_and_an_installation() {
    let mut project = Project::new(ODD);
    project.prefix = project.place.path().join(format!("$ORIGIN:installed {ODD}"));
    for file in ["bin/tracemerge", "bin/cargo-tracer", "lib/libtracer.so.0"] {
        let to = project.prefix.join(file);
        fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
        fs::copy(installed().join(file), to).expect("a copy");
    }
    let home = std::env::var_os("HOME").unwrap_or_default();
    let rustup = std::env::var_os("RUSTUP_HOME").unwrap_or_else(|| Path::new(&home).join(".rustup").into());
    project.set("RUSTUP_HOME", rustup);
    for name in ["TMPDIR", "HOME", "CARGO_HOME"] {
        let directory = project.place.path().join(format!("{name} {ODD}"));
        fs::create_dir(&directory).expect("a directory");
        project.set(name, directory);
    }
    for configuration in [
        format!("[target.{HOST}]\nrunner = {RUNNER}"),
        format!("[target.{HOST}]\nrunner = [{RUNNER}]\n[build]\nbuild-dir = \"between {ODD}\"")
            .replace(ODD, "é, '"),
    ] {
        project.configure(&configuration);
        for (words, left_out) in [
            (&["run"][..], ""),
            (&["run", "--exclude", "dep::quiet"], "dep::quiet"),
            (&["run", "--leaf"], ""),
            (&["run", "--dormant"], ""),
        ] {
            let ran = project.run(words);
            assert_eq!(of_program(&ran), all_but(left_out), "{words:?}: {}", ran.said);
            assert!(ran.printed.contains("APP_HOME=/opt/app"), "{words:?}: {}", ran.printed);
        }
    }
    // Compilers use another directory if that of the variable is missing.
    project.set("TMPDIR", project.place.path().join("missing"));
    let ran = project.run(&["run", "--exclude", "dep::quiet"]);
    assert_eq!(of_program(&ran), all_but("dep::quiet"), "{}", ran.said);
}

#[test]
fn a_cargo_that_does_not_show_its_configuration_builds_with_hooks() {
    let mut project = Project::new("plain");
    let cargo = project.place.path().join("cargo");
    write(
        &cargo,
        "#!/bin/sh\n[ \"$1\" = config ] && { echo 'error: no such command: `config`' >&2; exit 101; }\nexec cargo \"$@\"\n",
    );
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    project.set("CARGO", cargo);
    let runner = format!("CARGO_TARGET_{}_RUNNER", HOST.replace('-', "_").to_uppercase());
    project.set(&runner, project.root.join("with-home"));
    let ran = project.run(&["run"]);
    assert_eq!(of_program(&ran), all_but(""), "{}", ran.said);
    assert!(ran.printed.contains("APP_HOME=/opt/app"), "{}", ran.printed);
    let note = "cannot read the configuration files of Cargo, so the runners and compiler wrappers in them are not used, only those of environment variables: cargo config get failed: error: no such command: `config`";
    assert!(ran.said.contains(note), "{}", ran.said);
}

#[test]
fn a_compiler_that_leaves_room_for_hooks_itself_does_it_for_dormant_hooks() {
    let mut project = Project::new("plain");
    project.configure("[build]\nrustc-wrapper = \"./wrapper\"");
    // A stable compiler has the flags of nightly ones if this is set.
    project.set("RUSTC_BOOTSTRAP", "1");
    let listed = project.run(&["--list"]).printed;
    let flag_of = |what: &str| listed.lines().find_map(|line| line.strip_prefix(what)).map(str::trim);
    assert_eq!(flag_of("--dormant "), Some("-Zinstrument-xray=always (the compiler's own)"), "{listed}");
    assert!(flag_of("always ").is_some_and(|flags| flags.starts_with("-Cpasses=tsan ")), "{listed}");
    for (words, left_out, is_own) in [
        (&["run", "--dormant"][..], "", true),
        (&["run", "--dormant", "--exclude", "dep::quiet"], "dep::quiet", false),
    ] {
        let ran = project.run(words);
        assert_eq!(of_program(&ran), all_but(left_out), "{words:?}: {}", ran.said);
        let lines = fs::read_to_string(project.root.join("wrapped")).expect("the calls of the compiler");
        fs::remove_file(project.root.join("wrapped")).expect("a file");
        let of_dep: Vec<_> = lines.lines().filter(|line| line.contains("--crate-name dep ")).collect();
        // Without a list of functions, one call of the compiler is enough.
        assert_eq!(of_dep.len() == 1, is_own, "{words:?}: {of_dep:?}");
        assert_eq!(lines.contains("-Zinstrument-xray"), is_own, "{words:?}: {lines}");
        assert_eq!(lines.contains("forceattrs"), !is_own, "{words:?}: {lines}");
    }
}

#[test]
fn settings_of_the_workspace_and_of_cargo_do_not_prevent_traces() {
    let project = Project::new("plain");
    let manifest = project.root.join("Cargo.toml").display().to_string();
    let elsewhere = TempDir::new().expect("a directory");
    let ran = project.run_in(elsewhere.path(), &["run", "--manifest-path", &manifest]);
    assert_eq!(of_program(&ran), all_but(""));
    let ran = project.run_in(&project.root.join("app"), &["run", "--manifest-path=../app/Cargo.toml"]);
    assert_eq!(of_program(&ran), all_but(""));
    for (configuration, words) in [
        ("[profile.release]\nlto = true\n[profile.dev]\nlto = false", &["run", "--release"][..]),
        ("[profile.shipped]\nlto = \"thin\"\nstrip = \"symbols\"", &["run", "--profile", "shipped"]),
        ("[build]\nrustflags = [\"-Csplit-debuginfo=packed\", \"-g\"]", &["run"]),
        (
            "[build]\nrustflags = \"-Csplit-debuginfo=unpacked -Cstrip=symbols\"",
            &["run", "--exclude", "none"],
        ),
        ("[unstable]\nbuild-dir = true\n[alias]\nr = \"run\"", &["run", "-p", "app", "--bin", "app"]),
        ("[build]\nrustflags = [\"-C\", \"target-feature=+crt-static\"]", &["run", "--release"]),
        ("[env]\nAPP_HOME = \"/opt/app\"\n[build]\ntarget = \"HOST\"", &["run", "--target", "HOST"]),
        ("[build]\ntarget = \"HOST\"", &["run", "--config", "profile.dev.lto=true"]),
    ] {
        project.configure(&configuration.replace("HOST", HOST));
        let words: Vec<&str> = words.iter().map(|word| if *word == "HOST" { HOST } else { word }).collect();
        let ran = project.run(&words);
        assert_eq!(of_program(&ran), all_but(""), "{configuration}: {}", ran.said);
    }
}

#[test]
fn settings_in_any_place_that_cargo_reads_are_those_of_a_traced_build() {
    let mut project = Project::new("above/plain");
    // All builds share the tests of the compiler.
    project.set("CARGO_TARGET_DIR", project.place.path().join("made"));
    let with_home = project.root.join("with-home");
    fs::copy(&with_home, project.root.join("../with-home")).expect("a copy");
    let flags = "rustflags = [\"--cfg\", \"flagged\"]";
    let runner = format!("[target.{HOST}]\nrunner = {RUNNER}\n");
    let both = format!("{runner}{flags}\n");
    let none = format!("{runner}rustflags = [\"-Cnone\"]");
    let (usual, above, old) = (".cargo/config.toml", "../.cargo/config.toml", ".cargo/config");
    let aborting = "[profile.dev]\npanic = \"abort\"\n[profile.release]\npanic = \"abort\"";
    // The file, its content, and a variable of the environment.
    let rows = [
        (usual, format!("[build]\n{flags}"), None),
        (usual, both.clone(), None),
        (usual, format!("{runner}[target.'cfg(unix)']\nrustflags = \"--cfg flagged\""), None),
        (usual, none.clone(), Some(("RUSTFLAGS", "--cfg flagged -Ccodegen-units=4"))),
        (usual, none, Some(("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}flagged"))),
        (usual, format!("{both}{aborting}"), None),
        (above, both.clone(), None),
        (old, both.clone(), None),
        ("settings/more.toml", both, None),
    ];
    for (path, configuration, variable) in rows {
        let file = project.root.join(path);
        write(&file, &configuration);
        if path.starts_with("settings") {
            project.configure("include = [\"../settings/more.toml\"]");
        }
        let row = format!("{path}: {configuration} {variable:?}");
        project.variables.truncate(1);
        project.variables.extend(variable.map(|(name, value)| (name.to_owned(), value.into())));
        let untraced = project.command("cargo", &["run", "--quiet"], project.place.path());
        // If hooks are dormant, the runner starts another program, which starts this one.
        let without_count = |printed: &str| -> Vec<String> {
            printed.lines().filter(|line| !line.starts_with("runner: ")).map(str::to_owned).collect()
        };
        let untraced = text(&{ untraced }.output().expect("it runs").stdout);
        if path.starts_with("settings") && !untraced.contains("flagged: true") {
            in_part("included files: this version of Cargo does not read them");
        } else {
            assert!(untraced.contains("flagged: true"), "{row}: {untraced}");
        }
        for (words, left_out) in [
            (&["run"][..], ""),
            (&["run", "--dormant"], ""),
            (&["run", "--release", "--exclude", "dep::quiet"], "dep::quiet"),
        ] {
            let ran = project.run(&[words, &["--show", "nothing"]].concat());
            assert_eq!(of_program(&ran), all_but(left_out), "{row} {words:?}: {}", ran.said);
            assert_eq!(
                without_count(&ran.printed),
                without_count(&untraced),
                "{row} {words:?}: {}",
                ran.said
            );
        }
        fs::remove_file(file).expect("a file");
    }
}

#[test]
fn messages_in_json_are_those_of_cargo_and_name_the_traced_program() {
    let project = Project::new("plain");
    let reasons = |printed: &str| -> Vec<String> {
        let reasons =
            printed.lines().filter_map(|line| line.strip_prefix("{\"reason\":\"")?.split('"').next());
        reasons.map(str::to_owned).collect()
    };
    let words = ["build", "--message-format", "json"];
    let untraced = project.command("cargo", &words, project.place.path()).output().expect("it runs");
    let expected = reasons(&text(&untraced.stdout));
    assert!(expected.contains(&"compiler-artifact".to_owned()), "{untraced:?}");
    let printed = project.run(&words).printed;
    assert_eq!(reasons(&printed), expected, "{printed}");
    assert_eq!(printed.lines().count(), expected.len(), "{printed}");
    let program = printed.split("\"executable\":\"").nth(1).and_then(|rest| rest.split('"').next());
    assert_eq!(program.map(Path::new), Some(&*project.newest_program()), "{printed}");
    // The lines of the program are behind those of Cargo.
    let ran = project.run(&["run", "--message-format=json"]);
    assert_eq!(reasons(&ran.printed), expected, "{}", ran.printed);
    assert!(ran.printed.contains("\narguments: []\n"), "{}", ran.printed);
    assert_eq!(of_program(&ran), all_but(""), "{}", ran.said);
}

#[test]
fn a_program_with_a_sanitizer_of_rust_is_traced_or_refused() {
    let mut project = Project::new("plain");
    // A stable compiler has the flags of nightly ones if this is set.
    project.set("RUSTC_BOOTSTRAP", "1");
    project.set("RUSTFLAGS", "");
    for sanitizer in ["address", "leak"] {
        project.variables.pop();
        project.set("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
        for words in [&["run"][..], &["run", "--dormant"]] {
            let ran = project.run(words);
            assert_eq!(of_program(&ran), all_but(""), "{sanitizer} {words:?}: {}", ran.said);
            assert!(!ran.said.contains("Sanitizer"), "{sanitizer} {words:?}: {}", ran.said);
        }
    }
    for (sanitizer, why) in [
        (
            "thread",
            "the hooks of ThreadSanitizer have the same names as those of cargo tracer. Add --dormant",
        ),
        ("memory", "MemorySanitizer would report false errors"),
    ] {
        project.variables.pop();
        project.set("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
        let program = project.prefix.join("bin/cargo-tracer");
        let mut command = project.command(&program, &["tracer", "run"], project.place.path());
        let output = command.output().expect("it runs");
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{sanitizer}: {said}");
    }
}

#[test]
fn a_wrapper_of_the_compiler_gets_the_arguments_for_hooks() {
    let mut project = Project::new(ODD);
    let wrapped = |project: &Project| {
        let wrapped = project.root.join("wrapped");
        let lines = fs::read_to_string(&wrapped).unwrap_or_default();
        fs::write(&wrapped, "").expect("a file");
        let of_dep = lines.lines().filter(|line| line.contains("--crate-name dep "));
        of_dep.map(str::to_owned).collect::<Vec<_>>()
    };
    for (setting, target) in [("rustc-wrapper", "one"), ("rustc-workspace-wrapper", "other")] {
        project.configure(&format!("[build]\n{setting} = \"./wrapper\""));
        let ran = project.run(&["run", "--target-dir", target]);
        assert_eq!(of_program(&ran), all_but(""), "{setting}");
        let lines = wrapped(&project);
        // A cache of compiled crates would take a crate with hooks for one without them otherwise.
        assert!(lines.len() == 1 && lines[0].contains("-Cpasses=tsan"), "{setting}: {lines:?}");
    }
    // An empty variable means that there is no wrapper, and the program has the variables of its user.
    project.configure("[build]\nrustc-wrapper = \"none\"");
    project.set("RUSTC_WRAPPER", "");
    project.set("RUSTDOC", "rustdoc");
    let ran = project.run(&["run", "--deps"]);
    assert_eq!(of_program(&ran), all_but(""));
    let variables = "RUSTC_WRAPPER=\nRUSTDOC=rustdoc\nCARGO_TRACER_LIBRARY=\n";
    assert!(ran.printed.contains(variables), "{}", ran.printed);
    project.set("RUSTC_WRAPPER", project.root.join("wrapper"));
    let ran = project.run(&["run", "--exclude", "dep::quiet"]);
    assert_eq!(of_program(&ran), all_but("dep::quiet"));
    let variable = format!("RUSTC_WRAPPER={}\n", project.root.join("wrapper").display());
    assert!(ran.printed.contains(&variable), "{}", ran.printed);
    assert!(wrapped(&project).iter().any(|line| line.contains("forceattrs")));
}

#[test]
fn tests_benches_and_examples_are_traced() {
    let project = Project::new("plain");
    let traced = |words: &[&str], calls: &[(&str, u64)]| {
        let ran = project.run(words);
        for (name, count) in calls {
            assert_eq!(ran.calls.get(*name), Some(count), "{words:?}: {:?}", ran.calls);
        }
        ran
    };
    let dep = [("dep::loud", 1), ("dep::quiet", 2)];
    let ran = traced(&["test"], &dep);
    assert!(ran.printed.contains("test in_a_test ... ok"), "{}", ran.printed);
    traced(&["test", "-p", "app", "--release", "in_a_test"], &dep);
    traced(&["bench"], &dep);
    let ran = traced(&["run", "--example", "short"], &dep);
    assert!(ran.said.contains("dep::quiet"), "{}", ran.said);
    let ran = traced(&["build", "--benches"], &[]);
    let built: Vec<&str> =
        ran.said.lines().skip_while(|line| *line != "cargo tracer: built").skip(1).collect();
    let in_place = |line: &&&str| line.contains("/target/tracer/") && line.contains("/debug/");
    assert_eq!((built.iter().filter(in_place).count(), built.len()), (3, 3), "{}", ran.said);
}
