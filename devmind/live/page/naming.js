// Names: its names for the thing and the sound, teaching a name by a press of the button, and forgetting.

import { at, make, percent, tell, write } from "./dom.js";

const STEADY_MS = 400; // what changes faster cannot be read
const NOTHING = "Nothing is held up. Hold a thing near, in the middle, until the square is around it.";
const BLIND = "No picture reaches it now, so it cannot tell what is held up.";
const FEW_HZ = 2.5; // with fewer pictures than this, being steady takes seconds
const KEPT_S = 20; // so long what was kept can be undone here
let shownMs = -Infinity;
let isPressed = false;

/** Show what was recognised, per sense: the most probable name, and a bar for each. */
export function showNames(names = {}) {
  const nowMs = performance.now();
  if (nowMs - shownMs < STEADY_MS) return;
  shownMs = nowMs;
  for (const sense of ["sight", "sound"]) showName(at(`named-${sense}`), names[sense]);
  showBars(Object.values(names).filter((named) => named?.shares).map(({ shares }) => shares));
}

/** A less probable name is not shown as a guess. */
export const PERHAPS = 0.1;

function showName(place, named) {
  const [big, small] = place.querySelectorAll("b, small");
  place.classList.toggle("sure", Boolean(named?.name));
  if (!named) {
    write(big, at("known").children.length ? "no name for it" : "no name yet");
    write(small, "");
  } else if (named.name) {
    write(big, named.name);
    write(small, percent(named.confidence));
  } else {
    write(big, "not sure");
    write(small, named.confidence >= PERHAPS ? `perhaps ${named.nearest}, ${percent(named.confidence)}` : "");
  }
}

/** A name's bar is its probability by the surer sense; the rest is the bar of unknown. */
function showBars(senses) {
  for (const item of at("known").children) {
    fill(item.querySelector("i"), Math.max(0, ...senses.map((shares) => shares[item.dataset.name] ?? 0)));
  }
  const left = senses.map((shares) => 1 - Object.values(shares).reduce((sum, share) => sum + share, 0));
  at("unknown").hidden = !at("known").children.length;
  fill(at("unknown").querySelector("i"), senses.length ? Math.max(0, Math.min(...left)) : 0);
}

function fill(bar, share) {
  bar.style.setProperty("--share", share.toFixed(3));
  bar.dataset.says = share >= 0.005 ? percent(share) : "";
  bar.setAttribute("aria-valuenow", Math.round(100 * share));
}

const meter = (label) => make("i", { className: "bar", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 });

/** Show the thing held up: a square around it in the picture, and the crop that a press would keep. */
export function showHeld(held) {
  at("holding").hidden = !held;
  if (!held) return;
  const { square, picture, frames, sees = true, frames_hz: rateHz = null } = held;
  const frame = heldSquare();
  frame.hidden = !square;
  if (square) {
    const left = at("stage").classList.contains("mirrored") ? 1 - square.x - square.w : square.x;
    Object.assign(frame.style, { left: `${100 * left}%`, top: `${100 * square.y}%`, width: `${100 * square.w}%`, height: `${100 * square.h}%` });
  }
  at("crop").hidden = !picture;
  if (picture) at("crop").src = picture;
  at("holding").classList.toggle("pressed", frames !== null);
  if (frames !== null) write(at("holding-says"), frames === 1 ? "1 picture" : `${frames} pictures`);
  else write(at("holding-says"), picture ? "This is what a press keeps." : sees ? NOTHING + patience(rateHz) : BLIND);
}

/** How long a thing has to be held still where few pictures come: three of them, and what they may be late. */
function patience(rateHz) {
  if (rateHz === null || rateHz > FEW_HZ) return "";
  const every = Math.max(1, Math.round(1 / Math.max(rateHz, 0.2)));
  const rate = rateHz > 1 ? `${rateHz} pictures reach it a second` : `one picture reaches it ${every > 1 ? `every ${every} seconds` : "a second"}`;
  return ` Only ${rate}: hold it still for ${Math.ceil(4 / Math.max(rateHz, 0.2))} seconds.`;
}

function heldSquare() {
  const there = at("held");
  if (there) return there;
  const frame = make("div", { id: "held", hidden: true }, make("span", { textContent: "held up" }));
  at("stage").append(frame);
  return frame;
}

/** Let the form teach through `link`; `changed` is called after each name that was taught, undone or forgotten. */
export function startNaming(link, changed) {
  const form = at("teach");
  const button = form.querySelector("button[type=submit]");
  button.addEventListener("pointerdown", ({ button: which }) => which === 0 && press(link)); // only that one ends in a click
  button.addEventListener("keydown", ({ key, repeat }) => key === " " && !repeat && press(link));
  // Released elsewhere: that does not teach.
  addEventListener("pointerup", ({ target }) => isPressed && !button.contains(target) && release(link));
  for (const kind of ["pointercancel", "blur", "pagehide"]) addEventListener(kind, () => isPressed && release(link));
  button.addEventListener("contextmenu", (event) => event.preventDefault()); // a long touch is a press
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    teach(link, changed);
  });
  at("undo").addEventListener("click", () => undo(link, changed, at("undo").dataset.example));
}

/** The button is down: meanwhile the agent looks at the thing held up. */
function press(link) {
  if (isPressed || at("teach").classList.contains("busy") || at("meant").value === "heard" || !at("name").value.trim()) return;
  isPressed = true;
  link.do("press", { on: true }).catch(() => {}); // teaching will say what is wrong
}

function release(link) {
  isPressed = false;
  link.do("press", { on: false }).catch(() => {});
}

async function teach(link, changed) {
  const form = at("teach");
  const name = at("name").value.trim();
  if (!name || form.classList.contains("busy")) return;
  isPressed = false;
  form.classList.add("busy");
  hideUndo();
  try {
    const taught = await link.do("teach", { name, of: at("meant").value });
    showTaught(link, taught, changed);
    tell(taught.answer);
    at("name").select();
  } catch (error) {
    tell(error.message, { bad: true });
  } finally {
    form.classList.remove("busy");
  }
}

/** Show what was just taught: the names, and what was kept with the button that undoes it. */
export function showTaught(link, { id, name, picture, examples }, changed) {
  hideUndo();
  showExamples(link, examples, changed);
  showKept(id, name, picture);
  changed();
}

/** Earlier examples can no longer be undone. */
function hideUndo() {
  at("kept").hidden = true;
  for (const button of document.querySelectorAll(".undo")) button.remove();
}

/** The picture kept from the last press, with the button that undoes it. */
function showKept(id, name, picture) {
  clearTimeout(showKept.timer);
  at("undo").dataset.example = id;
  at("kept").hidden = false;
  at("kept-picture").hidden = !picture;
  if (picture) at("kept-picture").src = picture;
  write(at("kept-says"), `Kept as “${name}”.`);
  showKept.timer = setTimeout(() => (at("kept").hidden = true), 1000 * KEPT_S);
}

/** Undo the example with this number: another page, or somebody who speaks, may have taught since. */
export async function undo(link, changed, id) {
  hideUndo();
  try {
    const { name, examples, notes } = await link.do("undo", { id: String(id) });
    showExamples(link, examples, changed);
    tell([`The last example of “${name}” is deleted.`, ...notes].join(" "), { bad: notes.length > 0 });
    changed();
  } catch (error) {
    tell(error.message, { bad: true });
  }
}

/** List the names it knows, each with its bar, how often it was taught and a button to forget it. */
export function showExamples(link, examples, changed) {
  const names = Object.entries(examples ?? {}).sort(([a], [b]) => a.localeCompare(b));
  at("known-none").hidden = names.length > 0;
  at("known-names").replaceChildren(...names.map(([name]) => make("option", { value: name })));
  at("known").replaceChildren(...names.map(([name, count]) => row(link, name, count, changed)));
  at("unknown").hidden = !names.length;
}

function row(link, name, count, changed) {
  const button = make("button", { type: "button", textContent: "forget", "aria-label": `forget ${name}` });
  button.addEventListener("click", () => forget(link, button, name, changed));
  const label = make("b", { textContent: name, title: name });
  const item = make("li", {}, label, make("small", { textContent: `×${count}` }), meter(`probability that this is ${name}`), button);
  item.dataset.name = name;
  return item;
}

async function forget(link, button, name, changed) {
  if (!button.dataset.asked) {
    // The second press deletes: a name costs work to teach, and a dialogue would hide the picture.
    button.dataset.asked = "yes";
    button.textContent = "really?";
    setTimeout(() => {
      delete button.dataset.asked;
      button.textContent = "forget";
    }, 3000);
    return;
  }
  try {
    const { forgotten, examples, notes } = await link.do("forget", { name });
    showExamples(link, examples, changed);
    const count = forgotten === 1 ? "one example" : `${forgotten} examples`;
    tell([`It has forgotten “${name}” (${count}).`, ...notes].join(" "), { bad: notes.length > 0 });
    hideUndo();
    changed();
  } catch (error) {
    tell(error.message, { bad: true });
  }
}
