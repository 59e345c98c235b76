//! Programs whose threads wait: for locks, or for room in the tracer's rings.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::Value;

use super::Tools;
use super::sources::{published_crate, source_package};
use crate::failure::{Named, Result, check, fail};
use crate::shell::{Run, Shell, free_port};

/// Runs an unchanged program whose threads compete for locks of `std`: each of its waits must be recorded with its
/// place.
pub fn futexes(tools: &Tools) -> Result<()> {
    let built = tools.place().join("futex");
    let build =
        tools.shell.at(&tools.shell.root).command("cargo build -q --release -p tracer-capi --features futex");
    build.arg("--target-dir").arg(&built).done()?;
    let shell = &tools.shell.at("app");
    shell.write("app.rs", include_str!("../../inputs/locks.rs"))?;
    shell.command("rustc -O -Cdebuginfo=line-tables-only app.rs").done()?;
    let library = built.join("release/libtracer_capi.so");
    let run = shell.command("./app").env("TRACER_ENABLE", "1").env("LD_PRELOAD", library).done()?;
    check(run.text().trim() == "9", || format!("the program counts wrongly: {}", run.text()))?;
    shell.command("tracemerge check ./app").done()?;
    let locks = shell.command("tracemerge locks ./app").done()?;
    let locks = locks.text();
    print!("{locks}");
    // Each thread holds the mutex for 20 ms and wants it again at once, so the others wait in `hold`, and one of them
    // wakes the next.
    let is_wait = |line: &str| {
        let word = line.strip_prefix("word 0x").and_then(|line| line.split_once(" (")).map(|(_, rest)| rest);
        let rest = word.and_then(|rest| rest.split_once("app.rs:")).map_or("", |(_, rest)| rest);
        let waits = ["3): ", "9): "].iter().find_map(|end| rest.strip_prefix(end)).unwrap_or_default();
        waits.starts_with(|c: char| c.is_ascii_digit()) && waits.contains(" waits")
    };
    check(locks.lines().any(is_wait), || "no thread waits in the program".to_owned())?;
    let is_woken = |line: &str| {
        let woken = line.split_once("app.rs:3 ").and_then(|(_, rest)| rest.split_whitespace().next());
        woken.is_some_and(|thread| ["one", "two", "three", "main"].contains(&thread))
    };
    check(locks.lines().any(is_woken), || "no thread that waits in hold is woken".to_owned())?;
    check(!locks.contains("not ended"), || "a wait has not ended".to_owned())
}

/// Runs Redis, a server in C, under load; its threads name themselves after their first records.
pub fn redis(tools: &Tools) -> Result<()> {
    let shell = &source_package(tools, "redis", None)?.at("src");
    let jobs = std::thread::available_parallelism().named("cannot count processors")?;
    let make = shell.command(
        "make -s MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=-O1 DEBUG=-g1 redis-server redis-benchmark",
    );
    make.arg(format!("-j{jobs}")).arg("REDIS_CFLAGS=-finstrument-functions -w").done()?;
    let port = free_port()?.to_string();
    let server = shell
        .command("tracemerge run -q --symbols -o merged ./redis-server --save")
        .args(["", "--port", &port]);
    let server = server.env("TRACER_RING_SIZE", "64K").start(shell.path("printed"))?;
    server.accepts(port.parse().named("the port")?)?;
    // It has a title with its port.
    let title = format!("redis-server *:{port}");
    let process = processes(&title)?;
    let [process] = &process[..] else {
        return fail(format!("{} processes have the title {title}", process.len()));
    };
    shell.command("./redis-benchmark -n 1000 -c 20 -q -t set,lpush -p").arg(&port).done()?;
    let threads = names_of_threads(process)?;
    check(threads.len() >= 3, || format!("the server has no threads of its own: {threads:?}"))?;
    let id = process.file_name().and_then(|name| name.to_str()?.parse().ok()).named("a process id")?;
    server.interrupt(shell, id)?;
    let info = json(shell.command("tracemerge info --json ./redis-server"))?;
    let named: BTreeMap<u64, &str> = items(&info["runs"])
        .flat_map(|run| items(&run["threads"]))
        .filter_map(|thread| Some((thread["tid"].as_u64()?, thread["name"].as_str()?)))
        .collect();
    for (id, name) in &threads {
        check(named.get(id) == Some(&name.as_str()), || {
            format!("the thread {id} {name} is {:?} in the trace", named.get(id))
        })?;
        println!("its thread {id} {name}");
    }
    times_are_true(shell, "./redis-server")
}

/// Returns the directories in /proc of the processes whose command lines contain `title`.
fn processes(title: &str) -> Result<Vec<std::path::PathBuf>> {
    let all =
        std::fs::read_dir("/proc").named("cannot read /proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    let has_title = |path: &std::path::PathBuf| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(title))
    };
    Ok(all.filter(has_title).collect())
}

/// Returns the names of the threads of a process, as the system shows them, by thread id: without the first thread, and
/// without those of the tracer.
fn names_of_threads(process: &Path) -> Result<BTreeMap<u64, String>> {
    let mut names = BTreeMap::new();
    for entry in std::fs::read_dir(process.join("task")).named("cannot read the threads of the server")? {
        let path = entry.named("cannot read the threads of the server")?.path();
        let name = std::fs::read_to_string(path.join("comm"))
            .named("cannot read the name of a thread")?
            .trim()
            .to_owned();
        let id = path
            .file_name()
            .filter(|id| Some(*id) != process.file_name())
            .and_then(|id| id.to_str()?.parse().ok());
        if let (Some(id), false) = (id, name.starts_with("tracer-")) {
            names.insert(id, name);
        }
    }
    Ok(names)
}

/// Runs fd, a search through many directories with a thread for each processor.
pub fn fd(tools: &Tools) -> Result<()> {
    let shell = &published_crate(tools, "fd-find", "10.2.0")?;
    let build = shell
        .command("cargo tracer build -q --release --locked --bins")
        .env("CARGO_PROFILE_RELEASE_LTO", "off");
    build
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .done()?;
    let program = shell.file_below("target/tracer", "release/fd")?.display().to_string();
    let searched = shell.root.join("tracemerge");
    let traced = shell.command("tracemerge run -q --symbols -o merged").args([&program, "."]).arg(&searched);
    let traced = traced.env("TRACER_RING_SIZE", "64K").done()?;
    let untraced = shell.command(&program).arg(".").arg(&searched).done()?;
    // The order of the files that several threads find differs.
    let [traced, untraced] = [traced, untraced].map(|run| {
        let mut lines: Vec<String> = run.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    });
    check(traced == untraced, || "fd finds something else when it is traced".to_owned())?;
    times_are_true(shell, &program)
}

/// Checks the trace of a program, whose merged file with names is `merged`: the longest calls in the report must not
/// include waits for the tracer, although threads have waited, and the times in the tree must never decrease.
fn times_are_true(shell: &Shell, program: &str) -> Result<()> {
    let merged = shell.read_text("merged")?;
    check(merged.contains(" # wait "), || format!("no thread of {program} has waited for the tracer"))?;
    let info = json(shell.command("tracemerge info --json").arg(program))?;
    let rate =
        info["runs"][0]["clock"]["ticks_per_second"].as_f64().named("info has no rate of the clock")?;
    let report = json(shell.command("tracemerge report --json --rows all").arg(program))?;
    let mut reported = Vec::new();
    for function in items(&report["functions"]) {
        let words =
            |key: &str| function[key].as_str().map_or_else(|| function[key].to_string(), str::to_owned);
        let longest = function["max_ns"].as_f64().named("the report has no longest call")?;
        reported.push((format!("{} at {}", words("function"), words("place")), longest));
    }
    let (all, wrong) = compare_longest(&longest_calls(&merged, rate), &reported);
    for line in &wrong {
        println!("{line}");
    }
    println!("{all} functions have their longest calls without waits for the tracer");
    check(wrong.is_empty() && all >= 50, || {
        format!("the report of {program}: {} of {all} are wrong", wrong.len())
    })?;
    shell.command("tracemerge tree -q -o tree").arg(program).done()?;
    let tree = shell.read_text("tree")?;
    let (lines, back) = decreasing(&tree);
    check(back.is_none() && lines >= 1000, || {
        format!("the tree of {program}, of {lines} lines, goes back: {back:?}")
    })
}

/// Runs a command that prints JSON. Returns its parsed output.
fn json(run: Run) -> Result<Value> {
    let output = run.done()?;
    serde_json::from_slice(&output.stdout).named(output.shown())
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Compares the longest calls of functions, in nanoseconds, with those of the report. Returns the number of functions
/// that both have, and a line for each whose longest calls differ.
fn compare_longest(longest: &BTreeMap<String, f64>, reported: &[(String, f64)]) -> (usize, Vec<String>) {
    let both: Vec<_> =
        reported.iter().filter_map(|(name, given)| Some((name, *given, *longest.get(name)?))).collect();
    // The rate in the report is rounded.
    let differs =
        both.iter().filter(|(_, given, expected)| (given - expected).abs() > 20.0 + expected / 10_000.0);
    let line = |(name, given, expected): &(_, _, _)| {
        format!("the longest call of {name} took {expected} ns, and the report says {given}")
    };
    (both.len(), differs.map(line).collect())
}

/// Returns the duration of the longest ended call of each function in a merged file with names, by function and place,
/// in nanoseconds. Functions of which a call is still open are left out. The durations do not include the thread's
/// waits for the tracer: of each wait, the part inside the call is subtracted. `rate` is the number of ticks in a
/// second.
fn longest_calls(merged: &str, rate: f64) -> BTreeMap<String, f64> {
    /// A thread's open calls, each with its function, its first ticks and the number of waits before it, and all of the
    /// thread's waits.
    #[derive(Default)]
    struct Thread<'a> {
        open: Vec<(&'a str, i64, usize)>,
        waits: Vec<(i64, i64)>,
    }
    let mut threads: HashMap<&str, Thread<'_>> = HashMap::new();
    let mut longest: BTreeMap<&str, i64> = BTreeMap::new();
    for line in merged.lines() {
        let Some((key, text)) = line.split_once(' ') else { continue };
        let Some((at, tid)) = key.split_once('-') else { continue };
        let Ok(at) = i64::from_str_radix(at, 16) else { continue };
        let thread = threads.entry(tid).or_default();
        if let Some(wait) = text.strip_prefix("# wait begin=") {
            let end = wait
                .split_once(" end=")
                .map(|(begin, rest)| (begin, rest.split(' ').next().unwrap_or_default()));
            let Some((Ok(begin), Ok(end))) = end.map(|(begin, end)| (begin.parse(), end.parse())) else {
                continue;
            };
            thread.waits.push((begin, end));
        } else if let Some(call) = text.strip_prefix("> hook ") {
            let function = call.split_once(' ').map_or("", |(_, function)| function);
            thread.open.push((function, at, thread.waits.len()));
        } else if text.starts_with("< hook ") {
            let Some((function, since, before)) = thread.open.pop() else { continue };
            // The line of a wait stands before the record that has waited.
            let waits = &thread.waits[before.saturating_sub(1)..];
            let inside = waits.iter().map(|(begin, end)| (at.min(*end) - since.max(*begin)).max(0));
            let duration = at - since - inside.sum::<i64>();
            let known = longest.entry(function).or_insert(duration);
            *known = duration.max(*known);
        }
    }
    let running: Vec<&str> =
        threads.values().flat_map(|thread| &thread.open).map(|(function, _, _)| *function).collect();
    longest.retain(|function, _| !running.contains(function));
    longest
        .into_iter()
        .map(|(function, ticks)| (function.to_owned(), (ticks as f64 * 1e9 / rate).trunc()))
        .collect()
}

/// Returns the number of lines with a time in a tree, and the first line whose time is before that of the previous
/// line.
fn decreasing(tree: &str) -> (usize, Option<&str>) {
    let time = |line: &str| {
        let (seconds, fraction) = line.split_whitespace().next()?.split_once('.')?;
        Some((seconds.parse::<u64>().ok()?, fraction.parse::<u64>().ok()?))
    };
    let times: Vec<_> = tree.lines().filter_map(|line| Some((time(line)?, line))).collect();
    let back = times.windows(2).find(|pair| pair[1].0 < pair[0].0).map(|pair| pair[1].1);
    (times.len(), back)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_no_part_of_the_longest_call() {
        let merged = "0000000000000064-7 > hook 0x1 (f at a.rs:1)\n\
            000000000000006e-7 > hook 0x2 (g at a.rs:2)\n\
            0000000000000078-7 # wait begin=105 end=118\n\
            0000000000000078-7 < hook 0x2 (g at a.rs:2)\n\
            00000000000000c8-7 < hook 0x1 (f at a.rs:1)\n\
            00000000000000d2-7 > hook 0x3 (h at a.rs:3)\n\
            00000000000000d2-8 > hook 0x3 (h at a.rs:3)\n\
            00000000000000dc-8 < hook 0x3 (h at a.rs:3)\n";
        let longest = longest_calls(merged, 1e9);
        let expected =
            [("(f at a.rs:1)", 87.0), ("(g at a.rs:2)", 2.0)].map(|(name, ns)| (name.to_owned(), ns));
        assert_eq!(longest, BTreeMap::from(expected.clone()));
        let mut reported = expected.to_vec();
        assert_eq!(compare_longest(&longest, &reported), (2, vec![]));
        reported[1].1 += 21.0;
        assert_eq!(compare_longest(&longest, &reported).1.len(), 1);
    }

    #[test]
    fn a_time_that_goes_back_is_noticed() {
        assert_eq!(decreasing("a tree\n1.000000002 x\n1.000000002 y\n2.000000001 z\n"), (3, None));
        assert_eq!(decreasing("1.000000002 x\n1.000000001 y\n"), (2, Some("1.000000001 y")));
    }
}
