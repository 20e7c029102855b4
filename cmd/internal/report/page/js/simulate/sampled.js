"use strict";
// Sampled: the charts of a run without a planner, from samples of its workers and windows of its requests.

function drawSampled(root, page, range) {
  const charts = element("div", { class: "charts" }), { head } = page;
  section(root, "Over time", "Simulated seconds. Drag to select; the wheel zooms, shift and drag pans, double click or Escape selects everything.").append(charts);
  drawArrivals(charts, page, range);
  drawWindowed(charts, page, range, "ttft", "Time to first token", head.ttft_limit);
  drawWindowed(charts, page, range, "itl", "Inter-token latency", head.itl_limit);
  if (!head.every) return;
  const workers = element("div", { class: "charts" });
  section(root, "Workers", `A line a worker, every ${formatValue(head.every, "s")}.${head.pools.length > 1 ? ` ${head.pools.map((pool) => pool.name).join(" and ")} have a colour each.` : ""}`).append(workers);
  const { running, waiting, blocks, reuse, preemptions } = page.tables.points.columns;
  for (const [title, about, unit, of] of [
    ["Requests that run", "In the pass in flight.", "", (row) => running[row]], ["Requests that wait", "For a pass that takes them.", "", (row) => waiting[row]],
    ["KV cache in use", "Blocks that requests hold.", "%", (row, pool) => blocks[row] / head.pools[pool].blocks],
    ["Prompt tokens found in the cache", "Share of all prompt tokens that the worker has taken so far.", "%", (row) => reuse[row]], ["Preemptions", "So far.", "", (row) => preemptions[row]],
  ]) {
    const bundles = poolNames(page).map((pool, k) => new Bundle({ name: named(pool, title.toLowerCase()), pool, style: k, step: true, lines: workerLines(page, k, (row) => of(row, k)) }));
    for (const bundle of bundles) bundle.quiet = bundles.length < 2;
    bundleChart(workers, page, range, { title, about, unit, label: unit ? undefined : wholeLabel, bundles, empty: "no sample in this range" });
  }
}

// drawArrivals draws requests a second, of all requests.
function drawArrivals(charts, page, range) {
  const { start, arrived, ended } = page.tables.windows.columns, length = windowOf(page), rate = (counts) => counts.map((n, i) => n / Math.min(length, Math.max(page.head.end - start[i], length / 1000)));
  new Chart(charts, { title: "Request rate", about: `Of windows of ${formatValue(length, "s")}.`, x: range, y: { unit: "/s", zero: true },
    marks: [new Line({ name: "arrived", style: 0, step: true, end: page.head.end, x: start, y: rate(arrived) }), new Line({ name: "ended", style: 1, step: true, end: page.head.end, x: start, y: rate(ended) })] });
}

// windowOf returns the length of the windows of the requests.
function windowOf(page) {
  const { start } = page.tables.windows.columns;
  return start.length > 1 ? start[1] - start[0] : page.head.end || 1;
}

// drawWindowed draws percentiles of a metric, of all requests by the window in which they arrived; of the load of a run those that were measured, too.
function drawWindowed(charts, page, range, name, title, limit) {
  const { start, ...columns } = page.tables.windows.columns, length = windowOf(page), x = start.map((at) => Math.min(at + length / 2, page.head.end));
  new Chart(charts, { title, about: `Of windows of ${formatValue(length, "s")}.`, x: range, y: { unit: "s", zero: true },
    marks: [...["p50", "p95"].map((q, k) => new Line({ name: q, style: 4 - k, width: 2, x, y: columns[`${name}.${q}`] })),
      ...["p50", "p95"].filter((q) => columns[`measured.${name}.${q}`]).map((q, k) => new Line({ name: `${q} measured`, style: k, width: 1.4, dash: [], x, y: columns[`measured.${name}.${q}`] })), ...limitLine("SLA", limit, page.head.end)] });
}
