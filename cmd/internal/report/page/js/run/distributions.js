"use strict";
// Distributions: how values are spread over the requests of the range, and how well prompts were found in the cache.

function drawDistributions(root, page, requests, range) {
  const part = section(root, "Distributions", "Of the measured requests of the range."), charts = element("div", { class: "charts" });
  part.append(charts);
  const within = () => rowsWithin(range, requests.time), all = [];
  const add = (options) => all.push(new Chart(charts, options));
  for (const { name, label } of [{ name: "ttft", label: "Time to first token" }, { name: "itl", label: "Inter-token latency" }, { name: "latency", label: "Request latency" }]) {
    const mark = new Cumulative({ name: "share of requests", style: 0 });
    add({ title: label, about: "Share of requests that did not take longer. Further left is better.", x: { unit: "s", log: true, name: label }, y: { unit: "%", from: 0, to: 1 }, marks: [mark], prepare: () => mark.set(requests.sorted(name, ...within())) });
  }
  const lengths = [new Cumulative({ name: "asked for", style: 1 }), new Cumulative({ name: "received", style: 0 })];
  add({ title: "Output tokens of a request", about: "Share of requests with no more.", x: { unit: "", log: true, name: "output tokens" }, y: { unit: "%", from: 0, to: 1 }, marks: lengths, prepare: () => {
    const [from, to] = within();
    lengths[0].set(requests.sorted("asked", from, to));
    lengths[1].set(requests.sorted("output_tokens", from, to));
  } });
  drawPrefill(add, requests, within);
  drawTurns(add, requests, within);
  range.watch((what) => { if (what === "range") for (const chart of all) chart.invalidate(); });
}

// drawPrefill draws the time to the first token against what the server had to compute for it.
function drawPrefill(add, requests, within) {
  const heat = new Heat({ name: "requests", style: 0 }), missed = requests.remembered(() => requests.uncached.map((n) => Math.max(1, n)));
  add({ title: "Time to first token by prompt tokens that were not cached", about: "What the server had to compute against how long it took. The darker, the more requests.", x: { unit: "", log: true, name: "prompt tokens not cached" }, y: { unit: "s", log: true }, marks: [heat], prepare: () => {
    const [from, to] = within();
    heat.set(missed().subarray(from, to), requests.metrics.ttft.subarray(from, to), requests.measured.subarray(from, to));
  } });
}

// hitsByTurn returns the shares of prompts that were found in the cache, by turn: of blocks in the recording, of tokens as the server
// tells.
function hitsByTurn(requests, from, to) {
  const turns = new Map();
  for (let i = from; i < to; i++) {
    if (!requests.measured[i]) continue;
    const turn = requests.turn[i], sums = turns.get(turn) || { blocks: 0, hits: 0, prompt: 0, cached: 0 };
    turns.set(turn, sums);
    sums.blocks += requests.blocks[i];
    sums.hits += requests.hits[i];
    if (Number.isNaN(requests.cached[i])) continue;
    sums.prompt += requests.prompt_tokens[i];
    sums.cached += requests.cached[i];
  }
  const x = Float64Array.from(turns.keys()).sort(), of = (part, whole) => x.map((turn) => turns.get(turn)[whole] > 0 ? turns.get(turn)[part] / turns.get(turn)[whole] : NaN);
  return { x, recorded: of("hits", "blocks"), reported: of("cached", "prompt") };
}

function drawTurns(add, requests, within) {
  const recorded = new Line({ name: "recording, a cache without limit", style: 1 }), reported = new Line({ name: "reported by the server", style: 0 });
  add({ title: "Prompt found in the cache, by turn", about: "What the server found in its cache beside what a cache without a limit holds. Higher is better.", x: { unit: "", name: "turn in the session, from 0", whole: true }, y: { unit: "%", from: 0 }, marks: [recorded, reported], prepare: () => {
    const hits = hitsByTurn(requests, ...within());
    recorded.set(hits.x, hits.recorded);
    reported.set(hits.x, hits.reported);
  } });
}

// drawPrefixHits draws the share of prompt tokens that the servers found in their caches beside that of the recording.
function drawPrefixHits(charts, requests, range, servers) {
  if (!servers().some((server) => server.hits && server.queries || server.hit_rate)) return;
  const lines = servers().map((server, k) => new Line({ name: ["server", server.name].filter(Boolean).join(" "), style: k + 1 })), recorded = new Line({ name: "recording, a cache without limit", style: 0 });
  const prepare = () => {
    const windows = cutWindows(range.from, range.to), centres = windowCentres(windows, range);
    servers().forEach(({ time, hits, queries, hit_rate }, k) => lines[k].set(centres, hits && queries ? growthShare(windows, time, hits, queries) : centres.map((at) => hit_rate ? hit_rate[Math.max(0, nearestIndex(time, at))] : NaN)));
    const blocks = windowSums(windows, requests.time, requests.blocks), hits = windowSums(windows, requests.time, requests.hits);
    recorded.set(centres, blocks.map((n, i) => n > 0 ? hits[i] / n : NaN));
  };
  new Chart(charts, { title: "Server: prefix hits", about: "Share of the prompt tokens, beside the share of recorded blocks that a cache without a limit holds.", x: range, y: { unit: "%", from: 0 }, marks: [recorded, ...lines], prepare });
}

// growthShare returns by window how much one counter grew over another.
function growthShare(windows, time, part, whole) {
  const last = (at) => firstAtLeast(time, at) - 1;
  return Float64Array.from({ length: windows.count }, (_, i) => {
    const from = Math.max(0, last((windows.first + i) * windows.length)), to = last((windows.first + i + 1) * windows.length);
    const grown = to > from ? whole[to] - whole[from] : 0;
    return grown > 0 ? (part[to] - part[from]) / grown : NaN;
  });
}
