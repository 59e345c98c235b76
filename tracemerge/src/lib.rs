//! The command `tracemerge`, which finds the trace files of an application, merges them by time, and writes
//! one file.
//!
//! | room | contents |
//! |---|---|
//! | `os` | requests to the operating system |
//! | `ui` | messages to the user, and their appearance |
//! | `file` | one trace file: its bytes, and the lines in them |
//! | `time` | ticks and the wall clock |
//! | `symbols` | names for addresses |
//! | `find` | the search for traces, and the choice among them |
//! | `input` | the traces as sources of lines; logs of other programs |
//! | `output` | the destinations of lines |
//! | `merge` | the merge of many sources into one stream of lines |
//! | `view` | parts of the traces, and other layouts |
//! | `command` | the subcommands |
//! | `cargo` | `cargo tracer`: builds Rust programs whose functions are all traced |
//! | `cli` | the command line |
//!
//! A room uses only the rooms above it in this table. The order of the merge is total: boot (by the wall clock),
//! ticks, process, run, thread, number of the file, position in the file. The merge passes undamaged lines on byte
//! for byte.
// Hardly anything here is for other crates. The unit tests include modules that other tests use, too.
#![cfg_attr(not(test), warn(unreachable_pub))]
#![deny(clippy::disallowed_types, clippy::disallowed_macros)]
// Unit tests may create files.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[allow(clippy::disallowed_methods, reason = "Cargo's own build directory is the user's")]
mod cargo;
mod cli;
mod command;
mod file;
mod find;
mod input;
mod merge;
mod os;
mod output;
pub mod symbols;
mod time;
mod ui;
mod view;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// An export for the benchmark of the formats only.
#[doc(hidden)]
pub use crate::command::kept_records::KeptRecords;
/// Exports only for the benchmark that aligns the clocks of several machines.
#[doc(hidden)]
pub use crate::time::order::{Assumptions, Direction, PairStream};

use crate::cli::{DatasetCommand, Merge, Subcommand, ViewCommand};
use crate::command::diff::{DiffOptions, DiffOutput};
use crate::command::info::InfoOptions;
use crate::command::merge::Job;
use crate::command::open::Viewing;
use crate::command::run::After;
use crate::find::app::App;
use crate::find::choose::Choice;
use crate::find::newest::{app_or_newest, newest_app};
use crate::os::signals::Signals;
use crate::symbols::Settings;
use crate::ui::error::Error;
use crate::ui::messages::Messages;
use crate::view::export::format::OutputFormat;
use crate::view::export::html::Pages;
use crate::view::export::show::ShowLayout;
use crate::view::export::text::TraceLayout;
use crate::view::layout::{Layout, NamedView};
use crate::view::request::{ClosingView, Request};

/// Reports each later panic of the process, which is a bug in this program, in the format of all its messages. Only for
/// programs that do nothing but call [`main`] or [`cargo_tracer`].
pub use crate::ui::console::take_panics;

/// Runs `cargo tracer` with `args`, the first of which is the program's own name, and returns the exit status.
pub fn cargo_tracer(args: impl IntoIterator<Item = OsString>) -> u8 {
    cargo::main(args, main)
}

/// Runs the command with `args`, the first of which is the command's own name, and returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    os::environment::replace_missing_temporary_directory();
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match cli::parse(args.iter().cloned()) {
        Ok(cli) => cli,
        Err(said) => {
            let status = if said.use_stderr() { 2 } else { 0 };
            return status.max(run_and_report(false, |_| cli::show(said, &args)));
        }
    };
    file::truncation::watch();
    let Some(command) = cli.command else { return merge_without_command(cli.merge) };
    match command {
        Subcommand::Merge(of) => merge(of),
        Subcommand::View(ViewCommand { options, layout, follow, apps }) => {
            let request = options.into_request(layout);
            if follow { self::follow(&request, apps) } else { view(request, apps) }
        }
        Subcommand::Open { options, apps } => {
            let request = options.into_request(Arc::new(TraceLayout));
            let mut opened_apps = Vec::new();
            let status = run_and_report(request.quiet, |messages| {
                opened_apps = open_apps(apps, messages)?;
                Ok(())
            });
            if status == 0 { command::open::open(&opened_apps, request) } else { status }
        }
        Subcommand::Tui { options, follow, apps } => {
            let request = options.into_request(Arc::new(ShowLayout::default()));
            Signals::take();
            run_and_report(request.quiet, |messages| {
                let choice = if request.all_runs { Choice::All } else { Choice::Newest };
                let job = Job { apps: &open_apps(apps, messages)?, request: &request, choice };
                command::tui::tui(&job, follow, messages)
            })
        }
        Subcommand::Run { options, open: true, command, .. } => {
            let request = options.into_request(Arc::new(TraceLayout));
            let quiet = request.quiet;
            let mut after = None;
            let status = run_and_report(quiet, |_| {
                after = Some(After::Open(Viewing::of(request)?));
                Ok(())
            });
            after.map_or(status, |after| command::run::run(after, command))
        }
        Subcommand::Run { options, show, format, command, .. } => {
            let layout = match (show.map(NamedView::by_default), format) {
                (Some(Ok(layout)), _) => layout,
                (Some(Err(said)), _) => return run_and_report(false, |_| cli::show(said, &args)).max(2),
                (None, format) => layout_of(format, options.split),
            };
            let request = Request { closing_view: ClosingView::Summary, ..options.into_request(layout) };
            command::run::run(After::Merge(request), command)
        }
        Subcommand::Clean { quiet, yes, app } => {
            run_and_report(quiet, |messages| command::clean::clean(&App::or_directory(app)?, yes, messages))
        }
        Subcommand::Check { all_runs, quiet, verbose, app } => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            run_and_report(quiet, |messages| {
                command::check::check(&app_or_newest(app, messages)?, choice, quiet, verbose, messages)
            })
        }
        Subcommand::Diff { quiet, form, rows, fail_over, debug_dirs, a, b } => {
            let output = if quiet { DiffOutput::Nothing } else { DiffOutput::Shown(form) };
            let symbols = Settings { debug_dirs, ..Settings::default() };
            let options = DiffOptions { output, rows, fail_over, symbols };
            let mut succeeds = true;
            let status = run_and_report(false, |messages| {
                succeeds = command::diff::diff(a, b, &options, messages)?;
                Ok(())
            });
            status.max(u8::from(!succeeds))
        }
        Subcommand::Info { all_runs, form, sync, machines, app } => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            let options = InfoOptions { choice, form, sync: sync.patterns().unwrap_or_default(), machines };
            run_and_report(false, |messages| {
                command::info::info(&app_or_newest(app, messages)?, &options, messages)
            })
        }
        Subcommand::Snapshot { options, pid } => {
            Signals::take();
            let request = Request::from(options);
            run_and_report(request.quiet, |messages| command::snapshot::snapshot(pid, &request, messages))
        }
        Subcommand::Dataset { command: DatasetCommand::Add { machine, quiet, directory, apps } } => {
            // A signal deletes the files that are not in the set yet.
            Signals::take();
            run_and_report(quiet, |messages| {
                command::dataset::add(&directory, &open_apps(apps, messages)?, machine, messages)
            })
        }
        Subcommand::Dataset { command: DatasetCommand::Compact { quiet, directory } } => {
            Signals::take();
            run_and_report(quiet, |messages| command::dataset::compact(&directory, messages))
        }
        Subcommand::Sql { options, source, query } => {
            let question = options.into_question(source, query);
            run_and_report(question.request.quiet, |messages| command::sql::sql(&question, messages))
        }
        Subcommand::Dataset { command: DatasetCommand::Clocks } => {
            run_and_report(false, command::dataset::clocks)
        }
        Subcommand::On { quiet, pid } => {
            run_and_report(quiet, |messages| command::switch::switch(pid, true, messages))
        }
        Subcommand::Off { quiet, pid } => {
            run_and_report(quiet, |messages| command::switch::switch(pid, false, messages))
        }
        // The parser has answered with the help.
        Subcommand::Help { .. } => 0,
        Subcommand::Completions { shell } => run_and_report(false, |_| cli::manual::completions(shell)),
        Subcommand::Man { command } => run_and_report(false, |_| cli::manual::page(&command)),
    }
}

/// Merges traces, for a command line without a subcommand. Before, checks the first word, which may be a misspelt
/// subcommand.
fn merge_without_command(merge: Merge) -> u8 {
    let checked = run_and_report(false, |_| {
        let first = merge.apps.first().cloned().unwrap_or_default();
        find::check_first_word(&App::or_directory(first)?, merge.follow)
    });
    if checked == 0 { self::merge(merge) } else { checked }
}

fn merge(merge: Merge) -> u8 {
    let Merge { options, format, follow, apps } = merge;
    let layout = layout_of(format, options.split);
    let request = Request { closing_view: ClosingView::LastRecords, ..options.into_request(layout) };
    if follow { self::follow(&request, apps) } else { view(request, apps) }
}

/// Returns the layout of the output format `format`; if it is `None`, the layout of merged text. If `split` is given,
/// the output consists of several pages with at most this number of records each.
fn layout_of(format: Option<&'static OutputFormat>, split: Option<u64>) -> Arc<dyn Layout> {
    match (format, split) {
        (Some(_), Some(records)) => Arc::new(Pages(records)),
        (Some(format), None) => Arc::new(format),
        (None, _) => Arc::new(TraceLayout),
    }
}

/// Shows the records of `apps` as they arrive.
fn follow(request: &Request, apps: Vec<PathBuf>) -> u8 {
    run_and_report(request.quiet, |messages| {
        command::follow::follow(&open_apps(apps, messages)?, request, messages)
    })
}

/// Writes the traces of `apps` to a file or shows them, as `request` says.
fn view(request: Request, apps: Vec<PathBuf>) -> u8 {
    // An interrupted merge deletes its temporary file.
    Signals::take();
    run_and_report(request.quiet, |messages| {
        let choice = if request.all_runs { Choice::All } else { Choice::Newest };
        command::merge::run(&Job { apps: &open_apps(apps, messages)?, request: &request, choice }, messages)
    })
}

/// Returns the applications at the paths `apps`; if there are no paths, the application of the newest traces.
fn open_apps(apps: Vec<PathBuf>, messages: &Messages) -> Result<Vec<App>, Error> {
    if apps.is_empty() {
        return Ok(vec![newest_app(messages)?]);
    }
    apps.into_iter().map(App::or_directory).collect()
}

/// Calls `work`, reports its error to the user, and returns the exit status.
fn run_and_report(quiet: bool, work: impl FnOnce(&mut Messages) -> Result<(), Error>) -> u8 {
    let mut messages = Messages::new(quiet);
    if let Err(error) = work(&mut messages) {
        messages.error(error);
    }
    messages.status() as u8
}
