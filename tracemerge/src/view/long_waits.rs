//! The sentence at the end of a merge, or of a view, if threads have waited long for the tracer. The sums of the
//! waits are in the last lines of the files, which have been read already, so no other lines are read.

use std::collections::BTreeMap;

use trace_format::line::Ticks;

use crate::find::header::thread_name;
use crate::input::inputs::Inputs;
use crate::ui::messages::count;
use crate::ui::units::duration;
use crate::view::thread_labels::thread_labels;

/// The nanoseconds below which waits are not reported.
const LEAST_NS: u64 = 10_000_000;

/// Returns whether waits are long enough to be reported: they took at least `LEAST_NS`, which excludes those at the
/// start of a short program, and more than one percent of the threads' time. `waited` is the sum of the waits, and
/// `time` the time for which the threads that waited have lasted, both in nanoseconds.
fn is_long(waited: u64, time: u64) -> bool {
    const LEAST_PERCENT: u128 = 1;
    waited >= LEAST_NS && u128::from(waited) * 100 > u128::from(time) * LEAST_PERCENT
}

/// The waits of one thread, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct OfThread {
    /// The index of one of the thread's files among all files.
    file: usize,
    waited: u64,
    for_ring: u64,
    time: u64,
}

/// Returns the sentence about the waits of threads for the tracer; `None` if the waits took less than ten milliseconds
/// in all, or at most one percent of the time of the threads that waited.
pub(crate) fn long_waits_in_words(inputs: &mut Inputs) -> Option<String> {
    let waits = inputs.origins.iter().filter_map(|origin| Some(origin.waited?.waited.ns));
    if waits.fold(0, u64::saturating_add) < LEAST_NS {
        return None;
    }
    let clocks = inputs.own_clocks();
    let mut threads: BTreeMap<_, OfThread> = BTreeMap::new();
    for (file, (origin, reference)) in inputs.origins.iter().zip(&inputs.references).enumerate() {
        // The clock of a converted trace is that of another machine, but the ticks here are those of its own machine.
        let found = origin.waited.filter(|_| origin.is_shown && reference.is_none());
        let Some(found) = found else { continue };
        let run = origin.run.as_ref().map(|run| (run.pid, run.id));
        let clock = origin.run.as_ref().and_then(|run| clocks.of(run)).unwrap_or(&origin.clock);
        let steady = |ticks| clock.steady(Ticks(ticks));
        let thread = threads.entry((run, origin.tid)).or_default();
        thread.file = file;
        thread.waited = thread.waited.saturating_add(found.waited.ns);
        thread.for_ring = thread.for_ring.saturating_add(found.waited.for_ring_ns);
        thread.time = thread.time.saturating_add(steady(found.last).saturating_sub(steady(found.first)));
    }
    let have_waited = || threads.values().filter(|thread| thread.waited > 0);
    let sum = |of: fn(&OfThread) -> u64| have_waited().map(of).fold(0, u64::saturating_add);
    let (waited, time) = (sum(|thread| thread.waited), sum(|thread| thread.time));
    // A thread may have made all of its records while it waited, so its time may be shorter than its waits.
    let percent = (u128::from(waited) * 100 / u128::from(time.max(1))).min(100);
    if !is_long(waited, time) {
        return None;
    }
    let most = *have_waited().max_by_key(|thread| (thread.waited, std::cmp::Reverse(thread.file)))?;
    let (how_many, is_for_rings) =
        (count(have_waited().count() as u64, "thread"), sum(|thread| thread.for_ring) > waited / 2);
    name_threads(inputs);
    let label = thread_labels(inputs).get(most.file).map(|label| label.full().to_owned())?;
    let setting = if is_for_rings {
        "most of it for rings and their memory: a smaller TRACER_RING_SIZE shortens that"
    } else {
        "most of it for room in a ring: a larger TRACER_RING_SIZE makes that rarer, and TRACER_FULL=drop or overwrite ends \
         it, but gives up records"
    };
    let whose = if have_waited().nth(1).is_none() { "its" } else { "their" };
    Some(format!(
        "{how_many} waited {} for the tracer, {percent} % of {whose} time ({label} longest: {}), {setting}",
        duration(waited),
        duration(most.waited)
    ))
}

/// Reads the names of the threads of which no name is known yet.
fn name_threads(inputs: &mut Inputs) {
    for (origin, source) in inputs.origins.iter_mut().zip(inputs.boots.iter().flatten()) {
        if origin.name.is_empty() && !origin.is_log {
            origin.name = thread_name(&source.outline()).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_long;

    #[test]
    fn waits_of_over_one_percent_and_ten_milliseconds_are_long() {
        const SECOND: u64 = 1_000_000_000;
        assert!(!is_long(SECOND, 100 * SECOND) && is_long(SECOND + 1, 100 * SECOND));
        assert!(!is_long(9_999_999, 10_000_000) && is_long(10_000_000, 10_000_000));
        assert!(is_long(SECOND, 0) && !is_long(0, 0));
    }
}
