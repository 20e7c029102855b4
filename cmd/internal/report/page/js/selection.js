"use strict";
// Selection: the rows of a table that belong to a range: those that start in it.

// rowsWithin returns [first, last] of the rows whose start is in the range, without last. Starts ascend.
function rowsWithin(range, starts) {
  const last = range.to === range.whole.to ? starts.length : firstAtLeast(starts, range.to);
  return [range.from === range.whole.from ? 0 : firstAtLeast(starts, range.from), last];
}
