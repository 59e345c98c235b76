// The statistics of the selection as a table.
"use strict";

/// The columns of the table: name, heading, explanation, how a value is shown, and whether it needs states of
/// threads.
const COLUMNS = [
  ["calls", "calls", "the number of calls", grouped],
  ["total", "total", "the time of all calls; a recursive call counts with the outermost", duration],
  ["own", "self", "the time of all calls without the calls inside", duration],
  ["waiting", "waiting", "the part of self in which the thread waited for something", duration, true],
  ["min", "min", "the shortest call", duration],
  ["average", "avg", "the average call", duration],
  ["p50", "p50", "half of the calls took no longer, to 1 %", duration],
  ["p99", "p99", "99 % of the calls took no longer, to 1 %", duration],
  ["max", "max", "the longest call", duration],
];

const counts = { rows: [], sort: "total", isAscending: false, filter: "" };

/// Returns the period whose statistics are shown.
function countedPeriod() {
  return view.selection ?? trace.counted;
}

function statisticsPage() {
  const filter = element("input", {
    type: "search",
    placeholder: "functions",
    "aria-label": "Filter of functions",
    oninput: event => {
      counts.filter = event.target.value;
      showStatistics();
    },
  });
  return element(
    "div",
    { class: "page", id: "statistics" },
    element(
      "div",
      { class: "bar" },
      filter,
      element("span", { id: "counted", role: "status" }),
      ...comparisonControls(),
    ),
    element("div", { class: "scroll" }, element("table", { id: "functions" })),
  );
}

/// Counts the calls of the selection, or of the whole trace.
function countCalls() {
  const [from, to] = countedPeriod();
  counts.rows = statistics(shownLanes(), from, to);
  showStatistics();
}

function showStatistics() {
  const hasStates = trace.lanes.some(lane => lane.states.begin.length > 0);
  const isCompared = before.rows !== null,
    columns = isCompared ? COMPARED : COLUMNS.filter(([, , , , needsStates]) => !needsStates || hasStates),
    all = isCompared ? comparedRows() : counts.rows;
  const [from, to] = countedPeriod(),
    sum = name => all.reduce((sum, row) => sum + row[name], 0);
  byId("counted").textContent =
    `${counted(sum("calls"), "call")} of ${counted(counts.rows.length, "function")}, ` +
    (view.selection === null ? (trace.page.number === null ? "the whole trace" : "this page") : `selected: ${duration(to - from)}`);
  const wanted = counts.filter.toLowerCase();
  const rows = all.filter(row => row.name.toLowerCase().includes(wanted));
  const order =
    counts.sort === "name" ? (a, b) => (a.name < b.name ? 1 : -1) : (a, b) => b[counts.sort] - a[counts.sort];
  // Sorting keeps the order of equal rows.
  if (counts.sort !== "total" || counts.isAscending || isCompared) rows.sort(order);
  if (counts.isAscending) rows.reverse();
  const heading = ([name, heading, about]) =>
    element(
      "th",
      {
        scope: "col",
        title: about,
        "aria-sort": counts.sort === name ? (counts.isAscending ? "ascending" : "descending") : "none",
      },
      element(
        "button",
        {
          onclick: () => {
            counts.isAscending = counts.sort === name && !counts.isAscending;
            counts.sort = name;
            showStatistics();
          },
        },
        heading + (counts.sort === name ? (counts.isAscending ? " \u2191" : " \u2193") : ""),
      ),
    );
  const cell = (row, [name, , , shown]) => element("td", { "data-value": row[name] }, shown(row[name]));
  const line = row =>
    element(
      "tr",
      {
        tabindex: 0,
        onclick: () => findFunction(row.name),
        onkeydown: event => {
          if (event.key === "Enter") findFunction(row.name);
        },
      },
      ...columns.map(column => cell(row, column)),
      element(
        "td",
        { class: "text", "data-value": row.name },
        row.name,
        element("span", { class: "place" }, row.place),
      ),
    );
  const summed = ["calls", "callsBefore", "own", "ownBefore", "waiting"];
  const sums = Object.fromEntries(summed.map(name => [name, sum(name)]));
  byId("functions").replaceChildren(
    element(
      "thead",
      {},
      element("tr", {}, ...columns.map(heading), heading(["name", "function", "the name"])),
    ),
    element("tbody", {}, ...rows.slice(0, 2000).map(line)),
    element(
      "tfoot",
      {},
      element(
        "tr",
        {},
        ...columns.map(column => (column[0] in sums ? cell(sums, column) : element("td"))),
        element("td", { class: "text" }, "all functions"),
      ),
    ),
  );
}
