"use strict";
// Simulate: the page of a simulated run, with a planner or without. All charts and numbers follow one range, in simulated seconds.

pages.simulate = (page, root) => {
  root.append(element("h1", {}, page.title));
  drawSimulatedHead(root, page);
  const requests = new SimulatedRequests(page), range = new TimeRange(0, page.head.end);
  if (page.head.summary.requests === 0) {
    root.append(element("p", { class: "note" }, "No request arrived: there is nothing to draw."));
    drawOrigin(root, page.head.origin);
    return;
  }
  page.range = range; // for tests and the console
  rangeBar(root, range, (r) => describeSimulated(page, requests, r));
  drawSimulatedNumbers(root, page, requests, range);
  drawCompared(root, page);
  if (page.head.planner) drawPlanned(root, page, range); else drawSampled(root, page, range);
  drawSimulatedRequests(root, page, requests, range);
  drawOrigin(root, page.head.origin);
  bindFragment(range);
};

// describeSimulated says what the range has, and what of the run is not on the page.
function describeSimulated(page, requests, range) {
  const [from, to] = rowsWithin(range, requests.time), { drawn } = page.head;
  return [drawn.stride === 1 ? `${groupDigits(String(to - from))} ${to - from === 1 ? "request" : "requests"} arrived here.` : "", ...thinnedText(page.head)].filter(Boolean).join(" ");
}

// thinnedText returns a sentence for each way in which the page has less than the run.
function thinnedText(head) {
  const list = [], number = (n) => groupDigits(String(n));
  if (head.drawn.stride > 1) list.push(`The page has ${number(head.drawn.requests)} of ${number(head.drawn.all)} requests: one in ${head.drawn.stride} by arrival, and the slowest of each part of the run.`);
  if (head.lines < head.workers) list.push(`It has lines of ${number(head.lines)} of ${number(head.workers)} workers: those with the highest.`);
  if (head.thinned) list.push(`Lines are thinned: of each of ${number(head.columns)} slices of the run they have the first, the last, the least and the greatest value.`);
  return list;
}

// figureOf returns {x, y} of a figure of the ticks; both empty where no tick has it.
function figureOf(page, name) {
  const table = page.tables[name];
  return table ? { x: table.columns.t, y: table.columns.v } : { x: [], y: [] };
}

// limitLine is a horizontal line at a limit; none where there is no limit.
function limitLine(name, value, end) {
  if (value === null || value === undefined) return [];
  return [new Line({ name, style: 6, dash: [9, 4], width: 1.4, step: true, x: [0], y: [value], end })];
}

// poolNames returns what the lines of each pool are called: nothing where there is one pool.
function poolNames(page) { return page.head.pools.length > 1 ? page.head.pools.map((pool) => pool.name) : [""]; }

// wholeLabel writes the ticks of counts: no half workers.
function wholeLabel(value) { return Number.isInteger(value) ? groupDigits(String(value)) : ""; }

function named(...words) { return words.filter(Boolean).join(" "); }
