// Its own actions, which light up when they happen; where it looks; and, for engineers, which part of it decided.

import { at, make, write } from "./dom.js";

const GLOW_MS = 1500;
const chips = new Map();
const rows = new Map();

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
