// Its memories, newest first, with picture and time; those it is reminded of are highlighted and come before the rest.

import { at, make, percent, when, write } from "./dom.js";

const REFRESH_MS = 2000;
const CALM_MS = 500; // what is lit changes no faster, or nobody could read it
const strip = at("memories");
let shown = new Map();
let asked = -Infinity;
let lit = -Infinity;
let told = -Infinity;

strip.addEventListener("scroll", showEnds);
new ResizeObserver(showEnds).observe(strip);
at("earlier").addEventListener("click", () => strip.scrollBy({ left: 0.8 * strip.clientWidth, behavior: "smooth" }));

/** Ask for the memories, list and return them; [] if they are not available. */
export async function refresh(link) {
  asked = performance.now();
  try {
    const { memories } = await link.do("memories");
    list(memories);
    return memories;
  } catch {
    return []; // The list stays as it is; a lost connection is told elsewhere.
  }
}

/** The memory that it points at: its own answer beside the names that are looked up. */
export function showPointed(points) {
  if (performance.now() - told < CALM_MS) return;
  told = performance.now();
  at("points").hidden = !points;
  for (const [id, item] of shown) item.classList.toggle("pointed", Boolean(points) && id === points.id);
  if (!points) return;
  const what = points.id === null ? "at none of its memories" : points.name ? `at its memory of “${points.name}”` : "at a memory without a name";
  write(at("points"), `It points ${what}, ${percent(points.share)} sure.`);
}

/** Highlight the memories of this tick; ask again when one is not in the list. */
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
  strip.replaceChildren(...shown.values());
  at("memories-none").hidden = shown.size > 0;
  showEnds();
}

/** An edge with more behind it fades out, and a button scrolls on. */
function showEnds() {
  const left = strip.scrollWidth - strip.clientWidth - strip.scrollLeft;
  strip.classList.toggle("more-before", strip.scrollLeft > 4);
  strip.classList.toggle("more-after", left > 4);
  at("earlier").hidden = left <= 4;
}

function item({ name, time_s: timeS, picture, sound_s: soundS }) {
  const [sign, title] = soundS ? [`♪ ${soundS.toFixed(1)} s`, "a sound without a picture"] : ["?", "neither picture nor sound"];
  const image = picture ? make("img", { src: picture, alt: "" }) : make("span", { className: "no-image", textContent: sign, title });
  const label = make("b", { textContent: name || "no name", title: name });
  return make("li", {}, image, label, make("small", { textContent: when(timeS) }));
}
