"use strict";
// Requests: the table requests of a run as columns in the order of time, and the numbers over those of them that a range has: percentiles
// and sums of columns. What a metric is of a request the columns say, which are head.metrics.

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
    for (const [name, others] of Object.entries(head.sums)) raw[name] = raw[name].map((above, row) => others.reduce((sum, other) => sum + (raw[other][row] || 0), above));
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

  // compute scales the metrics, and lays the times of a request behind one another. Instants on the page are seconds since the first
  // request of profiling. A turn that waited for its tree to be opened is due when that was.
  compute() {
    const n = this.length, { metrics } = this.page.head, make = () => new Float64Array(n);
    this.metrics = { asked: this.asked };
    for (const { name, scale } of metrics) this.metrics[name] = scale === 1 ? this[name] : this[name].map((value) => value / scale);
    Object.assign(this, { due: make(), first: make(), last: make(), end: make() });
    for (let i = 0; i < n; i++) {
      this.due[i] = this.time[i] - this.lateness[i] / 1e9;
      this.first[i] = this.time[i] + this.ttft[i] / 1e9;
      this.last[i] = this.first[i] + this.decode[i] / 1e9;
      this.end[i] = (Number.isNaN(this.ttft[i]) ? this.time[i] : this.last[i]) + this.tail[i] / 1e9;
    }
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
    const next = Object.keys(this.metrics).find((name) => !this.samples[name]);
    if (!next) return;
    setTimeout(() => { this.sorted(next, 0, 0); this.sortSoon(); }, 50);
  }

  // counts returns the sums of columns over the requests between two places, those of numbers over the measured ones, and errors, how many
  // failed by category. It keeps the last.
  counts(from, to) {
    if (this.counted && this.counted.from === from && this.counted.to === to) return this.counted;
    const sums = { from, to, sent: to - from, errors: {} }, failures = new Map(), { failure, failed, measured } = this;
    for (const name of ["judged", "measured", "ended", "failed", "good"]) sums[name] = this[name].subarray(from, to).reduce((sum, n) => sum + n, 0);
    for (const name of ["prompt_tokens", "cached", "output_tokens"]) {
      sums[name] = this[name].subarray(from, to).reduce((sum, n, i) => measured[from + i] && n === n ? (sum === sum ? sum : 0) + n : sum, NaN);
    }
    for (let i = from; i < to; i++) if (failed[i]) failures.set(failure[i], (failures.get(failure[i]) || 0) + 1);
    for (const [place, n] of failures) {
      const category = this.page.tables.failures.columns.category.at(place - 1);
      sums.errors[category] = (sums.errors[category] || 0) + n;
    }
    return this.counted = sums;
  }

  category(i) { return this.failure[i] > 0 ? this.page.tables.failures.columns.category.at(this.failure[i] - 1) : ""; }
  isChild(i) { return this.tracks.depth[this.session[i]] > 0; }
  isWarmup(i) { return this.page.head.buckets[this.bucket[i]] === "warmup"; }

  // sessionLabel names a session; its first part is the trace.
  sessionLabel(session) {
    const { sessions, trees } = this.page.tables, label = sessions.columns.label.at(session);
    return sessions.columns.whole[session] ? label : trees.columns.trace.at(sessions.columns.tree[session]) + label;
  }
}
