"use strict";
// Scales: from a value to a pixel and back, and the values that get a tick.

class Scale {
  // from and to are values, at the pixels start and end. A scale with log has positive values only.
  constructor(from, to, start, end, log) {
    this.from = from;
    this.to = to;
    this.start = start;
    this.log = Boolean(log);
    this.origin = this.map(from);
    this.perUnit = (end - start) / (this.map(to) - this.origin || 1);
  }
  map(value) { return this.log ? Math.log10(value) : value; }
  pixel(value) { return this.start + (this.map(value) - this.origin) * this.perUnit; }
  value(pixel) {
    const mapped = this.origin + (pixel - this.start) / this.perUnit;
    return this.log ? 10 ** mapped : mapped;
  }
}

// linearTicks returns round values from..to, at most about count of them.
function linearTicks(from, to, count) {
  const step = roundStep((to - from) / Math.max(1, count));
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) ticks.push(cleanNumber(i * step));
  return ticks;
}

// roundStep returns the smallest of 1, 2, 5 times a power of ten that is not below the step.
function roundStep(step) {
  if (!(step > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(step));
  for (const digit of [1, 2, 5]) if (digit * power >= step * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

// logTicks returns 1, 2, 5 of each decade where they are few, else 1 and 3, 1, or 1 of every few decades.
function logTicks(from, to, count) {
  const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to));
  for (const [digits, every] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3], [[1], 5], [[1], 10]]) {
    const ticks = [];
    for (let power = Math.ceil(low / every) * every; power <= high; power += every) {
      for (const digit of digits) {
        const tick = Number(`${digit}e${power}`);
        if (tick >= from * (1 - 1e-9) && tick <= to * (1 + 1e-9)) ticks.push(tick);
      }
    }
    if (ticks.length <= count) return ticks.length > 1 ? ticks : linearTicks(from, to, count).filter((tick) => tick > 0);
  }
  return [];
}

const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

// timeTicks returns instants in seconds; from a second on at steps that clocks have.
function timeTicks(from, to, count) {
  const least = (to - from) / Math.max(1, count);
  if (least <= 1) return linearTicks(from, to, count);
  const step = timeSteps.find((s) => s >= least) || Math.ceil(least / 86400) * 86400;
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) ticks.push(tick + 0);
  return ticks;
}

// cleanNumber takes away what binary fractions add: 0.30000000000000004. goja, which runs the tests, writes -9.999999999999999 with twelve
// digits as .0.00000000000.
function cleanNumber(value) { return value < 0 ? -cleanNumber(-value) : Number(value.toPrecision(12)); }

// roundOut widens a range of values to where its ticks are, so that the topmost label is at the edge.
function roundOut(from, to, log, count) {
  if (log) {
    const at = (value, down) => {
      const power = 10 ** Math.floor(Math.log10(value)), digit = value / power;
      const near = [1, 2, 3, 5, 10].filter((d) => down ? d <= digit * (1 + 1e-6) : d >= digit * (1 - 1e-6));
      return cleanNumber(power * (down ? near[near.length - 1] : near[0]));
    };
    const [low, high] = [at(from, true), at(to, false)];
    return high > low ? [low, high] : [low / 2, high * 2];
  }
  if (!(to > from)) [from, to] = from === 0 ? [0, 1] : [Math.min(0, from), Math.max(0, from)];
  const step = roundStep((to - from) / count);
  return [cleanNumber(Math.floor(from / step + 1e-9) * step), cleanNumber(Math.ceil(to / step - 1e-9) * step)];
}
