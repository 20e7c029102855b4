"use strict";
// The page of a comparison: what keeps the runs from being compared, how their figures differ, and their charts over each other. Every
// run has a colour, a dash and a shape of its own, which the table of runs names.

pages.compare = function (page, root) {
  const { head } = page, several = head.series.length > 1;
  const runs = head.runs.map((run, k) => new ComparedRun(page, run, k, several ? head.series.findIndex(({ name }) => name === run.series) : k));
  const range = new TimeRange(-head.before, head.span), shown = new Shown(head.series, runs);
  if (head.before) range.shades = [{ from: -head.before, to: 0, name: "warmup" }];
  root.append(element("h1", {}, page.title));
  compareBanner(head, root);
  if (head.shared) root.append(element("p", { class: "about" }, head.shared));
  for (const line of head.lead) root.append(element("p", { class: "lead" }, line));
  drawProbes(head.search, root);
  verdictList(head, root);
  runTable(page, runs, root);
  sweepCharts(page, root, head.gates.length ? "misses a level" : "has remarks", "service levels");
  compareFrontier(head, runs, root);
  rangeBar(root, range, () => compareSelection(shown, range));
  shown.chooser(root);
  new FigureTable(page, shown, range, root);
  repeatTables(head, root);
  compareDistributions(shown, range, root);
  compareTimes(page, shown, range, root);
  const settings = head.settings.filter(({ name }) => !head.series.length || name !== "concurrency");
  settingTable(settings, runs, section(root, "Settings that differ", settings.length ? "None of these keeps the runs from being compared." : ""));
  drawGlossary(root, ["lane", "tree", "TTFT", "ITL", "interactivity", "latency", "cached", "goodput", "p50, p95", "interval"]);
  bindFragment(range);
};

const mostShown = 10; // runs whose lines are drawn at first

// mostNote says that not all lines are drawn, where these are too many.
function mostNote(n) { return n > mostShown ? ` The lines of the first ${mostShown} of ${n} runs are drawn: press a name to draw another.` : ""; }

// verdictList says in sentences how runs differ from those that they are compared with. Of series those without intervals are left out.
function verdictList({ verdicts, series }, root) {
  const texts = verdicts.filter(({ method }) => method !== "none" || !series.length).map(({ text }) => element("li", {}, text));
  folded(`How runs differ from those that they are compared with (${texts.length})`, texts, root);
}

// folded is a list under a title, closed where it is long.
function folded(title, items, root) {
  if (items.length) root.append(element("details", { open: items.length <= 6 }, element("summary", {}, title), element("ul", { class: "verdicts" }, ...items)));
}

// Shown are the runs of figures, distributions and charts over time, as slots {name, style, run}: all, or of several series those with the
// concurrency that the reader chooses, run being null where a series has none.
class Shown {
  constructor(series, runs) {
    Object.assign(this, { watchers: [], several: series.length > 1, sweep: series.length === 1, choices: [] });
    this.slots = runs.map((run) => ({ name: run.title, style: run.style, run }));
    if (!this.several) return;
    this.slots = series.map(({ name, runs: places }, style) => ({ name, style, run: null, runs: places.map((k) => runs[k]) }));
    this.choices = [...new Set(runs.map(({ lanes }) => lanes))];
    this.choose(this.first());
  }

  // first is the highest concurrency of all that the most series have.
  first() {
    const having = this.choices.map((lanes) => this.slots.filter((slot) => slot.runs.some((run) => run.lanes === lanes)).length);
    return having.lastIndexOf(Math.max(...having));
  }

  choose(k) {
    for (const slot of this.slots) slot.run = slot.runs.find(({ lanes }) => lanes === this.choices[k]) ?? null;
    for (const watcher of this.watchers) watcher();
  }

  watch(watcher) { this.watchers.push(watcher); }

  get runs() { return this.slots.map(({ run }) => run).filter(Boolean); }

  // chooser has a button for each concurrency.
  chooser(root) {
    if (!this.several) return;
    const parent = element("p", {});
    section(root, "At one concurrency", "The figures, the distributions and the charts over time are of the runs with this concurrency. Differences are to the first series.").append(parent);
    chooseOne(parent, "Lanes:", this.choices.map(String), this.first(), (k) => this.choose(k));
  }
}

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
    parent.append(element("p", {}, "No setting differs but those that are named above."));
    return;
  }
  const rows = settings.flatMap(({ title, values }) => [...new Set(values)].map((value, i, all) => element("tr", {},
    i ? null : element("th", { scope: "row", rowspan: all.length }, title), element("td", { class: "text", title: value }, settingText(value)),
    element("td", { class: "text" }, [...new Set(runs.filter((_, k) => values[k] === value).map((run) => run.series || run.name))].join(", ")))));
  const head = ["setting", "value", "runs"].map((text) => element("th", { scope: "col", class: "text" }, text));
  parent.append(scrolledTable(head, element("tbody", {}, ...rows)));
}

// settingText writes a value: of a key its beginning.
function settingText(value) {
  if (value === "") return "not known";
  return /^[0-9a-f]{64}$/.test(value) ? value.slice(0, 12) : shorten(value, 200);
}

// runFigures are the figures that the table of runs has of series.
const runFigures = ["output_token_rate", "ttft.p50", "ttft.p95", "itl.p50", "itl.p95", "token_hit_rate", "error-rate"];

// runTable has a row a run: which colour is which, a column for each service level, of series its figures, what these are over, and a link to
// its page.
function runTable(page, runs, root) {
  const { head } = page, linked = runs.some((run) => run.page), series = head.series.length;
  const figures = series ? runFigures.map((name) => head.order.find((figure) => figure.name === name)).filter(({ name }) => runs.some((run) => isKnown(run.figures[name].value))) : [];
  const rows = runs.map((run) => element("tr", {},
    element("th", { scope: "row" }, swatch({ style: run.style, swatch: "line" }), " ", series > 1 ? `${run.series}, ${run.title}` : run.title),
    series ? null : element("td", {}, run.lanes ? String(run.lanes) : unknown),
    ...head.gates.map((gate) => levelCell(run, gate)), ...figures.map((figure) => figureCell(head, figure, run.figures[figure.name])),
    element("td", {}, groupDigits(String(run.measured)), element("div", { class: "below" }, `of ${groupDigits(String(run.sent))}`)),
    element("td", { title: run.no_intervals || null }, groupDigits(String(run.trees)), run.no_intervals ? element("div", { class: "below" }, "no intervals") : null),
    linked ? element("td", {}, run.page ? element("a", { href: run.page }, "page") : unknown) : null));
  root.append(scrolledTable(["run", ...(series ? [] : ["lanes"]), ...head.gates.map(({ text }) => text), ...figures.map(figureTitle), "requests measured", "trees", ...(linked ? ["page"] : [])], element("tbody", {}, ...rows), "runs"));
  runRemarks(runs, root);
}

// levelCell says whether a run meets a service level, and with which value.
function levelCell(run, { text, unit }) {
  const level = run.levels.find((one) => one.level === text);
  if (!level) return element("td", {}, unknown);
  return element("td", { class: level.met ? "met" : "missed" }, level.met ? "✓ met" : "✗ missed", element("div", { class: "below" }, formatValue(level.value, sweepUnit(unit)) + (level.few ? "?" : "")));
}

// runRemarks lists what is to be known of the runs.
function runRemarks(runs, root) {
  const remarks = runs.flatMap((run) => run.remarks().map(({ text, mark }) => element("li", { class: mark ? "mark" : null }, `${run.name}: ${text}`)));
  folded(`Remarks on the runs (${remarks.length})`, remarks, root);
}

// compareSelection says how many requests belong to the range.
function compareSelection(shown, range) {
  const { runs } = shown, thinned = runs.filter((run) => run.sampled.points < run.sampled.all);
  const note = thinned.length ? ` Of runs with many requests the page has an even share, in the order of their starts: ${thinned.map((run) =>
    `${run.name} ${groupDigits(String(run.sampled.points))} of ${groupDigits(String(run.sampled.all))}`).join(", ")}.` : "";
  if (!range.selected) return `All requests. Drag over a chart to select those that start in a range.${note}`;
  return `Requests that started in it: ${runs.map((run) => `${run.name} ${groupDigits(String(run.started(range)))}`).join(", ")}. Intervals are of whole runs alone.${note}`;
}

// compareFrontier draws the frontier of the runs, whose servers have as many GPUs as the reader said. A series has one colour and shape.
function compareFrontier({ frontier, series }, runs, root) {
  const { points, lines, gpus, per_gpu: each } = frontier, together = lines.some((line) => line.length === runs.length);
  const numbered = series.length || together;
  frontierCharts(frontier, runs.map((run) => ({ ...run, style: series.length === 1 ? 0 : run.style })), root, {
    about: `Output tokens per second${each ? ` and GPU${gpus ? `, of ${gpus}` : ""}` : ""}, of whole runs. A point a run, with its concurrency; lines join runs that differ in concurrency alone. A point is hollow where another run is as good in both and better in one, or where the run has remarks.`,
    name: each ? "output tokens/s and GPU" : "output tokens/s",
    labels: runs.map((run, k) => points[k].concurrency ? numbered ? String(points[k].concurrency) : `${run.name}, ${points[k].concurrency}` : run.name),
    keys: series.length > 1 ? series.map(({ name }) => name) : [],
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
function compareDistributions(shown, range, root) {
  const charts = element("div", { class: "charts" });
  section(root, "Distributions", `Cumulative, of the requests that started in the range and ended well.${mostNote(shown.slots.length)}`).append(charts);
  for (const [metric, title] of [["ttft", "Time to first token"], ["itl", "Inter-token latency"], ["latency", "Request latency"]]) {
    const marks = shown.slots.map(({ name, style }, k) => new Cumulative({ name, style, hidden: k >= mostShown }));
    const set = () => marks.forEach((mark, k) => mark.set(shown.slots[k].run ? shown.slots[k].run.sorted(metric, range) : new Float64Array(0)));
    set();
    const chart = new Chart(charts, { title, x: { unit: "s", log: true, name: title }, y: { unit: "%", zero: true, from: 0, to: 1 }, marks, height: 240, empty: "no request in this range" });
    const change = () => { set(); chart.invalidate(); };
    range.watch((what) => { if (what === "range") change(); });
    shown.watch(change);
  }
}

// compareTimes draw the runs over time, a chart a figure, on one axis.
function compareTimes(page, shown, range, root) {
  const time = page.tables.time.columns, { window } = page.head;
  const charts = element("div", { class: "stacked" });
  section(root, "Over time", `Seconds since the first request of profiling of each run, in windows of ${formatDuration(window)}. A request counts where it started; tokens flow evenly while they come.${page.head.before ? " What is before 0 is the warmup of the runs that have one; its requests are in no other figure." : ""}${mostNote(shown.slots.length)}`).append(charts);
  const middle = Float64Array.from(time.start, (start) => start + window / 2), nothing = Float64Array.from(time.start, () => NaN);
  for (const [column, title, unit, step] of [
    ["in_flight", "Requests in flight", "", true], ["output", "Output tokens per second", "tokens/s", true], ["prompt", "Prompt tokens per second", "tokens/s", true],
    ["ttft.p50", "Time to first token, p50", "s"], ["ttft.p95", "Time to first token, p95", "s"], ["itl.p50", "Inter-token latency, p50", "s"],
    ["itl.p95", "Inter-token latency, p95", "s"], ["latency.p95", "Request latency, p95", "s"], ["failed", "Failed requests", "", true],
  ]) {
    const values = ({ run }) => run ? time[`${column}.${run.place}`] : nothing;
    if (column === "failed" && !page.head.runs.some((_, k) => time[`failed.${k}`].some((n) => n > 0))) continue;
    const marks = shown.slots.map((slot, k) => new Line({ name: slot.name, style: slot.style, step, x: step ? time.start : middle, y: values(slot), hidden: k >= mostShown }));
    const chart = new Chart(charts, { title, x: range, y: { unit, zero: true }, marks, height: 150, empty: "no request in this range" });
    shown.watch(() => { marks.forEach((mark, k) => { mark.y = values(shown.slots[k]); }); chart.invalidate(); });
  }
}
