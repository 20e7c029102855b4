"use strict";
// Formats: numbers as people read them. A number that is not known is a dash.

const unknown = "–";

// groupDigits writes 1234567.5 as 1,234,567.5.
function groupDigits(text) {
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return (fraction === undefined ? grouped : `${grouped}.${fraction}`).replace(/^-/, "−");
}

// significant writes a number with so many digits, all of those before the point, and no zeros behind the last.
function significant(value, digits) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(12, Math.max(0, digits - 1 - size));
  const text = value.toFixed(decimals);
  return groupDigits(text.includes(".") ? text.replace(/\.?0+$/, "") : text);
}

const secondUnits = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

const roundsToOne = 0.9995; // of a unit: what three digits write as 1

// secondUnit returns [factor, name] of the unit in which so many seconds are read.
function secondUnit(seconds) {
  return secondUnits.find(([factor]) => Math.abs(seconds) >= factor * roundsToOne) || secondUnits[seconds ? 3 : 0];
}

// formatValue writes one number with its unit, with three digits: 1.84 s, 41 ms, 12,300 tokens.
function formatValue(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return unknown;
  if (unit === "s") {
    const [factor, name] = secondUnit(value);
    return `${significant(value / factor, 3)} ${name}`;
  }
  if (unit === "%") return `${significant(value * 100, 3)} %`;
  const size = Math.abs(value);
  const text = Number.isInteger(value) && size < 1e7 ? groupDigits(String(value)) : formatLarge(value, 3);
  return unit ? `${text} ${unit}` : text;
}

// formatLarge writes millions and more with a letter: 3.2M.
function formatLarge(value, digits) {
  for (const [least, factor, letter] of [[1e12 * roundsToOne, 1e12, "T"], [1e9 * roundsToOne, 1e9, "G"], [1e6, 1e6, "M"]]) {
    if (Math.abs(value) >= least) return significant(value / factor, digits) + letter;
  }
  return significant(value, digits);
}

// axisFormat returns a function that writes the ticks of an axis, all of them in one unit. On a log axis each has its own.
function axisFormat(unit, largest, log) {
  if (unit === "s") {
    if (log) return (value) => formatValue(value, "s");
    const [factor, name] = secondUnit(largest);
    return (value) => value === 0 ? "0" : `${significant(value / factor, 4)} ${name}`;
  }
  if (unit === "%") return (value) => `${significant(value * 100, 4)} %`;
  return (value) => {
    const [, factor, letter] = [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [log ? 1e3 : 1e4, 1e3, "k"]].find(([least]) => (log ? Math.abs(value) : largest) >= least) || [0, 1, ""];
    return value === 0 ? "0" : significant(value / factor, 4) + letter;
  };
}

// formatCount writes how many there are of something: 1 request, 1,234 requests.
function formatCount(n, one, many = `${one}s`) { return `${groupDigits(String(n))} ${n === 1 ? one : many}`; }

// formatTime writes an instant: 12.5 s of a short page, 2:05 or 1:02:05 of a longer one. span is the length of what is shown.
function formatTime(seconds, span, longest) {
  if (Math.abs(longest) < 120) return `${significant(seconds, Math.max(1, digitsFor(seconds, span)))} s`;
  const decimals = span < 10 ? Math.min(6, Math.max(0, Math.ceil(-Math.log10(span / 10)) + 1)) : 0;
  const rounded = Number(Math.abs(seconds).toFixed(decimals));
  const hours = Math.floor(rounded / 3600), minutes = Math.floor(rounded / 60) % 60;
  const rest = (rounded % 60).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, "0");
  const text = hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
  return (seconds < 0 && rounded > 0 ? "−" : "") + text;
}

// digitsFor returns how many digits tell two instants apart that are a thousandth of the span from each other.
function digitsFor(value, span) {
  const least = Math.floor(Math.log10(span / 1000));
  return Math.floor(Math.log10(Math.max(Math.abs(value), 1e-9))) - least + 1;
}

// formatDuration writes a length of time: 840 ms, 12.5 s, 2 min 5 s, 1 h 2 min.
function formatDuration(seconds) {
  if (!Number.isFinite(seconds)) return unknown;
  if (Math.abs(seconds) < 119.5) return formatValue(seconds, "s");
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  const parts = hours ? [`${hours} h`, minutes && `${minutes} min`] : [`${minutes} min`, whole % 60 && `${whole % 60} s`];
  return parts.filter(Boolean).join(" ");
}

// shorten cuts a long text of someone else's in the middle.
function shorten(text, length) {
  if (text.length <= length) return text;
  const half = Math.floor((length - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}
