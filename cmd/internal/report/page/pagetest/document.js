"use strict";
// A document without a window, for an engine that has none: elements that take everything, canvases that count what is drawn, observers
// that see everything at once. Frames are drawn when they are asked for.

class FakeElement {
  constructor(name) {
    Object.assign(this, { name, children: [], attributes: {}, listeners: {}, style: {}, hidden: false, text: "", clientWidth: 800, width: 0, height: 0 });
  }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; this.text = ""; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setPointerCapture() {}
  scrollIntoView() {}
  remove() {}
  getBoundingClientRect() { return { left: 0, top: 0, width: this.clientWidth, height: 200 }; }
  get textContent() { return this.text + this.children.map((child) => typeof child === "string" ? child : child.textContent).join(" "); }
  set textContent(text) { this.children = []; this.text = String(text); }
  // querySelector finds the first element below by its name.
  querySelector(name) {
    for (const child of this.children) {
      if (typeof child === "string") continue;
      const found = child.name === name ? child : child.querySelector(name);
      if (found) return found;
    }
    return null;
  }
  // all returns the elements below for which a condition holds.
  all(holds) { return this.children.flatMap((child) => typeof child === "string" ? [] : [...(holds(child) ? [child] : []), ...child.all(holds)]); }
  getContext() { return this.context ??= new FakeContext(); }
}

class FakeContext {
  constructor() { this.drawn = 0; }
  measureText(text) { return { width: 6 * text.length }; }
}
for (const name of ["setTransform", "clearRect", "beginPath", "rect", "clip", "save", "restore", "moveTo", "lineTo", "setLineDash", "putImageData", "drawImage", "strokeText"]) FakeContext.prototype[name] = () => {};
for (const name of ["fill", "stroke", "fillRect", "fillText"]) FakeContext.prototype[name] = function () { this.drawn++; };

class Path2D {
  rect() {}
  addPath() {}
}
class ImageData { constructor(width, height) { Object.assign(this, { width, height, data: new Uint8ClampedArray(4 * width * height) }); } }
class ResizeObserver { observe() {} }
class IntersectionObserver { observe() {} }

const document = { createElement: (name) => new FakeElement(name), createElementNS: (_, name) => new FakeElement(name), documentElement: new FakeElement("html"), body: new FakeElement("body") };
const location = { hash: "", pathname: "", search: "" }, history = { replaceState: (_, __, address) => { location.hash = address; } };
const devicePixelRatio = 1, getComputedStyle = () => ({ fontFamily: "sans", getPropertyValue: () => "#123456" });
const matchMedia = () => ({ addEventListener() {} }), addEventListener = () => {}, requestAnimationFrame = () => 1;
