// Finds functions and messages, and goes from one to the next.
"use strict";

/// Finds functions and messages by a part of their names or texts.
async function find() {
  const text = byId("find").value;
  if (text === "") {
    view.search = null;
    byId("found").textContent = "";
    redraw();
    return writeLink();
  }
  const lower = text.toLowerCase(),
    search = { entries: new Set(), accepted: null, list: [], at: null };
  trace.dictionary.forEach(({ kind, text }, entry) => {
    if (kind === "f" && text.toLowerCase().includes(lower)) search.entries.add(entry);
  });
  view.search = search;
  redraw();
  search.list = await ask({
    what: "filter",
    filter: { pattern: text, isExpression: false, ignoresCase: true, lanes: null, levels: null, place: "" },
  });
  if (view.search !== search) return;
  search.accepted = new Uint8Array(trace.messages.time.length);
  for (const message of search.list) search.accepted[message] = 1;
  let calls = 0;
  for (const lane of trace.lanes) for (const entry of lane.entry) if (search.entries.has(entry)) calls++;
  byId("found").textContent = `${counted(calls, "call")}, ${counted(search.list.length, "message")}`;
  redraw();
  writeLink();
}

function findFunction(name) {
  byId("find").value = name;
  find();
}

/// Goes to the next, or the previous, call or message that was found.
function goToFound(step) {
  const { search } = view;
  if (search === null) return;
  const now = search.at ?? { time: step > 0 ? view.from - 1 : view.to + 1, lane: -1 };
  const isBehind = (time, lane) =>
    step * (time - now.time) > 0 || (time === now.time && step * (lane - now.lane) > 0);
  let best = null;
  const offer = (time, lane, thing) => {
    if (!isBehind(time, lane.number)) return;
    const difference = best === null ? -1 : step * (time - best.time) || step * (lane.number - best.lane);
    if (difference < 0) best = { time, lane: lane.number, thing };
  };
  for (const lane of shownLanes()) {
    let call = countBelow(lane.start, now.time) - (step > 0 ? 0 : -1);
    call = Math.max(0, Math.min(lane.start.length - 1, call));
    for (; call >= 0 && call < lane.start.length; call += step) {
      if (search.entries.has(lane.entry[call]) && isBehind(lane.start[call], lane.number)) {
        offer(lane.start[call], lane, { call });
        break;
      }
    }
  }
  const { time, lane } = trace.messages;
  let at = Math.max(0, firstFound(search.list, now.time) - 1);
  if (step < 0) at = Math.min(search.list.length - 1, at + 2);
  for (; at >= 0 && at < search.list.length; at += step) {
    const message = search.list[at];
    if (isBehind(time[message], lane[message])) {
      offer(time[message], trace.lanes[lane[message]], { message });
      break;
    }
  }
  if (best === null) return;
  search.at = best;
  const of = trace.lanes[best.lane],
    { call, message } = best.thing;
  if (message !== undefined) (chooseMessage(message, true), reveal(of, time[message], time[message]));
  else choose({ lane: of, call });
}

function firstFound(list, time) {
  let low = 0,
    high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (trace.messages.time[list[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
