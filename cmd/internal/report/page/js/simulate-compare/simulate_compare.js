"use strict";
// The page of several simulated runs: what they answer, their figures, how these change with what the runs differ in, and their
// distributions over each other.

pages["simulate-compare"] = function (page, root) {
  const { head } = page, runs = head.runs.map((run, k) => ({ ...run, style: k }));
  root.append(element("h1", {}, page.title));
  for (const line of head.lead) root.append(element("p", { class: "lead" }, line));
  root.append(element("p", { class: "note" }, `Simulated: ${head.caveat}.`));
  simulatedTable(page, runs, root);
  simulatedRemarks(runs, root);
  sweepCharts(page, root, "fails a gate", "gates");
  simulatedFrontier(head, runs, root);
  simulatedDistributions(page, runs, root);
  settingTable(head.differ, runs, section(root, "Settings that differ"));
  sameSettings(head.same, root);
  drawOrigin(root, head.origin);
};

// simulatedColumns are the figures of the table, with what stands over them.
const simulatedColumns = [
  ["request_rate", "requests"], ["output_token_rate", "output tokens"], ["output_token_rate_per_gpu", "output tokens, per GPU"], ["ttft.p50", "ttft p50"], ["ttft.p95", "ttft p95"], ["ttft.p99", "ttft p99"],
  ["itl.p50", "itl p50"], ["token_gap.p99", "token gap p99"], ["latency.p50", "latency p50"], ["latency.p95", "latency p95"], ["good", "good"], ["goodput", "goodput"], ["completed", "completed"],
  ["reuse", "reuse"], ["preemptions", "preemptions"], ["gpu_hours", "GPU-hours"], ["duration", "duration"],
];

// simulatedRows returns {head, rows} of the table: figures that no run has are left out.
function simulatedRows(page, runs) {
  const { head, tables } = page, values = tables.figures.columns, units = tables.figures.units;
  const shown = simulatedColumns.filter(([name]) => values[name].some(Number.isFinite));
  const rows = runs.map((run, k) => [
    { text: run.name, class: run.exit ? "mark" : null }, ...head.axes.map(({ values }) => ({ text: String(values[k]), value: values[k] })),
    ...(head.gates.length ? [{ text: run.exit ? "no" : "yes", class: run.exit ? "mark" : null, title: run.reasons.join("; ") || null }] : []),
    ...shown.map(([name]) => ({ text: formatValue(values[name][k], sweepUnit(units[name])), value: values[name][k] })),
  ]);
  return { head: ["run", ...head.axes.map(({ title }) => title), ...(head.gates.length ? ["keeps its gates"] : []), ...shown.map(([, title]) => title)], rows };
}

function simulatedTable(page, runs, root) {
  const parent = section(root, "Runs", page.head.gates.length ? `Gates: ${page.head.gates.map(({ text }) => text).join(", ")}.` : "");
  const { head, rows } = simulatedRows(page, runs);
  new Table(parent, head, "many").show(rows);
}

// simulatedRemarks says of each run that failed why.
function simulatedRemarks(runs, root) {
  const remarks = runs.filter((run) => run.reasons.length).map((run) => element("li", { class: "mark" }, `${run.name}: ${run.reasons.join("; ")}`));
  if (remarks.length) root.append(element("ul", { class: "verdicts" }, ...remarks));
}

function simulatedFrontier(head, runs, root) {
  frontierCharts(head.frontier, runs, root, {
    about: `Output tokens per second and GPU, of whole runs. A point a run${head.frontier.lines.length ? `; lines join runs that differ in ${head.along} alone` : ""}. A point is hollow where another run is as good in both and better in one, or where the run fails a gate.`,
    name: "output tokens/s and GPU", labels: runs.map((run) => run.name),
  });
}

// simulatedDistributions draw the distributions of the runs over each other.
function simulatedDistributions(page, runs, root) {
  const charts = element("div", { class: "charts" });
  section(root, "Distributions", "Cumulative, of all requests that emitted tokens; of token gaps, every gap of every request.").append(charts);
  for (const [metric, title] of [["ttft", "Time to first token"], ["itl", "Inter-token latency"], ["token_gap", "Gaps between tokens"], ["latency", "Request latency"]]) {
    const marks = runs.map((run, k) => new Cumulative({ name: run.name, style: run.style, hidden: k >= mostShown, sorted: page.tables[`samples.${k}`].columns[metric].filter(Number.isFinite) }));
    new Chart(charts, { title, x: { unit: "s", log: true, name: title }, y: { unit: "%", zero: true, from: 0, to: 1 }, marks, height: 240, empty: "no request has it" });
  }
}

// sameSettings lists what all runs have and is not the default.
function sameSettings(settings, root) {
  const parent = section(root, "Settings of all runs", "Those that are not the default.");
  if (!settings.length) parent.append(element("p", {}, "All are the default."));
  else new Table(parent, ["setting", "value"]).show(settings.map(({ title, values }) => [title, { text: settingText(values[0]), class: "text" }]));
}
