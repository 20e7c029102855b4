"use strict";
// The page of a comparison: what keeps the runs from being compared, how their figures differ, and their charts over each other. Every
// run has a colour, a dash and a shape of its own, which the table of runs names.

pages.compare = function (page, root) {
  const runs = page.head.runs.map((run, k) => new ComparedRun(page, run, k));
  const range = new TimeRange(-page.head.before, page.head.span);
  if (page.head.before) range.shades = [{ from: -page.head.before, to: 0, name: "warmup" }];
  root.append(element("h1", {}, page.title));
  compareBanner(page.head, root);
  for (const line of page.head.lead) root.append(element("p", { class: "lead" }, line));
  const verdicts = element("ul", { class: "verdicts" });
  for (const text of page.head.texts) verdicts.append(element("li", {}, text));
  root.append(verdicts);
  runTable(page, runs, root);
  rangeBar(root, range, () => compareSelection(page, runs, range));
  new FigureTable(page, runs, range, root);
  repeatTables(page.head, root);
  compareFrontier(page.head.frontier, runs, root);
  compareDistributions(runs, range, root);
  compareTimes(page, runs, range, root);
  settingTable(page.head.settings, runs, section(root, "Settings that differ", "None of these keeps the runs from being compared."));
  bindFragment(range);
};

const mostShown = 7; // runs whose lines are drawn at first: as many as there are colours

// compareBanner names every setting that must be equal and is not, above everything.
function compareBanner(head, root) {
  if (head.comparable) return;
  const banner = element("div", { class: "banner", role: "alert" }, element("strong", {}, "These runs may not be compared: they differ in what must be equal."));
  root.append(banner);
  settingTable(head.mismatches, head.runs, banner);
}

// settingTable has a row for each value of a setting, with the runs that have it.
function settingTable(settings, runs, parent) {
  if (!settings.length) {
    parent.append(element("p", {}, "No other setting differs."));
    return;
  }
  const rows = settings.flatMap(({ title, values }) => [...new Set(values)].map((value, i) => element("tr", {},
    element("th", { scope: "row" }, i ? "" : title), element("td", { class: "text", title: value }, settingText(value)),
    element("td", { class: "text" }, runs.filter((_, k) => values[k] === value).map((run) => run.name).join(", ")))));
  const head = ["setting", "value", "runs"].map((text) => element("th", { scope: "col", class: "text" }, text));
  parent.append(scrolledTable(head, element("tbody", {}, ...rows)));
}

// settingText writes a value: of a key its beginning.
function settingText(value) {
  if (value === "") return "not known";
  return /^[0-9a-f]{64}$/.test(value) ? value.slice(0, 12) : shorten(value, 200);
}

// runTable says which colour is which run, and what is to be known of each.
function runTable(page, runs, root) {
  const points = page.head.frontier.points;
  const rows = runs.map((run, k) => element("tr", {},
    element("th", { scope: "row" }, swatch({ style: run.style, swatch: "line" }), " ", run.name),
    element("td", {}, points[k].concurrency ? String(points[k].concurrency) : unknown),
    element("td", {}, groupDigits(String(run.sampled.all))), element("td", {}, groupDigits(String(run.trees)))));
  root.append(scrolledTable(["run", "concurrency", "requests", "trees"], element("tbody", {}, ...rows), "runs"));
  const remarks = runs.flatMap((run) => run.remarks().map(({ text, mark }) => element("li", { class: mark ? "mark" : null }, `${run.name}: ${text}`)));
  if (remarks.length) root.append(element("ul", { class: "verdicts" }, ...remarks));
}

// compareSelection says how many requests belong to the range.
function compareSelection(page, runs, range) {
  const thinned = runs.filter((run) => run.sampled.points < run.sampled.all);
  const note = thinned.length ? ` Of runs with many requests the page has an even share, in the order of their starts: ${thinned.map((run) =>
    `${run.name} ${groupDigits(String(run.sampled.points))} of ${groupDigits(String(run.sampled.all))}`).join(", ")}.` : "";
  if (!range.selected) return `All requests. Drag over a chart to select those that start in a range.${note}`;
  return `Requests that started in it: ${runs.map((run) => `${run.name} ${groupDigits(String(run.started(range)))}`).join(", ")}. Intervals are of whole runs alone.${note}`;
}

// compareFrontier draws the frontier of the runs, whose servers have as many GPUs as the reader said.
function compareFrontier(frontier, runs, root) {
  const { points, lines, gpus } = frontier, together = lines.some((line) => line.length === runs.length);
  frontierCharts(frontier, runs, root, {
    about: `Output tokens per second${gpus ? ` and GPU, of ${gpus}` : ""}, of whole runs. A point a run, with its concurrency; lines join runs that differ in concurrency alone. A point is hollow where another run is as good in both and better in one, or where the run has remarks.`,
    name: gpus ? "output tokens/s and GPU" : "output tokens/s",
    labels: runs.map((run, k) => points[k].concurrency ? together ? String(points[k].concurrency) : `${run.name}, ${points[k].concurrency}` : run.name),
  });
}

// repeatTables have a row a figure: its mean over runs that repeat one, with Student's interval.
function repeatTables(head, root) {
  for (const repeat of head.repeats) {
    const parent = section(root, `Repeats: ${repeat.group}`, `Means over ${repeat.runs.length} runs (${repeat.runs.map((k) => head.runs[k].name).join(", ")}), with 95 % intervals by Student's law.`);
    const table = new Table(parent, ["figure", "mean", "±", "± of the mean"], "whole");
    table.show(head.order.filter((figure) => figure.main && repeat.figures[figure.name]).map((figure) => {
      const { mean, interval } = repeat.figures[figure.name], half = (interval.high - interval.low) / 2, unit = unitOf(figure);
      return [figure.name.replace(/_/g, " ").replace(".", " "), { text: formatValue(mean, unit), value: mean }, { text: formatValue(half, unit), value: half },
        { text: mean ? formatValue(half / mean, "%") : unknown, value: half / mean }];
    }));
  }
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
  section(root, "Over time", `Seconds since the first request of profiling of each run, in windows of ${formatDuration(window)}. A request counts where it started; tokens flow evenly while they come.${page.head.before ? " What is before 0 is the warmup of the runs that have one; its requests are in no other figure." : ""}`).append(charts);
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
