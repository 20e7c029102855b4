"use strict";
// Compared runs: the requests of one, and what of them belongs to a range.

const requestStates = { headline: 0, late: 1, failed: 2, apart: 3 }; // compare/requests.go

// A ComparedRun is one run: its requests, and what of them belongs to a range.
class ComparedRun {
  constructor(page, run, style) {
    Object.assign(this, run, { style, sampled: page.head.sampled[style] });
    const table = page.tables[`requests.${style}`];
    this.columns = table.columns;
    this.rows = table.rows;
    this.headline = Uint8Array.from(this.columns.state, (state) => state === requestStates.headline ? 1 : 0);
    this.samples = {};
  }

  // sorted returns the values of a metric over the requests of the headline that started in a range, sorted.
  sorted(metric, range) {
    if (!this.columns[metric]) return new Float64Array(0);
    this.samples[metric] = this.samples[metric] || new Samples(this.columns[metric]);
    const [first, last] = rowsWithin(range, this.columns.start);
    return this.samples[metric].within(first, last, this.headline);
  }

  // counts returns how many requests started in a range: all, those of the headline, those that failed, those that the error rate is over.
  counts(range) {
    const [first, last] = rowsWithin(range, this.columns.start), counts = { started: last - first, headline: 0, failed: 0, judged: 0 };
    for (let row = first; row < last; row++) {
      const state = this.columns.state[row];
      counts.headline += this.headline[row];
      counts.failed += state === requestStates.failed ? 1 : 0;
      counts.judged += state === requestStates.apart ? 0 : 1;
    }
    return counts;
  }

  // remarks returns what is to be known of the run: {text, mark}, mark where its figures are not what they seem.
  remarks() {
    const list = this.marks.map((text) => ({ text, mark: true }));
    if (this.note) list.unshift({ text: this.note });
    if (this.no_intervals) list.push({ text: `no intervals: ${this.no_intervals}` });
    return list.concat(this.lacks.map((text) => ({ text })));
  }

  get marked() { return this.marks.length > 0; }
}
