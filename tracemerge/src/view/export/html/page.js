// The page as a whole: its panels, keys and pointer, its theme, and the link to what it shows.
"use strict";

/// The pages of the panel: their names, and the functions that make and show them.
const PAGES = [
  { id: "statistics", name: "Statistics", make: statisticsPage, show: () => {} },
  { id: "messages", name: "Messages", make: messagesPage, show: () => table.list.show() },
  { id: "flames", name: "Flame graph", make: flamesPage, show: () => showFlames() },
  { id: "spans", name: "Spans", make: spansPage, show: () => showSpans() },
  { id: "swimlanes", name: "Swimlanes", make: swimlanesPage, show: () => showSwimlanes() },
  { id: "calltree", name: "Call tree", make: callTreePage, show: () => showCallTree() },
  { id: "notes", name: "Notes", make: notesPage, show: () => {} },
];

const KEYS = [
  ["w, +", "zoom in"],
  ["s, -", "zoom out"],
  ["a, d", "move left, right"],
  ["f", "show the selection, or everything"],
  ["wheel", "zoom at the pointer; over the names: scroll"],
  ["Shift and wheel", "move left, right"],
  ["drag", "move the lanes"],
  ["Shift and drag, or drag on the time axis", "select a period, and measure it"],
  ["click", "choose a call or a message; a double click shows a call in the whole width"],
  ["/", "find"],
  ["n, N", "next, previous"],
  ["Esc", "no selection"],
  ["arrow keys", "scroll the lanes"],
  ["1 to 9", "pages of the panel"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

let shownPage = PAGES[0];

function notesPage() {
  return element(
    "div",
    { class: "page", id: "notes" },
    element("div", { class: "scroll bar", tabindex: 0 }, element("ul", { class: "notes" })),
  );
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
    byId("tabs").append(
      element(
        "button",
        { id: `tab-${page.id}`, role: "tab", "aria-controls": page.id, onclick: () => showPage(page) },
        page.name,
      ),
    );
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
  const page = trace.page.number === null ? "" : ` (page ${trace.page.number})`;
  document.title = title + page;
  byId("title").textContent = title + page;
  showNeighbours();
  byId("state").textContent =
    `${counted(records, "record")}, ${counted(lanes.length, "thread")}, ` +
    `${counted(messageCount(), "message")}, ${duration(trace.last - trace.first)}`;
  document.querySelector("#notes ul").replaceChildren(...notes.map(note => element("li", {}, note)));
  byId("tab-notes").hidden = notes.length === 0;
  byId("tab-spans").hidden = trace.spans.began.length === 0;
  view.order = lanes.map(lane => lane.number);
  view.order.sort((a, b) => lanes[a].process - lanes[b].process || a - b);
  show(trace.first, trace.last);
  fillChoices();
  readLink();
  // If a trace has several pages, threads without anything in this page are hidden, unless the link names hidden
  // threads.
  if (trace.page.number !== null && view.hidden.size === 0 && !location.hash.includes("hidden="))
    view.hidden = new Set(lanes.filter(isEmpty).map(lane => lane.number));
  layOut();
  // The picture is shown first, because the statistics take longer.
  requestAnimationFrame(() => {
    document.documentElement.dataset.drawn = "yes";
    setTimeout(() => {
      document.documentElement.dataset.ready = "yes";
      lanesChanged();
    });
  });
}

/// Shows links to the previous and the next page of the trace, whose files are in the same directory.
function showNeighbours() {
  const { number, isContinued } = trace.page;
  const link = (id, number, text) => element("a", { id, href: `page-${number}.html` }, text);
  byId("neighbours").replaceChildren(
    ...(number > 1 ? [link("pagebefore", number - 1, "\u2190 previous page")] : []),
    ...(isContinued ? [link("pageafter", number + 1, "next page \u2192")] : []),
  );
}

/// Returns whether a lane has nothing that this page could show.
function isEmpty({ start, messages, states, locks, waits }) {
  return [start, messages, states.begin, locks, waits.begin].every(list => list.length === 0);
}

/// Returns the number of messages, without the lines of the tracer and without call stacks.
function messageCount() {
  const areMessages = trace.dictionary.map(({ kind }) => kind !== "#" && kind !== "^");
  return trace.messages.entry.reduce((count, entry) => count + (areMessages[entry] ? 1 : 0), 0);
}

/// Updates the page after lanes were hidden, pinned, folded or moved.
function lanesChanged() {
  const hidden = view.hidden.size;
  byId("axislabel").replaceChildren(
    hidden === 0
      ? counted(trace.lanes.length, "thread")
      : element(
          "button",
          {
            onclick: () => {
              view.hidden.clear();
              lanesChanged();
            },
          },
          `show ${hidden} hidden`,
        ),
  );
  layOut();
  countCalls();
  filterMessages();
  shownPage.show();
  writeLink();
}

let following = 0;

/// Updates the page after the shown period has changed.
function viewChanged() {
  writeLink();
  if (shownPage.id !== "spans") return;
  cancelAnimationFrame(following);
  following = requestAnimationFrame(showSpans);
}

/// Updates the page after the selected period has changed.
function selectionChanged() {
  const { selection } = view;
  byId("chosen").textContent =
    selection === null
      ? ""
      : `${offset(selection[0])} \u2192 ${offset(selection[1])}: ${duration(selection[1] - selection[0])}`;
  countCalls();
  if (shownPage.id === "flames" || shownPage.id === "calltree") shownPage.show();
  writeLink();
  redraw();
}

function fit() {
  const [from, to] = view.selection ?? [trace.first, trace.last],
    margin = view.selection === null ? 0 : (to - from) * 0.05;
  show(from - margin, to + margin);
}

let writing = 0;

/// Writes the state of the page into its address, which thereby is a link to what is shown.
function writeLink() {
  if (trace === null || document.documentElement.dataset.ready !== "yes") return;
  clearTimeout(writing);
  writing = setTimeout(() => {
    const parts = new URLSearchParams();
    const numbers = list => [...list].map(Math.round).join(",");
    parts.set("view", numbers([view.from, view.to]));
    if (view.selection !== null) parts.set("selection", numbers(view.selection));
    if (before.period !== null) parts.set("before", numbers(before.period));
    for (const name of ["hidden", "pinned", "folded"])
      if (view[name].size > 0) parts.set(name, numbers(view[name]));
    if (view.order.some((lane, at) => at > 0 && lane < view.order[at - 1]))
      parts.set("order", numbers(view.order));
    if (shownPage !== PAGES[0]) parts.set("page", shownPage.id);
    if (byId("find").value !== "") parts.set("find", byId("find").value);
    if (table.pattern !== "") parts.set("filter", table.pattern);
    history.replaceState(null, "", `#${parts}`.replaceAll("%2C", ","));
  }, 150);
}

/// Shows what the page's address describes.
function readLink() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const numbers = name =>
    (parts.get(name) ?? "")
      .split(",")
      .filter(text => text !== "")
      .map(Number)
      .filter(Number.isFinite);
  const period = name => {
    const [from, to] = numbers(name);
    return from < to ? [from, to] : null;
  };
  const isLane = number => number in trace.lanes;
  for (const name of ["hidden", "pinned", "folded"]) view[name] = new Set(numbers(name).filter(isLane));
  const order = numbers("order");
  if (order.length === trace.lanes.length && new Set(order).size === order.length && order.every(isLane))
    view.order = order;
  const shown = period("view");
  if (shown !== null) show(...shown);
  view.selection = period("selection");
  const earlier = period("before");
  if (earlier !== null || before.period !== null) compareWith(earlier);
  byId("filter").value = table.pattern = parts.get("filter") ?? "";
  byId("find").value = parts.get("find") ?? "";
  if (byId("find").value !== "") find();
  showPage(PAGES.find(page => page.id === parts.get("page")) ?? shownPage);
  if (view.selection !== null) selectionChanged();
}

function showKeys() {
  const list = KEYS.flatMap(([key, about]) => [element("dt", {}, key), element("dd", {}, about)]);
  byId("keys").replaceChildren(
    element("dl", {}, ...list),
    element("button", { onclick: () => byId("keys").close() }, "close"),
  );
  byId("keys").showModal();
}

function changeTheme() {
  const isDark = document.documentElement.classList.toggle("dark");
  try {
    localStorage.setItem("tracemerge-theme", isDark ? "dark" : "light");
  } catch {
    /* The browser keeps nothing. */
  }
  readColours();
  redraw();
}

const ACTIONS = {
  w: () => zoom(0.7),
  "+": () => zoom(0.7),
  "=": () => zoom(0.7),
  s: () => zoom(1 / 0.7),
  "-": () => zoom(1 / 0.7),
  a: () => pan(-0.2),
  d: () => pan(0.2),
  ArrowLeft: () => pan(-0.1),
  ArrowRight: () => pan(0.1),
  ArrowUp: () => laneArea.scrollBy(0, -45),
  ArrowDown: () => laneArea.scrollBy(0, 45),
  f: fit,
  "?": showKeys,
  "/": () => byId("find").select(),
  n: () => goToFound(1),
  N: () => goToFound(-1),
  t: changeTheme,
  Escape: () => {
    view.selection = null;
    view.chosen = null;
    selectionChanged();
  },
};

function handleKeys() {
  document.addEventListener("keydown", event => {
    if (trace === null || event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    if (event.target.matches("input, select, textarea")) {
      // By default, a browser would empty the field.
      if (event.key === "Escape") {
        event.preventDefault();
        event.target.blur();
      }
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
  try {
    theme = localStorage.getItem("tracemerge-theme") ?? theme;
  } catch {
    /* The browser keeps nothing. */
  }
  document.documentElement.classList.toggle("dark", theme === "dark");
  document.body.append(tip);
  readColours();
  measureLanes();
  makePanel();
  showPage(PAGES[0]);
  byId("divider").setAttribute("aria-valuenow", byId("panel").clientHeight);
  handlePointer();
  handleKeys();
  byId("search").addEventListener("submit", event => {
    event.preventDefault();
    goToFound(1);
  });
  byId("find").addEventListener("input", () => {
    clearTimeout(finding);
    finding = setTimeout(find, 200);
  });
  byId("next").addEventListener("click", () => goToFound(1));
  byId("previous").addEventListener("click", () => goToFound(-1));
  byId("fit").addEventListener("click", fit);
  byId("theme").addEventListener("click", changeTheme);
  byId("help").addEventListener("click", showKeys);
  new ResizeObserver(redraw).observe(laneArea);
  addEventListener("hashchange", () => {
    if (trace !== null) {
      readLink();
      lanesChanged();
    }
  });
}

let finding = 0;
begin();
