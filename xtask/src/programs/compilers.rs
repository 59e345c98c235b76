//! Hooks by compilers of Rust of several ages.

use super::Tools;
use super::counts::Counts;
use crate::failure::{Named, Result, fail};
use crate::shell::Shell;

/// Builds and runs a workspace with hooks by compilers of Rust of several ages. Reports those that cannot be installed.
pub fn toolchains(tools: &Tools) -> Result<()> {
    for version in ["1.70.0", "1.85.0", "stable", "nightly"] {
        let rustup = |words: &str| tools.shell.command(&words.replace("VERSION", version)).output();
        let here = rustup("rustup run VERSION rustc --version").is_ok_and(|output| output.succeeded());
        if !here
            && !rustup("rustup toolchain install VERSION --profile minimal")
                .is_ok_and(|output| output.succeeded())
        {
            println!("{version}: cannot be had here");
            continue;
        }
        print!("{}", rustup("rustup run VERSION rustc --version")?.text());
        tools.shell.remove("workspace")?;
        tools.shell.copy(tools.shell.root.join("tracer/capi/tests/workspace"), "workspace")?;
        let shell = tools.shell.at("workspace");
        let list = shell.command(&format!("cargo +{version} tracer --list")).done()?;
        println!(
            "{version}: {}",
            list.text().lines().find(|line| line.starts_with("--dormant")).unwrap_or_default()
        );
        for (hooks, option) in [("--hooks", None), ("--dormant", Some("--dormant"))] {
            println!("{version} {hooks}: {}", counts_with(&shell, version, option)?);
        }
    }
    Ok(())
}

/// Runs a workspace that counts its own calls, built by a compiler of this version with the hooks that `option`
/// chooses, and compares the counts with the report. Returns a sentence about the result. If the compiler cannot make
/// such hooks, the command must say so, with the reason, which is then the result.
fn counts_with(shell: &Shell, version: &str, option: Option<&str>) -> Result<String> {
    let run = format!("cargo +{version} tracer run -q --release --show nothing");
    let run = shell.command(&run).args(option).output()?;
    if !run.succeeded() {
        let said = run.said();
        let reason = said.lines().find_map(|line| Some(&line[line.find("cannot compile programs with")?..]));
        return Ok(reason.named(run.failure())?.chars().take(150).collect());
    }
    let is_program = |path: &&std::path::PathBuf| {
        path.ends_with("release/the-app") && path.iter().any(|part| part == "dormant") == option.is_some()
    };
    let files = shell.files("target/tracer")?;
    let program = files.iter().find(is_program).named("the program is not in target/tracer")?;
    let report = shell.command("tracemerge report --rows all").arg(program).done()?;
    match compare(&run.text(), &Counts::of_report(&report.text())) {
        Ok(()) => Ok("all counts are the same".to_owned()),
        Err(reason) => fail(format!("{version} {option:?}: {reason}")),
    }
}

/// Compares the counts that the program prints, `called NAME COUNT`, with those of the report, which also has other
/// functions.
fn compare(printed: &str, report: &Counts) -> std::result::Result<(), String> {
    let called = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["called", name, count] => Some((name.to_owned(), count.parse().ok()?)),
        _ => None,
    };
    let counted: Counts = printed.lines().filter_map(called).collect();
    let shown = report.clone().only(|name| counted.names().contains(&name));
    // A function that was not called is not in the report.
    let differences = shown.differences(&counted.only_called());
    match differences.is_empty() && counted.len() >= 5 {
        true => Ok(()),
        false => {
            Err(format!("{} functions count their calls, and these differ: {differences:?}", counted.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "called a 1\ncalled b 2\nother\ncalled c 3\ncalled d 4\ncalled e 5\ncalled never 0\n";

    #[test]
    fn the_report_has_the_counts_of_the_program() {
        let report: Counts =
            [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("main", 1)].into_iter().collect();
        assert_eq!(compare(PRINTED, &report), Ok(()));
        assert!(compare(PRINTED, &report.clone().only(|name| name != "c")).is_err());
        assert!(compare(&PRINTED.replace("b 2", "b 3"), &report).is_err());
        assert!(compare("called a 1\n", &report).is_err());
    }
}
