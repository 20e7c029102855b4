"use strict";
// Legends: a button a series, which hides and shows it, and its value at the cursor.

class Legend {
  constructor(marks, changed) {
    const buttons = [];
    this.items = marks.filter((mark) => mark.name && !mark.quiet).map((mark) => {
      const value = mark.read ? element("output", {}) : null, note = element("span", { class: "about" });
      const button = element("button", { type: "button", "aria-pressed": String(!mark.hidden), title: "Hide or show", onclick: () => {
        mark.hidden = !mark.hidden;
        button.setAttribute("aria-pressed", String(!mark.hidden));
        changed();
      } }, swatch(mark), element("span", { class: "name" }, shorten(mark.name, 40)), note, value);
      buttons.push(button);
      return { mark, value, note };
    });
    this.element = element("div", { class: "legend" }, ...buttons);
  }

  // note writes what marks say of how they are drawn.
  note() { for (const { mark, note } of this.items) if (mark.note) note.textContent = mark.note(); }

  // show writes the values at a place; null: nothing.
  show(at, y, format) {
    for (const { mark, value } of this.items) {
      if (!value) continue;
      const text = at === null || mark.hidden ? "" : format(mark.read(at, y), mark);
      if (value.textContent !== text) value.textContent = text;
    }
  }
}

// swatch draws a short piece of a series as it looks in the chart.
function swatch(mark) {
  const svg = element("svg", { viewBox: "0 0 24 10", width: 24, height: 10, "aria-hidden": "true" });
  const colour = `var(--series-${mark.style % seriesCount + 1})`;
  const path = element("path", {});
  if (mark.swatch === "line") {
    path.setAttribute("d", "M0 5H24");
    Object.assign(path.style, { stroke: colour, strokeWidth: "2", strokeDasharray: dashOf(mark).join(" "), fill: "none" });
  } else if (mark.swatch === "hatch") {
    path.setAttribute("d", hatchPath(1, 0, 0, 24, 10));
    Object.assign(path.style, { stroke: colour, strokeWidth: "1.5", fill: "none" });
  } else {
    const shape = mark.shape ?? shapes[mark.style % shapes.length];
    path.setAttribute("d", mark.swatch === "area" ? "M0 0H24V10H0Z" : shapePath(shape, 12, 5, 4));
    const hollow = mark.swatch !== "area" && (mark.outline || isHollow(shape));
    Object.assign(path.style, hollow ? { stroke: colour, strokeWidth: "2", fill: "none" } : { fill: colour });
  }
  svg.append(path);
  if (mark.swatch === "area") svg.append(element("path", { d: hatchPath(mark.style, 0, 0, 24, 10), style: { stroke: "var(--ground)" } }));
  return svg;
}

// shapePath is a shape of a point as the path of an SVG, which a canvas draws too.
function shapePath(shape, x, y, r) {
  switch (shape) {
    case "triangle": return `M${x} ${y - r}L${x + r} ${y + r * 0.8}H${x - r}Z`;
    case "square": return `M${x - r * 0.85} ${y - r * 0.85}h${r * 1.7}v${r * 1.7}h${-r * 1.7}Z`;
    case "diamond": return `M${x} ${y - r * 1.1}L${x + r * 1.1} ${y}L${x} ${y + r * 1.1}L${x - r * 1.1} ${y}Z`;
    case "cross": return `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`;
    case "bar": return `M${x} ${y - r}V${y + r}`;
    default: return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  }
}

function isHollow(shape) { return shape === "cross" || shape === "ring" || shape === "bar"; }
