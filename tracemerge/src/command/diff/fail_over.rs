//! `--fail-over`: whether a function or a message became slower by more than the user allows, and by more than the
//! noise.

use serde::Serialize;

use crate::command::diff::functions::FunctionComparison;
use crate::command::diff::model::SortComparison;
use crate::command::diff::noise::Median;
use crate::command::diff::text::short;
use crate::ui::messages::count;
use crate::ui::units::duration;

/// The greatest slowdown that is allowed, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Percent(f64);

/// The result of `--fail-over`: which functions and messages became slower by more than is allowed.
#[derive(Debug, Serialize)]
pub(super) struct FailOver {
    /// The greatest slowdown that is allowed, in per cent.
    limit_percent: Percent,
    /// The number of functions and messages whose times could be compared.
    compared: u64,
    /// The number of functions and messages that became slower by more than is allowed.
    slower: u64,
    /// The function or message with the greatest slowdown in per cent; `None` if none became slower by more than is
    /// allowed.
    worst: Option<Slower>,
}

/// A function or a message that became slower.
#[derive(Debug, Serialize)]
struct Slower {
    /// The kind of thing that became slower: `function` or `message`.
    kind: &'static str,
    /// The name of the function, or the text of the message.
    name: String,
    /// The slowdown: the difference of the two medians, in per cent of the median in the first trace.
    change_percent: f64,
    /// The median in the first trace, in nanoseconds: of the time of a call or, for a message, of the time since the
    /// message before.
    a_median_ns: u64,
    /// The median in the second trace, in nanoseconds: of the time of a call or, for a message, of the time since the
    /// message before.
    b_median_ns: u64,
}

impl Percent {
    /// Reads a percentage, such as `10%`, `10` or `0.5%`.
    ///
    /// # Errors
    /// If the text is not a percentage.
    pub(crate) fn parse(text: &str) -> Result<Percent, String> {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent = number.parse().ok().filter(|percent: &f64| is_plain && percent.is_finite());
        percent.map(Percent).ok_or_else(|| "expected a percentage, such as 10%, 10 or 0.5%".to_owned())
    }
}

impl FailOver {
    /// Compares the times of functions and messages, and returns those that became slower by more than `limit`.
    pub(super) fn of(
        limit: Percent,
        functions: &[FunctionComparison],
        messages: &[SortComparison],
    ) -> FailOver {
        let mut found = FailOver { limit_percent: limit, compared: 0, slower: 0, worst: None };
        for row in functions {
            found.compare("function", &row.function, row.a.median(), row.b.median());
        }
        for row in messages {
            found.compare("message", &row.sort.message, row.a.median, row.b.median);
        }
        found
    }

    fn compare(&mut self, kind: &'static str, name: &str, a: Option<Median>, b: Option<Median>) {
        let (Some(a), Some(b)) = (a, b) else { return };
        let change = a.change_to(&b);
        let Some(is_significant) = change.is_significant else { return };
        self.compared += 1;
        if !is_significant || change.percent <= self.limit_percent.0 {
            return;
        }
        self.slower += 1;
        if self.worst.as_ref().is_none_or(|worst| worst.change_percent < change.percent) {
            let (name, change_percent) = (name.to_owned(), change.percent);
            let (a_median_ns, b_median_ns) = (a.median, b.median);
            self.worst = Some(Slower { kind, name, change_percent, a_median_ns, b_median_ns });
        }
    }

    /// Returns whether no function and no message had times that could be compared.
    pub(super) fn is_empty(&self) -> bool {
        self.compared == 0
    }

    /// Returns a sentence about the functions and messages that became slower by more than is allowed; `None` if there
    /// are none.
    pub(super) fn sentence(&self) -> Option<String> {
        let Slower { kind, name, change_percent, a_median_ns, b_median_ns } = self.worst.as_ref()?;
        let limit = self.limit_percent.0;
        let more = match self.slower - 1 {
            0 => String::new(),
            more => format!("; so did {}", count(more, "other")),
        };
        let what = if *kind == "function" { "a call" } else { "the time since the message before" };
        Some(format!(
            "the {kind} '{}' became slower by {change_percent:.1} %, which is more than {limit} % and more than the \
             noise: the median of {what} is {} in A and {} in B{more}",
            short(name),
            duration(*a_median_ns),
            duration(*b_median_ns)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_numbers_with_or_without_a_sign_for_per_cent() {
        for (text, expected) in
            [("10%", 10.0), ("10", 10.0), ("0.5%", 0.5), ("0", 0.0), ("10 %", 10.0), (".5", 0.5)]
        {
            assert_eq!(Percent::parse(text), Ok(Percent(expected)), "{text}");
        }
        for text in
            ["", "%", ".", "-5%", "+5", "1e3", "inf", "NaN", "ten", "10%%", "1,5", "5 % more", "1.2.3"]
        {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
    }
}
