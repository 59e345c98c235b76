// The time line: a lane for each thread with its calls, its messages, and the times at which it stood still.
//
// A row of calls is drawn as one line of pixels, which is then copied to the height of the row. So the cost grows with
// the width of the window and not with the number of calls: calls that are narrower than a pixel are drawn together, as
// dense as their share of the pixel's time is.
"use strict";

const ROW = 15, STRIP = 5, HEAD = 18, GAP = 4, GUTTER = 190, CHARACTER = 6.2, FONT = "10.5px ";
/// The rows of a lane that is folded.
const FOLDED_ROWS = 1;

/// What is shown: a period, in nanoseconds since the first record, and a selected period.
const view = { from: 0, to: 1, selection: null, chosen: null, pinned: new Set(), hidden: new Set(), folded: new Set(),
  order: [], search: null };

let colours = {}, dense = [], placed = [], drawing = 0, tall = 0;
const canvas = byId("canvas"), minimap = byId("minimap"), scale = byId("scale"), laneArea = byId("lanes");

/// Has the picture drawn again, once before the next frame.
function redraw() {
  if (drawing === 0) drawing = requestAnimationFrame(() => { drawing = 0; if (trace !== null) draw(); });
}

/// Reads the colours of the theme.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "front", "soft", "line", "raised", "accent", "select", "lane", "error", "warn", "waiting",
    "preempted", "tracer", "loss"];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.isDark = document.documentElement.classList.contains("dark");
  dense = [];
}

/// Returns the colour of a function as red, green and blue: functions of one module have similar hues.
function colourOf(entry) {
  const known = dense[entry];
  if (known !== undefined) return known;
  const name = functionName(entry), module = name.slice(0, Math.max(0, name.lastIndexOf("::")));
  const hash = text => [...text].reduce((sum, character) => (Math.imul(sum, 31) + character.codePointAt(0)) >>> 0, 7);
  const hue = (hash(module) * 47 + hash(name) % 40) % 360, saturation = (colours.isDark ? 0.30 : 0.42) + (hash(name) % 5) * 0.04;
  const lightness = (colours.isDark ? 0.40 : 0.74) + (hash(name) % 7 - 3) * 0.012;
  const part = shift => {
    const at = (shift + hue / 30) % 12, spread = saturation * Math.min(lightness, 1 - lightness);
    return Math.round(255 * (lightness - spread * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return dense[entry] = [part(0), part(8), part(4)];
}

/// Returns the lanes that are shown, in their order: the pinned ones first.
function shownLanes() {
  const shown = view.order.filter(number => !view.hidden.has(number)).map(number => trace.lanes[number]);
  const pinned = shown.filter(lane => view.pinned.has(lane.number));
  return [...pinned, ...shown.filter(lane => !view.pinned.has(lane.number))];
}

/// Finds the place of each lane, and makes the names beside them.
function layOut() {
  placed = [];
  tall = 0;
  const gutter = byId("gutter"), several = trace.processes.length > 1;
  gutter.replaceChildren();
  let process = null;
  for (const lane of shownLanes()) {
    const isPinned = view.pinned.has(lane.number);
    if (several && !isPinned && lane.process !== process) {
      process = lane.process;
      const { name, pid } = trace.processes[process];
      gutter.append(at(tall, HEAD, element("div", { class: "process" }, `${name || "?"} ${pid === "0" ? "" : pid}`)));
      tall += HEAD;
    }
    const isFolded = view.folded.has(lane.number);
    const rows = isFolded ? Math.min(FOLDED_ROWS, lane.rows.length) : lane.rows.length;
    const states = (lane.states.begin.length > 0 ? STRIP : 0) + (lane.locks.length > 0 ? STRIP : 0), text = lane.messages.length > 0 ? ROW : 0;
    const height = Math.max(37, states + rows * ROW + text + GAP);
    placed.push({ lane, top: tall, height, rows, calls: tall + states + 2, text: tall + states + 2 + rows * ROW, states });
    gutter.append(at(tall, height, nameOf(lane, isPinned, isFolded)));
    tall += height;
  }
  gutter.style.height = `${tall}px`;
  laneArea.setAttribute("aria-rowcount", placed.length);
  redraw();
}

function at(top, height, element) {
  element.style.top = `${top}px`;
  element.style.height = `${height}px`;
  return element;
}

/// Returns the name of a lane with its buttons.
function nameOf(lane, isPinned, isFolded) {
  const change = (set, title, text) => element("button", { title, "aria-label": `${title}: ${lane.name}`, onclick: () => {
    if (set.has(lane.number)) set.delete(lane.number); else set.add(lane.number);
    lanesChanged();
  } }, text);
  const move = (by, title, text) => element("button", { title, "aria-label": `${title}: ${lane.name}`, onclick: () => {
    const shown = shownLanes().map(lane => lane.number), from = shown.indexOf(lane.number);
    const other = shown[from + by];
    if (other === undefined) return;
    const [a, b] = [view.order.indexOf(lane.number), view.order.indexOf(other)];
    [view.order[a], view.order[b]] = [view.order[b], view.order[a]];
    lanesChanged();
  } }, text);
  return element("div", { class: isPinned ? "lane pinned" : "lane", "data-lane": lane.number },
    element("span", { class: "name", title: lane.name }, lane.name),
    element("span", { class: "tid" }, counted(lane.start.length, "call")),
    element("span", { class: "buttons" }, move(-1, "up", "\u2191"), move(1, "down", "\u2193"),
      change(view.folded, isFolded ? "unfold" : "fold", isFolded ? "\u25b8" : "\u25be"),
      change(view.pinned, isPinned ? "unpin" : "pin", "\u25c6"), change(view.hidden, "hide", "\u00d7")));
}

/// Fits a canvas to its place. Returns its context, and its width and height in pixels of the document.
function fitted(canvas, width = canvas.clientWidth, height = canvas.clientHeight) {
  const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d");
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height, ratio };
}

const scratch = document.createElement("canvas");

/// The width of the lanes, without the names.
function laneWidth() { return Math.max(1, laneArea.clientWidth - GUTTER); }
function timeAt(x) { return view.from + x * (view.to - view.from) / laneWidth(); }
function pixelAt(time) { return (time - view.from) * laneWidth() / (view.to - view.from); }

/// Draws a row of calls into a line of pixels. Returns the calls that are wide enough for a name.
function drawRow(lane, row, pixels, base, width, background) {
  const perPixel = (view.to - view.from) / width, named = [], { start, end, entry } = lane;
  const [backRed, backGreen, backBlue] = background, found = view.search?.entries ?? null;
  const put = (x, [red, green, blue], share, isFound) => {
    const at = (base + x) * 4, part = found !== null && !isFound ? share * 0.25 : share;
    pixels[at] = backRed + (red - backRed) * part;
    pixels[at + 1] = backGreen + (green - backGreen) * part;
    pixels[at + 2] = backBlue + (blue - backBlue) * part;
    pixels[at + 3] = 255;
  };
  let call = firstEndingAfter(lane, row, view.from);
  while (call < row.count) {
    const number = row.calls[call], begin = start[number];
    if (begin >= view.to) break;
    const left = Math.max(0, Math.floor((begin - view.from) / perPixel)), colour = colourOf(entry[number]);
    const isFound = found?.has(entry[number]);
    if (end[number] - begin >= perPixel) {
      const right = Math.min(width, Math.max(left + 1, Math.floor((end[number] - view.from) / perPixel)));
      const edge = right - left >= 4 && end[number] <= view.to ? right - 1 : right;
      for (let x = left; x < edge; x++) put(x, colour, 1, isFound);
      if (edge < right) put(edge, colour, 0.35, isFound);
      if (right - left > 24) named.push({ number, left, right });
      call++;
      continue;
    }
    // All calls that begin in this column of pixels, except one that is wide, are drawn together.
    const until = view.from + (left + 1) * perPixel;
    let next = call + 1, step = 1;
    while (next < row.count && start[row.calls[next]] < until && step < 1 << 30) { next += step; step *= 2; }
    let low = Math.max(call + 1, next - (step >> 1)), high = Math.min(next, row.count);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (start[row.calls[middle]] < until) low = middle + 1; else high = middle;
    }
    const last = row.calls[low - 1], isLastWide = low - call > 1 && end[last] - start[last] >= perPixel;
    const behind = isLastWide ? low - 1 : low;
    const share = Math.min(1, (row.before[behind] - row.before[call]) / perPixel);
    put(left, colour, 0.3 + 0.7 * share, isFound);
    call = behind;
  }
  return named;
}

/// Returns a colour of the style as red, green and blue.
function channels(colour) {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16 & 255, number >> 8 & 255, number & 255];
}

function draw() {
  const height = laneArea.clientHeight, width = laneWidth(), scroll = laneArea.scrollTop;
  // The canvas stands above the names, which have their places in the whole height.
  canvas.style.height = `${height}px`;
  canvas.style.marginBottom = `${-height}px`;
  canvas.style.width = `${laneArea.clientWidth}px`;
  const { context, ratio } = fitted(canvas, laneArea.clientWidth, height);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, laneArea.clientWidth, height);
  context.save();
  context.translate(GUTTER, -scroll);
  context.beginPath();
  context.rect(0, scroll, width, height);
  context.clip();
  drawTicks(context, width, scroll, scroll + height);
  const visible = placed.filter(of => of.top < scroll + height && of.top + of.height > scroll);
  drawCalls(context, visible, width, ratio, scroll, height);
  const arrows = [];
  for (const of of visible) {
    drawStates(context, of, width);
    drawMessages(context, of, width);
    drawWaits(context, of, width);
    arrows.push(...drawLocks(context, of, width));
    context.fillStyle = colours.line;
    context.fillRect(0, of.top, width, 1);
  }
  drawArrows(context, arrows);
  drawPeriods(context, scroll, height);
  context.restore();
  drawScale();
  drawMinimap();
}

/// Returns round times about 110 pixels from each other.
function roundTimes(width) {
  const least = (view.to - view.from) * 110 / width, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least) ?? power * 10;
  const times = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to && times.length < 100; time += step) times.push(time);
  return { step, times };
}

function drawTicks(context, width, top, bottom) {
  context.fillStyle = colours.line;
  context.globalAlpha = 0.6;
  for (const time of roundTimes(width).times) context.fillRect(Math.round(pixelAt(time)), top, 1, bottom - top);
  context.globalAlpha = 1;
}

function drawCalls(context, visible, width, ratio, scroll, height) {
  const lines = [], columns = Math.round(width * ratio);
  for (const of of visible) {
    for (let depth = 0; depth < of.rows; depth++) {
      const top = of.calls + depth * ROW;
      if (top + ROW > scroll && top < scroll + height) lines.push({ lane: of.lane, depth, top });
    }
  }
  if (lines.length === 0) return;
  if (scratch.width !== columns || scratch.height < lines.length) {
    scratch.width = columns;
    scratch.height = lines.length + 16;
  }
  const image = new ImageData(columns, lines.length), background = channels(colours.back), names = [];
  lines.forEach(({ lane, depth, top }, line) => {
    for (const name of drawRow(lane, lane.rows[depth], image.data, line * columns, columns, background)) {
      names.push({ ...name, lane, top });
    }
  });
  const from = scratch.getContext("2d");
  from.clearRect(0, 0, columns, lines.length);
  from.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  lines.forEach(({ top }, line) => context.drawImage(scratch, 0, line, columns, 1, 0, top, width, ROW - 1));
  context.font = FONT + "ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  for (const { number, left, right, lane, top } of names) {
    const isChosen = view.chosen?.lane === lane && view.chosen.call === number;
    if (isChosen) {
      context.strokeStyle = colours.front;
      context.lineWidth = 1.5;
      context.strokeRect(left / ratio + 0.5, top + 0.5, (right - left) / ratio - 1, ROW - 2);
    }
    const text = shortened(functionName(lane.entry[number]), (right - left) / ratio - 6);
    context.fillStyle = colours.isDark ? "#f2f5f9" : "#14181c";
    if (text !== "") context.fillText(text, Math.max(0, left / ratio) + 3, top + ROW / 2);
    if ((lane.flags[number] & OPEN_CALL) !== 0 && lane.end[number] <= view.to) {
      context.fillStyle = colours.loss;
      context.fillRect(right / ratio - 2, top, 2, ROW - 1);
    }
  }
}

/// A call that was open when its thread or the trace ended.
const OPEN_CALL = 2;

/// Returns the part of a function's name, or of a text, that fits into a width: the last names of a path first.
function shortened(name, width) {
  const fits = Math.floor(width / CHARACTER);
  if (name.length <= fits) return name;
  const last = name.slice(name.lastIndexOf("::") + 2);
  if (name.includes("::") && last.length <= fits) return last;
  return fits < 3 ? "" : (name.includes("::") ? last : name).slice(0, fits - 1) + "\u2026";
}

/// Draws the times off the processor as a strip above the calls.
function drawStates(context, { lane, top }, width) {
  if (lane.states.begin.length === 0) return;
  const { begin, end, kind } = lane.states, fill = [colours.waiting, colours.preempted, colours.soft];
  let drawn = -1;
  for (let state = countBelow(end, view.from); state < begin.length && begin[state] < view.to; state++) {
    const left = Math.max(0, pixelAt(begin[state])), right = Math.min(width, pixelAt(end[state]));
    if (right <= drawn) continue;
    context.fillStyle = fill[kind[state]];
    context.fillRect(Math.max(left, drawn), top + 1, Math.max(0.6, right - Math.max(left, drawn)), STRIP - 1);
    drawn = Math.max(drawn, left + 0.6, right);
  }
}

/// Draws the waits for locks and notifications as a strip above the calls, and returns those of locks that are wide.
function drawLocks(context, { lane, calls }, width) {
  const top = calls - STRIP - 1, wide = [], { locks } = lane;
  let low = 0, high = locks.length, drawn = -1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (locks[middle].end < view.from) low = middle + 1; else high = middle;
  }
  for (let number = low; number < locks.length && locks[number].begin <= view.to; number++) {
    const wait = locks[number];
    const left = Math.max(0, drawn, pixelAt(wait.begin)), right = Math.min(width, pixelAt(wait.end));
    if (right < drawn) continue;
    context.fillStyle = wait.isLock ? colours.loss : colours.soft;
    context.fillRect(left, top, Math.max(1, right - left), STRIP - 1);
    drawn = Math.max(left + 1, right);
    if (wait.holder >= 0 && right - left > 3 && wide.length < 100) wide.push({ x: left, y: top + 2, holder: wait.holder });
  }
  return wide;
}

/// Draws an arrow from each wait for a lock to the thread that had it.
function drawArrows(context, waits) {
  context.strokeStyle = context.fillStyle = colours.loss;
  context.lineWidth = 1;
  for (const { x, y, holder } of waits) {
    const of = placed.find(of => of.lane.number === holder);
    if (of === undefined) continue;
    const to = of.calls + ROW / 2, direction = to > y ? 1 : -1, at = Math.round(x) + 0.5;
    context.beginPath();
    context.moveTo(at, y);
    context.lineTo(at, to);
    context.stroke();
    context.beginPath();
    context.moveTo(at - 3.5, to - direction * 6);
    context.lineTo(at + 3.5, to - direction * 6);
    context.lineTo(at, to);
    context.fill();
  }
}

/// Draws the waits for the tracer over the lane, and the losses of records.
function drawWaits(context, { lane, top, height }, width) {
  const hatch = (from, to) => {
    if (to < view.from || from > view.to) return;
    const left = Math.max(0, pixelAt(from)), right = Math.min(width, pixelAt(to));
    context.globalAlpha = 0.2;
    context.fillStyle = colours.tracer;
    context.fillRect(left, top + 1, Math.max(1, right - left), height - 2);
    context.globalAlpha = 1;
    context.fillRect(left, top + 1, Math.max(1, right - left), 2);
  };
  const { begin, end } = lane.waits;
  let drawn = -Infinity;
  for (let wait = countBelow(end, view.from); wait < begin.length && begin[wait] < view.to; wait++) {
    if (pixelAt(end[wait]) < drawn + 1) continue;
    hatch(begin[wait], end[wait]);
    drawn = pixelAt(end[wait]);
  }
  lane.stalls.forEach(([from, to]) => hatch(from, to));
  for (const message of lane.losses) {
    const x = pixelAt(trace.messages.time[message]);
    if (x < 0 || x > width) continue;
    context.fillStyle = colours.loss;
    context.fillRect(x - 1, top + 1, 2, height - 2);
    context.beginPath();
    context.moveTo(x - 5, top + 1);
    context.lineTo(x + 5, top + 1);
    context.lineTo(x, top + 8);
    context.fill();
  }
}

function messageColour(entry) {
  return { error: colours.error, warn: colours.warn, tracer: colours.tracer, lock: colours.waiting }[
    levelOf(trace.dictionary[entry])] ?? colours.accent;
}

/// Returns the index of the first message of a lane that is not before a time.
function firstMessage(lane, time) {
  const times = trace.messages.time;
  let low = 0, high = lane.messages.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[lane.messages[middle]] < time) low = middle + 1; else high = middle;
  }
  return low;
}

/// Draws the messages of a lane as marks below its calls, with as much of their text as there is room for.
function drawMessages(context, { lane, text }, width) {
  if (lane.messages.length === 0) return;
  const { time, entry } = trace.messages, accepted = view.search?.accepted ?? null;
  context.font = FONT + "ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  let index = firstMessage(lane, view.from), count = 0;
  while (index < lane.messages.length && count++ < 4000) {
    const number = lane.messages[index];
    if (time[number] > view.to) break;
    const x = Math.floor(pixelAt(time[number]));
    const next = firstMessage(lane, Math.max(timeAt(x + 1), time[number] + 0.5));
    context.fillStyle = messageColour(entry[number]);
    context.globalAlpha = accepted !== null && accepted[number] === 0 ? 0.25 : 1;
    context.fillRect(x, text + 1, 1, ROW - 2);
    if (view.chosen?.message === number) context.fillRect(x - 2, text + 1, 5, ROW - 2);
    const following = lane.messages[Math.max(next, index + 1)];
    const right = following === undefined ? width : Math.min(width, pixelAt(time[following]));
    if (next === index + 1 && right - x > 42) {
      const known = texts.get(number);
      if (known === undefined) wantText(number);
      else {
        const fits = Math.floor((right - x - 6) / CHARACTER), shown = escaped(known.text);
        context.fillStyle = colours.front;
        context.fillText(shown.length <= fits ? shown : shown.slice(0, fits - 1) + "\u2026", x + 3, text + ROW / 2);
      }
    }
    context.globalAlpha = 1;
    index = Math.max(next, index + 1);
  }
}

/// Texts of messages that the worker has made, and the numbers of those that are wanted.
const texts = new Map(), wanted = new Set();
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

/// Draws the selection, and the pointer's time.
function drawPeriods(context, top, height) {
  if (view.selection !== null) {
    const [left, right] = view.selection.map(pixelAt);
    context.fillStyle = colours.select;
    context.fillRect(left, top, right - left, height);
    context.fillStyle = colours.accent;
    context.fillRect(Math.round(left), top, 1, height);
    context.fillRect(Math.round(right), top, 1, height);
  }
  if (pointer.time !== null) {
    context.fillStyle = colours.soft;
    context.fillRect(Math.round(pixelAt(pointer.time)), top, 1, height);
  }
}

/// Draws the time axis, and the length of the selection.
function drawScale() {
  const { context, width, height } = fitted(scale);
  const lanes = laneWidth(), { step, times } = roundTimes(lanes);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = colours.soft;
  const [left, right] = view.selection?.map(pixelAt) ?? [lanes, lanes], isSelected = left < lanes && right > 0;
  const text = isSelected ? duration(view.selection[1] - view.selection[0]) : "";
  const wide = context.measureText(text).width + 12;
  const x = Math.max(0, Math.min(lanes - wide, (Math.max(0, left) + Math.min(lanes, right) - wide) / 2));
  for (const time of times) {
    const at = Math.round(pixelAt(time)), label = roundTime(time, step);
    context.fillRect(at, height - 6, 1, 6);
    const isCovered = isSelected && at + 4 < x + wide + 4 && at + 4 + context.measureText(label).width > x - 4;
    if (!isCovered) context.fillText(label, at + 4, height / 2);
  }
  if (!isSelected) return;
  context.fillStyle = colours.select;
  context.fillRect(left, 0, right - left, height);
  context.fillStyle = colours.accent;
  context.fillRect(x, 2, wide, height - 4);
  context.fillStyle = colours.back;
  context.fillText(text, x + 5, height / 2);
}

/// Returns a time of the axis with as many digits as its step needs.
function roundTime(time, step) {
  const most = Math.max(Math.abs(view.from), Math.abs(view.to));
  const [unit, name] = most >= 1e9 ? [1e9, "s"] : most >= 1e6 ? [1e6, "ms"] : most >= 1e3 ? [1e3, "us"] : [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(time / unit).toFixed(digits)} ${name}`;
}

/// Draws the whole trace: how many threads are in calls, how many messages there are, and which part is shown.
function drawMinimap() {
  const { context, width, height } = fitted(minimap), lanes = laneWidth(), whole = trace.last - trace.first;
  context.clearRect(0, 0, width, height);
  const key = `${Math.round(lanes)}`;
  if (trace.profile?.key !== key) trace.profile = { key, ...profileOf(Math.round(lanes)) };
  const { busy, messages, most } = trace.profile, floor = height - 12;
  context.fillStyle = colours.accent;
  context.globalAlpha = 0.45;
  busy.forEach((share, x) => context.fillRect(x, floor - share * (floor - 3), 1, share * (floor - 3)));
  context.fillStyle = colours.soft;
  messages.forEach((count, x) => {
    if (count === 0) return;
    context.globalAlpha = 0.25 + 0.75 * count / most;
    context.fillRect(x, floor + 3, 1, 7);
  });
  context.globalAlpha = 1;
  const place = time => (time - trace.first) * lanes / whole;
  const [left, right] = [place(view.from), place(view.to)];
  context.fillStyle = colours.isDark ? "rgba(0,0,0,0.45)" : "rgba(120,130,140,0.25)";
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.strokeStyle = colours.accent;
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, 0.5, Math.max(2, right - left) - 1, height - 1);
  if (view.selection !== null) {
    const [begin, end] = view.selection.map(place);
    context.fillStyle = colours.accent;
    context.fillRect(begin, 0, Math.max(1, end - begin), 3);
  }
}

/// Returns the share of threads that are in calls, and the number of messages, for each column of pixels.
function profileOf(columns) {
  const busy = new Float64Array(columns), messages = new Uint32Array(columns);
  const perColumn = (trace.last - trace.first) / columns, lanes = trace.lanes.filter(lane => lane.rows.length > 0);
  for (const lane of lanes) {
    const row = lane.rows[0];
    const coveredUntil = time => {
      const ended = firstEndingAfter(lane, row, time), call = row.calls[ended];
      return row.before[ended] + (call === undefined ? 0 : Math.max(0, time - lane.start[call]));
    };
    let last = 0;
    for (let x = 0; x < columns; x++) {
      const covered = coveredUntil(trace.first + (x + 1) * perColumn);
      busy[x] += Math.min(1, (covered - last) / perColumn) / lanes.length;
      last = covered;
    }
  }
  for (const time of trace.messages.time) {
    messages[Math.min(columns - 1, Math.max(0, Math.floor((time - trace.first) / perColumn)))]++;
  }
  return { busy, messages, most: messages.reduce((most, count) => Math.max(most, count), 1) };
}

/// Shows a period, but none outside of the trace.
function show(from, to) {
  const whole = trace.last - trace.first, margin = whole * 0.005;
  const least = trace.first - margin, most = trace.last + margin;
  const length = Math.min(most - least, Math.max(20, to - from));
  view.from = Math.max(least, Math.min(most - length, from));
  view.to = view.from + length;
  viewChanged();
  redraw();
}

/// Makes the shown period longer or shorter, so that a time keeps its place.
function zoom(factor, time = (view.from + view.to) / 2) {
  show(time - (time - view.from) * factor, time + (view.to - time) * factor);
}

/// Moves the shown period by a share of its length.
function pan(share) {
  const by = (view.to - view.from) * share;
  show(view.from + by, view.to + by);
}

/// Shows a time, and zooms in as far as a period around it needs.
function reveal(lane, from, to) {
  const length = to - from, shown = view.to - view.from;
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

/// The pointer over the lanes.
const pointer = { time: null, x: 0, y: 0, drag: null };

/// Returns what is at a place of the lanes: a lane, and a call or a message of it.
function thingAt(x, y) {
  const of = placed.find(of => y >= of.top && y < of.top + of.height);
  if (of === undefined || x < 0) return {};
  const time = timeAt(x), tolerance = (view.to - view.from) / laneWidth();
  const { lane } = of;
  if (y >= of.calls && y < of.text) {
    return { lane, call: callAt(lane, Math.floor((y - of.calls) / ROW), time, tolerance) };
  }
  if (y >= of.text && lane.messages.length > 0) {
    const behind = firstMessage(lane, time + 2 * tolerance), message = lane.messages[behind - 1];
    return { lane, message };
  }
  if (lane.locks.length > 0 && y >= of.calls - STRIP - 1 && y < of.calls) {
    return { lane, wait: lane.locks.find(wait => wait.begin <= time + tolerance && wait.end >= time - tolerance) };
  }
  if (lane.states.begin.length > 0 && y < of.top + STRIP) {
    const state = countBelow(lane.states.end, time), { begin } = lane.states;
    if (begin[state] <= time + tolerance) return { lane, state };
  }
  return { lane };
}
