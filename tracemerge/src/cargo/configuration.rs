//! Cargo's configuration: the settings in files, in options `--config` and in environment variables, as Cargo itself
//! understands them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_platform::{Cfg, Platform};
use serde_json::Value;

use crate::cargo::build;
use crate::cargo::toolchain::output_of;
use crate::os::environment::{of_cargo, value_of};
use crate::ui::error::Error;
use crate::ui::messages::Messages;

/// Cargo's configuration in the current directory.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The arguments of Cargo that change its configuration.
    words: Vec<OsString>,
    /// The settings of configuration files and of the command line.
    all: Value,
    /// The settings of configuration files alone.
    of_files: Value,
}

impl Configuration {
    /// Asks Cargo for its configuration, with the arguments in `words` that change it.
    pub(super) fn read(words: &[OsString]) -> Configuration {
        let words = global_arguments(words);
        // Cargo has understood its configuration before, so this version only has no command to show it.
        let all = settings(&words).unwrap_or_else(|error| {
            Messages::new(false).note(format_args!(
                "cannot read the configuration files of Cargo, so the runners and compiler wrappers in them are \
                 not used, only those of environment variables: {error}"
            ));
            Value::Null
        });
        let has_options = words.iter().any(|word| word.as_encoded_bytes().starts_with(b"--config"));
        let of_files = if has_options { settings(&[]).unwrap_or_default() } else { all.clone() };
        Configuration { words, all, of_files }
    }

    /// Returns the value that configuration files and the command line give a setting.
    pub(super) fn value(&self, key: &[&str]) -> Option<&Value> {
        at(&self.all, key)
    }

    /// Returns the program that a setting names, and the program's arguments. If the value is a text instead of a list,
    /// the text is the program's name or, if `is_line`, a command line that is split at spaces.
    pub(super) fn command(&self, key: &[&str], is_line: bool) -> Option<Vec<OsString>> {
        let value = self.value(key);
        let is_option = value.is_some() && value != at(&self.of_files, key);
        let variable = of_cargo(&variable(key)).filter(|_| !is_option);
        let is_variable = variable.is_some();
        let value = variable.map(|text| Value::from(text.to_string_lossy())).or_else(|| value.cloned())?;
        let mut words: Vec<OsString> = match &value {
            Value::String(line) if is_line => line.split_whitespace().map(OsString::from).collect(),
            Value::String(program) => vec![program.into()],
            Value::Array(words) => words.iter().filter_map(Value::as_str).map(OsString::from).collect(),
            _ => return None,
        };
        // Cargo searches a mere name in `PATH`. A path is relative to the parent of the file's directory, or to the
        // current directory if no file contains it.
        let program = words.first_mut()?;
        if Path::new(program).components().count() > 1 {
            let place = if is_variable { None } else { self.directory_of(key) };
            let place = place.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
            *program = place.join(&program).into();
        }
        Some(words)
    }

    /// Returns the program that the environment variable `name` (such as `RUSTC`) names or, if it is not set, the
    /// program that the corresponding setting (such as `build.rustc`) names.
    pub(super) fn tool(&self, name: &str) -> Option<OsString> {
        // An empty variable means that there is none, whatever the setting names.
        if let Some(tool) = value_of(name) {
            return Some(tool).filter(|tool| !tool.is_empty());
        }
        let key = name.to_ascii_lowercase().replace('_', "-");
        self.command(&["build", &key], false)?.into_iter().next().filter(|tool| !tool.is_empty())
    }

    /// Returns the directory to which the paths in the value of a setting are relative; `None` if no file contains the
    /// setting.
    fn directory_of(&self, key: &[&str]) -> Option<PathBuf> {
        let output = output_of(&mut get(&self.words, &["--show-origin"])).ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // A part of a key that is not a word is in quotes of either kind.
        let spelling = |quoted: fn(&str) -> String| {
            let parts = key.iter().map(|part| if part.contains('(') { quoted(part) } else { (*part).into() });
            format!("{} = ", parts.collect::<Vec<_>>().join("."))
        };
        let spellings =
            [spelling(|part| format!("'{part}'")), spelling(|part| Value::from(part).to_string())];
        let mut lines =
            said.lines().skip_while(|line| !spellings.iter().any(|start| line.starts_with(start.as_str())));
        let first = lines.next()?;
        // The file is in a comment behind the value, or behind the first of several.
        let line = if first.ends_with(" = [") { lines.next()? } else { first };
        let file = line.match_indices(" # ").map(|(at, mark)| Path::new(&line[at + mark.len()..]));
        let file = file.into_iter().find(|file| file.is_absolute() && file.is_file())?;
        Some(file.parent()?.parent()?.to_owned())
    }

    /// Returns the runner that Cargo would use for programs for `host`: a program and its arguments.
    pub(super) fn runner(&self, host: &str, words: &[OsString]) -> Result<Option<Vec<OsString>>, Error> {
        if let Some(runner) = self.command(&["target", host, "runner"], true) {
            return Ok(Some(runner));
        }
        let targets = self.value(&["target"]).and_then(Value::as_object);
        let with_runner = targets.into_iter().flatten().filter(|(_, table)| table.get("runner").is_some());
        let mut keys: Vec<&str> = with_runner.map(|(key, _)| key.as_str()).collect();
        keys.retain(|key| key.starts_with("cfg("));
        if keys.is_empty() {
            return Ok(None);
        }
        let mut ask = unstable(&["rustc".as_ref()]);
        ask.args(["--print", "cfg", "--target", host]).args(&self.words);
        if let Some(manifest) = build::value_of(words, "--manifest-path") {
            ask.arg("--manifest-path").arg(manifest);
        }
        let output = output_of(&mut ask)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::plain(format!(
                "cargo rustc --print cfg --target {host} failed: {}",
                said.trim()
            )));
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let known: Vec<Cfg> = said.lines().filter_map(|line| line.parse().ok()).collect();
        keys.retain(|key| key.parse::<Platform>().is_ok_and(|platform| platform.matches(host, &known)));
        if let [one, other, ..] = keys[..] {
            return Err(Error::plain(format!(
                "the configuration of Cargo has two runners for {host}, for {one} and for {other}: remove one of \
                 them"
            )));
        }
        Ok(keys.first().and_then(|key| self.command(&["target", key, "runner"], true)))
    }

    /// Returns whether Cargo combines the runner in a configuration file, which is a list of words, with the runner on
    /// the command line, which is `setting`. Old versions of Cargo append the words of `setting` to the list, so that
    /// the file's runner would start the command line's runner.
    pub(super) fn appends(&self, key: &[&str], setting: &str) -> bool {
        let Some(Value::Array(before)) = self.value(key) else { return false };
        let mut words = if self.has_list_in_files(key) { Vec::new() } else { self.words.clone() };
        words.extend(["--config".into(), setting.into()]);
        let after = settings(&words).ok();
        let after = after.as_ref().and_then(|after| at(after, key)?.as_array());
        after.is_some_and(|after| after.starts_with(before))
    }

    /// Returns whether a setting is a list that comes from configuration files, unchanged by the command line.
    pub(super) fn has_list_in_files(&self, key: &[&str]) -> bool {
        let value = self.value(key);
        value.is_some_and(Value::is_array) && value == at(&self.of_files, key)
    }
}

/// Returns the name of the environment variable by which Cargo lets the user change the setting `key`.
pub(super) fn variable(key: &[&str]) -> String {
    format!("CARGO_{}", key.join("_").replace('-', "_").to_uppercase())
}

/// Returns the arguments in `words` that all commands of Cargo accept and that change its configuration: `--config` and
/// `-Z`.
pub(super) fn global_arguments(words: &[OsString]) -> Vec<OsString> {
    let mut global = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_encoded_bytes();
        if word == "--config" || word == "-Z" {
            global.push(word.clone());
            global.extend(words.next().cloned());
        } else if bytes.starts_with(b"--config=") || bytes.starts_with(b"-Z") {
            global.push(word.clone());
        }
    }
    global
}

fn at<'a>(settings: &'a Value, key: &[&str]) -> Option<&'a Value> {
    key.iter().try_fold(settings, |settings, part| settings.get(part))
}

/// Asks Cargo for all settings: those of configuration files, changed by the arguments `words`.
fn settings(words: &[OsString]) -> Result<Value, Error> {
    let output = output_of(&mut get(words, &["--format", "json"]))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Error::plain(format!("cargo config get failed: {}", said.trim()))
    })
}

/// Returns a command that shows Cargo's configuration: `cargo config get` with the arguments `words` and `options`.
fn get(words: &[OsString], options: &[&str]) -> Command {
    let mut command = unstable(&["config".as_ref(), "get".as_ref()]);
    command.args(words).args(options);
    command
}

/// Returns a command that runs an unstable subcommand of Cargo, even if the installed Cargo is a stable version.
fn unstable(words: &[&OsStr]) -> Command {
    let mut command = cargo();
    // With this variable stable Cargo answers, too; it does not affect the build itself.
    command.args(words).arg("-Zunstable-options").env("RUSTC_BOOTSTRAP", "1");
    command
}

/// Returns a command that runs the same Cargo that the user has called.
pub(super) fn cargo() -> Command {
    Command::new(of_cargo("CARGO").unwrap_or_else(|| "cargo".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_change_the_configuration_are_found() {
        let words = ["--release", "--config", "a=1", "-Zx", "-p", "q", "--config=b=2", "-Z", "y"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(global_arguments(&words), ["--config", "a=1", "-Zx", "--config=b=2", "-Z", "y"]);
    }

    #[test]
    fn a_variable_has_the_name_that_cargo_documents() {
        let key = ["target", "x86_64-unknown-linux-gnu", "runner"];
        assert_eq!(variable(&key), "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER");
        assert_eq!(variable(&["build", "rustc-wrapper"]), "CARGO_BUILD_RUSTC_WRAPPER");
    }
}
