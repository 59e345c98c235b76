// The pictures of the lanes.
//
// A row of calls is drawn as one line of pixels, which is then copied to the height of the row. So the cost
// grows with the width of the window and not with the number of calls: calls that are narrower than a pixel
// are drawn together, as dense as their share of the pixel's time is.
"use strict";

const scratch = document.createElement("canvas");

/// Draws a row of calls into a line of pixels. Returns the calls that are wide enough for a name.
function drawRow(lane, row, pixels, base, width, background) {
  const perPixel = (view.to - view.from) / width,
    named = [],
    { start, end, entry } = lane;
  const [backRed, backGreen, backBlue] = background,
    found = view.search?.entries ?? null;
  const put = (x, [red, green, blue], share, isFound) => {
    const at = (base + x) * 4,
      part = found !== null && !isFound ? share * 0.25 : share;
    pixels[at] = backRed + (red - backRed) * part;
    pixels[at + 1] = backGreen + (green - backGreen) * part;
    pixels[at + 2] = backBlue + (blue - backBlue) * part;
    pixels[at + 3] = 255;
  };
  let call = firstEndingAfter(lane, row, view.from);
  while (call < row.count) {
    const number = row.calls[call],
      begin = start[number];
    if (begin >= view.to) break;
    const left = Math.max(0, Math.floor((begin - view.from) / perPixel)),
      colour = colourOf(entry[number]);
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
    // All calls that begin in this column of pixels are drawn together, except the last one if it is wide.
    const until = view.from + (left + 1) * perPixel;
    let next = call + 1,
      step = 1;
    while (next < row.count && start[row.calls[next]] < until && step < 1 << 30) {
      next += step;
      step *= 2;
    }
    let low = Math.max(call + 1, next - (step >> 1)),
      high = Math.min(next, row.count);
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (start[row.calls[middle]] < until) low = middle + 1;
      else high = middle;
    }
    const last = row.calls[low - 1],
      isLastWide = low - call > 1 && end[last] - start[last] >= perPixel;
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
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

function draw() {
  measureLanes();
  const height = laneArea.clientHeight,
    width = laneWidth(),
    scroll = laneArea.scrollTop;
  // The canvas takes no room in the document, so that the places of the names count from the top of the lanes.
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
  const arrows = [],
    colourOfEntry = messageColours();
  for (const of of visible) {
    drawStates(context, of, width);
    drawMessages(context, of, width, colourOfEntry);
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
  const least = ((view.to - view.from) * 110) / width,
    power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= least) ?? power * 10;
  const times = [];
  for (let time = Math.ceil(view.from / step) * step; time <= view.to && times.length < 100; time += step)
    times.push(time);
  return { step, times };
}

function drawTicks(context, width, top, bottom) {
  context.fillStyle = colours.line;
  context.globalAlpha = 0.6;
  for (const time of roundTimes(width).times)
    context.fillRect(Math.round(pixelAt(time)), top, 1, bottom - top);
  context.globalAlpha = 1;
}

function drawCalls(context, visible, width, ratio, scroll, height) {
  const lines = [],
    columns = Math.round(width * ratio);
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
  const image = new ImageData(columns, lines.length),
    background = channels(colours.back),
    names = [];
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
    const edge = (x, colour) => {
      context.fillStyle = colour;
      context.fillRect(x, top, 2, ROW - 1);
    };
    if ((lane.flags[number] & OPEN_CALL) !== 0 && lane.end[number] <= view.to)
      edge(right / ratio - 2, colours.loss);
    // The call is also in an earlier or a later page.
    if (lane.start[number] < trace.first && view.from <= trace.first)
      edge(pixelAt(trace.first), colours.accent);
    if ((lane.flags[number] & CONTINUED_CALL) !== 0 && lane.end[number] <= view.to)
      edge(right / ratio - 2, colours.accent);
  }
}

/// A call that was open when its thread or the trace ended.
const OPEN_CALL = 2;
/// A call that goes on in the next page.
const CONTINUED_CALL = 32;

/// Returns the part of a function's name, or of a text, that fits into a width: of a path, rather its last name than
/// its beginning.
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
  const { begin, end, kind } = lane.states,
    fill = [colours.waiting, colours.preempted, colours.soft];
  let drawn = -1;
  for (let state = countBelow(end, view.from); state < begin.length && begin[state] < view.to; state++) {
    const left = Math.max(0, pixelAt(begin[state])),
      right = Math.min(width, pixelAt(end[state]));
    if (right <= drawn) continue;
    context.fillStyle = fill[kind[state]];
    context.fillRect(Math.max(left, drawn), top + 1, Math.max(0.6, right - Math.max(left, drawn)), STRIP - 1);
    drawn = Math.max(drawn, left + 0.6, right);
  }
}

/// Draws the waits for locks and notifications as a strip above the calls. Returns the waits for locks that are wide.
function drawLocks(context, { lane, calls }, width) {
  const top = calls - STRIP - 1,
    wide = [],
    { locks } = lane;
  let low = 0,
    high = locks.length,
    drawn = -1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (locks[middle].end < view.from) low = middle + 1;
    else high = middle;
  }
  for (let number = low; number < locks.length && locks[number].begin <= view.to; number++) {
    const wait = locks[number];
    const left = Math.max(0, drawn, pixelAt(wait.begin)),
      right = Math.min(width, pixelAt(wait.end));
    if (right < drawn) continue;
    context.fillStyle = wait.isLock ? colours.loss : colours.soft;
    context.fillRect(left, top, Math.max(1, right - left), STRIP - 1);
    drawn = Math.max(left + 1, right);
    if (wait.holder >= 0 && right - left > 3 && wide.length < 100)
      wide.push({ x: left, y: top + 2, holder: wait.holder });
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
    const to = of.calls + ROW / 2,
      direction = to > y ? 1 : -1,
      at = Math.round(x) + 0.5;
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
    const left = Math.max(0, pixelAt(from)),
      right = Math.min(width, pixelAt(to));
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

/// Returns the colour of the messages of each entry of the dictionary.
function messageColours() {
  const { error, warn, tracer, waiting, accent } = colours,
    ofLevel = { error, warn, tracer, lock: waiting };
  colours.messages ??= trace.dictionary.map(entry => ofLevel[levelOf(entry)] ?? accent);
  return colours.messages;
}

/// Draws the messages of a lane as marks below its calls, with as much of their text as there is room for.
function drawMessages(context, { lane, text }, width, colourOfEntry) {
  if (lane.messages.length === 0) return;
  const { time, entry } = trace.messages,
    accepted = view.search?.accepted ?? null;
  context.font = FONT + "ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  let index = firstMessage(lane, view.from),
    count = 0;
  while (index < lane.messages.length && count++ < 4000) {
    const number = lane.messages[index];
    if (time[number] > view.to) break;
    const x = Math.floor(pixelAt(time[number]));
    const next = firstMessage(lane, Math.max(timeAt(x + 1), time[number] + 0.5), index);
    context.fillStyle = colourOfEntry[entry[number]];
    context.globalAlpha = accepted !== null && accepted[number] === 0 ? 0.25 : 1;
    context.fillRect(x, text + 1, 1, ROW - 2);
    if (view.chosen?.message === number) context.fillRect(x - 2, text + 1, 5, ROW - 2);
    const following = lane.messages[Math.max(next, index + 1)];
    const right = following === undefined ? width : Math.min(width, pixelAt(time[following]));
    if (next === index + 1 && right - x > 42) {
      const known = texts.get(number);
      if (known === undefined) wantText(number);
      else {
        const fits = Math.floor((right - x - 6) / CHARACTER),
          shown = escaped(known.text);
        context.fillStyle = colours.front;
        context.fillText(
          shown.length <= fits ? shown : shown.slice(0, fits - 1) + "\u2026",
          x + 3,
          text + ROW / 2,
        );
      }
    }
    context.globalAlpha = 1;
    index = Math.max(next, index + 1);
  }
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
