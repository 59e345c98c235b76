//! The arguments of `cargo tracer`. Unknown ones are passed on to Cargo.

use std::ffi::{OsStr, OsString};

use trace_format::patterns;

use crate::ui::error::Error;

/// The text of `cargo tracer --help`.
pub(super) const HELP: &str = "\
Builds Rust programs so that every function is traced, without a change of their source.

Usage: cargo tracer <build|run|test|bench> [OPTIONS] [ARGUMENTS OF CARGO] [-- ARGUMENTS OF THE PROGRAM]

  cargo tracer run --release -- input.txt   runs the program and reports where its time went
  tracemerge tree target/tracer/<target>/release/app   then shows its calls
  cargo tracer test my_test                 runs tests; each test executable has its trace beside it
  cargo tracer --list                       shows how this compiler makes hooks
  cargo tracer build --examples             only builds: TRACER_ENABLE=1 switches tracing on

Options:
      --deps               Trace dependencies from registries, too, not only the crates of the workspace
      --crate <NAME>       Trace this crate only; may be given several times
      --dormant            Leave only room for hooks: no library, no cost, until `tracemerge run` wakes them
      --leaf               Trace functions that call nothing, too: their hooks are written as the program starts
      --show <VIEW>        What `run` shows at the end: report, tree or nothing [default: report];
                           on standard error, unless standard output is a terminal
      --include <PATTERN>  Put hooks into functions of this path only; may be given several times
      --exclude <PATTERN>  Put none into functions of this path, even included ones; several times, too
  -h, --help               Print this

A pattern is a path, or its last segments, in which * stands for any characters: 'app::parser::*',
'parse*', 'Iterator::next'. A function without a hook costs no more than without tracing. Each
crate is compiled twice for that, first to list its functions. TRACER_FUNCTIONS takes the same
patterns when the program runs.

The functions are traced as compiled: one that is inlined everywhere is a part of its callers, and
one that calls nothing has no hook without --leaf. The build has a directory of its own,
target/tracer. Build scripts and procedural macros are built as usual, without hooks.
";

/// The task that the arguments of `cargo tracer` request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CargoTask {
    Help,
    /// Describe the hooks that the compiler can make. The arguments are for Cargo, and determine which compiler it
    /// uses.
    List(Vec<OsString>),
    Build(BuildRequest),
}

/// A build that the arguments of `cargo tracer` request, and perhaps a run of the built programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BuildRequest {
    /// The subcommand of Cargo: `build`, `run`, `test` or `bench`.
    pub command: String,
    /// Whether the dependencies of the workspace are traced, too.
    pub deps: bool,
    /// The crates that are traced; all of them if the list is empty.
    pub crates: Vec<String>,
    /// The patterns of functions that have hooks; all functions have hooks if the list is empty.
    pub include: Vec<String>,
    /// The patterns of functions that have no hooks, even if `include` matches them.
    pub exclude: Vec<String>,
    /// Whether functions get dormant hooks: only room for hooks, which are activated when the program is run with
    /// tracing.
    pub dormant: bool,
    /// Whether functions that call nothing are traced, too.
    pub leaf: bool,
    /// The view that is shown when the program has ended.
    pub show: ShownView,
    /// The other arguments, which are passed on to Cargo.
    pub rest: Vec<OsString>,
}

impl BuildRequest {
    /// Returns the patterns of functions that have hooks, in the syntax of `TRACER_FUNCTIONS`; an empty text if all
    /// functions have hooks.
    pub(super) fn functions(&self) -> String {
        // The last pattern that matches a function decides.
        let left_out = self.exclude.iter().map(|pattern| format!("-{pattern}"));
        self.include.iter().cloned().chain(left_out).collect::<Vec<_>>().join(",")
    }
}

/// The view of a trace that is shown when the program has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ShownView {
    #[default]
    Report,
    Tree,
    Nothing,
}

impl ShownView {
    /// Returns the value of `--show` that names this view.
    pub(super) fn word(self) -> &'static str {
        match self {
            ShownView::Report => "report",
            ShownView::Tree => "tree",
            ShownView::Nothing => "nothing",
        }
    }

    /// Returns the view that a value of `--show` names; `None` if there is no such view.
    pub(super) fn read(word: &OsStr) -> Option<ShownView> {
        [ShownView::Report, ShownView::Tree, ShownView::Nothing].into_iter().find(|show| word == show.word())
    }
}

/// Reads the arguments that follow `cargo tracer` on the command line.
pub(super) fn read(args: Vec<OsString>) -> Result<CargoTask, Error> {
    let mut args = args.into_iter();
    let Some(command) = args.next() else { return Ok(CargoTask::Help) };
    let command = command.to_string_lossy().into_owned();
    match command.as_str() {
        "-h" | "--help" | "help" => return Ok(CargoTask::Help),
        "--list" => return Ok(CargoTask::List(args.collect())),
        "build" | "b" | "run" | "r" | "test" | "t" | "bench" => {}
        _ => {
            let what = format!("'{command}' is not build, run, test or bench. See cargo tracer --help");
            return Err(Error::plain(what));
        }
    }
    let command = ["build", "run", "test", "bench"]
        .into_iter()
        .find(|name| name.starts_with(&command))
        .unwrap_or("build");
    let mut request = BuildRequest { command: command.into(), ..BuildRequest::default() };
    while let Some(word) = args.next() {
        let text = word.to_string_lossy().into_owned();
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option, Some(OsString::from(value))),
            None => (text.as_str(), None),
        };
        let mut value = |what: &str| {
            let given = value.clone().or_else(|| args.next());
            given.ok_or_else(|| Error::plain(format!("{option} needs {what} after it")))
        };
        match option {
            "-h" | "--help" => return Ok(CargoTask::Help),
            "--deps" => request.deps = true,
            "--dormant" => request.dormant = true,
            "--leaf" => request.leaf = true,
            "--crate" => {
                request.crates.push(value("the name of a crate")?.to_string_lossy().replace('-', "_"))
            }
            "--include" => request.include.extend(paths(option, &value(PATTERN)?)?),
            "--exclude" => request.exclude.extend(paths(option, &value(PATTERN)?)?),
            "--show" => {
                let word = value("report, tree or nothing")?;
                let unknown = || Error::plain(format!("--show {word:?}: expected report, tree or nothing"));
                request.show = ShownView::read(&word).ok_or_else(unknown)?;
            }
            "--" => {
                request.rest.push(word);
                request.rest.extend(args);
                break;
            }
            _ => request.rest.push(word),
        }
    }
    Ok(CargoTask::Build(request))
}

/// The text by which error messages name the expected value of `--include` and `--exclude`.
const PATTERN: &str = "the path of a function";

/// Reads `word`, the value of `option`: patterns of the paths of functions, separated by commas.
fn paths(option: &str, word: &OsStr) -> Result<Vec<String>, Error> {
    let text = word.to_string_lossy();
    let paths: Vec<String> = patterns::texts(&text).map(str::to_owned).collect();
    if paths.is_empty() || paths.iter().any(|path| path.starts_with('-')) {
        return Err(Error::plain(format!("{option} {text:?}: expected {PATTERN}, such as app::parser::*")));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<CargoTask, String> {
        read(words.iter().map(OsString::from).collect()).map_err(|error| error.to_string())
    }

    fn build(words: &[&str]) -> BuildRequest {
        match of(words) {
            Ok(CargoTask::Build(request)) => request,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn unknown_options_are_passed_to_cargo() {
        let request =
            build(&["run", "--release", "--deps", "--crate", "my-crate", "--bin", "x", "--", "--deps", "-h"]);
        assert!(request.deps);
        assert_eq!(request.crates, ["my_crate"]);
        assert_eq!(request.rest, ["--release", "--bin", "x", "--", "--deps", "-h"]);
        assert_eq!(["t", "b", "bench"].map(|word| build(&[word]).command), ["test", "build", "bench"]);
        assert_eq!(build(&["build", "--show=tree", "--crate=a", "--crate=b"]).crates, ["a", "b"]);
    }

    #[test]
    fn exclusions_override_inclusions() {
        let words =
            ["run", "--exclude", "app::net::*,Map<K, V>::get", "--include=app::*", "--include", "parse*"];
        assert_eq!(build(&words).functions(), "app::*,parse*,-app::net::*,-Map<K, V>::get");
        assert_eq!(build(&["run"]).functions(), "");
        let expected = "expected the path of a function, such as app::parser::*";
        assert!(
            of(&["run", "--include", "-x"]).unwrap_err().contains(&format!("--include \"-x\": {expected}"))
        );
        assert!(of(&["run", "--exclude="]).unwrap_err().contains(&format!("--exclude \"\": {expected}")));
    }

    #[test]
    fn errors_name_the_valid_arguments() {
        assert_eq!(of(&["--help"]), Ok(CargoTask::Help));
        assert_eq!(of(&["run", "-h"]), Ok(CargoTask::Help));
        assert!(of(&["check"]).unwrap_err().contains("is not build, run, test or bench"));
        assert!(of(&["run", "--show", "x"]).unwrap_err().contains("expected report, tree or nothing"));
        assert!(of(&["run", "--crate"]).unwrap_err().contains("--crate needs the name of a crate"));
    }
}
