"use strict";
// Tables: rows of cells, and what they are as CSV.

// A Table shows rows under a head. A cell is a text, or {text, value, below, title, class}: value is what the CSV has where the text is rounded.
// The style "whole" is of a table that is as high as its rows.
class Table {
  constructor(parent, head, style = "") {
    this.head = head;
    this.body = element("tbody", {});
    this.rows = [];
    this.element = scrolledTable(head, this.body, style);
    const all = (cell) => [this.head.map((name) => typeof name === "string" ? name : name.textContent), ...this.rows.map((row) => row.map(cell))];
    parent.append(this.element, element("p", { class: "copy" }, ...copyButtons(() => all(cellValue), () => all(cellText))));
  }

  show(rows) {
    this.rows = rows;
    this.body.replaceChildren(...rows.map((row) => element("tr", {}, ...row.map((cell, i) =>
      element(i ? "td" : "th", { title: cell.title, class: cell.class, scope: i ? null : "row" }, typeof cell === "string" ? cell : cell.text, cell.below ? element("div", { class: "below" }, cell.below) : null)))));
  }
}

// scrolledTable makes a table that scrolls where it is too large. A cell of the head is a text, or an element.
function scrolledTable(head, body, style = "") {
  const cells = head.map((cell) => typeof cell === "string" ? element("th", { scope: "col" }, cell) : cell);
  return element("div", { class: `scroll ${style}`.trim(), tabindex: 0, role: "group", "aria-label": "Table" }, element("table", {}, element("thead", {}, element("tr", {}, ...cells)), body));
}

function cellValue(cell) { return typeof cell === "string" ? cell : cell.value ?? cell.text; }

function cellText(cell) { return typeof cell === "string" ? cell : cell.below && cell.below.trim() ? `${cell.text} (${cell.below})` : cell.text; }

// toCSV writes rows as RFC 4180 has them. A number that is not known is empty. A text that a spreadsheet would take for a formula gets
// an apostrophe.
function toCSV(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value) && value !== "-" && !/^-?[\d.]+(e[+-]?\d+)?$/i.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

// toMarkdown writes rows, the head first, as a table that Markdown shows unchanged.
function toMarkdown(rows) {
  const line = (cells) => `| ${cells.map((cell) => String(typeof cell === "number" && !Number.isFinite(cell) ? unknown : cell).replace(/[\\\x60*_{}\[\]<>|~#&]/g, "\\$&").replace(/[\r\n]+/g, " ")).join(" | ")} |\n`;
  return line(rows[0]) + `|${"---|".repeat(rows[0].length)}\n` + rows.slice(1).map(line).join("");
}

// copyButtons copy rows: as CSV those that one function returns, as Markdown those of the other.
function copyButtons(values, texts = values) {
  return [actionButton("Copy as CSV", () => copyText(toCSV(values()))), actionButton("Copy as Markdown", () => copyText(toMarkdown(texts())))];
}

// actionButton does what make does, and says whether that was possible.
function actionButton(name, make) {
  const button = element("button", { type: "button", class: "copy", onclick: async () => {
    button.textContent = await make() ? "Copied" : "Not copied: the browser refuses";
    setTimeout(() => { button.textContent = name; }, 1500);
  } }, name);
  return button;
}

// copyText reports whether the text is in the clipboard. A page that came over HTTP from another machine has no navigator.clipboard.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", {});
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

const mostRowsShown = 500; // of the data of a chart; the CSV has all

// dataTable is the data of a chart as a table, made when it is opened. Marks with the same x share a table.
function dataTable(chart) {
  const inside = element("div", {});
  const details = element("details", { class: "data", ontoggle: () => showData(chart, details, inside) }, element("summary", {}, "Data, picture"), inside);
  if (chart.time) chart.time.watch((what) => { if (what === "range") showData(chart, details, inside); });
  return details;
}

function showData(chart, details, inside) {
  inside.replaceChildren();
  if (!details.open) return;
  if (chart.stale) chart.draw();
  inside.append(element("p", { class: "copy" }, ...pictureButtons(chart)));
  for (const columns of joinColumns(chart)) {
    const rows = rowsOf(columns, chart.time), head = columns.map(({ name, unit }) => unit && unit !== "%" ? `${name}, ${unit}` : name);
    const table = element("tbody", {}, ...rows.slice(0, mostRowsShown).map((row) => element("tr", {}, ...row.map((value) =>
      element("td", {}, typeof value === "string" ? value : Number.isFinite(value) ? groupDigits(String(Number(value.toPrecision(7)))) : unknown)))));
    inside.append(scrolledTable(head, table));
    if (rows.length > mostRowsShown) inside.append(element("p", { class: "about" }, `The first ${mostRowsShown} of ${groupDigits(String(rows.length))} rows. The copy has all.`));
    inside.append(element("p", { class: "copy" }, ...copyButtons(() => [head, ...rows])));
  }
}

// joinColumns returns the columns of each table that the marks of a chart make: lists of {name, unit, values}, x first.
function joinColumns(chart) {
  const x = chart.time ? { name: "time", unit: "s" } : { name: chart.x.name || "x", unit: chart.x.unit || "" };
  const tables = [];
  for (const mark of chart.marks) {
    if (!mark.columns || !mark.name) continue;
    const columns = mark.columns(x, chart.y.unit, chart.y.name || "y");
    const same = tables.find((table) => table[0].name === columns[0].name && sameValues(table[0].values, columns[0].values));
    if (same) same.push(...columns.slice(1)); else tables.push(columns);
  }
  return tables;
}

function sameValues(a, b) { return a === b || a.length === b.length && a.every((value, i) => value === b[i]); }

// rowsOf returns the rows of columns, those within the range alone.
function rowsOf(columns, time) {
  const rows = [];
  for (let i = 0; i < columns[0].values.length; i++) {
    if (time && !time.has(columns[0].values[i])) continue;
    rows.push(columns.map(({ values }) => values instanceof Texts ? values.at(i) : values[i]));
  }
  return rows;
}
