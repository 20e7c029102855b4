"use strict";
// Points: one value for each row. Points that would cover each other are drawn once.

class Points {
  // options: name; style; x ascending and y; keep, 1 for the rows that are drawn; size in pixels. Of few points: labels, texts beside
  // them; hollow, true for those that are drawn as an outline.
  constructor(options) {
    Object.assign(this, { style: 0, swatch: "point", size: 2.2, x: [], y: [], keep: null, labels: null, hollow: null }, options);
  }

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
    const [first, last] = this.visible(from, to);
    for (let row = first; row < last; row++) {
      if (!this.shown(row) || log && !(this.y[row] > 0)) continue;
      if (this.y[row] < low) low = this.y[row];
      if (this.y[row] > high) high = this.y[row];
    }
    return low <= high ? [low, high] : null;
  }

  draw(pen) {
    const { context, x, y, width } = pen;
    const taken = new Uint8Array(width * pen.height), colour = pen.colour(this.style);
    const [first, last] = this.visible(pen.from, pen.to);
    const few = last - first <= 1500, dots = few ? null : new Dots(pen, colour);
    context.fillStyle = context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.globalAlpha = few ? 0.85 : 0.6;
    for (let row = first; row < last; row++) {
      if (!this.shown(row) || !pen.drawable(this.y[row])) continue;
      const left = x.pixel(this.x[row]), top = y.pixel(this.y[row]), cell = Math.floor(top) * width + Math.floor(left);
      if (taken[cell]) continue;
      taken[cell] = 1;
      if (few) drawShape(context, this.style, left, top, this.size, this.hollow && this.hollow[row]);
      else dots.add(left, top);
    }
    context.globalAlpha = 1;
    if (dots) dots.draw(context);
    if (this.labels) drawLabels(pen, this, first, last);
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

// Dots are many points, drawn as one picture: a canvas that is asked for tens of thousands of squares takes a tenth of a second.
class Dots {
  constructor(pen, colour) {
    this.ratio = devicePixelRatio || 1;
    Object.assign(this, { width: pen.width, height: pen.height, colour: rgbOf(colour), image: new ImageData(Math.ceil(pen.width * this.ratio), Math.ceil(pen.height * this.ratio)) });
  }

  // add adds a square of two pixels.
  add(left, top) {
    const { ratio, image, colour } = this, size = Math.max(2, Math.round(2 * ratio));
    const x = Math.round((left - 1) * ratio), y = Math.round((top - 1) * ratio);
    for (let row = Math.max(0, y); row < Math.min(image.height, y + size); row++) {
      for (let column = Math.max(0, x); column < Math.min(image.width, x + size); column++) {
        const at = 4 * (row * image.width + column);
        image.data.set(colour, at);
        image.data[at + 3] += (255 - image.data[at + 3]) * 0.6;
      }
    }
  }

  draw(context) {
    const canvas = element("canvas", { width: this.image.width, height: this.image.height });
    canvas.getContext("2d").putImageData(this.image, 0, 0);
    context.drawImage(canvas, 0, 0, this.image.width / this.ratio, this.image.height / this.ratio);
  }
}

function drawShape(context, style, left, top, size, hollow) {
  const shape = shapes[style % shapes.length], path = new Path2D(shapePath(shape, left, top, size));
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
