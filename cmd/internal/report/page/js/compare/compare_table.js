"use strict";
// The table of a comparison: a row a figure, a column a run.

// A FigureTable has a row a figure and a column a run, with the difference to the first.
class FigureTable {
  constructor(page, runs, range, root) {
    Object.assign(this, { page, runs, range, all: false });
    const parent = section(root, "Figures", `Differences are to the first run. ✱ differs by 1 % or more and beyond its interval, ≈ does not; other figures decide nothing. Below a value: its 95 % interval. Below a difference: its interval, of ${page.head.level[0]} where it has a sign (${page.head.level[1]}), else of 95 %. ` + fewNote);
    const button = element("button", { type: "button", onclick: () => {
      this.all = !this.all;
      button.textContent = this.all ? "Fewer figures" : "All figures";
      this.show();
    } }, "All figures");
    this.body = element("tbody", {});
    const names = runs.map((run) => element("th", { scope: "col" }, swatch({ style: run.style, swatch: "line" }), element("div", {}, run.name), run.marked ? element("div", { class: "mark" }, "see remarks") : null));
    parent.append(scrolledTable(["figure", ...names], this.body, "figures"),
      button, " ", ...copyButtons(() => this.csv()));
    range.watch((what) => { if (what === "range") this.show(); });
    this.show();
  }

  // rows returns {figure, cells} of what is shown: cells as {value, interval, difference} of each run.
  rows() {
    const { head } = this.page, stats = this.runs.map(() => ({}));
    return head.order.filter((figure) => this.all || figure.main).map((figure) => {
      const cells = this.runs.map((run, k) => this.range.selected ? this.selectedCell(run, figure, stats[k]) : run.figures[figure.name]);
      if (this.range.selected) {
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
    this.body.replaceChildren(...this.rows().map(({ figure, cells }) => element("tr", {}, element("th", { scope: "row" }, figure.name.replace(/_/g, " ").replace(".", " ")),
      ...cells.map((cell, k) => this.cell(figure, cell, this.runs[k])))));
  }

  cell(figure, cell, run) {
    const unit = unitOf(figure), { difference, interval } = cell;
    const below = [];
    if (difference && isKnown(difference.ratio) && isKnown(cell.value)) {
      const sign = difference.judged ? difference.differs ? " ✱" : " ≈" : "";
      below.push(element("div", { class: difference.differs ? "differs" : "below" }, formatChange(difference.ratio) + (unit === "%" && difference.ratio && difference.ratio < 2 ? " relative" : "") + sign));
      if (difference.trees) below.push(element("div", { class: "below" }, `over ${formatCount(difference.trees, "common tree")}`));
      const shown = difference.deciding || difference.interval; // the one that decides the sign
      if (shown) below.push(element("div", { class: "below", title: `${difference.deciding ? this.page.head.level[0] : "95 %"} interval of the difference, ${difference.method}${difference.deciding ? `: ${this.page.head.level[1]}` : ""}` }, `${formatChange(shown.low)} to ${formatChange(shown.high)}`));
    } else if (interval) {
      below.push(element("div", { class: "below", title: "95 % interval" }, `${formatValue(interval.low, unit)} to ${formatValue(interval.high, unit)}`));
    }
    return element("td", { class: run.marked ? "marked" : null }, valueText(cell, unit), ...below);
  }

  csv() {
    const head = ["figure", "unit"];
    for (const run of this.runs) head.push(run.name, `${run.name}, difference`);
    return [head, ...this.rows().map(({ figure, cells }) => [figure.name, figure.unit, ...cells.flatMap((cell) => [cell.value ?? NaN, cell.difference ? cell.difference.ratio ?? NaN : NaN])])];
  }
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
