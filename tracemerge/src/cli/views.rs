//! The subcommands that show views, made from the list of views; and parsers of values that name a view or a format.

use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};

use crate::cli::options::MergeOptions;
use crate::view::export::format::{FORMATS, OutputFormat};
use crate::view::layout::{Layout, NamedView, VIEWS};

/// The options that cannot be combined with `--follow`.
const NOT_FOLLOWED: [&str; 7] = ["all_runs", "with", "sync", "module", "target", "level", "site"];

/// A subcommand that shows a view.
#[derive(Debug)]
pub(crate) struct ViewCommand {
    /// The options of the merge.
    pub options: MergeOptions,
    /// The layout in which the view shows records.
    pub layout: Arc<dyn Layout>,
    /// Whether the records of running applications are shown as they arrive.
    pub follow: bool,
    /// The applications: executables, or directories with traces. If there are none, the application of the newest
    /// traces is shown.
    pub apps: Vec<PathBuf>,
}

impl FromArgMatches for ViewCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ViewCommand, clap::Error> {
        let named = matches.subcommand().and_then(|(name, of)| Some((view_of_name(name)?, of)));
        let Some((view, matches)) = named else {
            return Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand));
        };
        Ok(ViewCommand {
            options: MergeOptions::from_arg_matches(matches)?,
            layout: (view.layout)(matches)?,
            follow: view.follow.is_some() && matches.get_flag("follow"),
            apps: matches.get_many("apps").into_iter().flatten().cloned().collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ViewCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ViewCommand {
    fn augment_subcommands(command: Command) -> Command {
        VIEWS.iter().fold(command, |command, view| command.subcommand(subcommand_of(view)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        ViewCommand::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        view_of_name(name).is_some()
    }
}

/// Returns the definition of the subcommand that shows a view.
fn subcommand_of(view: &NamedView) -> Command {
    let usage = format!("tracemerge {} [OPTIONS] [APP]...", view.name);
    let command = (view.options)(MergeOptions::augment_args(Command::new(view.name)));
    let help = [view.help, (view.rows_help)().trim_end()].join("\n\n");
    // The comments of the types would be the descriptions.
    let mut command =
        command.about(view.about).after_long_help(help.trim_end().to_owned()).override_usage(usage);
    if let Some(help) = view.follow {
        let follow = Arg::new("follow").short('f').long("follow").action(ArgAction::SetTrue).help(help);
        command = command.arg(follow.conflicts_with_all(NOT_FOLLOWED.iter().chain(view.not_followed)));
    }
    let apps = Arg::new("apps").value_name("APP").action(ArgAction::Append).num_args(1..);
    let apps = apps.help(
        "The applications: paths of executables, or directories with traces [default: the newest traces \
         below the current directory]",
    );
    command.arg(apps.value_parser(value_parser!(PathBuf)))
}

fn view_of_name(name: &str) -> Option<&'static NamedView> {
    VIEWS.iter().find(|view| view.name == name)
}

/// Returns a parser of the names of views.
pub(super) fn view_parser() -> impl TypedValueParser<Value = &'static NamedView> {
    let values = VIEWS.iter().map(|view| PossibleValue::new(view.name).help(view.about));
    let unknown = "no view has this name";
    PossibleValuesParser::new(values).try_map(move |name| view_of_name(&name).ok_or(unknown))
}

/// Returns a parser of the names of formats for other programs.
pub(super) fn format_parser() -> impl TypedValueParser<Value = &'static OutputFormat> {
    let values = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.about));
    let unknown = "no format has this name";
    PossibleValuesParser::new(values)
        .try_map(move |name| FORMATS.into_iter().find(|format| format.name == name).ok_or(unknown))
}
