"use strict";
// The front page of a directory: its runs as a table, which the reader sorts, filters, and ticks to compare.

pages.index = function (page, root) {
  const { head } = page;
  root.append(element("h1", {}, page.title));
  const table = new IndexTable(head, root);
  if (head.served) watchRuns(table);
};

const indexRefresh = 5000; // milliseconds

// watchRuns asks the server for the runs as long as the page is seen.
function watchRuns(table) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("data");
      if (!answer.ok) throw new Error(answer.statusText);
      table.update(await answer.json());
    } catch { table.lost(); }
  }, indexRefresh);
}

// indexColumns are the columns: title, the value by which rows are sorted, and what the cell shows.
function indexColumns({ columns }) {
  const text = (title, of) => ({ title, of, cell: (run) => of(run), text: true });
  return [
    { title: "run", of: indexName, text: true, cell: (run) => run.page ? element("a", { href: run.page }, indexName(run)) : indexName(run), below: (run) => run.label ? run.dir : "" },
    { title: "started, UTC", of: (run) => run.start, cell: (run) => run.start ? run.start.slice(0, 10) : unknown, below: (run) => run.start.slice(11, 16) },
    text("model", (run) => run.model), { ...text("served by", (run) => run.served), cell: (run) => run.served.replace(/(\d) (?=\S+$)/, "$1\u00a0") }, // 8 H200
    { title: "lanes", of: (run) => run.lanes || NaN, cell: (run) => run.lanes ? String(run.lanes) : unknown },
    ...columns.map(({ name, title, unit }) => ({ title, of: (run) => run.figures[name] ?? NaN, cell: (run) => formatValue(run.figures[name], unit === "" ? "%" : unit === "1/s" ? "/s" : unit) })),
    { title: "conclusion", of: (run) => run.verdict, cell: (run) => run.verdict, text: true, mark: true },
  ];
}

function indexName(run) { return run.label || run.dir; }

// sortedRuns returns the runs by a column, those without a value last.
function sortedRuns(runs, of, descending) {
  const sign = descending ? -1 : 1, missing = (value) => value === "" || Number.isNaN(value);
  return [...runs].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  });
}

// quoteArgument writes an argument for a shell.
function quoteArgument(text) { return /^[\w./,=:@+-]+$/.test(text) && !text.startsWith("-") ? text : `'${(text.startsWith("-") ? `./${text}` : text).replace(/'/g, "'\\''")}'`; }

// An IndexTable has a row a run.
class IndexTable {
  constructor(head, root) {
    Object.assign(this, { head, runs: head.runs, ticked: new Set(), descending: true, words: "" });
    const told = ({ of }) => head.runs.map(of).some((value) => typeof value === "string" ? value : Number.isFinite(value));
    this.columns = indexColumns(head).filter((column) => head.served || told(column));
    this.by = this.columns.find(({ title }) => title === "started, UTC") || this.columns[0];
    this.note = element("p", { class: "about", role: "status" });
    this.choice = element("p", { class: "choice" });
    const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the runs by name, model, server or conclusion", oninput: () => { this.words = filter.value.toLowerCase(); this.show(); } });
    this.heads = this.columns.map((column) => element("th", { scope: "col", class: column.text ? "text" : null }, element("button", { type: "button", class: "sort", onclick: () => this.sort(column) }, column.title)));
    this.body = element("tbody", {});
    root.append(element("p", {}, filter), this.note, this.choice, scrolledTable([element("th", { scope: "col" }, "compare"), ...this.heads], this.body, "index"),
      element("p", { class: "copy" }, ...copyButtons(() => [this.columns.map(({ title }) => title), ...this.shown().map((run) => this.columns.map(({ of }) => of(run)))])));
    this.show();
  }

  sort(column) {
    this.descending = this.by === column ? !this.descending : column.title === "started, UTC";
    this.by = column;
    this.show();
  }

  update(runs) {
    this.runs = runs;
    this.show();
  }

  lost() { this.note.textContent = "The server does not answer: the table is as it was."; }

  shown() {
    const words = this.words.split(/\s+/).filter(Boolean), text = (run) => [run.label, run.dir, run.model, run.served, run.verdict].join(" ").toLowerCase();
    return sortedRuns(this.runs.filter((run) => words.every((word) => text(run).includes(word))), this.by.of, this.descending);
  }

  show() {
    const shown = this.shown();
    this.note.textContent = `${formatCount(shown.length, "run")}${shown.length < this.runs.length ? ` of ${this.runs.length}` : ""}. ${this.linkText(shown)}`;
    this.columns.forEach((column, k) => this.heads[k].setAttribute("aria-sort", column !== this.by ? "none" : this.descending ? "descending" : "ascending"));
    this.body.replaceChildren(...shown.map((run) => element("tr", {}, this.tick(run), ...this.columns.map((column, k) => this.cell(column, run, k)))));
    this.showChoice();
  }

  cell(column, run, k) {
    const below = column.below && column.below(run), state = k === 0 && run.state !== "ended" ? element("div", { class: "below" }, run.state) : null;
    return element(k ? "td" : "th", { scope: k ? null : "row", class: [column.text && "text", column.mark && (run.missed ? "mark" : run.doubt && "doubt")].filter(Boolean).join(" ") || null }, column.cell(run), below ? element("div", { class: "below" }, below) : null, state,
      k === 0 && run.comparison ? element("div", { class: "below" }, element("a", { href: run.comparison }, "Comparison")) : null);
  }

  // linkText says which names are links.
  linkText(shown) {
    const linked = shown.filter(({ page }) => page).length, sweeps = shown.some(({ comparison }) => comparison);
    const text = !linked ? " None has a report.html." : linked < shown.length ? ` A name that is a link opens the page of the run: ${linked} have one.` : " A name opens the page of the run.";
    return sweeps ? `${text} “Comparison” opens that of the sweep.` : text;
  }

  tick(run) {
    const box = element("input", { type: "checkbox", "aria-label": `Compare ${indexName(run)}`, checked: this.ticked.has(run.dir), onchange: () => {
      this.ticked[box.checked ? "add" : "delete"](run.dir);
      this.showChoice();
    } });
    return element("td", {}, box);
  }

  // showChoice says how the ticked runs are compared: by a link of the server, or a command.
  showChoice() {
    const runs = sortedRuns(this.runs.filter(({ dir }) => this.ticked.has(dir)), ({ start }) => start, false);
    if (runs.length < 2) { this.choice.replaceChildren("Tick two runs or more to compare them, the earliest being the base."); return; }
    if (runs.length > this.head.most) { this.choice.replaceChildren(`A comparison has at most ${this.head.most} runs: ${runs.length} are ticked.`); return; }
    if (this.head.served) { this.choice.replaceChildren(element("a", { href: `compare?runs=${runs.map(({ number }) => number).join(",")}` }, `Compare ${runs.length} runs`)); return; }
    const command = `agentx report ${runs.map(({ dir }) => quoteArgument(dir)).join(" ")} --compare`;
    const copy = element("button", { type: "button", onclick: async () => { copy.textContent = await copyText(command) ? "Copied" : "Not copied: the browser refuses"; } }, "Copy");
    this.choice.replaceChildren("In this directory: ", element("code", {}, command), " ", copy);
  }
}
