"use strict";
// Cursor: what moves with the pointer: a line through all charts over time, and the range that is being dragged.

function drawPointer(chart, context, at) {
  const { pen } = chart, { area, theme } = pen;
  context.clearRect(0, 0, pen.width, pen.height);
  if (chart.dragged) {
    const [left, right] = chart.dragged.map((time) => Math.min(area.right, Math.max(area.left, pen.x.pixel(time)))).sort((a, b) => a - b);
    context.globalAlpha = 0.18;
    context.fillStyle = theme.text;
    context.fillRect(left, area.top, right - left, area.bottom - area.top);
    context.globalAlpha = 1;
  }
  if (at === null || at < pen.from || at > pen.to) return;
  const left = Math.round(pen.x.pixel(at)) + 0.5;
  context.strokeStyle = theme.muted;
  context.lineWidth = 1;
  strokeLine(context, left, area.top, left, area.bottom);
  if (chart.hovered) drawPlace(context, pen, left, chart.labels.x(at));
}

// drawPlace writes where the cursor is, over the axis.
function drawPlace(context, pen, left, text) {
  const { theme, area } = pen;
  context.font = theme.font;
  const half = context.measureText(text).width / 2 + 5;
  const middle = Math.min(Math.max(left, half), pen.width - half);
  context.fillStyle = theme.text;
  context.fillRect(middle - half, area.bottom + 3, 2 * half, 18);
  Object.assign(context, { fillStyle: theme.ground, textAlign: "center", textBaseline: "top" });
  context.fillText(text, middle, area.bottom + 7);
}
