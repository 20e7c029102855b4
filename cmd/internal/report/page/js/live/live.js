"use strict";
// Live: the page of a run while it is played. Every second it asks its server for what is new, and draws it: the last minute, until a
// reader selects something else. A page that is hidden draws nothing.

const shownMinute = 60; // seconds
const mostStale = 15000; // milliseconds between two drawings
const leastRest = 1000, mostRest = 5000; // milliseconds between two questions: at its end a run waits 15 s for pages that ask

pages.live = (_, root) => new LivePage(root);

class LivePage {
  constructor(root) {
    this.root = root;
    this.growth = new Growth();
    this.position = 0;
    this.ended = false;
    this.reader = Math.random().toString(36).slice(2); // the name by which the server knows this page
    this.text = element("span", {}, "The page asks the run for its numbers.");
    this.minute = element("button", { type: "button", onclick: () => this.range.follow(shownMinute) }, "Last minute");
    this.whole = element("button", { type: "button", onclick: () => this.range.reset() }, "Whole run");
    root.append(element("p", { class: "live", role: "status" }, this.text, this.minute, this.whole));
    for (const [type, held] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) addEventListener(type, () => { this.held = held; }, true);
    document.addEventListener("visibilitychange", () => this.draw());
    addEventListener("pagehide", () => { if (!this.ended) fetch(`data?left&reader=${this.reader}`, { keepalive: true }).catch(() => {}); });
    this.ask();
  }

  get range() { return this.drawn && this.drawn.range; }

  // ask asks for what is new, a second after the last answer was drawn, and less often where drawing is slow: it takes a twentieth of the time.
  async ask() {
    let drawn = 0; // until then nothing is drawn, but for the finished page
    for (let failures = 0; (!this.ended || this.stale) && failures < 10;) {
      let rest = leastRest;
      try {
        if (!this.ended) this.take(await answerOf(`data?after=${this.position}&reader=${this.reader}`));
        failures = 0;
        if (this.ended || performance.now() >= drawn) drawn = Math.min(mostStale, 20 * await this.draw()) + performance.now();
        rest = Math.max(leastRest, Math.min(mostRest, drawn - performance.now()));
      } catch (error) {
        this.text.textContent = `No answer from the run: ${error.message}`;
        failures++;
      }
      await new Promise((done) => setTimeout(done, rest));
    }
    if (!this.ended) this.text.textContent = "The command has ended, or was killed: this is the last that it said.";
  }

  // take keeps an answer until it is drawn.
  take(answer) {
    this.text.textContent = answer.line;
    if (!answer.page) return;
    this.position = answer.position;
    this.ended = answer.ended;
    const page = unpackPage(answer.page);
    if (this.ended) {
      this.finished = page;
      fetch(`data?after=${this.position}&reader=${this.reader}`).catch(() => {}); // the server need not wait for this page
    } else this.growth.add(page);
    this.stale = true;
  }

  // draw draws what has come, and returns how many milliseconds that took.
  async draw() {
    if (!this.stale || document.hidden || this.busy()) return 0;
    this.stale = false;
    const begin = performance.now(), page = this.finished || this.growth.page();
    if (this.finished || !this.drawn || !this.drawn.replace(page)) this.replace(page);
    await nextFrame();
    return performance.now() - begin;
  }

  // busy reports whether a reader does something that a new page would break.
  busy() { return this.held || this.next || ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement && document.activeElement.tagName); }

  // replace draws a page where it cannot be seen, and shows it when its charts are drawn.
  replace(page) {
    const old = this.area, before = drawing, shown = this.range;
    drawing = new AbortController();
    this.area = element("div", old ? { class: "coming", style: { top: `${old.offsetTop}px` } } : {});
    this.root.append(this.area);
    document.title = page.title;
    this.drawn = pages.run(page, this.area);
    this.select(shown);
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

  // select selects on a new page what was selected before; at first the last minute, and at the end the whole.
  select(before) {
    this.minute.hidden = this.whole.hidden = Boolean(this.finished) || !this.range;
    if (!this.range) return;
    const note = () => {
      this.minute.setAttribute("aria-pressed", String(this.range.follows > 0));
      this.whole.setAttribute("aria-pressed", String(!this.range.selected && !this.range.follows));
    };
    this.range.watch((what) => { if (what === "range") note(); });
    if (!this.finished && (before ? before.follows : !this.range.selected)) this.range.follow(shownMinute);
    note();
  }
}

async function answerOf(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// nextFrame waits until charts are drawn; a page that is hidden meanwhile draws none.
function nextFrame() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, leastRest);
  });
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
