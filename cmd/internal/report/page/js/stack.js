"use strict";
// Areas that stand on each other: what each adds to a sum over time.

class Area {
  // options: name; style, the number of its colour and hatching; x ascending and y, not negative, each until the next x; under, the area
  // on which it stands, with the same x.
  constructor(options) { Object.assign(this, { style: 0, swatch: "area", x: [], y: [], under: null }, options); }

  set(x, y) { this.x = x; this.y = y; }

  // base is the height of what is below; top that with its own.
  base(row) { return this.under ? this.under.top(row) : 0; }
  top(row) { return this.base(row) + (this.hidden || !(this.y[row] > 0) ? 0 : this.y[row]); }

  visible(from, to) { return [Math.max(0, firstAtLeast(this.x, from) - 1), firstAtLeast(this.x, to)]; }

  spanY(from, to) {
    const [first, last] = this.visible(from, to);
    let high = 0;
    for (let row = first; row < last; row++) high = Math.max(high, this.top(row));
    return last > first ? [0, high] : null;
  }

  draw(pen) {
    const { context, x, y, area } = pen;
    const [first, last] = this.visible(pen.from, pen.to);
    const rightOf = (row) => row + 1 < this.x.length ? x.pixel(this.x[row + 1]) : Math.min(area.right, x.pixel(this.x[row] + (row ? this.x[row] - this.x[row - 1] : 1)));
    context.fillStyle = hatched(pen, this.style);
    for (let row = first; row < last; row++) {
      const left = pen.snap(x.pixel(this.x[row])), top = y.pixel(this.top(row)), height = y.pixel(this.base(row)) - top;
      if (height > 0) context.fillRect(left, top, pen.snap(rightOf(row)) - left, height);
    }
  }

  read(at) {
    const row = firstAtLeast(this.x, at + 1e-9) - 1;
    return row < 0 ? NaN : this.y[row];
  }

  columns(x, unit) { return [{ ...x, values: this.x }, { name: this.name, unit, values: this.y }]; }
}

// stackAreas makes areas of [{name, style}], the first at the bottom.
function stackAreas(layers) {
  let under = null;
  return layers.map((layer, style) => under = new Area({ style, ...layer, under }));
}

const hatchGap = 7; // pixels from one line of a hatching to the next

// hatched returns what an area of a style is filled with: a tile of its colour and hatching. A canvas repeats tiles fast; lines that are
// clipped to an area of some hundred windows would take it tens of milliseconds.
function hatched(pen, style) {
  const size = Math.round(hatchGap * pen.ratio), tile = element("canvas", { width: size, height: size }), context = tile.getContext("2d");
  context.globalAlpha = 0.75;
  context.fillStyle = pen.colour(style);
  context.fillRect(0, 0, size, size);
  context.globalAlpha = 1;
  context.strokeStyle = pen.theme.ground;
  context.scale(size / hatchGap, size / hatchGap);
  context.stroke(new Path2D(hatchPath(style, -hatchGap, -hatchGap, 2 * hatchGap, 2 * hatchGap)));
  const pattern = pen.context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / pen.ratio));
  return Object.assign(pattern, { hatching: { style, colour: pen.colour(style) } });
}

// hatchPath is the hatching of a style as the path of an SVG: none, then lines that rise, fall, stand, lie.
function hatchPath(style, left, top, right, bottom) {
  const gap = hatchGap, height = bottom - top, kind = style % 5;
  let path = "";
  if (kind === 1 || kind === 2) {
    for (let x = Math.floor((left - height) / gap) * gap; x < right; x += gap) path += kind === 1 ? `M${x} ${bottom}L${x + height} ${top}` : `M${x} ${top}L${x + height} ${bottom}`;
  }
  if (kind === 3) for (let x = Math.ceil(left / gap) * gap; x < right; x += gap) path += `M${x} ${top}V${bottom}`;
  if (kind === 4) for (let y = Math.ceil(top / gap) * gap; y < bottom; y += gap) path += `M${left} ${y}H${right}`;
  return path;
}
