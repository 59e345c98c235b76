// The time line, which has a lane for each thread: which lanes are shown, and the place of each lane.
"use strict";

const ROW = 15,
  STRIP = 5,
  HEAD = 18,
  GAP = 4,
  GUTTER = 190,
  CHARACTER = 6.2,
  FONT = "10.5px ";
/// The number of rows of a lane that is folded.
const FOLDED_ROWS = 1;

/// What is shown: a period, in nanoseconds since the first line; the selected period and the chosen thing; and the
/// states of the lanes.
const view = {
  from: 0,
  to: 1,
  selection: null,
  chosen: null,
  pinned: new Set(),
  hidden: new Set(),
  folded: new Set(),
  order: [],
  search: null,
};

let colours = {},
  dense = [],
  placed = [],
  drawing = 0,
  tall = 0;
const canvas = byId("canvas"),
  minimap = byId("minimap"),
  scale = byId("scale"),
  laneArea = byId("lanes");

/// Draws the picture again before the next frame, however often it is called until then.
function redraw() {
  if (drawing === 0)
    drawing = requestAnimationFrame(() => {
      drawing = 0;
      if (trace !== null) draw();
    });
}

/// Reads the colours of the theme.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = [
    "back",
    "front",
    "soft",
    "line",
    "raised",
    "accent",
    "select",
    "lane",
    "error",
    "warn",
    "waiting",
    "preempted",
    "tracer",
    "loss",
  ];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.isDark = document.documentElement.classList.contains("dark");
  dense = [];
}

/// Returns the colour of a function as red, green and blue: functions of one module have similar hues.
function colourOf(entry) {
  const known = dense[entry];
  if (known !== undefined) return known;
  const name = functionName(entry),
    module = name.slice(0, Math.max(0, name.lastIndexOf("::")));
  const hash = text =>
    [...text].reduce((sum, character) => (Math.imul(sum, 31) + character.codePointAt(0)) >>> 0, 7);
  const hue = (hash(module) * 47 + (hash(name) % 40)) % 360,
    saturation = (colours.isDark ? 0.3 : 0.42) + (hash(name) % 5) * 0.04;
  const lightness = (colours.isDark ? 0.4 : 0.74) + ((hash(name) % 7) - 3) * 0.012;
  const part = shift => {
    const at = (shift + hue / 30) % 12,
      spread = saturation * Math.min(lightness, 1 - lightness);
    return Math.round(255 * (lightness - spread * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return (dense[entry] = [part(0), part(8), part(4)]);
}

/// Returns the lanes that are shown, in their order, the pinned lanes first.
function shownLanes() {
  const shown = view.order.filter(number => !view.hidden.has(number)).map(number => trace.lanes[number]);
  const pinned = shown.filter(lane => view.pinned.has(lane.number));
  return [...pinned, ...shown.filter(lane => !view.pinned.has(lane.number))];
}

/// Finds the place of each lane, and makes the names beside the lanes.
function layOut() {
  placed = [];
  tall = 0;
  const gutter = byId("gutter"),
    several = trace.processes.length > 1;
  gutter.replaceChildren();
  let process = null;
  for (const lane of shownLanes()) {
    const isPinned = view.pinned.has(lane.number);
    if (several && !isPinned && lane.process !== process) {
      process = lane.process;
      const { name, pid, error } = trace.processes[process];
      const header = `${name || "?"} ${pid === "0" ? "" : pid} ${error}`.trim();
      gutter.append(at(tall, HEAD, element("div", { class: "process" }, header)));
      tall += HEAD;
    }
    const isFolded = view.folded.has(lane.number);
    const rows = isFolded ? Math.min(FOLDED_ROWS, lane.rows.length) : lane.rows.length;
    const states = (lane.states.begin.length > 0 ? STRIP : 0) + (lane.locks.length > 0 ? STRIP : 0),
      text = lane.messages.length > 0 ? ROW : 0;
    const height = Math.max(37, states + rows * ROW + text + GAP);
    placed.push({
      lane,
      top: tall,
      height,
      rows,
      calls: tall + states + 2,
      text: tall + states + 2 + rows * ROW,
      states,
    });
    gutter.append(at(tall, height, nameOf(lane, isPinned, isFolded)));
    tall += height;
  }
  gutter.style.height = `${tall}px`;
  redraw();
}

function at(top, height, element) {
  element.style.top = `${top}px`;
  element.style.height = `${height}px`;
  return element;
}

/// Returns the name of a lane with its buttons.
function nameOf(lane, isPinned, isFolded) {
  const change = (set, title, text) =>
    element(
      "button",
      {
        title,
        "aria-label": `${title}: ${lane.name}`,
        onclick: () => {
          if (set.has(lane.number)) set.delete(lane.number);
          else set.add(lane.number);
          lanesChanged();
        },
      },
      text,
    );
  const move = (by, title, text) =>
    element(
      "button",
      {
        title,
        "aria-label": `${title}: ${lane.name}`,
        onclick: () => {
          const shown = shownLanes().map(lane => lane.number),
            from = shown.indexOf(lane.number);
          const other = shown[from + by];
          if (other === undefined) return;
          const [a, b] = [view.order.indexOf(lane.number), view.order.indexOf(other)];
          [view.order[a], view.order[b]] = [view.order[b], view.order[a]];
          lanesChanged();
        },
      },
      text,
    );
  return element(
    "div",
    { class: isPinned ? "lane pinned" : "lane", "data-lane": lane.number },
    element("span", { class: "name", title: lane.name }, lane.name),
    element("span", { class: "tid" }, counted(lane.start.length, "call")),
    element(
      "span",
      { class: "buttons" },
      move(-1, "up", "\u2191"),
      move(1, "down", "\u2193"),
      change(view.folded, isFolded ? "unfold" : "fold", isFolded ? "\u25b8" : "\u25be"),
      change(view.pinned, isPinned ? "unpin" : "pin", "\u25c6"),
      change(view.hidden, "hide", "\u00d7"),
    ),
  );
}

/// Fits the resolution of a canvas to its size in the document. Returns its context, and its width and height in
/// pixels of the document.
function fitted(canvas, width = canvas.clientWidth, height = canvas.clientHeight) {
  const ratio = window.devicePixelRatio || 1,
    context = canvas.getContext("2d");
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height, ratio };
}

/// The width of the lanes without the names, when they were last drawn, because the browser takes long to tell it.
let drawnWidth = 1;

function measureLanes() {
  drawnWidth = Math.max(1, laneArea.clientWidth - GUTTER);
}
function laneWidth() {
  return drawnWidth;
}
function timeAt(x) {
  return view.from + (x * (view.to - view.from)) / laneWidth();
}
function pixelAt(time) {
  return ((time - view.from) * laneWidth()) / (view.to - view.from);
}

/// Returns the index of the first message of a lane that is not before a time. Only looks at messages from the index
/// `from` on, and finds a message near to this index quickly.
function firstMessage(lane, time, from = 0) {
  const times = trace.messages.time,
    { messages } = lane;
  let low = from,
    high = from;
  for (let step = 1; high < messages.length && times[messages[high]] < time; step *= 2) {
    low = high + 1;
    high += step;
  }
  high = Math.min(high, messages.length);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[messages[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// Texts of messages that the worker has made, and the numbers of the messages whose texts are wanted.
const texts = new Map(),
  wanted = new Set();
let asking = false;

function wantText(number) {
  wanted.add(number);
  if (asking) return;
  asking = true;
  setTimeout(async () => {
    const numbers = [...wanted];
    wanted.clear();
    if (texts.size > 20000) texts.clear();
    for (const row of await ask({ what: "rows", numbers })) texts.set(row.number, row);
    asking = false;
    redraw();
  });
}

/// Shows a period, moved or shortened so that it is inside the trace.
function show(from, to) {
  const whole = trace.last - trace.first,
    margin = whole * 0.005;
  const least = trace.first - margin,
    most = trace.last + margin;
  const length = Math.min(most - least, Math.max(20, to - from));
  view.from = Math.max(least, Math.min(most - length, from));
  view.to = view.from + length;
  viewChanged();
  redraw();
}

/// Makes the shown period longer or shorter, so that `time` stays at its place.
function zoom(factor, time = (view.from + view.to) / 2) {
  show(time - (time - view.from) * factor, time + (view.to - time) * factor);
}

/// Moves the shown period by a share of its length.
function pan(share) {
  const by = (view.to - view.from) * share;
  show(view.from + by, view.to + by);
}

/// Scrolls to a lane and shows a period of it. Zooms in if the period would be too short to be seen.
function reveal(lane, from, to) {
  const length = to - from,
    shown = view.to - view.from;
  if (from < view.from || to > view.to || length < shown / 500) {
    const around = Math.max(length * 6, Math.min(shown, length === 0 ? shown : length * 200));
    show((from + to - around) / 2, (from + to + around) / 2);
  }
  const of = placed.find(of => of.lane === lane);
  if (of === undefined) return;
  const { scrollTop, clientHeight } = laneArea;
  if (of.top < scrollTop || of.top + of.height > scrollTop + clientHeight) {
    laneArea.scrollTop = of.top - Math.max(0, (clientHeight - of.height) / 2);
  }
  redraw();
}

/// The position of the pointer over the lanes.
const pointer = { time: null, x: 0, y: 0, drag: null };

/// Returns the things at a place of the lanes: a lane, and a call, a message, a wait for a lock or a state of this
/// lane.
function thingAt(x, y) {
  const of = placed.find(of => y >= of.top && y < of.top + of.height);
  if (of === undefined || x < 0) return {};
  const time = timeAt(x),
    tolerance = (view.to - view.from) / laneWidth();
  const { lane } = of;
  if (y >= of.calls && y < of.text) {
    return { lane, call: callAt(lane, Math.floor((y - of.calls) / ROW), time, tolerance) };
  }
  if (y >= of.text && lane.messages.length > 0) {
    const behind = firstMessage(lane, time + 2 * tolerance),
      message = lane.messages[behind - 1];
    return { lane, message };
  }
  if (lane.locks.length > 0 && y >= of.calls - STRIP - 1 && y < of.calls) {
    return {
      lane,
      wait: lane.locks.find(wait => wait.begin <= time + tolerance && wait.end >= time - tolerance),
    };
  }
  if (lane.states.begin.length > 0 && y < of.top + STRIP) {
    const state = countBelow(lane.states.end, time),
      { begin } = lane.states;
    if (begin[state] <= time + tolerance) return { lane, state };
  }
  return { lane };
}
