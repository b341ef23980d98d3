// A walk through a maze: where it is, the plan it follows as a line with its moves, and where it shall go.

import { at, make, tell, write } from "./dom.js";
import { Link } from "./link.js";
import { OVER, STATES } from "./states.js";

const SIGNS = { east: "→ east", south: "↓ south", west: "← west", north: "↑ north" };
const svg = at("maze");
let command = "devmind plan";
let view = null;
let drawn = null; // what changes in the picture

const link = new Link({ welcome, tick: show, told: ({ sentence }) => tell(sentence, { bad: true }), wide() {}, state: showState });
const ask = (what, words) => link.do(what, words).then(() => tell(""), (error) => tell(error.message, { bad: true }));

at("pause").addEventListener("click", () => ask("pause", { on: !view.paused }));
at("goal").addEventListener("submit", (event) => {
  event.preventDefault();
  const [x, y, ...more] = at("place").value.split(",").map((text) => (text.trim() ? Number(text) : NaN));
  if (more.length || !Number.isFinite(x) || !Number.isFinite(y)) return tell("A place is two numbers, such as 12,16.", { bad: true });
  ask("goal", { x, y });
});
svg.addEventListener("click", (event) => {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  ask("goal", { x: Number(x.toFixed(2)), y: Number(y.toFixed(2)) });
});

function welcome(words) {
  ({ command } = words);
  write(at("title"), `A walk through OGBench's maze “${words.maze}”`);
  write(at("about"), `devmind ${words.version}. Everything stays on the machine it runs on.`);
  build(words);
  const tasks = Array.from({ length: words.tasks }, (_, number) => make("button", { type: "button", textContent: `task ${number + 1}` }));
  for (const [number, button] of tasks.entries()) button.addEventListener("click", () => ask("task", { number: number + 1 }));
  at("tasks").replaceChildren(...tasks);
  show(words);
}

function draw(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Walls once; what moves stands above them. Cell (row, column) has its middle at (column - 1, row - 1) cells. */
function build({ walls, cell }) {
  const half = cell / 2;
  svg.setAttribute("viewBox", [-cell - half, -cell - half, walls[0].length * cell, walls.length * cell].join(" "));
  const cells = walls.flatMap((row, i) => row.map((wall, j) => draw("rect", {
    class: wall ? "wall" : "free", x: (j - 1) * cell - half, y: (i - 1) * cell - half, width: cell, height: cell,
  })));
  drawn = {
    trail: draw("polyline", { class: "line trail" }),
    gone: draw("polyline", { class: "line gone" }),
    plan: draw("polyline", { class: "line plan" }),
    points: draw("g", {}),
    goal: draw("g", {}),
    at: draw("circle", { class: "at", r: 0.75 }),
  };
  drawn.goal.append(draw("circle", { class: "goal", r: 1 }), draw("circle", { class: "goal heart", r: 0.3 }));
  svg.replaceChildren(...cells, ...Object.values(drawn));
}

const line = (places) => places.map((place) => place.join(",")).join(" ");

function show(words) {
  view = words;
  const { plan, stride } = view;
  drawn.trail.setAttribute("points", line(view.trail));
  const passed = Math.min(plan.length, Math.floor(stride) + 1);
  drawn.gone.setAttribute("points", line(plan.slice(0, passed)));
  drawn.plan.setAttribute("points", line(plan.slice(Math.max(0, passed - 1))));
  drawn.points.replaceChildren(...plan.map(([cx, cy], number) => draw("circle", { class: "point", cx, cy, r: 0.32, opacity: number < passed ? 0.3 : 1 })));
  drawn.goal.setAttribute("transform", `translate(${view.goal.join(" ")})`);
  drawn.at.setAttribute("cx", view.at[0]);
  drawn.at.setAttribute("cy", view.at[1]);
  showWords();
  showState("connected");
  at("pause").setAttribute("aria-pressed", String(view.paused));
  write(at("pause"), view.paused ? "Go on" : "Pause");
}

function showWords() {
  const moves = view.words.map((word) => SIGNS[word] ?? word);
  const list = at("words");
  if (list.dataset.drawn !== moves.join()) {
    list.dataset.drawn = moves.join();
    list.replaceChildren(...moves.map((move) => make("li", { textContent: move })));
  }
  write(at("age"), view.age ? `Plan number ${view.plans}, followed for ${view.age} of ${view.follow} ticks, then it plans anew. Tick ${view.tick}.` : "No plan yet.");
  write(at("verdict"), view.verdict ? `Its judge of plans says: ${view.verdict.replace("judged to fail", "it fails").replace("judged sound", "it is sound")}.` : "");
}

function showState(state) {
  for (const control of document.querySelectorAll("button, input")) control.disabled = OVER.includes(state);
  if (state !== "connected") {
    write(at("state"), STATES[state](command));
    at("state").className = state;
    return;
  }
  write(at("state"), view.ended || (view.paused ? "paused" : "walking"));
  at("state").className = view.ended ? "there" : view.paused ? "paused" : "walking";
}
