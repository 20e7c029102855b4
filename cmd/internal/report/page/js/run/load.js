"use strict";
// Load: the charts over time. Of a run whose requests are not all on the page, sums over time come from the table bins, which has all.

function drawOverTime(root, page, requests, range) {
  const part = section(root, "Over time", `Time since the first request of profiling${range.whole.to < 120 ? "" : ", as minutes:seconds"}.`);
  const charts = element("div", { class: "charts" });
  part.append(charts);
  drawLoad(charts, page, requests, range);
  drawTokens(charts, page, requests, range);
  drawScatter(charts, requests, range, "ttft", "Time to first token");
  drawScatter(charts, requests, range, "latency", "Request latency");
  drawWindows(charts, requests, range, { title: "Inter-token latency", name: "itl", asked: [50, 95], about: "Mean time between two tokens of an answer: p50 and p95 of windows. Lower is better." });
  drawErrors(charts, page, requests, range);
  drawWindows(charts, requests, range, { title: "Client: lateness", name: "lateness", asked: [50, 99], about: `How late requests were sent: what the client cost${cpuText(page.head.summary.client)}.` });
  drawServers(charts, page, range);
}

// binStarts returns the instants at which the bins begin, on the axis of the page.
function binStarts(page) {
  const { bins } = page.tables, { bin_width: width, zero } = page.head;
  return Float64Array.from({ length: bins.rows }, (_, i) => (i * width - zero) / 1e9);
}

function binMiddles(page) { return binStarts(page).map((t) => t + page.head.bin_width / 2e9); }

// inFlight returns the requests in flight as steps.
function inFlight(page, requests) {
  if (page.tables.progress) return reported(page, "in_flight");
  const unended = openSince(page);
  if (!page.tables.bins) return countOpen(unended.length ? [...requests.time, ...unended] : requests.time, requests.end);
  const { sent, ended } = page.tables.bins.columns, x = binStarts(page);
  let open = 0;
  return { x, y: Float64Array.from(sent, (n, i) => { const most = open + n; open = most - ended[i]; return Math.max(0, most - ended[i] / 2 - n / 2) + firstAtLeast(unended, x[i]); }) };
}

// openSince returns when the requests were sent that have no end, because the run was killed.
function openSince(page) { return page.tables.open ? page.tables.open.columns.sent.map((ns) => (ns - page.head.zero) / 1e9) : []; }

// openEnds returns the ends of trees, and of sessions. Of a run that was killed the last tree of a lane has none, nor has its main session.
function openEnds(page, { tracks }) {
  const { lane } = page.tables.trees.columns, last = new Map(), trees = Float64Array.from(tracks.treeEnd);
  if (page.tables.open) lane.forEach((l, t) => { if (!last.has(l) || tracks.treeBegin[t] > tracks.treeBegin[last.get(l)]) last.set(l, t); });
  for (const t of last.values()) trees[t] = NaN;
  return { trees, sessions: tracks.end.map((end, k) => tracks.depth[k] === 0 && Number.isNaN(trees[tracks.tree[k]]) ? NaN : end) };
}

// reported returns what a run that is played says of itself: its last requests have no records yet.
function reported(page, name) {
  const { at, ...columns } = page.tables.progress.columns;
  return { x: at.map((ns) => (ns - page.head.zero) / 1e9), y: columns[name] };
}

function drawLoad(charts, page, requests, range) {
  const told = Boolean(page.tables.progress), part = page.head.stride > 1 ? " (of the requests on the page)" : "";
  const line = (name, style) => new Line({ name, style, step: true });
  const marks = [line("requests in flight", 0), line(`sessions open${part}`, 1), line(`${page.head.summary.arrivals ? "trees open" : "lanes that play"}${told ? "" : part}`, 2)];
  if (haveWaited(requests)) marks.push(line(`${waitingName(page.head.summary.arrivals)}${part}`, 3));
  const show = requests.remembered(() => {
    const { tracks } = requests, ends = openEnds(page, requests), lines = [inFlight(page, requests), countOpen(tracks.begin, ends.sessions), told ? reported(page, "open_trees") : countOpen(tracks.treeBegin, ends.trees)];
    if (marks.length > 3) {
      const waited = Array.from(requests.time.keys()).filter((i) => requests.queued[i] > 0);
      lines.push(countOpen(waited.map((i) => requests.due[i] - requests.queued[i] / 1e9), waited.map((i) => requests.due[i])));
    }
    lines.forEach(({ x, y }, i) => marks[i].set(x, y));
  });
  new Chart(charts, { title: "Load", about: `How much was open at a time: requests in flight, sessions, and ${page.head.summary.arrivals ? "trees" : "lanes with a tree"}.`, x: range, y: { name: "open", zero: true, whole: true }, marks, prepare: show });
}

// waitingName names the line of trees that waited: they are known by their first request, so those that never opened are not drawn.
function waitingName(arrivals) {
  const never = arrivals && arrivals.waiting || 0;
  return `trees waiting that opened later${never > 0 ? `; ${groupDigits(String(never))} never opened ${never === 1 ? "is" : "are"} not drawn` : ""}`;
}

// haveWaited reports whether there is a tree that waited to be opened.
function haveWaited(requests) { return requests.raw("queued").some((ns) => ns > 0); }

// drawTokens draws sums over windows: of the table bins where there is one, else of the requests.
function drawTokens(charts, page, requests, range) {
  const [missed, cached] = stackAreas([{ name: "not cached", style: 0 }, { name: "cached", style: 1 }]);
  const output = new Line({ name: "output", style: 0, step: true });
  const read = requests.remembered(() => readTokens(page, requests));
  const rate = (windows, sums) => perSecond(windows, sums, range.whole);
  new Chart(charts, { title: "Prompt tokens per second", about: "When their first token came; cached as the server tells. More cached is better.", x: range, y: { name: "tokens/s", unit: "/s", zero: true }, marks: [missed, cached], prepare: () => {
    const windows = cutWindows(range.from, range.to), tokens = read();
    missed.set(windowStarts(windows), rate(windows, windowSums(windows, tokens.at, tokens.missed)));
    cached.set(windowStarts(windows), rate(windows, windowSums(windows, tokens.at, tokens.cached)));
  } });
  new Chart(charts, { title: "Output tokens per second", about: "Spread evenly from the first token to the last. Higher is better.", x: range, y: { name: "tokens/s", unit: "/s", zero: true }, marks: [output], prepare: () => {
    const windows = cutWindows(range.from, range.to), { bins } = page.tables;
    output.set(windowStarts(windows), rate(windows, bins ? windowSums(windows, binMiddles(page), bins.columns.output) : windowFlow(windows, requests.first, requests.last, requests.metrics.output_tokens)));
  } });
}

// readTokens returns when prompts were read, how many tokens of them the server had not in its cache, and how many it had.
function readTokens(page, requests) {
  const { bins } = page.tables;
  if (bins) return { at: binMiddles(page), missed: bins.columns.miss, cached: bins.columns.cached };
  return { at: requests.first, missed: requests.uncached, cached: requests.cached };
}

// drawScatter draws a point a request, and percentiles of windows.
function drawScatter(charts, requests, range, name, title) {
  const points = [new Points({ name: "main sessions", style: 0 })];
  if (haveChildren(requests)) points.push(new Points({ name: "subagents", style: 1 }));
  const show = requests.remembered(() => points.forEach((mark, child) => mark.set(requests.time, requests.metrics[name],
    Uint8Array.from({ length: requests.length }, (_, i) => Number(requests.failure[i] === 0 && (points.length === 1 || Number(requests.isChild(i)) === child))))));
  const lines = [new Line({ name: "p50", style: 4, width: 2, halo: true }), new Line({ name: "p95", style: 3, width: 2, halo: true })];
  const prepare = () => { show(); showWindows(requests, range, name, [50, 95], lines); };
  const chart = new Chart(charts, { title, about: "A point a request; p50 and p95 of windows. Lower is better. Click a point for its request.", x: range, y: { unit: "s", log: true }, marks: [...points, ...lines], prepare,
    none: noValues(requests, name), empty: noValuesText,
    pointed: ({ px, py }) => {
      requests.pick(points.map((mark) => mark.hidden ? -1 : mark.nearest(chart.pen, px, py)).find((i) => i >= 0) ?? -1);
      card.show(requests.picked, px, py);
    } });
  const card = new RequestCard(chart, requests);
}

// haveChildren reports whether there is a request of a subagent that did not fail.
function haveChildren(requests) {
  const failure = requests.raw("failure"), { firstRow } = requests;
  return requests.page.tables.sessions.columns.depth.some((depth, k) => depth > 0 && failure.subarray(firstRow[k], firstRow[k + 1]).includes(0));
}

// showWindows gives lines the percentiles of the measured requests of each window.
function showWindows(requests, range, name, asked, lines) {
  const windows = cutWindows(range.from, range.to), found = requests.percentilesOver(windows, name, asked);
  lines.forEach((line, i) => line.set(windowCentres(windows, range), found[i]));
}

const noValuesText = "no request has this figure";

// noValues reports whether no request of a finished run has a value of a metric: then the page has no row of it.
function noValues({ page }, name) {
  const sparse = page.tables[`requests.${name}`];
  return !page.head.from && Boolean(sparse) && sparse.rows === 0 && !Object.hasOwn(page.head.common, name);
}

function drawWindows(charts, requests, range, { title, name, asked, about }) {
  const lines = asked.map((q, i) => new Line({ name: `p${q}`, style: 4 - i, width: 2 }));
  new Chart(charts, { title, about, x: range, y: { unit: "s", zero: true }, marks: lines, none: noValues(requests, name), empty: noValuesText, prepare: () => showWindows(requests, range, name, asked, lines) });
}

// drawErrors draws how many requests failed in each window, by category, when they ended.
function drawErrors(charts, page, requests, range) {
  const order = failuresOf(page);
  const areas = stackAreas(order.map((name, style) => ({ name: name.replaceAll("_", " "), style: failureStyle(style) })));
  const failed = requests.remembered(() => order.map((name) => failuresAt(page, requests, name)));
  const prepare = () => {
    const windows = cutWindows(range.from, range.to);
    failed().forEach(({ at, n }, i) => areas[i].set(windowStarts(windows), windowSums(windows, at, n)));
  };
  new Chart(charts, { title: "Requests that failed", about: "By category, in the window in which they ended; cancellations and overflows are no errors of the rate.", x: range, y: { name: "requests", zero: true, whole: true }, marks: areas, prepare, none: !order.length, empty: order.length ? "nothing in this range" : "no request failed" });
}

const failureStyles = [3, 1, 4, 5, 6]; // that of failures among the lanes first; none is blue or green

// failureStyle is the style of the k-th category of failures: each has a colour and hatching of its own.
function failureStyle(k) { return failureStyles[k % failureStyles.length] + seriesCount * Math.floor(k / failureStyles.length); }

// failuresOf returns the categories of the requests that failed, those last that are no errors of the rate.
function failuresOf(page) {
  const { category } = page.tables.failures.columns, names = [], apart = ["cancelled", "context_overflow"];
  for (let k = 0; k < category.length; k++) if (!names.includes(category.at(k))) names.push(category.at(k));
  return [...names.filter((n) => !apart.includes(n)).sort(), ...names.filter((n) => apart.includes(n)).sort()];
}

// failuresAt returns when requests of a category failed, and how many.
function failuresAt(page, requests, name) {
  const { category } = page.tables.failures.columns;
  if (!page.tables.bins) return { at: requests.end.filter((_, i) => requests.category(i) === name), n: null };
  const { bin, failure, n } = page.tables["bins.failures"].columns, middles = binMiddles(page), here = n.map((_, i) => Number(category.at(failure[i] - 1) === name));
  return { at: bin.map((b) => middles[b]), n: n.map((count, i) => count * here[i]) };
}

// serversOf returns what the servers said of themselves: of each the name that tells it from others, time, and its columns.
function serversOf({ tables, head }) {
  const { url, number } = tables.servers ? tables.servers.columns : { url: [], number: [] };
  return Array.from(number, (k, i) => ({ name: url.length > 1 ? url.at(i) : "", table: tables[`server.${k}`] })).filter(({ table }) => table)
    .map(({ name, table }) => ({ name, ...table.columns, time: table.columns.at.map((ns) => (ns - head.zero) / 1e9) }));
}

// drawServers draws them.
function drawServers(charts, page, range) {
  const list = serversOf(page), { requests } = page, servers = requests.remembered(() => serversOf(page));
  if (!list.length) return;
  const lines = (column, name) => list.flatMap((server, k) => server[column] ? [Object.assign(new Line({ name: [name, server.name].filter(Boolean).join(" "), style: k, step: true }), { of: k, column })] : []);
  const chart = (title, about, y, marks) => {
    const prepare = () => { for (const line of marks) line.set(servers()[line.of].time, servers()[line.of][line.column]); };
    if (marks.length) new Chart(charts, { title, about, x: range, y: { zero: true, ...y }, marks, prepare });
  };
  chart("Server: KV cache in use", "Share of the memory for prompts that is taken. Near 100 % prompts are evicted, and requests wait.", { unit: "%" }, lines("kv", "in use"));
  const running = lines("running", "running"), waiting = lines("waiting", "waiting").map((line) => Object.assign(line, { style: line.style + list.length }));
  chart("Server: requests", "What the server computed, and what waited in its queue, as it says.", { name: "requests", whole: true }, [...running, ...waiting]);
  drawPrefixHits(charts, requests, range, servers);
}
