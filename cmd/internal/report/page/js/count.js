"use strict";
// Counts over time: how many of something are open.

// countOpen returns {x, y}, a line with steps, of intervals from a start to an end. One without an end stays open.
function countOpen(starts, ends) {
  const opened = Float64Array.from(starts).filter(Number.isFinite).sort();
  const closed = Float64Array.from(ends).filter(Number.isFinite).sort();
  const x = [], y = [];
  for (let i = 0, j = 0, open = 0; i < opened.length || j < closed.length;) {
    const at = j >= closed.length || opened[i] <= closed[j] ? opened[i] : closed[j];
    for (; opened[i] === at; i++) open++;
    for (; closed[j] === at; j++) open--;
    x.push(at);
    y.push(open);
  }
  return { x, y };
}
