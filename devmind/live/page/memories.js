// What it remembers, newest first, with the picture and when; what it is reminded of is lit and stands before the rest.

import { at, make, when, write } from "./dom.js";

const REFRESH_MS = 2000;
const CALM_MS = 500; // what is lit changes no faster, or nobody could read it
let shown = new Map();
let asked = -Infinity;
let lit = -Infinity;

/** Ask for the memories and list them. */
export async function refresh(link) {
  asked = performance.now();
  try {
    const { memories } = await link.do("memories");
    list(memories);
  } catch {
    // The list stays as it is; a lost connection is told elsewhere.
  }
}

/** Light what this tick reminded it of; ask again when that is not in the list. */
export function showRecalled(link, recalled = []) {
  if (performance.now() - lit < CALM_MS) return;
  lit = performance.now();
  const ids = new Set(recalled.map(({ id }) => id));
  for (const [id, item] of shown) item.classList.toggle("recalled", ids.has(id));
  const names = [...new Set(recalled.map(({ name, time_s }) => `${name || "something"} (${when(time_s)})`))];
  write(at("reminded"), names.length ? `This reminds it of ${names.join(", ")}.` : "");
  const isNew = recalled.some(({ id }) => !shown.has(id));
  if (isNew && performance.now() - asked > REFRESH_MS) refresh(link);
}

function list(memories) {
  shown = new Map(memories.map((memory) => [memory.id, item(memory)]));
  at("memories").replaceChildren(...shown.values());
  at("memories-none").hidden = shown.size > 0;
}

function item({ name, time_s: timeS, picture, sound_s: soundS }) {
  const [sign, title] = soundS ? [`♪ ${soundS.toFixed(1)} s`, "a sound without a picture"] : ["?", "neither picture nor sound"];
  const image = picture ? make("img", { src: picture, alt: "" }) : make("span", { className: "no-image", textContent: sign, title });
  const label = make("b", { textContent: name || "no name", title: name });
  return make("li", {}, image, label, make("small", { textContent: when(timeS) }));
}
