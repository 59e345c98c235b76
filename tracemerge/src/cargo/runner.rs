//! Runs the program that Cargo has built, with tracing on, and shows a view of its trace.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use object::{Object, ObjectSymbol};
use serde_json::Value;
use trace_format::wall::Wall;

use crate::cargo::FAILED;
use crate::cargo::arguments::ShownView;
use crate::cargo::configuration::variable;
use crate::cargo::listed::SECTION_OF_SLEDS;
use crate::cargo::wrapper;
use crate::command::preload::preload_if_hooked;
use crate::command::run::{CLOCK_TOLERANCE, exit_code};
use crate::file::map::Map;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::find_traces;
use crate::os::environment::{ENABLE, of_cargo, own_program, value_of, variables_with};
use crate::os::signals::Signals;
use crate::time::clocks::wall_clock;
use crate::ui::console::Stream;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};

/// The argument by which Cargo calls `cargo tracer` as its runner. After it come the view, the program and the
/// program's arguments.
pub(super) const WORD: &str = "runner";
/// The argument by which `cargo tracer` calls itself to show a view. After it come the view and the program.
pub(super) const VIEW: &str = "view";

/// The environment variable that holds the runner which the user has configured: its path and its arguments, as JSON.
pub(super) const CHAINED: &str = "CARGO_TRACER_RUNNER";
/// The prefix of the names of environment variables in which `cargo tracer` keeps the former values of Cargo's
/// variables that it has changed.
const REPLACED: &str = "CARGO_TRACER_REPLACED_";

/// Returns the setting that makes Cargo run the built program through this program, whose path is `own`. If `is_line`,
/// the value of the setting is one text, otherwise a list of words: Cargo refuses a value whose type differs from that
/// of the user's setting.
pub(super) fn setting(host: &str, own: &Path, show: &str, is_line: bool) -> String {
    let line = line(own, show);
    let value = if is_line { Value::from(line) } else { Value::from(line.split(' ').collect::<Vec<_>>()) };
    // A TOML string is a JSON string.
    format!("target.{host}.runner={value}")
}

/// Returns the value of the runner's setting as one text: words that contain no spaces, separated by spaces.
pub(super) fn line(own: &Path, show: &str) -> String {
    // Cargo splits a text at spaces.
    let is_plain = |path: &&str| !path.contains(|char: char| char.is_whitespace() || char.is_control());
    let own = own.to_str().filter(is_plain).map(str::to_owned);
    // This process runs for longer than Cargo, so this path remains valid for as long as Cargo needs it.
    let own = own.unwrap_or_else(|| format!("/proc/{}/exe", std::process::id()));
    [&own, "tracer", WORD, show].join(" ")
}

/// Sets Cargo's environment variable `name` to another value for `command`, and stores the former value for
/// [`restore_variables`].
pub(super) fn replace(command: &mut Command, name: &str, value: Option<&Path>) {
    if let Some(before) = value_of(name) {
        command.env(format!("{REPLACED}{name}"), before);
    }
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

/// Restores the former values of the variables that `cargo tracer` has changed, so that a program which calls Cargo
/// builds as usual.
fn restore_variables(command: &mut Command) {
    if of_cargo(wrapper::LIBRARY).is_none() {
        return;
    }
    for name in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOC"] {
        command.env_remove(name);
    }
    if let Some(host) = of_cargo(wrapper::TARGET) {
        command.env_remove(variable(&["target", &host.to_string_lossy(), "runner"]));
    }
    for (name, value) in variables_with("CARGO_TRACER_") {
        if let Some(replaced) = name.strip_prefix(REPLACED) {
            command.env(replaced, value);
        }
        command.env_remove(name);
    }
}

/// Runs a program, and then shows a view of its trace. `args` are the view, the program and the program's arguments.
/// Returns the program's exit status or, if that is 0, the exit status of showing the view. `tracemerge` is a function
/// that runs the command `tracemerge` with the given arguments.
pub(super) fn run(
    mut args: impl Iterator<Item = OsString>,
    tracemerge: impl FnOnce(Vec<OsString>) -> u8,
) -> u8 {
    let show = args.next().and_then(|word| ShownView::read(&word)).unwrap_or_default();
    let program = args.next().unwrap_or_default();
    let hooks = Hooks::of(Path::new(&program));
    let chained = chained_runner();
    let has_runner = chained.is_some();
    let (mut command, preloaded) = match chained {
        Some((runner, words)) => {
            let mut command = Command::new(runner);
            command.args(words);
            // The preloaded library is for one program, which it must be loaded into directly.
            if hooks == Hooks::Dormant {
                command.args(own_program()).args(["tracer", WORD, ShownView::Nothing.word()]);
            }
            command.arg(&program);
            (command, None)
        }
        None => {
            // Hooks that are called are in the library that the program is linked with. Dormant ones need the library
            // preloaded, which activates them.
            let mut command = Command::new(&program);
            let preloaded = preload_if_hooked(Path::new(&program), &mut command, &Messages::new(false));
            (command, preloaded)
        }
    };
    command.args(args);
    restore_variables(&mut command);
    if of_cargo(ENABLE).is_none() {
        command.env(ENABLE, "1");
    }
    let since = wall_clock(SystemTime::now() - CLOCK_TOLERANCE);
    let status = match Signals::take().run(&mut command) {
        Ok((_, status)) => status,
        Err(error) => {
            Messages::new(false).error(Error::io("run", Path::new(command.get_program()), error));
            return FAILED;
        }
    };
    drop(preloaded);
    let shown = match show {
        ShownView::Nothing => 0,
        _ if hooks == Hooks::None => {
            Messages::new(false).note(format_args!(
                "nothing of {} was traced: none of its functions has a hook. Check --include and --exclude: they \
                 choose functions by paths such as tracemerge report shows",
                shown(Path::new(&program))
            ));
            0
        }
        // The view would show the trace of an earlier process.
        _ if status.success() && !has_trace(Path::new(&program), since) => {
            let why = if has_runner {
                format!(
                    "either {ENABLE} is 0, or the runner that the configuration of Cargo names does not pass {ENABLE} on"
                )
            } else {
                format!("{ENABLE} is 0, or no function was called while tracing was on")
            };
            Messages::new(false)
                .note(format_args!("nothing of {} was traced: {why}", shown(Path::new(&program))));
            0
        }
        view if Stream::Output.is_terminal() => {
            tracemerge(["tracemerge", view.word()].iter().map(OsString::from).chain([program]).collect())
        }
        view => show_on_standard_error(view, &program),
    };
    match exit_code(status) {
        0 => shown,
        code => code,
    }
}

/// Returns whether a program has a trace of a process that began at `since` or later.
fn has_trace(program: &Path, since: Wall) -> bool {
    let app = App::new(program.to_owned());
    let found = app.and_then(|app| find_traces(&app, Choice::Newest, &mut Messages::silent()));
    found.is_ok_and(|found| {
        let mut traces = found.chosen.boots.iter().flatten();
        traces.any(|trace| trace.run.as_ref().is_none_or(|run| run.wall >= since))
    })
}

/// Returns the runner that the user has configured, and its arguments.
fn chained_runner() -> Option<(String, Vec<String>)> {
    let mut words: Vec<String> = serde_json::from_str(of_cargo(CHAINED)?.to_str()?).ok()?;
    (!words.is_empty()).then(|| (words.remove(0), words))
}

/// Shows a view of the trace of a program on standard error. Standard output may be a file or another program's input,
/// and belongs to the program.
fn show_on_standard_error(view: ShownView, program: &OsStr) -> u8 {
    let own = own_program().ok_or_else(|| Error::plain("cannot find the path of the running cargo-tracer"));
    let shown = own.and_then(|own| {
        let mut command = Command::new(&own);
        command.args(["tracer", VIEW, view.word()]).arg(program).stdout(io::stderr());
        command.status().map_err(|error| Error::io("run", &own, error))
    });
    match shown {
        Ok(status) => exit_code(status),
        Err(error) => {
            Messages::new(false).error(error);
            FAILED
        }
    }
}

/// The hooks that a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hooks {
    None,
    /// The program is linked with the tracer's library, and calls the hooks in it.
    Called,
    /// The program has room for hooks, and is not linked with the library.
    Dormant,
}

impl Hooks {
    /// Returns the hooks that a program has. A program that cannot be read is assumed to call hooks.
    fn of(program: &Path) -> Hooks {
        let Ok(file) = Map::open(program) else { return Hooks::Called };
        let Ok(object) = object::File::parse(&*file) else { return Hooks::Called };
        let is_hook = |symbol: object::Symbol<'_, '_>| symbol.name_bytes() == Ok(b"__tsan_func_entry");
        if object.dynamic_symbols().any(is_hook) {
            Hooks::Called
        } else if object.section_by_name(SECTION_OF_SLEDS).is_some() {
            Hooks::Dormant
        } else {
            Hooks::None
        }
    }
}
