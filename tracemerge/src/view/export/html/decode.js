// The worker of the page: unpacks the blocks of records, keeps the texts of messages, and finds texts.
//
// A block has the columns of `columns.rs`. The worker reads them once, in order, and makes calls, messages
// and waits of them, lane by lane. The page gets these as typed arrays when the last block was read. The
// columns from which the texts of messages are made stay here: the page asks for texts by the numbers of
// messages.
"use strict";

/// The least number of texts of a template whose numbers may be written as changes.
const MIN_CHANGES = 8;
/// The kinds of times in which a thread waited for a notification, and for a lock.
const CONDITION = 3,
  LOCK = 4;
/// The codes of records.
const LEAVE = 0,
  END = 1,
  WAIT = 2,
  STALL = 3,
  FIRST = 4;
/// Bits of a call: it has no leave record; it was open when its thread or the trace ended. The next ones are
/// that it was left by a panic, and that its span has ended, or was cancelled.
const CUT = 1,
  OPEN = 2;

/// A typed array that grows.
class Growing {
  constructor(Type) {
    this.array = new Type(64);
    this.length = 0;
  }
  push(value) {
    if (this.length === this.array.length) {
      const larger = new this.array.constructor(this.length * 2);
      larger.set(this.array);
      this.array = larger;
    }
    this.array[this.length++] = value;
  }
  end() {
    return this.array.slice(0, this.length);
  }
}

/// Reads the numbers of a column.
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  next() {
    const byte = this.bytes[this.at++];
    if (byte < 0x80) return byte;
    let number = byte & 0x7f,
      scale = 128,
      more;
    do {
      more = this.bytes[this.at++];
      number += (more & 0x7f) * scale;
      scale *= 128;
    } while (more >= 0x80);
    return number;
  }
  signed() {
    const number = this.next();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }
}

const dictionary = [],
  spanNames = [];
const lanes = [],
  processes = [],
  blocks = [];
const messages = {
  time: new Growing(Float64Array),
  lane: new Growing(Uint32Array),
  entry: new Growing(Uint32Array),
};
const spans = {
  began: new Growing(Float64Array),
  ended: new Growing(Float64Array),
  name: new Growing(Uint32Array),
  id: new Growing(Float64Array),
  parent: new Growing(Uint32Array),
  how: new Growing(Uint8Array),
  fields: [],
};
const busy = {
  span: new Growing(Uint32Array),
  begin: new Growing(Float64Array),
  end: new Growing(Float64Array),
  lane: new Growing(Uint32Array),
};
const busySince = new Map();
const utf8 = new TextDecoder();
let records = 0,
  isWhole = false;

async function inflate(base64) {
  if (base64 === "") return new Uint8Array(0);
  const packed = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(base64)
    : Uint8Array.from(atob(base64), character => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function newLane([name, tid, process]) {
  return {
    name,
    tid,
    process,
    start: new Growing(Float64Array),
    end: new Growing(Float64Array),
    entry: new Growing(Uint32Array),
    depth: new Growing(Uint32Array),
    flags: new Growing(Uint8Array),
    open: [],
    locks: [],
    waits: { begin: [], end: [], total: [0] },
    waited: new Map(),
    stalls: [],
    states: {
      begin: new Growing(Float64Array),
      end: new Growing(Float64Array),
      kind: new Growing(Uint8Array),
    },
    messages: new Growing(Uint32Array),
  };
}

/// The time for which the thread has waited for the tracer between two times, as far as the waits were read.
function waitedBetween(waits, from, until) {
  const count = waits.end.length;
  if (count === 0 || waits.end[count - 1] <= from) return 0;
  const before = time => {
    let low = 0,
      high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (waits.begin[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : waits.total[low - 1] + Math.min(time, waits.end[low - 1]) - waits.begin[low - 1];
  };
  return before(until) - before(from);
}

function enter(lane, entry, time) {
  lane.open.push(lane.start.length);
  lane.start.push(time);
  lane.end.push(Infinity);
  lane.entry.push(entry);
  lane.depth.push(lane.open.length - 1);
  lane.flags.push(0);
}

function leave(lane, time, flags) {
  const call = lane.open.pop();
  if (call === undefined) return call;
  lane.end.array[call] = time;
  lane.flags.array[call] = flags;
  const waited = waitedBetween(lane.waits, lane.start.array[call], time);
  if (waited > 0) lane.waited.set(call, waited);
  return call;
}

function leaveSeveral(lane, time, more) {
  const bits = more.next(),
    count = more.next();
  const isOpen = (bits & 1) !== 0;
  for (let number = 0; number < count; number++) {
    const packed = more.next(),
      hasLeave = packed % 2 === 1,
      named = Math.floor(packed / 2);
    const flags = (hasLeave ? (bits & ~1) << 1 : CUT) | (isOpen ? OPEN : 0);
    const call = leave(lane, time, flags);
    if (named > 0 && call !== undefined) lane.entry.array[call] = named - 1;
  }
}

function wait(lane, time, more) {
  const begin = time + more.signed(),
    end = time + more.signed(),
    waits = lane.waits;
  const last = waits.begin.length - 1;
  waits.total.push(last < 0 ? 0 : waits.total[last] + waits.end[last] - waits.begin[last]);
  if (last < 0) waits.total.shift();
  waits.begin.push(begin);
  waits.end.push(end);
}

function readStates(bytes) {
  const column = new Reader(bytes);
  let last = 0;
  while (column.at < bytes.length) {
    const lane = lanes[column.next()],
      kind = column.next();
    last += column.signed();
    const end = last + column.next();
    if (kind >= CONDITION) {
      lane.locks.push({
        begin: last,
        end,
        holder: kind === LOCK ? column.next() - 1 : -1,
        isLock: kind === LOCK,
      });
      continue;
    }
    lane.states.begin.push(last);
    lane.states.end.push(end);
    lane.states.kind.push(kind);
  }
}

function readSpans(bytes, fields) {
  const column = new Reader(bytes);
  let last = 0,
    at = 0;
  const text = () => {
    const from = at;
    at += column.next();
    return utf8.decode(fields.subarray(from, at));
  };
  const idle = (span, time) => {
    const since = busySince.get(span);
    if (since === undefined) return;
    busySince.delete(span);
    busy.span.push(span);
    busy.begin.push(since.time);
    busy.end.push(time);
    busy.lane.push(since.lane);
  };
  while (column.at < bytes.length) {
    const kind = column.next(),
      span = column.next() - 1;
    last += column.signed();
    const lane = column.next();
    if (kind === 0) {
      spans.began.push(last);
      spans.ended.push(Infinity);
      spans.name.push(column.next());
      spans.id.push(column.next());
      spans.parent.push(column.next());
      spans.how.push(2);
      spans.fields.push(text());
    } else if (kind === 1) {
      busySince.set(span, { time: last, lane });
    } else {
      idle(span, last);
      if (kind > 2) {
        spans.ended.array[span] = last;
        spans.how.array[span] = kind - 3;
        const more = text();
        if (more !== "") spans.fields[span] += (spans.fields[span] === "" ? "" : " ") + more;
      }
    }
  }
}

/// Returns a change of the ticks, whose lowest byte has a column of its own.
function changeOfTicks(low, reader) {
  const number = reader.next() * 256 + low;
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

/// Reads a block: its dictionary first, then its records.
function readBlock([
  head,
  laneColumn,
  lowTicks,
  ticks,
  times,
  walls,
  codes,
  numbers,
  lengths,
  words,
  more,
  states,
  span,
  fields,
]) {
  const facts = JSON.parse(utf8.decode(head));
  for (const [kind, text, ...about] of facts.entries) dictionary.push({ kind, text, about });
  facts.spanNames.forEach(name => spanNames.push(name));
  facts.lanes.forEach(lane => lanes.push(newLane(lane)));
  facts.processes.forEach(([name, pid]) => processes.push({ name, pid }));
  readStates(states);
  readSpans(span, fields);
  const first = messages.time.length;
  const laneReader = new Reader(laneColumn),
    tickReader = new Reader(ticks),
    timeReader = new Reader(times);
  const codeReader = new Reader(codes),
    moreReader = new Reader(more);
  let tick = 0,
    error = 0;
  for (let record = 0; record < facts.records; record++) {
    const number = laneReader.next(),
      lane = lanes[number];
    tick += changeOfTicks(lowTicks[record], tickReader);
    error += timeReader.signed();
    const time = facts.time + Math.floor(tick * facts.rate) + error;
    const code = codeReader.next();
    if (code >= FIRST) {
      const entry = code - FIRST;
      if (dictionary[entry].kind === "f") {
        enter(lane, entry, time);
      } else {
        lane.messages.push(messages.time.length);
        messages.time.push(time);
        messages.lane.push(number);
        messages.entry.push(entry);
      }
    } else if (code === LEAVE) leave(lane, time, 0);
    else if (code === END) leaveSeveral(lane, time, moreReader);
    else if (code === WAIT) wait(lane, time, moreReader);
    else if (code === STALL) lane.stalls.push([time - moreReader.next(), time]);
  }
  records += facts.records;
  const { time, rate, wall } = facts;
  blocks.push({
    first,
    count: messages.time.length - first,
    base: BigInt(facts.ticks),
    time,
    rate,
    wall: BigInt(wall),
    records: facts.records,
    columns: { lowTicks, ticks, walls, codes, numbers, lengths, words },
  });
  if (facts.lasts !== undefined) finish(facts);
}

/// Gives everything but the texts to the page.
function finish({ lasts, notes }) {
  isWhole = true;
  const transfer = [];
  const give = array => {
    transfer.push(array.buffer);
    return array;
  };
  const given = lane => ({
    name: lane.name,
    tid: lane.tid,
    process: lane.process,
    start: give(lane.start.end()),
    end: give(lane.end.end()),
    entry: give(lane.entry.end()),
    depth: give(lane.depth.end()),
    flags: give(lane.flags.end()),
    waits: lane.waits,
    waited: lane.waited,
    stalls: lane.stalls,
    locks: lane.locks.sort((a, b) => a.begin - b.begin),
    messages: give(lane.messages.end()),
    states: {
      begin: give(lane.states.begin.end()),
      end: give(lane.states.end.end()),
      kind: give(lane.states.kind.end()),
    },
  });
  const all = columns =>
    Object.fromEntries(
      Object.entries(columns).map(([name, column]) => [
        name,
        column instanceof Growing ? give(column.end()) : column,
      ]),
    );
  const clocks = blocks.map(({ base, time, rate, wall }) => ({ base, time, rate, wall }));
  const givenLanes = lanes.map(given);
  messages.time = messages.time.end();
  messages.lane = messages.lane.end();
  messages.entry = messages.entry.end();
  postMessage(
    {
      what: "trace",
      trace: {
        lanes: givenLanes,
        processes,
        dictionary,
        spanNames,
        spans: all(spans),
        busy: all(busy),
        messages: { time: messages.time, lane: messages.lane, entry: messages.entry },
        clocks,
        records,
        lasts,
        notes,
      },
    },
    transfer,
  );
  lanes.length = 0;
}

let reading = Promise.resolve();
onmessage = ({ data }) => {
  if (data.what === "block") {
    const columns = Promise.all(data.columns.map(inflate));
    reading = reading
      .then(async () => {
        readBlock(await columns);
        if (!isWhole) postMessage({ what: "progress", records });
      })
      .catch(error => postMessage({ what: "failed", error: String(error) }));
    return;
  }
  try {
    const found = data.what === "rows" ? rows(data.numbers) : filtered(data.filter);
    postMessage({ what: "answer", id: data.id, found });
  } catch (error) {
    postMessage({ what: "answer", id: data.id, error: String(error.message) });
  }
};
