"use strict";
// Head: what was simulated, and what came of it, before all charts.

function drawSimulatedHead(root, page) {
  const { head } = page;
  root.append(element("p", { class: "conclusion" }, head.conclusion), factList(simulatedFacts(head)));
  for (const note of simulatedNotes(head)) root.append(element("p", { class: "note" }, note));
}

// simulatedFacts returns [name, value] of each line of the header.
function simulatedFacts(head) {
  const { summary, planner } = head, { run } = summary, facts = [], number = (n) => groupDigits(String(n));
  const add = (name, value) => { if (value !== "" && value !== null && value !== undefined) facts.push([name, String(value)]); };
  add("range", `0 to ${formatTime(head.end, head.end, head.end)} simulated (${formatDuration(head.end)})`);
  add("requests", requestsText(summary));
  if (planner) {
    add("ticks", `${number(planner.ticks)}, ${number(planner.windows)} of them with a window of traffic`);
    add("transitions", number(planner.transitions));
  }
  add("GPU-hours", formatValue(summary.gpu_hours, ""));
  add("SLA", slaText(head));
  if (summary.goodput) add("good", goodText(summary.goodput, planner));
  add("fleet", fleetText(head));
  add("router", run.router);
  add("load", `${run.load}${run.concurrency ? `, concurrency ${number(run.concurrency)}` : ""}${run.arrival_speedup !== 1 ? `, arrivals ${run.arrival_speedup} times as fast` : ""}`);
  if (planner) add("planner", plannerText(planner.config));
  add("tokens", `${formatValue(summary.input_tokens, "")} prompt, ${formatValue(summary.output_tokens, "")} output`);
  add("reuse", `${formatValue(summary.reuse, "%")} of prompt tokens; ${formatValue(summary.reuse_unlimited, "%")} with an unlimited cache`);
  for (const t of summary.tiers || []) add(`tier ${t.name}`, `${formatValue(t.hit_rate, "%")} of prompt tokens, ${formatValue(t.share, "%")} of all hits; ${number(t.blocks)} blocks${t.gib === null ? "" : `, ${formatValue(t.gib, "")} GiB, of which one serves ${formatValue(t.hit_tokens_per_gib, "tokens")}`}`);
  if (summary.load_wait) add("loads", `${number(summary.load_wait.n)} requests waited for tiers, ${formatValue(summary.load_wait.p50, "s")} at p50, ${formatValue(summary.load_wait.p95, "s")} at p95`);
  add("engines", `${number(summary.passes)} passes, ${number(summary.preemptions)} preemptions, ${number(summary.evictions)} evictions`);
  add("seed", run.seed);
  add("switches", head.switches.map(({ name, value, default: usual }) => `${name}=${value} (${usual} by default)`).join(", ") || "as by default");
  return facts;
}

function requestsText(s) {
  const number = (n) => groupDigits(String(n)), parts = [`${number(s.requests)}, ${number(s.completed)} completed`];
  if (s.rejected) parts.push(`${number(s.rejected)} rejected`);
  if (s.kv_exhausted) parts.push(`${number(s.kv_exhausted)} outgrew the pool`);
  return parts.join(", ");
}

// goodText says how many requests are good, and within which limits where those of a planner stand beside them.
function goodText(g, planner) {
  const text = `${groupDigits(String(g.good))} requests (${formatValue(g.ratio, "%")})`;
  return planner ? `${text} within ${limitsText(g.ttft, g.itl, g.e2e)}` : text;
}

// slaText says which limits the page draws: those of the planner, or of good requests.
function slaText({ summary: { goodput }, planner, ttft_limit: ttft, itl_limit: itl }) {
  return limitsText(ttft, itl, goodput && !planner ? goodput.e2e : null);
}

function limitsText(ttft, itl, e2e) {
  const parts = [];
  for (const [name, limit] of [["ttft", ttft], ["itl", itl], ["latency", e2e]]) if (limit !== null) parts.push(`${name} ${formatValue(limit, "s")}`);
  return parts.join(", ");
}

function fleetText({ summary, pools, planner }) {
  const { run } = summary, begin = planner ? " at the beginning" : "", { blocks, block_size: size } = pools[0];
  const workers = pools.length > 1 ? `${groupDigits(String(run.prefill_workers))} prefill and ${groupDigits(String(run.decode_workers))} decode workers` : `${groupDigits(String(run.workers))} ${run.workers === 1 ? "worker" : "workers"}`;
  return `${workers}${begin}, ${groupDigits(String(blocks))} blocks of ${size} tokens each${pools.length > 1 && pools[1].blocks !== blocks ? ` (decode ${groupDigits(String(pools[1].blocks))})` : ""}`;
}

function plannerText(c) {
  const parts = [`${c.mode}, target ${c.optimization_target}`];
  if (c.enable_throughput_scaling) parts.push(`throughput every ${formatDuration(c.throughput_interval)}`);
  if (c.enable_load_scaling) parts.push(`load every ${formatDuration(c.load_interval)}`);
  parts.push(c.max_gpu_budget < 0 ? "no GPU budget" : `at most ${c.max_gpu_budget} GPUs`);
  return parts.join(", ");
}

// simulatedNotes returns what a reader has to know of the numbers.
function simulatedNotes(head) {
  const { caveat } = head.summary.run, notes = [`${caveat[0].toUpperCase()}${caveat.slice(1)}.`, head.lacks];
  if (!head.planner) return notes;
  if (head.planner.bootstrap.failed) notes.push(`The planner began without knowing its engines: ${head.planner.bootstrap.failed}.`);
  for (const warning of head.planner.warnings) notes.push(`The planner warns: ${warning}.`);
  return notes;
}
