// Its own actions, which light up when they happen; where it looks; and, for engineers, which part of it decided.

import { at, make, percent, write } from "./dom.js";

const GLOW_MS = 1500;
const chips = new Map();
const rows = new Map();

/** Show a simulated world instead of what only people in its room can do; a press gives it an instruction. */
export function setWorld({ simulated = false, instructions = [] }) {
  document.body.classList.toggle("simulated", simulated);
  at("world").hidden = !simulated;
  if (!simulated) return;
  write(at("talk-none"), instructions.length ? "Ask what it sees, or tell it what to do." : "Ask what it sees, or say something to it.");
  at("words").placeholder = instructions.length ? `ask, or: ${instructions[0]}` : "say something";
  at("instructing").hidden = !instructions.length;
  at("instructions").replaceChildren(...instructions.map((text) => make("li", {}, instruct(text))));
}

function instruct(text) {
  const button = make("button", { type: "button", textContent: text });
  button.addEventListener("click", () => {
    at("words").value = text;
    at("say").requestSubmit();
  });
  return button;
}

/** How its episodes went so far. */
export function showWorld(world) {
  if (!world) return;
  const { episodes, successes, reward, seed } = world;
  write(at("world-episodes"), String(episodes));
  write(at("world-successes"), episodes ? `${successes} (${percent(successes / episodes)})` : "0");
  write(at("world-reward"), reward === null ? "none yet" : String(reward));
  write(at("world-seed"), String(seed));
}

/** Show one tick's arcs and answers. */
export function showDoing({ arcs = [], answered = {}, gaze }) {
  for (const name of arcs) glow(name);
  if (gaze) write(at("looks"), `It looks ${gazeWords(gaze)}.`);
  for (const [effector, head] of Object.entries(answered)) write(row(effector), head);
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

function row(name) {
  if (!rows.has(name)) {
    const value = make("dd");
    at("answered").append(make("dt", { textContent: name }), value);
    rows.set(name, value);
  }
  return rows.get(name);
}

function gazeWords({ pan_deg: pan, tilt_deg: tilt }) {
  const side = Math.abs(pan) < 2 ? "" : `${Math.round(Math.abs(pan))}° to its ${pan > 0 ? "left" : "right"}`;
  const height = Math.abs(tilt) < 2 ? "" : `${Math.round(Math.abs(tilt))}° ${tilt > 0 ? "up" : "down"}`;
  return [side, height].filter(Boolean).join(", ") || "straight ahead";
}

const PLAIN = { look_arc: "looks there", move_arc: "startles" };

/** Names for people; other parts keep their own names. */
const plain = (name) => PLAIN[name] ?? name.replaceAll("_", " ");
