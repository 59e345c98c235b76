//! Published programs in Rust, which `cargo tracer` builds with hooks, and whose counts are compared with those of
//! callgrind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sources::{had_here, with_hooks};
use super::{Tools, clean, counts_of_callgrind, counts_of_report, same_counts, same_output};
use crate::failure::{Failure, Result, check, fail};
use crate::install;
use crate::shell::{Run, Shell, free_port};

/// Returns the command that runs a program with hooks under callgrind, which then counts exactly the recorded calls.
fn under_callgrind(shell: &Shell, program: &Path) -> Run {
    let callgrind =
        shell.command("valgrind -q --tool=callgrind --demangle=no --callgrind-out-file=callgrind.out");
    callgrind.arg(program).env("TRACER_ENABLE", "1")
}

/// Whether a program may end inside of calls, because it exits in a function.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Inside,
    Outside,
}

/// Compares the recorded calls of a program with callgrind's counts of how often each function has called the hook for
/// an entry. Checks that each thread leaves the calls that it has entered, in order. Returns the names of the
/// functions.
fn compare_with_callgrind(shell: &Shell, what: &str, program: &Path, ends: Ends) -> Result<Vec<String>> {
    let program = &program.display().to_string();
    let checked = shell.command("tracemerge check").arg(program).output()?;
    let all = format!("{}{}", checked.text(), checked.said());
    let whole = |line: &str| line.starts_with("whole: ") && line.contains(" 0 lost, 0 torn, in order");
    check(checked.succeeded() && all.lines().any(whole), || format!("{what}: {all}"))?;
    shell.command("tracemerge -q -o merged").arg(program).done()?;
    match open_calls(&shell.read_text("merged")?, ends) {
        Ok(threads) => println!("{threads} threads"),
        Err(reason) => return fail(format!("{what}: {reason}")),
    }
    let ours = counts_of_report(shell, program)?.clipped();
    let theirs = counts_of_callgrind(shell, Some("__tsan_func_entry"))?.clipped();
    let names = ours.names().into_iter().map(str::to_owned).collect();
    same_counts(shell, what, program, ours, &theirs)?;
    Ok(names)
}

/// Checks in the merged lines that each thread leaves the calls that it has entered, except calls in which the program
/// may end. Returns the number of threads.
fn open_calls(merged: &str, ends: Ends) -> std::result::Result<usize, String> {
    let mut depths = BTreeMap::new();
    for line in merged.lines() {
        let mut fields = line.split_whitespace();
        let (Some((_, thread)), Some(mark)) =
            (fields.next().and_then(|key| key.split_once('-')), fields.next())
        else {
            continue;
        };
        let step = match mark {
            ">" => 1,
            "<" => -1,
            _ => continue,
        };
        let depth: &mut i64 = depths.entry(thread).or_default();
        *depth += step;
        if *depth < 0 {
            return Err(format!("a left call was not entered: {line}"));
        }
    }
    match depths.iter().find(|(_, depth)| **depth != 0) {
        Some((thread, depth)) if ends == Ends::Outside => {
            Err(format!("thread {thread} has not left {depth} calls"))
        }
        _ if depths.is_empty() => Err("no thread has entered a call".to_owned()),
        _ => Ok(depths.len()),
    }
}

/// Compares the output of a program with hooks with that of its build without hooks, and its recorded calls with
/// callgrind's counts.
fn compare_runs(built: &(Shell, PathBuf), name: &str, what: &str, arguments: &[&str]) -> Result<()> {
    let (shell, directory) = built;
    let program = directory.join(name);
    let untraced = shell.command(&format!("target/release/{name}")).args(arguments).done()?.stdout;
    let traced = under_callgrind(shell, &program).args(arguments).done()?.stdout;
    same_output(what, &untraced, &traced)?;
    compare_with_callgrind(shell, what, &program, Ends::Outside).map(drop)
}

/// Runs jaq with a workload of JSON and of regular expressions; all crates of the program are traced.
pub fn json(tools: &Tools) -> Result<()> {
    let built = with_hooks(tools, "jaq", "2.3.0", &["--deps"])?;
    built.0.write("rows.json", include_str!("../../inputs/rows.json"))?;
    let filter = include_str!("../../inputs/rows.jq");
    compare_runs(&built, "jaq", "jaq, with what it depends on", &["-c", filter, "rows.json"])
}

/// Runs hexyl, a command-line tool of which only its own crate is traced. Its author has it optimized when it is
/// linked.
pub fn tool(tools: &Tools) -> Result<()> {
    let built = with_hooks(tools, "hexyl", "0.16.0", &[])?;
    let bytes = built.0.read("target/release/hexyl")?;
    built.0.write("input", &bytes[..3000])?;
    compare_runs(&built, "hexyl", "hexyl", &["--color", "always", "input"])
}

/// Runs the program of a published workspace of 49 packages, one of which has a build script that needs another
/// package. The functions of its members are traced, without those that a pattern leaves out. A runner that the
/// configuration of cargo states, callgrind, starts the program.
pub fn workspace(tools: &Tools) -> Result<()> {
    let name = "tombi-1.9.6";
    let sum = "a74860db37b090319d624a9cbf0386893fa5b7c476cc508da94eb5331a629305";
    if !tools.shell.command("python3 -m pip --version").output().is_ok_and(|output| output.succeeded()) {
        install::programs(&tools.shell, &[("pip of python3", "python3-pip")])?;
    }
    let download =
        "python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary tombi tombi==1.9.6";
    had_here("source of tombi", tools.shell.command(download))?;
    let archive = format!("{name}.tar.gz");
    tools.shell.command("sha256sum --check --quiet").input(format!("{sum}  {archive}\n")).done()?;
    tools.shell.command("tar -xf").arg(archive).done()?;
    let mut shell = tools.shell.at(name);
    let number = |find: &str| Ok(shell.command(find).done()?.text().lines().count());
    let members = number("find crates extensions rust -mindepth 2 -maxdepth 2 -name Cargo.toml")?;
    println!("{name}: {members} members, {} build script", number("find -name build.rs")?);
    // With all debug information, names would need more memory than `report` takes.
    shell.write(".cargo/config.toml", include_str!("../../inputs/callgrind_runner.toml"))?;
    shell.write("good.toml", include_str!("../../inputs/format.toml"))?;
    shell.write("bad.toml", "x =\n")?;
    let cache = shell.path("cache");
    shell.set("XDG_CACHE_HOME", cache);
    shell.set("TRACER_MAX_STALL", "60s");
    let options =
        ["-q", "-p", "tombi-cli", "--bin", "tombi", "--exclude", "tombi_lsp::*", "--exclude", "fmt"];
    shell.command("cargo tracer build").args(options).done()?;
    let program = shell.file_below("target/tracer", "debug/tombi")?;
    for arguments in ["format --offline -", "format --offline --check good.toml", "lint --offline bad.toml"] {
        let run = |run: Run| run.args(arguments.split(' ')).input_file(shell.path("good.toml")).output();
        let untraced = run(shell.program(program.clone().into()))?;
        let traced = run(shell.command("cargo tracer run").args(options).args(["--show", "nothing", "--"]))?;
        same_output("tombi", &untraced.stdout, &traced.stdout)?;
        let said = without_messages_of_valgrind(&traced.said());
        check(said == untraced.said(), || format!("tombi says something else when it is traced: {said}"))?;
        let both = (traced.status(), untraced.status());
        check(both.0 == both.1, || format!("tombi {arguments} ends with {both:?}, traced and untraced"))?;
        let what = format!("tombi {arguments}, status {}", untraced.status().unwrap_or(-1));
        let names = compare_with_callgrind(&shell, &what, &program, Ends::Inside)?;
        let excluded = names.iter().find(|name| name.starts_with("tombi_lsp::"));
        check(excluded.is_none(), || {
            format!("a function that a pattern leaves out is traced: {excluded:?}")
        })?;
        clean(&shell, &program.display().to_string())?;
    }
    Ok(())
}

/// Leaves out the lines in which valgrind speaks of itself: they begin with `--`, its process id and `--`.
fn without_messages_of_valgrind(said: &str) -> String {
    let of_valgrind = |line: &str| {
        let rest = line.strip_prefix("--").and_then(|line| line.split_once("-- "));
        rest.is_some_and(|(id, _)| id.bytes().all(|byte| byte.is_ascii_digit()))
    };
    said.split_inclusive('\n').filter(|line| !of_valgrind(line)).collect()
}

/// Runs mini-redis, a server with several threads; all of its crates are traced.
pub fn server(tools: &Tools) -> Result<()> {
    let (shell, built) = with_hooks(tools, "mini-redis", "0.4.1", &["--deps"])?;
    let program = built.join("mini-redis-server");
    let untraced = answers(&shell, shell.command("target/release/mini-redis-server"))?;
    let traced = answers(&shell, under_callgrind(&shell, &program))?;
    check(untraced == traced, || "the server answers something else when it is traced".to_owned())?;
    compare_with_callgrind(&shell, "mini-redis-server, with what it depends on", &program, Ends::Outside)
        .map(drop)
}

/// Starts a server, sends it some requests, and ends it. Returns its answers.
fn answers(shell: &Shell, server: Run) -> Result<String> {
    let port = free_port()?;
    let server = server.args(["--port", &port.to_string()]).start(shell.path("printed"))?;
    let ask = |arguments: &[&str]| {
        let client = shell.command("timeout 20 target/release/mini-redis-cli --port").arg(port.to_string());
        client.args(arguments).output()
    };
    for _ in 0..100 {
        if ask(&["get", "nothing"])?.succeeded() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut answers = String::new();
    for number in 1..=20 {
        let key = format!("key {number}");
        for request in [&["set", &key, &format!("value {number}")][..], &["get", &key]] {
            let output = ask(request)?;
            let reason =
                || Failure::Failed(format!("{}\nthe server: {}", output.failure(), server.printed()));
            output.succeeded().then_some(()).ok_or_else(reason)?;
            answers += &output.text();
            answers += &output.said();
        }
    }
    let id = server.id();
    server.interrupt(shell, id)?;
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_left_in_order_on_each_thread() {
        let good = "01-7 > f\n02-8 > f\n03-7 < f\n04-8 < f\n05-8 : text\n";
        assert_eq!(open_calls(good, Ends::Outside), Ok(2));
        let open = "01-7 > f\n02-7 > g\n03-7 < g\n";
        assert_eq!(open_calls(open, Ends::Inside), Ok(1));
        assert!(open_calls(open, Ends::Outside).is_err());
        assert!(open_calls("01-7 > f\n02-8 < f\n", Ends::Inside).is_err());
        assert!(open_calls("01-7 : text\n", Ends::Inside).is_err());
    }

    #[test]
    fn messages_of_valgrind_are_left_out() {
        assert_eq!(
            without_messages_of_valgrind("--12-- brk\nan error\n--x-- kept\n"),
            "an error\n--x-- kept\n"
        );
    }
}
