"use strict";
// Heat: how many points are in each cell of a grid, the stronger its colour the more.

const heatCell = 12; // pixels

class Heat {
  // options: name of what is counted; style; x and y, points in any order; keep, 1 for the rows that count.
  constructor(options) { Object.assign(this, { style: 0, swatch: "area", unit: "", x: [], y: [], keep: null }, options); }

  set(x, y, keep) { this.x = x; this.y = y; this.keep = keep ?? null; }

  has(row) { return (!this.keep || this.keep[row]) && !Number.isNaN(this.x[row]) && !Number.isNaN(this.y[row]); }

  // span returns the least and the largest value of one column among the rows that count. On a log axis values of 0 have no place.
  span(values, positive) {
    let low = Infinity, high = -Infinity;
    for (let row = 0; row < values.length; row++) {
      if (!this.has(row) || positive && !(values[row] > 0)) continue;
      if (values[row] < low) low = values[row];
      if (values[row] > high) high = values[row];
    }
    return low <= high ? [low, high] : null;
  }

  spanX(log) { return this.span(this.x, log); }
  spanY(from, to, log) { return this.span(this.y, log); }

  // count fills a grid over the area of the pen.
  count(pen) {
    const { area, x, y } = pen;
    const across = Math.max(1, Math.round((area.right - area.left) / heatCell)), down = Math.max(1, Math.round((area.bottom - area.top) / heatCell));
    const wide = (area.right - area.left) / across, high = (area.bottom - area.top) / down, cells = new Uint32Array(across * down);
    let most = 0;
    for (let row = 0; row < this.x.length; row++) {
      if (!this.has(row)) continue;
      const column = Math.min(across - 1, Math.floor((x.pixel(this.x[row]) - area.left) / wide)), line = Math.min(down - 1, Math.floor((y.pixel(this.y[row]) - area.top) / high));
      if (column >= 0 && line >= 0) most = Math.max(most, ++cells[line * across + column]);
    }
    return { across, down, wide, high, cells, most, area };
  }

  draw(pen) {
    const grid = this.grid = this.count(pen), { context } = pen;
    this.scales = { x: pen.x, y: pen.y };
    context.fillStyle = pen.colour(this.style);
    for (let i = 0; i < grid.cells.length; i++) {
      if (!grid.cells[i]) continue;
      context.globalAlpha = 0.12 + 0.88 * Math.sqrt(grid.cells[i] / grid.most);
      context.fillRect(grid.area.left + i % grid.across * grid.wide, grid.area.top + Math.floor(i / grid.across) * grid.high, grid.wide - 1, grid.high - 1);
    }
    context.globalAlpha = 1;
  }

  // note says what the strongest colour means.
  note() { return this.grid && this.grid.most ? `(fullest cell: ${groupDigits(String(this.grid.most))})` : ""; }

  // read returns how many points are in the cell under the pointer.
  read(at, y) {
    if (!this.grid || y === undefined) return NaN;
    const { grid } = this, column = Math.floor((this.scales.x.pixel(at) - grid.area.left) / grid.wide), line = Math.floor((this.scales.y.pixel(y) - grid.area.top) / grid.high);
    return column >= 0 && column < grid.across && line >= 0 && line < grid.down ? grid.cells[line * grid.across + column] : NaN;
  }

  columns(x, unit, name) {
    const { grid, scales } = this, columns = [`${x.name} from`, `${x.name} to`, `${name} from`, `${name} to`, this.name].map((name, i) => ({ name, unit: i < 2 ? x.unit : i < 4 ? unit : "", values: [] }));
    if (grid) grid.cells.forEach((count, i) => {
      if (!count) return;
      const left = grid.area.left + i % grid.across * grid.wide, top = grid.area.top + Math.floor(i / grid.across) * grid.high;
      [scales.x.value(left), scales.x.value(left + grid.wide), scales.y.value(top + grid.high), scales.y.value(top), count].forEach((value, c) => columns[c].values.push(value));
    });
    return columns;
  }
}
