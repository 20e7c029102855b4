"use strict";
// Export: a chart as one picture with its title and legend, as PNG and as SVG.

const pictureTop = 48; // pixels above the axes: title, and legend

// drawPicture draws a chart below its title and legend.
function drawPicture(context, chart) {
  const { theme, width } = chart.pen;
  Object.assign(context, { fillStyle: theme.ground });
  context.fillRect(0, 0, width, chart.height + pictureTop);
  Object.assign(context, { fillStyle: theme.text, font: theme.font.replace(/^\d+px/, "bold 13px"), textAlign: "left", textBaseline: "middle" });
  context.fillText(chart.title, 4, 14);
  context.font = theme.font;
  let left = 4;
  for (const mark of chart.marks) {
    if (!mark.name || mark.quiet || mark.hidden) continue;
    left = drawKey(context, mark, left, theme);
  }
  context.save();
  context.translate(0, pictureTop);
  chart.paint({ ...chart.pen, context });
  context.restore();
}

// drawKey draws the key of a mark, and returns where the next one begins.
function drawKey(context, mark, left, theme) {
  const colour = theme.colours[mark.style % seriesCount], name = shorten(mark.name, 40);
  Object.assign(context, { strokeStyle: colour, fillStyle: colour, lineWidth: 2 });
  if (mark.swatch === "line") {
    context.setLineDash(dashOf(mark));
    strokeLine(context, left, 35, left + 22, 35);
    context.setLineDash([]);
  } else if (mark.swatch === "point") drawShape(context, mark.style, left + 11, 35, 4);
  else context.fillRect(left, 30, 22, 10);
  Object.assign(context, { fillStyle: theme.text, textAlign: "left", textBaseline: "middle", font: theme.font });
  context.fillText(name, left + 27, 35);
  return left + 42 + context.measureText(name).width;
}

// pictureButtons copies a chart. Where the clipboard takes no pictures, the PNG becomes a file.
function pictureButtons(chart) {
  const drawn = () => { if (!chart.pen) chart.draw(); return chart.pen.width; };
  return [actionButton("Copy as PNG", async () => {
    const width = drawn(), canvas = element("canvas", { width: 2 * width, height: 2 * (chart.height + pictureTop) }), context = canvas.getContext("2d");
    context.scale(2, 2);
    drawPicture(context, chart);
    return copyImage(canvas, `${chart.title}.png`);
  }), actionButton("Copy as SVG", () => {
    const context = new SvgContext(drawn(), chart.height + pictureTop, chart.pen.theme, chart.title);
    drawPicture(context, chart);
    return copyText(context.text());
  })];
}

async function copyImage(canvas, name) {
  try {
    const blob = await new Promise((done) => canvas.toBlob(done));
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
  } catch {
    element("a", { href: canvas.toDataURL(), download: name }).click();
  }
  return true;
}

// SvgContext has the methods of a canvas that charts use, and writes an SVG.
class SvgContext {
  // name begins the ids of its parts: several in one document must not have the same.
  constructor(width, height, theme, name) {
    Object.assign(this, { width, height, theme, name: name.replace(/\W+/g, "-"), parts: [], states: [], patterns: new Map(), clips: 0, open: [0], path: "", dash: [], globalAlpha: 1, lineWidth: 1, fillStyle: "#000", strokeStyle: "#000" });
    this.measure = element("canvas", {}).getContext("2d");
  }

  text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" height="${this.height}">${[...this.patterns.values()].join("")}${this.parts.join("")}${"</g>".repeat(this.open.reduce((sum, n) => sum + n, 0))}</svg>`;
  }

  add(name, attributes, inside = "") {
    const text = Object.entries(attributes).map(([key, value]) => ` ${key}="${typeof value === "number" ? Math.round(value * 100) / 100 : escapeXML(String(value))}"`).join("");
    this.parts.push(`<${name}${text}>${inside}</${name}>`);
  }

  begin(text) { this.parts.push(text); this.open[this.open.length - 1]++; }
  save() {
    const { globalAlpha, lineWidth, fillStyle, strokeStyle, dash, font, textAlign, textBaseline } = this;
    this.states.push({ globalAlpha, lineWidth, fillStyle, strokeStyle, dash, font, textAlign, textBaseline });
    this.open.push(0);
  }
  restore() {
    Object.assign(this, this.states.pop());
    this.parts.push("</g>".repeat(this.open.pop()));
  }
  translate(x, y) { this.begin(`<g transform="translate(${x} ${y})">`); }
  clip(path) { this.begin(`<clipPath id="${this.name}-c${++this.clips}"><path d="${path ? path.text : this.path}"/></clipPath><g clip-path="url(#${this.name}-c${this.clips})">`); }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${x.toFixed(2)} ${y.toFixed(2)}`; }
  lineTo(x, y) { this.path += `L${x.toFixed(2)} ${y.toFixed(2)}`; }
  rect(x, y, w, h) { this.path += boxPath(x, y, w, h); }
  setLineDash(dash) { this.dash = dash; }
  clearRect() {}

  // paint returns the name of what an area is filled with; of a hatching it is a pattern.
  paint(fill) {
    if (!fill.hatching) return fill;
    const { style, colour } = fill.hatching, id = `${this.name}-h${style}`;
    this.patterns.set(id, `<pattern id="${id}" width="${hatchGap}" height="${hatchGap}" patternUnits="userSpaceOnUse"><rect width="${hatchGap}" height="${hatchGap}" fill="${colour}" fill-opacity="0.75"/><path d="${hatchPath(style, 0, 0, hatchGap, hatchGap)}" stroke="${this.theme.ground}"/></pattern>`);
    return `url(#${id})`;
  }

  stroke(path) { this.add("path", { d: path ? path.text : this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-opacity": this.globalAlpha, ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}) }); }
  fill(path) { this.add("path", { d: path ? path.text : this.path, fill: this.paint(this.fillStyle), "fill-opacity": this.globalAlpha }); }
  fillRect(x, y, width, height) { this.add("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), fill: this.paint(this.fillStyle), "fill-opacity": this.globalAlpha }); }
  strokeRect(x, y, w, h) { const before = this.path; this.path = ""; this.rect(x, y, w, h); this.stroke(); this.path = before; }
  strokeText(text, x, y) { this.write(text, x, y, { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth }); }
  fillText(text, x, y) { this.write(text, x, y, { fill: this.fillStyle }); }
  measureText(text) { this.measure.font = this.font; return this.measure.measureText(text); }
  createPattern() { return { setTransform() {} }; }

  write(text, x, y, paint) {
    const anchor = { right: "end", center: "middle" }[this.textAlign] || "start", base = { middle: "central", top: "hanging" }[this.textBaseline] || "auto";
    this.add("text", { x, y, "text-anchor": anchor, "dominant-baseline": base, style: `font: ${this.font.replaceAll('"', "'")}`, ...paint }, escapeXML(text));
  }

  // drawImage takes a place, or a part of the image and a place.
  drawImage(canvas, ...at) {
    let image = canvas;
    if (at.length === 8) {
      const [x, y, w, h] = at.splice(0, 4);
      image = element("canvas", { width: w, height: h });
      image.getContext("2d").drawImage(canvas, x, y, w, h, 0, 0, w, h);
    }
    const [x, y, width, height] = at;
    this.add("image", { x, y, width, height, preserveAspectRatio: "none", href: image.toDataURL() });
  }
}

function escapeXML(text) { return text.replace(/[<>&"]/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" })[c]); }

// boxPath is a box as the path of an SVG; pathOf makes of such a text a path of a canvas, which remembers it.
function boxPath(x, y, width, height) { return `M${x} ${y}h${width}v${height}h${-width}Z`; }
function pathOf(text) { return Object.assign(new Path2D(text), { text }); }
