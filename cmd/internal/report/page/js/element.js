"use strict";
// Elements: the one way in which a page makes them. Texts are set as text, so nothing of the data can become markup.

// element makes an element with attributes and children. A child that is a string becomes text. Attributes whose name begins with on
// are listeners.
function element(name, attributes, ...children) {
  const made = name === "svg" || name === "path" ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  const text = name === "code" ? (child) => child : unbroken;
  made.append(...children.filter((child) => child !== null && child !== undefined).map(text));
  return made;
}

// unbroken keeps a number and its unit in a text on one line.
function unbroken(child) { return typeof child === "string" ? child.replace(/(\d[?M]?) (?=(?:%|ns|us|µs|ms|s|min|h|\/s)(?![\w/]))/g, "$1\u00a0") : child; }

// section makes a part of the page with a heading, and an explanation where there is one.
function section(parent, title, about) {
  const made = element("section", {}, element("h2", {}, title), about ? element("p", { class: "about" }, about) : null);
  parent.append(made);
  return made;
}
