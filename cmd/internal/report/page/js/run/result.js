"use strict";
// Result: what a reader wants first of a run: a sentence, and the figures that say how fast it was and how much it brought.

// drawResult returns the elements of the result; none of a page whose summary cannot be read.
function drawResult({ result, summary }) {
  if (!result) return [];
  const levels = (summary.remarks || []).map(gravityOf), grave = ["broken", "warning"].find((level) => levels.includes(level)) || "";
  const tiles = element("dl", { class: "tiles" }, ...result.figures.map((figure) => {
    const [text, range, note] = tileTexts(figure);
    return element("div", { class: figure.met === true ? "good" : figure.met === false ? "bad" : null }, element("dt", {}, figure.title), element("dd", {}, text),
      range ? element("dd", { class: "below" }, range) : null, note ? element("dd", { class: "below" }, note) : null);
  }));
  return [element("p", { class: `conclusion ${grave}`.trim() }, result.conclusion), tiles];
}

// tileTexts returns the figure, its interval and its note as texts.
function tileTexts({ value, unit, low, high, of, note, met, few }) {
  const figure = (n) => formatFigure(n, unit);
  const text = of > 0 ? `${groupDigits(String(value))} of ${groupDigits(String(of))}` : figure(value) + (few ? "?" : "");
  return [text, low === null ? "" : `${figure(low)} to ${figure(high)}`, met === null ? note : met ? "✓ met" : "✗ missed"];
}
