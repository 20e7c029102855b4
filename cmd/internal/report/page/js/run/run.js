"use strict";
// Run: the page of one run. All charts over time and all numbers follow one range.

pages.run = (page, root) => {
  root.append(element("h1", {}, page.title));
  const verdict = element("div", {});
  root.append(verdict);
  drawVerdict(verdict, page);
  const requests = new Requests(page);
  if (requests.length === 0) {
    root.append(element("p", { class: "note" }, "There is no record of a request: there is nothing to draw."));
    drawSettings(root, page);
    return null;
  }
  const range = new TimeRange(requests.time[0], pageEnd(page.head));
  range.shades = shadesOf(page, range);
  rangeBar(root, range, (r) => r.selected || page.head.stride > 1 ? describeRange(page, requests, r) : "");
  drawOverTime(root, page, requests, range);
  drawNumbers(root, page, requests, range);
  drawLanes(root, page, requests, range);
  drawParts(root, page);
  drawDistributions(root, page, requests, range);
  drawSettings(root, page);
  drawGlossary(root, Object.keys(glossary));
  bindFragment(range);
  requests.sortSoon();
  return new DrawnRun(page, requests, range, verdict);
};

// DrawnRun is what is drawn of a run that is played: a later page of the run takes its place where it has the same charts.
class DrawnRun {
  constructor(page, requests, range, verdict) {
    Object.assign(this, { page, requests, range, verdict, outline: page.head.from && this.outlineOf(requests) }); // the last page has no later one
  }

  // outlineOf tells pages apart that do not have the same charts with the same marks.
  outlineOf(requests) {
    const { head, tables } = requests.page;
    return JSON.stringify([head.stride > 1, Boolean(head.summary.arrivals), waitingName(head.summary.arrivals), haveWaited(requests), haveChildren(requests), failuresOf(requests.page), Array.from(requests.lanes), Boolean(tables.bins), serversOf(requests.page).map(Object.keys)]);
  }

  // replace draws a later page; false: it needs charts that are not there.
  replace(page) {
    const { requests, range } = this;
    if (page.tables.requests.rows === 0) return false;
    Object.assign(this.page, page); // the charts hold it
    requests.replace(this.page);
    if (this.outlineOf(requests) !== this.outline) return false;
    drawVerdict(this.verdict, page);
    range.whole.to = pageEnd(page.head);
    range.shades = shadesOf(page, range);
    range.grow(requests.time[0], range.whole.to);
    return true;
  }
}

// pageEnd returns when the last request was over.
function pageEnd(head) {
  const ends = [(head.ends[0] - head.shift - head.zero) / 1e9, (head.ends[1] - head.zero) / 1e9].filter((_, phase) => head.requests[phase]);
  return Math.max(...ends);
}

// shadesOf returns the parts of the time in which nothing is sent that is measured.
function shadesOf(page, range) {
  const { head } = page, shades = [];
  if (head.requests[0] && range.whole.from < 0) shades.push({ from: range.whole.from, to: 0, name: "warmup" });
  const sending = (head.sending - head.zero) / 1e9;
  if (head.sending > 0 && head.requests[1] && sending < range.whole.to) shades.push({ from: sending, to: range.whole.to, name: head.summary.headline === "grace_included" ? "grace" : "cooldown" });
  const whole = (head.whole - head.zero) / 1e9;
  if (head.whole > 0 && whole < range.whole.to) shades.push({ from: whole, to: range.whole.to, name: "open: not all known" });
  return shades;
}

function describeRange(page, requests, range) {
  const { head } = page, [from, to] = rowsWithin(range, requests.time), all = head.requests[0] + head.requests[1];
  const { measured } = requests.counts(from, to);
  const drawn = head.stride > 1 ? ` The page has one request in ${head.stride}: chosen by a hash of their number in the order of sending; ${groupDigits(String(requests.length))} of ${groupDigits(String(all))}.` : "";
  return `${formatCount(to - from, "request")} started here, ${groupDigits(String(measured))} of them measured.${drawn}`;
}

// numbersOf returns the rows of the table of percentiles: {metric, stat, intervals}. With nothing selected they are those of the summary.
function numbersOf(page, requests, range) {
  const { summary, intervals, stride, metrics } = page.head;
  const [from, to] = rowsWithin(range, requests.time);
  return metrics.map((metric) => {
    const whole = range.selected ? null : summary[metric.key] || (summary.other_metrics || {})[metric.key] || (stride > 1 ? statOf([]) : null); // an older summary lacks some
    return { metric, stat: whole || statOf(requests.sorted(metric.name, from, to)), intervals: whole && intervals && intervals.of ? intervals.of[metric.name] || {} : {} };
  });
}

const statNames = ["mean", "p50", "p75", "p90", "p95", "p99", "max"];

function drawNumbers(root, page, requests, range) {
  const part = section(root, "Numbers", "Of requests that ended well. A request belongs to the range in which it started.");
  const table = new Table(part, ["figure", "requests", ...statNames], "numbers");
  const sums = element("p", { class: "sums" }), sure = element("p", { class: "about" });
  part.append(sums, sure);
  const ofWhole = page.head.intervals && page.head.intervals.of || {};
  const show = () => {
    table.show(numbersOf(page, requests, range).map(({ metric, stat, intervals }) => [
      metric.label, { text: groupDigits(String(stat.n)), value: stat.n },
      ...statNames.map((name) => numberCell(stat[name], metric.unit, intervals[name], (ofWhole[metric.name] || {})[name], fewSamples(stat.n, name))),
    ]));
    sums.textContent = sumsText(page, requests, range);
    sure.textContent = `${sureText(page.head, range)} ${fewNote}`.trim();
  };
  watchLater(range, show);
  show();
}

// numberCell is a number, and below it the interval where there is one. Room for the interval of the whole stays, so that nothing below the
// table moves when a range is selected.
function numberCell(value, unit, interval, ofWhole, few) {
  const text = formatValue(value, unit) + (few ? "?" : ""), number = value === null ? NaN : value;
  if (!interval) return { text, value: number, title: String(value), below: ofWhole ? "\u00a0" : null };
  return { text, value: number, title: `${value}, 95 %: ${interval[0]} to ${interval[1]}`, below: `${formatValue(interval[0], unit)} to ${formatValue(interval[1], unit)}` };
}

function sureText(head, range) {
  if (head.stride > 1 && range.selected) return "These numbers are of the requests that the page has. Intervals are of the whole run alone.";
  if (!head.intervals) return "";
  if (range.selected) return "Intervals are of the whole run alone.";
  return head.intervals.why || "Below a figure: where it lies with 95 % (1,000 resamples of the trees).";
}

// sumsText says what went through in a range.
function sumsText(page, requests, range) {
  const { summary, stride } = page.head, counted = (name) => requests.counts(...rowsWithin(range, requests.time))[name];
  const seconds = range.to - range.from, whole = !range.selected;
  const margin = clockMargin(summary, whole ? summary.throughput_window.seconds : seconds);
  const ratio = (name) => ratioOf(page.head.ratios[name], seconds, counted), rate = (known, name) => formatValue(whole ? known : ratio(name), "/s") + margin;
  const sum = (name) => formatValue(whole ? summary[name] : counted(name), "");
  const parts = [
    `${sum("measured")} ${(whole ? summary.measured : counted("measured")) === 1 ? "request" : "requests"} (${rate(summary.request_rate, "request_rate")})`,
    `${sum("prompt_tokens")} prompt tokens (${rate(summary.prompt_token_rate, "prompt_token_rate")})${cachedText(whole ? summary.token_hit_rate : ratio("token_hit_rate"))}`,
    `${sum("output_tokens")} output tokens (${rate(summary.output_token_rate, "output_token_rate")})`,
  ];
  const failed = whole ? summary.errors || {} : counted("errors");
  parts.push(failedText(failed));
  if (summary.goodput && summary.goodput.conditions.some((c) => c.of_each)) parts.push(goodText(whole ? summary.goodput : goodOf(page.head, counted, seconds), whole, margin));
  const window = summary.throughput_window, late = whole && window.kind === "delivered" && window.requests !== summary.measured;
  return `${parts.join("; ")}${stride > 1 && !whole ? ` (of one request in ${stride})` : ""}.${late ? ` Rates are of what came in the ${formatDuration(window.seconds)} up to the deadline.` : ""}`;
}

const mostCategories = 12; // of failures, in one sentence

// failedText says how many requests failed, by category.
function failedText(failed) {
  const names = Object.keys(failed).sort(), more = names.length - mostCategories;
  if (!names.length) return "none failed";
  const list = names.slice(0, mostCategories).map((category) => `${groupDigits(String(failed[category]))} ${shorten(category, longestCategory)}`);
  return `failed: ${list.join(", ")}${more > 0 ? `, and of ${more} more categories` : ""}`;
}

function cachedText(share) { return share === null || Number.isNaN(share) ? "" : `, ${formatValue(share, "%")} of them cached`; }

// goodOf returns the goodput of a selection of so many seconds; counted returns a sum by its name.
function goodOf({ summary, ratios }, counted, seconds) {
  const of = (ratio) => ratioOf(ratio, seconds, counted);
  return { ...summary.goodput, requests: counted("good"), rate: of(ratios.goodput), share: of(["good", "judged"]) };
}

// goodText says how many requests met the service levels, and of the whole run how many trees.
function goodText(good, whole, margin = "") {
  const trees = whole && good.tree_share !== null ? `, and all requests of ${formatCount(good.trees, "tree")} (${formatValue(good.tree_share, "%")}),` : "", levels = good.conditions.filter((c) => c.of_each);
  return `goodput ${formatValue(good.rate, "/s")}${margin}: ${formatCount(good.requests, "request")} (${formatValue(good.share, "%")})${trees} meet ${levels.map((c) => c.condition).join(", ")}`;
}
