// Reflex arcs that light up when they fire, and who answered for each effector.

import { at, make, write } from "./dom.js";

const GLOW_MS = 1500;
const chips = new Map();
const answers = new Map();

/** Show one tick's arcs and answers. */
export function showDoing({ arcs = [], answered = {}, look }) {
  for (const name of arcs) glow(name);
  for (const [effector, head] of Object.entries(answered)) {
    const towards = effector === "look" && look ? ` (${look.map((part) => part.toFixed(2)).join(", ")})` : "";
    write(answer(effector), `${plain(head)}${towards}`);
  }
}

function glow(name) {
  if (!chips.has(name)) {
    const chip = make("li", { textContent: plain(name) });
    chips.set(name, chip);
    at("arcs").append(chip);
    at("arcs-none").hidden = true;
  }
  const chip = chips.get(name);
  chip.classList.add("fired");
  clearTimeout(chip.timer);
  chip.timer = setTimeout(() => chip.classList.remove("fired"), GLOW_MS);
}

function answer(effector) {
  if (!answers.has(effector)) {
    const value = make("dd");
    at("answered").append(make("dt", { textContent: effector }), value);
    answers.set(effector, value);
  }
  return answers.get(effector);
}

const plain = (name) => name.replaceAll("_", " ");
