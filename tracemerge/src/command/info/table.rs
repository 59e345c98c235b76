//! The facts that `info` prints, as text for people.

use itertools::Itertools;
use trace_format::wall::Wall;

use crate::command::info::machines;
use crate::command::info::model::{RunInfo, Sums, TraceInfo};
use crate::ui::cause::in_words;
use crate::ui::messages::{Grouped, count};
use crate::ui::units::{bytes, duration};
use crate::view::rows;

/// The maximum number of forks that are listed for a process.
const MAX_LISTED_FORKS: usize = 12;

/// Returns the facts about the traces as text: a table of threads for each run.
pub(super) fn of(info: &TraceInfo) -> String {
    let mut text = String::new();
    for run in &info.runs {
        let forks = info.runs.iter().filter(|fork| is_fork_of(fork, run)).filter_map(|fork| fork.pid);
        text.push_str(&of_run(run, &forks.collect::<Vec<_>>()));
        text.push('\n');
    }
    if info.machines.len() > 1 {
        text.push_str(&machines::table(&info.machines));
        text.push('\n');
    }
    let (runs, threads) = (count(info.runs.len() as u64, "run"), count(info.threads, "thread"));
    text.push_str(&format!("{runs}, {threads}, {}", amounts(&info.sums)));
    if let Some(period) = info.span_ns {
        text.push_str(&format!(", over {}", duration(period)));
    }
    text.push('\n');
    text
}

fn amounts(sums: &Sums) -> String {
    let mut text = format!("{}, {}", count(sums.records, "record"), bytes(sums.bytes));
    if sums.stalls > 0 {
        text.push_str(&format!(", {} of {}", count(sums.stalls, "stall"), duration(sums.stall_ns)));
    }
    text.push_str(&format!(", {} lost", Grouped(sums.lost)));
    let reasons: Vec<String> =
        sums.lost_by_reason.iter().map(|(reason, lost)| format!("{reason}: {}", Grouped(*lost))).collect();
    if !reasons.is_empty() {
        text.push_str(&format!(" ({})", reasons.join(", ")));
    }
    if sums.damaged > 0 {
        text.push_str(&format!(", {}", count(sums.damaged, "damaged place")));
    }
    if sums.other_kinds.states() > 0 {
        text.push_str(&format!(", {}", count(sums.other_kinds.states(), "thread state")));
    }
    if sums.other_kinds.lost_states() > 0 {
        text.push_str(&format!(" ({} lost by the kernel)", Grouped(sums.other_kinds.lost_states())));
    }
    if let Some(as_reported) = sums.other_kinds.as_reported() {
        text.push_str(&format!(", {as_reported}"));
    }
    text
}

/// Returns whether `fork` descends from `root` by forks.
fn is_fork_of(fork: &RunInfo, root: &RunInfo) -> bool {
    root.run.is_some() && (&fork.root, &fork.boot) == (&root.run, &root.boot) && fork.run != root.run
}

/// Returns the facts of a run as text. `forks` are the process ids of the processes that descend from it by forks.
fn of_run(run: &RunInfo, forks: &[u32]) -> String {
    let unknown = || "?".to_owned();
    let mut text = match (&run.exe, run.pid) {
        (Some(exe), Some(pid)) => format!("{exe}, process {pid}, {}{}\n", run.state, in_words(&run.cause)),
        _ => "files that do not name their run\n".to_owned(),
    };
    if let (Some(id), Some(root)) = (&run.run, &run.root) {
        let family = match run.root_pid {
            _ if id == root && forks.is_empty() => String::new(),
            _ if id == root => {
                let more = if forks.len() > MAX_LISTED_FORKS { ", ..." } else { "" };
                let (number, few) =
                    (count(forks.len() as u64, "fork"), forks.iter().take(MAX_LISTED_FORKS).join(", "));
                format!(", {number} ({few}{more})")
            }
            Some(pid) => format!(", descends by forks from process {pid}, run {root}"),
            None => format!(", descends by forks from run {root}, which is not here"),
        };
        let version = run.format_version.map_or_else(unknown, |version| version.to_string());
        let boot = run.boot.as_deref().unwrap_or("?");
        text.push_str(&format!("  run {id}{family}, boot {boot}, format version {version}\n"));
    }
    if let Some(start) = run.start_wall_ns {
        let period = run
            .span_ns
            .map_or_else(String::new, |period| format!(", messages over a period of {}", duration(period)));
        let cost = run
            .start_ns
            .map_or_else(String::new, |ns| format!(", start of the tracer took {}", duration(ns)));
        text.push_str(&format!("  begun {}{cost}{period}\n", Wall(start)));
    }
    text.push_str(&of_clock(run));
    text.push_str(&rows::table(&run.threads, "  "));
    text.push_str(&format!("  {}, {}\n", count(run.threads.len() as u64, "thread"), amounts(&run.sums)));
    text
}

fn of_clock(run: &RunInfo) -> String {
    let clock = &run.clock;
    let mut text = format!("  clock {}", clock.kind.unwrap_or("unknown"));
    if let Some(rate) = clock.ticks_per_second {
        text.push_str(&format!(", {:.6} ticks/ns", rate / 1e9));
    }
    text.push_str(&format!(", {} of the wall clock", count(clock.readings, "reading")));
    if let Some(drift) = clock.drift_ppm {
        text.push_str(&format!(", drift {drift:+.3} ppm"));
    }
    if let Some(ns) = clock.uncertainty_ns {
        text.push_str(&format!(", times exact to {}", duration(ns)));
    }
    text.push('\n');
    for step in &clock.steps {
        text.push_str(&format!("  {}\n", step.text));
    }
    text
}
