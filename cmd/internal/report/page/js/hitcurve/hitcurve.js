"use strict";
// The page of hit-rate curves: which share of prompt tokens prefix caches hold, by their size.

pages.hitcurve = function (page, root) {
  const { curves } = page.head;
  root.append(element("h1", {}, page.title));
  const lists = curves.map(curveFacts);
  const common = lists[0].filter(([name, value], k) => lists.every((list) => list[k] && list[k][1] === value));
  for (const [k, curve] of curves.entries()) root.append(element("p", { class: "lead" }, curveLead(curve, page.tables[`lru.${k}`])));
  root.append(factList(common));
  curveCharts(page, root);
  for (const curve of curves) curveTable(page.head, curve, root);
  root.append(element("p", { class: "note" }, "The server computes every request on its own, at the rates above, which decides the order of requests. Prefill saved is in seconds of its prompt rate: the ideal, in which nothing but prompts takes time. Answers and partial blocks take no room."));
  drawOrigin(root, page.head.origin);
};

// curveFacts returns [name, value] of what a curve is of.
function curveFacts({ requests, input_tokens: tokens, block_size: block, kv_bytes_per_token: bytes, order, load, concurrency, router, server_rates: rates }) {
  const facts = [["requests", groupDigits(String(requests))], ["prompt tokens", groupDigits(String(tokens))], ["block", `${groupDigits(String(block))} tokens`]];
  if (bytes) facts.push(["KV cache of a token", `${groupDigits(String(bytes))} bytes`]);
  facts.push(["order", order === "recorded" ? "recorded" : `load ${load}${concurrency ? ` ${concurrency}` : ""}`]);
  facts.push(["requests go to caches", router === "kv_router" ? "by kv_router" : "in turn"]);
  facts.push(["server", `${groupDigits(String(rates.prefill))} prompt tokens/s, ${groupDigits(String(rates.decode))} output tokens/s`]);
  return facts;
}

// curveName says what tells a curve from others, or else how many caches there are.
function curveName({ name, pools, router }) {
  return name || (pools === 1 ? "one cache" : `${pools} caches, ${router.replace(/_/g, " ")}`);
}

// curveLead says what there is to find, how large a cache finds it, and from which size of the line of LRU on it finds nearly all.
function curveLead(curve, lru) {
  const { unlimited } = curve, found = unlimited.policies.lru, gib = unlimited.gib === null ? null : unlimited.gib / unlimited.blocks;
  const size = (blocks) => `${groupDigits(String(blocks))} blocks${curve.pools > 1 ? " each" : ""} (${formatValue(blocks * curve.block_size, "")} tokens${gib === null ? "" : `, ${significant(blocks * gib, 4)} GiB`})`;
  const nearly = lru ? lru.columns.found.findIndex((tokens) => tokens >= 0.99 * found.saved_tokens) : -1;
  return `${curveName(curve)}: ${formatValue(found.hit_rate, "%")} of prompt tokens at most; ${size(unlimited.blocks)} are enough${nearly < 0 ? "" : `, for 99 % of it ${size(lru.columns.blocks[nearly])}`}.`;
}

// curveUnits returns the units of sizes: {name, of(curve)}, the factor from blocks of a cache.
function curveUnits(curves) {
  const units = [{ name: "tokens", of: (curve) => curve.block_size }, { name: "blocks", of: () => 1 }];
  if (curves.every((curve) => curve.kv_bytes_per_token)) units.unshift({ name: "GiB", of: (curve) => curve.block_size * curve.kv_bytes_per_token / 2 ** 30 });
  return units;
}

// curveLines returns the lines of the curves: {name, curve, policy, blocks, found, exact}, exact where it has points between those of the table.
function curveLines({ head, tables }) {
  return head.curves.flatMap((curve, k) => head.policies.map((policy) => {
    const { blocks, found } = tables[`${policy}.${k}`].columns;
    const name = head.curves.length > 1 ? `${curveName(curve)}${head.policies.length > 1 ? `, ${policy}` : ""}` : policy;
    return { name, curve, policy, blocks, found, exact: blocks.length > curve.points.length };
  }));
}

// curveValues are what a line shows: the share of prompt tokens, or the seconds of prefill that it saves.
const curveKinds = [
  { title: "Prompt tokens found", unit: "%", of: ({ curve }, found) => found / curve.input_tokens },
  { title: "Prefill saved", unit: "s", of: ({ curve }, found) => found / curve.server_rates.prefill },
];

function curveCharts(page, root) {
  const { curves } = page.head, units = curveUnits(curves), pooled = curves.some(({ pools }) => pools > 1);
  const parent = section(root, "By size", "Lines without marks are exact at every size. Level: what a cache without a limit finds.");
  const choices = element("p", {}), charts = element("div", { class: "charts" });
  parent.append(choices, charts);
  const drawn = curveKinds.map((kind) => {
    const lines = curveLines(page), marks = lines.map((line, k) => new Line({ name: line.name, style: k, dots: !line.exact, y: Array.from(line.found, (found) => kind.of(line, found)) }));
    const tops = curves.map((curve, k) => new Line({ name: curves.length > 1 ? `${curveName(curve)}, unlimited` : "unlimited", style: k * page.head.policies.length, dash: [1, 3], step: true }));
    const chart = new Chart(charts, { title: kind.title, x: { log: true, name: "" }, y: { unit: kind.unit, zero: true }, marks: [...marks, ...tops], height: 300, empty: "no size was asked for" });
    return { kind, lines, marks, tops, chart };
  });
  const state = { unit: units[0], all: false };
  const show = () => {
    const factor = (curve) => state.unit.of(curve) * (state.all ? curve.pools : 1);
    for (const { kind, lines, marks, tops, chart } of drawn) {
      lines.forEach((line, k) => { marks[k].x = Array.from(line.blocks, (blocks) => blocks * factor(line.curve)); });
      const sizes = marks.flatMap(({ x }) => x.filter((size) => size > 0)), ends = [Math.min(...sizes), Math.max(...sizes)];
      curves.forEach((curve, k) => { tops[k].set(ends, ends.map(() => kind.of({ curve }, curve.unlimited.policies.lru.saved_tokens))); });
      Object.assign(chart.x, { name: `${state.unit.name} of ${state.all ? "all caches" : pooled ? "each cache" : "the cache"}` });
      chart.invalidate();
    }
  };
  chooseOne(choices, "Sizes in", units.map(({ name }) => name), 0, (k) => { state.unit = units[k]; show(); });
  chooseOne(choices, "of", pooled ? ["each cache", "all caches"] : ["the cache"], 0, (k) => { state.all = k === 1; show(); });
}

// curveRows returns the rows of the table of a curve.
function curveRows({ policies }, curve) {
  const ideal = curve.unlimited.policies.lru.saved_tokens;
  return curve.points.map((point) => [
    { text: groupDigits(String(point.blocks)), value: point.blocks }, { text: groupDigits(String(point.tokens)), value: point.tokens },
    ...(point.gib === null ? [] : [{ text: significant(point.gib, 4), value: point.gib }]),
    ...policies.flatMap((policy) => {
      const { hit_rate: rate, saved_prefill: saved, saved_tokens: tokens } = point.policies[policy];
      return [{ text: formatValue(rate, "%"), value: rate ?? NaN }, { text: formatDuration(saved), value: saved }, { text: ideal ? formatValue(tokens / ideal, "%") : unknown, value: ideal ? tokens / ideal : NaN }];
    }),
  ]);
}

function curveTable(head, curve, root) {
  const columns = ["blocks", "tokens", ...(curve.kv_bytes_per_token ? ["GiB"] : []), ...head.policies.flatMap((policy) => [`${policy}, found`, "prefill saved", "of the ideal"])];
  new Table(section(root, `Sizes${head.curves.length > 1 ? `: ${curveName(curve)}` : ""}`, "Of each cache; what all of them find together."), columns).show(curveRows(head, curve));
  if (curve.tiers) tierTable(head, curve, root);
}

// tierTable shows which share of the hits each tier serves, and what a GiB of it saves.
function tierTable(head, curve, root) {
  const memory = Boolean(curve.kv_bytes_per_token), columns = ["tier", "blocks", ...(memory ? ["GiB"] : []), "of prompt tokens", "of hits", ...(memory ? ["prefill saved by a GiB"] : [])];
  const about = "Of each cache, the fastest first. What a tier drops comes into the next; what is found goes to the first.";
  new Table(section(root, `Tiers${head.curves.length > 1 ? `: ${curveName(curve)}` : ""}`, about), columns).show(curve.tiers.map(({ name, blocks, gib, hit_rate: rate, share, saved_prefill_per_gib: per }) => [
    { text: name, value: name }, { text: groupDigits(String(blocks)), value: blocks }, ...(memory ? [{ text: significant(gib, 4), value: gib }] : []),
    { text: formatValue(rate, "%"), value: rate ?? NaN }, { text: formatValue(share, "%"), value: share ?? NaN }, ...(memory ? [{ text: formatDuration(per), value: per }] : []),
  ]));
}
