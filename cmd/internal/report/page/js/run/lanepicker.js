"use strict";
// Lane picker: the chart of lanes with what chooses the lanes that it shows: all, or one with each session on a line of its own.

const mostTrackHeight = 44, leastTrackHeight = 24;

function drawLanes(root, page, requests, range) {
  const part = section(root, "Lanes", "What each agent did, and where it waited. A box is a tree; in it each session has a line, the main one above. Click a tree to see its lane alone, a request for its numbers.");
  const mark = new Lanes(requests, range), places = mark.shown, rows = places.length;
  const all = element("button", { type: "button", onclick: () => focus(-1) }, "All lanes"), name = element("span", {}), under = element("output", { class: "about" });
  part.append(element("div", { class: "lanebar" }, laneLegend(), name, all, under));
  const holder = element("div", { class: "charts" });
  part.append(holder);
  const chart = new LaneChart(holder, { title: formatCount(rows, "lane"), x: range, marks: [mark], height: laneHeight(rows), y: { unit: "", name: "lane" },
    about: "Up and down choose a lane, Enter its requests.", pointed: ({ px, py }) => pick(px, py) });
  chart.figure.classList.add("wide");
  const panel = new RequestPanel(part, requests);
  requests.watchPicked((i) => { mark.picked = i; panel.show(i); chart.redraw(); });
  requests.reveal = () => { part.scrollIntoView({ block: "start" }); focus(mark.tracks.placeOf(requests.picked)); };

  function focus(place) {
    mark.shown = place < 0 ? places : [place];
    chart.resize(place < 0 ? laneHeight(rows) : Math.max(104, 44 + Math.min(900, mark.tracks.tracksOf[place] * Math.max(leastTrackHeight, Math.min(mostTrackHeight, 620 / mark.tracks.tracksOf[place])))));
    all.hidden = place < 0 || rows === 1;
    name.textContent = place < 0 ? "" : `Lane ${mark.tracks.lanes[place]}`;
    chart.invalidate();
  }

  function pick(px, py) {
    const i = mark.at(chart.pen, px, py), place = mark.laneAt(chart.pen, py);
    if (mark.shown.length > 1 && place !== undefined) focus(place);
    requests.pick(i);
  }

  chart.plot.addEventListener("pointermove", (event) => {
    if (!chart.pen) return;
    const box = chart.plot.getBoundingClientRect(), i = mark.at(chart.pen, event.clientX - box.left, event.clientY - box.top);
    under.textContent = i >= 0 ? barText(requests, i) : mark.dense ? denseText : "";
  });
  chart.plot.addEventListener("pointerleave", () => { under.textContent = ""; });
  chart.plot.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key], one = mark.shown.length === 1;
    if (event.key === "Escape" && rows > 1) focus(-1);
    if (!step) return;
    event.preventDefault();
    focus(one ? Math.min(rows - 1, Math.max(0, mark.shown[0] + step)) : step > 0 ? 0 : rows - 1);
  });
  focus(rows === 1 ? 0 : -1);
}

const denseText = "There are too many requests for a bar each: a row shows which share of the time requests were in flight. Zoom in, or click a lane.";

// laneHeight returns the height of the chart of so many lanes.
function laneHeight(rows) { return Math.round(44 + Math.min(640, rows * Math.min(46, Math.max(10, 480 / rows)))); }

// barText says what a request under the pointer is.
function barText(requests, i) {
  const seconds = (value) => formatValue(value, "s"), { trees } = requests.page.tables, tree = requests.tracks.tree[requests.session[i]];
  const parts = [`lane ${trees.columns.lane[tree]}`, `${shorten(requests.sessionLabel(requests.session[i]), 60)}, turn ${requests.turn[i]}`];
  if (requests.due[i] < requests.time[i] - 1e-3) parts.push(`waited ${seconds(requests.time[i] - requests.due[i])}`);
  parts.push(Number.isNaN(requests.ttft[i]) ? `no token in ${seconds(requests.end[i] - requests.time[i])}` : `prefill ${seconds(requests.metrics.ttft[i])}, decode ${seconds(requests.decode[i] / 1e9)}`);
  parts.push(`${formatValue(requests.prompt_tokens[i], "")} tokens in, ${formatValue(requests.metrics.output_tokens[i], "")} out`);
  if (requests.failure[i] > 0) parts.push(`failed: ${requests.category(i)}`);
  return parts.join(" · ");
}

// laneLegend explains shades and colours.
function laneLegend() {
  const box = (style, shade, text) => element("span", { class: "key" }, element("i", { style: { background: `var(--series-${style + 1})`, opacity: shade } }), text);
  return element("span", { class: "keys" }, box(styleOf.main, shadeOf.wait, "waiting to be sent"), box(styleOf.main, shadeOf.prefill, "prefill"), box(styleOf.main, shadeOf.decode, "decode"),
    box(styleOf.child, 1, "subagent"), box(styleOf.failed, 1, "failed ×"));
}

// LaneChart is a chart whose y axis counts lanes, the first above.
class LaneChart extends Chart {
  rangeY() {
    const { shown } = this.marks[0];
    this.span = [0, shown.length];
    this.y.label = (value) => this.laneLabel(value);
    return [0.5 - shown.length, 0.5];
  }

  // laneLabel writes the number of a lane; its middle is at its place, below 0.
  laneLabel(value) {
    const { shown, tracks } = this.marks[0], place = Math.round(-value);
    return place >= 0 && place < shown.length && Math.abs(-value - place) < 1e-9 ? String(tracks.lanes[shown[place]]) : "";
  }

  resize(height) {
    this.height = height;
    this.plot.style.height = `${height}px`;
  }
}
