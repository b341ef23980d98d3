// Its plan: the way as a line with its key points on the picture, and its words below.

import { at, make, percent, write } from "./dom.js";
import { fromLeft, isMirroring } from "./picture.js";

const SVG = "http://www.w3.org/2000/svg";
let drawn = ""; // what stands there: a plan is the same for many ticks

/** Show one tick's plan; without a plan there is no such line. */
export function showPlan(plan) {
  at("plan").hidden = at("plans").hidden = !plan;
  const now = plan ? JSON.stringify([plan, isMirroring()]) : "";
  if (now === drawn) return;
  drawn = now;
  if (!plan) return;
  const { points, at: next } = plan;
  const way = plan.now ? [{ x: plan.now[0], y: plan.now[1] }, ...points.slice(next)] : points.slice(next);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.append(line("gone", points.slice(0, next + 1)), line("ahead", way));
  const marks = points.map((point, index) => mark(point, index, next));
  at("plan").replaceChildren(svg, ...marks, ...(plan.now ? [hand(plan.now)] : []));
  write(at("plan-says"), says(plan));
  at("plan-words").replaceChildren(...points.map((point, index) => word(point, index, next)));
}

const left = (x) => Number.parseFloat(fromLeft(x, 0));

function line(kind, points) {
  const made = document.createElementNS(SVG, "polyline");
  made.setAttribute("class", kind);
  made.setAttribute("points", points.map(({ x, y }) => `${left(x)},${100 * y}`).join(" "));
  return made;
}

function mark({ x, y, closed }, index, next) {
  const made = make("i", { className: "point", textContent: index + 1 });
  return placed(made, x, y, { closed, gone: index < next, next: index === next });
}

const hand = ([x, y]) => placed(make("i", { className: "hand" }), x, y);

function placed(made, x, y, kinds = {}) {
  for (const [kind, isOn] of Object.entries(kinds)) made.classList.toggle(kind, isOn);
  Object.assign(made.style, { left: `${left(x)}%`, top: `${100 * y}%` });
  return made;
}

function word({ word: text, closed }, index, next) {
  const made = make("li", { textContent: `${index + 1} ${text || "–"}${closed ? ", closed" : ""}` });
  made.classList.toggle("gone", index < next);
  if (index === next) made.setAttribute("aria-current", "step");
  return made;
}

function says({ head, number, share }) {
  const sure = share === null ? "" : `, ${percent(share)} sure of its words`;
  return `Plan ${number} of ${head.replaceAll("_", " ")}${sure}:`;
}
