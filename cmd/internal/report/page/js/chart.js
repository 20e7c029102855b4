"use strict";
// Charts: a title, a legend, two axes, and marks drawn between them. A chart whose x is a TimeRange follows it and changes it
// (gesture.js); another has an x axis of its own.
//
// A mark has: name, style (number of its colour), swatch ("line", "area", "hatch", "point"); quiet, which keeps it out of the legend; spanX(log) and spanY(from, to, log), which return
// [lowest, highest] or null, of positive values alone where the axis is logarithmic; draw(pen); read(x, y), the value that the legend
// shows; nearest(pen, px, py), the row under the pointer or -1; columns(x, unit, name), what it has as a table; over, how many pixels it may
// reach beyond the axes. All but draw may be left out.
// The pen holds context, x and y (scales), from and to (of x), area, ticks, width, height, theme, colour(style), drawable(value); ratio, how
// many pixels of the screen a pixel of the page has, and snap(pixel), the nearest edge of one of those.

class Chart {
  // options: title; about, a sentence; x, a TimeRange or {name, unit, log, label, from, to, ticks}; y {name, unit, log, zero, from, to, label}:
  // name stands at the axis, label(value) writes a tick;
  // whole: its values are counts, so that ticks are whole numbers;
  // marks; prepare(), called before a drawing after the range has changed; height in pixels; empty, what to say without values; none, true where there
  // are none at all: the chart is one line;
  // pointed(place), called with {x, y, px, py, mark, row} of a click, mark and row of the point under it, or null and -1; wide.
  constructor(parent, options) {
    Object.assign(this, { height: 190, empty: "nothing in this range", about: "" }, options);
    this.y = { unit: "", ...options.y };
    this.time = options.x instanceof TimeRange ? options.x : null;
    this.stale = true;
    if (this.time) this.time.watch((what) => what === "range" ? this.invalidate() : this.drawCursor());
    this.build(parent);
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    new IntersectionObserver((entries) => { this.seen = entries[entries.length - 1].isIntersecting; this.redraw(); }, { rootMargin: `${nearWindow}px` }).observe(this.plot);
    watchTheme(() => this.redraw());
    watchPaper(() => this.draw());
  }

  build(parent) {
    this.canvas = element("canvas", {});
    this.overlay = element("canvas", {});
    this.legend = new Legend(this.marks, () => this.redraw());
    this.plot = element("div", { class: "plot", tabindex: 0, role: "group", "aria-label": `Chart: ${this.title}. ${this.about}`, style: { height: `${this.height}px` } }, this.canvas, this.overlay);
    const about = this.none ? this.empty : this.about;
    const caption = element("figcaption", {}, element("h3", {}, this.title), about ? element("p", { class: "about" }, about) : null, this.legend.element);
    this.plot.chart = this; // for tests and the console
    this.figure = element("figure", { class: `chart${this.wide ? " wide" : ""}${this.none ? " none" : ""}` }, caption, this.plot, dataTable(this));
    if (this.time) listenToGestures(this); else listenToPointer(this);
    parent.append(this.figure);
  }

  // invalidate says that the data or the range is another.
  invalidate() { this.stale = true; this.redraw(); }

  // redraw draws soon, once, and only what is near the window: what is in it before the rest.
  redraw() {
    if (this.waiting || this.seen === false) return;
    const draw = () => { this.waiting = 0; if (this.seen ?? inWindow(this.plot, nearWindow)) this.draw(); };
    this.waiting = requestAnimationFrame(() => { if (inWindow(this.plot)) draw(); else this.waiting = requestAnimationFrame(draw); });
  }

  draw() {
    if (this.stale && this.prepare) this.prepare(this);
    this.stale = false;
    const pen = this.makePen();
    if (!pen) return;
    this.pen = pen;
    this.paint(pen);
    this.legend.note();
    this.drawCursor();
  }

  // paint draws everything that does not move with the pointer.
  paint(pen) {
    pen.context.clearRect(0, 0, pen.width, this.height);
    if (this.time) drawShades(pen, this.time);
    drawAxes(pen, this.labels);
    if (this.span) for (const mark of this.marks) if (!mark.hidden) drawWithin(pen, mark);
    if (!this.span) drawEmpty(pen, this.empty);
    if (this.time) drawShadeNames(pen, this.time);
    drawNames(pen, this);
  }

  // makePen sizes the canvases and makes the scales; null where the chart has no room.
  makePen() {
    const width = this.plot.clientWidth, theme = readTheme();
    if (width < 80) return null;
    const context = sizeCanvas(this.canvas, width, this.height);
    sizeCanvas(this.overlay, width, this.height);
    context.font = theme.font;
    const { from, to } = this.rangeX();
    const room = roomFor(this.height - 40, 36);
    const [low, high] = this.rangeY(from, to, room);
    const ticksY = this.ticksY(low, high, room);
    const labelY = this.y.label || axisFormat(this.y.unit, high, this.y.log);
    const gutter = Math.max(this.gutter || 52, ...ticksY.map((tick) => context.measureText(labelY(tick)).width + 12));
    const area = { left: Math.ceil(gutter), right: width - 12, top: this.y.name ? 24 : 10, bottom: this.height - (this.x.name ? 40 : 24) };
    const x = new Scale(from, to, area.left, area.right, this.x.log), y = new Scale(low, high, area.bottom, area.top, this.y.log);
    this.ticks = { x: this.ticksX(from, to, roomFor(area.right - area.left, width < 500 ? 64 : 84)), y: ticksY };
    this.labels = { x: this.labelX(from, to), y: labelY };
    const drawable = this.y.log ? (value) => value > 0 : (value) => Number.isFinite(value);
    const ratio = devicePixelRatio || 1, snap = (pixel) => Math.round(pixel * ratio) / ratio;
    return { context, x, y, from, to, area, ticks: this.ticks, width, height: this.height, theme, drawable, ratio, snap, colour: (style) => theme.colours[style % seriesCount] };
  }

  rangeX() {
    if (this.time) return { from: this.time.from, to: this.time.to };
    const [low, high] = spanOf(this.marks, (mark) => mark.spanX && mark.spanX(this.x.log)) || [this.x.log ? 1 : 0, this.x.log ? 10 : 1];
    const [from, to] = roundOut(this.x.from ?? low, this.x.to ?? high, this.x.log, 6);
    return { from: this.x.from ?? from, to: this.x.to ?? to };
  }

  // rangeY is what the visible range has, rounded out; this.span is null where it has nothing.
  rangeY(from, to, room) {
    this.span = spanOf(this.marks, (mark) => mark.spanY && mark.spanY(from, to, this.y.log));
    let [low, high] = this.span || (this.y.log ? [0.1, 1] : [0, 1]);
    if (this.y.zero && !this.y.log) [low, high] = [Math.min(0, low), Math.max(0, high)];
    [low, high] = roundOut(low, high, this.y.log, room);
    return [this.y.from ?? low, this.y.to ?? high];
  }

  ticksY(low, high, room) {
    if (!this.span) return [];
    return this.y.log ? logTicks(low, high, room) : linearTicks(low, high, room + 1).filter((tick) => !this.y.whole || Number.isInteger(tick));
  }

  ticksX(from, to, room) {
    if (this.time) return timeTicks(from, to, room);
    if (this.x.ticks) return this.x.ticks;
    return this.x.log ? logTicks(from, to, room) : linearTicks(from, to, room).filter((tick) => !this.x.whole || Number.isInteger(tick));
  }

  labelX(from, to) {
    if (this.time) return (value) => formatTime(value, to - from, this.time.whole.to);
    return this.x.label || axisFormat(this.x.unit, to, this.x.log);
  }

  // drawCursor draws what moves with the pointer, on a canvas of its own: the line, and the range while it is dragged.
  drawCursor() {
    if (!this.pen || this.seen === false) return;
    const at = this.time ? this.time.cursor : this.cursor ?? null, pointed = at !== null || Boolean(this.dragged);
    if (pointed || this.overlaid) drawPointer(this, this.overlay.getContext("2d"), at);
    this.overlaid = pointed;
    this.legend.show(at, this.cursorY, (value, mark) => formatValue(value, shortUnit(mark.unit ?? this.y.unit)));
  }
}

// drawWithin draws a mark between the axes. What has a size, such as a point, is whole where its place is at the edge.
function drawWithin(pen, mark) {
  const { context, area } = pen, over = mark.over || 0;
  context.save();
  context.beginPath();
  context.rect(area.left - over, area.top - 2 - over, area.right - area.left + 2 * over, area.bottom - area.top + 3 + 2 * over);
  context.clip();
  mark.draw(pen);
  context.restore();
}

const nearWindow = 300; // pixels within which a chart is near the window

// inWindow reports whether a chart is in the window, or so many pixels from it.
function inWindow(plot, near = 0) {
  const { top, bottom } = plot.getBoundingClientRect();
  return bottom > -near && top < innerHeight + near;
}

// shortUnit is the unit that a legend writes: the long ones stand in the title.
function shortUnit(unit) { return unit === "s" || unit === "%" ? unit : ""; }

// spanOf joins the spans of the marks that are shown; null where none has one.
function spanOf(marks, span) {
  let low = Infinity, high = -Infinity;
  for (const mark of marks) {
    const own = mark.hidden ? null : span(mark);
    if (!own) continue;
    low = Math.min(low, own[0]);
    high = Math.max(high, own[1]);
  }
  return low <= high ? [low, high] : null;
}

// sizeCanvas gives a canvas the pixels of the screen, and returns its context in pixels of the page.
function sizeCanvas(canvas, width, height) {
  const ratio = devicePixelRatio || 1, context = canvas.getContext("2d");
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// drawShades shades parts of the time that are not measured, such as the warmup: range.shades is a list of {from, to, name}.
function drawShades(pen, range) {
  const { context, area, theme } = pen;
  for (const shade of range.shades || []) {
    const left = Math.max(area.left, pen.x.pixel(shade.from)), right = Math.min(area.right, pen.x.pixel(shade.to));
    if (!(right > left)) continue;
    context.fillStyle = theme.shade;
    context.fillRect(left, area.top, right - left, area.bottom - area.top);
  }
}

// drawShadeNames names the parts that are shaded, over the marks: one without room for its name has it beside it, toward the middle, each name
// below the one before.
function drawShadeNames(pen, range) {
  const { context, area, theme } = pen;
  let row = 0;
  for (const shade of range.shades || []) {
    const left = Math.max(area.left, pen.x.pixel(shade.from)), right = Math.min(area.right, pen.x.pixel(shade.to));
    if (!(right > left)) continue;
    const width = context.measureText(shade.name).width, fits = width + 8 <= right - left, before = !fits && left + right > area.left + area.right;
    Object.assign(context, { fillStyle: theme.text, strokeStyle: theme.ground, lineWidth: 3, textAlign: before ? "right" : "left", textBaseline: "top" });
    const x = before ? left - 4 : fits ? left + 4 : right + 4, y = area.top + 3 + 13 * row++;
    context.strokeText(shade.name, x, y);
    context.fillText(shade.name, x, y);
  }
}

function drawEmpty(pen, text) {
  Object.assign(pen.context, { fillStyle: pen.theme.muted, textAlign: "center", textBaseline: "middle" });
  pen.context.fillText(text, (pen.area.left + pen.area.right) / 2, (pen.area.top + pen.area.bottom) / 2);
}
