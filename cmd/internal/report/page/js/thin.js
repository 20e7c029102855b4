"use strict";
// Thinning: what of a long line is drawn. Of all points in one column of pixels the first, the lowest, the highest and the last are
// kept, so the drawn line covers the same pixels as the whole one. A line with more steps than pixels becomes bars, one a column.

// thinLine returns indices from first up to last, without last, in order. NaN is kept where it breaks the line.
function thinLine(x, y, first, last, scale) {
  const kept = [];
  for (let from = first; from < last;) {
    const column = Math.floor(scale.pixel(x[from]));
    let to = from, low = -1, high = -1, broken = -1;
    for (; to < last && Math.floor(scale.pixel(x[to])) === column; to++) {
      if (Number.isNaN(y[to])) { broken = to; continue; }
      if (low < 0 || y[to] < y[low]) low = to;
      if (high < 0 || y[to] > y[high]) high = to;
    }
    for (const index of [from, low, high, broken, to - 1].sort((a, b) => a - b)) {
      if (index >= 0 && index !== kept[kept.length - 1]) kept.push(index);
    }
    from = to;
  }
  return kept;
}

// stepBars returns what a line with steps covers: bars {from, to, low, high} of columns of pixels, without to, of the values from low to
// high that it has there. A value holds until the next one, the last until the instant until. drawable(value) says what has a place.
function stepBars(x, y, first, last, scale, until, drawable) {
  const bars = [];
  let held = NaN, after = 0; // the value so far, and the column behind the last bar
  for (let row = first; row < last;) {
    const from = Math.floor(scale.pixel(x[row])), end = scale.value(from + 1);
    let low = Infinity, high = -Infinity;
    if (drawable(held)) {
      if (from > after) bars.push({ from: after, to: from, low: held, high: held });
      low = high = held;
    }
    do {
      held = y[row++];
      if (!drawable(held)) continue;
      if (held < low) low = held;
      if (held > high) high = held;
    } while (row < last && x[row] < end);
    if (low <= high) bars.push({ from, to: from + 1, low, high });
    after = from + 1;
  }
  const to = Math.ceil(scale.pixel(until));
  if (drawable(held) && to > after) bars.push({ from: after, to, low: held, high: held });
  return bars;
}
