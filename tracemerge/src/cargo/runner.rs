//! Runs the program that Cargo has built, with tracing on, and shows a view of its trace.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol};

use crate::cargo::FAILED;
use crate::cargo::arguments::ShownView;
use crate::cargo::listed::SECTION_OF_SLEDS;
use crate::command::preload::preload_if_hooked;
use crate::command::run::exit_code;
use crate::file::map::Map;
use crate::os::environment::{ENABLE, of_cargo, own_program};
use crate::os::signals::Signals;
use crate::ui::console::Stream;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};

/// The word before the program that Cargo runs.
pub const WORD: &str = "runner";
/// The word before a view and the program whose trace it shows.
pub const VIEW: &str = "view";

/// Returns the setting that makes Cargo run the built program through this program, `own`.
pub fn setting(host: &str, own: &Path, show: &str) -> Result<String, Error> {
    let own = own
        .to_str()
        .ok_or_else(|| Error::plain(format!("{} is not UTF-8, as Cargo requires", shown(own))))?;
    // A TOML string is a JSON string.
    let words: Vec<String> =
        [own, "tracer", WORD, show].iter().map(|word| serde_json::Value::from(*word).to_string()).collect();
    Ok(format!("target.{host}.runner=[{}]", words.join(",")))
}

/// Runs the program that `args` name after the requested view; returns its exit status. `tracemerge` runs that
/// command with the given arguments.
pub fn run(mut args: impl Iterator<Item = OsString>, tracemerge: impl FnOnce(Vec<OsString>) -> u8) -> u8 {
    let show = args.next().and_then(|word| ShownView::read(&word)).unwrap_or_default();
    let program = args.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(args);
    if of_cargo(ENABLE).is_none() {
        command.env(ENABLE, "1");
    }
    // Hooks that are called are in the library that the program is linked with. Dormant ones need the library
    // preloaded, which activates them.
    let preloaded = preload_if_hooked(Path::new(&program), &mut command, &Messages::new(false));
    let status = match Signals::take().run(&mut command) {
        Ok((_, status)) => status,
        Err(error) => {
            Messages::new(false).error(Error::io("run", Path::new(&program), error));
            return FAILED;
        }
    };
    drop(preloaded);
    let shown = match show {
        ShownView::Nothing => 0,
        _ if !has_hooks(Path::new(&program)) => {
            Messages::new(false).note(format_args!(
                "nothing of {} was traced: none of its functions has a hook. --include and --exclude choose functions by their paths, which tracemerge report shows",
                shown(Path::new(&program))
            ));
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

/// Shows a view of the trace of a program on standard error, because standard output is the program's: a file, or the
/// input of another program.
fn show_on_standard_error(view: ShownView, program: &OsStr) -> u8 {
    let own = own_program().ok_or_else(|| Error::plain("the path of this program is not known"));
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

/// Returns whether a program calls hooks or has room for them; true if the program cannot be read.
fn has_hooks(program: &Path) -> bool {
    let Ok(file) = Map::open(program) else { return true };
    let Ok(object) = object::File::parse(&*file) else { return true };
    let is_hook = |symbol: object::Symbol<'_, '_>| symbol.name_bytes() == Ok(b"__tsan_func_entry");
    object.dynamic_symbols().any(is_hook) || object.section_by_name(SECTION_OF_SLEDS).is_some()
}
