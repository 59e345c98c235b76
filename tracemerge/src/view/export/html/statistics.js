// Counts of calls and their times by function, with the rules of `tracemerge report`.
"use strict";

/// The number of classes of durations. A class has durations that differ by less than 1 %, as in `report`.
const CLASSES = 128 * 58;

/// Returns the number of the class of a duration.
function classOf(ns) {
  if (ns < 128) return ns;
  const power = ns < 2 ** 31 ? 31 - Math.clz32(ns) : Math.floor(Math.log2(ns));
  return (power - 7) * 128 + Math.floor(ns / 2 ** (power - 7));
}

/// Returns the least duration of a class.
function leastOf(number) {
  const power = Math.max(0, (number >> 7) - 1);
  return (number - power * 128) * 2 ** power;
}

/// Returns the durations that these percentages of a list do not exceed. Each is the least duration of its class or,
/// if that is greater, `least`, which is the least duration of the list.
function percentiles(times, least, percentages) {
  const counts = new Uint32Array(CLASSES);
  for (const time of times) counts[classOf(time)]++;
  let number = 0,
    sum = counts[0];
  return percentages.map(percent => {
    const rank = Math.max(1, Math.ceil((times.length * percent) / 100));
    while (sum < rank) sum += counts[++number];
    return Math.max(least, leastOf(number));
  });
}

/// Returns for how long the intervals of a sorted list cover the time before `time`. For each interval, `total` has
/// the sum of the earlier ones.
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

/// Returns the last sign of life of a process up to a time. Calls that are open at this time are counted until this
/// last sign of life.
function lastSignOfLife(process, until) {
  if (until >= trace.counted[1]) return trace.lasts[process];
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

/// Calls `take` for each call of the lanes that was entered in a period, when the call ends. Its arguments are the
/// lane, the call, the call's time, its time without the calls inside it, the part of the latter in which the thread
/// was waiting, whether the call is inside another call of its function, and the value of `open`. `open` is called
/// when a call begins: its arguments are the lane, the call, and the value that it has returned for the call around
/// it. Calls that end later are counted until the last sign of life in the period.
function eachCall(lanes, from, until, take, open = () => {}) {
  const lasts = trace.lasts.map((_, process) => lastSignOfLife(process, until));
  const openCalls = new Uint32Array(trace.dictionary.length);
  const covered = (of, from, to) =>
    of.begin.length === 0 || to <= from ? 0 : coveredBefore(of, to) - coveredBefore(of, from);
  for (const lane of lanes) {
    const off = offTimes(lane)?.[WAITING] ?? null,
      last = lasts[lane.process],
      stack = [];
    // The open calls that end before calls inside them do.
    const early = new Set();
    const worked = (from, to) => (to <= from ? 0 : to - from - covered(lane.waits, from, to));
    const endAt = place => {
      const isInnermost = place === stack.length - 1;
      const of = isInnermost ? stack.pop() : stack.splice(place, 1)[0];
      const { call, counted } = of,
        start = lane.start[call],
        isCut = lane.end[call] > until;
      const end = isCut ? Math.max(start, last) : lane.end[call];
      if (!isInnermost) {
        // The call inside goes on. Its time until now counts as that of a call inside the ending one.
        const inner = stack[place];
        of.inside += worked(inner.counted, end);
        if (off !== null) of.offInside += covered(off, inner.counted, end);
        inner.counted = end;
      }
      const total = isCut ? worked(start, end) : end - start - (lane.waited.get(call) ?? 0);
      const own = Math.max(0, total - of.inside),
        around = place > 0 ? stack[place - 1] : undefined;
      let waiting = 0;
      if (off !== null) {
        const all = covered(off, start, end);
        waiting = Math.min(own, Math.max(0, all - of.offInside));
        if (around !== undefined) around.offInside += all - covered(off, start, counted);
      }
      if (around !== undefined) around.inside += total - worked(start, counted);
      const entry = lane.entry[call];
      openCalls[entry]--;
      take(lane, call, total, own, waiting, openCalls[entry] > 0, of.value);
    };
    // Returns the open call that ends first, if it has ended before a call begins at a depth.
    const nextEnded = (depth, call) => {
      const innermost = stack[stack.length - 1];
      let next,
        nextRank = Infinity;
      for (const other of early) {
        const { inner, later, rank } = lane.early.get(other.call);
        if (inner === innermost.call && later <= call && rank < nextRank) [next, nextRank] = [other, rank];
      }
      return next ?? (innermost !== undefined && lane.depth[innermost.call] >= depth ? innermost : undefined);
    };
    const endBefore = (depth, call) => {
      if (early.size === 0) {
        while (stack.length > 0 && lane.depth[stack[stack.length - 1].call] >= depth) endAt(stack.length - 1);
        return;
      }
      for (let next; (next = nextEnded(depth, call)) !== undefined;) {
        early.delete(next);
        endAt(stack.lastIndexOf(next));
      }
    };
    const first = countBelow(lane.start, from),
      behind = countBelow(lane.start, until + 0.5);
    for (let call = first; call < behind; call++) {
      endBefore(lane.depth[call], call);
      openCalls[lane.entry[call]]++;
      const around = stack.length > 0 ? stack[stack.length - 1].value : undefined;
      const begun = { call, inside: 0, offInside: 0, counted: lane.start[call], value: open(lane, call, around) };
      stack.push(begun);
      if (lane.early.has(call) && lane.end[call] <= until) early.add(begun);
    }
    endBefore(0, Infinity);
  }
}

/// Returns a row for each function that the lanes have entered in a period, the row with the greatest total first.
function statistics(lanes, from, until) {
  // In `times`, the times of a function's calls come after those of the previous function.
  const begins = new Uint32Array(trace.dictionary.length + 1);
  for (const { start, entry } of lanes) {
    const behind = countBelow(start, until + 0.5);
    for (let call = countBelow(start, from); call < behind; call++) begins[entry[call] + 1]++;
  }
  for (let entry = 0; entry < trace.dictionary.length; entry++) begins[entry + 1] += begins[entry];
  const times = new Float64Array(begins[trace.dictionary.length]),
    next = begins.slice(),
    rows = [];
  eachCall(lanes, from, until, (lane, call, total, own, waiting, isRecursive) => {
    const entry = lane.entry[call];
    const row = (rows[entry] ??= { entry, total: 0, own: 0, waiting: 0, sum: 0 });
    row.total += isRecursive ? 0 : total;
    row.own += own;
    row.waiting += waiting;
    row.sum += total;
    times[next[entry]++] = total;
  });
  const all = rows.filter(row => row !== undefined);
  for (const row of all) {
    const own = times.subarray(begins[row.entry], begins[row.entry + 1]);
    row.calls = own.length;
    row.average = Math.floor(row.sum / row.calls);
    row.min = own.reduce((least, time) => Math.min(least, time), Infinity);
    row.max = own.reduce((most, time) => Math.max(most, time), 0);
    [row.p50, row.p99] = percentiles(own, row.min, [50, 99]);
    row.name = functionName(row.entry);
    row.place = trace.dictionary[row.entry].about[0] ?? "";
  }
  return all.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
