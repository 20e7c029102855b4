"use strict";
// Lanes: what each lane did. A row a lane: trees as boxes, in them their sessions on tracks, on these the requests: waiting, prefill and
// decode in three shades. Where there are too many to be told apart each row shows how busy it was.

const mostRequestBars = 20000;         // beyond, density
const shadeOf = { wait: 0.3, prefill: 0.6, decode: 1 };
const styleOf = { main: 0, child: 1, failed: 3 };

// Lanes is a mark (chart.js) that fills the whole chart. shown are places of lanes, those above first.
class Lanes {
  constructor(requests, range) {
    this.requests = requests;
    this.range = range;
    this.shown = Array.from(requests.lanes.keys());
    this.picked = -1; // place of a request
  }

  get tracks() { return this.requests.tracks; }

  spanY() { return [0, this.shown.length]; }

  // row returns where a lane lies, in pixels.
  row(pen, position) {
    const height = (pen.area.bottom - pen.area.top) / this.shown.length, gap = height > 12 ? 3 : height > 5 ? 1 : 0;
    const top = pen.area.top + position * height;
    return { top: top + gap / 2, height: height - gap };
  }

  draw(pen) {
    this.shades = shadesOfBars(pen);
    this.visible = this.tracks.count(this.shown, pen.from, pen.to, mostRequestBars);
    this.dense = this.visible > mostRequestBars || (pen.area.bottom - pen.area.top) / this.shown.length < 2;
    this.drawBands(pen);
    if (!this.dense) this.drawRequests(pen);
    else {
      this.drawDensity(pen);
      const position = this.picked < 0 ? -1 : this.shown.indexOf(this.tracks.placeOf(this.picked));
      if (position >= 0) this.drawPicked(pen, this.row(pen, position));
    }
  }

  // drawBands tells one lane from the next.
  drawBands(pen) {
    const { context, area, theme } = pen;
    context.clearRect(area.left, area.top, area.right - area.left, area.bottom - area.top);
    context.fillStyle = theme.shade;
    if (this.shown.length > 1 && this.row(pen, 0).height >= 4) {
      for (let p = 0; p < this.shown.length; p += 2) {
        const { top, height } = this.row(pen, p);
        context.fillRect(area.left, top, area.right - area.left, height);
      }
    }
    this.drawUnmeasured(pen);
    drawGridX(pen);
  }

  // drawUnmeasured shades the warmup and the cooldown, over the bands.
  drawUnmeasured({ context, area, theme, x }) {
    context.fillStyle = theme.muted;
    context.globalAlpha = 0.16;
    for (const shade of this.range.shades || []) {
      const left = Math.max(area.left, x.pixel(shade.from)), right = Math.min(area.right, x.pixel(shade.to));
      if (right > left) context.fillRect(left, area.top, right - left, area.bottom - area.top);
    }
    context.globalAlpha = 1;
  }

  // drawRequests draws the bars of all requests as one picture, and over it what tells their sessions and trees apart.
  drawRequests(pen) {
    const bars = new Bars(pen), sheet = sheetOf(this, bars.width, bars.height), { tracks } = this;
    const each = (visit) => this.eachTree(pen, (row, t) => tracks.eachSession(t, pen.from, pen.to, (k) => visit(this.placeOf(pen, row, k), k)));
    each((place, k) => {
      this.drawLife(pen, place);
      this.addBars(bars, sheet.pixels, pen, place, k);
    });
    pen.context.drawImage(paint(sheet), pen.area.left, pen.area.top, bars.width / pen.ratio, bars.height / pen.ratio);
    each((place, k) => this.drawSession(pen, place, k));
    this.eachTree(pen, (row, t) => {
      this.drawTree(pen, row, t);
      if (row.track >= 5) tracks.eachSession(t, pen.from, pen.to, (k) => this.drawLinks(pen, row, k));
    });
  }

  // eachTree calls back for the trees that the chart shows, with the row of their lane and the height of a track in it.
  eachTree(pen, visit) {
    for (let p = 0; p < this.shown.length; p++) {
      const { top, height } = this.row(pen, p);
      this.tracks.eachTree(this.shown[p], pen.from, pen.to, (t) => visit({ top, height, track: height / this.tracks.treeTracks[t] }, t));
    }
  }

  // drawTree draws the box of a tree.
  drawTree(pen, row, t) {
    const { context, theme } = pen, left = pen.x.pixel(this.tracks.treeBegin[t]), right = pen.x.pixel(this.tracks.treeEnd[t]);
    if (row.height < 6 || right - left < 3) return;
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    context.globalAlpha = 0.7;
    context.strokeRect(Math.round(left) - 0.5, Math.round(row.top) + 0.5, Math.max(2, Math.round(right - left) + 1), Math.round(row.height) - 1);
    context.globalAlpha = 1;
  }

  // placeOf returns where a session lies: from left to right, its middle, and top and height of its bars, below its name where it is named.
  placeOf(pen, row, k) {
    const { tracks } = this, top = row.top + tracks.track[k] * row.track;
    const left = Math.max(pen.area.left, pen.x.pixel(tracks.begin[k])), right = Math.min(pen.area.right, pen.x.pixel(tracks.end[k]));
    const pad = row.track > 14 ? 3 : row.track > 6 ? 1.5 : row.track > 3 ? 0.5 : 0, height = Math.max(1, row.track - 2 * pad);
    const named = this.shown.length === 1 && row.track >= 22 && right - left > 60, bars = named ? { top: top + 13, height: height - 12 } : { top: top + pad, height };
    return { ...bars, left, right, middle: top + row.track / 2, name: named ? top + 8 : null };
  }

  // drawLife draws a thin line as long as a session lived.
  drawLife(pen, { left, right, middle }) {
    if (!(right > left)) return;
    pen.context.fillStyle = pen.theme.muted;
    pen.context.globalAlpha = 0.35;
    pen.context.fillRect(left, middle - 0.5, right - left, 1);
    pen.context.globalAlpha = 1;
  }

  addBars(bars, pixels, pen, { top, height }, k) {
    const { tracks } = this, [low, high] = tracks.span(k, pen.from, pen.to);
    for (let r = low; r < high; r++) this.addRequest(bars, pen, tracks.places[r], tracks.depth[k] > 0 ? styleOf.child : styleOf.main);
    bars.place(pixels, top, height);
  }

  // drawSession marks the requests of a session that failed and the one that is picked, and writes its name.
  drawSession(pen, place, k) {
    const { tracks, requests } = this, [low, high] = tracks.span(k, pen.from, pen.to);
    for (let r = low; r < high; r++) {
      this.drawFailure(pen, place, tracks.places[r]);
      if (tracks.places[r] === this.picked) this.drawPicked(pen, place);
    }
    if (place.name !== null) this.drawName(pen, requests.sessionLabel(k), place.left + 4, place.name, place.right - place.left - 8);
  }

  drawName(pen, name, left, middle, width) {
    const { context, theme } = pen;
    Object.assign(context, { fillStyle: theme.text, textAlign: "left", textBaseline: "middle", font: theme.font });
    const room = Math.floor(width / 6);
    if (room > 6) context.fillText(shorten(name, Math.min(room, 60)), left, middle);
  }

  addRequest(bars, pen, i, style) {
    const { requests } = this, { x, area } = pen, shades = this.shades[requests.failure[i] > 0 ? styleOf.failed : style];
    const start = x.pixel(requests.due[i]), sent = x.pixel(requests.time[i]), end = Math.min(area.right + 2, x.pixel(requests.end[i]));
    const first = Number.isNaN(requests.first[i]) ? end : x.pixel(requests.first[i]);
    const bar = (from, to, shade, least) => bars.add(from, Math.max(to, from + least), shade);
    bar(start, sent, shades.wait, 0);
    bar(sent, first, shades.prefill, 0);
    if (first < end) bar(first, end, shades.decode, 0.7); else if (end - sent < 0.7) bar(sent, end, shades.prefill, 0.7);
  }

  drawPicked({ context, x, theme }, { top, height }) {
    const start = x.pixel(this.requests.due[this.picked]), end = x.pixel(this.requests.end[this.picked]);
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    context.strokeRect(start - 1.5, top - 1.5, Math.max(end - start, 1) + 3, height + 3);
  }

  // drawFailure crosses out the end of a request that failed.
  drawFailure(pen, { top, height }, i) {
    const { area } = pen, end = pen.x.pixel(this.requests.end[i]);
    if (!(this.requests.failure[i] > 0) || height < 5 || end < area.left || end > area.right) return;
    drawCross(pen.context, Math.min(Math.max(end, area.left + 4), area.right - 4), top + height / 2, Math.min(4, height / 2));
  }

  // drawLinks draws lines from the request behind which a session began, and to the one that waited for it.
  drawLinks(pen, row, k) {
    const { spawn, join } = this.tracks.links(k);
    if (spawn < 0 && join < 0) return;
    const { context, x, theme } = pen, { tracks, requests } = this, middle = (session) => row.top + (tracks.track[session] + 0.5) * row.track;
    const above = middle(tracks.parent[k]), below = middle(k);
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    context.globalAlpha = 0.6;
    const line = (fromX, fromY, toX, toY) => {
      if (Math.max(fromX, toX) < pen.area.left || Math.min(fromX, toX) > pen.area.right) return;
      strokeLine(context, fromX, fromY, toX, toY);
    };
    if (spawn >= 0) line(x.pixel(requests.end[spawn]), above, x.pixel(tracks.begin[k]), below);
    context.setLineDash([3, 2]);
    if (join >= 0) line(x.pixel(tracks.end[k]), below, x.pixel(requests.due[join]), above);
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  // drawDensity draws each row as a picture one pixel high: how much of the time of a column of pixels its requests took.
  drawDensity(pen) {
    const { area, theme } = pen, width = Math.ceil(area.right - area.left);
    const rows = Math.min(this.shown.length, Math.ceil(area.bottom - area.top)), busy = new Float32Array(rows * width * 2);
    for (let p = 0; p < this.shown.length; p++) {
      this.addBusy(pen, this.shown[p], busy.subarray(Math.floor(p * rows / this.shown.length) * width * 2), width);
    }
    const sheet = sheetOf(this, width, rows), { data } = sheet.image, most = Math.max(1, this.shown.length / rows);
    const main = rgbOf(pen.colour(styleOf.main)), child = rgbOf(pen.colour(styleOf.child)), ground = rgbOf(theme.ground);
    for (let c = 0; c < rows * width; c++) {
      const a = busy[2 * c] / most, b = busy[2 * c + 1] / most, all = a + b;
      if (!(all > 0)) continue;
      const strength = Math.min(1, 0.12 + 0.88 * all);
      for (let channel = 0; channel < 3; channel++) {
        data[4 * c + channel] = ground[channel] + ((main[channel] * a + child[channel] * b) / all - ground[channel]) * strength;
      }
      data[4 * c + 3] = 255;
    }
    const canvas = paint(sheet);
    pen.context.imageSmoothingEnabled = false;
    for (let p = 0; p < rows; p++) {
      const { top, height } = rows === this.shown.length ? this.row(pen, p) : { top: area.top + p, height: 1 };
      pen.context.drawImage(canvas, 0, p, width, 1, area.left, top, width, Math.max(height, 1));
    }
  }

  // addBusy adds the share of each column of pixels that requests of a lane take: two numbers a column, of main sessions and of others.
  addBusy(pen, place, busy, width) {
    const { tracks, requests } = this, { x, from, to } = pen;
    const left = pen.area.left;
    tracks.eachTree(place, from, to, (t) => tracks.eachSession(t, from, to, (k) => {
      const [low, high] = tracks.span(k, from, to), which = tracks.depth[k] > 0 ? 1 : 0;
      for (let r = low; r < high; r++) {
        const i = tracks.places[r];
        const begin = Math.max(0, x.pixel(requests.time[i]) - left), end = Math.min(width, x.pixel(requests.end[i]) - left);
        for (let c = Math.floor(begin); c < end; c++) busy[2 * c + which] += Math.min(end, c + 1) - Math.max(begin, c);
      }
    }));
  }

  // at returns the request under a place of the chart; -1: none.
  at(pen, px, py) {
    if (px < pen.area.left || px > pen.area.right || py < pen.area.top || py >= pen.area.bottom) return -1;
    const position = Math.floor((py - pen.area.top) / (pen.area.bottom - pen.area.top) * this.shown.length), row = this.row(pen, position);
    return this.tracks.at(this.shown[position], (py - row.top) / row.height, pen.x.value(px), 3 / pen.x.perUnit);
  }

  laneAt(pen, py) { return this.shown[Math.floor((py - pen.area.top) / (pen.area.bottom - pen.area.top) * this.shown.length)]; }

  // columns are the requests of the lanes that are shown, in the order of sending.
  columns() {
    const { requests, tracks } = this, shown = new Set(this.shown), { lane } = requests.page.tables.trees.columns;
    const places = [];
    for (let i = 0; i < requests.length; i++) if (shown.has(tracks.placeOf(i))) places.push(i);
    const column = (name, unit, of) => ({ name, unit, values: places.map(of) });
    return [
      column("sent", "s", (i) => requests.time[i]), column("lane", "", (i) => lane[tracks.tree[requests.session[i]]]),
      column("session", "", (i) => requests.sessionLabel(requests.session[i])), column("turn", "", (i) => requests.turn[i]),
      column("due", "s", (i) => requests.due[i]), column("first token", "s", (i) => requests.first[i]), column("end", "s", (i) => requests.end[i]),
      column("prompt tokens", "", (i) => requests.prompt_tokens[i]), column("cached", "", (i) => requests.cached[i]),
      column("output tokens", "", (i) => requests.metrics.output_tokens[i]), column("failure", "", (i) => requests.category(i)),
    ];
  }
}

// drawGridX draws the lines of the time axis again, over what has hidden them.
function drawGridX(pen) {
  const { context, area, theme } = pen;
  context.strokeStyle = theme.grid;
  context.lineWidth = 1;
  for (const tick of pen.ticks.x) {
    const left = Math.round(pen.x.pixel(tick)) + 0.5;
    strokeLine(context, left, area.top, left, area.bottom);
  }
}

// drawCross marks a failure.
function drawCross(context, x, y, r) {
  context.strokeStyle = readTheme().text;
  context.lineWidth = 1.3;
  strokeLine(context, x - r, y - r, x + r, y + r);
  strokeLine(context, x - r, y + r, x + r, y - r);
}

// shadesOfBars returns, by style, the colours of waiting, prefill and decode: none lets through what is below.
function shadesOfBars(pen) {
  const ground = rgbOf(pen.theme.ground), shades = {};
  for (const style of Object.values(styleOf)) {
    const colour = rgbOf(pen.colour(style));
    shades[style] = {};
    for (const [name, share] of Object.entries(shadeOf)) shades[style][name] = colour.map((c, i) => ground[i] + (c - ground[i]) * share);
  }
  return shades;
}
