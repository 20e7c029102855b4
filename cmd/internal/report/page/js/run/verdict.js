"use strict";
// Verdict: whether a run says anything about the server, and what was run.

// verdictsOf returns the lines of the verdict: {good: true, false, null or "warning", text, more}; more are lines below.
function verdictsOf(head) {
  const s = head.summary, lines = [];
  const add = (good, text, more) => lines.push({ good, text, more: more || [] });
  lines.push(...partLines(s));
  if (s.valid === true) add(tooManyUnseen(s) ? null : true, `The run is valid${tooManyUnseen(s) ? `, but ${formatValue(s.unseen.share, "%")} of its requests are in no figure` : ""}.`);
  else if (s.valid === false) {} // a remark
  else if (s.part && s.part.of > 1 && s.run.scenario) add(null, "Not judged: the scenario judges the whole load.");
  else if (s.run.scenario) add(null, "Whether the run is valid is not known: it was killed, or has not ended.");
  for (const r of s.remarks || []) if (!/^(failed|errors|partial)$/.test(r.kind)) add({ note: null, warning: "warning", broken: false }[gravityOf(r)], `${r.text}.`, r.detail);
  if (!(s.client && s.client.bound) && s.measured > 0) add(true, `The client was no bottleneck: lateness p99 ${formatValue(s.lateness.p99, "s")}${cpuText(s.client)}.`);
  add(s.error_rate > 0.01 ? false : s.completed > 0 && !isKilled(s) ? true : null, errorText(s), Object.keys(s.errors || {}).sort((a, b) => s.errors[b] - s.errors[a]).map((category) =>
    `${shorten(category, longestCategory)}: ${formatCount(s.errors[category], "request")}${sampleText(s, category)}`));
  for (const [kind, d] of Object.entries(s.deviations || {})) if (d.requests) add(null, `${formatCount(d.requests, "request was", "requests were")} answered otherwise than asked: ${kind.replaceAll("_", " ")}.`, d.example ? [`for example ${d.example}`] : []);
  for (const target of (s.until && s.until.targets) || []) add(target.margin !== null && target.margin <= target.share, untilText(s.until, target));
  if (s.valid !== false && s.valid !== true && !s.run.scenario) add(null, "Not judged: without a scenario a run is neither valid nor not.", s.reasons || []);
  return lines;
}

// gravityOf is the level of a remark. Idle lanes, a note elsewhere, are a warning here: the load was not the one that the title names.
function gravityOf({ kind, level }) { return kind === "lanes" ? "warning" : level; }

// tooManyUnseen reports whether the numbers of a run leave out more of its requests than measure.MaxUnseen.
function tooManyUnseen(s) { return Boolean(s.unseen) && s.unseen.share > 0.05; }

const longestCategory = 60; // characters of a category of failures: one of a file that somebody has edited may have any length

function cpuText(client) {
  if (!client || client.cpu_share === null || client.cpu_share === undefined) return "";
  return `, CPU ${formatValue(client.cpu_share, "%")} of one core${client.cores ? `, of ${client.cores}` : ""}`;
}

// isKilled reports whether a run has no end, so that requests may have been sent that have no record.
function isKilled(s) { return (s.remarks || []).some(({ kind }) => kind === "killed"); }

// errorText says what became of the requests that were sent: the counts add up to them.
function errorText(s) {
  if (!s.requests) return "No request was sent.";
  const failed = Object.values(s.errors || {}).reduce((sum, n) => sum + n, 0), { cancelled_at_end: cut, context_overflow: over } = s.buckets;
  const parts = [[s.measured, "measured"], [failed, "failed"], [s.completed - s.measured, "ended well after the deadline"], [cut, "cut off at the end"], [over, "did not fit the context"]];
  const text = parts.filter(([n, name]) => n > 0 || name === "measured" || name === "failed").map(([n, name]) => `${groupDigits(String(n))} ${name}`);
  if (!isKilled(s)) return `Of ${formatCount(s.requests, "request")} sent: ${text.join(", ")}.`;
  return `Of ${formatCount(s.requests, "request")} with a record: ${text.join(", ")}. What was in flight when the run was cut has none.`;
}

function sampleText(s, category) {
  const samples = (s.error_samples || {})[category];
  return samples && samples.length ? `, such as “${shorten(samples[0].message, 160)}”` : "";
}

// untilText says how well a metric is known that the run was to know.
function untilText(until, { metric, unit, value, margin, share, why }) {
  const known = margin === null ? `no interval: ${why}` : `${formatFigure(value, unit)} ± ${formatValue(margin, "%")}`;
  return `${metric}: ${known}; ± ${formatValue(share, "%")} was asked, after ${formatDuration(until.after)} of sending.`;
}

// formatFigure writes a figure of a run in a unit of package slo, of which "" is a share of 1.
function formatFigure(value, unit) { return formatValue(value, { "": "%", "1/s": "/s" }[unit] ?? unit); }

// factsOf returns what was run: [name, value] of each line.
function factsOf(head) {
  const { run } = head.summary, facts = [], gpus = optionOf(run, "gpus"), gpu = optionOf(run, "gpu");
  const add = (name, value) => { if (value !== "" && value !== null && value !== undefined) facts.push([name, String(value)]); };
  add("label", optionOf(run, "label"));
  add("note", optionOf(run, "note"));
  add("model", run.model);
  add("server", head.server || (run.urls && run.urls.length ? run.urls : [run.url]).filter(Boolean).join(", "));
  add("engine", optionOf(run, "engine"));
  add("GPUs", gpus > 0 ? [gpus, gpu].filter(Boolean).join(" × ") : gpu);
  add("dataset", inputsOf(run));
  add("key", run.dataset && run.dataset.key);
  add("profile", run.dataset && run.dataset.profile);
  add("tokenizer", run.dataset && run.dataset.tokenizer);
  add("seed", optionOf(run, "seed"));
  add("lanes", head.summary.concurrency || "");
  add("preset", run.preset);
  add("differs from it", Object.entries(run.switches || {}).map(([name, value]) => `${name}=${textOf(value)}`).sort().join(", ") || (run.preset ? "in no switch" : ""));
  add("scenario", run.scenario && run.scenario.name);
  for (const conflict of (run.scenario && run.scenario.overridden) || []) add("overridden", conflict);
  add("begun", begunOf(run));
  add("agentx", [...new Set([run.version, run.commit && run.commit !== "unknown" ? run.commit : ""])].filter(Boolean).join(", "));
  add("machine", run.host);
  add("files", head.summary.out);
  return facts;
}

function inputsOf(run) { return (run.dataset && (run.dataset.inputs || []).map((input) => input.name).filter(Boolean).join(", ")) || ""; }

function begunOf(run) { return run.start && run.start.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC"); }

// briefOf says in a line what was run.
function briefOf({ summary }) {
  const { run, concurrency } = summary;
  return [optionOf(run, "note"), run.model, optionOf(run, "engine"), inputsOf(run), concurrency && !summary.arrivals ? formatCount(concurrency, "lane") : "", begunOf(run)].filter(Boolean).map((text) => shorten(text, 80)).join(" · ");
}

function optionOf(run, name) {
  const option = (run.options || []).find((o) => o.name === name);
  return option ? textOf(option.value) : "";
}

// textOf writes a JSON value: a text as it stands, a list with commas.
function textOf(value) { return typeof value === "string" ? value : Array.isArray(value) ? value.map(textOf).join(", ") : JSON.stringify(value); }

// chosenOf returns the options whose value somebody chose: [name, value, where].
function chosenOf({ summary, seconds }) {
  const unit = (o) => typeof o.value === "number" && seconds.includes(o.name) ? " s" : "";
  return (summary.run.options || []).filter((o) => o.from !== "default" && o.from !== "preset").map((o) => [o.name, textOf(o.value) + unit(o), o.from]);
}

// drawVerdict puts the result, the verdict and the notes into an element, in the place of those before.
function drawVerdict(root, page) {
  const { head } = page, list = element("ul", { class: "verdict" });
  for (const { good, text, more } of verdictsOf(head)) {
    const [mark, style] = good === true ? ["✓", "good"] : good === false ? ["✗", "bad"] : good ? ["!", good] : ["–", null];
    list.append(element("li", { class: style }, element("b", { "aria-hidden": "true" }, mark), element("span", {}, text),
      more.length ? element("ul", {}, ...more.slice(0, 20).map((line) => element("li", {}, line))) : null));
  }
  root.replaceChildren(element("p", { class: "about" }, briefOf(head)), ...drawResult(head), list, ...head.notes.map((note) => element("p", { class: "note" }, note)));
}

// drawSettings shows what was run, with the command and the options that were chosen.
function drawSettings(root, page) {
  const { head } = page, part = drawOrigin(root, { facts: factsOf(head), command: head.command }), chosen = chosenOf(head);
  if (!chosen.length) return;
  part.append(element("h3", {}, "Settings"), element("p", { class: "about" }, "Options that a flag, the environment, a file or the scenario set. All others have the values of the preset."));
  new Table(part, ["option", "value", "from"], "whole").show(chosen);
}
