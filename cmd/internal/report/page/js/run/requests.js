"use strict";
// Requests: the table requests of a run as columns in the order of time, and the numbers over those of them that a range has: percentiles
// and sums of columns. What a metric is of a request the columns say, which are head.metrics.

// derivedColumns are the columns of requests that follow from packed ones. The times of a request lie behind one another: instants on the page are
// seconds since the first request of profiling. A turn that waited for its tree to be opened is due when that was.
const derivedColumns = {
  session: (requests) => requests.ordered(requests.eachSession((column, first, last, k) => column.fill(k, first, last))),
  turn: (requests) => requests.ordered(requests.addUp("turn_step")),
  outer: (requests) => requests.ordered(requests.addUp("outer_step")),
  due: ({ time, lateness }) => time.map((t, i) => t - lateness[i] / 1e9),
  first: ({ time, ttft }) => time.map((t, i) => t + ttft[i] / 1e9),
  last: ({ first, decode }) => first.map((t, i) => t + decode[i] / 1e9),
  end: ({ time, ttft, last, tail }) => time.map((t, i) => (Number.isNaN(ttft[i]) ? t : last[i]) + tail[i] / 1e9),
};

// Requests has a property for each column, and metrics one for each metric, in seconds where it is a time. Each is made when it is first read, because
// a page opens with few of them.
class Requests {
  // page is unpacked. Columns are in the order of sending; a request is known by its place in it.
  constructor(page) {
    this.pickers = [];
    this.picked = -1;
    this.version = 0; // how often the rows were replaced
    this.metrics = {};
    this.read(page);
    const { tables, head } = page, sparse = Object.keys(tables).filter((name) => name.startsWith("requests.")).map((name) => name.slice("requests.".length));
    const packed = [...Object.keys(tables.requests.columns), ...sparse].filter((name) => name !== "turn_step" && name !== "outer_step");
    const offer = (object, name, make) => Object.defineProperty(object, name, { get: make, enumerable: true });
    for (const name of new Set([...packed, "time", ...Object.keys(derivedColumns)])) offer(this, name, () => this.made[name] ??= this.make(name));
    offer(this.metrics, "asked", () => this.asked);
    for (const { name, scale } of head.metrics) offer(this.metrics, name, () => scale === 1 ? this[name] : this.scaled[name] ??= this[name].map((value) => value / scale));
  }

  // read takes the rows of a page.
  read(page) {
    Object.assign(this, { page, made: {}, scaled: {}, samples: {}, counted: null, drawnTracks: null }); // samples: by metric
    this.readSessions();
    this.length = this.firstRow[this.firstRow.length - 1];
    this.order();
    page.requests = this;
  }

  // lanes are the numbers of the lanes, ascending.
  get lanes() { return Float64Array.from(new Set(this.page.tables.trees.columns.lane)).sort(); }

  get tracks() { return this.drawnTracks ??= new Tracks(this); }

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

  // raw returns a packed column by row: one that the page has sparsely is filled up, to one that is an excess the sum is added.
  raw(name) {
    const { tables, head } = this.page, sparse = tables[`requests.${name}`], sums = head.sums[name];
    let column = tables.requests.columns[name];
    if (sparse) {
      const { row, value } = sparse.columns;
      column = new Float64Array(this.length).fill(Object.hasOwn(head.common, name) ? head.common[name] : NaN);
      for (let i = 0; i < row.length; i++) column[row[i]] = value[i];
    }
    if (!sums) return column;
    column = column.slice();
    for (const other of sums.map((of) => this.raw(of))) for (let row = 0; row < column.length; row++) column[row] += other[row] || 0;
    return column;
  }

  // readSessions finds the rows of each session.
  readSessions() {
    const { sessions } = this.page.tables, counts = sessions.columns.requests;
    this.firstRow = new Uint32Array(sessions.rows + 1);
    for (let k = 0; k < sessions.rows; k++) this.firstRow[k + 1] = this.firstRow[k] + counts[k];
  }

  // eachSession returns a column by row that fill has filled, session by session.
  eachSession(fill) {
    const column = new Float64Array(this.length);
    for (let k = 0; k + 1 < this.firstRow.length; k++) fill(column, this.firstRow[k], this.firstRow[k + 1], k);
    return column;
  }

  // addUp adds up the steps of each session.
  addUp(name) {
    const steps = this.raw(name);
    return this.eachSession((column, first, last) => {
      for (let row = first, at = -1; row < last; row++) column[row] = at += steps[row];
    });
  }

  // order finds the order of sending: row has the rows in it, place the place of each row.
  order() {
    const { head } = this.page, n = this.length, warm = head.buckets.indexOf("warmup"), sent = this.raw("sent"), bucket = this.raw("bucket"), time = new Float64Array(n);
    for (let row = 0; row < n; row++) time[row] = (sent[row] - (bucket[row] === warm ? head.shift : 0) - head.zero) / 1e9;
    this.row = rowsInOrder(time);
    this.place = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.place[this.row[i]] = i;
    this.made.time = this.ordered(time);
  }

  // ordered puts a column by row into the order of sending.
  ordered(column) {
    const { row, length } = this, sorted = new Float64Array(length);
    for (let i = 0; i < length; i++) sorted[i] = column[row[i]];
    return sorted;
  }

  // make makes the column of a name.
  make(name) { return Object.hasOwn(derivedColumns, name) ? derivedColumns[name](this) : this.ordered(this.raw(name)); }

  // sorted returns the sorted values of a metric, of the measured requests between two places. All are sorted once, but for rows that
  // will soon be replaced.
  sorted(name, from, to) {
    const values = this.metrics[name];
    if (this.page.head.from || to - from < this.length / 8) return values.subarray(from, to).filter((value, i) => this.measured[from + i] && !Number.isNaN(value)).sort();
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
  isChild(i) { return this.page.tables.sessions.columns.depth[this.session[i]] > 0; }
  isWarmup(i) { return this.page.head.buckets[this.bucket[i]] === "warmup"; }

  // sessionLabel names a session; its first part is the trace.
  sessionLabel(session) {
    const { sessions, trees } = this.page.tables, label = sessions.columns.label.at(session);
    return sessions.columns.whole[session] ? label : trees.columns.trace.at(sessions.columns.tree[session]) + label;
  }
}
