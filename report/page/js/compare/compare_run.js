"use strict";
// Compared runs: the requests of one, and what of them belongs to a range.

// A ComparedRun is one run: its requests, and what of them belongs to a range.
class ComparedRun {
  constructor(page, run, style) {
    Object.assign(this, run, { style, sampled: page.head.sampled[style] });
    const table = page.tables[`requests.${style}`];
    this.columns = table.columns;
    this.rows = table.rows;
    this.headline = Uint8Array.from(this.columns.state, (state) => state === 0 ? 1 : 0);
    this.samples = {};
  }

  // sorted returns the values of a metric over the requests of the headline that started in a range, sorted.
  sorted(metric, range) {
    if (!this.columns[metric]) return new Float64Array(0);
    this.samples[metric] = this.samples[metric] || new Samples(this.columns[metric]);
    const [first, last] = rowsWithin(range, this.columns.start);
    return this.samples[metric].within(first, last, this.headline);
  }

  // counts returns how many requests started in a range, how many of them belong to the headline, and how many failed.
  counts(range) {
    const [first, last] = rowsWithin(range, this.columns.start), counts = { started: last - first, headline: 0, failed: 0 };
    for (let row = first; row < last; row++) {
      counts.headline += this.headline[row];
      counts.failed += this.columns.state[row] === 2 ? 1 : 0;
    }
    return counts;
  }

  // remarks returns what is to be known of the run: {text, mark}, mark where its figures are not what they seem.
  remarks() {
    const list = (this.marks || []).map((text) => ({ text, mark: true }));
    if (this.note) list.unshift({ text: this.note });
    if (this.no_intervals) list.push({ text: `no intervals: ${this.no_intervals}` });
    return list.concat((this.lacks || []).map((text) => ({ text })));
  }

  get marked() { return Boolean(this.marks && this.marks.length); }
}
