"use strict";
// The page: finds its data and draws it by its kind.

// pages has a function(page, root) for each kind of page. Files of the kinds put them in.
const pages = {};

let drawing = null; // of a live page: ends when what is drawn now is replaced

// untilReplaced are the options of listeners outside of what is drawn: they end with it.
function untilReplaced() { return drawing ? { signal: drawing.signal } : {}; }

function boot() {
  const root = document.getElementById("page");
  root.replaceChildren();
  try {
    const page = unpackPage(JSON.parse(document.getElementById("data").textContent));
    if (!Object.hasOwn(pages, page.kind)) throw new Error(`no drawing code for the kind ${page.kind}`);
    pages[page.kind](page, root);
  } catch (error) {
    root.append(element("p", { class: "failure" }, `This page could not be drawn: ${error.message}`));
    throw error;
  }
}

// rangeBar says what is selected, and has the button that selects everything. describe(range) adds a sentence, such as how many
// requests there are.
function rangeBar(parent, range, describe) {
  const text = element("span", { class: "range" }), more = element("span", { class: "about" });
  const reset = element("button", { type: "button", onclick: () => range.reset() }, "Select everything");
  const hint = element("span", { class: "hint" }, "Drag selects, wheel zooms, shift-drag pans, double click or Escape resets.");
  const bar = element("div", { class: "bar" }, text, more, reset, hint);
  const show = () => {
    const span = range.to - range.from, place = (time) => formatTime(time, span, range.whole.to);
    text.textContent = `${place(range.from)} to ${place(range.to)} (${formatDuration(span)})`;
    more.textContent = describe ? describe(range) : "";
    reset.hidden = !range.selected;
  };
  range.watch((what) => { if (what === "range") show(); });
  show();
  parent.append(bar);
  return bar;
}
