// The texts of messages: the part of the worker that makes texts from templates and arguments, and searches them.
"use strict";

/// The maximum number of blocks whose unpacked texts are kept.
const KEPT = 8;
const unpacked = new Map();

/// Returns the numbers, the words and the times of a block's messages.
function unpack(number) {
  const known = unpacked.get(number);
  if (known !== undefined) return known;
  const block = blocks[number],
    { columns } = block;
  const places = entry => (dictionary[entry].places ??= countPlaces(dictionary[entry].text));
  const ticks = new Float64Array(block.count);
  const entries = new Uint32Array(block.count),
    words = new Uint32Array(block.count + 1);
  const tickReader = new Reader(columns.ticks),
    codeReader = new Reader(columns.codes);
  let tick = 0,
    message = 0,
    word = 0;
  for (let record = 0; record < block.records; record++) {
    tick += changeOfTicks(columns.lowTicks[record], tickReader);
    const code = codeReader.next();
    if (code < FIRST || areFunctions[code - FIRST] === 1) continue;
    entries[message] = code - FIRST;
    ticks[message] = tick;
    words[message++] = word;
    word += places(code - FIRST).words;
  }
  words[message] = word;
  const ends = new Uint32Array(word + 1),
    lengthReader = new Reader(columns.lengths);
  for (let number = 0; number < word; number++) ends[number + 1] = ends[number] + lengthReader.next();
  const result = {
    block,
    entries,
    ticks,
    words,
    ends,
    ...readNumbers(columns.numbers, entries, places),
  };
  if (unpacked.size === KEPT) unpacked.delete(unpacked.keys().next().value);
  unpacked.set(number, result);
  return result;
}

/// Returns the numbers in all texts of a block, and for each text the index of its first number.
function readNumbers(column, entries, places) {
  const byEntry = new Map(),
    from = new Uint32Array(entries.length);
  let all = 0;
  entries.forEach((entry, message) => {
    const count = places(entry).numbers;
    from[message] = all;
    all += count;
    if (count === 0) return;
    if (!byEntry.has(entry)) byEntry.set(entry, []);
    byEntry.get(entry).push(message);
  });
  const numbers = new Float64Array(all),
    reader = new Reader(column);
  for (const entry of [...byEntry.keys()].sort((a, b) => a - b)) {
    for (let place = 0; place < places(entry).numbers; place++) {
      const all = byEntry.get(entry),
        areChanges = all.length >= MIN_CHANGES && reader.next() === 1;
      let last = 0;
      for (const message of all) {
        last = areChanges ? last + reader.signed() : reader.next();
        numbers[from[message] + place] = last;
      }
    }
  }
  return { numbers, from };
}

function countPlaces(template) {
  let numbers = 0,
    words = 0;
  for (const character of template) {
    if (character === "\u0001") numbers++;
    else if (character === "\u0002") words++;
  }
  return { numbers, words, parts: template.split(/([\u0001\u0002])/) };
}

function textOf(unpacked, message) {
  const { parts, numbers, words } = dictionary[unpacked.entries[message]].places;
  if (numbers + words === 0) return parts[0];
  let number = unpacked.from[message],
    word = unpacked.words[message],
    text = "";
  for (const part of parts) {
    if (part === "\u0001") text += unpacked.numbers[number++];
    else if (part === "\u0002") {
      const { ends, block } = unpacked;
      text += utf8.decode(block.columns.words.subarray(ends[word], ends[word + 1]));
      word++;
    } else text += part;
  }
  return text;
}

/// Returns the number of the block of a message.
function blockOf(message) {
  let low = 0,
    high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (blocks[middle].first <= message) low = middle;
    else high = middle - 1;
  }
  return low;
}

/// Returns the texts and the ticks of messages.
function rows(numbers) {
  return Array.from(numbers, number => {
    const block = blockOf(number),
      all = unpack(block),
      message = number - all.block.first;
    return {
      number,
      text: textOf(all, message),
      ticks: all.block.base + BigInt(all.ticks[message]),
    };
  });
}

/// Returns the numbers of the messages that a filter accepts: a pattern, sets of lanes and levels, and a part of the
/// place in the source.
function filtered({ pattern, isExpression, ignoresCase, lanes, levels, place }) {
  const escapedPattern = isExpression ? pattern : pattern.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const expression = pattern === "" ? null : new RegExp(escapedPattern, ignoresCase ? "iu" : "u");
  const found = new Growing(Uint32Array);
  const areAccepted = dictionary.map(
    entry =>
      (levels === null || levels.includes(levelOf(entry))) &&
      (place === "" || (entry.kind !== "f" && (entry.about[2] ?? "").includes(place))),
  );
  blocks.forEach((block, at) => {
    if (block.count === 0) return;
    const all = expression === null ? null : unpack(at);
    for (let message = 0; message < block.count; message++) {
      const number = block.first + message;
      if (lanes !== null && !lanes.includes(messages.lane[number])) continue;
      if (!areAccepted[messages.entry[number]]) continue;
      if (expression === null || expression.test(textOf(all, message))) found.push(number);
    }
  });
  return found.end();
}

/// Returns the level of a message: the level of its site, or the kind of its line.
function levelOf({ kind, about }) {
  return { "#": "tracer", "^": "stack", "!": "lock" }[kind] ?? (about[0] || "message");
}
