// The call tree of the selection: the calls with the same callers are one row, with their number and times.
"use strict";

/// The paths of calls whose inner calls are shown, by the names of their functions.
const callTree = { open: new Set() };
/// The share of all times from which on a path is open at the beginning.
const OPEN_SHARE = 0.1;
const MOST_ROWS = 2000;

function callTreePage() {
  const withoutWaiting = element("input", {
    type: "checkbox",
    class: "withoutwaiting",
    onchange: event => leaveOutWaiting(event.target.checked),
  });
  const all = (title, text, areOpen) =>
    element(
      "button",
      {
        title,
        onclick: () => {
          callTree.open = new Set(areOpen ? pathsFrom(flames.root, () => true).map(of => of.key) : []);
          drawCallTree();
        },
      },
      text,
    );
  return element(
    "div",
    { class: "page", id: "calltree" },
    element(
      "div",
      { class: "bar" },
      element("label", {}, withoutWaiting, "without waiting"),
      all("show all calls", "unfold", true),
      all("show the outermost calls only", "fold", false),
      element("span", { id: "treecount", role: "status" }),
      element("span", { class: "hint" }, "all shown threads together; a click or Enter shows the calls inside"),
    ),
    element(
      "div",
      { class: "scroll" },
      element("table", { id: "tree", role: "treegrid", "aria-label": "Call tree" }),
    ),
  );
}

/// Returns the paths inside a path, with their keys and depths, as far as they are open.
function pathsFrom(root, isOpen) {
  const paths = [];
  const add = (path, around, depth) => {
    for (const inside of path.sorted) {
      const key = `${around}/${inside.entry}`;
      paths.push({ path: inside, key, depth });
      if (isOpen(key)) add(inside, key, depth + 1);
    }
  };
  add(root, "", 0);
  return paths;
}

/// Shows the call tree of the selection.
function showCallTree() {
  const period = flames.period;
  findPaths();
  if (callTree.open.size === 0 && period !== flames.period) {
    const isLarge = ({ path }) => path.total >= flames.root.total * OPEN_SHARE;
    callTree.open = new Set(
      pathsFrom(flames.root, () => true)
        .filter(isLarge)
        .map(of => of.key),
    );
  }
  drawCallTree();
}

function drawCallTree(focused = null) {
  const { root } = flames,
    rows = pathsFrom(root, key => callTree.open.has(key));
  const hasStates = trace.lanes.some(lane => lane.states.begin.length > 0);
  document.querySelectorAll(".withoutwaiting").forEach(box => {
    box.parentElement.hidden = !hasStates;
  });
  byId("treecount").textContent =
    `${counted(root.calls, "outermost call")}, ${duration(root.total)}` +
    (rows.length > MOST_ROWS ? `, the first ${grouped(MOST_ROWS)} rows` : "");
  const toggle = key => {
    if (!callTree.open.delete(key)) callTree.open.add(key);
    drawCallTree(key);
  };
  const onKey = (event, key, hasInside) => {
    const isOpen = callTree.open.has(key),
      { currentTarget: row } = event;
    if (event.key === "ArrowDown") row.nextElementSibling?.focus();
    else if (event.key === "ArrowUp") row.previousElementSibling?.focus();
    else if (hasInside && (event.key === "Enter" || event.key === (isOpen ? "ArrowLeft" : "ArrowRight")))
      toggle(key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const line = ({ path, key, depth }) => {
    const hasInside = path.sorted.length > 0,
      isOpen = callTree.open.has(key);
    const name = element(
      "td",
      { class: "text", "data-value": functionName(path.entry) },
      element("i", { class: "fold" }, hasInside ? (isOpen ? "\u25be" : "\u25b8") : ""),
      functionName(path.entry),
    );
    name.style.paddingLeft = `${depth * 14 + 8}px`;
    const number = (value, text) => element("td", { "data-value": value }, text);
    return element(
      "tr",
      {
        tabindex: 0,
        "aria-level": depth + 1,
        "aria-expanded": hasInside ? String(isOpen) : undefined,
        "data-key": key,
        onclick: () => hasInside && toggle(key),
        onkeydown: event => onKey(event, key, hasInside),
      },
      number(path.calls, grouped(path.calls)),
      number(path.total, duration(path.total)),
      number(path.own, duration(path.own)),
      element("td", {}, share(path.total, root.total)),
      name,
    );
  };
  const headings = ["calls", "total", "self", "share", "function"];
  byId("tree").replaceChildren(
    element("thead", {}, element("tr", {}, ...headings.map(text => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.slice(0, MOST_ROWS).map(line)),
  );
  if (focused !== null) document.querySelector(`#tree tr[data-key="${focused}"]`)?.focus();
}
