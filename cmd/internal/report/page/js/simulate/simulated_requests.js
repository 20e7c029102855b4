"use strict";
// Simulated requests: those on the page, the numbers over the ones of them that arrived in a range, their chart, and one of them.

class SimulatedRequests {
  constructor(page) {
    const { columns, rows } = page.tables.requests;
    Object.assign(this, columns, { page, length: rows });
    this.time = columns.arrival.map((ns) => ns / 1e9);
    this.seconds = columns.ttft.map((ns) => ns / 1e9);
    this.even = columns.extra.map((extra) => 1 - extra); // the sample, without the extremes
    this.samples = {};
  }

  // stat returns the distribution of a metric, in seconds, over the requests that arrived in a range; of a page that has not all
  // requests, over its sample.
  stat(metric, from, to) {
    const values = { ttft: this.ttft, itl: this.itl, request_latency: this.latency }[metric];
    this.samples[metric] = this.samples[metric] || new Samples(values);
    return simulatedStat(this.samples[metric].within(from, to, this.even));
  }
}

// simulatedStat returns {n, mean, p50, p75, p90, p95, p99, max} in seconds of sorted nanoseconds, by the rules of doc/spec/simulate.md 9.1.
function simulatedStat(sorted) {
  let sum = 0;
  for (let i = 0; i < sorted.length; i++) sum += sorted[i];
  const n = sorted.length, at = (q) => n ? sorted[Math.floor((n - 1) * q / 100 + 0.5)] / 1e9 : NaN;
  const stat = { n, mean: n ? sum / n / 1e9 : NaN, max: n ? sorted[n - 1] / 1e9 : NaN };
  for (const q of percentiles) stat[`p${q}`] = at(q);
  return stat;
}

// The distributions of a run, by their names in the summary. Gaps are not on the page one by one.
const simulatedMetrics = [
  { name: "ttft", label: "Time to first token" }, { name: "itl", label: "Inter-token latency" }, { name: "token_gap", label: "Gaps between tokens", whole: true },
  { name: "request_latency", label: "Request latency" },
];

// simulatedNumbers returns the rows of the table: {label, stat} of each metric. With nothing selected they are those of the summary.
function simulatedNumbers(page, requests, range) {
  const [from, to] = rowsWithin(range, requests.time);
  return simulatedMetrics.map(({ name, label, whole }) => {
    const stat = range.selected ? whole ? { ...simulatedStat([]), n: NaN } : requests.stat(name, from, to) : page.head.summary[name];
    return { label, stat };
  });
}

function drawSimulatedNumbers(root, page, requests, range) {
  const names = ["mean", ...percentiles.map((q) => `p${q}`), "max"];
  const part = section(root, "Numbers", "Of requests that emitted tokens; a request belongs to the range in which it arrived. The inter-token latency is the mean gap of each request; the gaps of all requests are pooled in the row below it, of the whole run alone.");
  const table = new Table(part, ["figure", "n", ...names]), sums = element("p", { class: "sums" });
  part.append(sums);
  const show = () => {
    table.show(simulatedNumbers(page, requests, range).map(({ label, stat }) => [
      label, { text: Number.isNaN(stat.n) ? unknown : groupDigits(String(stat.n)), value: stat.n }, ...names.map((name) => ({ text: formatValue(stat[name], "s"), value: stat[name] ?? NaN, title: String(stat[name]) })),
    ]));
    sums.textContent = simulatedSums(page, requests, range);
  };
  range.watch((what) => { if (what === "range") show(); });
  show();
}

// drawCompared draws the figures of a run beside those of the simulation of its load.
function drawCompared(root, { head: { compared } }) {
  if (!compared) return;
  const part = section(root, "Measured beside simulated", "All requests of the run that ended well, and all that are simulated. The error of the hit rate is the difference."), table = new Table(part, ["figure", "measured", "simulated", "error"]);
  const cell = (value, unit) => ({ text: formatValue(value, unit), value, title: String(value) });
  table.show(compared.map(({ name, measured, simulated, error }) => {
    const unit = { hit_rate: "%", output_token_rate: "/s" }[name] ?? "s";
    return [name, cell(measured, unit), cell(simulated, unit), { text: `${error > 0 ? "+" : ""}${formatValue(error, "%")}`, value: error }];
  }));
}

// simulatedSums says what went through in a range.
function simulatedSums(page, requests, range) {
  const { summary, drawn } = page.head;
  if (!range.selected) return `${formatValue(summary.request_rate, "/s")} completed, ${formatValue(summary.output_token_rate, "/s")} output tokens.`;
  const [from, to] = rowsWithin(range, requests.time), sum = { prompt: 0, reused: 0, tokens: 0, n: 0 };
  for (let i = from; i < to; i++) {
    if (requests.extra[i]) continue;
    sum.n++;
    for (const name of ["prompt", "reused", "tokens"]) sum[name] += requests[name][i];
  }
  const part = drawn.stride > 1 ? ` (of one request in ${drawn.stride})` : "";
  return `${groupDigits(String(sum.n))} requests, ${formatValue(sum.prompt, "")} prompt tokens, ${formatValue(sum.prompt ? sum.reused / sum.prompt : NaN, "%")} of them found in a cache, ${formatValue(sum.tokens, "")} output tokens${part}.`;
}

function drawSimulatedRequests(root, page, requests, range) {
  const part = section(root, "Requests", "A point a request: its time to the first token, where it arrived. A click on a point shows the request."), charts = element("div", { class: "charts" });
  const panel = element("div", { class: "request", hidden: true, role: "status" });
  part.append(charts, panel);
  const words = ["done", "kv_exhausted"], marks = words.map((word, style) => {
    const keep = Uint8Array.from({ length: requests.length }, (_, i) => requests.status.at(i) === word ? 1 : 0);
    return new Points({ name: word === "done" ? "completed" : "outgrew the pool", style, x: requests.time, y: requests.seconds, keep });
  }).filter((mark) => mark.keep.some((one) => one));
  const chart = new Chart(charts, { title: "Time to first token of each request", wide: true, height: 240, x: range, y: { unit: "s", log: true }, empty: "no request emitted a token in this range",
    marks: [...marks, ...limitLine("SLA", page.head.ttft_limit, page.head.end)],
    pointed: ({ px, py }) => showSimulated(panel, requests, marks.map((mark) => mark.hidden ? -1 : mark.nearest(chart.pen, px, py)).find((i) => i >= 0) ?? -1) });
}

function showSimulated(panel, requests, i) {
  panel.replaceChildren();
  panel.hidden = i < 0;
  if (i < 0) return;
  panel.append(element("h3", {}, "Request"), factList(describeSimulatedRequest(requests, i)));
}

// describeSimulatedRequest returns [name, value] of what is known of a request.
function describeSimulatedRequest(requests, i) {
  const facts = [], add = (name, value) => { if (value !== unknown && value !== "") facts.push([name, value]); };
  const seconds = (ns) => formatValue(ns / 1e9, "s"), worker = (id) => Number.isNaN(id) ? "" : String(id);
  add("session, turn", `${requests.session[i]}, ${requests.turn[i]}`);
  add("arrived", `${significant(requests.time[i], 9)} s`);
  add("waited for its first pass", seconds(requests.waited[i]));
  add("time to first token", seconds(requests.ttft[i]));
  add("inter-token latency", seconds(requests.itl[i]));
  add("latency", seconds(requests.latency[i]));
  add("prompt", `${formatValue(requests.prompt[i], "tokens")}, ${formatValue(requests.reused[i], "")} found in the cache`);
  add("output", `${formatValue(requests.tokens[i], "tokens")} of ${formatValue(requests.asked[i], "")} asked`);
  if (requests.prefill_worker) add("prefill worker", worker(requests.prefill_worker[i]));
  add(requests.prefill_worker ? "decode worker" : "worker", worker(requests.worker[i]));
  if (requests.preemptions[i]) add("preemptions", String(requests.preemptions[i]));
  add("ended", requests.status.at(i).replaceAll("_", " "));
  return facts;
}
