"use strict";
// Points: one value for each row. Points that would cover each other are drawn once.

const mostShapes = 1500; // more points are dots

class Points {
  // options: name; style; x ascending and y; keep, 1 for the rows that are drawn; size in pixels. Of few points: labels, texts beside
  // them; hollow, true for those that are drawn as an outline.
  constructor(options) {
    Object.assign(this, { style: 0, swatch: "point", size: 2.2, x: [], y: [], keep: null, labels: null, hollow: null }, options);
  }

  get over() { return this.size + 1; }

  set(x, y, keep) { this.x = x; this.y = y; this.keep = keep ?? null; }

  shown(row) { return (!this.keep || this.keep[row]) && !Number.isNaN(this.y[row]); }

  // visible returns the rows from, to whose x is in a range.
  visible(from, to) { return [firstAtLeast(this.x, from), firstAtLeast(this.x, to + Number.EPSILON * Math.abs(to))]; }

  spanX(log) {
    const shown = Array.from(this.x).filter((x, row) => this.shown(row) && (!log || x > 0));
    return shown.length ? [shown[0], shown[shown.length - 1]] : null;
  }

  spanY(from, to, log) {
    let low = Infinity, high = -Infinity;
    const [first, last] = this.visible(from, to), { y, keep } = this;
    for (let row = first; row < last; row++) {
      if (keep && !keep[row] || log && !(y[row] > 0)) continue;
      if (y[row] < low) low = y[row];
      if (y[row] > high) high = y[row];
    }
    return low <= high ? [low, high] : null;
  }

  draw(pen) {
    const [first, last] = this.visible(pen.from, pen.to);
    if (last - first > mostShapes) this.drawDots(pen, first, last); else this.drawShapes(pen, first, last);
    if (this.labels) drawLabels(pen, this, first, last);
  }

  drawShapes(pen, first, last) {
    const { context, x, y, width } = pen, taken = new Uint8Array(width * pen.height);
    context.fillStyle = context.strokeStyle = pen.colour(this.style);
    context.lineWidth = 1.5;
    context.globalAlpha = 0.85;
    for (let row = first; row < last; row++) {
      if (!this.shown(row) || !pen.drawable(this.y[row])) continue;
      const left = x.pixel(this.x[row]), top = y.pixel(this.y[row]), cell = Math.floor(top) * width + Math.floor(left);
      if (taken[cell]) continue;
      taken[cell] = 1;
      drawShape(context, this.style, left, top, this.size, this.hollow && this.hollow[row]);
    }
    context.globalAlpha = 1;
  }

  drawDots(pen, first, last) {
    const dots = new Dots(pen), { x, y, keep } = this;
    for (let row = first; row < last; row++) {
      if ((!keep || keep[row]) && pen.drawable(y[row])) dots.add(pen.x.pixel(x[row]), pen.y.pixel(y[row]));
    }
    dots.draw(pen.context, sheetOf(this, dots.width, dots.height), pen.colour(this.style));
  }

  // nearest returns the row of the drawn point nearest to a place, or -1 if none is within ten pixels.
  nearest(pen, px, py) {
    let best = -1, least = 100;
    const [first, last] = this.visible(pen.x.value(px - 10), pen.x.value(px + 10));
    for (let row = first; row < last; row++) {
      if (!this.shown(row)) continue;
      const distance = (pen.x.pixel(this.x[row]) - px) ** 2 + (pen.y.pixel(this.y[row]) - py) ** 2;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  }

  columns(x, unit) {
    const rows = Array.from(this.x.keys()).filter((row) => this.shown(row));
    const columns = [{ ...x, values: rows.map((row) => this.x[row]) }, { name: this.name, unit, values: rows.map((row) => this.y[row]) }];
    if (this.labels) columns.push({ name: "label", unit: "", values: rows.map((row) => this.labels[row]) });
    return columns;
  }
}

// Dots are many points, drawn as one picture: a canvas that is asked for tens of thousands of squares takes a tenth of a second. A point is
// a square of two pixels; squares at the same place are one.
class Dots {
  constructor({ width, height, ratio }) {
    Object.assign(this, { ratio, size: Math.max(2, Math.round(2 * ratio)), width: Math.ceil(width * ratio), height: Math.ceil(height * ratio) });
    this.corners = new Uint8Array(this.width * this.height); // 1 where a square begins
  }

  // add adds a square, but none that leaves the picture.
  add(left, top) {
    const { ratio, size, width, height } = this, x = Math.round((left - 1) * ratio), y = Math.round((top - 1) * ratio);
    if (x >= 0 && y >= 0 && x + size <= width && y + size <= height) this.corners[y * width + x] = 1;
  }

  // covers returns how many squares cover each pixel.
  covers() {
    const { corners, size, width } = this, covers = new Uint8Array(corners.length);
    for (let corner = 0; corner < corners.length; corner++) {
      if (!corners[corner]) continue;
      for (let row = corner; row < corner + size * width; row += width) {
        for (let at = row; at < row + size; at++) covers[at]++;
      }
    }
    return covers;
  }

  // draw draws each pixel the stronger the more squares cover it, on a sheet of the size of the picture.
  draw(context, sheet, colour) {
    const { width, height, ratio } = this, covers = this.covers(), rgb = rgbOf(colour);
    const shades = Array.from({ length: this.size ** 2 + 1 }, (_, n) => packColour(...rgb, 255 * (1 - 0.4 ** n)));
    for (let at = 0; at < covers.length; at++) if (covers[at]) sheet.pixels[at] = shades[covers[at]];
    context.drawImage(paint(sheet), 0, 0, width / ratio, height / ratio);
  }
}

function drawShape(context, style, left, top, size, hollow) {
  const shape = shapes[style % shapes.length], path = pathOf(shapePath(shape, left, top, size));
  if (hollow || isHollow(shape)) context.stroke(path); else context.fill(path);
}

// drawLabels writes the labels of points beside them, where they cover no other label and no point; where there is no such place, none.
function drawLabels(pen, points, first, last) {
  const { context, area, theme } = pen, taken = [];
  for (let row = first; row < last; row++) {
    if (!points.shown(row)) continue;
    const left = pen.x.pixel(points.x[row]), top = pen.y.pixel(points.y[row]), r = points.size;
    taken.push({ left: left - r, right: left + r, top: top - r, bottom: top + r });
  }
  Object.assign(context, { font: theme.font, fillStyle: theme.text, strokeStyle: theme.ground, lineWidth: 4, lineJoin: "round", textAlign: "left", textBaseline: "top" });
  for (let row = first; row < last; row++) {
    if (!points.shown(row)) continue;
    const text = shorten(points.labels[row], 24), width = context.measureText(text).width, gap = points.size + 3;
    const left = pen.x.pixel(points.x[row]), top = pen.y.pixel(points.y[row]);
    for (const [dx, dy] of [[gap, -14], [gap, 3], [-gap - width, -14], [-gap - width, 3], [-width / 2, -gap - 13], [-width / 2, gap], [0, -gap - 15], [0, gap + 2]]) {
      const box = { left: left + dx, right: left + dx + width, top: top + dy, bottom: top + dy + 12 };
      if (box.left < area.left || box.right > area.right || box.top < area.top || box.bottom > area.bottom) continue;
      if (taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top)) continue;
      context.strokeText(text, box.left, box.top);
      context.fillText(text, box.left, box.top);
      taken.push(box);
      break;
    }
  }
}
