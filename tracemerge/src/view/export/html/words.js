// Numbers, times and texts for people, and elements of the document.
"use strict";

/// Returns a number of nanoseconds as `tracemerge` writes it: `640 ns`, `12.3 us`, `1.25 s`, `2 h 05 min`.
function duration(ns) {
  if (ns < 0) return `-${duration(-ns)}`;
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  const seconds = Math.floor(ns / 1e9),
    two = number => String(number).padStart(2, "0");
  if (seconds >= 6000) return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
  if (seconds >= 100) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const [unit, name] = ns < 1e6 ? [1e3, "us"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  for (const [parts, places] of [
    [100, 2],
    [10, 1],
  ]) {
    const number = Math.floor((ns * parts + unit / 2) / unit);
    if (number < 1000) return `${(number / parts).toFixed(places)} ${name}`;
  }
  return `${Math.floor((ns + unit / 2) / unit)} ${name}`;
}

/// Returns an offset in seconds, with all nanoseconds: `0.000001234`.
function offset(ns) {
  const whole = Math.round(Math.abs(ns)),
    seconds = Math.floor(whole / 1e9);
  return `${ns < 0 ? "-" : ""}${seconds}.${String(whole % 1e9).padStart(9, "0")}`;
}

/// Returns a wall time, nanoseconds since 1970, as date and time in UTC.
function wallTime(ns) {
  const date = new Date(Number(ns / 1000000n));
  if (Number.isNaN(date.getTime())) return "";
  return (
    date.toISOString().slice(0, 19).replace("T", " ") + "." + String(ns % 1000000000n).padStart(9, "0") + "Z"
  );
}

/// Returns an integer with commas between thousands.
function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

function counted(number, noun) {
  return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

const utf8 = new TextEncoder();

/// Returns a text with control characters as in lines of a trace: `\xNN`.
function escaped(text) {
  const hex = character =>
    [...utf8.encode(character)].map(byte => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  return text.replace(/\\(?=x[0-9a-f]{2})/g, "\\x5c").replace(/[\0-\x08\x0a-\x1f\x7f-\x9f]/g, hex);
}

/// Returns a message as the lines that it has in the merged file.
function mergedLines(tid, ticks, kind, text) {
  const prefix = `${ticks.toString(16).padStart(16, "0")}-${tid.padStart(8, "0")}`;
  // The texts of messages that are not UTF-8, of call stacks and of lines of the tracer are already escaped.
  const lines = kind === "~" || kind === "#" || kind === "^" ? [text] : text.split("\n").map(escaped);
  return lines
    .map((line, number) => `${prefix} ${number > 0 ? "|" : kind === "~" ? ":" : kind} ${line}`)
    .join("\n");
}

/// Returns a new element with attributes, and with texts or elements inside.
function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

/// Returns the number of elements of a sorted array that come before the first element that is at least `value`.
function countBelow(array, value, low = 0, high = array.length) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
