"use strict";
// Sweeps: how figures change with a number in which runs differ, such as the workers.

// A SweepLine is a figure of the runs of a line, by that number. The point of a run that fails a gate or misses a level is hollow.
class SweepLine extends Line {
  draw(pen) {
    super.draw(pen);
    const { context } = pen;
    context.strokeStyle = context.fillStyle = pen.colour(this.style);
    context.lineWidth = 1.6;
    for (let i = 0; i < this.x.length; i++) {
      if (pen.drawable(this.y[i])) drawShape(context, this.style % filledShapes, pen.x.pixel(this.x[i]), pen.y.pixel(this.y[i]), 4, this.hollow[i]);
    }
  }
}

// sweepLines returns the lines of a figure along axis number at: {name, x, y, hollow} of each.
function sweepLines({ head, tables }, at, figure) {
  const values = tables.figures.columns[figure], axis = head.axes[at];
  const hollow = (k) => head.runs[k].levels?.length ? head.runs[k].levels.some(({ met }) => !met) : head.frontier.points[k].hollow;
  return axis.lines.map(({ name, runs }) => ({ name: name || "runs", x: runs.map((k) => axis.values[k]), y: runs.map((k) => values[k]), hollow: runs.map(hollow) }));
}

// sweepAxis returns the x axis of numbers in which runs differ, logarithmic where they were multiplied, not added to.
function sweepAxis(name, numbers) {
  const ticks = [...new Set(numbers)].sort((a, b) => a - b), least = ticks[0], most = ticks[ticks.length - 1], log = least > 0 && most / least >= 8;
  const room = log ? (most / least) ** 0.04 : (most - least) * 0.04;
  return { name, log, ticks, from: log ? least / room : least - room, to: log ? most * room : most + room, label: (value) => groupDigits(String(value)) };
}

// sweepKinds are the charts: a metric, a title, and whether it has statistics.
const sweepKinds = [
  ["ttft", "Time to first token", true], ["itl", "Inter-token latency", true], ["token_gap", "Gaps between tokens", true], ["latency", "Request latency", true],
  ["output_token_rate", "Output tokens per second"], ["output_token_rate_per_gpu", "Output tokens per second and GPU"], ["request_rate", "Requests per second"], ["good", "Good requests"], ["goodput", "Goodput"],
  ["reuse", "Reuse of prompt tokens"], ["token_hit_rate", "Share of prompt tokens that were cached"], ["error-rate", "Failed requests"], ["preemptions", "Preemptions"], ["gpu_hours", "GPU-hours"], ["duration", "Duration"],
];
const sweepStatistics = ["mean", "p50", "p90", "p95", "p99", "max"];
const limitStyle = seriesCount - 1; // grey

// sweepUnit is a unit of a figure as formatValue takes it.
function sweepUnit(unit) { return { "": "%", "1/s": "/s", 1: "" }[unit] ?? unit; }

// sweepCharts draw a chart a metric, against the number that the reader chooses. fails says which runs are hollow, limits what the limits are of.
function sweepCharts(page, root, fails, limits) {
  const { head } = page;
  if (!head.axes.length) return;
  const parent = section(root, `Against ${head.axes.map(({ title }) => title).join(", ")}`, `A point a run; one that ${fails} is hollow. Horizontal lines are the limits of ${limits}.`);
  const choices = element("p", {});
  parent.append(choices);
  const parts = head.axes.map((_, at) => new Sweep(page, at, parent));
  chooseOne(choices, "Against:", head.axes.map(({ title }) => title), 0, (chosen) => parts.forEach((part, at) => part.show(at === chosen)));
  chooseOne(choices, "Statistic:", sweepStatistics, sweepStatistics.indexOf(firstStatistic(head)), (chosen) => parts.forEach((part) => part.choose(sweepStatistics[chosen])));
}

// firstStatistic is that of the first gate that has one.
function firstStatistic(head) {
  const gate = head.gates.find(({ statistic }) => sweepStatistics.includes(statistic));
  return gate ? gate.statistic : "p95";
}

// A Sweep is the charts against one number.
class Sweep {
  constructor(page, at, parent) {
    Object.assign(this, { page, at, charts: [], element: element("div", { class: "charts" }) });
    parent.append(this.element);
    const figures = page.tables.figures.columns;
    for (const [metric, title, spread] of sweepKinds) {
      const values = figures[spread ? `${metric}.p50` : metric];
      if (values && values.some(Number.isFinite) && (!["preemptions", "error-rate"].includes(metric) || values.some((value) => value > 0))) this.charts.push(this.chart(metric, title, spread));
    }
  }

  chart(metric, title, spread) {
    const { head, tables } = this.page, x = sweepAxis(head.axes[this.at].title, head.axes[this.at].values);
    const limits = head.gates.filter((gate) => gate.metric === metric).map((gate) => new Line({ gate, name: gate.text, style: limitStyle, dash: [], width: 2.5, step: true, x: [x.from, x.to] }));
    const lines = head.axes[this.at].lines.map((_, k) => new SweepLine({ name: String(k), style: k, hidden: k >= mostShown }));
    sweepLines(this.page, this.at, spread ? `${metric}.p50` : metric).forEach((line, k) => Object.assign(lines[k], line));
    const chart = new Chart(this.element, {
      title, x, y: { unit: sweepUnit(tables.figures.units[spread ? `${metric}.p50` : metric]), zero: true }, marks: [...lines, ...limits], height: 220, empty: "no run has it",
    });
    return { chart, metric, title, spread, lines, limits };
  }

  show(on) {
    this.element.hidden = !on;
    for (const { chart } of this.charts) chart.invalidate();
  }

  // choose shows a statistic of the metrics that have some.
  choose(statistic) {
    for (const { chart, metric, title, spread, lines, limits } of this.charts) {
      sweepLines(this.page, this.at, spread ? `${metric}.${statistic}` : metric).forEach((line, k) => Object.assign(lines[k], line));
      for (const limit of limits) limit.y = limit.x.map(() => spread && limit.gate.statistic !== statistic ? NaN : limit.gate.limit);
      if (spread) chart.figure.querySelector("h3").textContent = `${title}, ${statistic}`;
      chart.invalidate();
    }
  }
}
