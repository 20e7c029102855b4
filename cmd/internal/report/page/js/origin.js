"use strict";
// Origin: what a page is of, and the command that made it.

// factList shows names and values; a value is a text, or a list of texts and elements.
function factList(facts) {
  return element("dl", { class: "facts" }, ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, ...[value].flat()))));
}

// drawOrigin shows what was run, and returns the part of the page. Without a command none is shown.
function drawOrigin(root, { facts, command }) {
  const part = section(root, "What was run");
  part.append(factList((facts || []).map(([name, value]) => [name, shortKey(name, value)])));
  if (command) part.append(element("p", { class: "command" }, element("code", {}, ...flagsWhole(command))), element("p", { class: "copy" }, actionButton("Copy the command", () => copyText(command))));
  return part;
}

// flagsWhole returns the words of a command, none of whose flags breaks within its name.
function flagsWhole(command) {
  return command.split(/(\s+)/).flatMap((word) => {
    const name = word.startsWith("-") ? word.split("=")[0] : "";
    return name ? [element("span", { class: "flag" }, name), word.slice(name.length)] : [word];
  });
}

// shortKey shows the beginning of a key, and the whole of it at a click.
function shortKey(name, value) {
  if (name !== "key" || value.length < 16) return [value];
  return [element("details", {}, element("summary", {}, `${value.slice(0, 12)}…`), value)];
}
