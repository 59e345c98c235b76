//! A task as a list of named steps.

use std::time::Instant;

use crate::failure::{Result, check};

/// One step of a task that has a state of the type `T`.
pub struct Step<T> {
    pub name: &'static str,
    /// The promise that the step checks, in one sentence.
    pub sentence: &'static str,
    pub run: fn(&T) -> Result<()>,
    /// Whether the step runs if no names are given.
    pub usual: bool,
}

/// Defines a step that runs by its name, and also if no names are given.
pub const fn step<T>(name: &'static str, run: fn(&T) -> Result<()>, sentence: &'static str) -> Step<T> {
    Step { name, sentence, run, usual: true }
}

/// Defines a step that runs by its name only.
pub const fn step_by_name<T>(
    name: &'static str,
    run: fn(&T) -> Result<()>,
    sentence: &'static str,
) -> Step<T> {
    Step { name, sentence, run, usual: false }
}

/// Runs the steps with these names, in the order of the names, or the usual steps if there are no names. `tools` makes
/// the state first; it counts as a step with the name `tools`.
pub fn run<T>(steps: &[Step<T>], names: &[String], tools: impl FnOnce() -> Result<T>) -> Result<()> {
    let start = Instant::now();
    let title = |name: &str| println!("\n== {name} ({} s)", start.elapsed().as_secs());
    let find = |name: &String| steps.iter().find(|step| step.name == *name);
    let unknown: Vec<&String> =
        names.iter().filter(|name| *name != "tools" && find(name).is_none()).collect();
    check(unknown.is_empty(), || format!("there is no step {unknown:?}; the steps are:\n{}", list(steps)))?;
    title("tools");
    let state = tools()?;
    let named = names.iter().filter_map(find);
    let usual = steps.iter().filter(|step| names.is_empty() && step.usual);
    for step in named.chain(usual) {
        title(step.name);
        println!("{}", step.sentence);
        (step.run)(&state)?;
    }
    title("done");
    Ok(())
}

/// Returns the names of the steps with their sentences, one step a line.
fn list<T>(steps: &[Step<T>]) -> String {
    let line = |step: &Step<T>| {
        let condition = if step.usual { "" } else { " (only by its name)" };
        format!("  {:12}{}{condition}\n", step.name, step.sentence)
    };
    steps.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::failure::{Failure, fail};

    /// The names of the steps that have run.
    type Log = Rc<RefCell<Vec<&'static str>>>;

    fn first(log: &Log) -> Result<()> {
        log.borrow_mut().push("first");
        Ok(())
    }

    fn rare(log: &Log) -> Result<()> {
        log.borrow_mut().push("rare");
        Ok(())
    }

    fn bad(_: &Log) -> Result<()> {
        fail("on purpose")
    }

    const STEPS: [Step<Log>; 3] = [
        step("first", first, "One."),
        step_by_name("rare", rare, "A long one."),
        step("bad", bad, "One that fails."),
    ];

    /// Runs the steps with these names. Returns the names of the steps that have run, and the result.
    fn run_named(words: &str) -> (Vec<&'static str>, Result<()>) {
        let names: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let log = Log::default();
        let result = run(&STEPS, &names, || Ok(log.clone()));
        (log.take(), result)
    }

    #[test]
    fn a_failing_step_fails_the_task() {
        let (log, result) = run_named("");
        assert_eq!(log, ["first"]);
        assert!(matches!(result, Err(Failure::Failed(reason)) if reason == "on purpose"));
    }

    #[test]
    fn an_unknown_name_is_refused_before_anything_runs() {
        let (log, result) = run_named("first unknown");
        assert!(log.is_empty());
        assert!(
            matches!(result, Err(Failure::Failed(reason)) if reason.contains("unknown") && reason.contains("rare"))
        );
    }

    #[test]
    fn named_steps_run_in_the_order_of_their_names() {
        let (log, result) = run_named("rare tools first");
        assert_eq!(log, ["rare", "first"]);
        assert!(result.is_ok());
    }
}
