// The worker of the page: unpacks the blocks of records, keeps the texts of messages, and finds texts.
//
// A block has the columns of `columns.rs`. The worker reads the columns once, in order, and makes calls, messages and
// waits of them, lane by lane. After the last block, the page gets the results as typed arrays. The columns from
// which the texts of messages are made stay here: the page asks for texts by the numbers of messages.
"use strict";

/// The version of the blocks, which is also in `columns.rs`.
const VERSION = 2;
/// The minimum number of texts of a template whose numbers may be written as changes from text to text.
const MIN_CHANGES = 8;
/// The reasons why a thread did not work that are waits for a notification and for a lock.
const CONDITION = 3,
  LOCK = 4;
/// The codes of records.
const LEAVE = 0,
  END = 1,
  WAIT = 2,
  STALL = 3,
  FIRST = 4;
/// Bits of a call's flags: it has no leave record; it was open when its thread or the trace ended; it goes on in the
/// next page. The bits between the second and the third say that the call was left by a panic, and that its span has
/// ended or was cancelled.
const CUT = 1,
  OPEN = 2,
  CONTINUES = 32;

/// A typed array that grows.
class Growing {
  constructor(Type) {
    this.array = new Type(64);
    this.length = 0;
  }
  push(value) {
    if (this.length === this.array.length) {
      this.array = cut(this.array, this.length * 2);
    }
    this.array[this.length++] = value;
  }
  end() {
    return cut(this.array, this.length);
  }
}

/// Returns a typed array with another length, which begins with the contents of `array`, as far as there is room. If
/// the browser can, moves the memory of `array` into the new array.
function cut(array, length) {
  if (array.buffer.transfer !== undefined)
    return new array.constructor(array.buffer.transfer(length * array.BYTES_PER_ELEMENT));
  const made = new array.constructor(length);
  made.set(length < array.length ? array.subarray(0, length) : array);
  return made;
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
/// All messages. These arrays, like the arrays of the calls of a lane, have room for more elements than there are.
/// They always have the same types at the same places, which makes storing an element fast.
const messages = {
  count: 0,
  time: new Float64Array(1024),
  lane: new Uint32Array(1024),
  entry: new Uint32Array(1024),
};
/// Whether each entry of the dictionary is a function.
let areFunctions = new Uint8Array(1024);
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

function newLane([name, tid, process]) {
  return {
    name,
    tid,
    process,
    count: 0,
    start: new Float64Array(64),
    end: new Float64Array(64),
    entry: new Uint32Array(64),
    depth: new Uint32Array(64),
    flags: new Uint8Array(64),
    open: [],
    early: new Map(),
    locks: [],
    waits: { begin: [], end: [], total: [0] },
    waited: new Map(),
    stalls: [],
    states: {
      begin: new Growing(Float64Array),
      end: new Growing(Float64Array),
      kind: new Growing(Uint8Array),
    },
    messageCount: 0,
    messages: new Uint32Array(64),
  };
}

/// Returns the time for which a thread has waited for the tracer between two times, as far as its waits were read.
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
  const call = lane.count++;
  if (call === lane.start.length) {
    for (const name of ["start", "end", "entry", "depth", "flags"]) lane[name] = cut(lane[name], 2 * call);
  }
  lane.start[call] = time;
  lane.end[call] = Infinity;
  lane.entry[call] = entry;
  // The call is inside the innermost open call, even if a call around that one has ended.
  lane.depth[call] = lane.open.length === 0 ? 0 : lane.depth[lane.open[lane.open.length - 1]] + 1;
  lane.flags[call] = 0;
  lane.open.push(call);
}

/// Ends the open call at a place, which is counted from the innermost open call. If calls inside it go on, notes the
/// innermost of these, the number of the first call that is entered later, and how many calls have ended in this way
/// before.
function leave(lane, time, flags, place) {
  const [call] = place === 0 ? [lane.open.pop()] : lane.open.splice(-1 - place, 1);
  if (call === undefined) return;
  if (place > 0) {
    const inner = lane.open[lane.open.length - 1];
    lane.early.set(call, { inner, later: lane.count, rank: lane.early.size });
  }
  lane.end[call] = time;
  lane.flags[call] = flags;
  if (lane.waits.end.length > 0) {
    const waited = waitedBetween(lane.waits, lane.start[call], time);
    if (waited > 0) lane.waited.set(call, waited);
  }
}

/// Adds a message, for which there is room among all messages.
function addMessage(number, lane, entry, time) {
  const message = messages.count++,
    ofLane = lane.messageCount++;
  messages.time[message] = time;
  messages.lane[message] = number;
  messages.entry[message] = entry;
  if (ofLane === lane.messages.length) lane.messages = cut(lane.messages, 2 * ofLane);
  lane.messages[ofLane] = message;
}

function leaveSeveral(lane, time, more) {
  const bits = more.next(),
    count = more.next();
  const isOpen = (bits & 1) !== 0;
  for (let number = 0; number < count; number++) {
    const packed = more.next(),
      hasLeave = packed % 2 === 1;
    const isCut = !hasLeave && ((bits << 1) & CONTINUES) === 0;
    const flags = (isCut ? CUT : (bits & ~1) << 1) | (isOpen ? OPEN : 0);
    leave(lane, time, flags, Math.floor(packed / 2));
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

/// Returns a change of the ticks from its lowest byte, which has a column of its own, and from its other bits.
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
  if (facts.version !== VERSION) throw new Error("another version of tracemerge has made it; make it again with this one");
  for (const [kind, text, ...about] of facts.entries) {
    if (dictionary.length === areFunctions.length) areFunctions = cut(areFunctions, 2 * dictionary.length);
    areFunctions[dictionary.length] = kind === "f" ? 1 : 0;
    dictionary.push({ kind, text, about });
  }
  facts.spanNames.forEach(name => spanNames.push(name));
  facts.lanes.forEach(lane => lanes.push(newLane(lane)));
  facts.processes.forEach(([name, pid, error]) => processes.push({ name, pid, error }));
  readStates(states);
  readSpans(span, fields);
  const first = messages.count;
  if (first + facts.records > messages.time.length) {
    const room = 2 * (first + facts.records);
    for (const name of ["time", "lane", "entry"]) messages[name] = cut(messages[name], room);
  }
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
      if (areFunctions[entry] === 1) enter(lane, entry, time);
      else addMessage(number, lane, entry, time);
    } else if (code === LEAVE) leave(lane, time, 0, 0);
    else if (code === END) leaveSeveral(lane, time, moreReader);
    else if (code === WAIT) wait(lane, time, moreReader);
    else if (code === STALL) lane.stalls.push([time - moreReader.next(), time]);
  }
  records += facts.records;
  const { time, rate, wall } = facts;
  blocks.push({
    first,
    count: messages.count - first,
    base: BigInt(facts.ticks),
    time,
    rate,
    wall: BigInt(wall),
    records: facts.records,
    columns: { lowTicks, ticks, codes, numbers, lengths, words },
  });
  if (facts.lasts !== undefined) finish(facts);
}

/// Gives the whole trace except its texts to the page.
function finish({ lasts, notes, part }) {
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
    start: give(cut(lane.start, lane.count)),
    end: give(cut(lane.end, lane.count)),
    entry: give(cut(lane.entry, lane.count)),
    depth: give(cut(lane.depth, lane.count)),
    flags: give(cut(lane.flags, lane.count)),
    waits: lane.waits,
    waited: lane.waited,
    early: lane.early,
    stalls: lane.stalls,
    locks: lane.locks.sort((a, b) => a.begin - b.begin),
    messages: give(cut(lane.messages, lane.messageCount)),
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
  for (const name of ["time", "lane", "entry"]) messages[name] = cut(messages[name], messages.count);
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
        messages: { time: give(messages.time), lane: messages.lane, entry: messages.entry },
        clocks,
        records,
        lasts,
        notes,
        part,
      },
    },
    transfer,
  );
  lanes.length = 0;
  messages.time = null;
}

/// Blocks that were unpacked before an earlier block was.
const waiting = new Map();
let nextBlock = 0,
  unpacking = Promise.resolve();

/// Reads a block, or keeps it until all blocks before it were read.
function takeBlock({ number, columns, error }) {
  waiting.set(number, { columns, error });
  try {
    for (; waiting.has(nextBlock); nextBlock++) {
      const { columns, error } = waiting.get(nextBlock);
      waiting.delete(nextBlock);
      if (error !== undefined) throw new Error(error);
      readBlock(columns);
    }
    if (!isWhole) postMessage({ what: "progress", records });
  } catch (error) {
    postMessage({ what: "failed", error: String(error.message) });
  }
}

/// Unpacks a block for this worker, or for the worker at the other end of a port.
async function unpackBlock({ number, columns }, port) {
  try {
    const unpacked = await Promise.all(columns.map(inflate));
    if (port === undefined) takeBlock({ number, columns: unpacked });
    else
      port.postMessage(
        { number, columns: unpacked },
        unpacked.map(column => column.buffer),
      );
  } catch (error) {
    (port === undefined ? takeBlock : of => port.postMessage(of))({ number, error: String(error) });
  }
}

let toReader;
onmessage = ({ data, ports }) => {
  if (data.what === "block") {
    unpacking = unpacking.then(() => unpackBlock(data, toReader));
    return;
  }
  if (data.what === "unpack") {
    [toReader] = ports;
    return;
  }
  if (data.what === "read") {
    ports[0].onmessage = ({ data }) => takeBlock(data);
    return;
  }
  try {
    const found = data.what === "rows" ? rows(data.numbers) : filtered(data.filter);
    postMessage({ what: "answer", id: data.id, found });
  } catch (error) {
    postMessage({ what: "answer", id: data.id, error: String(error.message) });
  }
};
