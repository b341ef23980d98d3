// Surprise over the last minute, and the state of a lesson that runs beside the life: curves, progress and scores.

import { at, make, times, write } from "./dom.js";
import { drawLines } from "./lines.js";

const KEPT = 600;
const COLOURS = { sight: "#6cc5ff", sound: "#7ee0a8" };
const SENSES = { sight: "what it sees", sound: "what it hears" };
const history = {};
const charts = new Map();

/** Add one tick's surprise, by sense; 1 is the error of expecting no change. Shown only for an agent that learns. */
export function showSurprise(surprise, learning) {
  if (!surprise) return;
  for (const [sense, value] of Object.entries(surprise)) {
    history[sense] = [...(history[sense] ?? []), value].slice(-KEPT);
  }
  if (!learning) return;
  at("surprised").hidden = false;
  const lines = Object.entries(history).map(([sense, values]) => ({
    points: values.map((value, index) => [KEPT - values.length + index, value]),
    colour: COLOURS[sense] ?? "#c9a6ff",
  }));
  drawLines(at("surprise"), lines, { left: 0, right: KEPT, low: 0, high: 1.5, dashed: 1 });
  const now = Object.entries(surprise).filter(([, value]) => value !== null);
  const words = now.map(([sense, value]) => `${SENSES[sense] ?? sense} ${value.toFixed(2)}`).join(", ");
  write(at("surprise-says"), `${words}. Lower is better; the dashed line at 1 is the error of expecting no change.`);
}

/** Show the state of the lesson that runs beside the life. */
export function showLearning(learning) {
  if (!learning) return;
  at("learning").hidden = false;
  const { curves = {}, lesson, step = 0, steps = 0, scores = [], handed_over: handedOver = 0 } = learning;
  at("lesson").hidden = !lesson;
  if (lesson) {
    const [words, bar] = at("lesson").children;
    const handed = handedOver ? `; handed over ${times(handedOver)}` : "";
    const where = step ? `: step ${step}${steps ? ` of ${steps}` : ""}` : "";
    write(words, `${lesson}${where}${handed}`);
    bar.hidden = !step;
    if (steps) bar.value = step / steps;
    else bar.removeAttribute("value");
  }
  for (const [name, { canvas }] of charts) {
    if (name in curves) continue;
    canvas.parentElement.remove();
    charts.delete(name);
  }
  for (const [name, points] of Object.entries(curves)) drawCurve(name, points);
  showScores(scores);
}

function drawCurve(name, points) {
  if (!points.length) return;
  if (!charts.has(name)) {
    const canvas = make("canvas", { width: 300, height: 70, role: "img" });
    const caption = make("figcaption");
    charts.set(name, { canvas, caption });
    at("curves").append(make("figure", {}, canvas, caption));
  }
  const { canvas, caption } = charts.get(name);
  const last = points.at(-1)[1];
  const words = `${name.replaceAll("_", " ")} ${Number(last?.toPrecision(3) ?? NaN)}`;
  if (caption.textContent === words && canvas.dataset.count === String(points.length)) return;
  canvas.dataset.count = points.length;
  canvas.setAttribute("aria-label", `Curve of ${words}`);
  write(caption, words);
  drawLines(canvas, [{ points, colour: "#c9a6ff" }]);
}

function showScores(scores) {
  const rows = scores.map(({ name, score, passed }) => {
    const verdict = passed ? "passed" : passed === false ? "failed" : "so far";
    return make("li", { className: passed ? "passed" : "" }, `${name}: ${Number(score.toPrecision(3))}, ${verdict}`);
  });
  const words = rows.map((row) => row.textContent).join();
  if (at("scores").dataset.words === words) return;
  at("scores").dataset.words = words;
  at("scores").replaceChildren(...rows);
}
