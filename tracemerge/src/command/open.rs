//! The subcommand `open`: writes traces in the format of an installed viewer, and starts the viewer.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::command::merge::{self, Job};
use crate::command::run::{exit_code, find_in_path};
use crate::command::tui;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::os::environment::{OPEN, has_display, viewer};
use crate::os::signals::{Signals, keep_interrupts_from_this_process};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};
use crate::view::calls::Depth;
use crate::view::export::format::{FORMATS, OutputFormat};
use crate::view::export::show::ShowLayout;
use crate::view::export::time_column::TimeMode;
use crate::view::export::{chrome, csv, flamegraph, html, jsonl, perfetto, speedscope, uftrace};
use crate::view::layout::Destination;
use crate::view::request::Request;
use crate::view::select::Amount;

/// The file that is written for a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The merged lines as text, with times of the day in UTC.
    Text,
    /// The records in an output format for other programs.
    Format(&'static OutputFormat),
}

impl Written {
    /// Returns what is written if the user names the format `name`; `None` if there is no such format.
    fn named(name: &str) -> Option<Written> {
        if name == TEXT {
            return Some(Written::Text);
        }
        FORMATS.into_iter().find(|format| format.name == name).map(Written::Format)
    }

    /// Returns whether this command was built with support for the format.
    fn can_be_written(self) -> bool {
        !matches!(self, Written::Format(OutputFormat { make: None, .. }))
    }

    fn name(self) -> &'static str {
        match self {
            Written::Text => TEXT,
            Written::Format(format) => format.name,
        }
    }

    /// Returns the default path of the file to write. `merged` is the default path for merged lines.
    fn path(self, merged: &Path) -> PathBuf {
        match self {
            Written::Text => merged.with_extension(TEXT_EXTENSION),
            Written::Format(format) => merge::default_path(Destination::Exported(format), merged),
        }
    }
}

/// The word for [`Written::Text`] in the user's configuration.
const TEXT: &str = "text";
/// The extension of the file with merged lines that is written for a viewer: it replaces `merge` in the default name.
/// It cannot be mistaken for a trace file's extension, which is a thread id, a number.
pub(crate) const TEXT_EXTENSION: &str = "utc";

/// The program that shows a file in the user's browser. It needs a display.
const BROWSER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The supported viewers: what is written for each, its program, and the arguments before the path. By default, the
/// first installed one is started.
static VIEWERS: [(Written, &str, &[&str]); 9] = [
    (Written::Format(&html::FORMAT), BROWSER, &[]),
    (Written::Text, "lnav", &[]),
    (Written::Text, "less", &[]),
    // `uftrace` shows only traces with functions.
    (Written::Format(&uftrace::FORMAT), "uftrace", &["tui", "-d"]),
    (Written::Format(&csv::FORMAT), "vd", &[]),
    (Written::Format(&jsonl::FORMAT), "jless", &[]),
    (Written::Format(&speedscope::FORMAT), "speedscope", &[]),
    (Written::Format(&flamegraph::FORMAT), BROWSER, &[]),
    // Perfetto's page, served from this machine, which reads JSON only.
    (Written::Format(&chrome::FORMAT), "vizviewer", &[]),
];

/// The web pages that show files of a format in a browser, if the user loads them there.
static PAGES: [(&OutputFormat, &str); 3] = [
    (&perfetto::FORMAT, "https://ui.perfetto.dev"),
    (&chrome::FORMAT, "https://ui.perfetto.dev"),
    (&speedscope::FORMAT, "https://www.speedscope.app"),
];

/// The file to write, and the viewer to start for it.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    written: Written,
    viewer: Start,
}

#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// A program is started with these arguments, followed by the path.
    Program(PathBuf, &'static [&'static str]),
    /// A command line of the user is run by a shell.
    Command(OsString),
    /// The terminal view of this program is shown, for which no file is written.
    Terminal,
    /// No program is started. The user can load the file at this web page; `None` if no viewer is known.
    Page(Option<&'static str>),
}

/// Returns what to write and which viewer to start. The user's configuration `said`, if it is given, names the format,
/// and may name a command line as the viewer. Without it, the first possible choice of this list is taken:
/// * the HTML page in a browser, if there are a browser and a display
/// * the terminal view, if `in_terminal`
/// * the first installed viewer, which `find` finds; without a display, no browser
fn plan(
    said: Option<&OsStr>,
    has_display: bool,
    in_terminal: bool,
    find: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<Plan, Error> {
    let found = |wanted: Option<Written>| {
        let viewers = VIEWERS.iter().filter(|(written, name, _)| {
            let is_usable = || written.can_be_written() && (has_display || *name != BROWSER);
            wanted.map_or_else(is_usable, |wanted| wanted == *written)
        });
        viewers.map(|(written, name, arguments)| (*written, find(Path::new(name)), *arguments)).find_map(
            |(written, program, arguments)| {
                Some(Plan { written, viewer: Start::Program(program?, arguments) })
            },
        )
    };
    let Some(said) = said else {
        let first = found(None);
        let is_page = first.as_ref().is_some_and(|plan| plan.written == Written::Format(&html::FORMAT));
        if in_terminal && !is_page {
            return Ok(Plan { written: Written::Text, viewer: Start::Terminal });
        }
        return first.ok_or_else(|| {
            let names = VIEWERS.iter().map(|(_, name, _)| *name);
            let names: Vec<&str> = names.filter(|name| has_display || *name != BROWSER).collect();
            Error::plain(format!(
                "no supported viewer is installed ({}); {OPEN}=FORMAT:COMMAND names another one",
                names.join(", ")
            ))
        });
    };
    let text = said.to_string_lossy();
    let (name, command) = match text.split_once(':') {
        Some((name, command)) => (name, Some(command)),
        None => (&*text, None),
    };
    let Some(written) = Written::named(name) else {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        return Err(Error::plain(format!(
            "{OPEN}={said:?} names no format; the formats are {TEXT}, {}",
            names.join(", ")
        )));
    };
    if let Some(command) = command.filter(|command| !command.trim().is_empty()) {
        return Ok(Plan { written, viewer: Start::Command(command.into()) });
    }
    let page = PAGES.iter().find(|(format, _)| Written::Format(format) == written).map(|(_, page)| *page);
    Ok(found(Some(written)).unwrap_or(Plan { written, viewer: Start::Page(page) }))
}

/// The viewer to start, and the request for the file that it shows.
#[derive(Debug)]
pub(crate) struct Viewing {
    plan: Plan,
    request: Request,
}

impl Viewing {
    /// Chooses the viewer for the records that `request` selects.
    ///
    /// # Errors
    /// If no viewer is installed, if the user's configuration names no format, or if the requested output is standard
    /// output.
    pub(crate) fn of(request: Request) -> Result<Viewing, Error> {
        let fits_terminal = request.output.is_none() && request.view.selection.amount == Amount::All;
        let in_terminal = fits_terminal && tui::can_be_shown();
        let plan = plan(viewer().as_deref(), has_display(), in_terminal, find_in_path)?;
        if request.output.as_deref() == Some(OsStr::new("-")) {
            return Err(Error::plain(
                "a viewer cannot read standard output (-o -): name a file with -o FILE",
            ));
        }
        let mut request = request;
        match plan.written {
            _ if plan.viewer == Start::Terminal => {
                request.layout = Arc::new(ShowLayout::default());
                if request.view.time == TimeMode::Ticks {
                    request.view.time = request.layout.default_time();
                }
            }
            Written::Text => {
                request.view.time = TimeMode::Utc;
                request.names_in_lines = true;
            }
            Written::Format(format) => request.layout = Arc::new(format),
        }
        Ok(Viewing { plan, request })
    }

    /// Returns the request for the file that the viewer shows.
    #[must_use]
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Writes the file for the viewer from the chosen runs of `apps`, and starts the viewer. Returns the viewer's exit
    /// status; or the exit status of the merge, if it has failed or if no viewer is started.
    #[must_use]
    pub(crate) fn start(self, apps: &[App], choice: Choice) -> u8 {
        let Viewing { plan, mut request } = self;
        if plan.viewer == Start::Terminal {
            return crate::run_and_report(request.quiet, |messages| {
                tui::tui(&Job { apps, request: &request, choice }, false, messages)
            });
        }
        let mut messages = Messages::new(request.quiet);
        let Some(first) = apps.first() else { return 2 };
        let chosen = request.output.as_ref().map(PathBuf::from);
        let path = chosen.clone().unwrap_or_else(|| plan.written.path(&first.merged_path()));
        // A path that begins with a hyphen would be an option of the viewer.
        let is_option = path.as_os_str().as_encoded_bytes().starts_with(b"-");
        let path = if is_option { Path::new(".").join(path) } else { path };
        match chosen {
            Some(_) => request.output = Some(path.clone().into()),
            None => request.default_output = Some(path.clone()),
        }
        let nests_calls = matches!(plan.written, Written::Format(format) if format.nests_calls);
        if request.depth != Depth::default() && !nests_calls {
            messages.note(format_args!(
                "--depth has no effect: the format {} does not show nested calls",
                plan.written.name()
            ));
        }
        let merged = crate::run_and_report(request.quiet, |messages| {
            merge::run(&Job { apps, request: &request, choice }, messages)
        });
        // If traces are incomplete, the remaining records are shown.
        if merged > 1 {
            return merged;
        }
        let mut command = match &plan.viewer {
            Start::Program(program, arguments) => {
                let mut command = Command::new(program);
                command.args(*arguments).arg(&path);
                command
            }
            Start::Command(line) => of_shell(line, &path),
            Start::Terminal => return merged,
            Start::Page(page) => {
                let page = page.map_or_else(String::new, |page| format!("; load it at {page}"));
                messages.note(format_args!(
                    "no installed program shows the format {}; {} was written{page}",
                    plan.written.name(),
                    shown(&path)
                ));
                return merged;
            }
        };
        keep_interrupts_from_this_process();
        match command.status() {
            Ok(status) => exit_code(status),
            Err(error) => {
                messages.error(Error::io("run", Path::new(command.get_program()), error));
                2
            }
        }
    }
}

/// Writes the records that `request` selects for a viewer, and starts the viewer; returns the exit status.
pub(crate) fn open(apps: &[App], request: Request) -> u8 {
    let (quiet, choice) = (request.quiet, if request.all_runs { Choice::All } else { Choice::Newest });
    match Viewing::of(request) {
        Ok(viewing) => {
            Signals::take();
            viewing.start(apps, choice)
        }
        Err(error) => {
            Messages::new(quiet).error(error);
            2
        }
    }
}

/// Returns a command that runs `line`, a command line of the user, with `path` as an additional last argument.
fn of_shell(line: &OsStr, path: &Path) -> Command {
    if cfg!(windows) {
        let line = line.to_string_lossy();
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg(path);
        return command;
    }
    let mut script = line.to_owned();
    script.push(" \"$1\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("sh").arg(path);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::export::ctf;

    fn planned_at(has_display: bool, said: Option<&str>, installed: &[&str]) -> Result<Plan, String> {
        let find =
            |name: &Path| installed.iter().any(|known| Path::new(known) == name).then(|| name.to_owned());
        plan(said.map(OsStr::new), has_display, false, find).map_err(|error| error.to_string())
    }

    fn planned(said: Option<&str>, installed: &[&str]) -> Result<Plan, String> {
        planned_at(false, said, installed)
    }

    #[cfg(all(feature = "html", feature = "flamegraph"))]
    #[test]
    fn the_page_is_opened_in_the_browser_if_there_is_a_display() {
        let page = || {
            Ok(Plan { written: Written::Format(&html::FORMAT), viewer: Start::Program(BROWSER.into(), &[]) })
        };
        assert_eq!(planned_at(true, None, &["lnav", BROWSER]), page());
        let written = |plan: Result<Plan, String>| plan.unwrap().written;
        assert_eq!(written(planned_at(false, None, &["lnav", BROWSER])), Written::Text);
        assert_eq!(written(planned_at(true, None, &["lnav"])), Written::Text);
        assert!(planned_at(false, None, &[BROWSER]).is_err());
        // The user knows better.
        assert_eq!(planned_at(false, Some("html"), &["lnav", BROWSER]), page());
        let flamegraph = Written::Format(&flamegraph::FORMAT);
        assert_eq!(written(planned_at(true, Some("flamegraph"), &[BROWSER])), flamegraph);
    }

    #[cfg(feature = "html")]
    #[test]
    fn the_terminal_view_is_shown_if_there_is_no_browser_to_start() {
        let planned = |has_display: bool, said: Option<&str>, installed: &[&str]| {
            let find =
                |name: &Path| installed.iter().any(|known| Path::new(known) == name).then(|| name.to_owned());
            plan(said.map(OsStr::new), has_display, true, find).unwrap().viewer
        };
        assert_eq!(planned(false, None, &["lnav", BROWSER]), Start::Terminal);
        assert_eq!(planned(true, None, &["lnav"]), Start::Terminal);
        assert_eq!(planned(true, None, &["lnav", BROWSER]), Start::Program(BROWSER.into(), &[]));
        assert_eq!(planned(false, Some("text"), &["lnav"]), Start::Program("lnav".into(), &[]));
    }

    #[test]
    fn the_first_installed_viewer_is_used_unless_one_is_chosen() {
        let program = |name: &str, arguments| Start::Program(name.into(), arguments);
        let lnav = Plan { written: Written::Text, viewer: program("lnav", &[]) };
        assert_eq!(planned(None, &["less", "uftrace", "lnav"]), Ok(lnav));
        let uftrace = Written::Format(&uftrace::FORMAT);
        let tui = || Plan { written: uftrace, viewer: program("uftrace", &["tui", "-d"]) };
        assert_eq!(planned(None, &["uftrace"]), Ok(tui()));
        assert_eq!(planned(Some("uftrace"), &["less", "uftrace", "lnav"]), Ok(tui()));
        let less = || Plan { written: Written::Text, viewer: program("less", &[]) };
        assert_eq!(planned(None, &["less", "uftrace"]), Ok(less()));
        assert_eq!(planned(Some("text:"), &["less"]), Ok(less()));
        let own = Plan { written: uftrace, viewer: Start::Command("my viewer:x -d".into()) };
        assert_eq!(planned(Some("uftrace:my viewer:x -d"), &[]), Ok(own));
        let perfetto = Written::Format(&perfetto::FORMAT);
        let page = Plan { written: perfetto, viewer: Start::Page(Some("https://ui.perfetto.dev")) };
        assert_eq!(planned(Some("perfetto"), &["lnav"]), Ok(page));
        let chrome = Written::Format(&chrome::FORMAT);
        let viewer = Plan { written: chrome, viewer: program("vizviewer", &[]) };
        assert_eq!(planned(Some("chrome"), &["vizviewer"]), Ok(viewer));
        let page = Plan { written: chrome, viewer: Start::Page(Some("https://ui.perfetto.dev")) };
        assert_eq!(planned(Some("chrome"), &[]), Ok(page));
        let ctf = Plan { written: Written::Format(&ctf::FORMAT), viewer: Start::Page(None) };
        assert_eq!(planned(Some("ctf"), &["lnav"]), Ok(ctf));
        assert!(
            planned(None, &[]).unwrap_err().contains("no supported viewer is installed (lnav, less, uftrace")
        );
        assert!(
            planned(Some("svg"), &[]).unwrap_err().contains("names no format; the formats are text, jsonl")
        );
    }

    #[test]
    fn outputs_are_named_after_their_format() {
        let path = |written: Written| written.path(Path::new("/x/app.trace.merge"));
        assert_eq!(path(Written::Text), Path::new("/x/app.trace.utc"));
        assert_eq!(path(Written::Format(&uftrace::FORMAT)), Path::new("/x/app.uftrace"));
    }
}
