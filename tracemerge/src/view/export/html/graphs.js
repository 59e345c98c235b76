// Pictures of the selection: the call paths as a flame graph, spans as a waterfall, and messages in columns
// of threads.
"use strict";

/// The flame graph: the tree of call paths, the path that fills the width, and the place of each path that is drawn.
const flames = { root: null, shown: null, drawn: [], withoutWaiting: false, period: null };
const FLAME = 17;

function flamesPage() {
  const picture = element("canvas", {
    id: "flamecanvas",
    "aria-label": "Flame graph: click a path to give it the whole width",
  });
  const withoutWaiting = element("input", {
    type: "checkbox",
    class: "withoutwaiting",
    onchange: event => {
      leaveOutWaiting(event.target.checked);
    },
  });
  picture.addEventListener("pointermove", event => {
    const path = flameAt(event);
    if (path === undefined) {
      tip.hidden = true;
      return;
    }
    showTip(event, [
      nameOfPath(path),
      `${duration(path.total)}, ${share(path.total, flames.root.total)} of all`,
      `self ${duration(path.own)}`,
      counted(path.calls, "call"),
    ]);
  });
  picture.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  picture.addEventListener("click", event => {
    const path = flameAt(event);
    flames.shown = path === undefined || path === flames.shown ? flames.root : path;
    drawFlames();
  });
  return element(
    "div",
    { class: "page", id: "flames" },
    element(
      "div",
      { class: "bar" },
      element("label", {}, withoutWaiting, "without waiting"),
      element("span", { id: "flamed", role: "status" }),
      element("span", { class: "hint" }, "all shown threads together; a click gives a path the whole width"),
    ),
    element("div", { class: "scroll", tabindex: 0 }, picture),
  );
}

function share(part, whole) {
  return `${((100 * part) / Math.max(1, whole)).toFixed(1)} %`;
}

function nameOfPath(path) {
  return path.entry === null ? "all calls" : functionName(path.entry);
}

/// Sums the calls of the selection by their paths.
function callPaths(lanes, from, to) {
  const make = (entry, around) => ({ entry, around, own: 0, total: 0, calls: 0, inside: new Map() });
  const root = make(null, null);
  const take = (_, __, ___, own, waiting, ____, path) => {
    path.own += flames.withoutWaiting ? own - waiting : own;
    path.calls++;
  };
  eachCall(lanes, from, to, take, (lane, call, around = root) => {
    const entry = lane.entry[call];
    let path = around.inside.get(entry);
    if (path === undefined) around.inside.set(entry, (path = make(entry, around)));
    return path;
  });
  // A path comes after the paths around it.
  const all = [root];
  for (const path of all) all.push(...path.inside.values());
  for (const path of all.reverse()) {
    path.total += path.own;
    if (path.around !== null) path.around.total += path.total;
    path.sorted = [...path.inside.values()].sort((a, b) => b.total - a.total || a.entry - b.entry);
  }
  root.calls = root.sorted.reduce((sum, path) => sum + path.calls, 0);
  return root;
}

/// Finds the paths of the calls of the selection.
function findPaths() {
  const period = countedPeriod(),
    key = `${period} ${shownLanes().map(lane => lane.number)}`;
  if (flames.period === key) return;
  flames.root = flames.shown = callPaths(shownLanes(), ...period);
  flames.period = key;
}

/// Leaves out the times in which threads waited, or counts them again.
function leaveOutWaiting(isLeftOut) {
  flames.withoutWaiting = isLeftOut;
  flames.period = null;
  document.querySelectorAll(".withoutwaiting").forEach(box => {
    box.checked = isLeftOut;
  });
  shownPage.show();
}

/// Shows the flame graph of the selection.
function showFlames() {
  findPaths();
  drawFlames();
}

function drawFlames() {
  const picture = byId("flamecanvas"),
    depths = path =>
      path.sorted.length === 0
        ? 1
        : 1 +
          path.sorted.reduce(
            (most, inside) =>
              Math.max(
                most,
                path.total === 0 || inside.total / flames.shown.total < 0.0005 ? 0 : depths(inside),
              ),
            0,
          );
  const around = [];
  for (let path = flames.shown; path !== null; path = path.around) around.unshift(path);
  const rows = Math.min(400, around.length - 1 + depths(flames.shown));
  const wide = picture.parentElement.clientWidth;
  picture.style.height = `${rows * FLAME + 4}px`;
  const { context } = fitted(picture, wide, rows * FLAME + 4);
  context.clearRect(0, 0, wide, rows * FLAME + 4);
  context.font = FONT + "ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  flames.drawn = [];
  const bar = (path, x, width, depth, isAround) => {
    const [red, green, blue] = path.entry === null ? channels(colours.line) : colourOf(path.entry);
    context.globalAlpha = isAround ? 0.5 : 1;
    context.fillStyle = `rgb(${red},${green},${blue})`;
    context.fillRect(x, depth * FLAME + 1, Math.max(0.5, width - 1), FLAME - 1);
    context.globalAlpha = 1;
    flames.drawn.push({ path, x, width, depth });
    const text = shortened(nameOfPath(path), width - 8);
    context.fillStyle = colours.isDark ? "#f2f5f9" : "#14181c";
    if (text !== "") context.fillText(text, x + 4, depth * FLAME + FLAME / 2 + 1);
  };
  around.slice(0, -1).forEach((path, depth) => bar(path, 0, wide, depth, true));
  const put = (path, x, width, depth) => {
    if (width < 0.5 || depth >= rows) return;
    bar(path, x, width, depth, false);
    let left = x;
    for (const inside of path.sorted) {
      const part = (width * inside.total) / Math.max(1, path.total);
      put(inside, left, part, depth + 1);
      left += part;
    }
  };
  put(flames.shown, 0, wide, around.length - 1);
  byId("flamed").textContent =
    `${counted(flames.root.calls, "outermost call")}, ${duration(flames.root.total)}`;
}

function flameAt(event) {
  const depth = Math.floor(event.offsetY / FLAME),
    x = event.offsetX;
  return flames.drawn.find(of => of.depth === depth && x >= of.x && x < of.x + of.width)?.path;
}

/// The waterfall of spans: the spans of the shown period, and the times at which threads were in each.
const waterfall = { list: null, shown: [], filter: "", busyFrom: null, busyOrder: null };
const HOW = ["ended", "cancelled", "open", "continues"];

function spansPage() {
  waterfall.list = new RowList("Spans", spanRow, async rows => rows.map(row => waterfall.shown[row]));
  waterfall.list.onchoose = row => {
    const span = waterfall.shown[row],
      from = trace.spans.began[span],
      to = trace.spans.ended[span];
    view.selection = [from, Math.max(from + 1, to)];
    selectionChanged();
  };
  const filter = element("input", {
    type: "search",
    placeholder: "name or fields",
    "aria-label": "Filter of spans",
    oninput: event => {
      waterfall.filter = event.target.value.toLowerCase();
      showSpans();
    },
  });
  return element(
    "div",
    { class: "page", id: "spans" },
    element(
      "div",
      { class: "bar" },
      filter,
      element("span", { id: "spancount", role: "status" }),
      element(
        "span",
        { class: "hint" },
        "of the period above; strong colours: a thread was in the span; a click selects its time",
      ),
    ),
    element(
      "div",
      { class: "heads" },
      element("span", { class: "spanname" }, "span"),
      element("span", { class: "amount" }, "wall"),
      element("span", { class: "amount" }, "busy"),
      element("span", { class: "time" }, "the shown period"),
    ),
    waterfall.list.element,
  );
}

function spanName(span) {
  return `${trace.spanNames[trace.spans.name[span]]} #${trace.spans.id[span]}`;
}

/// Finds the spans of the shown period.
function showSpans() {
  const { spans, busy } = trace;
  if (waterfall.busyFrom === null) {
    const from = new Uint32Array(spans.began.length + 1);
    for (const span of busy.span) from[span + 1]++;
    for (let span = 0; span < spans.began.length; span++) from[span + 1] += from[span];
    const next = from.slice(),
      order = new Uint32Array(busy.span.length);
    busy.span.forEach((span, number) => {
      order[next[span]++] = number;
    });
    [waterfall.busyFrom, waterfall.busyOrder] = [from, order];
  }
  const shown = [];
  for (let span = 0; span < spans.began.length; span++) {
    if (spans.began[span] > view.to || spans.ended[span] < view.from) continue;
    if (
      waterfall.filter === "" ||
      `${spanName(span)} ${spans.fields[span]}`.toLowerCase().includes(waterfall.filter)
    )
      shown.push(span);
  }
  waterfall.shown = shown;
  byId("spancount").textContent = `${grouped(shown.length)} of ${counted(spans.began.length, "span")}`;
  waterfall.list.setCount(shown.length);
}

/// Returns the time in which threads were in a span. Times of several threads at once count once.
function busyTime(span) {
  let sum = 0;
  for (let at = waterfall.busyFrom[span]; at < waterfall.busyFrom[span + 1]; at++) {
    const number = waterfall.busyOrder[at];
    sum += trace.busy.end[number] - trace.busy.begin[number];
  }
  return sum;
}

function spanRow(span) {
  const { spans, busy } = trace,
    length = view.to - view.from;
  const place = time => Math.max(0, Math.min(100, ((time - view.from) / length) * 100));
  const bar = (kind, from, to) => {
    const made = element("i", { class: kind });
    made.style.left = `${place(from)}%`;
    made.style.width = `max(1px, ${place(to) - place(from)}%)`;
    return made;
  };
  const bars = [bar(`span ${HOW[spans.how[span]]}`, spans.began[span], spans.ended[span])];
  let last = -1;
  for (let at = waterfall.busyFrom[span]; at < waterfall.busyFrom[span + 1] && bars.length < 300; at++) {
    const number = waterfall.busyOrder[at],
      [from, to] = [busy.begin[number], busy.end[number]];
    if (to < view.from || from > view.to || place(to) - last < 0.05) continue;
    bars.push(bar("busy", from, to));
    last = place(to);
  }
  const wall = spans.ended[span] - spans.began[span],
    inside = busyTime(span);
  return element(
    "div",
    {
      role: "row",
      title:
        `${spanName(span)} ${spans.fields[span]}\n${HOW[spans.how[span]]}, ` +
        [
          `${duration(wall)}, busy ${duration(inside)}, from ${offset(spans.began[span])}`,
          ...beyondThePage(spans.began[span], spans.ended[span]),
        ].join("\n"),
    },
    element(
      "span",
      { role: "gridcell", class: "spanname" },
      `${spanName(span)} ${escaped(spans.fields[span])}`,
    ),
    element("span", { role: "gridcell", class: "amount" }, duration(wall)),
    element("span", { role: "gridcell", class: "amount" }, duration(inside)),
    element("span", { role: "gridcell", class: "waterfall" }, ...bars),
  );
}

/// The messages of the table in columns, one for each thread.
const swimlanes = { list: null, columns: new Map() };
const COLUMN = 200,
  TIME_COLUMN = 130;

function swimlanesPage() {
  swimlanes.list = new RowList("Messages by thread", swimRow, rows =>
    ask({ what: "rows", numbers: rows.map(messageNumber) }),
  );
  swimlanes.list.onchoose = row => chooseMessage(messageNumber(row), false);
  return element(
    "div",
    { class: "page", id: "swimlanes" },
    element(
      "div",
      { class: "scroll" },
      element("div", { id: "swim" }, element("div", { id: "swimhead" }), swimlanes.list.element),
    ),
  );
}

/// Shows the messages that the filter of the table accepts.
function showSwimlanes() {
  const lanes = shownLanes().filter(
    lane => lane.messages.length > 0 && (table.lane === "" || Number(table.lane) === lane.number),
  );
  swimlanes.columns = new Map(lanes.map((lane, column) => [lane.number, column]));
  const area = byId("swim"),
    room = area.parentElement.clientWidth - TIME_COLUMN - 16;
  swimlanes.width = Math.max(COLUMN, Math.floor(room / Math.max(1, lanes.length)));
  area.style.width = `${TIME_COLUMN + lanes.length * swimlanes.width + 16}px`;
  byId("swimhead").replaceChildren(
    element("span", { class: "time" }, "time"),
    ...lanes.map(lane => {
      const head = element("span", { title: lane.name }, lane.name);
      head.style.width = `${swimlanes.width}px`;
      return head;
    }),
  );
  swimlanes.list.setCount(table.accepted?.length ?? trace.messages.time.length);
}

function swimRow(row) {
  const { time, lane, entry } = trace.messages,
    column = swimlanes.columns.get(lane[row.number]) ?? 0;
  const level = levelOf(trace.dictionary[entry[row.number]]);
  const text = element(
    "span",
    { role: "gridcell", class: `swim ${level}`, title: row.text.slice(0, 1000) },
    escapedLines(row.text),
  );
  text.style.marginLeft = `${column * swimlanes.width}px`;
  text.style.width = `${swimlanes.width - 4}px`;
  text.style.borderLeftColor = `hsl(${(column * 137) % 360} 55% 50%)`;
  return element(
    "div",
    { role: "row" },
    element("span", { role: "gridcell", class: "time" }, offset(time[row.number])),
    text,
  );
}
