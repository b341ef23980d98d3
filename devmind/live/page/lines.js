// Lines on a canvas.

/**
 * Draw lines [{points: [[x, y]], colour}] in the given range; missing limits come from the points.
 * A y that is null leaves a hole. `dashed` draws a level.
 */
export function drawLines(canvas, lines, { left, right, low, high, dashed } = {}) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const points = lines.flatMap((line) => line.points).filter(([, y]) => y !== null);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  left ??= Math.min(...xs);
  right ??= Math.max(...xs);
  low ??= Math.min(...ys);
  high ??= Math.max(...ys);
  const across = (x) => 2 + ((x - left) / (right - left || 1)) * (width - 4);
  const up = (y) => height - 3 - ((Math.min(high, Math.max(low, y)) - low) / (high - low || 1)) * (height - 6);

  context.clearRect(0, 0, width, height);
  if (dashed !== undefined) {
    stroke(context, [[across(left), up(dashed)], [across(right), up(dashed)]], "#7d8b9a", 1, [5, 5]);
  }
  for (const line of lines) {
    const places = line.points.map(([x, y]) => (y === null ? null : [across(x), up(y)]));
    stroke(context, places, line.colour, 2, []);
  }
}

function stroke(context, places, colour, width, dashes) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.beginPath();
  let isDown = false;
  for (const place of places) {
    if (place) isDown ? context.lineTo(...place) : context.moveTo(...place);
    isDown = place !== null;
  }
  context.stroke();
}
