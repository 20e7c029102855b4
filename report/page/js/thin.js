"use strict";
// Thinning: what of a long line is drawn. Of all points in one column of pixels the first, the lowest, the highest and the last are
// kept, so the drawn line covers the same pixels as the whole one.

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
