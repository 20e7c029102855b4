"use strict";
// Bundles: a line for each worker of a pool, all of one colour and out of the legend.

class Bundle {
  // options: name; style; lines [{worker, x, y}], x ascending; step: a value holds until the next one.
  constructor(options) { Object.assign(this, { style: 0, quiet: true, lines: [] }, options); }

  spanY(from, to, log) {
    return spanOf(this.lines, (line) => {
      let low = Infinity, high = -Infinity;
      for (let i = Math.max(0, firstAtLeast(line.x, from) - (this.step ? 1 : 0)); i < line.x.length && line.x[i] <= to; i++) {
        if (Number.isNaN(line.y[i]) || log && !(line.y[i] > 0)) continue;
        low = Math.min(low, line.y[i]);
        high = Math.max(high, line.y[i]);
      }
      return low <= high ? [low, high] : null;
    });
  }

  draw(pen) {
    const { context } = pen;
    context.globalAlpha = Math.max(0.3, 0.9 - this.overlap() / 40);
    for (const { x, y } of this.lines) new Line({ style: this.style, dash: [], width: 1.1, step: this.step, end: x[x.length - 1], x, y }).draw(pen);
    context.globalAlpha = 1;
  }

  // overlap is how many lines there are at a time, on average.
  overlap() {
    const begin = Math.min(...this.lines.map(({ x }) => x[0])), end = Math.max(...this.lines.map(({ x }) => x[x.length - 1]));
    return this.lines.reduce((sum, { x }) => sum + x[x.length - 1] - x[0], 0) / (end - begin || 1);
  }

  // near returns {line, row} of the point nearest to a place, or null if none is within ten pixels.
  near(pen, px, py) {
    let best = null, least = 100;
    for (const line of this.lines) {
      const last = firstAtLeast(line.x, pen.x.value(px + 10));
      for (let row = firstAtLeast(line.x, pen.x.value(px - 10)); row < last; row++) {
        const distance = (pen.x.pixel(line.x[row]) - px) ** 2 + (pen.y.pixel(line.y[row]) - py) ** 2;
        if (distance < least) [best, least] = [{ line, row }, distance];
      }
    }
    return best;
  }

  columns(x, unit) {
    const rows = this.lines.flatMap((line) => Array.from(line.x, (at, i) => [at, line.worker, line.y[i]])).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return [{ ...x, values: rows.map((row) => row[0]) }, { name: "worker", unit: "", values: rows.map((row) => row[1]) }, { name: this.name, unit, values: rows.map((row) => row[2]) }];
  }
}

// workerLines returns the lines of a pool: {worker, x, y}, y computed by of(row) from the row of a point.
function workerLines(page, pool, of) {
  const { lines, points } = page.tables, list = [];
  for (let k = 0, first = 0; k < lines.rows; first += lines.columns.rows[k++]) {
    if (lines.columns.pool[k] !== pool) continue;
    const last = first + lines.columns.rows[k];
    list.push({ worker: lines.columns.worker[k], x: points.columns.t.subarray(first, last), y: Float64Array.from({ length: last - first }, (_, i) => of(first + i)) });
  }
  return list;
}

// bundleChart draws a bundle for each pool, with lines beside them. A click says which worker a line is.
function bundleChart(charts, page, range, { title, about, unit, label, bundles, lines = [], empty }) {
  const said = element("output", { class: "about" });
  const chart = new Chart(charts, { title, about: `${about} A click on a line says whose it is.`, x: range, y: { unit, label, zero: true }, marks: [...bundles, ...lines], empty,
    pointed: ({ px, py }) => {
      const found = bundles.map((bundle) => ({ bundle, at: bundle.near(chart.pen, px, py) })).find(({ at }) => at);
      said.textContent = found ? `${named(found.bundle.pool, "worker")} ${found.at.line.worker} at ${chart.labels.x(found.at.line.x[found.at.row])}: ${formatValue(found.at.line.y[found.at.row], unit)}` : "";
    } });
  chart.figure.querySelector("figcaption").append(said);
  return chart;
}
