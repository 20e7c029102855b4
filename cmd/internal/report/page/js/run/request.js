"use strict";
// Request: one request with its place in the recording, in a panel below the chart in which it was picked.

class RequestPanel {
  constructor(parent, requests) {
    this.requests = requests;
    this.element = element("div", { class: "request", hidden: true, role: "status" });
    parent.append(this.element);
  }

  show(i) {
    this.element.replaceChildren();
    this.element.hidden = i < 0;
    if (i < 0) return;
    this.element.append(element("h3", {}, "Request"), requestFacts(this.requests, i));
  }
}

// RequestCard shows a request beside the dot that was clicked, until another is, or Escape is pressed.
class RequestCard {
  constructor(chart, requests) {
    Object.assign(this, { chart, requests });
    this.element = element("div", { class: "request card", hidden: true, role: "status" });
    chart.plot.append(this.element);
    for (const type of ["pointerdown", "pointerup", "dblclick", "wheel"]) this.element.addEventListener(type, (event) => event.stopPropagation());
    chart.plot.addEventListener("keydown", (event) => { if (event.key === "Escape") this.show(-1); });
    requests.watchPicked((i) => { if (i !== this.picked) this.show(-1); });
    if (chart.time) chart.time.watch((what) => { if (what === "range") this.show(-1); });
  }

  show(i, px, py) {
    this.picked = i;
    this.element.hidden = i < 0;
    if (i < 0) return;
    const { plot, height } = this.chart, right = px > plot.clientWidth / 2, close = () => this.show(-1);
    this.element.replaceChildren(element("div", { class: "cardbar" }, element("h3", {}, "Request"), element("button", { type: "button", onclick: () => this.requests.reveal() }, "Show its lane"), element("button", { type: "button", onclick: close }, "Close")), requestFacts(this.requests, i));
    Object.assign(this.element.style, { left: right ? "" : `${px + 12}px`, right: right ? `${plot.clientWidth - px + 12}px` : "", top: py > height / 2 ? "" : `${py}px`, bottom: py > height / 2 ? `${height - py}px` : "" });
  }
}

function requestFacts(requests, i) { return factList(describeRequest(requests, i)); }

// describeRequest returns [name, value] of what is known of a request.
function describeRequest(requests, i) {
  const { tables, head } = requests.page, session = requests.session[i], tree = tables.sessions.columns.tree[session];
  const { lane, pass, trace, ordinal } = tables.trees.columns, seconds = (value) => formatValue(value, "s"), facts = [];
  const add = (name, value) => { if (value !== unknown && value !== "") facts.push([name, value]); };
  add("session", requests.sessionLabel(session));
  add("turn", String(requests.turn[i]));
  add("recording", `trace ${shorten(trace.at(tree), 80)}, request ${requests.outer[i]}${requests.inner[i] >= 0 ? `, inner ${requests.inner[i]}` : ""}`);
  add("lane, tree", `${lane[tree]}, ${ordinal[tree]}${pass[tree] ? ` (pass ${pass[tree]} of the trace)` : ""}`);
  const { parts } = head.summary;
  if (parts) add("part", `${lane[tree] % parts.of}`);
  add("sent", `${seconds(requests.time[i])}${requests.isWarmup(i) ? ", warmup" : ""}`);
  add("waited for its turn", requests.queued[i] > 0 ? seconds(requests.queued[i] / 1e9) : "");
  add("late", seconds(requests.metrics.lateness[i]));
  add("time to first token", seconds(requests.metrics.ttft[i]));
  add("decode", seconds(requests.decode[i] / 1e9));
  add("latency", seconds(requests.metrics.latency[i]));
  add("inter-token latency", seconds(requests.metrics.itl[i]));
  add("prompt", `${formatValue(requests.prompt_tokens[i], "tokens")}${requests.cached[i] >= 0 ? `, ${formatValue(requests.cached[i], "")} cached` : ""} (${formatValue(requests.recorded[i], "")} recorded, of ${formatValue(requests.blocks[i], "")} blocks ${formatValue(requests.new_blocks[i], "")} new)`);
  add("output", `${formatValue(requests.metrics.output_tokens[i], "tokens")} of ${formatValue(requests.asked[i], "")} asked`);
  if (requests.failure[i] > 0) {
    const { category, code, message } = tables.failures.columns, k = requests.failure[i] - 1;
    add("failed", `${category.at(k)}${code[k] ? ` (${code[k]})` : ""}: ${message.at(k)}`);
  }
  if (head.summary.run.urls && head.summary.run.urls.length > 1) add("server", head.summary.run.urls[requests.server[i]] || "");
  return facts;
}
