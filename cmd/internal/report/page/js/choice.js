"use strict";
// Choices: buttons of which one is chosen.

// chooseOne adds a button for each text, and calls choose with the number of the chosen one, at first too. Where there is no choice it
// adds none.
function chooseOne(parent, name, texts, first, choose) {
  const buttons = texts.map((text, k) => element("button", { type: "button", onclick: () => press(k) }, text));
  const press = (k) => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === k)));
    choose(k);
  };
  if (texts.length > 1) for (const [k, button] of buttons.entries()) parent.append(k ? " " : `${name} `, button);
  parent.append(" ");
  press(first);
}
