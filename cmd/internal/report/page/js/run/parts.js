"use strict";
// Parts: a run of a load that several clients played, and what became of each.

// partLines returns the lines of the verdict about the parts: {good, text, more}. Of one run there are none.
function partLines({ part, parts }) {
  if (part && part.of > 1) return [{ good: null, text: `Part ${part.number} of ${part.of}, from 0: everything here is of this part alone.`, more: [] }];
  if (!parts) return [];
  const problems = parts.list.filter((p) => p.left_out || p.lost).map((p) => `part ${p.part} ${p.left_out ? "is left out" : "has what it had written"}: ${shorten(p.left_out || p.lost, 300)}`);
  const clocks = parts.used < 2 ? "" : parts.clocks.uncertainty === null ? " How far their clocks agree is not known: each was taken as right." : ` Their clocks agree within ${formatValue(parts.clocks.uncertainty, "s")}.`;
  if (!problems.length) return [{ good: true, text: `${parts.of === 1 ? "1 part" : `${groupDigits(String(parts.of))} parts`}: the whole load.${clocks}`, more: [] }];
  return [{ good: false, text: `NOT THE WHOLE LOAD: ${groupDigits(String(parts.used))} of ${groupDigits(String(parts.of))} parts${parts.used === parts.of ? ", not all to their ends" : ""}.${clocks}`, more: problems }];
}

// clockMargin writes what the clocks of parts leave open of a rate over a number of seconds, such as " ± 0.01 %"; "" of one run.
function clockMargin({ parts }, seconds) {
  if (!parts || parts.used < 2) return "";
  const both = 2 * parts.clocks.uncertainty;
  if (parts.clocks.uncertainty === null || !(seconds > both)) return " ± unknown";
  return ` ± ${Math.max(1, Math.ceil(1e5 * both / (seconds - both))) / 1000} %`;
}

// partRows returns the cells of a row a part.
function partRows(parts) {
  const number = (value) => ({ text: groupDigits(String(value)), value }), seconds = (value) => ({ text: formatValue(value, "s"), value: value ?? NaN });
  return parts.list.map((p) => [
    { text: String(p.part), value: p.part }, shorten(p.host, 60), number(p.requests), number(p.failed), seconds(p.ttft.p50), seconds(p.ttft.p99), seconds(p.lateness.p99),
    seconds(p.offset), seconds(p.uncertainty), p.left_out ? "left out" : p.lost ? "not to its end" : p.bound ? "the bottleneck" : "",
  ]);
}

// drawParts shows them.
function drawParts(root, page) {
  const { parts } = page.head.summary;
  if (!parts) return;
  const part = section(root, "Parts", "The clients that played the load. Part I of N plays the lanes I, I+N, I+2N and so on. The clock is what is added to that of a part to have that of part 0.");
  new Table(part, ["part", "machine", "requests", "failed", "TTFT p50", "TTFT p99", "lateness p99", "clock", "±", "note"]).show(partRows(parts));
}
