"use strict";
// Windows: a range cut into pieces of the same length, which begin at multiples of it, and what is in each.

const windowLengths = [1, 2, 5, 10, 30, 60, 120, 300];
const mostWindows = 400;

// windowLength returns the smallest length, in seconds, of which a range has at most so many.
function windowLength(seconds, most) {
  return windowLengths.find((length) => seconds / length <= most) || Math.ceil(seconds / most / 300) * 300;
}

// cutWindows returns {length, first, count} for a range: window i begins at (first + i) * length.
function cutWindows(from, to) {
  const length = windowLength(to - from, mostWindows), first = Math.floor(from / length);
  return { length, first, count: Math.max(1, Math.ceil(to / length) - first) };
}

// windowCentres returns the middle of what the range has of each window: of a window that is longer than the range, too, it is in the range.
function windowCentres({ length, first, count }, { from, to }) {
  return Float64Array.from({ length: count }, (_, i) => (Math.max(from, (first + i) * length) + Math.min(to, (first + i + 1) * length)) / 2);
}

function windowStarts(windows) {
  return Float64Array.from({ length: windows.count }, (_, i) => (windows.first + i) * windows.length);
}

// windowRows returns where the rows of each window begin, and where those of the last end. Times ascend.
function windowRows({ length, first, count }, times) {
  return Uint32Array.from({ length: count + 1 }, (_, i) => firstAtLeast(times, (first + i) * length));
}

// windowPercentiles returns a line of values for each percentile that is asked for. Times ascend; NaN where a window has no values.
function windowPercentiles(windows, times, values, asked, keep) {
  const bounds = windowRows(windows, times), lines = asked.map(() => new Float64Array(windows.count));
  for (let i = 0; i < windows.count; i++) {
    const samples = [];
    for (let row = bounds[i]; row < bounds[i + 1]; row++) if (!Number.isNaN(values[row]) && (!keep || keep[row])) samples.push(values[row]);
    const sorted = Float64Array.from(samples).sort();
    asked.forEach((q, line) => { lines[line][i] = percentile(sorted, q); });
  }
  return lines;
}

// windowSums adds up amounts by the window in which their time is. Times need no order.
function windowSums(windows, times, amounts) {
  const sums = new Float64Array(windows.count);
  for (let row = 0; row < times.length; row++) {
    const i = Math.floor(times[row] / windows.length) - windows.first, amount = amounts ? amounts[row] : 1;
    if (i >= 0 && i < windows.count && amount === amount) sums[i] += amount;
  }
  return sums;
}

// windowFlow spreads amounts evenly from starts to ends, and adds up what falls into each window.
function windowFlow(windows, starts, ends, amounts) {
  const sums = new Float64Array(windows.count), { length, first } = windows;
  for (let row = 0; row < starts.length; row++) {
    const from = starts[row], to = ends[row], amount = amounts[row];
    if (!(amount > 0) || !(to >= from)) continue;
    const low = Math.max(0, Math.floor(from / length) - first), high = Math.min(windows.count - 1, Math.floor(to / length) - first);
    for (let i = low; i <= high; i++) {
      const begin = (first + i) * length, overlap = Math.min(to, begin + length) - Math.max(from, begin);
      sums[i] += to > from ? amount * overlap / (to - from) : amount;
    }
  }
  return sums;
}

// perSecond divides sums by the seconds of their windows, of the first and the last by those that lie in the whole.
function perSecond(windows, sums, whole) {
  return sums.map((sum, i) => {
    const begin = (windows.first + i) * windows.length;
    const seconds = Math.min(whole.to, begin + windows.length) - Math.max(whole.from, begin);
    return seconds > 0 ? sum / seconds : 0;
  });
}
