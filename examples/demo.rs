//! `cargo demo`: runs the bug hunt with tracing on, and shows the end of its trace.
//!
//! That is `tracemerge run --show show --last 18 --grep ': ' bug_hunt` in one program, so that one build is enough:
//! started by a person, this program is `tracemerge`, which starts it once more, with an argument, as the bug hunt.

#[allow(dead_code, reason = "its `main` is not used here")]
mod bug_hunt;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

/// The argument that makes this program the bug hunt.
const HUNT: &str = "hunt";
/// The number of messages that are shown: those of the hang, and of the previous wait, which went well.
const SHOWN: &str = "18";
/// The text that selects the shown messages: each of them has it, and no line of a function that is entered or left has
/// it.
const MESSAGES: &str = ": ";

fn main() -> ExitCode {
    if env::args_os().nth(1).is_some_and(|argument| argument == HUNT) {
        return hunt();
    }
    match env::current_exe() {
        Ok(program) => merge(program.into()),
        Err(error) => {
            eprintln!("demo: this program's own file cannot be found: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the bug hunt. Succeeds if the queue hangs.
fn hunt() -> ExitCode {
    match bug_hunt::hunt(false) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => {
            eprintln!("demo: this time the queue did not hang; please try it once more");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("demo: cannot start a thread: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `program` as the bug hunt, and shows the end of its trace.
fn merge(program: OsString) -> ExitCode {
    eprintln!("$ tracemerge run --show show --last {SHOWN} --grep '{MESSAGES}' {} {HUNT}", program.display());
    let words =
        ["tracemerge", "run", "--show", "show", "--last", SHOWN, "--grep", MESSAGES].map(OsString::from);
    let status = tracemerge::main(words.into_iter().chain([program.clone(), HUNT.into()]));
    if status == 0 {
        eprintln!(
            "These are the last {SHOWN} messages; the trace is in {}.trace.<thread id>.",
            program.display()
        );
    }
    ExitCode::from(status)
}
