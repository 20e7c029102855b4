"use strict";
// The page of a comparison: what keeps the runs from being compared, how their figures differ, and their charts over each other. Every
// run has a colour, a dash and a shape of its own, which the table of runs names.

pages.compare = function (page, root) {
  const runs = page.head.runs.map((run, k) => new ComparedRun(page, run, k));
  const range = new TimeRange(0, page.head.span);
  root.append(element("h1", {}, page.title));
  compareBanner(page.head, root);
  for (const line of page.head.lead || []) root.append(element("p", { class: "lead" }, line));
  const verdicts = element("ul", { class: "verdicts" });
  for (const text of page.head.texts || []) verdicts.append(element("li", {}, text));
  root.append(verdicts);
  runTable(page, runs, root);
  rangeBar(root, range, () => compareSelection(page, runs, range));
  new FigureTable(page, runs, range, root);
  repeatTables(page.head, root);
  frontierCharts(page, runs, root);
  compareDistributions(runs, range, root);
  compareTimes(page, runs, range, root);
  settingTable(page.head, page.head.settings, runs, section(root, "Settings that differ", "None of these keeps the runs from being compared."));
  bindFragment(range);
};

const mostShown = 7; // runs whose lines are drawn at first: as many as there are colours

// A ComparedRun is one run: its requests, and what of them belongs to a range.
class ComparedRun {
  constructor(page, run, style) {
    Object.assign(this, run, { style, sampled: page.head.sampled[style] });
    const table = page.tables[`requests.${style}`];
    this.columns = table.columns;
    this.rows = table.rows;
    this.headline = Uint8Array.from(this.columns.state, (state) => state === 0 ? 1 : 0);
    this.samples = {};
  }

  // sorted returns the values of a metric over the requests of the headline that started in a range, sorted.
  sorted(metric, range) {
    if (!this.columns[metric]) return new Float64Array(0);
    this.samples[metric] = this.samples[metric] || new Samples(this.columns[metric]);
    const [first, last] = rowsWithin(range, this.columns.start);
    return this.samples[metric].within(first, last, this.headline);
  }

  // counts returns how many requests started in a range, how many of them belong to the headline, and how many failed.
  counts(range) {
    const [first, last] = rowsWithin(range, this.columns.start), counts = { started: last - first, headline: 0, failed: 0 };
    for (let row = first; row < last; row++) {
      counts.headline += this.headline[row];
      counts.failed += this.columns.state[row] === 2 ? 1 : 0;
    }
    return counts;
  }

  // marked says in one word that the figures of the run are not what they seem.
  get marked() { return this.marks && this.marks.length ? "marked" : ""; }
}

// compareBanner names every setting that must be equal and is not, above everything.
function compareBanner(head, root) {
  if (head.comparable) return;
  const banner = element("div", { class: "failure", role: "alert" }, element("strong", {}, "These runs may not be compared: they differ in what must be equal."));
  root.append(banner);
  settingTable(head, head.mismatches, head.runs, banner);
}

// settingTable has a row a setting and a column a run.
function settingTable(head, settings, runs, parent) {
  if (!settings || !settings.length) {
    parent.append(element("p", {}, "No other setting differs."));
    return;
  }
  const rows = settings.map((setting) => element("tr", {}, element("th", { scope: "row" }, setting.title),
    ...setting.values.map((value) => element("td", { class: "text", title: value }, value === "" ? "not known" : shorten(value, 60)))));
  const names = runs.map((run) => element("th", { scope: "col" }, run.name));
  parent.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "setting"), ...names)), element("tbody", {}, ...rows))));
}

// runTable says which colour is which run, and what is to be known of each.
function runTable(page, runs, root) {
  const points = page.head.frontier.points;
  const rows = runs.map((run, k) => element("tr", {},
    element("th", { scope: "row" }, swatch({ style: run.style, swatch: "line" }), " ", run.name),
    element("td", {}, run.label || ""), element("td", {}, points[k].concurrency ? String(points[k].concurrency) : unknown),
    element("td", {}, groupDigits(String(run.sampled.all))), element("td", {}, groupDigits(String(run.trees))),
    element("td", { class: "text" }, ...[run.note, ...(run.marks || []), run.no_intervals && `no intervals: ${run.no_intervals}`, ...(run.lacks || [])].filter(Boolean)
      .map((text, i) => element("div", { class: (run.marks || []).includes(text) ? "mark" : null }, text)))));
  const head = ["run", "label", "concurrency", "requests", "trees", "remarks"].map((text) => element("th", { scope: "col" }, text));
  root.append(element("div", { class: "scroll runs" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))));
}

// compareSelection says how many requests belong to the range.
function compareSelection(page, runs, range) {
  const thinned = runs.filter((run) => run.sampled.points < run.sampled.all);
  const note = thinned.length ? ` Of runs with many requests the page has an even share, in the order of their starts: ${thinned.map((run) =>
    `${run.name} ${groupDigits(String(run.sampled.points))} of ${groupDigits(String(run.sampled.all))}`).join(", ")}.` : "";
  if (!range.selected) return `All requests. Drag over a chart to select those that start in a range.${note}`;
  return `Requests that started in it: ${runs.map((run) => `${run.name} ${groupDigits(String(run.counts(range).started))}`).join(", ")}. Intervals are of whole runs alone.${note}`;
}

// A FigureTable has a row a figure and a column a run, with the difference to the first.
class FigureTable {
  constructor(page, runs, range, root) {
    Object.assign(this, { page, runs, range, all: false });
    const parent = section(root, "Figures", "Differences are to the first run. ✱ differs by 1 % or more and beyond its interval, ≈ does not; other figures decide nothing. Below a value: its 95 % interval, or that of the difference.");
    const button = element("button", { type: "button", onclick: () => {
      this.all = !this.all;
      button.textContent = this.all ? "Fewer statistics" : "All statistics";
      this.show();
    } }, "All statistics");
    this.body = element("tbody", {});
    const names = runs.map((run) => element("th", { scope: "col" }, swatch({ style: run.style, swatch: "line" }), element("div", {}, run.name), run.marked ? element("div", { class: "mark" }, "see remarks") : null));
    parent.append(element("div", { class: "scroll figures" }, element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "figure"), ...names)), this.body)),
      button, " ", copyButton(() => toCSV(this.csv())));
    range.watch((what) => { if (what === "range") this.show(); });
    this.show();
  }

  // rows returns {figure, cells} of what is shown: cells as {value, interval, difference} of each run.
  rows() {
    const { head } = this.page, stats = this.runs.map(() => ({}));
    return head.order.filter((figure) => this.all || !["p75", "p90", "max"].includes(figure.statistic)).map((figure) => {
      const cells = this.runs.map((run, k) => this.range.selected ? { value: this.selectedValue(run, figure, stats[k]) } : run.figures[figure.name]);
      if (this.range.selected) {
        for (const cell of cells.slice(1)) cell.difference = { ratio: cell.value === cells[0].value ? 0 : (cell.value - cells[0].value) / cells[0].value, interval: null };
      }
      return { figure, cells };
    }).filter(({ cells }) => cells.some((cell) => isKnown(cell.value)));
  }

  selectedValue(run, figure, stats) {
    if (figure.of_each) {
      stats[figure.metric] = stats[figure.metric] || statOf(run.sorted(figure.metric, this.range));
      return stats[figure.metric][figure.statistic];
    }
    const counts = run.counts(this.range), seconds = this.range.to - this.range.from, share = run.rows ? run.sampled.all / run.rows : 1;
    const sum = (metric) => run.sorted(metric, this.range).reduce((total, value) => total + value, 0);
    switch (figure.name) {
      case "request_rate": return counts.headline * share / seconds;
      case "output_token_rate": return sum("output_tokens") * share / seconds;
      case "prompt_token_rate": return sum("prompt_tokens") * share / seconds;
      case "error-rate": return counts.started ? counts.failed / counts.started : NaN;
    }
    return NaN;
  }

  show() {
    this.body.replaceChildren(...this.rows().map(({ figure, cells }) => element("tr", {}, element("th", { scope: "row" }, figure.name.replace(/_/g, " ").replace(".", " ")),
      ...cells.map((cell, k) => this.cell(figure, cell, this.runs[k])))));
  }

  cell(figure, cell, run) {
    const unit = unitOf(figure), { difference, interval } = cell;
    const below = [];
    if (difference && isKnown(difference.ratio) && isKnown(cell.value)) {
      const sign = difference.judged ? difference.differs ? " ✱" : " ≈" : "";
      below.push(element("div", { class: difference.differs ? "differs" : "below" }, formatChange(difference.ratio) + sign));
      if (difference.interval) below.push(element("div", { class: "below", title: `95 % interval of the difference, ${difference.method}` }, `${formatChange(difference.interval.low)} to ${formatChange(difference.interval.high)}`));
    } else if (interval) {
      below.push(element("div", { class: "below", title: "95 % interval" }, `${formatValue(interval.low, unit)} to ${formatValue(interval.high, unit)}`));
    }
    return element("td", { class: run.marked || null }, formatValue(cell.value, unit), ...below);
  }

  csv() {
    const head = ["figure", "unit"];
    for (const run of this.runs) head.push(run.name, `${run.name}, difference`);
    return [head, ...this.rows().map(({ figure, cells }) => [figure.name, figure.unit, ...cells.flatMap((cell) => [cell.value ?? NaN, cell.difference ? cell.difference.ratio ?? NaN : NaN])])];
  }
}

function isKnown(value) { return value !== null && value !== undefined && Number.isFinite(value); }

// unitOf returns the unit of a figure as formatValue takes it: shares are written in per cent.
function unitOf(figure) {
  if (figure.unit === "" && !figure.of_each) return "%";
  return figure.unit === "1/s" ? "/s" : figure.unit;
}

// formatChange writes a difference as a share, with its sign: +3.2 %.
function formatChange(ratio) {
  const size = Math.abs(ratio) * 100, text = size.toFixed(size < 1 ? 2 : 1);
  return Number(text) === 0 ? "0 %" : `${ratio < 0 ? "−" : "+"}${text} %`;
}

// repeatTables have a row a figure: its mean over runs that repeat one, with Student's interval.
function repeatTables(head, root) {
  for (const repeat of head.repeats || []) {
    const parent = section(root, `Repeats: ${repeat.group}`, `Means over ${repeat.runs.length} runs (${repeat.runs.map((k) => head.runs[k].name).join(", ")}), with 95 % intervals by Student's law.`);
    const table = new Table(parent, { head: ["figure", "mean", "±", "± of the mean"] });
    table.show(head.order.filter((figure) => repeat.figures[figure.name]).map((figure) => {
      const { mean, interval } = repeat.figures[figure.name], half = (interval.high - interval.low) / 2, unit = unitOf(figure);
      return [figure.name.replace(/_/g, " ").replace(".", " "), { text: formatValue(mean, unit), value: mean }, { text: formatValue(half, unit), value: half },
        { text: mean ? formatValue(half / mean, "%") : unknown, value: half / mean }];
    }));
  }
}

// A FrontierMark has a point a run, each in the colour and the shape of its run, and lines between those that differ in concurrency
// alone. A point is hollow that is dominated, or whose run is marked.
class FrontierMark {
  constructor(runs, lines, title) { Object.assign(this, { runs, lines, title, size: 5, x: [], y: [], hollow: [], labels: [] }); }

  shown(k) { return isKnown(this.x[k]) && isKnown(this.y[k]); }
  spanX() { return spanOfKnown(this.x.filter((_, k) => this.shown(k))); }
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
      drawShape(context, this.runs[k].style, x.pixel(this.x[k]), y.pixel(this.y[k]), this.size, this.hollow[k]);
    }
    drawLabels(pen, this, 0, this.runs.length);
  }

  columns(x, unit) {
    return [{ name: "run", unit: "", values: this.runs.map((run) => run.name) }, { ...x, values: this.x }, { name: this.title, unit, values: this.y }];
  }
}

function spanOfKnown(values) { return values.length ? [Math.min(...values), Math.max(...values)] : null; }

// frontierCharts draw what a server gives to all against what it gives to each.
function frontierCharts(page, runs, root) {
  const { points, lines, gpus } = page.head.frontier;
  const parent = section(root, "Frontier", `Output tokens per second${gpus ? ` and GPU, of ${gpus}` : ""}, of whole runs. A point a run, with its concurrency; lines join runs that differ in concurrency alone. A point is hollow where another run is as good in both and better in one, or where the run has remarks.`);
  const buttons = element("p", {}, "Statistic: "), charts = element("div", { class: "charts" });
  parent.append(buttons, charts);
  const together = lines.some((line) => line.length === runs.length);
  const labels = runs.map((run, k) => points[k].concurrency ? together ? String(points[k].concurrency) : `${run.name}, ${points[k].concurrency}` : run.name);
  const name = gpus ? "output tokens/s per GPU" : "output tokens/s";
  const kinds = [
    { title: "Throughput against interactivity", about: "Interactivity is the reciprocal of the inter-token latency.", of: (at) => at.interactivity, dominated: (at) => at.dominated, x: { name: "interactivity", unit: "tokens/s", label: null } },
    { title: "Throughput against time to first token", about: "Left and up is better.", of: (at) => at.ttft, dominated: (at) => at.dominated_by_ttft, x: { name: "time to first token", unit: "s" } },
  ].map((kind) => {
    const mark = new FrontierMark(runs, lines, name);
    const chart = new Chart(charts, { title: kind.title, about: kind.about, x: kind.x, y: { unit: "tokens/s", zero: true }, marks: [mark], height: 300, empty: "no run has both figures" });
    return { ...kind, mark, chart };
  });
  const choose = (statistic) => {
    for (const button of buttons.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.textContent === statistic));
    for (const { mark, chart, of, dominated, title } of kinds) {
      mark.x = points.map((point) => of(point.at[statistic]));
      mark.y = points.map((point) => point.throughput);
      mark.hollow = points.map((point) => point.hollow || dominated(point.at[statistic]));
      mark.labels = labels;
      chart.figure.querySelector("h3").textContent = `${title}, ${statistic}`;
      chart.invalidate();
    }
  };
  for (const statistic of ["p50", "p90", "p95"]) buttons.append(element("button", { type: "button", onclick: () => choose(statistic) }, statistic), " ");
  choose("p50");
}

// compareDistributions draw the distributions of the range over each other.
function compareDistributions(runs, range, root) {
  const charts = element("div", { class: "charts" });
  section(root, "Distributions", "Cumulative, of the requests that started in the range and ended well.").append(charts);
  for (const [metric, title] of [["ttft", "Time to first token"], ["itl", "Inter-token latency"], ["latency", "Request latency"]]) {
    const marks = runs.map((run, k) => new Cumulative({ name: run.name, style: run.style, hidden: k >= mostShown }));
    const set = () => marks.forEach((mark, k) => mark.set(runs[k].sorted(metric, range)));
    set();
    const chart = new Chart(charts, { title, x: { unit: "s", log: true, name: title }, y: { unit: "%", zero: true, from: 0, to: 1 }, marks, height: 240, empty: "no request in this range" });
    range.watch((what) => { if (what === "range") { set(); chart.invalidate(); } });
  }
}

// compareTimes draw the runs over time, a chart a figure, on one axis.
function compareTimes(page, runs, range, root) {
  const time = page.tables.time.columns, { window } = page.head;
  const charts = element("div", { class: "stacked" });
  section(root, "Over time", `Seconds since the first request of each run, in windows of ${formatDuration(window)}. A request counts where it started; tokens flow evenly while they come.`).append(charts);
  const middle = Float64Array.from(time.start, (start) => start + window / 2);
  for (const [column, title, unit, step] of [
    ["in_flight", "Requests in flight", "", true], ["output", "Output tokens per second", "tokens/s", true], ["prompt", "Prompt tokens per second", "tokens/s", true],
    ["ttft.p50", "Time to first token, p50", "s"], ["ttft.p95", "Time to first token, p95", "s"], ["itl.p50", "Inter-token latency, p50", "s"],
    ["itl.p95", "Inter-token latency, p95", "s"], ["latency.p95", "Request latency, p95", "s"], ["failed", "Failed requests", "", true],
  ]) {
    const values = runs.map((_, k) => time[`${column}.${k}`]);
    if (column === "failed" && !values.some((list) => list.some((n) => n > 0))) continue;
    const marks = runs.map((run, k) => new Line({ name: run.name, style: run.style, step, x: step ? time.start : middle, y: values[k], hidden: k >= mostShown }));
    new Chart(charts, { title, x: range, y: { unit, zero: true }, marks, height: 150, empty: "no request in this range" });
  }
}
