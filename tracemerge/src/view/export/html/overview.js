// The time axis, and the overview of the whole trace.
"use strict";

/// Draws the time axis, and the length of the selection.
function drawScale() {
  const { context, width, height } = fitted(scale);
  const lanes = laneWidth(),
    { step, times } = roundTimes(lanes);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  context.fillStyle = colours.soft;
  const [left, right] = view.selection?.map(pixelAt) ?? [lanes, lanes],
    isSelected = left < lanes && right > 0;
  const text = isSelected ? duration(view.selection[1] - view.selection[0]) : "";
  const wide = context.measureText(text).width + 12;
  const x = Math.max(0, Math.min(lanes - wide, (Math.max(0, left) + Math.min(lanes, right) - wide) / 2));
  for (const time of times) {
    const at = Math.round(pixelAt(time)),
      label = roundTime(time, step);
    context.fillRect(at, height - 6, 1, 6);
    const isCovered =
      isSelected && at + 4 < x + wide + 4 && at + 4 + context.measureText(label).width > x - 4;
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
  const [unit, name] =
    most >= 1e9 ? [1e9, "s"] : most >= 1e6 ? [1e6, "ms"] : most >= 1e3 ? [1e3, "us"] : [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(time / unit).toFixed(digits)} ${name}`;
}

/// Draws the whole trace: how many threads are in calls, how many messages there are, and which part is
/// shown.
function drawMinimap() {
  const { context, width, height } = fitted(minimap),
    lanes = laneWidth(),
    whole = trace.last - trace.first;
  context.clearRect(0, 0, width, height);
  const key = `${Math.round(lanes)}`;
  if (trace.profile?.key !== key) trace.profile = { key, ...profileOf(Math.round(lanes)) };
  const { busy, messages, most } = trace.profile,
    floor = height - 12;
  context.fillStyle = colours.accent;
  context.globalAlpha = 0.45;
  busy.forEach((share, x) => context.fillRect(x, floor - share * (floor - 3), 1, share * (floor - 3)));
  context.fillStyle = colours.soft;
  messages.forEach((count, x) => {
    if (count === 0) return;
    context.globalAlpha = 0.25 + (0.75 * count) / most;
    context.fillRect(x, floor + 3, 1, 7);
  });
  context.globalAlpha = 1;
  const place = time => ((time - trace.first) * lanes) / whole;
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

/// Shows how busy the threads are while the records are still read. Called by the script that contains the overview.
async function overview(packed) {
  document.currentScript.remove();
  const { lanes, first, last } = JSON.parse(new TextDecoder().decode(await inflate(packed)));
  if (trace !== null) return;
  measureLanes();
  const gutter = byId("gutter");
  let top = 0;
  const places = lanes.map(([name, rows, busy, messages]) => {
    const text = /[1-9a-f]/.test(messages) ? ROW : 0,
      height = Math.max(37, rows * ROW + text + GAP),
      place = { top, rows, busy, messages, height };
    gutter.append(
      at(top, height, element("div", { class: "lane" }, element("span", { class: "name" }, name))),
    );
    top += height;
    return place;
  });
  gutter.style.height = `${top}px`;
  const { context, height } = fitted(canvas, laneArea.clientWidth, laneArea.clientHeight);
  canvas.style.height = `${height}px`;
  canvas.style.marginBottom = `${-height}px`;
  canvas.style.width = `${laneArea.clientWidth}px`;
  const map = fitted(minimap),
    wide = laneWidth(),
    floor = map.height - 12;
  const columns = lanes[0]?.[2].length ?? 0,
    all = new Float64Array(columns);
  const bar = (context, column, left, top, height, alpha) => {
    const from = Math.floor((column * wide) / columns);
    context.globalAlpha = alpha;
    context.fillRect(left + from, top, Math.floor(((column + 1) * wide) / columns) - from, height);
  };
  for (const { top, rows, busy, messages, height } of places) {
    for (let column = 0; column < columns; column++) {
      const part = parseInt(busy[column], 16) / 15,
        many = parseInt(messages[column], 16) / 15;
      all[column] += part / lanes.length;
      context.fillStyle = colours.accent;
      if (part > 0) bar(context, column, GUTTER, top + 2, rows * ROW - 1, 0.08 + 0.3 * part);
      context.fillStyle = colours.soft;
      if (many > 0) bar(context, column, GUTTER, top + 4 + rows * ROW, ROW - 5, 0.2 + 0.5 * many);
    }
    context.globalAlpha = 1;
    context.fillStyle = colours.line;
    context.fillRect(GUTTER, top + height, wide, 1);
  }
  map.context.fillStyle = colours.accent;
  all.forEach((share, column) =>
    bar(map.context, column, 0, floor - share * (floor - 3), share * (floor - 3), 0.45),
  );
  map.context.globalAlpha = 1;
  [view.from, view.to] = [first, Math.max(first + 1, last)];
  drawScale();
  document.documentElement.dataset.overview = "yes";
}

/// Returns the share of threads that are in calls, and the number of messages, for each column of pixels.
function profileOf(columns) {
  const busy = new Float64Array(columns),
    messages = new Uint32Array(columns);
  const perColumn = (trace.last - trace.first) / columns,
    lanes = trace.lanes.filter(lane => lane.rows.length > 0);
  for (const lane of lanes) {
    const row = lane.rows[0];
    const coveredUntil = time => {
      const ended = firstEndingAfter(lane, row, time),
        call = row.calls[ended];
      return row.before[ended] + (call === undefined ? 0 : Math.max(0, time - lane.start[call]));
    };
    let last = coveredUntil(trace.first);
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
