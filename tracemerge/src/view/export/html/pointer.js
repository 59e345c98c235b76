// Handles the pointer over the lanes, the axis and the overview, and describes the thing under it.
"use strict";

/// Chooses a call or a message, and shows it.
function choose({ lane, call, message }) {
  if (call !== undefined) {
    view.chosen = { lane, call };
    byId("chosen").textContent = wordsOf({ lane, call }).join("  ");
    reveal(lane, lane.start[call], lane.end[call]);
  } else if (message !== undefined) {
    chooseMessage(message, true);
  } else {
    view.chosen = null;
  }
  redraw();
}

const STATES = ["waiting", "preempted", "unknown whether on a processor"];
const ENDS = [
  [1, "no leave record"],
  [2, "still running at the end"],
  [4, "left by a panic"],
  [8, "its span has ended"],
  [16, "its span was cancelled"],
];

/// Returns the maximum error of the times of a lane, as text; empty if the lane is of the first machine.
function errorOf(lane) {
  const { error } = trace.processes[lane.process];
  return error === "" ? "" : ` (${error})`;
}

/// Returns a description of a thing of the lanes: a name, and facts.
function wordsOf({ lane, call, message, state, wait }) {
  if (call !== undefined) {
    const { about } = trace.dictionary[lane.entry[call]],
      length = lane.end[call] - lane.start[call];
    const waited = lane.waited.get(call) ?? 0;
    const ends = ENDS.filter(([bit]) => (lane.flags[call] & bit) !== 0).map(([, text]) => text);
    return [
      functionName(lane.entry[call]),
      `${duration(length - waited)} from ${offset(lane.start[call])}${errorOf(lane)}`,
      ...(waited > 0 ? [`and ${duration(waited)} of waiting for the tracer`] : []),
      ...ends,
      ...beyondThePage(lane.start[call], lane.end[call]),
      about[0] ?? "",
    ];
  }
  if (message !== undefined) {
    const known = texts.get(message),
      { about } = trace.dictionary[trace.messages.entry[message]];
    if (known === undefined) wantText(message);
    return [
      known === undefined ? "\u2026" : escaped(known.text),
      `at ${offset(trace.messages.time[message])}${errorOf(trace.lanes[trace.messages.lane[message]])}`,
      about.filter(text => text).join("  "),
    ];
  }
  if (state !== undefined) {
    const { begin, end, kind } = lane.states;
    return [
      STATES[kind[state]],
      `${duration(end[state] - begin[state])} from ${offset(begin[state])}`,
      ...beyondThePage(begin[state], end[state]),
    ];
  }
  if (wait !== undefined) {
    const holder = wait.holder >= 0 ? `held by ${trace.lanes[wait.holder].name}` : "";
    return [
      wait.isLock ? "waits for a lock" : "waits for a notification",
      `${duration(wait.end - wait.begin)} from ${offset(wait.begin)}`,
      ...beyondThePage(wait.begin, wait.end),
      holder,
    ];
  }
  return [];
}

const tip = element("div", { id: "tip", hidden: true, role: "tooltip" });

/// Shows the exact time under the pointer, and what is there.
function showPointer(event) {
  const { left, top } = laneArea.getBoundingClientRect();
  const x = event.clientX - left - GUTTER,
    y = event.clientY - top + laneArea.scrollTop;
  if (x < 0) return hidePointer();
  pointer.time = timeAt(x);
  const { ticks, wall } = clockAt(pointer.time);
  byId("where").textContent =
    `${offset(pointer.time)}   ${ticks.toString(16).padStart(16, "0")}   ${wallTime(wall)}`;
  const thing = thingAt(x, y),
    [name, ...facts] = wordsOf(thing);
  byId("what").textContent =
    thing.lane === undefined ? "" : [thing.lane.name, name, ...facts].filter(text => text).join("   ");
  if (name === undefined || pointer.drag !== null) tip.hidden = true;
  else showTip(event, [name, ...facts]);
  redraw();
}

/// Shows a name and facts beside the pointer.
function showTip(event, [name, ...facts]) {
  tip.hidden = false;
  tip.replaceChildren(
    element("b", {}, name.slice(0, 2000)),
    ...facts.filter(text => text).map(fact => element("div", {}, fact)),
  );
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(innerWidth - width - 6, event.clientX + 14)}px`;
  tip.style.top = `${event.clientY + height + 24 > innerHeight ? event.clientY - height - 10 : event.clientY + 16}px`;
}

function hidePointer() {
  pointer.time = null;
  tip.hidden = true;
  redraw();
}

/// Selects the period between two places of the pointer while it is moved.
function select(from, to) {
  view.selection = from === to ? null : [Math.min(from, to), Math.max(from, to)].map(Math.round);
  redraw();
}

/// Handles the pointer over the lanes, the axis and the overview.
function handlePointer() {
  laneArea.addEventListener(
    "wheel",
    event => {
      const x = event.clientX - laneArea.getBoundingClientRect().left - GUTTER;
      if (x < 0 || trace === null) return;
      event.preventDefault();
      const amount = event.deltaMode === 1 ? 33 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        pan(((event.deltaX || event.deltaY) * amount) / 800);
      } else zoom(Math.exp((event.deltaY * amount) / 500), timeAt(x));
    },
    { passive: false },
  );
  laneArea.addEventListener("pointerdown", event => {
    const x = event.clientX - laneArea.getBoundingClientRect().left - GUTTER;
    if (x < 0 || x > laneWidth() || event.button !== 0 || trace === null) return;
    laneArea.setPointerCapture(event.pointerId);
    pointer.drag = {
      x: event.clientX,
      y: event.clientY,
      time: timeAt(x),
      scroll: laneArea.scrollTop,
      view: [view.from, view.to],
      selects: event.shiftKey,
      isMoved: false,
    };
  });
  laneArea.addEventListener("pointermove", event => {
    if (trace === null) return;
    const { drag } = pointer;
    if (drag !== null) {
      drag.isMoved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 3;
      if (drag.isMoved && drag.selects) {
        select(drag.time, timeAt(event.clientX - laneArea.getBoundingClientRect().left - GUTTER));
      } else if (drag.isMoved) {
        const by = ((drag.x - event.clientX) * (drag.view[1] - drag.view[0])) / laneWidth();
        laneArea.scrollTop = drag.scroll + drag.y - event.clientY;
        show(drag.view[0] + by, drag.view[1] + by);
      }
    }
    showPointer(event);
  });
  laneArea.addEventListener("pointerup", event => {
    const { drag } = pointer;
    pointer.drag = null;
    if (drag === null) return;
    if (drag.isMoved) return drag.selects ? selectionChanged() : undefined;
    const { left, top } = laneArea.getBoundingClientRect();
    choose(thingAt(event.clientX - left - GUTTER, event.clientY - top + laneArea.scrollTop));
  });
  laneArea.addEventListener("dblclick", event => {
    const { left, top } = laneArea.getBoundingClientRect();
    const { lane, call } = thingAt(event.clientX - left - GUTTER, event.clientY - top + laneArea.scrollTop);
    if (call === undefined) return;
    const [from, to] = [lane.start[call], lane.end[call]],
      margin = (to - from) * 0.1;
    show(from - margin, to + margin);
  });
  laneArea.addEventListener("pointerleave", hidePointer);
  laneArea.addEventListener("scroll", redraw);
  dragged(scale, event => {
    const from = timeAt(event.offsetX);
    return {
      move: x => select(from, timeAt(x)),
      end: isMoved => {
        if (!isMoved) view.selection = null;
        selectionChanged();
      },
    };
  });
  dragged(minimap, event => {
    const time = x => trace.first + (x * (trace.last - trace.first)) / laneWidth(),
      from = time(event.offsetX);
    const length = view.to - view.from,
      isInside = from >= view.from && from <= view.to && length < (trace.last - trace.first) * 0.95;
    const begin = isInside ? from - view.from : length / 2;
    return {
      move: x =>
        isInside
          ? show(time(x) - begin, time(x) - begin + length)
          : show(Math.min(from, time(x)), Math.max(from, time(x))),
      end: isMoved => {
        if (!isMoved && !isInside) show(from - length / 2, from + length / 2);
      },
    };
  });
  minimap.addEventListener(
    "wheel",
    event => {
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 500));
    },
    { passive: false },
  );
  dragged(byId("divider"), event => {
    const height = byId("panel").clientHeight,
      y = event.clientY;
    return {
      move: (_, event) => {
        setPanelHeight(height + y - event.clientY);
      },
      end: () => {},
    };
  });
  byId("divider").addEventListener("keydown", event => {
    const step = { ArrowUp: 24, ArrowDown: -24 }[event.key];
    if (step === undefined) return;
    setPanelHeight(byId("panel").clientHeight + step);
    event.stopPropagation();
  });
}

function setPanelHeight(height) {
  const pixels = Math.round(Math.max(80, height));
  byId("panel").style.height = `${pixels}px`;
  byId("divider").setAttribute("aria-valuenow", pixels);
  redraw();
}

/// Handles drags that begin on an element, by the functions that `begin` returns.
function dragged(element, begin) {
  element.addEventListener("pointerdown", event => {
    if (event.button !== 0 || trace === null) return;
    element.setPointerCapture(event.pointerId);
    const { move, end } = begin(event),
      left = element.getBoundingClientRect().left;
    let isMoved = false;
    element.onpointermove = moved => {
      isMoved ||= Math.hypot(moved.clientX - event.clientX, moved.clientY - event.clientY) > 2;
      if (isMoved) move(moved.clientX - left, moved);
    };
    element.onpointerup = () => {
      element.onpointermove = element.onpointerup = null;
      end(isMoved);
    };
  });
}
