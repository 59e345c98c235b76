//! The sources of programs that others wrote: Debian's source packages, and published crates.

use std::path::PathBuf;

use super::Tools;
use crate::failure::{Failure, Result, check};
use crate::shell::Shell;

/// Unpacks a source package of Debian, with Debian's patches. `release` is the release of Debian, which must be named
/// if the package of a newer release does not serve. Returns a shell in the directory of the sources.
pub fn source_package(tools: &Tools, name: &str, release: Option<&str>) -> Result<Shell> {
    let shell = &tools.shell;
    let apt = tools.place().join("apt");
    let option = |name: &str, file: &str| ["-o".to_owned(), format!("{name}={}", apt.join(file).display())];
    let mut options = option("Dir::Etc::SourceList", "sources").to_vec();
    options.extend(option("Dir::State::Lists", "lists"));
    options.extend(
        ["-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root"].map(str::to_owned),
    );
    if !apt.exists() {
        shell.write("apt/lists/partial/.made", "")?;
        // The source packages of Debian's repositories in the machine's own lists; most machines list binary packages
        // only.
        let targets = shell.command("apt-get indextargets").arg("Created-By: Packages").arg("--format");
        let targets = targets.arg("$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)").output()?;
        shell.write("apt/sources", lists_of_sources(&targets.text()))?;
        if shell.read("apt/sources")?.is_empty() {
            return Err(Failure::Skipped("no list of Debian's packages is here".to_owned()));
        }
        had_here("lists of source packages", shell.command("apt-get -q update").args(&options))?;
    }
    let package = format!("package-{name}");
    shell.command("mkdir").arg(&package).done()?;
    let wanted = release.map_or_else(|| name.to_owned(), |release| format!("{name}/{release}"));
    let download = shell.at(&package).command("apt-get -q source --download-only").args(&options).arg(wanted);
    had_here(&format!("source of {name}"), download)?;
    let description =
        shell.files(&package)?.into_iter().find(|path| path.extension().is_some_and(|e| e == "dsc"));
    let description = description.unwrap_or_else(|| PathBuf::from(&package));
    shell.command("dpkg-source --no-check -x").arg(&description).arg(name).done()?;
    println!("{name}: {}", description.file_name().unwrap_or_default().to_string_lossy());
    Ok(shell.at(name))
}

/// Returns the lines of apt's configuration that list the source packages of Debian's repositories among `targets`.
fn lists_of_sources(targets: &str) -> String {
    let mut lines: Vec<&str> = targets.lines().filter_map(|line| line.strip_prefix("Debian|")).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.iter().map(|line| format!("deb-src {}\n", line.replace('|', " "))).collect()
}

/// Runs a command that downloads `what`. If it fails, the task is skipped.
pub fn had_here(what: &str, download: crate::shell::Run) -> Result<()> {
    let output = download.output()?;
    let failure = || Failure::Skipped(format!("no {what} can be had here: {}", output.failure()));
    if output.succeeded() { Ok(()) } else { Err(failure()) }
}

/// Copies a published crate, with the lock file that names the versions of other crates, into the directory `name`.
/// Returns a shell in that directory.
pub fn published_crate(tools: &Tools, name: &str, version: &str) -> Result<Shell> {
    let fetched = tools.shell.at(format!("fetched-{name}"));
    fetched.write("src/main.rs", "fn main() {}\n")?;
    let package = "[package]\nname = \"fetched\"\nversion = \"0.0.0\"\nedition = \"2021\"\n";
    fetched.write("Cargo.toml", format!("{package}[dependencies]\n{name} = \"={version}\"\n"))?;
    fetched.command("cargo fetch -q").done()?;
    let home = fetched.command("sh -c").arg("echo \"${CARGO_HOME:-$HOME/.cargo}\"").done()?;
    let unpacked = fetched.command("find").arg(format!("{}/registry/src", home.text().trim()));
    let unpacked = unpacked
        .args(["-mindepth", "2", "-maxdepth", "2", "-name"])
        .arg(format!("{name}-{version}"))
        .done()?;
    fetched.copy(unpacked.first_line(), tools.place().join(name))?;
    let shell = tools.shell.at(name);
    let lock = shell.read_text("Cargo.lock")?;
    println!("{name} {version}, {} crates", lock.lines().filter(|line| line.starts_with("name = ")).count());
    Ok(shell)
}

/// Copies a published program, and builds it without hooks and with them. Returns a shell in its directory, and the
/// directory that has the program with hooks.
pub fn with_hooks(tools: &Tools, name: &str, version: &str, options: &[&str]) -> Result<(Shell, PathBuf)> {
    let shell = published_crate(tools, name, version)?;
    shell.command("cargo build -q --release --locked --bins").done()?;
    shell.command("cargo tracer build -q --release --locked --bins").args(options).done()?;
    let built = shell
        .command("find target/tracer -maxdepth 5 -type f -executable -path")
        .arg(format!("*/release/{name}*"));
    let built = shell.path(built.done()?.first_line());
    check(built.is_file(), || format!("{name} is built with hooks, but not in target/tracer"))?;
    Ok((shell, built.parent().unwrap_or(&built).to_owned()))
}
