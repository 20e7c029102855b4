"use strict";
// sample is the page of the tests of this package: charts of made-up numbers.
pages.sample = function (page, root) {
  window.page = page;
  const { start, end, ttft, prompt, cached, kind, failure } = page.tables.requests.columns;
  const range = new TimeRange(-20, 310);
  range.shades = [{ from: -20, to: 0, name: "warmup" }, { from: 285, to: 310, name: "cooldown" }];
  const samples = new Samples(ttft), isMain = Uint8Array.from(kind.codes, (code) => kind.words[code] === "main session");
  const isSub = isMain.map((flag) => 1 - flag);
  root.append(element("h1", {}, page.title));
  rangeBar(root, range, () => {
    const [first, last] = rowsWithin(range, start);
    return `${groupDigits(String(last - first))} requests started in it`;
  });

  const overview = section(root, "Percentiles", "Of the requests that started in the range.");
  const table = new Table(overview, ["metric", "mean", "p50", "p75", "p90", "p95", "p99", "max", "n"]);
  const showTable = () => {
    const stat = statOf(samples.within(...rowsWithin(range, start)));
    table.show([["time to first token", ...["mean", "p50", "p75", "p90", "p95", "p99", "max"].map((key) => ({ text: formatValue(stat[key], "s"), value: stat[key] })), { text: formatValue(stat.n, ""), value: stat.n }]]);
  };
  range.watch((what) => { if (what === "range") showTable(); });
  showTable();

  const charts = element("div", { class: "charts" });
  section(root, "Over time").append(charts);
  new Chart(charts, { title: "Requests in flight", about: "Requests that were sent and have not ended.", x: range, y: { zero: true }, marks: [
    new Line({ name: "in flight", step: true, ...countOpen(start, end) }),
    new Line({ name: "subagents", style: 1, step: true, ...countOpen(start.filter((_, i) => isSub[i]), end.filter((_, i) => isSub[i])) })] });
  const points = [new Points({ name: "main session", x: start, y: ttft, keep: isMain }), new Points({ name: "subagent", style: 1, x: start, y: ttft, keep: isSub })];
  const lines = [new Line({ name: "p50", style: 2, width: 2, halo: true }), new Line({ name: "p95", style: 3, width: 2, halo: true })];
  new Chart(charts, { title: "Time to first token", wide: true, x: range, y: { unit: "s", log: true }, marks: [...points, ...lines],
    prepare() {
      const windows = cutWindows(range.from, range.to), centres = windowCentres(windows, range);
      windowPercentiles(windows, start, ttft, [50, 95]).forEach((y, i) => lines[i].set(centres, y));
    } });
  const areas = stackAreas([{ name: "not cached" }, { name: "cached" }]);
  new Chart(charts, { title: "Prompt tokens per second", x: range, y: { unit: "tokens/s", zero: true }, marks: areas,
    prepare() {
      const windows = cutWindows(range.from, range.to);
      [prompt.map((n, i) => n - cached[i]), cached].forEach((amounts, i) => areas[i].set(windowStarts(windows), perSecond(windows, windowSums(windows, start, amounts), range.whole)));
    } });
  const words = failure.words.filter(Boolean), errors = stackAreas([...words, "a third kind", "a fourth", "a fifth"].map((name) => ({ name })));
  new Chart(charts, { title: "Errors", x: range, y: { zero: true }, marks: errors,
    prepare() {
      const windows = cutWindows(range.from, range.to);
      errors.forEach((area, i) => area.set(windowStarts(windows), windowSums(windows, start, start.map((_, row) => Number(failure.at(row) === words[i] || i > 1 && row % 40 === i)))));
    } });
  new Chart(charts, { title: "Nothing", x: range, y: { unit: "s" }, marks: [new Line({ name: "nothing" })] });

  const more = element("div", { class: "charts" });
  section(root, "Of the selection").append(more);
  const curves = [new Cumulative({ name: "main session" }), new Cumulative({ name: "subagent", style: 1 })];
  const cumulative = new Chart(more, { title: "Time to first token, cumulative", x: { unit: "s", log: true, name: "time to first token" }, y: { unit: "%", from: 0, to: 1 }, marks: curves,
    prepare() { [isMain, isSub].forEach((keep, i) => curves[i].set(samples.within(...rowsWithin(range, start), keep))); } });
  const heat = new Heat({ name: "requests", x: prompt, y: ttft });
  const histogram = new Chart(more, { title: "Time to first token by prompt tokens", x: { unit: "tokens", log: true, name: "prompt" }, y: { name: "time to first token", unit: "s", log: true }, marks: [heat],
    prepare() {
      const [first, last] = rowsWithin(range, start);
      heat.set(prompt, ttft, Uint8Array.from(start, (_, row) => Number(row >= first && row < last)));
    } });
  range.watch((what) => { if (what === "range") { cumulative.invalidate(); histogram.invalidate(); } });
  const front = { x: [20, 28, 39, 40, 41, 80, 95], y: [410, 400, 380, 300, 378, 150, 40] };
  new Chart(more, { title: "Throughput against interactivity", x: { unit: "tokens/s", name: "interactivity", from: 0 }, y: { name: "throughput", unit: "tokens/s", zero: true }, marks: [
    new Line({ style: 0, ...front }), new Points({ name: "runs", size: 5, ...front, labels: front.x.map((_, i) => `${64 >> i} lanes`), hollow: front.x.map((_, i) => i === 3) })] });
  new Chart(more, { title: "Cache hits by turn", x: { name: "turn" }, y: { unit: "%", zero: true, to: 1 }, marks: [
    new Line({ name: "recorded", dots: true, x: [0, 1, 2, 3, 4, 5], y: [0.02, 0.7, 0.81, 0.86, 0.9, 0.93] }), new Line({ name: "reported", style: 1, dots: true, x: [0, 1, 2, 3, 4, 5], y: [0.01, 0.6, NaN, 0.76, 0.7, 0.83] })] });
  if (page.tables.names) {
    const names = section(root, "Names");
    names.id = "names";
    new Table(names, ["n", "name"]).show(Array.from({ length: page.tables.names.rows }, (_, row) => [String(row), page.tables.names.columns.name.at(row)]));
    new Chart(names, { title: page.title, about: page.title, x: { name: page.title }, marks: [new Points({ name: page.title, x: [1, 2], y: [1, 2], labels: [page.title, page.title] })] });
  }
  bindFragment(range);
};
