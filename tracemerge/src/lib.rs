//! The command `tracemerge`: finds the trace files of an application, merges them by time, writes one file.
//!
//! | file | stage |
//! |---|---|
//! | `cli` | the command line |
//! | `recover` | what dead runs left in their rings |
//! | `rings`, `held` | what is still in memory: of living runs, and where nothing can be recovered |
//! | `discover` | which files may be traces of the application |
//! | `header` | what they say of themselves |
//! | `owners`, `identity` | whose files they are, and which run each is of where that is not plain |
//! | `choose` | which runs are merged, and in which order their files stand |
//! | `clocks` | ticks and the wall clock |
//! | `align` | traces of several machines on one scale of ticks |
//! | `source`, `map`, `lines` | the bytes, and the lines in them |
//! | `foreign` | logs of others, as sources |
//! | `slice`, `search` | the same range of time of all of them |
//! | `render` | what is no text before it is asked for it |
//! | `merge`, `tree` | one sorted stream |
//! | `pool`, `gather` | the same by several threads |
//! | `attempt` | opening, merging, writing, as often as needed |
//! | `write` | where it goes |
//! | `pipeline` | the stages in a row |
//! | `opened`, `range`, `breaks`, `when` | of a view: the parts of the files that are wanted |
//! | `records`, `select` | which records are shown |
//! | `export` | in which format |
//! | `view` | these stages in a row |
//! | `pager`, `colour`, `progress` | what a person at a terminal is shown |
//! | `manual` | completions and manual pages |
//! | `run`, `check` with `audit`, `info`, `diff`, `snapshot`, `clean` | the subcommands |
//! | `follow` | the merge of a running program, as it comes |
//! | `columns`, `units` | tables and amounts for people |
//! | `findings`, `messages`, `error` | what the user is told, and the exit status |
//! | `cut` | files that become shorter while they are read |
//! | `liveness`, `signals`, `sys` | what the operating system knows and says |
//!
//! No stage knows the next; the order of the merge is total: boot (by the wall clock), ticks, process, run,
//! thread, number of the file, position in the file. Undamaged lines are passed on byte for byte.

mod align;
mod attempt;
mod audit;
#[cfg(test)]
mod bad_input;
mod breaks;
mod check;
mod choose;
mod clean;
mod cli;
mod clocks;
mod colour;
mod columns;
mod completeness;
mod cut;
mod diff;
mod discover;
mod error;
mod export;
mod findings;
mod follow;
mod foreign;
mod gather;
mod header;
mod held;
mod identity;
mod info;
mod lines;
mod liveness;
mod manual;
mod map;
mod merge;
mod messages;
mod opened;
mod owners;
mod pager;
mod parallel;
mod pipeline;
mod places;
mod pool;
mod progress;
mod range;
mod raw;
mod records;
mod recover;
mod render;
mod rings;
mod run;
mod search;
mod select;
mod signals;
mod slice;
mod snapshot;
mod source;
mod sys;
mod tree;
mod units;
mod view;
mod when;
mod write;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::choose::Choice;
use crate::cli::{Command, Options};
use crate::diff::Told;
use crate::discover::App;
use crate::error::Error;
use crate::messages::Messages;
use crate::pipeline::Job;
use crate::signals::Signals;

/// Runs the command with `args`, the first of which is its own name; returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match cli::parse(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, which may be closed.
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    cut::watch();
    match (cli.command, cli.apps) {
        (Some(Command::Run { options, command }), _) => run::run(options, command),
        (Some(Command::Clean { quiet, app }), _) => {
            reporting(quiet, |messages| clean::clean(&App::new(app)?, messages))
        }
        (Some(Command::Check { all_runs, quiet, verbose, app }), _) => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            reporting(quiet, |messages| {
                check::check(&App::or_directory(app)?, choice, quiet, verbose, messages)
            })
        }
        (Some(Command::Diff { quiet, json, rows, a, b }), _) => {
            let told = match (quiet, json) {
                (true, _) => Told::Nothing,
                (false, true) => Told::Json,
                (false, false) => Told::Text,
            };
            let mut same = true;
            let status = reporting(false, |messages| {
                same = diff::diff(a, b, told, rows, messages)?;
                Ok(())
            });
            status.max(u8::from(!same))
        }
        (Some(Command::Info { all_runs, json, app }), _) => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            reporting(false, |messages| info::info(&App::or_directory(app)?, choice, json, messages))
        }
        (Some(Command::Snapshot { output, view, quiet, verbose, pid }), _) => {
            Signals::take();
            let options = Options { output, all_runs: false, with: Vec::new(), view, quiet, verbose };
            reporting(quiet, |messages| snapshot::snapshot(pid, &options, messages))
        }
        (None, apps) if cli.follow => reporting(cli.options.quiet, |messages| {
            let apps = apps.into_iter().map(App::or_directory).collect::<Result<Vec<App>, Error>>()?;
            follow::follow(&apps, &cli.options, messages)
        }),
        (Some(Command::Completions { shell }), _) => reporting(false, |_| manual::completions(shell)),
        (Some(Command::Man { command }), _) => reporting(false, |_| manual::page(command.as_deref())),
        (None, apps) => merge(cli.options, apps),
    }
}

fn merge(options: Options, apps: Vec<PathBuf>) -> u8 {
    // An interrupted merge takes its temporary file with it.
    Signals::take();
    reporting(options.quiet, |messages| {
        let choice = if options.all_runs { Choice::All } else { Choice::Newest };
        let apps = apps.into_iter().map(App::or_directory).collect::<Result<Vec<App>, Error>>()?;
        pipeline::run(&Job { apps: &apps, options: &options, choice }, messages)
    })
}

/// Does `work`, tells its error, and returns the exit status.
fn reporting(quiet: bool, work: impl FnOnce(&mut Messages) -> Result<(), Error>) -> u8 {
    let mut messages = Messages::new(quiet);
    if let Err(error) = work(&mut messages) {
        messages.error(error);
    }
    messages.status() as u8
}
