// Counts of calls and their times by function, with the rules of `tracemerge report`.
"use strict";

/// The least number of the class of a duration: percentiles have an error of at most 1 %, as in `report`.
function classOf(ns) {
  if (ns < 128) return ns;
  const width = 2 ** (Math.floor(Math.log2(ns)) - 7);
  return Math.floor(ns / width) * width;
}

/// Returns the value that a share of the sorted values do not exceed.
function percentile(sorted, percent) {
  const rank = Math.max(1, Math.ceil((sorted.length * percent) / 100));
  return classOf(sorted[rank - 1]);
}

/// Returns how long the intervals of a sorted list cover the time before `time`. `total` has the sums before
/// each.
function coveredBefore({ begin, end, total }, time) {
  const count = countBelow(begin, time);
  return count === 0 ? 0 : total[count - 1] + Math.min(time, end[count - 1]) - begin[count - 1];
}

/// The kinds of times off the processor.
const WAITING = 0,
  PREEMPTED = 1;

/// Returns the times of a lane off the processor by kind, without the waits for the tracer in them.
function offTimes(lane) {
  if (lane.off !== undefined) return lane.off;
  const kinds = [0, 1, 2].map(() => ({ begin: [], end: [], total: [] }));
  const add = (of, begin, end) => {
    if (begin >= end) return;
    const last = of.begin.length - 1;
    of.total.push(last < 0 ? 0 : of.total[last] + of.end[last] - of.begin[last]);
    of.begin.push(begin);
    of.end.push(end);
  };
  const { begin, end, kind } = lane.states,
    { waits } = lane;
  for (let state = 0; state < begin.length; state++) {
    let from = begin[state];
    for (
      let wait = countBelow(waits.end, from);
      wait < waits.begin.length && waits.begin[wait] < end[state];
      wait++
    ) {
      add(kinds[kind[state]], from, Math.min(end[state], waits.begin[wait]));
      from = Math.max(from, waits.end[wait]);
    }
    add(kinds[kind[state]], from, end[state]);
  }
  lane.off = begin.length > 0 ? kinds : null;
  return lane.off;
}

/// Returns the last sign of life of a process up to a time: calls that are open then are counted until there.
function lastSignOfLife(process, until) {
  if (until >= trace.last) return trace.lasts[process];
  let last = -Infinity;
  for (const lane of trace.lanes) {
    if (lane.process !== process) continue;
    const begun = countBelow(lane.start, until + 0.5);
    if (begun > 0) last = Math.max(last, lane.start[begun - 1]);
    for (const row of lane.rows) {
      const ended = firstEndingAfter(lane, row, until);
      if (ended > 0) last = Math.max(last, lane.end[row.calls[ended - 1]]);
    }
    const { time } = trace.messages;
    let low = 0,
      high = lane.messages.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (time[lane.messages[middle]] <= until) low = middle + 1;
      else high = middle;
    }
    if (low > 0) last = Math.max(last, time[lane.messages[low - 1]]);
  }
  return last;
}

/// Calls `take` for each call of the lanes that was entered in a period, when it ends: with the lane, the
/// call, its time and its time without the calls inside it, the parts of the latter that the thread was
/// waiting, and whether it was made inside another call of its function. `open` is called when it begins.
/// Calls that end later are counted until the last sign of life in the period.
function eachCall(lanes, from, until, take, open = () => {}) {
  const lasts = trace.lasts.map((_, process) => lastSignOfLife(process, until));
  const openCalls = new Uint32Array(trace.dictionary.length);
  for (const lane of lanes) {
    const off = offTimes(lane),
      last = lasts[lane.process],
      stack = [];
    const endInnermost = () => {
      const { call, inside, offInside } = stack.pop();
      const start = lane.start[call],
        isCut = lane.end[call] > until;
      const end = isCut ? Math.max(start, last) : lane.end[call];
      const waited = !isCut
        ? (lane.waited.get(call) ?? 0)
        : lane.waits.begin.length === 0
          ? 0
          : coveredBefore(lane.waits, end) - coveredBefore(lane.waits, start);
      const total = end - start - waited,
        own = Math.max(0, total - inside);
      let waiting = 0;
      const around = stack[stack.length - 1];
      if (off !== null) {
        const between = kind => coveredBefore(off[kind], end) - coveredBefore(off[kind], start);
        const all = between(WAITING);
        waiting = Math.min(own, Math.max(0, all - offInside));
        if (around !== undefined) around.offInside += all;
      }
      if (around !== undefined) around.inside += total;
      const entry = lane.entry[call];
      openCalls[entry]--;
      take(lane, call, total, own, waiting, openCalls[entry] > 0);
    };
    const first = countBelow(lane.start, from),
      behind = countBelow(lane.start, until + 0.5);
    for (let call = first; call < behind; call++) {
      while (stack.length > 0 && lane.depth[stack[stack.length - 1].call] >= lane.depth[call]) endInnermost();
      stack.push({ call, inside: 0, offInside: 0 });
      openCalls[lane.entry[call]]++;
      open(lane, call);
    }
    while (stack.length > 0) endInnermost();
  }
}

/// Returns a row for each function that the lanes have entered in a period, the greatest total first.
function statistics(lanes, from, until) {
  const rows = new Map();
  eachCall(lanes, from, until, (lane, call, total, own, waiting, isRecursive) => {
    const entry = lane.entry[call];
    let row = rows.get(entry);
    if (row === undefined)
      rows.set(entry, (row = { entry, total: 0, own: 0, waiting: 0, sum: 0, times: [] }));
    row.total += isRecursive ? 0 : total;
    row.own += own;
    row.waiting += waiting;
    row.sum += total;
    row.times.push(total);
  });
  const all = [...rows.values()];
  for (const row of all) {
    const sorted = Float64Array.from(row.times).sort();
    row.times = undefined;
    row.calls = sorted.length;
    row.average = Math.floor(row.sum / row.calls);
    row.min = sorted[0];
    row.max = sorted[row.calls - 1];
    row.p50 = percentile(sorted, 50);
    row.p99 = percentile(sorted, 99);
    row.name = functionName(row.entry);
    row.place = trace.dictionary[row.entry].about[0] ?? "";
  }
  return all.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
