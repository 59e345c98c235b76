// The trace: gets its blocks while the page is read, has the worker unpack them, and answers questions about
// it.
"use strict";

/// The trace; null until all blocks were read.
let trace = null;

const workerSource = URL.createObjectURL(
  new Blob([byId("decoder").textContent], { type: "text/javascript" }),
);
const worker = new Worker(workerSource);
/// A second worker, which unpacks all blocks but the first, while the worker that reads blocks reads one.
let unpacker = null;
const questions = new Map();
let nextQuestion = 0,
  blocksInPage = 0;

/// Passes a block of the page to a worker. Called by the scripts that contain the blocks.
function block(records, ...columns) {
  if (blocksInPage === 1) {
    const { port1, port2 } = new MessageChannel();
    unpacker = new Worker(workerSource);
    unpacker.postMessage({ what: "unpack" }, [port1]);
    worker.postMessage({ what: "read" }, [port2]);
  }
  (unpacker ?? worker).postMessage({ what: "block", number: blocksInPage++, columns });
  document.currentScript.remove();
}

/// Asks the worker a question. Returns its answer.
function ask(question) {
  return new Promise((resolve, reject) => {
    questions.set(++nextQuestion, { resolve, reject });
    worker.postMessage({ ...question, id: nextQuestion });
  });
}

worker.onmessage = ({ data }) => {
  if (data.what === "answer") {
    const { resolve, reject } = questions.get(data.id);
    questions.delete(data.id);
    if (data.error === undefined) resolve(data.found);
    else reject(new Error(data.error));
  } else if (data.what === "progress") {
    byId("state").textContent = `reading: ${grouped(data.records)} records`;
  } else if (data.what === "failed") {
    byId("state").textContent = `This page is damaged: ${data.error}`;
  } else if (data.what === "trace") {
    unpacker?.terminate();
    trace = prepared(data.trace);
    showTrace();
  }
};

/// The number of depths of calls that are drawn. Deeper calls are only counted.
const DRAWN_DEPTH = 128;

/// Adds to the trace the facts that the page derives from it.
function prepared(trace) {
  let first = Infinity,
    last = -Infinity;
  const see = time => {
    if (time < first) first = time;
    if (time > last && time < Infinity) last = time;
  };
  trace.lasts.forEach(time => {
    if (time > last) last = time;
  });
  const { time } = trace.messages;
  if (time.length > 0) [time[0], time[time.length - 1]].forEach(see);
  trace.lanes.forEach((lane, number) => {
    lane.number = number;
    // If the end of a process was lost, some of its calls have no end.
    const end = trace.lasts[lane.process];
    for (let call = lane.end.length - 1; call >= 0; call--)
      if (lane.end[call] === Infinity) lane.end[call] = end;
    if (lane.start.length > 0) see(lane.start[0]);
    for (const end of lane.end) if (end > last && end < Infinity) last = end;
    lane.rows = rowsOf(lane);
    lane.losses = [];
  });
  const areLosses = trace.dictionary.map(({ kind, text }) => kind === "#" && /^lost\b/.test(text));
  if (areLosses.includes(true)) {
    trace.messages.entry.forEach((entry, message) => {
      if (areLosses[entry]) trace.lanes[trace.messages.lane[message]].losses.push(message);
    });
  }
  for (let span = 0; span < trace.spans.began.length; span++) {
    see(trace.spans.began[span]);
    if (trace.spans.ended[span] === Infinity) trace.spans.ended[span] = last;
  }
  trace.first = first === Infinity ? 0 : first;
  trace.last = Math.max(trace.first + 1, last === -Infinity ? 1 : last);
  // If the page is one of several, calls and spans that began in earlier pages are shown from the page's beginning
  // on. Records at the time at which the next page begins are in the next page.
  const [number, begin, end, isContinued, carried] = trace.part ?? [null, null, null, false, 0];
  if (begin !== null) trace.first = begin;
  if (isContinued) trace.last = end;
  trace.last = Math.max(trace.first + 1, trace.last);
  trace.counted = [trace.first, isContinued ? trace.last - 1 : trace.last];
  trace.page = { number, isContinued };
  trace.records -= carried;
  return trace;
}

/// Returns the calls of a lane by their depth: their numbers, in order, and the sum of the durations before
/// each.
function rowsOf(lane) {
  const counts = [];
  for (const depth of lane.depth) if (depth < DRAWN_DEPTH) counts[depth] = (counts[depth] ?? 0) + 1;
  const rows = counts.map(count => ({
    calls: new Uint32Array(count),
    before: new Float64Array(count + 1),
    count: 0,
  }));
  for (let call = 0; call < lane.depth.length; call++) {
    const row = rows[lane.depth[call]];
    if (row === undefined) continue;
    row.calls[row.count] = call;
    row.before[row.count + 1] = row.before[row.count] + lane.end[call] - lane.start[call];
    row.count++;
  }
  return rows;
}

/// Returns the remarks on a call or a span that began in an earlier page, or goes on in the next one.
function beyondThePage(from, to) {
  return [
    ...(from < trace.first ? ["began in an earlier page"] : []),
    ...(trace.page.isContinued && to >= trace.last ? ["continues in the next page"] : []),
  ];
}

/// Returns the index in a row of the first call that ends after a time.
function firstEndingAfter(lane, row, time) {
  let low = 0,
    high = row.count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (lane.end[row.calls[middle]] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/// Returns the call of a lane at a depth and a time, or the call nearest to this time within a tolerance in
/// nanoseconds.
function callAt(lane, depth, time, tolerance) {
  const row = lane.rows[depth];
  if (row === undefined) return undefined;
  const call = row.calls[firstEndingAfter(lane, row, time - tolerance)];
  return call !== undefined && lane.start[call] <= time + tolerance ? call : undefined;
}

/// Returns the ticks and the wall time at an offset. They are calculated from the first record of the offset's block,
/// for the ticks by the block's rate.
function clockAt(time) {
  const clock = trace.clocks.findLast(clock => clock.time <= time) ?? trace.clocks[0];
  const passed = time - clock.time;
  return {
    ticks: clock.base + BigInt(Math.round(passed / (clock.rate || 1))),
    wall: clock.wall + BigInt(Math.round(passed)),
  };
}

function functionName(entry) {
  return trace.dictionary[entry].text || "?";
}

/// Returns the level of a message: the level of its site, or the kind of its line.
function levelOf({ kind, about }) {
  return { "#": "tracer", "^": "stack", "!": "lock" }[kind] ?? (about[0] || "message");
}
