"use strict";
// Bars: the requests of the chart of lanes, mixed pixel by pixel. A canvas that is asked for a bar each takes a millisecond for 800 of them,
// and there may be 60,000.

class Bars {
  // The picture covers the area of the pen. A session is a strip of it: its columns are mixed of the bars that cover them, each by the
  // share of the column that it covers.
  constructor({ area, ratio }) {
    Object.assign(this, { area, ratio, width: Math.ceil((area.right - area.left) * ratio), height: Math.ceil((area.bottom - area.top) * ratio) });
    this.mixed = new Float32Array(4 * this.width); // by column: red, green and blue times opacity, and opacity from 0 to 1
    this.strip = new Uint32Array(this.width); // the same as pixels
    this.span = [this.width, 0]; // of the columns that have bars
  }

  // add puts a bar from one place to another, pixels of the page, on the strip. colour is [red, green, blue].
  add(from, to, colour) {
    const { mixed, ratio, area, span } = this, begin = Math.max(0, (from - area.left) * ratio), end = Math.min(this.width, (to - area.left) * ratio);
    if (!(end > begin)) return;
    const first = Math.floor(begin), last = Math.ceil(end);
    for (let column = first, at = 4 * first; column < last; column++, at += 4) {
      const share = Math.min(end, column + 1) - Math.max(begin, column), rest = 1 - share;
      mixed[at] = mixed[at] * rest + colour[0] * share;
      mixed[at + 1] = mixed[at + 1] * rest + colour[1] * share;
      mixed[at + 2] = mixed[at + 2] * rest + colour[2] * share;
      mixed[at + 3] = mixed[at + 3] * rest + share;
    }
    if (first < span[0]) span[0] = first;
    if (last > span[1]) span[1] = last;
  }

  // place puts the strip into the picture, from a place downward, and begins a new one. It is a pixel of the screen high at least.
  place(pixels, top, height) {
    const { mixed, strip, width, ratio, area } = this, [left, right] = this.span, bytes = new Uint8ClampedArray(strip.buffer);
    for (let at = 4 * left; at < 4 * right; at++) bytes[at] = (at & 3) === 3 ? 255 * mixed[at] : mixed[at] / mixed[at | 3];
    const first = Math.round((top - area.top) * ratio), last = Math.min(this.height, Math.max(first + 1, Math.round((top + height - area.top) * ratio)));
    for (let row = Math.max(0, first); row < last; row++) {
      for (let column = left; column < right; column++) if (strip[column]) pixels[row * width + column] = strip[column];
    }
    mixed.fill(0, 4 * left, 4 * right);
    this.span = [width, 0];
  }
}
