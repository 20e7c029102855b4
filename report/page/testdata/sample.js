"use strict";
// sample is the page of the tests of this package: charts of made-up numbers.
pages.sample = function (page, root) {
  const { start, end } = page.tables.requests.columns;
  const range = new TimeRange(-20, 310);
  range.shades = [{ from: -20, to: 0, name: "warmup" }, { from: 285, to: 310, name: "cooldown" }];
  root.append(element("h1", {}, page.title));
  rangeBar(root, range, () => "");
  const charts = element("div", { class: "charts" });
  section(root, "Load").append(charts);
  const flight = countOpen(start, end);
  new Chart(charts, { title: "Requests in flight", about: "Requests that were sent and have not ended.", x: range, y: { zero: true }, marks: [new Line({ name: "in flight", step: true, ...flight })] });
  bindFragment(range);
};
