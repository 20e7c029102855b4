"use strict";
// Time: the one range that all charts and tables of a page share, in seconds since the first request of profiling.

const shortestRange = 1e-4; // seconds: until one request fills the width
const shortestDigit = shortestRange / 1e4; // seconds: less than what any range is rounded to

// A TimeRange is what is selected, from included to excluded, of the whole. The end of the whole is included. Charts and tables watch
// it: a watcher is called with "range" or "cursor", which says what changed.
class TimeRange {
  constructor(from, to) {
    this.whole = { from, to: Math.max(to, from + shortestRange) };
    this.from = this.whole.from;
    this.to = this.whole.to;
    this.cursor = null; // seconds under the pointer
    this.follows = 0; // seconds at the end of the whole that are shown however it grows; 0: a reader has chosen
    this.watchers = [];
  }

  watch(watcher) { this.watchers.push(watcher); }
  tell(what) { for (const watcher of this.watchers) watcher(what); }

  get selected() { return this.from !== this.whole.from || this.to !== this.whole.to; }
  has(time) { return time >= this.from && (time < this.to || time === this.whole.to && time === this.to); }

  // set selects a range, on a round number of digits, within the whole.
  set(from, to) {
    this.follows = 0;
    if (this.place(from, to)) this.tell("range");
  }

  // restore selects a range that was rounded before.
  restore(from, to) {
    this.follows = 0;
    if (this.put(from, to)) this.tell("range");
  }

  // place rounds without a word, and reports whether that is another range.
  place(from, to) {
    if (!(from <= to)) [from, to] = [to, from];
    const step = 10 ** Math.floor(Math.log10(Math.max(to - from, shortestRange) / 1000));
    return this.put(from < this.whole.from + step ? this.whole.from : roundTo(from, step), to > this.whole.to - step ? this.whole.to : roundTo(to, step));
  }

  // put is place without rounding, so that a range that was rounded once stays the same. An end within less than a digit of the whole's
  // is the whole's.
  put(from, to) {
    if (from < this.whole.from + shortestDigit) from = this.whole.from;
    if (to > this.whole.to - shortestDigit) to = this.whole.to;
    if (!(to - from >= shortestRange * 0.999) || from === this.from && to === this.to) return false;
    this.from = from;
    this.to = to;
    return true;
  }

  reset() {
    const followed = this.follows;
    this.follows = 0;
    if (!this.selected && !followed) return;
    this.from = this.whole.from;
    this.to = this.whole.to;
    this.tell("range");
  }

  // follow shows the last seconds of the whole, also when it grows, until a reader selects something else.
  follow(seconds) {
    this.follows = seconds;
    this.place(Math.max(this.whole.from, this.whole.to - seconds), this.whole.to);
    this.tell("range");
  }

  // grow says that the whole is another. What is selected stays; without a selection all of it is shown.
  grow(from, to) {
    const all = !this.selected;
    this.whole = { from, to: Math.max(to, from + shortestRange) };
    if (this.follows) return this.follow(this.follows);
    if (all) [this.from, this.to] = [this.whole.from, this.whole.to];
    this.tell("range");
  }

  // zoom multiplies the length of the range; the instant at stays where it is on the screen, as far as the whole goes.
  zoom(at, factor) {
    const length = Math.min(this.whole.to - this.whole.from, Math.max(shortestRange, (this.to - this.from) * factor));
    const from = at - (at - this.from) * length / (this.to - this.from);
    const inside = Math.max(this.whole.from, Math.min(from, this.whole.to - length));
    this.set(inside, inside + length);
  }

  // pan moves the range, as far as the whole goes.
  pan(by) {
    by = Math.min(Math.max(by, this.whole.from - this.from), this.whole.to - this.to);
    this.set(this.from + by, this.to + by);
  }

  point(time) {
    if (time === this.cursor) return;
    this.cursor = time;
    this.tell("cursor");
  }
}

// roundTo rounds to a multiple of a power of ten, so that the digits of the result are few.
function roundTo(value, step) {
  const digits = Math.max(0, -Math.round(Math.log10(step)));
  return Number((Math.round(value / step) * step).toFixed(Math.min(digits, 20)));
}

// toFragment is the range as it stands in the address of the page; "" with nothing selected.
function toFragment(range) {
  return range.selected ? `#t=${plainDigits(range.from)}-${plainDigits(range.to)}` : "";
}

function plainDigits(value) {
  const text = String(value);
  return text.includes("e") ? value.toFixed(12).replace(/\.?0+$/, "") : text;
}

// fromFragment returns {from, to} in seconds, or null where the fragment holds no range.
function fromFragment(text) {
  const match = /^#t=(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/.exec(text);
  if (!match || !(Number(match[1]) < Number(match[2]))) return null;
  return { from: Number(match[1]), to: Number(match[2]) };
}

// watchLater calls back when the range is another, once the charts of the window are drawn: what takes milliseconds would hold up a hand that drags.
function watchLater(range, watcher) {
  let waiting = false;
  range.watch((what) => {
    if (what !== "range" || waiting) return;
    waiting = true;
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => { waiting = false; watcher(); })));
  });
}

// bindFragment keeps the address of the page and the range equal.
function bindFragment(range) {
  const read = () => {
    const wanted = fromFragment(location.hash);
    if (wanted) range.restore(wanted.from, wanted.to); else range.reset();
  };
  watchLater(range, () => {
    const fragment = range.follows ? "" : toFragment(range);
    if (fragment !== location.hash) history.replaceState(null, "", fragment || location.pathname + location.search);
  });
  addEventListener("hashchange", read, untilReplaced());
  read();
}
