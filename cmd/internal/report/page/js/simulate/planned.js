"use strict";
// Planned: the charts of a run with a planner, at its ticks.

function drawPlanned(root, page, range) {
  const part = (title, about) => { const charts = element("div", { class: "charts" }); section(root, title, about).append(charts); return charts; };
  const fleet = part("Fleet", "Instants are simulated seconds. Drag to select; the wheel zooms, shift and drag pans, double click or Escape selects everything.");
  drawReplicas(fleet, page, range);
  drawCapacity(fleet, page, range);
  const traffic = part("Traffic", "Of the windows between throughput ticks, at the tick that ends each. A prediction stands at the tick that made it, and is of the window after it.");
  drawTraffic(traffic, page, range);
  const latency = part("Latency", "Observed: the mean of the requests that ended in a window. Estimated: what the planner expects on the worst engine, tick by tick.");
  for (const [name, title, limit] of [["ttft", "Time to first token", page.head.ttft_limit], ["itl", "Inter-token latency", page.head.itl_limit]]) {
    drawObserved(latency, page, range, name, title, limit);
    drawEstimated(latency, page, range, name, title, limit);
  }
  drawEngines(part("Load of engines", "What each engine had in its last pass before a tick."), page, range);
  const decisions = part("Decisions");
  decisionChart(decisions, page, range, { title: "Load decisions", kind: "load", looks: loadReasons, shape: "square", about: "Why load changed a pool, or did not." });
  decisionChart(decisions, page, range, { title: "Throughput decisions", kind: "throughput", looks: throughputReasons, shape: "diamond", about: "Why traffic changed a pool or its floor, or did not." });
}

// StartingBand is the workers that start, hatched above those that are active.
class StartingBand extends Area {
  constructor(options) { super({ swatch: "hatch", ...options }); }

  draw(pen) {
    const { context, x, y, area } = pen, [first, last] = this.visible(pen.from, pen.to);
    let bands = "";
    for (let row = first; row < last; row++) {
      if (!(this.y[row] > 0)) continue;
      const left = x.pixel(this.x[row]), right = row + 1 < this.x.length ? x.pixel(this.x[row + 1]) : area.right, top = y.pixel(this.top(row));
      bands += boxPath(left, top, right - left, y.pixel(this.base(row)) - top);
    }
    context.save();
    context.clip(pathOf(bands));
    context.strokeStyle = pen.colour(this.style);
    context.lineWidth = 1.5;
    context.stroke(pathOf(hatchPath(1 + this.style % 2, area.left, area.top, area.right, area.bottom)));
    context.restore();
  }
}

function drawReplicas(charts, page, range) {
  const marks = [], names = poolNames(page), { end } = page.head;
  names.forEach((name, k) => {
    const { t, active, starting } = page.tables[`pool.${k}`].columns;
    if (starting.some((n) => n > 0)) marks.push(new StartingBand({ name: named(name, "starting"), style: k, x: t, y: starting, under: { top: (row) => active[row] } }));
    marks.push(new Line({ name: named(name, "workers"), style: k, width: 2, dash: [], step: true, end, x: t, y: active }));
  });
  names.forEach((name, k) => {
    const floor = figureOf(page, `floor.${k}`), recommended = figureOf(page, `recommended.${k}`);
    if (floor.y.some((n) => n > 1)) marks.push(new Line({ name: named(name, "floor of throughput"), style: 3 + k, dash: [7, 3], step: true, end, ...floor }));
    marks.push(new Line({ name: named(name, "wanted, before the budget"), style: 5 + k, dash: [1, 3], width: 1.8, step: true, end, ...recommended }));
  });
  const most = Math.max(...names.map((_, k) => { const { active, starting } = page.tables[`pool.${k}`].columns; return active.reduce((high, n, i) => Math.max(high, n + starting[i]), 0); }));
  new Chart(charts, { title: "Workers", wide: true, height: 230, about: "Workers that take requests; those that start stand hatched on them.", x: range, y: { zero: true, to: most + 1, label: wholeLabel }, marks });
}

function drawCapacity(charts, page, range) {
  const marks = poolNames(page).map((name, k) => new Line({ name: named(name, "engine"), style: k, dots: true, ...figureOf(page, `capacity.${k}`) }));
  new Chart(charts, { title: "Capacity of an engine", about: "Requests a second that the planner takes one engine to serve.", x: range, y: { unit: "/s", zero: true }, marks, empty: "no tick needed a capacity in this range" });
  new Chart(charts, { title: "GPU-hours", about: "Since the beginning: workers of any state, times their GPUs.", x: range, y: { unit: "h", zero: true }, marks: [new Line({ name: "GPU-hours", style: 0, ...figureOf(page, "gpu_hours") })] });
}

// drawTraffic draws what came, and what the planner foretold of it.
function drawTraffic(charts, page, range) {
  const observed = page.tables["rate.observed"];
  for (const [name, title, unit] of [["rate", "Request rate", "/s"], ["isl", "Prompt length", "tokens"], ["osl", "Output length", "tokens"]]) {
    if (name === "rate" && !observed) { drawArrivals(charts, page, range); continue; }
    const marks = [new Line({ name: "observed", style: 0, dots: true, ...figureOf(page, `${name}.observed`) }), new Line({ name: "predicted", style: 1, dash: [2, 3], dots: true, ...figureOf(page, `${name}.predicted`) })];
    new Chart(charts, { title, x: range, y: { unit, zero: true }, marks, empty: observed ? "no window ended in this range" : "the planner looked at no window of traffic" });
  }
}

function drawObserved(charts, page, range, name, title, limit) {
  const figure = figureOf(page, `${name}.observed`);
  if (!figure.x.length) { drawWindowed(charts, page, range, name, title, limit); return; }
  new Chart(charts, { title: `Observed: ${title.toLowerCase()}`, about: "A point wherever a request counted, zeros too.", x: range, y: { unit: "s", zero: true }, marks: [new Line({ name: "mean of a window", style: 0, dots: true, ...figure }), ...limitLine("SLA", limit, page.head.end)] });
}

function drawEstimated(charts, page, range, name, title, limit) {
  const marks = poolNames(page).map((pool, k) => new Line({ name: named(pool, "worst engine"), style: k, ...figureOf(page, `${name}.estimated.${k}`) })).filter((mark) => mark.x.length);
  new Chart(charts, { title: `Estimated: ${title.toLowerCase()}`, x: range, y: { unit: "s", zero: true }, marks: [...marks, ...(marks.length ? limitLine("SLA", limit, page.head.end) : [])], empty: "no tick estimated it" });
}

// drawEngines draws the load of each engine: prompts that wait for it, and the tokens in its cache.
function drawEngines(charts, page, range) {
  const { columns } = page.tables.points, { pools, end } = page.head, names = poolNames(page), decode = pools.length - 1;
  const bundle = (pool, column, name) => new Bundle({ name, pool: names[pool], style: pool, lines: workerLines(page, pool, (row) => columns[column][row]) });
  bundleChart(charts, page, range, { title: "Prefill load", about: "Prompt tokens that wait, a line an engine.", unit: "tokens", bundles: [bundle(0, "queued", "queued prompt tokens")], empty: "no engine had a pass" });
  bundleChart(charts, page, range, { title: "Decode load", about: "KV tokens of requests that run or were preempted, a line an engine.", unit: "tokens", bundles: [bundle(decode, "kv", "KV tokens")],
    lines: limitLine("capacity of an engine", pools[decode].blocks * pools[decode].block_size, end), empty: "no engine had a pass" });
}
