//! A build by Cargo in which the compiler gets the arguments for hooks.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;

use crate::cargo::arguments::BuildRequest;
use crate::cargo::configuration::{Configuration, cargo, global_arguments, variable};
use crate::cargo::toolchain::{Toolchain, output_of};
use crate::cargo::{FAILED, runner, wrapper};
use crate::command::preload::link;
use crate::find::executable::asked_name;
use crate::find::library::{HOOK_OF_RUST, LIBRARY, SEARCHED_PLACES, exports, find_library};
use crate::os::environment::own_program;
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};

/// Runs Cargo with the requested command; returns its exit status.
pub(super) fn build(request: &BuildRequest) -> u8 {
    let (words, _) = split_arguments(&request.rest);
    // The user's own format of Cargo's messages stays as it is, and their reader finds the programs in them.
    let names_programs = request.command == "build" && value_of(words, "--message-format").is_none();
    let built = prepare_cargo(request).and_then(|(mut command, directory)| {
        if names_programs {
            command.arg(PROGRAMS_AS_JSON).stdout(Stdio::piped());
        }
        let output = command.spawn().and_then(Child::wait_with_output);
        let output = output.map_err(|error| Error::plain(format!("cannot run Cargo: {error}")))?;
        Ok((output, directory))
    });
    match built {
        Ok((Output { status, stdout, .. }, directory)) => {
            let is_quiet = request.rest.iter().any(|word| word == "-q" || word == "--quiet");
            if request.command == "build" && status.success() {
                let programs = programs_in(&stdout);
                let paths: Vec<String> =
                    programs.iter().map(|program| format!("\n  {}", shown(program))).collect();
                Messages::new(is_quiet).done(match &programs[..] {
                    [] => format!("built into {}", shown(&directory)),
                    [program] => format!("built {}", shown(program)),
                    _ => format!("built{}", paths.concat()),
                });
            }
            code_of(status)
        }
        Err(error) => {
            Messages::new(false).error(error);
            FAILED
        }
    }
}

/// The option with which Cargo writes the paths of the built programs to standard output as JSON, and its usual
/// messages to standard error.
const PROGRAMS_AS_JSON: &str = "--message-format=json-render-diagnostics";

/// Returns the paths of the programs that Cargo's messages in JSON name, in their order.
fn programs_in(messages: &[u8]) -> Vec<PathBuf> {
    let values =
        messages.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    values.filter_map(|value| Some(PathBuf::from(value.get("executable")?.as_str()?))).collect()
}

fn code_of(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Returns the command that runs Cargo with the options and variables for a build with hooks, and the directory of the
/// programs that it builds.
fn prepare_cargo(request: &BuildRequest) -> Result<(Command, PathBuf), Error> {
    let library = library()?;
    let own =
        own_program().ok_or_else(|| Error::plain("cannot find the path of the running cargo-tracer"))?;
    let (before, behind) = split_arguments(&request.rest);
    let directories = Directories::find(before)?;
    let configuration = Configuration::read(before);
    let toolchain = Toolchain::find(&configuration)?;
    let host = toolchain.host.as_str();
    check_target(before, &configuration, host)?;
    let place = &directories.target;
    let library = linkable(library, place)?;
    // The compiler's own room for hooks is in all functions.
    let is_for_all = request.dormant && request.functions().is_empty();
    let flag = is_for_all.then(|| toolchain.flag_of_sleds(place)).flatten();
    if request.dormant {
        if flag.is_none() {
            toolchain.probe_sleds(place)?;
        }
    } else {
        toolchain.probe(&library, place)?;
        if !request.functions().is_empty() {
            toolchain.probe_choice(&library, place)?;
        }
        if request.leaf {
            toolchain.probe_sleds(place)?;
        }
    }
    let mut command = cargo();
    command.arg(&request.command).args(without_option(before, "--target-dir"));
    if value_of(before, "--target").is_none() {
        command.arg("--target").arg(host);
    }
    let target_directory = build_directory(request, place);
    command.arg("--target-dir").arg(&target_directory);
    // Each of these settings replaces that of the user because it is the last one.
    let mut set = |setting: String| {
        command.arg("--config").arg(setting);
    };
    if let Some(build) = &directories.build {
        set(format!("build.build-dir={}", Value::from(build_directory(request, build).to_string_lossy())));
    }
    // The linker would inline functions together with their hooks, which would then be recorded as calls of the
    // functions around them.
    let profile = value_of(before, "--profile").map(OsStr::to_string_lossy);
    for profile in ["dev", "test", "release", "bench"].into_iter().chain(profile.as_deref()) {
        // Cargo refuses a value of another type than that of a file. In a crate of one unit, `false` means the same.
        let is_flag = configuration.value(&["profile", profile, "lto"]).is_some_and(Value::is_boolean);
        set(format!("profile.{profile}.lto={}", if is_flag { "false" } else { "\"off\"" }));
    }
    let show = if request.command == "run" { request.show.word() } else { "nothing" };
    let key = ["target", host, "runner"];
    let is_line = configuration.value(&key).is_some_and(Value::is_string);
    let runner = runner::setting(host, &own, show, is_line);
    let is_appended = configuration.appends(&key, &runner);
    let chained = configuration.runner(host, before)?.filter(|_| !is_appended);
    // Whether Cargo 1.95 appends a list on the command line to that of a file differs from run to run, if the file and
    // the command line set a profile, too. A variable always replaces the list.
    let by_variable = !is_appended && configuration.has_list_in_files(&key);
    let line = by_variable.then(|| runner::line(&own, show));
    if !by_variable {
        set(runner);
    }
    command.args(behind);
    if let Some(words) = chained {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        command.env(runner::CHAINED, Value::from(words).to_string());
    }
    for (name, chained) in [
        ("RUSTC_WRAPPER", wrapper::CHAINED),
        ("RUSTC_WORKSPACE_WRAPPER", wrapper::CHAINED_FOR_MEMBERS),
        ("RUSTDOC", wrapper::RUSTDOC),
    ] {
        if let Some(other) = configuration.tool(name) {
            command.env(chained, other);
        }
        runner::replace(&mut command, name, Some(&own));
    }
    // Old versions of Cargo would append the user's one to the setting.
    runner::replace(&mut command, &variable(&key), line.as_deref().map(Path::new));
    for (name, is_set) in
        [(wrapper::DEPS, request.deps), (wrapper::DORMANT, request.dormant), (wrapper::LEAF, request.leaf)]
    {
        if is_set {
            command.env(name, "1");
        }
    }
    if let Some(flag) = flag {
        command.env(wrapper::FLAG_OF_SLEDS, flag);
    }
    if !request.crates.is_empty() {
        command.env(wrapper::CRATES, request.crates.join(","));
    }
    if !request.functions().is_empty() {
        command.env(wrapper::FUNCTIONS, request.functions());
    }
    command.env(wrapper::TARGET, host).env(wrapper::LIBRARY, &library);
    Ok((command, target_directory.join(host).join(profile_directory(&request.command, before))))
}

/// Describes the hooks that the compiler can make: the one that Cargo, called with the arguments `words`, would use.
pub(super) fn describe(words: &[OsString]) -> Result<String, Error> {
    let place =
        tempfile::tempdir().map_err(|error| Error::io("create", &tempfile::env::temp_dir(), error))?;
    let library = linkable(library()?, place.path())?;
    Toolchain::find(&Configuration::read(words))?.describe(&library, place.path())
}

/// Returns the path of the installed library `libtracer`; an error if it has no hooks for programs in Rust.
fn library() -> Result<PathBuf, Error> {
    let missing = || {
        Error::plain(format!(
            "{LIBRARY}, which records the functions, is not installed. tracemerge looks for it {SEARCHED_PLACES}"
        ))
    };
    let library = find_library().ok_or_else(missing)?;
    let library = library.canonicalize().map_err(|error| Error::io("examine", &library, error))?;
    if !exports(&library, HOOK_OF_RUST) {
        return Err(Error::plain(format!(
            "{} has no hooks for programs in Rust: it was built by a compiler older than Rust 1.88. To build it with a newer one, run in a checkout: cargo install --force --path tracemerge",
            shown(&library)
        )));
    }
    Ok(library)
}

/// Returns a path from which programs that are linked with the library can load it. Usually this is `library` itself.
/// It is the path of a link to the library, made in `place` (the directory of builds), in two cases:
/// * The path `library` has characters that the dynamic linker would change.
/// * Programs ask for the library by a name that no file beside it has, for example in the directory in which Cargo has
///   built it.
#[expect(clippy::disallowed_methods, reason = "the link is replaced in the directory of builds")]
fn linkable(library: PathBuf, place: &Path) -> Result<PathBuf, Error> {
    let asked = asked_name(&library);
    let is_beside = |name: &String| library.with_file_name(name).exists();
    if is_linkable(&library) && asked.as_ref().is_none_or(is_beside) {
        return Ok(library);
    }
    let name = asked.as_deref().unwrap_or(LIBRARY);
    let linked = || -> io::Result<PathBuf> {
        fs::create_dir_all(place)?;
        let path = place.canonicalize()?.join(name);
        if fs::read_link(&path).is_ok_and(|known| known == library) {
            return Ok(path);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => link(&library, &path)?,
        }
        Ok(path)
    };
    let path = linked().map_err(|error| Error::io("link the library into", place, error))?;
    if is_linkable(&path) {
        return Ok(path);
    }
    Err(Error::plain(format!(
        "programs cannot find {name} in {}, nor by a link in {}: the dynamic linker splits paths at colons and replaces words behind $. Name a directory without these characters with --target-dir",
        shown(library.parent().unwrap_or(&library)),
        shown(place)
    )))
}

/// Returns whether a program can store `path` as the path of a library: the compiler takes only text, and the dynamic
/// linker splits paths at colons and replaces some words after `$`.
fn is_linkable(path: &Path) -> bool {
    let is_special =
        |text: &str| [":", "${", "$ORIGIN", "$LIB", "$PLATFORM"].iter().any(|word| text.contains(word));
    path.to_str().is_some_and(|text| !is_special(text))
}

/// Returns an error if Cargo would build programs for another target than `host`.
fn check_target(words: &[OsString], configuration: &Configuration, host: &str) -> Result<(), Error> {
    let is_host = |target: &OsStr| target == host || target == "host-tuple";
    if let Some(target) = value_of(words, "--target") {
        if is_host(target) {
            return Ok(());
        }
        let target = target.to_string_lossy();
        return Err(Error::plain(format!(
            "only programs for this machine ({host}) can be traced, not programs for {target}: leave out --target"
        )));
    }
    let configured = configuration.command(&["build", "target"], false).unwrap_or_default();
    match configured.first() {
        Some(target) if !configured.iter().any(|target| is_host(target)) => {
            let target = target.to_string_lossy();
            Err(Error::plain(format!(
                "only programs for this machine ({host}) can be traced, not programs for {target}, which the configuration of Cargo names as build.target. To build them for this machine, add --target {host}"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the name of the directory into which Cargo puts the programs of a build: `debug` for the profiles `dev` and
/// `test`, `release` for `release` and `bench`, otherwise the name of the profile.
fn profile_directory(command: &str, words: &[OsString]) -> PathBuf {
    let is_release = command == "bench" || words.iter().any(|word| word == "--release" || word == "-r");
    match value_of(words, "--profile") {
        None if is_release => "release".into(),
        None => "debug".into(),
        Some(profile) if profile == "dev" || profile == "test" => "debug".into(),
        Some(profile) if profile == "bench" => "release".into(),
        Some(profile) => profile.into(),
    }
}

/// Returns the target directory of the build: `place` itself, or a directory in it for a build whose crates or
/// functions were chosen. Cargo does not know that another choice changes the compiled code, so each choice has a
/// directory of its own.
fn build_directory(request: &BuildRequest, place: &Path) -> PathBuf {
    let place = if request.dormant { place.join("dormant") } else { place.to_owned() };
    let functions = request.functions();
    if !request.deps && !request.leaf && request.crates.is_empty() && functions.is_empty() {
        return place;
    }
    let mut crates = request.crates.clone();
    crates.sort();
    let mut hasher = DefaultHasher::new();
    (request.deps, request.leaf, crates, functions).hash(&mut hasher);
    place.join(format!("chosen-{:08x}", hasher.finish() as u32))
}

/// Splits `words` into the arguments of Cargo and the rest from `--` on, which is for the built program.
fn split_arguments(words: &[OsString]) -> (&[OsString], &[OsString]) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.split_at(end)
}

/// Returns the value of `option` on the command line `words`: the word after the option, or the text after `=` in the
/// same word.
pub(super) fn value_of<'a>(words: &'a [OsString], option: &str) -> Option<&'a OsStr> {
    words.iter().enumerate().find_map(|(at, word)| {
        if word == option {
            return words.get(at + 1).map(OsString::as_os_str);
        }
        word.to_str()?.strip_prefix(option)?.strip_prefix('=').map(OsStr::new)
    })
}

/// Returns `words` without the option `option` and its value.
fn without_option(words: &[OsString], option: &str) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = word.to_str().and_then(|word| word.strip_prefix(option));
        match value {
            Some("") => drop(words.next()),
            Some(value) if value.starts_with('=') => {}
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// The directories that all builds of a workspace by `cargo tracer` share.
#[derive(Debug)]
struct Directories {
    /// The directory for built programs: the directory `tracer` in Cargo's target directory.
    target: PathBuf,
    /// The directory for intermediate files, in the form of Cargo's setting `build.build-dir`; `None` if Cargo puts
    /// these files into the directory for programs.
    build: Option<PathBuf>,
}

impl Directories {
    /// Asks Cargo where it builds the workspace if it is called with the arguments `words`.
    fn find(words: &[OsString]) -> Result<Directories, Error> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]).args(global_arguments(words));
        if let Some(manifest) = value_of(words, "--manifest-path") {
            command.arg("--manifest-path").arg(manifest);
        }
        let output = output_of(&mut command)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(Error::plain(format!("Cargo finds no workspace: {}", said.trim())));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let path = |name: &str| metadata.get(name).and_then(Value::as_str);
        let target = path("target_directory")
            .ok_or_else(|| Error::plain("cargo metadata names no target directory"))?;
        // Without another setting, the files are in the directory for programs. Older versions know no other one.
        let build = path("build_directory").filter(|build| *build != target);
        let build = build.map(|build| without_braces(Path::new(build)).join("tracer"));
        let target = value_of(words, "--target-dir").unwrap_or(OsStr::new(target));
        Ok(Directories { target: Path::new(target).join("tracer"), build })
    }
}

/// Returns a path of `directory` that is a valid value of the setting `build.build-dir`: Cargo replaces words in braces
/// in this value, so an absolute path with braces becomes a path relative to the current directory.
fn without_braces(directory: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    let has_braces = directory.to_string_lossy().contains(['{', '}']);
    let from_above = |(levels, above): (usize, &Path)| {
        let rest = directory.strip_prefix(above).ok()?;
        Some(std::iter::repeat_n(Path::new(".."), levels).collect::<PathBuf>().join(rest))
    };
    let mut places = here.ancestors().enumerate().filter(|_| has_braces);
    places.find_map(from_above).unwrap_or_else(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_whose_path_a_program_cannot_contain_gets_a_link() {
        let place = tempfile::tempdir().expect("a directory");
        let of = |path: &str| place.path().join(path);
        for path in ["a b/$HOME/lib", "x,'\"{é}/lib"] {
            assert_eq!(linkable(of(path), &of("unused")).expect("it needs no link"), of(path));
        }
        for path in ["a:b/lib", "$ORIGIN/lib", "${LIB}/lib", "$PLATFORM:x/lib"] {
            // An earlier build has made the link to another library.
            let linked = linkable(of(path), &of("$HOME builds")).expect("a link");
            assert_eq!(
                linked.parent().expect("a directory"),
                of("$HOME builds").canonicalize().expect("it exists")
            );
            assert_eq!(fs::read_link(&linked).expect("a link"), of(path));
        }
        let refused = linkable(of("a:b/lib"), &of("c:d")).expect_err("neither path can be in a program");
        assert!(refused.to_string().contains("--target-dir"), "{refused}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_a_file_of_the_name_that_programs_ask_for_gets_a_link_of_that_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let of = |path: &str| directory.path().join(path);
        let built = of("libtracer_capi.so");
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-Wl,-soname,libother.so.3", "-x", "c", "/dev/null", "-o"]).arg(&built);
        assert!(cc.status().expect("it compiles").success());
        let linked = linkable(built.clone(), &of("builds")).expect("a link");
        assert_eq!(linked, of("builds").canonicalize().expect("it exists").join("libother.so.3"));
        assert_eq!(fs::read_link(&linked).expect("a link"), built);
        link(&built, &of("libother.so.3")).expect("a link");
        assert_eq!(linkable(built.clone(), &of("builds")).expect("it needs no link"), built);
    }

    #[test]
    fn an_option_is_removed_with_its_value() {
        let words =
            ["-q", "--target-dir", "a", "--target-dirs", "--target-dir=b", "--bin", "c", "--target-dir"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(without_option(&words, "--target-dir"), ["-q", "--target-dirs", "--bin", "c"]);
    }
}
