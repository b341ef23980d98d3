// Three things to try at first: move, clap, teach. Each is ticked when it has happened; then they disappear.

import { at } from "./dom.js";
import { keep, kept } from "./kept.js";

const STEPS = ["move", "clap", "teach"];
const PRAISE_MS = 6000;
const WINDOW = 10; // ticks in which something moved
const FOLLOWED = 7; // so many of them it has to look there: by chance it does in one of five
const LOUD_DB = -45; // what it startles at without a sound was no clap
const done = new Set(kept("steps").split("."));
const looks = [];
let possible = [];

/** Let the buttons work; `startSteps` shows nothing yet. */
export function startSteps() {
  at("steps-away").addEventListener("click", () => show(false));
  at("steps-back").addEventListener("click", () => show(at("steps").hidden));
}

/** The steps that are possible with the available senses, from the page's welcome. */
export function offerSteps({ mode, camera, microphone, simulated = false }) {
  possible = STEPS.filter((step) => !(step === "move" && camera === "none") && !(step === "clap" && microphone === "none"));
  for (const step of STEPS) at(`step-${step}`).hidden = !possible.includes(step);
  at("steps-back").hidden = mode === "watch" || simulated;
  mark();
  if (simulated) at("steps").hidden = true; // nobody waves or holds up a thing in there
  if (simulated) return;
  if (kept("steps-away") !== "yes" && !isAll()) show(true);
}

/** Tick the steps that happened in a tick. */
export function showSteps({ follows, arcs = [], sound }) {
  if (follows !== undefined) {
    looks.push(follows);
    if (looks.length > WINDOW) looks.shift();
    if (looks.filter(Boolean).length >= FOLLOWED) tick("move");
  }
  if (arcs.includes("move_arc") && sound?.level_db > LOUD_DB) tick("clap");
}

/** It has been taught the names that it remembers. */
export function taughtStep(memories) {
  if (memories.some(({ name }) => name)) tick("teach");
}

function tick(step) {
  if (done.has(step)) return;
  done.add(step);
  keep("steps", [...done].join("."));
  mark();
  if (isAll()) setTimeout(() => show(false), PRAISE_MS);
}

const isAll = () => possible.every((step) => done.has(step));

function mark() {
  for (const step of STEPS) {
    at(`step-${step}`).classList.toggle("done", done.has(step));
    at(`step-${step}`).querySelector("i").setAttribute("aria-label", done.has(step) ? "done" : "to do");
  }
  at("steps-all").hidden = !isAll();
}

function show(isOn) {
  at("steps").hidden = !isOn;
  at("steps-back").setAttribute("aria-pressed", String(isOn));
  keep("steps-away", isOn ? "no" : "yes");
}
