// The table of messages. Only the rows that are visible are made: the table scrolls by the number of a row.
"use strict";

const ROW_HEIGHT = 18;

/// A list of rows that is scrolled by the number of its first row.
class RowList {
  /// `make` returns the element of a row; `fetch` gets the data of rows by their numbers.
  constructor(label, make, fetch) {
    Object.assign(this, { make, fetch, count: 0, first: 0, chosen: -1, round: 0, data: new Map() });
    this.thumb = element("div", { class: "thumb" });
    this.bar = element("div", { class: "bars", "aria-hidden": "true" }, this.thumb);
    this.inside = element("div");
    this.element = element(
      "div",
      { class: "rows", role: "grid", tabindex: 0, "aria-label": label },
      this.inside,
      this.bar,
    );
    this.element.addEventListener(
      "wheel",
      event => {
        event.preventDefault();
        this.scrollTo(this.first + event.deltaY / ROW_HEIGHT);
      },
      { passive: false },
    );
    this.element.addEventListener("keydown", event => this.key(event));
    const drag = event => {
      const { top, height } = this.bar.getBoundingClientRect();
      this.scrollTo(((event.clientY - top) / height) * this.count - this.room() / 2);
    };
    this.bar.addEventListener("pointerdown", event => {
      this.bar.setPointerCapture(event.pointerId);
      drag(event);
      this.bar.onpointermove = drag;
      this.bar.onpointerup = () => {
        this.bar.onpointermove = null;
      };
    });
    new ResizeObserver(() => this.show()).observe(this.element);
  }

  room() {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT));
  }

  key(event) {
    const page = this.room() - 1;
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    if (step !== undefined)
      this.choose(Math.max(0, Math.min(this.count - 1, Math.max(0, this.chosen) + step)));
    else if (event.key === "Enter" && this.chosen >= 0) this.onchoose?.(this.chosen);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /// Chooses a row, and scrolls to it.
  choose(row) {
    this.chosen = row;
    if (row < this.first || row >= this.first + this.room()) this.scrollTo(row - this.room() / 2);
    else this.show();
    this.onchoose?.(row);
  }

  setCount(count) {
    this.count = count;
    this.data.clear();
    this.scrollTo(Math.min(this.first, count));
  }

  scrollTo(first) {
    this.first = Math.round(Math.max(0, Math.min(this.count - this.room(), first)));
    this.show();
  }

  async show() {
    if (this.element.clientHeight === 0 || trace === null) return;
    const round = ++this.round,
      rows = [];
    for (let row = this.first; row < Math.min(this.count, this.first + this.room() + 1); row++)
      rows.push(row);
    const missing = rows.filter(row => !this.data.has(row));
    if (missing.length > 0) {
      const found = await this.fetch(missing);
      if (round !== this.round) return;
      if (this.data.size > 4000) this.data.clear();
      missing.forEach((row, number) => this.data.set(row, found[number]));
    }
    this.element.setAttribute("aria-rowcount", this.count);
    this.inside.replaceChildren(
      ...rows
        .filter(row => this.data.has(row))
        .map(row => {
          const made = this.make(this.data.get(row), row);
          made.classList.add("row");
          made.classList.toggle("chosen", row === this.chosen);
          made.setAttribute("aria-rowindex", row + 1);
          made.setAttribute("aria-selected", row === this.chosen);
          made.style.top = `${(row - this.first) * ROW_HEIGHT}px`;
          made.addEventListener("click", () => this.choose(row));
          return made;
        }),
    );
    const share = Math.min(1, this.room() / Math.max(1, this.count));
    this.thumb.style.height = `${share * 100}%`;
    this.thumb.style.top = `${Math.min(1 - share, this.first / Math.max(1, this.count)) * 100}%`;
    this.bar.hidden = share === 1;
  }
}

/// The messages that the table shows: all, or those that the filter accepts.
const table = {
  accepted: null,
  pattern: "",
  isExpression: false,
  lane: "",
  level: "",
  place: "",
  list: null,
  round: 0,
};

function messageNumber(row) {
  return table.accepted === null ? row : table.accepted[row];
}

function messagesPage() {
  table.list = new RowList("Messages", messageRow, rows =>
    ask({ what: "rows", numbers: rows.map(messageNumber) }),
  );
  table.list.onchoose = row => chooseMessage(messageNumber(row), false);
  const filter = element("input", {
    type: "search",
    id: "filter",
    placeholder: "text",
    "aria-label": "Filter of messages",
    spellcheck: "false",
    oninput: event => {
      table.pattern = event.target.value;
      filterMessages();
    },
  });
  const isExpression = element("input", {
    type: "checkbox",
    id: "expression",
    onchange: event => {
      table.isExpression = event.target.checked;
      filterMessages();
    },
  });
  const place = element("input", {
    type: "search",
    id: "place",
    placeholder: "file:line",
    "aria-label": "Filter of places in the source",
    spellcheck: "false",
    oninput: event => {
      table.place = event.target.value;
      filterMessages();
    },
  });
  const choice = (id, label, of) =>
    element("select", {
      id,
      "aria-label": label,
      onchange: event => {
        table[of] = event.target.value;
        filterMessages();
      },
    });
  return element(
    "div",
    { class: "page", id: "messages" },
    element(
      "div",
      { class: "bar" },
      filter,
      element("label", {}, isExpression, " regular expression"),
      choice("thread", "Thread", "lane"),
      choice("level", "Level", "level"),
      place,
      element(
        "button",
        { id: "copy", onclick: copyMessage, title: "copy the chosen message as the merged file has it" },
        "copy line",
      ),
      element("span", { id: "accepted", role: "status" }),
    ),
    table.list.element,
  );
}

/// Fills the choices of threads and levels. Places can be filtered if the trace has them.
function fillChoices() {
  const option = (value, text) => element("option", { value }, text);
  byId("thread").replaceChildren(
    option("", "all threads"),
    ...trace.lanes.map(lane => option(lane.number, lane.name)),
  );
  byId("place").hidden = !trace.dictionary.some(({ kind, about }) => kind !== "f" && about[2]);
  const levels = new Set(trace.dictionary.filter(({ kind }) => kind !== "f").map(levelOf));
  byId("level").replaceChildren(
    option("", "all levels"),
    ...[...levels].sort().map(level => option(level, level)),
  );
}

function messageRow(row) {
  const { time, lane, entry } = trace.messages,
    about = trace.dictionary[entry[row.number]],
    level = levelOf(about);
  const shown =
    about.kind === "~" || about.kind === "#" || about.kind === "^" ? row.text : escapedLines(row.text);
  return element(
    "div",
    { role: "row", title: [about.about[1], about.about[2], about.about[3]].filter(text => text).join("  ") },
    element("span", { role: "gridcell", class: "number" }, grouped(row.number + 1)),
    element("span", { role: "gridcell", class: "time" }, offset(time[row.number])),
    element("span", { role: "gridcell", class: "thread" }, trace.lanes[lane[row.number]].name),
    element("span", { role: "gridcell", class: `level ${level}` }, level),
    element("span", { role: "gridcell", class: `text ${level}` }, shown),
  );
}

/// Returns a text in one line.
function escapedLines(text) {
  return text.split("\n").map(escaped).join(" \u21b5 ");
}

/// Asks the worker for the messages that the filter accepts, and shows them.
async function filterMessages() {
  const round = ++table.round,
    isAll = table.pattern === "" && table.lane === "" && table.level === "" && table.place === "";
  const hidden = view.hidden.size > 0;
  const shown = hidden ? shownLanes().map(lane => lane.number) : null;
  const lanes = table.lane === "" ? shown : [Number(table.lane)];
  try {
    const accepted =
      isAll && !hidden
        ? null
        : await ask({
            what: "filter",
            filter: {
              pattern: table.pattern,
              isExpression: table.isExpression,
              ignoresCase: true,
              lanes,
              levels: table.level === "" ? null : [table.level],
              place: table.place,
            },
          });
    if (round !== table.round) return;
    byId("filter").classList.remove("wrong");
    byId("filter").title = "";
    table.accepted = accepted;
  } catch (error) {
    byId("filter").classList.add("wrong");
    byId("filter").title = error.message;
    return;
  }
  const count = table.accepted?.length ?? trace.messages.time.length;
  byId("accepted").textContent = `${grouped(count)} of ${counted(trace.messages.time.length, "message")}`;
  byId("accepted").dataset.value = count;
  table.list.chosen = -1;
  table.list.setCount(count);
  if (shownPage.id === "swimlanes") showSwimlanes();
}

/// Shows a message: in the table if `inTable` is set, otherwise in the time line.
function chooseMessage(number, inTable) {
  view.chosen = { message: number };
  const lane = trace.lanes[trace.messages.lane[number]],
    time = trace.messages.time[number];
  if (!inTable) return reveal(lane, time, time);
  const row = table.accepted === null ? number : countBelow(table.accepted, number);
  table.list.chosen = row;
  table.list.scrollTo(row - table.list.room() / 2);
  redraw();
}

/// Copies the chosen message as the merged file has it.
async function copyMessage() {
  if (view.chosen?.message === undefined) return;
  const { number, text, ticks } = (await ask({ what: "rows", numbers: [view.chosen.message] }))[0];
  const { lane, entry } = trace.messages;
  const lines = mergedLines(trace.lanes[lane[number]].tid, ticks, trace.dictionary[entry[number]].kind, text);
  byId("copy").dataset.copied = lines;
  try {
    await navigator.clipboard.writeText(lines);
  } catch {
    const area = element("textarea", {}, lines);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
