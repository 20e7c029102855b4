"use strict";
// Compared runs: the requests of one, and what of them belongs to a range.

// A ComparedRun is one run: its requests, and what of them belongs to a range.
class ComparedRun {
  constructor(page, run, place, style = place) {
    Object.assign(this, run, { place, style, sampled: page.head.sampled[place], lanes: page.head.frontier.points[place].concurrency });
    const table = page.tables[`requests.${place}`];
    this.columns = table.columns;
    this.rows = table.rows;
    this.counted = {}; // by a name of head.states: 1 where a request is in one of these
    for (const [name, states] of Object.entries(page.head.states)) this.counted[name] = Uint8Array.from(this.columns.state, (state) => Number(states.includes(state)));
    this.samples = {};
  }

  // sorted returns the values of a metric over the requests of the headline that started in a range, sorted.
  sorted(metric, range) {
    if (!this.columns[metric]) return new Float64Array(0);
    this.samples[metric] = this.samples[metric] || new Samples(this.columns[metric]);
    const [first, last] = rowsWithin(range, this.columns.start);
    return this.samples[metric].within(first, last, this.counted.measured);
  }

  // sum adds up a column over the requests that started in a range: how many are counted, or a number over the measured ones.
  sum(name, range) {
    const [first, last] = rowsWithin(range, this.columns.start), counted = this.counted[name];
    return (counted ? counted.subarray(first, last) : this.sorted(name, range)).reduce((sum, n) => sum + n, 0);
  }

  // started returns how many requests started in a range.
  started(range) {
    const [first, last] = rowsWithin(range, this.columns.start);
    return last - first;
  }

  // remarks returns what is to be known of the run: {text, mark}, mark where its figures are not what they seem.
  remarks() {
    const list = this.marks.map((text) => ({ text, mark: true }));
    if (this.note) list.unshift({ text: this.note });
    return list.concat(this.lacks.map((text) => ({ text })));
  }

  // title names the run among others of its series.
  get title() { return this.series && this.lanes ? formatCount(this.lanes, "lane") : this.name; }

  get marked() { return this.marks.length > 0; }
}
