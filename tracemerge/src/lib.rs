//! The command `tracemerge`: finds the trace files of an application, merges them by time, writes one file.
//!
//! | file | stage |
//! |---|---|
//! | `cli` | the command line |
//! | `recover` | what dead runs left in their rings |
//! | `rings`, `held` | what is still in memory: of living runs, and where nothing can be recovered |
//! | `discover` | which files may be traces of the application |
//! | `header` | what they say of themselves |
//! | `choose` | which runs are merged, and in which order their files stand |
//! | `clocks` | ticks and the wall clock |
//! | `source`, `map`, `lines` | the bytes, and the lines in them |
//! | `foreign` | logs of others, as sources |
//! | `merge`, `tree` | one sorted stream |
//! | `write` | where it goes |
//! | `pipeline` | the stages in a row |
//! | `run`, `check` with `audit`, `info`, `diff`, `snapshot`, `clean` | the subcommands |
//! | `follow` | the merge of a running program, as it comes |
//! | `columns`, `units` | tables and amounts for people |
//! | `findings`, `messages`, `error` | what the user is told, and the exit status |
//! | `liveness`, `signals`, `sys` | what the operating system knows and says |
//!
//! No stage knows the next; the order of the merge is total: boot (by the wall clock), ticks, process, run,
//! thread, number of the file, position in the file. Undamaged lines are passed on byte for byte.

mod audit;
mod check;
mod choose;
mod clean;
mod cli;
mod clocks;
mod columns;
mod diff;
mod discover;
mod error;
mod findings;
mod follow;
mod foreign;
mod header;
mod held;
mod info;
mod lines;
mod liveness;
mod map;
mod merge;
mod messages;
mod pipeline;
mod recover;
mod rings;
mod run;
mod signals;
mod snapshot;
mod source;
mod sys;
mod tree;
mod units;
mod write;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::choose::Choice;
use crate::cli::{Cli, Command, Options};
use crate::discover::App;
use crate::error::Error;
use crate::messages::Messages;
use crate::pipeline::Job;
use crate::signals::Signals;

/// Runs the command with `args`, the first of which is its own name; returns the exit status.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout, which may be closed.
            let _ = error.print();
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match (cli.command, cli.app) {
        (Some(Command::Run { options, command }), _) => run::run(options, command),
        (Some(Command::Clean { quiet, app }), _) => {
            reporting(quiet, |messages| clean::clean(&App::new(app)?, messages))
        }
        (Some(Command::Check { all_runs, quiet, verbose, app }), _) => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            reporting(quiet, |messages| check::check(&App::new(app)?, choice, quiet, verbose, messages))
        }
        (Some(Command::Diff { quiet, rows, a, b }), _) => {
            let mut same = true;
            let status = reporting(false, |messages| {
                same = diff::diff(a, b, quiet, rows, messages)?;
                Ok(())
            });
            status.max(u8::from(!same))
        }
        (Some(Command::Info { all_runs, json, app }), _) => {
            let choice = if all_runs { Choice::All } else { Choice::Newest };
            reporting(false, |messages| info::info(&App::new(app)?, choice, json, messages))
        }
        (Some(Command::Snapshot { output, quiet, pid }), _) => {
            Signals::take();
            reporting(quiet, |messages| snapshot::snapshot(pid, output, messages))
        }
        (None, Some(app)) if cli.follow => reporting(cli.options.quiet, |messages| {
            follow::follow(&App::new(app)?, cli.options.output.as_deref(), messages)
        }),
        (None, Some(app)) => merge(cli.options, app),
        // The definition of the command line has seen to it that there is an application.
        (None, None) => 2,
    }
}

fn merge(options: Options, app: PathBuf) -> u8 {
    // An interrupted merge takes its temporary file with it.
    Signals::take();
    reporting(options.quiet, |messages| {
        let choice = if options.all_runs { Choice::All } else { Choice::Newest };
        pipeline::run(
            &Job { app: &App::new(app)?, output: options.output, choice, with: options.with },
            messages,
        )
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
