//! The choice of a scenario by the traced program of the system tests: each of its modules lists its scenarios by
//! name.

use std::str::FromStr;

/// A scenario: its name, and the function that runs it with the arguments after the name.
pub type Scenario = (&'static str, fn(&Arguments));

/// The arguments of the traced program after the scenario's name.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// Runs the scenario that the first argument of this process names, with the arguments after it.
    ///
    /// # Panics
    /// If there is no such scenario on this system.
    pub fn run_scenario_of(modules: &[&[Scenario]]) {
        let name = std::env::args().nth(1).unwrap_or_default();
        let found = modules.iter().copied().flatten().find(|(known, _)| *known == name);
        let Some((_, run)) = found else { panic!("no scenario {name:?} on this system") };
        // Arguments need not be UTF-8 if a scenario does not read them from here.
        let behind = std::env::args_os().skip(2).map_while(|argument| argument.into_string().ok());
        run(&Arguments(behind.collect()));
    }

    /// Returns all arguments.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// Returns the argument at `index`, counted from 0; `None` if there are fewer.
    pub fn get(&self, index: usize) -> Option<&str> {
        self.0.get(index).map(String::as_str)
    }

    /// Returns the argument at `index`.
    ///
    /// # Panics
    /// If there are fewer arguments.
    pub fn text(&self, index: usize) -> &str {
        self.get(index).unwrap_or_else(|| panic!("this scenario needs an argument {index}: {:?}", self.0))
    }

    /// Returns the argument at `index` as a number.
    ///
    /// # Panics
    /// If there is no such argument, or it is not a number of this type.
    pub fn number<T: FromStr>(&self, index: usize) -> T {
        let text = self.text(index);
        text.parse()
            .unwrap_or_else(|_| panic!("this scenario needs a number as argument {index}, not {text:?}"))
    }
}
