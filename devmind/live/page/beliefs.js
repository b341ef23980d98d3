// Its beliefs about where things are, also out of sight: a small ring for each on the picture, and a line of words.

import { at, make, write } from "./dom.js";
import { fromLeft } from "./picture.js";

/** Show one tick's beliefs; an agent without beliefs has no such line. */
export function showBeliefs(beliefs) {
  at("beliefs").hidden = at("believes").hidden = !beliefs;
  if (!beliefs) return;
  at("beliefs").replaceChildren(...beliefs.map(ring));
  write(at("believes"), words(beliefs));
}

function ring({ name, x, y, radius, there, in_sight: isSeen, lost, beyond }) {
  const made = make("div", { className: "belief" }, make("span", { textContent: lost ? `${name}?` : name }));
  made.classList.toggle("seen", isSeen);
  made.classList.toggle("lost", lost);
  made.classList.toggle("beyond", beyond);
  Object.assign(made.style, { left: fromLeft(x, 0), top: `${100 * y}%`, width: `${200 * radius}%` });
  made.style.opacity = lost ? 0.8 : 0.35 + 0.65 * there;
  return made;
}

function words(beliefs) {
  const named = (chosen) => chosen.map(({ name }) => name).join(" and ");
  const lost = beliefs.filter((one) => one.lost);
  const hidden = beliefs.filter((one) => !one.lost && !one.in_sight);
  const seen = beliefs.filter((one) => one.in_sight);
  const parts = [
    lost.length && `It has lost ${named(lost)}: it looked there, and found nothing.`,
    hidden.length && `Out of sight, it still has in mind ${hidden.map((one) => `${one.name} (seen ${ago(one)})`).join(" and ")}.`,
    seen.length && `It follows in view what it takes for ${named(seen)}.`,
  ].filter(Boolean);
  return parts.join(" ") || "It has no thing in mind now.";
}

const ago = ({ age_s: age }) => (age < 10 ? `${age.toFixed(1)} s ago` : `${Math.round(age)} s ago`);
