// A curve with its axes, as SVG: ticks at round numbers, units beside them.

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 170, 54, 12, 20, 30];

/** A new SVG element with attributes and children. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The curve of points [[step, value]] from step 0 to `steps` (or its last); `unit` is that of the values. */
export function chart(name, unit, points, steps) {
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": `${name}, ${unit}, against steps` });
  const finite = points.filter(([, y]) => Number.isFinite(y));
  if (!finite.length) {
    svg.append(draw("text", { x: LEFT, y: HEIGHT / 2 }, "no finite values"));
    return svg;
  }
  const ys = finite.map(([, y]) => y);
  const [low, high] = range(Math.min(...ys), Math.max(...ys));
  const end = Math.max(steps, finite.at(-1)[0], 1);
  const across = (x) => LEFT + (x / end) * (WIDTH - LEFT - RIGHT);
  const down = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  for (const y of ticks(low, high)) {
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: down(y), y2: down(y) }));
    svg.append(draw("text", { class: "y", x: LEFT - 6, y: down(y) + 4, "text-anchor": "end" }, short(y)));
  }
  for (const x of ticks(0, end)) svg.append(draw("text", { class: "x", x: across(x), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, short(x)));
  svg.append(draw("text", { x: 2, y: 11 }, unit), draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, "steps"));
  const places = finite.map(([x, y]) => `${across(x).toFixed(1)} ${down(y).toFixed(1)}`);
  const [endX, endY] = places.at(-1).split(" ");
  svg.append(draw("path", { class: "line", d: `M${places.join("L")}` }), draw("circle", { class: "end", cx: endX, cy: endY, r: 3 }));
  return svg;
}

/** The values' range with a little room, from zero on where zero is near; never empty. */
function range(low, high) {
  if (high <= low) return [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(low) / 2 || 0.5)];
  const room = 0.05 * (high - low);
  return [low >= 0 && low < high / 3 ? 0 : low - room, high + room];
}

/** Two to six round numbers from low to high, at 1, 2 or 5 times a power of ten. */
export function ticks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

const short = (value) => (Math.abs(value) >= 1e4 ? `${value / 1e3} k` : String(Number(value.toPrecision(6))).replace("-", "−"));
