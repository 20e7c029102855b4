"use strict";
// Theme: colours and type of the style sheet, for what is drawn on a canvas. A series has a colour, a dash and a shape, so that none is
// told apart by its colour alone.

const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 2], [1, 2], [14, 3, 2, 3, 2, 3]]; // one more than colours: 56 series differ
const shapes = ["circle", "triangle", "square", "diamond", "cross", "ring", "bar"];
const seriesCount = 7;

// dashOf returns the dash of a line: its own, or that of its style.
function dashOf(mark) { return mark.dash ?? dashes[mark.style % dashes.length]; }

// isGap reports whether a dash has a gap so many pixels from its beginning.
function isGap(dash, pixels) {
  let at = pixels % dash.reduce((sum, length) => sum + length, 0);
  return dash.findIndex((length) => (at -= length) < 0) % 2 === 1;
}

let theme = null; // of the last reading

function readTheme() {
  if (theme) return theme;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const colours = [];
  for (let i = 1; i <= seriesCount; i++) colours.push(read(`--series-${i}`));
  theme = { colours, text: read("--text"), muted: read("--muted"), grid: read("--grid"), ground: read("--ground"), shade: read("--shade"), font: `11px ${getComputedStyle(document.body).fontFamily}` };
  return theme;
}

// watchTheme calls back when the reader changes between light and dark.
function watchTheme(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme = null; redraw(); }, untilReplaced());
}

// watchPaper calls back when the page is about to be printed, which is done in the light colours and as wide as paper, and afterwards.
function watchPaper(redraw) {
  const change = (on) => () => {
    document.documentElement.classList.toggle("paper", on);
    theme = null;
    redraw();
  };
  addEventListener("beforeprint", change(true), untilReplaced());
  addEventListener("afterprint", change(false), untilReplaced());
}

// rgbOf returns the channels of a colour of the style sheet, #rrggbb.
function rgbOf(colour) { return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)); }
