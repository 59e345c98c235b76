// Statistics of two periods, or of two traces, beside each other.
"use strict";

/// The statistics with which others are compared: their name and their rows, which are null if nothing is compared,
/// and their period, which is also null for another trace.
const before = { name: null, rows: null, period: null };

/// The columns: name, heading, explanation, and how a value is shown.
const COMPARED = [
  ["change", "change", "the total after less the total before", change],
  ["totalBefore", "total before", "the time of all calls before", duration],
  ["total", "total", "the time of all calls; a recursive call counts with the outermost", duration],
  ["callsBefore", "calls before", "the number of calls before", grouped],
  ["calls", "calls", "the number of calls", grouped],
  ["ownBefore", "self before", "the time of all calls without the calls inside, before", duration],
  ["own", "self", "the time of all calls without the calls inside", duration],
  ["averageBefore", "avg before", "the average call before", duration],
  ["average", "avg", "the average call", duration],
  ["p99Before", "p99 before", "99 % of the calls before took no longer, to 1 %", duration],
  ["p99", "p99", "99 % of the calls took no longer, to 1 %", duration],
];

/// Returns a difference of times with its sign.
function change(ns) {
  return ns > 0 ? `+${duration(ns)}` : duration(ns);
}

/// Returns the controls of the comparison.
function comparisonControls() {
  const file = element("input", {
    type: "file",
    accept: ".html",
    id: "otherpage",
    "aria-label": "Compare with the page of another trace",
    onchange: event => compareWithPage(event.target.files[0]),
  });
  return [
    element(
      "button",
      {
        id: "compare",
        title: "keep these statistics, to compare others with them",
        onclick: () => compareWith(before.rows === null ? countedPeriod() : null),
      },
      "compare",
    ),
    element("label", { title: "the page of another trace as before" }, "with a page ", file),
    element("span", { id: "before", role: "status" }),
  ];
}

/// Keeps the statistics of a period, and compares the statistics that are shown later with them. If `period` is null,
/// ends the comparison.
function compareWith(period) {
  setBefore(
    period === null ? null : `${offset(period[0])} \u2192 ${offset(period[1])}`,
    period === null ? null : statistics(shownLanes(), ...period),
    period,
  );
}

function setBefore(name, rows, period) {
  Object.assign(before, { name, rows, period });
  byId("compare").textContent = rows === null ? "compare" : "stop comparing";
  if (rows === null) byId("otherpage").value = "";
  byId("before").textContent = rows === null ? "" : `before: ${name}`;
  if (counts.sort === "change" || counts.sort.endsWith("Before")) counts.sort = "total";
  if (rows !== null) counts.sort = "change";
  showStatistics();
  writeLink();
}

/// Returns a row for each function that is in the shown statistics or in the kept ones, with the values of both.
function comparedRows() {
  const key = row => `${row.name}\0${row.place}`;
  const nothing = { calls: 0, total: 0, own: 0, average: 0, p99: 0 };
  const rows = new Map(before.rows.map(row => [key(row), { row: { ...row, ...nothing }, old: row }]));
  for (const row of counts.rows) rows.set(key(row), { row, old: rows.get(key(row))?.old ?? nothing });
  const all = [...rows.values()].map(({ row, old }) => ({
    ...row,
    change: row.total - old.total,
    totalBefore: old.total,
    callsBefore: old.calls,
    ownBefore: old.own,
    averageBefore: old.average,
    p99Before: old.p99,
  }));
  return all;
}

/// Returns the statistics of another trace than the trace of this page.
function statisticsOf(other) {
  const mine = trace;
  trace = other;
  try {
    return statistics(other.lanes, ...other.counted);
  } finally {
    trace = mine;
  }
}

/// Reads the page of another trace, and keeps its statistics for a comparison. No script of that page is run.
async function compareWithPage(file) {
  if (file === undefined) return;
  byId("before").textContent = `reading ${file.name}`;
  const other = new Worker(workerSource);
  try {
    const blocks = (await file.text()).matchAll(/^[<]script>block\(\d+((?:,"[A-Za-z0-9+/=]*")+)\)[<]\/script>$/gm);
    let number = 0;
    for (const [, columns] of blocks)
      other.postMessage({ what: "block", number: number++, columns: JSON.parse(`[${columns.slice(1)}]`) });
    if (number === 0) throw new Error("it is no page of tracemerge");
    const read = await new Promise((resolve, reject) => {
      other.onmessage = ({ data }) => {
        if (data.what === "trace") resolve(data.trace);
        else if (data.what === "failed") reject(new Error(data.error));
      };
    });
    setBefore(file.name, statisticsOf(prepared(read)), null);
  } catch (error) {
    byId("before").textContent = `${file.name} cannot be compared: ${error.message}`;
  } finally {
    other.terminate();
  }
}
