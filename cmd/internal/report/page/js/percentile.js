"use strict";
// Percentiles and ratios of columns. Percentiles are linear between neighbours, as measure.Percentile and measure.MeanAndStd compute them,
// in the same order of additions, so that the same samples give the same digits.

const percentiles = [50, 75, 90, 95, 99];

// percentile returns the q-th percentile, 0 to 100, of sorted samples; NaN without any.
function percentile(sorted, q) {
  if (!sorted.length) return NaN;
  const position = q / 100 * (sorted.length - 1), index = Math.floor(position);
  if (index >= sorted.length - 1) return sorted[sorted.length - 1];
  return sorted[index] + (position - index) * (sorted[index + 1] - sorted[index]);
}

// statOf returns {n, mean, p50, p75, p90, p95, p99, max} of sorted samples.
function statOf(sorted) {
  let sum = 0;
  for (let i = 0; i < sorted.length; i++) sum += sorted[i];
  const stat = { n: sorted.length, mean: sorted.length ? sum / sorted.length : NaN };
  for (const q of percentiles) stat[`p${q}`] = percentile(sorted, q);
  stat.max = sorted.length ? sorted[sorted.length - 1] : NaN;
  return stat;
}

// ratioOf returns the sum of one column over that of another, or over seconds; NaN where there is nothing to divide by.
function ratioOf([part, whole], seconds, sum) {
  const of = whole === "seconds" ? seconds : sum(whole);
  return of > 0 ? sum(part) / of : NaN;
}

// fewSamples reports whether a percentile is little more than the largest of its samples, as measure.Stat.Few does.
function fewSamples(n, name) { return n > 0 && n < ({ p95: 20, p99: 100 }[name] || 0); }

const fewNote = "? of few samples: p95 of fewer than 20, p99 of fewer than 100.";

// Samples are the values of a column, sorted once; those of some rows are then taken from it without sorting again.
class Samples {
  constructor(values) {
    this.values = values;
    this.order = rowsInOrder(values);
  }

  // within returns the sorted values of the rows from first up to last, without last; of these where keep is given, those that it has
  // at 1.
  within(first, last, keep) {
    const taken = new Float64Array(this.order.length);
    let n = 0;
    for (const row of this.order) if (row >= first && row < last && (!keep || keep[row])) taken[n++] = this.values[row];
    return taken.subarray(0, n);
  }

  // inWindows returns what windowPercentiles returns of the values, but takes each window's from all, which are sorted.
  inWindows(windows, times, asked) {
    const { values, order } = this, bounds = windowRows(windows, times), windowOf = new Int32Array(times.length).fill(-1);
    for (let i = 0; i < windows.count; i++) windowOf.fill(i, bounds[i], bounds[i + 1]);
    const sorted = new Float64Array(times.length), ends = bounds.slice(); // of a window the values stand where its rows begin
    for (let k = 0; k < order.length; k++) {
      const i = windowOf[order[k]];
      if (i >= 0) sorted[ends[i]++] = values[order[k]];
    }
    return asked.map((q) => Float64Array.from({ length: windows.count }, (_, i) => percentile(sorted.subarray(bounds[i], ends[i]), q)));
  }
}
