//! On a terminal, `tracemerge run` ends with a summary of the trace; otherwise it writes only what it has merged.
#![cfg(target_os = "linux")]

use std::process::Stdio;

use support::Scenario;
use support::terminal::OnTerminal;

const SCENARIO: &str = env!("CARGO_BIN_EXE_scenario");

#[test]
fn the_end_of_run_is_a_summary_on_a_terminal_only() {
    let args = ["tracemerge", "run", "--", SCENARIO, "many", "100"];
    let mut scenario = Scenario::new(SCENARIO, &args).without("TRACER_ENABLE");
    let traces = scenario.directory.path().to_string_lossy().into_owned();
    scenario = scenario.env("TRACER_DIR", &traces);
    let output = scenario.command().stdout(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("merged ") && !said.contains("next: "), "{said}");
    let terminal = OnTerminal::start(scenario.command(), |command, terminal| {
        command.stderr(terminal);
    });
    let shown = terminal.ended().replace("\r\n", "\n");
    let mut lines = shown.lines().skip_while(|line| !line.starts_with("tracemerge: merged "));
    assert!(lines.next().is_some(), "{shown}");
    let mut lines = lines.skip_while(|line| !line.contains(" threads, "));
    assert!(lines.next().is_some_and(|facts| facts.ends_with(", nothing lost")), "{shown}");
    assert!(lines.any(|line| line.starts_with("next: tracemerge ")), "{shown}");
}
