//! The functions of two traces, compared by name: how often they were called in each trace, and how long a call took.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::command::diff::input::Input;
use crate::command::diff::noise::{Change, Median};
use crate::symbols::Settings;
use crate::ui::messages::Messages;
use crate::view::call_counts::{CallCounts, Counted};
use crate::view::function_names::lock;

/// The calls of functions in the two compared traces.
#[derive(Debug, Serialize)]
pub(super) struct Functions {
    /// The sums over all calls of the first trace.
    pub a: AllCalls,
    /// The sums over all calls of the second trace.
    pub b: AllCalls,
    /// The number of functions that at least one of the traces has.
    pub functions: u64,
    /// The functions: first those whose times have changed by more than the noise, then those that only one trace has,
    /// then all others; in each group, the largest changes come first.
    pub rows: Vec<FunctionComparison>,
}

/// The sums over all calls of functions in a trace.
#[derive(Debug, Serialize)]
pub(super) struct AllCalls {
    /// The number of calls of all functions.
    pub calls: u64,
    /// The sum of the self times of all functions, in nanoseconds: the time of a nested call counts once, for the inner
    /// function.
    pub self_ns: Option<u64>,
    /// The time for which the tracer made threads wait, in nanoseconds, as far as the times of functions leave it out.
    pub waited_ns: u64,
    /// The time of further waits for the tracer, in nanoseconds. The times of functions include it, because the trace
    /// does not record when these waits were.
    pub waited_inside_ns: u64,
}

/// One function, with its calls in each of the two traces.
#[derive(Debug, Serialize)]
pub(super) struct FunctionComparison {
    /// The name of the function.
    pub function: String,
    /// The change of the median time of a call from the first trace to the second, in per cent of the first median.
    pub change_percent: Option<f64>,
    /// Whether the change of the median is larger than the noise: the confidence intervals of both medians do not
    /// overlap.
    pub significant: Option<bool>,
    /// The calls in the first trace.
    pub a: FunctionSide,
    /// The calls in the second trace.
    pub b: FunctionSide,
}

/// One function in one trace. Unknown times are `None`.
#[derive(Debug, Default, Serialize)]
pub(super) struct FunctionSide {
    /// The number of calls of the function.
    pub calls: u64,
    /// The total time of all calls, in nanoseconds; the time of a recursive call counts only as a part of the outermost
    /// call.
    pub total_ns: Option<u64>,
    /// The time of all calls without the time of nested calls, in nanoseconds.
    pub self_ns: Option<u64>,
    /// The median time of one call, in nanoseconds, with an error of up to 1 %.
    pub median_ns: Option<u64>,
    /// The lower end of the median's 95 % confidence interval, in nanoseconds.
    pub low_ns: Option<u64>,
    /// The upper end of the median's 95 % confidence interval, in nanoseconds.
    pub high_ns: Option<u64>,
}

/// The calls of a function in one trace, and whether the times in this trace are known.
type Side = (Counted, bool);

impl Functions {
    /// Compares the functions of two traces. Returns `None` if a trace has no calls; if only one of them has calls,
    /// tells the user that these are not compared.
    pub(super) fn of(a: &Input, b: &Input, symbols: &Settings, messages: &Messages) -> Option<Functions> {
        if a.has_calls != b.has_calls {
            let only = if a.has_calls { "A" } else { "B" };
            messages.note(format_args!("only {only} has calls of functions; these are not compared"));
        }
        if !a.has_calls || !b.has_calls {
            return None;
        }
        let counted = [a, b].map(|input| (input.call_counts(symbols), input.has_times()));
        // Both traces may need the same file.
        let notes: BTreeSet<&String> = counted.iter().flat_map(|((_, notes), _)| notes).collect();
        notes.into_iter().for_each(|note| messages.note(note));
        let counts = counted.map(|((counts, _), has_times)| (counts, has_times));
        let [of_a, of_b] = counts.each_ref().map(|(counts, has_times)| AllCalls::of(counts, *has_times));
        let mut functions: BTreeMap<(String, Vec<u8>), [Side; 2]> = BTreeMap::new();
        for (side, (counts, has_times)) in counts.iter().enumerate() {
            let names = lock(counts.names());
            for (_, function, counted) in counts.each_function() {
                // Functions of one name are one row: their places change from build to build. So do the offsets of
                // functions without names, which are the same function in one build only.
                let function = names.get(function);
                let key = (function.name.clone(), function.build_id().to_vec());
                let sides = functions.entry(key).or_default();
                sides[side].0.add(counted);
                sides[side].1 = *has_times;
            }
        }
        let mut rows: Vec<FunctionComparison> =
            functions.into_iter().map(|((name, _), sides)| FunctionComparison::of(name, &sides)).collect();
        rows.sort_by(|x, y| x.class().cmp(&y.class()).then(y.size().total_cmp(&x.size())));
        Some(Functions { a: of_a, b: of_b, functions: rows.len() as u64, rows })
    }
}

impl AllCalls {
    fn of(counts: &CallCounts, has_times: bool) -> AllCalls {
        let own = counts.each_function().fold(0_u64, |sum, (.., counted)| sum.saturating_add(counted.own));
        let waits = counts.threads().waits();
        AllCalls {
            calls: counts.calls(),
            self_ns: has_times.then_some(own),
            waited_ns: waits.ns,
            waited_inside_ns: waits.without_place,
        }
    }
}

impl FunctionComparison {
    fn of(function: String, sides: &[Side; 2]) -> FunctionComparison {
        let [a, b] = sides.each_ref().map(|(counted, has_times)| FunctionSide::of(counted, *has_times));
        let change = a.median().zip(b.median()).map(|(a, b)| a.change_to(&b));
        FunctionComparison {
            function,
            change_percent: change.map(|change| change.percent),
            significant: change.and_then(|change| change.is_significant),
            a,
            b,
        }
    }

    /// Returns the change of the median time of a call, if both traces have a median.
    pub(super) fn change(&self) -> Option<Change> {
        Some(Change { percent: self.change_percent?, is_significant: self.significant })
    }

    /// Returns the number of the group that this row belongs to: 0, 1 or 2, for the groups of `Functions::rows` in
    /// their order.
    fn class(&self) -> u8 {
        match (self.significant, self.a.calls.min(self.b.calls)) {
            (Some(true), _) => 0,
            (_, 0) => 1,
            _ => 2,
        }
    }

    /// Returns the value by which rows of the same group are sorted: the size of the change or, if there is no change
    /// because only one trace has times of the function, the function's self time.
    fn size(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an order")]
        let own = |side: &FunctionSide| side.self_ns.unwrap_or(0) as f64;
        self.change().map_or_else(|| own(&self.a) + own(&self.b), |change| change.size())
    }
}

impl FunctionSide {
    fn of(counted: &Counted, has_times: bool) -> FunctionSide {
        let calls = counted.calls;
        let Some(median) = Median::of(&counted.times).filter(|_| has_times) else {
            return FunctionSide { calls, ..FunctionSide::default() };
        };
        FunctionSide {
            calls,
            total_ns: Some(counted.total),
            self_ns: Some(counted.own),
            median_ns: Some(median.median),
            low_ns: median.noise.map(|noise| noise.0),
            high_ns: median.noise.map(|noise| noise.1),
        }
    }

    /// Returns the median time of a call with its noise, if the median is known.
    pub(super) fn median(&self) -> Option<Median> {
        Some(Median { median: self.median_ns?, noise: self.low_ns.zip(self.high_ns) })
    }
}
