"use strict";
// Requests: the table requests of a run as columns in the order of time, and the numbers over those of them that a range has. They are
// computed as the summary of the run is, step by step, so that they are the same to the last digit.

const secondsOfNanos = (ns) => Math.trunc(ns / 1e9) + (ns % 1e9) / 1e9;

// The metrics of a request, by their names in the summary.
const requestMetrics = [
  { name: "ttft", label: "Time to first token", unit: "s" },
  { name: "itl", label: "Inter-token latency", unit: "s" },
  { name: "latency", label: "Request latency", unit: "s" },
  { name: "tpot", label: "Time per output token", unit: "s" },
  { name: "lateness", label: "Lateness", unit: "s" },
  { name: "prompt_tokens", label: "Prompt tokens", unit: "" },
  { name: "output_tokens", label: "Output tokens", unit: "" },
];

class Requests {
  // page is unpacked. Columns are in the order of sending; a request is known by its place in it.
  constructor(page) {
    this.pickers = [];
    this.picked = -1;
    this.tracks = new Tracks(this);
    this.version = 0; // how often the rows were replaced
    this.read(page);
  }

  // read takes the rows of a page.
  read(page) {
    this.page = page;
    this.readSessions();
    this.length = this.firstRow[this.firstRow.length - 1];
    const raw = this.readColumns();
    this.order(raw);
    this.compute();
    this.tracks.read();
    this.samples = {}; // by metric
    this.counted = null;
    page.requests = this;
  }

  // replace takes the rows of a later page of the same run. The request that is picked stays so, unless the page has it no more.
  replace(page) {
    const arrival = this.picked < 0 ? -1 : this.arrival[this.picked];
    this.read(page);
    this.version++;
    if (arrival >= 0) this.pick(page.head.from.whole ? -1 : this.arrival.indexOf(arrival));
  }

  // remembered returns a function that returns what make returns, and calls that anew when the rows were replaced.
  remembered(make) {
    let version = -1, made;
    return () => {
      if (version !== this.version) [version, made] = [this.version, make()];
      return made;
    };
  }

  // watchPicked calls back with the request that a reader has picked; -1: none. pick picks one.
  watchPicked(watcher) { this.pickers.push(watcher); }
  pick(i) {
    this.picked = i;
    for (const watcher of this.pickers) watcher(i);
  }

  // readColumns returns the packed columns by row, those that the page has sparsely filled up.
  readColumns() {
    const { tables, head } = this.page, raw = { ...tables.requests.columns };
    for (const name of Object.keys(tables)) {
      if (!name.startsWith("requests.")) continue;
      const key = name.slice("requests.".length), { row, value } = tables[name].columns;
      raw[key] = new Float64Array(this.length).fill(Object.hasOwn(head.common, key) ? head.common[key] : NaN);
      for (let i = 0; i < row.length; i++) raw[key][row[i]] = value[i];
    }
    return raw;
  }

  // readSessions finds the rows of each session.
  readSessions() {
    const { sessions } = this.page.tables, counts = sessions.columns.requests;
    this.firstRow = new Uint32Array(sessions.rows + 1);
    for (let k = 0; k < sessions.rows; k++) this.firstRow[k + 1] = this.firstRow[k] + counts[k];
  }

  // order puts the columns into the order of sending, and adds up steps.
  order(raw) {
    const { head } = this.page, n = this.length, warm = head.buckets.indexOf("warmup");
    const session = new Float64Array(n), turn = new Float64Array(n), outer = new Float64Array(n), time = new Float64Array(n);
    for (let k = 0; k + 1 < this.firstRow.length; k++) {
      for (let row = this.firstRow[k], t = -1, o = -1; row < this.firstRow[k + 1]; row++) {
        session[row] = k;
        turn[row] = t += raw.turn_step[row];
        outer[row] = o += raw.outer_step[row];
      }
    }
    for (let row = 0; row < n; row++) time[row] = (raw.sent[row] - (raw.bucket[row] === warm ? head.shift : 0) - head.zero) / 1e9;
    this.row = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => time[a] - time[b] || a - b);
    this.place = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.place[this.row[i]] = i;
    const { turn_step, outer_step, ...columns } = { ...raw, session, turn, outer, time };
    for (const [name, column] of Object.entries(columns)) {
      const sorted = new Float64Array(n);
      for (let i = 0; i < n; i++) sorted[i] = column[this.row[i]];
      this[name] = sorted;
    }
  }

  // compute adds what follows from the columns. Instants on the page are seconds since the first request of profiling. A turn that waited
  // for its tree to be opened is due when that was.
  compute() {
    const n = this.length, { head } = this.page;
    const make = () => new Float64Array(n).fill(NaN);
    const metrics = { ttft: make(), itl: make(), latency: make(), tpot: make(), lateness: make(), prompt_tokens: this.prompt, output_tokens: make(), asked: make() };
    Object.assign(this, { metrics, due: make(), first: make(), last: make(), end: make(), measured: new Uint8Array(n) });
    for (let i = 0; i < n; i++) {
      const sent = secondsOfNanos(this.sent[i]), due = this.sent[i] - this.late[i];
      const firstToken = this.sent[i] + this.ttft[i], lastToken = firstToken + this.decode[i];
      const osl = this.output[i] + (this.reasoning[i] || 0);
      metrics.output_tokens[i] = osl;
      metrics.asked[i] = this.asked_more[i] + osl;
      metrics.lateness[i] = sent - secondsOfNanos(due) - secondsOfNanos(this.queued[i]);
      metrics.ttft[i] = secondsOfNanos(firstToken) - sent;
      metrics.latency[i] = secondsOfNanos(lastToken) - sent;
      metrics.itl[i] = (secondsOfNanos(lastToken) - secondsOfNanos(firstToken)) / this.divisor(osl, this.first_tokens[i], head.rules.all_but_one);
      metrics.tpot[i] = (secondsOfNanos(lastToken) - secondsOfNanos(firstToken)) / this.divisor(osl, NaN, true);
      this.due[i] = this.time[i] - (this.late[i] - this.queued[i]) / 1e9;
      this.first[i] = this.time[i] + this.ttft[i] / 1e9;
      this.last[i] = this.first[i] + this.decode[i] / 1e9;
      this.end[i] = (Number.isNaN(this.ttft[i]) ? this.time[i] : this.last[i]) + this.tail[i] / 1e9;
      this.measured[i] = head.buckets[this.bucket[i]] === "profiling" && this.failure[i] === 0 ? 1 : 0;
    }
  }

  // divisor returns how many tokens came after the first message; NaN where that is not known or nothing.
  divisor(tokens, first, allButOne) {
    if (!(tokens >= 2)) return NaN;
    return first >= 1 && first < tokens && !allButOne ? tokens - first : tokens - 1;
  }

  // sorted returns the sorted values of a metric, of the measured requests between two places. All are sorted once, but for rows that
  // will soon be replaced.
  sorted(name, from, to) {
    const values = this.metrics[name];
    if (this.page.head.from) return values.subarray(from, to).filter((value, i) => this.measured[from + i] && !Number.isNaN(value)).sort();
    this.samples[name] ??= new Samples(values.map((value, i) => this.measured[i] ? value : NaN));
    return this.samples[name].within(from, to);
  }

  // percentilesOver returns a line for each percentile of a metric that is asked for: of the measured requests of each window.
  percentilesOver(windows, name, asked) {
    const samples = this.samples[name];
    return samples ? samples.inWindows(windows, this.time, asked) : windowPercentiles(windows, this.time, this.metrics[name], asked, this.measured);
  }

  // sortSoon sorts the metrics one by one while nothing else is to be done, so that the first selection need not.
  sortSoon() {
    if (this.page.head.from) return;
    const next = [...requestMetrics.map(({ name }) => name), "asked"].find((name) => !this.samples[name]);
    if (!next) return;
    setTimeout(() => { this.sorted(next, 0, 0); this.sortSoon(); }, 50);
  }

  // counts returns the sums over the requests between two places. It keeps the last.
  counts(from, to) {
    if (this.counted && this.counted.from === from && this.counted.to === to) return this.counted;
    const { head, tables } = this.page, { bucket, failure, measured, prompt, cached } = this, tokens = this.metrics.output_tokens;
    const sums = { from, to, sent: to - from, measured: 0, prompt: 0, cached: 0, counted: 0, output: 0, errors: {} }, failures = new Map();
    const judged = head.buckets.map((name) => name === "profiling" || name === "cooldown");
    for (let i = from; i < to; i++) {
      if (failure[i] > 0 && judged[bucket[i]]) failures.set(failure[i], (failures.get(failure[i]) || 0) + 1);
      if (!measured[i]) continue;
      sums.measured++;
      sums.prompt += prompt[i] || 0;
      sums.cached += cached[i] || 0;
      if (cached[i] >= 0) sums.counted += prompt[i] || 0;
      sums.output += tokens[i] || 0;
    }
    for (const [place, n] of failures) {
      const category = tables.failures.columns.category.at(place - 1);
      sums.errors[category] = (sums.errors[category] || 0) + n;
    }
    return this.counted = sums;
  }

  asked(i) { return this.asked_more[i] + (this.output[i] || 0) + (this.reasoning[i] || 0); }
  category(i) { return this.failure[i] > 0 ? this.page.tables.failures.columns.category.at(this.failure[i] - 1) : ""; }
  isChild(i) { return this.tracks.depth[this.session[i]] > 0; }
  isWarmup(i) { return this.page.head.buckets[this.bucket[i]] === "warmup"; }

  // sessionLabel names a session; its first part is the trace.
  sessionLabel(session) {
    const { sessions, trees } = this.page.tables, label = sessions.columns.label.at(session);
    return sessions.columns.whole[session] ? label : trees.columns.trace.at(sessions.columns.tree[session]) + label;
  }
}
