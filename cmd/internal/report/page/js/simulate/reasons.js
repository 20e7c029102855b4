"use strict";
// Reasons: why a planner decided as it did, each with a colour, and an outline where two share one.

const loadReasons = {
  scale_up: { style: 1 }, scale_down: { style: 0 }, scale_down_capped_by_throughput: { style: 3 }, scale_down_refused_consolidation: { style: 5 },
  scaling_in_progress: { style: 2 }, insufficient_data: { style: 3, outline: true }, gpu_budget_guard_hold: { style: 5, outline: true }, worker_count_mismatch: { style: 4 }, no_fpm_data: { style: 4, outline: true },
  gpu_budget_reconcile: { style: 0, outline: true }, disabled: { style: 6, outline: true }, no_change: { style: 6 },
};

const throughputReasons = {
  scale: { style: 1 }, set_lower_bound: { style: 0 }, model_not_ready: { style: 4 }, partner_not_ready: { style: 5 }, predict_failed: { style: 3 },
  gpu_budget_guard_hold: { style: 5, outline: true }, gpu_budget_reconcile: { style: 0, outline: true }, no_change: { style: 2 },
  disabled: { style: 6, outline: true }, no_traffic_data: { style: 6 },
};

// Decisions are the ticks at which one reason was given, each a shape in the track of its pool.
class Decisions {
  // options: name; style; shape; outline; every, the seconds between ticks; x ascending and y, the track.
  constructor(options) { Object.assign(this, { swatch: "point", x: [], y: [] }, options); }

  spanX() { return this.x.length ? [this.x[0], this.x[this.x.length - 1]] : null; }

  spanY(from, to) {
    const first = firstAtLeast(this.x, from);
    return first < this.x.length && this.x[first] <= to ? [0, 1] : null;
  }

  draw(pen) {
    const { context } = pen, last = {};
    context.fillStyle = context.strokeStyle = pen.colour(this.style);
    context.lineWidth = 1.5;
    let outline = "";
    const wide = this.every * pen.x.perUnit; // of ticks that are close, shapes become bars
    for (let row = firstAtLeast(this.x, pen.from); row < this.x.length && this.x[row] <= pen.to; row++) {
      const left = pen.x.pixel(this.x[row]), track = this.y[row];
      if (last[track] !== undefined && left - last[track] < 1) continue; // of each pixel one
      last[track] = left;
      if (wide < 10) outline += boxPath(left, pen.y.pixel(track) - 4.5, Math.max(1, wide - 1), 9);
      else outline += shapePath(this.shape, left, pen.y.pixel(track), 4.5);
    }
    if (this.outline) context.stroke(pathOf(outline)); else context.fill(pathOf(outline));
  }

  columns(x) { return [{ ...x, values: this.x }, { name: "track", unit: "", values: this.y }, { name: "reason", unit: "", values: this.x.map(() => this.name) }]; }
}

// decisionMarks returns the marks of a kind of decisions, of every pool: kind is load or throughput. What moves is drawn over what does not.
function decisionMarks(page, kind, looks, shape) {
  const { load_interval: load, throughput_interval: throughput } = page.head.planner.config, every = kind === "load" ? load : throughput;
  const tracks = page.head.pools.length, found = {};
  for (let pool = 0; pool < tracks; pool++) {
    const table = page.tables[`${kind}.${pool}`];
    for (let row = 0; table && row < table.rows; row++) (found[table.columns.reason.at(row)] ??= []).push([table.columns.t[row], tracks - 1 - pool]);
  }
  const order = Object.keys(looks);
  return Object.keys(found).sort((a, b) => order.indexOf(b) - order.indexOf(a)).map((reason) => {
    const rows = found[reason].sort((a, b) => a[0] - b[0]);
    return new Decisions({ name: reason.replaceAll("_", " "), ...(Object.hasOwn(looks, reason) ? looks[reason] : { style: 6, outline: true }), shape, every, x: rows.map((row) => row[0]), y: rows.map((row) => row[1]) });
  });
}

// decisionChart draws decisions in a track a pool, prefill above decode.
function decisionChart(charts, page, range, { title, about, kind, looks, shape }) {
  const { pools } = page.head, names = pools.map((pool) => pool.name).reverse();
  new Chart(charts, { title, about, wide: true, height: 34 + 34 * pools.length, x: range, marks: decisionMarks(page, kind, looks, shape), empty: "no decision in this range",
    y: { from: -0.6, to: pools.length - 0.4, label: (tick) => Number.isInteger(tick) ? names[tick] ?? "" : "" } });
}
