"use strict";
// Live: the page of a run while it is played. Every second it asks its server for what the run is like, draws the page of the run
// again from that, and puts it in the place of the old one: the last minute, until a reader selects something else.

const shownMinute = 60; // seconds

pages.live = (page, root) => new LivePage(page, root);

class LivePage {
  constructor(page, root) {
    this.root = root;
    this.view = fromFragment(location.hash) ? "own" : "minute"; // or "whole"
    this.position = page.head.position;
    this.ended = false;
    this.text = element("span", {}, page.head.line);
    this.buttons = { minute: "Last minute", whole: "Whole run" };
    for (const [view, name] of Object.entries(this.buttons)) this.buttons[view] = element("button", { type: "button", onclick: () => this.choose(view) }, name);
    root.append(element("p", { class: "live", role: "status" }, this.text, ...Object.values(this.buttons)));
    for (const [type, held] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) addEventListener(type, () => { this.held = held; }, true);
    this.replace(page);
    this.ask();
  }

  // ask asks for what is new, a second after the last answer was drawn, and less often where drawing is slow.
  async ask() {
    let failures = 0;
    for (let rest = 1000; !this.ended && failures < 10;) {
      await new Promise((done) => setTimeout(done, rest));
      try {
        const answer = await fetch(`data?after=${this.position}`);
        if (!answer.ok) throw new Error(await answer.text());
        failures = 0;
        rest = this.take(await answer.json());
      } catch (error) {
        this.text.textContent = `No answer from the run: ${error.message}`;
        failures++;
      }
    }
    if (!this.ended) this.text.textContent = "The command has ended, or was killed: this is the last that it said.";
  }

  // take shows an answer, and returns for how many milliseconds nothing is asked.
  take(answer) {
    this.text.textContent = answer.line;
    if (!answer.page || this.busy()) return 1000;
    const begin = performance.now();
    this.position = answer.position;
    this.ended = answer.ended;
    if (this.ended) this.end(); else this.noteView();
    this.replace(unpackPage(answer.page));
    return Math.max(1000, 5 * (performance.now() - begin));
  }

  // busy reports whether a reader does something that a new page would break.
  busy() { return this.held || this.next || ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement && document.activeElement.tagName); }

  // end shows the whole run, unless a reader has selected a part of it.
  end() {
    this.noteView();
    if (this.view === "minute") this.view = "whole";
    for (const button of Object.values(this.buttons)) button.hidden = true;
  }

  choose(view) {
    this.view = view;
    if (this.range) this.select(this.range);
  }

  // noteView finds out what the reader has selected since the page was drawn.
  noteView() {
    const range = this.range;
    if (!range || this.shown && range.from === this.shown.from && range.to === this.shown.to) return;
    this.view = range.selected ? "own" : "whole";
  }

  // select shows a part of the run. Only what a reader has selected stands in the address.
  select(range) {
    const { from, to } = range.whole;
    if (this.view === "minute") range.set(Math.max(from, to - shownMinute), to);
    if (this.view === "whole") range.reset();
    if (this.view !== "own") history.replaceState(null, "", location.pathname + location.search);
    this.shown = { from: range.from, to: range.to };
    for (const [view, button] of Object.entries(this.buttons)) button.setAttribute("aria-pressed", String(view === this.view));
  }

  // replace draws a page where it cannot be seen, and shows it when its charts are drawn.
  replace(page) {
    const old = this.area, before = drawing;
    drawing = new AbortController();
    if (this.view !== "own") history.replaceState(null, "", location.pathname + location.search);
    this.area = element("div", old ? { class: "coming", style: { top: `${old.offsetTop}px` } } : {});
    this.root.append(this.area);
    pages.run(page, this.area);
    this.range = page.range;
    if (this.range) this.select(this.range);
    if (!old) return;
    copyChoices(old, this.area);
    this.next = true;
    setTimeout(() => {
      before.abort();
      const focused = placeOf(old, document.activeElement), top = scrollY;
      old.remove();
      this.area.removeAttribute("class");
      this.area.removeAttribute("style");
      if (focused) focusAt(this.area, focused);
      scrollTo(scrollX, top);
      this.next = false;
    }, 120);
  }
}

// copyChoices does on a new page what a reader did on the old one: series that are hidden, tables that are open.
function copyChoices(from, to) {
  const figures = (area) => new Map(Array.from(area.querySelectorAll("figure"), (figure) => [figure.querySelector("h3").textContent, figure]));
  const made = figures(to);
  for (const [title, figure] of figures(from)) {
    const twin = made.get(title);
    if (!twin) continue;
    const names = new Set(Array.from(figure.querySelectorAll('.legend [aria-pressed="false"] .name'), (name) => name.textContent));
    for (const name of twin.querySelectorAll('.legend [aria-pressed="true"] .name')) if (names.has(name.textContent)) name.closest("button").click();
    const [open, other] = [figure, twin].map((one) => one.querySelector("details"));
    if (open && other) other.open = open.open;
  }
}

const focusable = "button, [tabindex], summary, a";

// placeOf returns which of the elements that can have the focus has it; null: none of them.
function placeOf(area, focused) {
  const place = Array.from(area.querySelectorAll(focusable)).indexOf(focused);
  return place < 0 ? null : { place };
}

function focusAt(area, { place }) {
  const found = area.querySelectorAll(focusable)[place];
  if (found) found.focus({ preventScroll: true });
}
