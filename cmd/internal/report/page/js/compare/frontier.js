"use strict";
// The frontier: what servers give to all against what they give to each.

// A FrontierMark has a point a run, each in the colour and the shape of its run, and lines between those that differ in concurrency
// alone. A point is hollow that is dominated, or whose run is marked.
class FrontierMark {
  constructor(runs, lines, title) { Object.assign(this, { runs, lines, title, size: 5, over: 7, x: [], y: [], hollow: [], labels: [] }); }

  shown(k) { return isKnown(this.x[k]) && isKnown(this.y[k]); }
  spanX() { return atLeastWide(spanOfKnown(this.x.filter((_, k) => this.shown(k)))); }
  spanY() { return spanOfKnown(this.y.filter((_, k) => this.shown(k))); }

  draw(pen) {
    const { context, x, y, theme } = pen;
    context.strokeStyle = theme.muted;
    context.lineWidth = 1;
    for (const line of this.lines) {
      context.beginPath();
      line.filter((k) => this.shown(k)).forEach((k, i) => { context[i ? "lineTo" : "moveTo"](x.pixel(this.x[k]), y.pixel(this.y[k])); });
      context.stroke();
    }
    context.lineWidth = 2;
    for (let k = 0; k < this.runs.length; k++) {
      if (!this.shown(k)) continue;
      context.strokeStyle = context.fillStyle = pen.colour(this.runs[k].style);
      drawShape(context, this.runs[k].style % filledShapes, x.pixel(this.x[k]), y.pixel(this.y[k]), this.size, this.hollow[k]);
    }
    drawLabels(pen, this, 0, this.runs.length);
  }

  columns(x, unit) {
    return [{ name: "run", unit: "", values: this.runs.map((run) => run.name) }, { ...x, values: this.x }, { name: this.title, unit, values: this.y }];
  }
}

const filledShapes = 4; // of the shapes, those that can be hollow

function capital(text) { return text[0].toUpperCase() + text.slice(1); }

// atLeastWide widens a span to a twentieth of its values, so that noise does not look like a trend.
function atLeastWide(span) {
  if (!span) return span;
  const [low, high] = span, missing = Math.max(0, Math.abs(high) / 20 - (high - low)) / 2;
  return [low - missing, high + missing];
}

function spanOfKnown(values) { return values.length ? [Math.min(...values), Math.max(...values)] : null; }

// frontierCharts draw what a server gives to all against what it gives to each: head.frontier of compared runs. options: about, a
// sentence; name of the throughput; labels of the runs; keys, names of the styles.
function frontierCharts({ points, lines }, runs, root, { about, name, labels, keys = [] }) {
  const parent = section(root, "Frontier", about);
  const choices = element("p", {}), charts = element("div", { class: "charts frontier" });
  const named = keys.map((key, style) => element("span", { class: "key" }, swatch({ style, shape: shapes[style % filledShapes], swatch: "point" }), key));
  parent.append(choices, element("p", { class: "keys" }, ...named), charts);
  const kinds = [
    { title: `${capital(name)} against interactivity (tokens/s)`, about: "Interactivity is the reciprocal of the inter-token latency. Right and up is better.", of: (at) => at.interactivity, dominated: (at) => at.dominated, x: { name: "interactivity", unit: "tokens/s" } },
    { title: `${capital(name)} against time to first token`, about: "Left and up is better.", of: (at) => at.ttft, dominated: (at) => at.dominated_by_ttft, x: { name: "time to first token", unit: "s" } },
  ].map((kind) => {
    const mark = new FrontierMark(runs, lines, name);
    const chart = new Chart(charts, { title: kind.title, about: kind.about, x: kind.x, y: { unit: "tokens/s", zero: true }, marks: [mark], height: 300, empty: "no run has both figures" });
    return { ...kind, mark, chart };
  });
  const statistics = ["p50", "p90", "p95"];
  chooseOne(choices, "Statistic:", statistics, 0, (chosen) => {
    for (const { mark, chart, of, dominated, title } of kinds) {
      mark.x = points.map((point) => of(point.at[statistics[chosen]]));
      mark.y = points.map((point) => point.throughput);
      mark.hollow = points.map((point) => point.hollow || dominated(point.at[statistics[chosen]]));
      mark.labels = labels;
      chart.figure.querySelector("h3").textContent = `${title}, ${statistics[chosen]}`;
      chart.invalidate();
    }
  });
}
