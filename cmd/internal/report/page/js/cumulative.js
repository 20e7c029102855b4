"use strict";
// Cumulative distributions: which share of the samples a value does not exceed.

class Cumulative {
  // options: name; style; sorted, the samples.
  constructor(options) { Object.assign(this, { style: 0, swatch: "line", unit: "%", sorted: [] }, options); }

  set(sorted) { this.sorted = sorted; }

  spanX(log) {
    const first = log ? firstAtLeast(this.sorted, Number.MIN_VALUE) : 0;
    return first < this.sorted.length ? [this.sorted[first], this.sorted[this.sorted.length - 1]] : null;
  }
  spanY() { return this.sorted.length ? [0, 1] : null; }

  // read returns the share of samples that are at most so large.
  read(value) { return this.sorted.length ? firstAtLeast(this.sorted, value * (1 + 1e-12)) / this.sorted.length : NaN; }

  draw(pen) {
    const { context, area, x, y } = pen;
    context.strokeStyle = pen.colour(this.style);
    context.lineWidth = 1.8;
    context.setLineDash(dashes[this.style % dashes.length]);
    context.beginPath();
    for (let left = area.left; left <= area.right; left++) {
      const top = y.pixel(this.read(x.value(left)));
      if (left === area.left) context.moveTo(left, top); else context.lineTo(left, top);
    }
    context.stroke();
    context.setLineDash([]);
  }

  columns(x) {
    return [{ name: "percentile", unit: "", values: percentileTable }, { name: this.name, unit: x.unit, values: percentileTable.map((q) => percentile(this.sorted, q)) }];
  }
}

const percentileTable = Array.from({ length: 101 }, (_, q) => q);
