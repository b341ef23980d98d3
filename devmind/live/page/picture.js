// The picture with the fovea, and in the fovea the overlays of perception, each only where it is sure.

import { at, make, percent, write } from "./dom.js";

const fovea = at("fovea");
const stage = at("stage");
const cells = Array.from({ length: 16 }, () => make("i"));
at("attention").append(...cells);
const chips = Object.fromEntries([...document.querySelectorAll("[data-overlay]")].map((chip) => [chip.dataset.overlay, chip]));
const POINTS_MS = 6000;
const GONE_MS = 500; // a frame that is missing here and there does not make the square flicker
let seenMs = -Infinity;
let isDrawing = false;
let isMirrored = false;

/** The shape of the frame, so that fractions of it are fractions of the stage. */
export function shape(width, height) {
  stage.style.setProperty("--ratio", width / height);
}

/**
 * Show the picture as a mirror does, as people know their own: only on the page, what is sent stays as it is. Pictures
 * in the square turn with it; places are turned here, so that words in the picture can be read.
 */
export function mirror(isOn) {
  isMirrored = isOn;
  stage.classList.toggle("mirrored", isOn);
}

export const isMirroring = () => isMirrored;

/** Whether a square came within the last `ms`. */
export const isSeeing = (ms) => performance.now() - seenMs < ms;

export const fromLeft = (left, width) => `${100 * (isMirrored ? 1 - left - width : left)}%`;

/** Draw the wide view of the machine's own camera; a frame that comes during decoding is dropped. */
export async function drawWide(jpeg) {
  if (isDrawing) return;
  isDrawing = true;
  try {
    const picture = await createImageBitmap(jpeg);
    const wide = at("wide");
    if (wide.width !== picture.width || wide.height !== picture.height) {
      [wide.width, wide.height] = [picture.width, picture.height];
      shape(picture.width, picture.height);
    }
    wide.getContext("2d").drawImage(picture, 0, 0);
    picture.close();
    wide.hidden = false;
    at("no-picture").hidden = true;
  } finally {
    isDrawing = false;
  }
}

/** Mark for a while the place it points to in its view: -1 to 1 from its left to its right, from top to bottom. */
export function point([across, down]) {
  const mark = at("pointing") ?? make("div", { id: "pointing" });
  mark.style.setProperty("--across", `${50 * (1 + across)}%`);
  mark.style.top = `${50 * (1 + down)}%`;
  mark.hidden = false;
  fovea.append(mark);
  clearTimeout(point.timer);
  point.timer = setTimeout(() => (mark.hidden = true), POINTS_MS);
}

/** Show one tick's fovea and overlays. */
export function showPicture(view) {
  if (view.fovea) {
    seenMs = performance.now();
    const { x, y, w, h } = view.fovea;
    Object.assign(fovea.style, { left: fromLeft(x, w), top: `${100 * y}%`, width: `${100 * w}%`, height: `${100 * h}%` });
  }
  fovea.hidden = performance.now() - seenMs > GONE_MS;
  showAttention(view.attention);
  const { boxes, masks, depth } = view.overlays ?? {};
  if (allowed("boxes", boxes)) at("boxes").replaceChildren(...boxes.boxes.map(box));
  if (allowed("masks", masks)) at("masks").src = masks.png;
  if (allowed("depth", depth)) at("depth").src = depth.png;
  if (depth?.sure && depth.near_m !== undefined) {
    write(chips.depth.querySelector("small"), `${depth.near_m.toFixed(1)} to ${depth.far_m.toFixed(1)} m`);
  }
}

/** Whether an overlay is shown: present, sure and switched on. One that was never sure has no switch. */
function allowed(name, overlay) {
  const chip = chips[name];
  if (overlay?.sure) offer(chip);
  write(chip.querySelector("small"), !overlay ? "" : overlay.sure ? percent(overlay.confidence) : "not sure now");
  chip.classList.toggle("unsure", Boolean(overlay) && !overlay.sure);
  const isShown = Boolean(overlay?.sure) && chip.querySelector("input").checked;
  at(name).hidden = !isShown;
  return isShown;
}

/** A switch appears once there is something to switch. */
function offer(chip) {
  chip.hidden = at("overlays").hidden = false;
}

function showAttention(rows) {
  if (rows) offer(chips.attention);
  const isShown = Boolean(rows) && chips.attention.querySelector("input").checked;
  at("attention").hidden = !isShown;
  if (!isShown) return;
  const weights = rows.flat();
  const most = Math.max(...weights, 1e-6);
  cells.forEach((cell, index) => (cell.style.opacity = (0.6 * weights[index]) / most));
}

function box([left, top, right, bottom, score]) {
  const frame = make("div", { className: "box" }, make("span", { textContent: percent(score) }));
  Object.assign(frame.style, {
    left: fromLeft(left, right - left),
    top: `${100 * top}%`,
    width: `${100 * (right - left)}%`,
    height: `${100 * (bottom - top)}%`,
  });
  return frame;
}
