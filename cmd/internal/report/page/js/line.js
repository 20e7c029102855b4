"use strict";
// Lines: one value for each instant. NaN breaks a line.

class Line {
  // options: name; style, the number of its colour and dash; dash, another one; x ascending and y; step: a value holds until the next
  // one, the last until end, or for ever; dots: its points are drawn too; halo: it is drawn over points.
  constructor(options) {
    Object.assign(this, { style: 0, swatch: "line", width: 1.6, x: [], y: [] }, options);
  }

  set(x, y) { this.x = x; this.y = y; }

  // visible returns the indices from, to of the points that the range shows, with a neighbour on each side.
  visible(from, to) {
    return [Math.max(0, firstAtLeast(this.x, from) - 1), Math.min(this.x.length, firstAtLeast(this.x, to) + 1)];
  }

  spanX() { return this.x.length ? [this.x[0], this.x[this.x.length - 1]] : null; }

  // spanY is of the points in the range, or where a line crosses it without one, of the two beside it.
  spanY(from, to, log) {
    const [first, last] = this.visible(from, to), { x, y } = this;
    const own = this.spanOf(first, last, log, (i) => this.step || x[i] >= from && x[i] <= to);
    const crosses = !own && last - first === 2 && !Number.isNaN(y[first]) && !Number.isNaN(y[first + 1]);
    return crosses ? this.spanOf(first, last, log, () => true) : own;
  }

  // spanOf returns the lowest and the highest of the points that count; null: none does.
  spanOf(first, last, log, counts) {
    let low = Infinity, high = -Infinity;
    for (let i = first; i < last; i++) {
      if (!counts(i) || log && !(this.y[i] > 0)) continue;
      if (this.y[i] < low) low = this.y[i];
      if (this.y[i] > high) high = this.y[i];
    }
    return low <= high ? [low, high] : null;
  }

  draw(pen) {
    const { context, x, y, area } = pen;
    const [first, last] = this.visible(pen.from, pen.to);
    if (this.step && last - first > 2 * (area.right - area.left)) { this.drawBars(pen, first, last); return; }
    const points = thinLine(this.x, this.y, first, last, x);
    context.strokeStyle = context.fillStyle = pen.colour(this.style);
    context.lineWidth = this.width;
    context.setLineDash(dashOf(this));
    context.lineJoin = "round";
    context.beginPath();
    let open = false;
    for (let i = 0; i < points.length; i++) {
      const value = this.y[points[i]];
      if (!pen.drawable(value)) { open = false; continue; }
      const left = x.pixel(this.x[points[i]]), top = y.pixel(value);
      if (!open && !this.step && !pen.drawable(this.y[points[i + 1]])) context.rect(left - 1, top - 1, 2, 2); // alone
      else if (!open) context.moveTo(left, top);
      else if (this.step) { context.lineTo(left, y.pixel(this.y[points[i - 1]])); context.lineTo(left, top); }
      else context.lineTo(left, top);
      open = true;
    }
    if (open && this.step && last === this.x.length) context.lineTo(x.pixel(Math.min(pen.to, this.end ?? pen.to)), y.pixel(this.y[last - 1]));
    if (this.halo) strokeHalo(context, pen.theme.ground, this.width);
    context.stroke();
    context.setLineDash([]);
    if (this.dots) for (const i of points) if (pen.drawable(this.y[i])) drawShape(context, this.style, x.pixel(this.x[i]), y.pixel(this.y[i]), 3);
  }

  // drawBars draws more steps than there are pixels: a path of so many would take the canvas tens of milliseconds. A dash has its gaps where
  // the line is flat.
  drawBars(pen, first, last) {
    const { context, y, area } = pen, half = this.width / 2, dash = dashOf(this);
    const until = last === this.x.length ? Math.min(pen.to, this.end ?? pen.to) : this.x[last - 1];
    context.fillStyle = pen.colour(this.style);
    for (const { from, to, low, high } of stepBars(this.x, this.y, first, last, pen.x, until, pen.drawable)) {
      const top = y.pixel(high), height = y.pixel(low) - top;
      for (let column = Math.max(from, area.left); column < Math.min(to, area.right); column++) {
        if (height < 4 && isGap(dash, column)) continue;
        context.fillRect(column + 0.5 - half, top - half, this.width, height + this.width);
      }
    }
  }

  // read returns the value at an instant, for the legend.
  read(at) {
    const index = this.step ? firstAtLeast(this.x, at + 1e-9) - 1 : nearestIndex(this.x, at);
    return index < 0 ? NaN : this.y[index];
  }

  columns(x, unit) { return [{ ...x, values: this.x }, { name: this.name, unit, values: this.y }]; }
}

// strokeHalo strokes the path of a line wider in the colour of the ground, so that the line stands out from what is below.
function strokeHalo(context, ground, width) {
  context.save();
  Object.assign(context, { strokeStyle: ground, lineWidth: width + 3, globalAlpha: 0.75 });
  context.setLineDash([]);
  context.stroke();
  context.restore();
}
