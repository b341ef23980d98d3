// Names: what it takes the thing and the sound for, teaching one by the form, and forgetting.

import { at, make, percent, tell, write } from "./dom.js";

const STEADY_MS = 400; // what changes faster cannot be read
let shownMs = -Infinity;

/** Show what was recognised, per sense; "not sure" where the confidence is too small. */
export function showNames(names = {}) {
  const nowMs = performance.now();
  if (nowMs - shownMs < STEADY_MS) return;
  shownMs = nowMs;
  for (const sense of ["sight", "sound"]) showName(at(`named-${sense}`), names[sense]);
}

function showName(place, named) {
  const [big, small] = place.querySelectorAll("b, small");
  place.classList.toggle("sure", Boolean(named?.name));
  if (!named) {
    write(big, at("known").children.length ? "nothing known" : "nothing yet");
    write(small, "");
  } else if (named.name) {
    write(big, named.name);
    write(small, percent(named.confidence));
  } else {
    write(big, "not sure");
    write(small, named.nearest ? `perhaps ${named.nearest}, ${percent(named.confidence)}` : "");
  }
}

/** Let the form teach through `link`; `changed` is called after each name that was taught or forgotten. */
export function startNaming(link, changed) {
  const form = at("teach");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = at("name").value.trim();
    if (!name) return;
    form.classList.add("busy");
    try {
      const { examples } = await link.do("teach", { name, of: at("meant").value });
      showExamples(link, examples, changed);
      const count = examples[name] ?? 1;
      tell(`It has learned “${name}” from ${count === 1 ? "one example" : `${count} examples`}.`);
      at("name").select();
      changed();
    } catch (error) {
      tell(error.message, { bad: true });
    } finally {
      form.classList.remove("busy");
    }
  });
}

/** List the names it knows, each with its examples and a button to forget it. */
export function showExamples(link, examples, changed) {
  const names = Object.entries(examples ?? {}).sort(([a], [b]) => a.localeCompare(b));
  at("known-none").hidden = names.length > 0;
  at("known-names").replaceChildren(...names.map(([name]) => make("option", { value: name })));
  at("known").replaceChildren(...names.map(([name, count]) => chip(link, name, count, changed)));
}

function chip(link, name, count, changed) {
  const button = make("button", { type: "button", textContent: "forget", "aria-label": `forget ${name}` });
  button.addEventListener("click", () => forget(link, button, name, changed));
  return make("li", {}, make("b", { textContent: name }), make("small", { textContent: `×${count}` }), button);
}

async function forget(link, button, name, changed) {
  if (!button.dataset.asked) {
    // The second press does it: a name costs work to teach, and a dialogue would hide the picture.
    button.dataset.asked = "yes";
    button.textContent = "really?";
    setTimeout(() => {
      delete button.dataset.asked;
      button.textContent = "forget";
    }, 3000);
    return;
  }
  try {
    const { forgotten, examples } = await link.do("forget", { name });
    showExamples(link, examples, changed);
    tell(`It has forgotten “${name}” (${forgotten === 1 ? "one example" : `${forgotten} examples`}).`);
    changed();
  } catch (error) {
    tell(error.message, { bad: true });
  }
}
