//! The functions of `.ci/install`, which the scripts of CI share with these tasks.

use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::shell::{Output, Shell};

/// Installs the packages of the programs that are missing on this machine. `needed` has pairs of a program and its
/// packages.
pub fn programs(shell: &Shell, needed: &[(&str, &str)]) -> Result<()> {
    let missing = needed.iter().filter(|(program, _)| !shell.finds(program));
    let packages: Vec<&str> = missing.flat_map(|(_, packages)| packages.split(' ')).collect();
    let output = of_script(shell, "packages_installed", &packages)?;
    print!("{}", output.text());
    let failure = || Failure::Skipped(format!("these packages cannot be had here: {}", packages.join(" ")));
    if output.succeeded() { Ok(()) } else { Err(failure()) }
}

/// Returns the directory with the programs that `.ci/fresh` has built from exactly this commit, if there is one.
pub fn built_by_fresh(shell: &Shell) -> Result<Option<PathBuf>> {
    let output = of_script(shell, "built_by_fresh", &[])?;
    Ok(output.succeeded().then(|| output.text().trim().into()))
}

/// Calls a function of the script `.ci/install`.
fn of_script(shell: &Shell, function: &str, arguments: &[&str]) -> Result<Output> {
    let call =
        shell.at(&shell.root).command("bash -c").arg("source .ci/install; \"$@\"").args(["-", function]);
    call.args(arguments).output()
}
