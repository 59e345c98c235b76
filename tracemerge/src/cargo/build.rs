//! A build by Cargo in which the compiler gets the arguments for hooks.

use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::cargo::arguments::BuildRequest;
use crate::cargo::toolchain::{Toolchain, output_of};
use crate::cargo::{FAILED, runner, wrapper};
use crate::find::library::{HOOK_OF_RUST, LIBRARY, SEARCHED_PLACES, exports, find_library};
use crate::os::environment::{is_set, of_cargo, own_program};
use crate::ui::error::Error;
use crate::ui::messages::{Messages, shown};

/// Runs Cargo with the requested command; returns its exit status.
pub fn build(request: &BuildRequest) -> u8 {
    let status = prepare_cargo(request).and_then(|(mut command, directory)| {
        let status = command.status().map_err(|error| Error::plain(format!("cannot run Cargo: {error}")))?;
        Ok((status, directory))
    });
    match status {
        Ok((status, directory)) => {
            let is_quiet = request.rest.iter().any(|word| word == "-q" || word == "--quiet");
            if request.command == "build" && status.success() {
                Messages::new(is_quiet).done(format_args!("built into {}", shown(&directory)));
            }
            code_of(status)
        }
        Err(error) => {
            Messages::new(false).error(error);
            FAILED
        }
    }
}

fn code_of(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)
}

/// Returns the command that runs Cargo, with all that a build with hooks needs, and the directory of the programs that
/// it builds.
fn prepare_cargo(request: &BuildRequest) -> Result<(Command, PathBuf), Error> {
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
    let own = own_program().ok_or_else(|| Error::plain("the path of this program is not known"))?;
    let toolchain = Toolchain::find()?;
    let (before, _) = split_arguments(&request.rest);
    if let Some(target) = value_of(before, "--target").filter(|target| *target != toolchain.host.as_str()) {
        let (target, host) = (target.to_string_lossy(), &toolchain.host);
        return Err(Error::plain(format!(
            "only programs for this machine ({host}) can be traced, not programs for {target}"
        )));
    }
    let place = target_directory(before)?.join("tracer");
    if request.dormant {
        toolchain.probe_sleds(&place)?;
    } else {
        toolchain.probe(&library, &place)?;
        if !request.functions().is_empty() {
            toolchain.probe_choice(&library, &place)?;
        }
        if request.leaf {
            toolchain.probe_sleds(&place)?;
        }
    }
    let mut command = cargo();
    command.arg(&request.command);
    if value_of(before, "--target").is_none() {
        command.arg("--target").arg(&toolchain.host);
    }
    let target_directory = value_of(before, "--target-dir").map(PathBuf::from);
    let target_directory = target_directory.unwrap_or_else(|| {
        let directory = build_directory(request, place);
        command.arg("--target-dir").arg(&directory);
        directory
    });
    // The linker would inline functions together with their hooks, which would then be recorded as calls of the
    // functions around them.
    let profile = value_of(before, "--profile").map(OsStr::to_string_lossy);
    for profile in ["dev", "test", "release", "bench"].into_iter().chain(profile.as_deref()) {
        command.arg("--config").arg(format!("profile.{profile}.lto=\"off\""));
    }
    let show = if request.command == "run" { request.show.word() } else { "nothing" };
    command.arg("--config").arg(runner::setting(&toolchain.host, &own, show)?);
    command.args(&request.rest);
    let variable = if request.deps { "RUSTC_WRAPPER" } else { "RUSTC_WORKSPACE_WRAPPER" };
    if let Some(other) = wrapper_of_user(variable) {
        command.env(wrapper::CHAINED, other);
    }
    if let Some(rustdoc) = of_cargo("RUSTDOC") {
        command.env(wrapper::RUSTDOC, rustdoc);
    }
    if request.dormant {
        command.env(wrapper::DORMANT, "1");
    }
    if request.leaf {
        command.env(wrapper::LEAF, "1");
    }
    if !request.crates.is_empty() {
        command.env(wrapper::CRATES, request.crates.join(","));
    }
    if !request.functions().is_empty() {
        command.env(wrapper::FUNCTIONS, request.functions());
    }
    command.env(variable, &own).env("RUSTDOC", &own).env(wrapper::LIBRARY, &library);
    Ok((command, target_directory.join(&toolchain.host).join(profile_directory(before))))
}

/// Returns the name of the directory of a build's profile. Cargo's own profiles `dev` and `bench` have those of `debug`
/// and `release`.
fn profile_directory(words: &[OsString]) -> PathBuf {
    let is_release = words.iter().any(|word| word == "--release" || word == "-r");
    match value_of(words, "--profile") {
        None if is_release => "release".into(),
        None => "debug".into(),
        Some(profile) if profile == "dev" || profile == "test" => "debug".into(),
        Some(profile) if profile == "bench" => "release".into(),
        Some(profile) => profile.into(),
    }
}

/// Returns the directory of the build. Cargo does not know that another choice of crates or functions changes the
/// compiled code, so each choice has a directory of its own.
fn build_directory(request: &BuildRequest, place: PathBuf) -> PathBuf {
    let place = if request.dormant { place.join("dormant") } else { place };
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

/// Returns the arguments of Cargo, and the rest from `--` on.
fn split_arguments(words: &[OsString]) -> (&[OsString], &[OsString]) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.split_at(end)
}

/// Returns the value of an option, which is the next word or follows `=`.
fn value_of<'a>(words: &'a [OsString], option: &str) -> Option<&'a OsStr> {
    words.iter().enumerate().find_map(|(at, word)| {
        if word == option {
            return words.get(at + 1).map(OsString::as_os_str);
        }
        word.to_str()?.strip_prefix(option)?.strip_prefix('=').map(OsStr::new)
    })
}

/// Returns the compiler's wrapper that the user has set by this variable of Cargo's or in a configuration file. This
/// build sets the same variable, which would replace the user's wrapper.
fn wrapper_of_user(variable: &str) -> Option<OsString> {
    if is_set(variable) {
        return of_cargo(variable);
    }
    let key = format!("build.{}", variable.to_ascii_lowercase().replace('_', "-"));
    let mut ask = cargo();
    ask.args(["-Zunstable-options", "config", "get", "--show-origin", &key]);
    // With this variable stable Cargo answers, too; it does not affect the build itself. A key that is not set is an
    // error.
    let output = ask.env("RUSTC_BOOTSTRAP", "1").output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let (value, origin) = said.strip_prefix(&key)?.strip_prefix(" = ")?.rsplit_once(" # ")?;
    // A TOML string is a JSON string, unless it contains quotes.
    let value: String = serde_json::from_str(value).ok()?;
    let named = Path::new(&value);
    // Reads the value as Cargo does: a name alone is searched in `PATH`; a path is relative to the parent of the
    // file's directory.
    let is_path = named.components().count() > 1;
    let place = Path::new(origin.trim()).parent().and_then(Path::parent).filter(|_| is_path);
    Some(place.map_or_else(|| named.into(), |place| place.join(named)).into())
}

/// Asks Cargo for the directory into which the workspace is built.
fn target_directory(words: &[OsString]) -> Result<PathBuf, Error> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    if let Some(manifest) = value_of(words, "--manifest-path") {
        command.arg("--manifest-path").arg(manifest);
    }
    let output = output_of(&mut command)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Error::plain(format!("Cargo finds no workspace: {}", said.trim())));
    }
    let metadata: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
    let directory = metadata.as_ref().and_then(|metadata| metadata.get("target_directory")?.as_str());
    directory.map(PathBuf::from).ok_or_else(|| Error::plain("cargo metadata names no target directory"))
}

/// Returns a command that runs Cargo, the same that the user has called.
fn cargo() -> Command {
    Command::new(of_cargo("CARGO").unwrap_or_else(|| "cargo".into()))
}
