//! The command lines that are tried. The command itself lists its arguments, so that a new subcommand, option or format
//! is tried without a change here.

use super::bases::{LOGS, RUNS, TRACES};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use support::torture::Random;

/// The placeholder for the directory of the input in a command line.
pub const ROOT: &str = "{ROOT}";
/// The placeholder for the id of a process that traces nothing and has to live on.
pub const BYSTANDER: &str = "{PID}";

/// The application of an input; `run` finds a program there that does nothing.
const APP_PATH: &str = "{ROOT}/traces/scenario";

/// An option, as in the completions for fish.
#[derive(Clone, Debug)]
struct CommandOption {
    /// `--name`, or `-n` if there is no long name.
    name: String,
    takes_value: bool,
    /// The possible values, if they are listed.
    values: Vec<String>,
}

/// A subcommand; without a name, the command itself.
#[derive(Clone, Debug)]
struct Subcommand {
    name: Option<String>,
    options: Vec<CommandOption>,
    /// The names of the arguments that are not options, such as `APP`.
    arguments: Vec<String>,
}

/// All subcommands and formats of the command.
#[derive(Debug)]
pub struct Commands {
    /// Each subcommand with a value of its `--format`, or without one, if no format is requested.
    all: Vec<(Subcommand, Option<String>)>,
}

fn said(scenario: &str, args: &[&str]) -> String {
    let Output { status, stdout, .. } =
        Command::new(scenario).arg("tracemerge").args(args).output().expect("the command runs");
    assert!(status.success(), "{args:?}");
    String::from_utf8(stdout).expect("UTF-8")
}

impl Commands {
    /// Reads the subcommands and options from the command's own completions and help.
    pub fn of(scenario: &str) -> Commands {
        let completions = said(scenario, &["completions", "fish"]);
        let mut options: BTreeMap<Option<String>, Vec<CommandOption>> = BTreeMap::new();
        let mut names = vec![None];
        for line in completions.split("\ncomplete -c tracemerge -n \"").skip(1) {
            let (condition, rest) = line.split_once('"').expect("a condition");
            let of = condition
                .strip_prefix("__fish_tracemerge_using_subcommand ")
                .map(|name| name.split(';').next().expect("a name").trim().to_owned());
            if let Some(name) = rest.strip_prefix(" -a \"").and_then(|rest| rest.split('"').next()) {
                names.push(Some(name.to_owned()));
            } else if let Some(option) = option(rest) {
                options.entry(of).or_default().push(option);
            }
        }
        let subcommand = |name: Option<String>| {
            let help: Vec<&str> = name.as_deref().into_iter().chain(["--help"]).collect();
            let options = options.get(&name).cloned().unwrap_or_default();
            Subcommand { arguments: arguments(&said(scenario, &help)), options, name }
        };
        let mut all = Vec::new();
        for subcommand in names.into_iter().map(subcommand) {
            let formats = subcommand.options.iter().filter(|option| option.name == "--format");
            let formats: Vec<String> = formats.flat_map(|option| option.values.clone()).collect();
            all.push((subcommand.clone(), None));
            all.extend(formats.into_iter().map(|format| (subcommand.clone(), Some(format))));
        }
        Commands { all }
    }

    /// Returns the number of subcommands with their formats.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the names of the subcommands and formats.
    pub fn names(&self) -> Vec<(Option<&str>, Option<&str>)> {
        self.all.iter().map(|(of, format)| (of.name.as_deref(), format.as_deref())).collect()
    }

    /// Makes a command line of the subcommand and format with this number.
    pub fn line(&self, number: usize, random: &mut Random) -> Vec<String> {
        let (subcommand, format) = &self.all[number % self.all.len()];
        let mut line: Vec<String> = subcommand.name.iter().cloned().collect();
        if let Some(format) = format {
            line.extend(["--format".to_owned(), format.clone()]);
        }
        let fits =
            |option: &&CommandOption| !["--help", "--version", "--format"].contains(&option.name.as_str());
        let options: Vec<&CommandOption> = subcommand.options.iter().filter(fits).collect();
        let follow = options.iter().any(|option| option.name == "--follow");
        let wanted = if random.percent(50) { 0 } else { random.below(1, 4) };
        if !options.is_empty() {
            for _ in 0..wanted {
                let option = random.pick(&options);
                if line.contains(&option.name) {
                    continue;
                }
                line.push(option.name.clone());
                line.extend(option.takes_value.then(|| value(option, random)));
            }
        }
        if follow && random.percent(10) {
            line.push("--follow".to_owned());
        }
        for argument in &subcommand.arguments {
            let is_program = subcommand.name.as_deref() == Some("run");
            line.push(if is_program { APP_PATH.to_owned() } else { positional(argument, random) });
        }
        line
    }
}

/// Reads the text after the condition in a line of completions: ` -s o -l output -d '...' -r -f -a "..."`.
fn option(line: &str) -> Option<CommandOption> {
    let head = line.split(" -d '").next()?;
    let mut words = head.split_whitespace();
    let (mut long, mut short) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "-l" => long = words.next(),
            "-s" => short = words.next(),
            _ => {}
        }
    }
    let name = long.map(|name| format!("--{name}")).or(short.map(|name| format!("-{name}")))?;
    // The description may contain anything; the text after it does not.
    let tail = line.rsplit_once("' -r").map(|(_, tail)| tail);
    let listed = line.split_once(" -a \"").map_or("", |(_, values)| values);
    let values = listed.lines().filter_map(|line| line.split_once("\\t")).map(|(value, _)| value.to_owned());
    Some(CommandOption { name, takes_value: tail.is_some() || !listed.is_empty(), values: values.collect() })
}

/// Reads the names of arguments in the first usage of a help text.
fn arguments(help: &str) -> Vec<String> {
    let usage = help.lines().find_map(|line| line.trim_start().strip_prefix("Usage: ")).expect("a usage");
    // An application is always given, also if it may be left out.
    let is_argument =
        |word: &&str| word.starts_with('<') && *word != "<COMMAND>" || word.starts_with("[APP]");
    let name = |word: &str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    usage.split_whitespace().filter(is_argument).map(name).collect()
}

fn positional(argument: &str, random: &mut Random) -> String {
    match argument {
        "PID" => BYSTANDER.to_owned(),
        "SHELL" => random.pick(&["bash", "zsh", "fish", "elvish", "powershell"]).to_owned(),
        _ => path(random),
    }
}

/// Returns a path for an argument that is read.
fn path(random: &mut Random) -> String {
    match random.below(0, 12) {
        0..8 => APP_PATH.to_owned(),
        8..11 => format!("{ROOT}/{TRACES}"),
        _ => format!("{ROOT}/{}", random.pick(&[RUNS, LOGS])),
    }
}

/// Returns a value for an option: one of those that are listed, one that suits its name, or anything.
fn value(option: &CommandOption, random: &mut Random) -> String {
    if !option.values.is_empty() {
        return option.values[random.below(0, option.values.len() as u64) as usize].clone();
    }
    let numbers = ["0", "1", "2", "20", "1000000", "18446744073709551615"];
    let times = [
        "1.5s",
        "-200ms",
        "0x1",
        "@0",
        "@18446744073709551615",
        "14:43:52",
        "2026-11-26 07:00:00Z",
        "0",
        "-1m",
        "999999s",
        "0xffffffffffffffff",
    ];
    let patterns = ["", ".", "one|two", "(a|b)*c$", "^$", "(?i)ERROR", "\\\\x1b", "[^ ]{1,100}", "\\d+"];
    let names =
        ["*", "worker*", "scenario", "1", "0", "main", "a::b", "messages.rs", "x.rs:1", "[!a]*", "\u{202e}"];
    match option.name.trim_start_matches('-') {
        "output" => random.pick(&["-", "{ROOT}/out", "{ROOT}/out", "{ROOT}/nowhere/out"]).to_owned(),
        "with" if random.percent(70) => format!("{ROOT}/{LOGS}/log-{}", random.below(0, 40)),
        "with" | "debug-dir" => path(random),
        "process" | "head" | "last" | "rows" | "depth" => random.pick(&numbers).to_owned(),
        "since" | "until" => random.pick(&times).to_owned(),
        "grep" | "function" => random.pick(&patterns).to_owned(),
        "min-duration" => random.pick(&["0ns", "10us", "1.5ms", "2s", "1e300s"]).to_owned(),
        "level" => random.pick(&["error", "warn", "info", "debug", "trace"]).to_owned(),
        "thread" | "module" | "target" | "site" => random.pick(&names).to_owned(),
        _ => {
            let all: Vec<&str> = [&numbers[..], &times, &names].concat();
            random.pick(&all).to_owned()
        }
    }
}

/// Returns whether the command line requests a command that runs until it is interrupted.
pub fn follows(line: &[String]) -> bool {
    line.iter().any(|word| word == "--follow")
}

/// Returns the command line with the input's directory and the bystander's process in their places.
pub fn placed(line: &[String], root: &Path, bystander: u32) -> Vec<String> {
    let root = root.to_str().expect("a path in UTF-8");
    let bystander = bystander.to_string();
    line.iter().map(|word| word.replace(ROOT, root).replace(BYSTANDER, &bystander)).collect()
}
