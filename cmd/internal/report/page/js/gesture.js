"use strict";
// Gestures on a chart over time: a drag selects, shift and drag pans, the wheel zooms at the cursor, double click and Escape select
// everything. On the keyboard: left and right move the cursor, with shift they pan, + and - zoom.

const leastDrag = 4; // pixels; less is a click

function listenToGestures(chart) {
  const { plot, time } = chart;
  let start = null, moved = 0;
  const place = (event) => {
    const px = event.clientX - plot.getBoundingClientRect().left;
    return { px, at: chart.pen ? chart.pen.x.value(Math.min(chart.pen.area.right, Math.max(chart.pen.area.left, px))) : 0 };
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !chart.pen) return;
    start = { ...place(event), from: time.from, pans: event.shiftKey };
    plot.setPointerCapture(event.pointerId);
  });
  plot.addEventListener("pointermove", (event) => {
    if (!chart.pen) return;
    const now = place(event);
    moved = event.timeStamp;
    chart.hovered = true;
    if (start && start.pans) time.pan(start.from + (start.px - now.px) / chart.pen.x.perUnit - time.from);
    else if (start && Math.abs(now.px - start.px) >= leastDrag) chart.dragged = [start.at, now.at];
    time.point(now.at);
    chart.drawCursor();
  });
  plot.addEventListener("pointerup", (event) => {
    const dragged = chart.dragged, pans = start && start.pans;
    start = chart.dragged = null;
    if (dragged) time.set(Math.min(...dragged), Math.max(...dragged));
    else if (!pans) reportClick(chart, event);
    chart.drawCursor();
  });
  plot.addEventListener("pointercancel", () => { start = chart.dragged = null; chart.drawCursor(); });
  plot.addEventListener("pointerleave", () => { chart.hovered = false; time.point(null); chart.drawCursor(); });
  plot.addEventListener("dblclick", () => time.reset());
  plot.addEventListener("wheel", (event) => {
    const factor = Math.exp(Math.sign(event.deltaY) * Math.min(0.4, Math.abs(event.deltaY) / 400));
    // A page that scrolls under a resting pointer goes on scrolling; at the whole, so does one that is zoomed out.
    if (event.ctrlKey || !moved || factor > 1 && !time.selected) return;
    event.preventDefault();
    time.zoom(place(event).at, factor);
  }, { passive: false });
  addEventListener("scroll", () => { moved = 0; }, { passive: true, ...untilReplaced() });
  plot.addEventListener("keydown", (event) => { if (pressKey(chart, event.key, event.shiftKey)) event.preventDefault(); });
}

// pressKey does what a key asks for; false: nothing.
function pressKey(chart, key, shift) {
  const { time } = chart, length = time.to - time.from, at = time.cursor ?? (time.from + time.to) / 2;
  const step = key === "ArrowLeft" ? -1 : 1;
  switch (key) {
    case "ArrowLeft": case "ArrowRight":
      if (shift) time.pan(step * length / 10);
      else time.point(Math.min(time.to, Math.max(time.from, at + step * length / 100)));
      return true;
    case "+": case "=": time.zoom(at, 1 / 2); return true;
    case "-": case "_": time.zoom(at, 2); return true;
    case "Escape": time.reset(); time.point(null); return true;
  }
  return false;
}

// listenToPointer shows the values under the pointer on a chart with an axis of its own.
function listenToPointer(chart) {
  const { plot } = chart;
  const point = (at) => { chart.cursor = at; chart.drawCursor(); };
  plot.addEventListener("pointermove", (event) => {
    if (!chart.pen) return;
    const { area, x, y } = chart.pen, box = plot.getBoundingClientRect(), px = event.clientX - box.left;
    chart.hovered = true;
    chart.cursorY = y.value(event.clientY - box.top);
    point(x.value(Math.min(area.right, Math.max(area.left, px))));
  });
  plot.addEventListener("pointerleave", () => { chart.hovered = false; point(null); });
  plot.addEventListener("pointerup", (event) => reportClick(chart, event));
  plot.addEventListener("keydown", (event) => {
    if (!chart.pen || !["ArrowLeft", "ArrowRight", "Escape"].includes(event.key)) return;
    const { area, x } = chart.pen, step = event.key === "ArrowLeft" ? -8 : 8;
    const px = chart.cursor === null || chart.cursor === undefined ? (area.left + area.right) / 2 : x.pixel(chart.cursor) + step;
    point(event.key === "Escape" ? null : x.value(Math.min(area.right, Math.max(area.left, px))));
    event.preventDefault();
  });
}

function reportClick(chart, event) {
  if (!chart.pointed || !chart.pen) return;
  const box = chart.plot.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  let mark = null, row = -1;
  for (const candidate of chart.marks) {
    if (row < 0 && candidate.nearest && !candidate.hidden && (row = candidate.nearest(chart.pen, px, py)) >= 0) mark = candidate;
  }
  chart.pointed({ px, py, x: chart.pen.x.value(px), y: chart.pen.y.value(py), mark, row });
}
