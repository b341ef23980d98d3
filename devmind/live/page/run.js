// A training run: its state in the header, every lesson with its curves, every score beside its gate.

import { chart, draw } from "./chart.js";
import { at, make, write } from "./dom.js";

const STATUS = { now: "", done: "done", cut: "cut short" };
const lessons = new Map(); // name -> what shows it
const rows = new Map(); // measure -> its row, and what it shows
let stage = ""; // whose they are

/** Show the contents of a run's journal so far. */
export function showRun(run) {
  if (!run) return;
  at("run").hidden = false;
  if (run.stage !== stage) begin(run.stage);
  write(at("state"), run.says);
  at("state").className = run.state;
  write(at("run-title"), run.stage ? `Stage ${run.stage}` : "A run");
  write(at("run-saved"), run.saved_age_s === null ? "Nothing is saved yet." : `Saved ${ago(run.saved_age_s)}.`);
  at("run-no-lessons").hidden = run.lessons.length > 0;
  for (const lesson of run.lessons) showLesson(lesson);
  at("run-no-scores").hidden = run.scores.length > 0;
  at("run-legend").hidden = !run.scores.length;
  for (const score of run.scores) showScore(score);
}

/** A curriculum has begun its next stage: lessons and scores of the one before are no part of it. */
function begin(next) {
  stage = next;
  lessons.clear();
  rows.clear();
  at("run-lessons").replaceChildren();
  at("run-scores").replaceChildren();
}

function showLesson({ name, step, steps, status, curves }) {
  if (!lessons.has(name)) {
    const [words, bar, charts] = [make("h4"), make("progress", { max: 1 }), make("div", { className: "charts" })];
    lessons.set(name, { words, bar, charts, figures: new Map() });
    at("run-lessons").prepend(make("section", { className: "lesson" }, words, bar, charts));
  }
  const { words, bar, charts, figures } = lessons.get(name);
  const where = steps ? `${count(step)} of ${count(steps)} steps` : `${count(step)} steps`;
  write(words, [name, where, STATUS[status] ?? status].filter(Boolean).join(" · "));
  bar.hidden = !steps || status === "done";
  bar.value = steps ? step / steps : 0;
  for (const curve of curves) showCurve(charts, figures, curve, steps);
}

function showCurve(charts, figures, { name, unit, points }, steps) {
  const [step, value] = points.at(-1);
  const drawn = `${points.length} ${step} ${value}`;
  if (!figures.has(name)) {
    figures.set(name, make("figure"));
    charts.append(figures.get(name));
  }
  const figure = figures.get(name);
  if (figure.dataset.drawn === drawn) return;
  figure.dataset.drawn = drawn;
  const caption = make("figcaption", {}, name, make("span", { textContent: number(value) }));
  figure.replaceChildren(caption, chart(name, unit, points, steps));
}

function showScore(measured) {
  const { name, when, passed, verdict: said = null, gate = null, higher_is_better: isUp = true, beaten_by: rule } = measured;
  const drawn = JSON.stringify(measured);
  if (!rows.has(name)) {
    rows.set(name, make("li"));
    at("run-scores").append(rows.get(name));
  }
  const row = rows.get(name);
  if (row.dataset.drawn === drawn) return;
  row.dataset.drawn = drawn;
  row.className = passed ? "passed" : passed === false ? "failed" : "";
  const isMissedGoal = said === "goal missed"; // which is no failure
  const wanted = gate === null ? "" : `, ${isMissedGoal ? "goal" : "gate"} at ${isUp ? "least" : "most"} ${number(gate)}`;
  const better = rule && passed ? ` (${rule} ${number(measured.floor)})` : "";
  const verdict = passed === null && !isMissedGoal ? "" : `: ${said ?? (!passed ? "failed" : rule ? "passed, a rule does better" : "passed")}`;
  const words = make("span", {}, `${number(measured.score)} ${when}${wanted}`, make("em", { textContent: verdict }), better);
  row.replaceChildren(make("b", {}, name, make("small", { textContent: measured.unit ?? "" })), scale(measured, gate, isUp), words);
}

/** Score, gate, chance and floor on one line; places are percentages, so that it stretches with its row. */
function scale({ name, score, chance = null, floor = null, ceiling = null }, gate, isUp) {
  const marks = [score, chance, floor, ceiling, gate].filter((mark) => mark !== null);
  const isShare = marks.every((mark) => mark >= 0 && mark <= 1);
  const [low, high] = isShare ? [0, 1] : [Math.min(...marks), Math.max(...marks)];
  const place = (value) => `${1 + (98 * (value - low)) / (high - low || 1)}%`;
  const line = (kind, value) => draw("line", { class: `scale ${kind}`, x1: place(value), x2: place(value), y1: 4, y2: 20 });
  const svg = draw("svg", { role: "img", "aria-label": `${name}: ${number(score)}${gate === null ? "" : `, gate ${number(gate)}`}` });
  svg.append(draw("line", { class: "scale", x1: "1%", x2: "99%", y1: 12, y2: 12 }));
  if (gate !== null) {
    const [from, to] = (isUp ? [gate, high] : [low, gate]).map((value) => Number.parseFloat(place(value)));
    svg.append(draw("rect", { class: "scale good", x: `${from}%`, width: `${Math.max(0, to - from)}%`, y: 4, height: 16 }), line("gate", gate));
  }
  if (chance !== null) svg.append(line("chance", chance));
  if (floor !== null && floor !== chance) svg.append(line("floor", floor));
  svg.append(draw("circle", { class: "scale score", cx: place(score), cy: 12, r: 5 }));
  return svg;
}

const count = (value) => value.toLocaleString("en");

const number = (value) => (value === null ? "not finite" : String(Number(value.toPrecision(3))).replace("-", "−"));

const ago = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`);
