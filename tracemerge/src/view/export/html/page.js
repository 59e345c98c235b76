// The page as a whole: its panels, keys and pointer, its theme, and the link to what it shows.
"use strict";

/// The pages of the panel: their names, and what is done when one is shown.
const PAGES = [
  { id: "statistics", name: "Statistics", make: statisticsPage, show: () => {} },
  { id: "messages", name: "Messages", make: messagesPage, show: () => table.list.show() },
  { id: "flames", name: "Flame graph", make: flamesPage, show: () => showFlames() },
  { id: "spans", name: "Spans", make: spansPage, show: () => showSpans() },
  { id: "swimlanes", name: "Swimlanes", make: swimlanesPage, show: () => showSwimlanes() },
  { id: "notes", name: "Notes", make: notesPage, show: () => {} },
];

const KEYS = [
  ["w, +", "zoom in"], ["s, -", "zoom out"], ["a, d", "move left, right"], ["f", "show the selection, or everything"],
  ["wheel", "zoom at the pointer; over the names: scroll"], ["Shift and wheel", "move left, right"],
  ["drag", "move the lanes"], ["Shift and drag, or drag on the time axis", "select a period, and measure it"],
  ["click", "choose a call or a message; a double click shows a call in the whole width"],
  ["/", "find"], ["n, N", "next, previous"], ["Esc", "no selection"], ["arrow keys", "scroll the lanes"],
  ["1 to 9", "pages of the panel"], ["t", "light or dark"], ["?", "these keys"],
];

let shownPage = PAGES[0];

function notesPage() {
  return element("div", { class: "page", id: "notes" }, element("div", { class: "scroll bar" }, element("ul", { class: "notes" })));
}

function showPage(page) {
  shownPage = page;
  for (const other of PAGES) {
    byId(other.id).hidden = other !== page;
    byId(`tab-${other.id}`).setAttribute("aria-selected", other === page);
    byId(`tab-${other.id}`).tabIndex = other === page ? 0 : -1;
  }
  if (trace !== null && document.documentElement.dataset.ready === "yes") page.show();
  writeLink();
}

/// Makes the panel.
function makePanel() {
  for (const page of PAGES) {
    const made = page.make();
    made.setAttribute("role", "tabpanel");
    made.setAttribute("aria-labelledby", `tab-${page.id}`);
    byId("pages").append(made);
    byId("tabs").append(element("button", { id: `tab-${page.id}`, role: "tab", "aria-controls": page.id,
      onclick: () => showPage(page) }, page.name));
  }
  byId("tabs").addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    const next = PAGES[(PAGES.indexOf(shownPage) + step + PAGES.length) % PAGES.length];
    showPage(next);
    byId(`tab-${next.id}`).focus();
    event.stopPropagation();
  });
}

/// Shows the trace when all of it was read.
function showTrace() {
  const { processes, lanes, records, notes } = trace;
  const names = [...new Set(processes.map(({ name }) => name).filter(name => name !== ""))];
  const title = names.slice(0, 3).join(", ") || "trace";
  document.title = title;
  byId("title").textContent = title;
  byId("state").textContent = `${counted(records, "record")}, ${counted(lanes.length, "thread")}, ` +
    `${counted(messageCount(), "message")}, ${duration(trace.last - trace.first)}`;
  document.querySelector("#notes ul").replaceChildren(...notes.map(note => element("li", {}, note)));
  byId("tab-notes").hidden = notes.length === 0;
  byId("tab-spans").hidden = trace.spans.began.length === 0;
  view.order = lanes.map(lane => lane.number);
  view.order.sort((a, b) => lanes[a].process - lanes[b].process || a - b);
  show(trace.first, trace.last);
  fillChoices();
  readLink();
  document.documentElement.dataset.ready = "yes";
  lanesChanged();
}

/// Returns the number of messages, without the lines of the tracer and without call stacks.
function messageCount() {
  let count = 0;
  for (const entry of trace.messages.entry) if (trace.dictionary[entry].kind !== "#" && trace.dictionary[entry].kind !== "^") count++;
  return count;
}

/// Is called when lanes were hidden, pinned, folded or moved.
function lanesChanged() {
  const hidden = view.hidden.size;
  byId("axislabel").replaceChildren(hidden === 0 ? counted(trace.lanes.length, "thread")
    : element("button", { onclick: () => { view.hidden.clear(); lanesChanged(); } }, `show ${hidden} hidden`));
  layOut();
  countCalls();
  filterMessages();
  shownPage.show();
  writeLink();
}

let following = 0;

/// Is called when another period is shown.
function viewChanged() {
  writeLink();
  if (shownPage.id !== "spans") return;
  cancelAnimationFrame(following);
  following = requestAnimationFrame(showSpans);
}

/// Is called when another period was selected.
function selectionChanged() {
  const { selection } = view;
  byId("chosen").textContent = selection === null ? ""
    : `${offset(selection[0])} \u2192 ${offset(selection[1])}: ${duration(selection[1] - selection[0])}`;
  countCalls();
  if (shownPage.id === "flames") showFlames();
  writeLink();
  redraw();
}

function fit() {
  const [from, to] = view.selection ?? [trace.first, trace.last], margin = view.selection === null ? 0 : (to - from) * 0.05;
  show(from - margin, to + margin);
}

let writing = 0;

/// Writes what is shown into the address, so that it is a link to it.
function writeLink() {
  if (trace === null || document.documentElement.dataset.ready !== "yes") return;
  clearTimeout(writing);
  writing = setTimeout(() => {
    const parts = new URLSearchParams();
    const numbers = list => [...list].map(Math.round).join(",");
    parts.set("view", numbers([view.from, view.to]));
    if (view.selection !== null) parts.set("selection", numbers(view.selection));
    for (const name of ["hidden", "pinned", "folded"]) if (view[name].size > 0) parts.set(name, numbers(view[name]));
    if (view.order.some((lane, at) => at > 0 && lane < view.order[at - 1])) parts.set("order", numbers(view.order));
    if (shownPage !== PAGES[0]) parts.set("page", shownPage.id);
    if (byId("find").value !== "") parts.set("find", byId("find").value);
    if (table.pattern !== "") parts.set("filter", table.pattern);
    history.replaceState(null, "", `#${parts}`);
  }, 150);
}

/// Shows what the address says.
function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const numbers = name => (parts.get(name) ?? "").split(",").filter(text => text !== "").map(Number).filter(Number.isFinite);
  const period = name => { const [from, to] = numbers(name); return from < to ? [from, to] : null; };
  const isLane = number => number in trace.lanes;
  for (const name of ["hidden", "pinned", "folded"]) view[name] = new Set(numbers(name).filter(isLane));
  const order = numbers("order");
  if (order.length === trace.lanes.length && new Set(order).size === order.length && order.every(isLane)) view.order = order;
  const shown = period("view");
  if (shown !== null) show(...shown);
  view.selection = period("selection");
  byId("filter").value = table.pattern = parts.get("filter") ?? "";
  byId("find").value = parts.get("find") ?? "";
  if (byId("find").value !== "") find();
  showPage(PAGES.find(page => page.id === parts.get("page")) ?? shownPage);
  if (view.selection !== null) selectionChanged();
}

/// Finds functions and messages by a part of their names or texts.
async function find() {
  const text = byId("find").value;
  if (text === "") {
    view.search = null;
    byId("found").textContent = "";
    redraw();
    return writeLink();
  }
  const lower = text.toLowerCase(), search = { entries: new Set(), accepted: null, list: [], at: null };
  trace.dictionary.forEach(({ kind, text }, entry) => {
    if (kind === "f" && text.toLowerCase().includes(lower)) search.entries.add(entry);
  });
  view.search = search;
  redraw();
  search.list = await ask({ what: "filter", filter: { pattern: text, isExpression: false, ignoresCase: true, lanes: null,
    levels: null } });
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
  const isBehind = (time, lane) => step * (time - now.time) > 0 || (time === now.time && step * (lane - now.lane) > 0);
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
  const of = trace.lanes[best.lane], { call, message } = best.thing;
  if (message !== undefined) chooseMessage(message, true), reveal(of, time[message], time[message]);
  else choose({ lane: of, call });
}

function firstFound(list, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (trace.messages.time[list[middle]] < time) low = middle + 1; else high = middle;
  }
  return low;
}

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
const ENDS = [[1, "no leave record"], [2, "still running at the end"], [4, "left by a panic"], [8, "its span has ended"],
  [16, "its span was cancelled"]];

/// Describes a thing of the lanes: a name, and facts.
function wordsOf({ lane, call, message, state, wait }) {
  if (call !== undefined) {
    const { about } = trace.dictionary[lane.entry[call]], length = lane.end[call] - lane.start[call];
    const waited = lane.waited.get(call) ?? 0;
    const ends = ENDS.filter(([bit]) => (lane.flags[call] & bit) !== 0).map(([, text]) => text);
    return [functionName(lane.entry[call]), `${duration(length - waited)} from ${offset(lane.start[call])}`,
      ...(waited > 0 ? [`and ${duration(waited)} of waiting for the tracer`] : []), ...ends, about[0] ?? ""];
  }
  if (message !== undefined) {
    const known = texts.get(message), { about } = trace.dictionary[trace.messages.entry[message]];
    if (known === undefined) wantText(message);
    return [known === undefined ? "\u2026" : escaped(known.text), `at ${offset(trace.messages.time[message])}`,
      about.filter(text => text).join("  ")];
  }
  if (state !== undefined) {
    const { begin, end, kind } = lane.states;
    return [STATES[kind[state]], `${duration(end[state] - begin[state])} from ${offset(begin[state])}`];
  }
  if (wait !== undefined) {
    const holder = wait.holder >= 0 ? `held by ${trace.lanes[wait.holder].name}` : "";
    return [wait.isLock ? "waits for a lock" : "waits for a notification",
      `${duration(wait.end - wait.begin)} from ${offset(wait.begin)}`, holder];
  }
  return [];
}

const tip = element("div", { id: "tip", hidden: true, role: "tooltip" });

/// Shows the exact time under the pointer, and what is there.
function showPointer(event) {
  const { left, top } = laneArea.getBoundingClientRect();
  const x = event.clientX - left - GUTTER, y = event.clientY - top + laneArea.scrollTop;
  if (x < 0) return hidePointer();
  pointer.time = timeAt(x);
  const { ticks, wall } = clockAt(pointer.time);
  byId("where").textContent = `${offset(pointer.time)}   ${ticks.toString(16).padStart(16, "0")}   ${wallTime(wall)}`;
  const thing = thingAt(x, y), [name, ...facts] = wordsOf(thing);
  byId("what").textContent = thing.lane === undefined ? "" : [thing.lane.name, name, ...facts].filter(text => text).join("   ");
  if (name === undefined || pointer.drag !== null) tip.hidden = true; else showTip(event, [name, ...facts]);
  redraw();
}

/// Shows a name and facts beside the pointer.
function showTip(event, [name, ...facts]) {
  tip.hidden = false;
  tip.replaceChildren(element("b", {}, name.slice(0, 2000)), ...facts.filter(text => text).map(fact => element("div", {}, fact)));
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
  laneArea.addEventListener("wheel", event => {
    const x = event.clientX - laneArea.getBoundingClientRect().left - GUTTER;
    if (x < 0 || trace === null) return;
    event.preventDefault();
    const amount = event.deltaMode === 1 ? 33 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) * amount / 800);
    } else zoom(Math.exp(event.deltaY * amount / 500), timeAt(x));
  }, { passive: false });
  laneArea.addEventListener("pointerdown", event => {
    const x = event.clientX - laneArea.getBoundingClientRect().left - GUTTER;
    if (x < 0 || x > laneWidth() || event.button !== 0 || trace === null) return;
    laneArea.setPointerCapture(event.pointerId);
    pointer.drag = { x: event.clientX, y: event.clientY, time: timeAt(x), scroll: laneArea.scrollTop,
      view: [view.from, view.to], selects: event.shiftKey, isMoved: false };
  });
  laneArea.addEventListener("pointermove", event => {
    if (trace === null) return;
    const { drag } = pointer;
    if (drag !== null) {
      drag.isMoved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 3;
      if (drag.isMoved && drag.selects) {
        select(drag.time, timeAt(event.clientX - laneArea.getBoundingClientRect().left - GUTTER));
      } else if (drag.isMoved) {
        const by = (drag.x - event.clientX) * (drag.view[1] - drag.view[0]) / laneWidth();
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
    const [from, to] = [lane.start[call], lane.end[call]], margin = (to - from) * 0.1;
    show(from - margin, to + margin);
  });
  laneArea.addEventListener("pointerleave", hidePointer);
  laneArea.addEventListener("scroll", redraw);
  dragged(scale, event => {
    const from = timeAt(event.offsetX);
    return { move: x => select(from, timeAt(x)), end: isMoved => { if (!isMoved) view.selection = null; selectionChanged(); } };
  });
  dragged(minimap, event => {
    const time = x => trace.first + x * (trace.last - trace.first) / laneWidth(), from = time(event.offsetX);
    const length = view.to - view.from, isInside = from >= view.from && from <= view.to && length < (trace.last - trace.first) * 0.95;
    const begin = isInside ? from - view.from : length / 2;
    return { move: x => isInside ? show(time(x) - begin, time(x) - begin + length)
      : show(Math.min(from, time(x)), Math.max(from, time(x))),
    end: isMoved => { if (!isMoved && !isInside) show(from - length / 2, from + length / 2); } };
  });
  minimap.addEventListener("wheel", event => { event.preventDefault(); zoom(Math.exp(event.deltaY / 500)); }, { passive: false });
  dragged(byId("divider"), event => {
    const height = byId("panel").clientHeight, y = event.clientY;
    return { move: (_, event) => { byId("panel").style.height = `${Math.max(80, height + y - event.clientY)}px`; redraw(); }, end: () => {} };
  });
  byId("divider").addEventListener("keydown", event => {
    const step = { ArrowUp: 24, ArrowDown: -24 }[event.key];
    if (step === undefined) return;
    byId("panel").style.height = `${Math.max(80, byId("panel").clientHeight + step)}px`;
    event.stopPropagation();
    redraw();
  });
}

/// Has a drag that begins on an element handled by what `begin` returns.
function dragged(element, begin) {
  element.addEventListener("pointerdown", event => {
    if (event.button !== 0 || trace === null) return;
    element.setPointerCapture(event.pointerId);
    const { move, end } = begin(event), left = element.getBoundingClientRect().left;
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

function showKeys() {
  const list = KEYS.flatMap(([key, about]) => [element("dt", {}, key), element("dd", {}, about)]);
  byId("keys").replaceChildren(element("dl", {}, ...list),
    element("button", { onclick: () => byId("keys").close() }, "close"));
  byId("keys").showModal();
}

function changeTheme() {
  const isDark = document.documentElement.classList.toggle("dark");
  try { localStorage.setItem("tracemerge-theme", isDark ? "dark" : "light"); } catch { /* The browser keeps nothing. */ }
  readColours();
  redraw();
}

const ACTIONS = { w: () => zoom(0.7), "+": () => zoom(0.7), "=": () => zoom(0.7), s: () => zoom(1 / 0.7), "-": () => zoom(1 / 0.7),
  a: () => pan(-0.2), d: () => pan(0.2), ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1),
  ArrowUp: () => laneArea.scrollBy(0, -45), ArrowDown: () => laneArea.scrollBy(0, 45),
  f: fit, "?": showKeys, "/": () => byId("find").select(), n: () => goToFound(1), N: () => goToFound(-1), t: changeTheme,
  Escape: () => { view.selection = null; view.chosen = null; selectionChanged(); } };

function handleKeys() {
  document.addEventListener("keydown", event => {
    if (trace === null || event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    if (event.target.matches("input, select, textarea")) {
      // A browser would empty the field.
      if (event.key === "Escape") { event.preventDefault(); event.target.blur(); }
      return;
    }
    const page = PAGES.filter(page => !byId(`tab-${page.id}`).hidden)[Number(event.key) - 1];
    const action = page === undefined ? ACTIONS[event.key] : () => showPage(page);
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

/// Begins the page, before its data.
function begin() {
  let theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try { theme = localStorage.getItem("tracemerge-theme") ?? theme; } catch { /* The browser keeps nothing. */ }
  document.documentElement.classList.toggle("dark", theme === "dark");
  document.body.append(tip);
  readColours();
  makePanel();
  showPage(PAGES[0]);
  handlePointer();
  handleKeys();
  byId("search").addEventListener("submit", event => { event.preventDefault(); goToFound(1); });
  byId("find").addEventListener("input", () => { clearTimeout(finding); finding = setTimeout(find, 200); });
  byId("next").addEventListener("click", () => goToFound(1));
  byId("previous").addEventListener("click", () => goToFound(-1));
  byId("fit").addEventListener("click", fit);
  byId("theme").addEventListener("click", changeTheme);
  byId("help").addEventListener("click", showKeys);
  new ResizeObserver(redraw).observe(laneArea);
  addEventListener("hashchange", () => { if (trace !== null) { readLink(); lanesChanged(); } });
}

let finding = 0;
begin();
