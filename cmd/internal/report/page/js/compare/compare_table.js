"use strict";
// The table of a comparison: a row a figure, a column a run.

// A FigureTable has a row a figure and a column a run that is shown, with the difference to the run that it is compared with.
class FigureTable {
  constructor(page, shown, range, root) {
    Object.assign(this, { page, shown, range, all: false });
    const [level, together] = page.head.level, differences = `Differences are to the first ${shown.several ? "series" : "run"}. ✱ differs by 1 % or more, and its interval does not have 0; = differs by less; ~ is not decided; figures without a sign decide nothing. Below a difference: its interval, of ${level} where it has a sign (${together}), else of 95 %. `;
    const parent = section(root, "Figures", `${shown.sweep ? "" : differences}Below a value: its 95 % interval. ${fewNote}`);
    const button = element("button", { type: "button", onclick: () => {
      this.all = !this.all;
      button.textContent = this.all ? "Fewer figures" : "All figures";
      this.show();
    } }, "All figures");
    this.body = element("tbody", {});
    const names = shown.slots.map(({ name, style, run }) => element("th", { scope: "col" }, swatch({ style, swatch: "line" }), element("div", {}, name), run && run.marked ? element("div", { class: "mark" }, "see remarks") : null));
    parent.append(scrolledTable(["figure", ...names], this.body, "figures"),
      button, " ", ...copyButtons(() => this.csv()));
    range.watch((what) => { if (what === "range") this.show(); });
    shown.watch(() => this.show());
    this.show();
  }

  // rows returns {figure, cells} of what is shown: cells as {value, interval, difference} of each run.
  rows() {
    const { head } = this.page, { slots, sweep } = this.shown, stats = slots.map(() => ({}));
    return head.order.filter((figure) => this.all || figure.main).map((figure) => {
      const cells = slots.map(({ run }, k) => run ? this.range.selected ? this.selectedCell(run, figure, stats[k]) : run.figures[figure.name] : { value: NaN });
      if (this.range.selected && !sweep) {
        for (const cell of cells.slice(1)) cell.difference = { ratio: cell.value === cells[0].value ? 0 : (cell.value - cells[0].value) / cells[0].value, interval: null };
      }
      return { figure, cells };
    }).filter(({ cells }) => cells.some((cell) => isKnown(cell.value)));
  }

  selectedCell(run, figure, stats) {
    if (!figure.of_each) return { value: this.selectedValue(run, figure) };
    const stat = stats[figure.metric] = stats[figure.metric] || statOf(run.sorted(figure.metric, this.range));
    return { value: stat[figure.statistic], few: fewSamples(stat.n, figure.statistic) };
  }

  // selectedValue returns what a metric of a run is of its requests in the range; rates of a page that has not all of them are of all.
  selectedValue(run, { ratio }) {
    const known = (name) => run.counted[name] || run.columns[name] || name === "seconds", share = ratio[1] === "seconds" && run.rows ? run.sampled.all / run.rows : 1;
    return ratio.every(known) ? share * ratioOf(ratio, this.range.to - this.range.from, (name) => run.sum(name, this.range)) : NaN;
  }

  show() {
    this.body.replaceChildren(...this.rows().map(({ figure, cells }) => element("tr", {}, element("th", { scope: "row" }, figureTitle(figure)),
      ...cells.map((cell, k) => figureCell(this.page.head, figure, cell, this.shown.slots[k].run)))));
  }

  csv() {
    const head = ["figure", "unit"];
    for (const { name } of this.shown.slots) head.push(name, `${name}, difference`);
    return [head, ...this.rows().map(({ figure, cells }) => [figure.name, figure.unit, ...cells.flatMap((cell) => [cell.value ?? NaN, cell.difference ? cell.difference.ratio ?? NaN : NaN])])];
  }
}

// figureTitle names a figure: ttft p95.
function figureTitle({ name }) { return name.replace(/_/g, " ").replace(".", " "); }

const decisionSigns = { differs: " ✱", small: " =", open: " ~" };

// figureCell is a cell with a figure of a run, and below it its difference with the interval that decides, or its own interval.
function figureCell({ level }, figure, cell, run) {
  const unit = unitOf(figure), { difference, interval } = cell, below = [], small = (text, title) => below.push(element("div", { class: "below", title }, text));
  if (difference && isKnown(difference.ratio) && isKnown(cell.value)) {
    const way = betterWay(figure, difference);
    below.push(element("div", { class: way || "below" }, formatChange(difference.ratio) + (unit === "%" && difference.ratio && difference.ratio < 2 ? " relative" : "") + (decisionSigns[difference.decision] || ""),
      way ? element("span", { class: "way" }, ` ${way === "better" ? "▲" : "▼"} ${way}`) : null));
    if (difference.trees) small(`over ${formatCount(difference.trees, "common tree")}${difference.pair ? `: ${formatValue(difference.pair[0], unit)} to ${formatValue(difference.pair[1], unit)}` : ""}`);
    const shown = difference.deciding || difference.interval; // the one that decides the sign
    if (shown) small(`${formatChange(shown.low)} to ${formatChange(shown.high)}`, `${difference.deciding ? level[0] : "95 %"} interval of the difference, ${difference.method}${difference.deciding ? `: ${level[1]}` : ""}`);
    if (difference.more_trees) small(`about ${formatValue(difference.more_trees, "")} more ${difference.more_trees === 1 ? "tree" : "trees"} would decide`);
  } else if (interval) small(`${formatValue(interval.low, unit)} to ${formatValue(interval.high, unit)}`, "95 % interval");
  return element("td", { class: run && run.marked ? "marked" : null }, valueText(cell, unit), ...below);
}

// betterWay says whether a figure that differs is better or worse than the other: "better", "worse", or "" where it does not differ, or neither is.
// A figure of a whole run has no interval: it differs from 1 % on.
function betterWay({ better, of_each: ofEach }, { ratio, differs }) {
  if (!better || !(differs || !ofEach && Math.abs(ratio) >= 0.01)) return "";
  return ratio * better > 0 ? "better" : "worse";
}

function isKnown(value) { return value !== null && value !== undefined && Number.isFinite(value); }

// valueText writes the value of a cell, with a mark behind a percentile of few samples.
function valueText(cell, unit) { return formatValue(cell.value, unit) + (cell.few ? "?" : ""); }

// unitOf returns the unit of a figure as formatValue takes it: shares are written in per cent.
function unitOf(figure) {
  if (figure.unit === "" && !figure.of_each) return "%";
  return figure.unit === "1/s" ? "/s" : figure.unit;
}

// formatChange writes a difference as a share, with its sign: +3.2 %. What is three times as much and more is written as a factor.
function formatChange(ratio) {
  if (ratio >= 2) return `×${significant(1 + ratio, 3)}`;
  const size = Math.abs(ratio) * 100, text = size.toFixed(size < 1 ? 2 : 1);
  return Number(text) === 0 ? "0 %" : `${ratio < 0 ? "−" : "+"}${text} %`;
}
