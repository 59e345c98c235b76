//! The Markdown tables: each figure is the median over all rounds.

use crate::arguments::{Part, Plan};
use crate::call::{FUNCTION, MESSAGES, OTHER_THREADS, QUANTILES};
use crate::floors;
use crate::functions::Way;
use crate::loggers::{Format, Peer};
use crate::report::Report;
use crate::statistics::median;
use crate::throughput::{MESSAGE, SECONDS};
use crate::verification::Findings;
use crate::versions;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// A row of the tables: a logger, and the format in which it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The logger.
    pub peer: Peer,
    /// The format of the logger's files, which matters for this tracer only.
    pub format: Format,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if self.format == Format::Raw { " (raw)" } else { "" };
        write!(f, "{}{format}", self.peer.name())
    }
}

/// A column of the throughput tables: where files are written, and by how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The index of the directory to which the files are written.
    pub directory: usize,
    /// The number of threads that log.
    pub threads: usize,
}

/// The figures and findings of all rounds.
pub struct Results<'a> {
    plan: &'a Plan,
    rows: &'a [Row],
    directories: &'a [PathBuf],
    /// The nanoseconds of calls in all rounds, by the name of the row or of the clock, the message, and the name of the
    /// figure.
    calls: BTreeMap<(String, String, String), Vec<f64>>,
    /// The messages per second in all rounds, by the name of the row and the column.
    throughput: BTreeMap<(String, Place), Vec<f64>>,
    /// The findings of the verification, by the name of the row; findings without a column are about calls or
    /// functions, the others about throughput.
    findings: BTreeMap<(String, Option<Place>), Findings>,
}

impl<'a> Results<'a> {
    /// Makes results without any figures.
    pub fn new(plan: &'a Plan, rows: &'a [Row], directories: &'a [PathBuf]) -> Results<'a> {
        let (calls, throughput, findings) = Default::default();
        Results { plan, rows, directories, calls, throughput, findings }
    }

    /// Adds the figures of the clocks in one round.
    pub fn add_floors(&mut self, report: &Report) {
        for ((clock, name), value) in &report.figures {
            self.calls.entry((clock.clone(), clock.clone(), name.clone())).or_default().push(*value);
        }
    }

    /// Adds the figures of the calls of one row in one round.
    pub fn add_call(&mut self, row: &Row, report: &Report, findings: Findings) {
        for ((message, name), value) in &report.figures {
            self.calls.entry((row.to_string(), message.clone(), name.clone())).or_default().push(*value);
        }
        self.add_findings(&row.to_string(), None, findings);
    }

    /// Adds the rate at which messages of one row reached the file in one round.
    pub fn add_throughput(&mut self, row: &Row, place: Place, report: &Report, findings: Findings) {
        if let Some(seconds) = report.figures.get(&(MESSAGE.into(), SECONDS.into())) {
            let rate = self.plan.messages as f64 / seconds;
            self.throughput.entry((row.to_string(), place)).or_default().push(rate);
        }
        self.add_findings(&row.to_string(), Some(place), findings);
    }

    /// Adds the figures of a function that was recorded in this `way` in one round.
    pub fn add_function(&mut self, way: Way, report: &Report, findings: Findings) {
        for ((function, name), value) in &report.figures {
            self.calls.entry((way.name(), function.clone(), name.clone())).or_default().push(*value);
        }
        self.add_findings(&way.name(), None, findings);
    }

    fn add_findings(&mut self, name: &str, place: Option<Place>, findings: Findings) {
        let all = self.findings.entry((name.into(), place)).or_default();
        *all = all.and(findings);
    }

    /// Returns whether every logger that is set up to lose nothing has lost nothing.
    pub fn as_promised(&self) -> bool {
        let may_drop =
            |name: &String| self.rows.iter().any(|row| row.to_string() == *name && row.peer.may_drop());
        self.findings.iter().all(|((name, _), findings)| findings.is_complete() || may_drop(name))
    }

    fn call(&self, name: &str, message: &str, figure: &str) -> Option<f64> {
        median(self.calls.get(&(name.into(), message.into(), figure.into()))?)
    }

    fn floor(&self, clock: &str, figure: &str) -> Option<f64> {
        self.call(clock, clock, figure)
    }

    /// Returns the faults in the files of a row and a column, in parentheses; an empty string if there are none.
    fn complaint(&self, name: &str, place: Option<Place>) -> String {
        match self.findings.get(&(name.into(), place)) {
            Some(findings) if !findings.is_complete() => format!(" ({findings})"),
            _ => String::new(),
        }
    }

    fn fmt_calls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## A call, ns\n")?;
        writeln!(
            f,
            "In parentheses: over the bare `{}`, over the bare `{}`.\n",
            floors::ORDERED,
            floors::PLAIN
        )?;
        writeln!(f, "| | fixed string | int, int, double | 40-byte string |\n|---|---|---|---|")?;
        for clock in floors::NAMES {
            let cell = cell(self.floor(clock, "batch"), |ns| format!("{ns:.1}{}", self.ratios(ns)));
            writeln!(f, "| *{clock}* | {cell} | | |")?;
        }
        for row in self.rows {
            write!(f, "| {row}{} |", self.complaint(&row.to_string(), None))?;
            for message in MESSAGES {
                let ns = self.call(&row.to_string(), message, "batch");
                write!(f, " {} |", cell(ns, |ns| format!("{ns:.1}{}", self.ratios(ns))))?;
            }
            writeln!(f)?;
        }
        writeln!(f)
    }

    /// Returns the ratios of `ns` to the figures of the two clocks, in parentheses.
    fn ratios(&self, ns: f64) -> String {
        match (self.floor(floors::ORDERED, "batch"), self.floor(floors::PLAIN, "batch")) {
            (Some(ordered), Some(plain)) => format!(" ({:.2}, {:.2})", ns / ordered, ns / plain),
            _ => String::new(),
        }
    }

    fn fmt_singles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = QUANTILES.map(|(name, _)| name).join(" / ");
        writeln!(f, "## Single calls, ns: {names}\n")?;
        writeln!(f, "| | fixed string | int, int, double | 40-byte string |\n|---|---|---|---|")?;
        let quantiles = |name: &str, message: &str| {
            let figures = QUANTILES.map(|(figure, _)| self.call(name, message, figure));
            figures.map(|ns| cell(ns, |ns| format!("{ns:.0}"))).join(" / ")
        };
        for clock in floors::NAMES {
            writeln!(f, "| *{clock}* | {} | | |", quantiles(clock, clock))?;
        }
        for row in self.rows {
            let cells = MESSAGES.map(|message| quantiles(&row.to_string(), message));
            writeln!(f, "| {row} | {} |", cells.join(" | "))?;
        }
        writeln!(f)
    }

    fn fmt_functions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## A function that is entered and left, ns\n")?;
        writeln!(f, "*Other threads*: their processor time for one call, on average over all.\n")?;
        write!(f, "| | clock | memory | output | ns a call | over `{}` |", floors::ORDERED_TWICE)?;
        writeln!(f, " over `{}` | other threads |\n|---|---|---|---|---|---|---|---|", floors::PLAIN_TWICE)?;
        let over = |ns: f64, clock| cell(self.floor(clock, "batch"), |floor| format!("{:.2}", ns / floor));
        let ratios = |ns| {
            let [ordered, plain] = [floors::ORDERED_TWICE, floors::PLAIN_TWICE].map(|clock| over(ns, clock));
            format!("{ns:.1} | {ordered} | {plain}")
        };
        for floor in floors::OF_FUNCTIONS {
            writeln!(f, "| *{floor}* | | | | {} | |", cell(self.floor(floor, "batch"), ratios))?;
        }
        for way in Way::value_variants() {
            let (name, [clock, memory, output]) = (way.name(), way.set_up());
            let complaint = self.complaint(&name, None);
            let figures = cell(self.call(&name, FUNCTION, "batch"), ratios);
            let others = cell(self.call(&name, FUNCTION, OTHER_THREADS), |ns| format!("{ns:.0}"));
            writeln!(f, "| {name}{complaint} | {clock} | {memory} | {output} | {figures} | {others} |")?;
        }
        writeln!(f)
    }

    fn fmt_throughput(&self, f: &mut fmt::Formatter<'_>, directory: usize) -> fmt::Result {
        let system = self.directories.get(directory).map(|path| crate::mounts::file_system(path));
        let system = system.unwrap_or_default();
        writeln!(f, "## Throughput to a file on {system}, million messages per second\n")?;
        writeln!(
            f,
            "{} messages of two integers and a double; in parentheses: over ticklog.\n",
            self.plan.messages
        )?;
        let threads =
            self.plan.threads.iter().map(|n| format!(" {n} thread{} |", if *n == 1 { "" } else { "s" }));
        writeln!(f, "| |{}", threads.collect::<String>())?;
        writeln!(f, "|---|{}", "---|".repeat(self.plan.threads.len()))?;
        for row in self.rows {
            write!(f, "| {row} |")?;
            for &threads in &self.plan.threads {
                write!(f, " {} |", self.rate_cell(row, Place { directory, threads }))?;
            }
            writeln!(f)?;
        }
        writeln!(f)
    }

    fn rate_cell(&self, row: &Row, place: Place) -> String {
        let rate = |name: String| median(self.throughput.get(&(name, place))?);
        let complaint = self.complaint(&row.to_string(), Some(place));
        let ticklog = rate(Peer::Ticklog.name()).filter(|_| complaint.is_empty());
        let ratio = |per_second| cell(ticklog, |ticklog| format!(" ({:.2})", per_second / ticklog));
        let figures = |per_second: f64| format!("{:.2}{}{complaint}", per_second / 1e6, ratio(per_second));
        cell(rate(row.to_string()), figures)
    }

    /// Returns the names of the rows and ways that were measured, in the order of the tables.
    fn names(&self) -> Vec<String> {
        let ways = Way::value_variants().iter().map(|way| way.name());
        let all = self.rows.iter().map(Row::to_string).chain(ways);
        all.filter(|name| self.findings.keys().any(|(measured, _)| measured == name)).collect()
    }

    /// Writes the names of the rows whose files were complete. The faults of other rows stand beside their figures.
    fn fmt_verified(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut complete = Vec::new();
        for name in self.names() {
            let of_row = self.findings.iter().filter(|((of, _), _)| *of == name).map(|(_, found)| *found);
            let found = of_row.fold(Findings::default(), Findings::and);
            if found.is_complete() {
                complete.push(name);
            }
        }
        let complete = if complete.is_empty() { "of none".to_owned() } else { complete.join(", ") };
        writeln!(
            f,
            "All messages and calls of all runs were read back and are in the files exactly once: {complete}."
        )
    }

    fn fmt_versions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_rows = self.rows.iter().flat_map(|row| row.peer.packages());
        let of_ways = Way::value_variants().iter().flat_map(|way| way.packages());
        let of_ways = of_ways.filter(|_| self.plan.wants(Part::Function));
        let mut packages: Vec<&str> = of_rows.chain(of_ways).copied().collect();
        packages.sort_unstable();
        packages.dedup();
        let versions = packages.iter().map(|package| format!("{package} {}", versions::of(package)));
        let rounds = self.plan.rounds;
        writeln!(f, "Medians of {rounds} rounds. {}.\n", versions.collect::<Vec<_>>().join(", "))
    }
}

/// Returns the text that `figures` makes of `value`; an empty string if there is no value.
fn cell(value: Option<f64>, figures: impl Fn(f64) -> String) -> String {
    value.map(figures).unwrap_or_default()
}

impl fmt::Display for Results<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_versions(f)?;
        if self.plan.wants(Part::Call) {
            self.fmt_calls(f)?;
            self.fmt_singles(f)?;
        }
        if self.plan.wants(Part::Function) {
            self.fmt_functions(f)?;
        }
        if self.plan.wants(Part::Throughput) {
            (0..self.directories.len()).try_for_each(|directory| self.fmt_throughput(f, directory))?;
        }
        self.fmt_verified(f)
    }
}
