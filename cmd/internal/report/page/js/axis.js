"use strict";
// Axes: lines of a grid and labels that never overlap.

// drawAxes draws both axes of a chart. pen is that of the chart; labels holds the functions that write its ticks.
function drawAxes(pen, labels) {
  const { context, theme, area, ticks } = pen;
  context.font = theme.font;
  context.lineWidth = 1;
  context.strokeStyle = theme.grid;
  context.fillStyle = theme.muted;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of ticks.y) {
    const top = Math.round(pen.y.pixel(tick)) + 0.5;
    strokeLine(context, area.left, top, area.right, top);
    context.fillText(labels.y(tick), area.left - 7, top);
  }
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const { tick, text, at } of placeLabels(context, pen, ticks.x, labels.x)) {
    const left = Math.round(pen.x.pixel(tick)) + 0.5;
    strokeLine(context, left, area.top, left, area.bottom + 4);
    if (text) context.fillText(text, at, area.bottom + 7);
  }
}

function strokeLine(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

// placeLabels moves the labels at both ends inside, and leaves those out that would touch the one before.
function placeLabels(context, pen, ticks, label) {
  let taken = -Infinity;
  return ticks.map((tick) => {
    const text = label(tick), half = context.measureText(text).width / 2;
    const at = Math.min(Math.max(pen.x.pixel(tick), half + 2), pen.width - half - 2);
    if (at - half < taken) return { tick, text: "", at };
    taken = at + half + 8;
    return { tick, text, at };
  });
}

// drawNames writes what the axes are, where they have names: below the one, above the other.
function drawNames(pen, chart) {
  const { context, area, theme } = pen, named = ({ name, unit }) => !unit || unit === "s" || unit === "%" || name.includes(unit) ? name : `${name}, ${unit}`;
  Object.assign(context, { font: theme.font, fillStyle: theme.muted, textBaseline: "top" });
  if (chart.x.name) {
    context.textAlign = "right";
    context.fillText(named(chart.x), area.right, area.bottom + 24);
  }
  if (chart.y.name) {
    context.textAlign = "left";
    context.fillText(named(chart.y), 2, 3);
  }
}

// roomFor returns how many ticks a length has room for.
function roomFor(pixels, each) { return Math.max(2, Math.floor(pixels / each)); }
