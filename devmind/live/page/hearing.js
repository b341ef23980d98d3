// The last seconds of sound as a scrolling picture of pitches, its level, and where it comes from.

import { at, percent, write } from "./dom.js";

const QUIETEST_DB = -80;
const LOUDNESS = [[-55, "quiet"], [-30, "not loud"], [-15, "loud"], [Infinity, "very loud"]]; // below so many dB
const canvas = at("mel");
const context = canvas.getContext("2d", { alpha: false });
const STOPS = [[14, 18, 24], [22, 62, 84], [38, 132, 122], [150, 196, 110], [255, 238, 170]];
const COLOURS = Array.from({ length: 256 }, (_, index) => colour(index / 255));

context.fillStyle = `rgb(${STOPS[0]})`;
context.fillRect(0, 0, canvas.width, canvas.height);

/** Show one tick's sound; without any the picture does not move. */
export function showSound(sound) {
  if (!sound) return;
  if (sound.mel?.length) scroll(sound.mel);
  const hasLevel = Number.isFinite(sound.level_db);
  const levelDb = hasLevel ? Math.max(QUIETEST_DB, Math.min(0, sound.level_db)) : QUIETEST_DB;
  const level = at("level");
  level.setAttribute("aria-valuenow", Math.round(levelDb));
  level.firstElementChild.style.width = `${100 * (1 - levelDb / QUIETEST_DB)}%`;
  write(at("level-says"), hasLevel ? `${loudness(levelDb)}, ${Math.round(levelDb)} dB` : "silence");
  point(sound.direction_deg);
}

/** The words it heard last, each with its probability; they stay until others come. */
export function showHeard(heard) {
  if (!heard) return;
  at("words-heard").hidden = false;
  const words = heard.words.map(([word, share]) => `${word} (${percent(share)})`);
  write(at("words-heard"), `It heard: ${words.join(" ")}${heard.examined ? "" : "; no exam has tested its hearing"}.`);
}

const loudness = (db) => LOUDNESS.find(([below]) => db < below)[1];

function point(directionDeg) {
  const isKnown = Number.isFinite(directionDeg);
  at("needle").classList.toggle("unknown", !isKnown);
  if (isKnown) at("needle").style.transform = `rotate(${-directionDeg}deg)`;
  const side = directionDeg > 0 ? "left" : "right";
  const words = Math.abs(directionDeg) < 3 ? "ahead" : `${Math.round(Math.abs(directionDeg))}° to its ${side}`;
  write(at("direction-says"), isKnown ? words : "no direction");
}

function scroll(columns) {
  const width = Math.min(columns.length, canvas.width);
  context.drawImage(canvas, -width, 0);
  const strip = context.createImageData(width, canvas.height);
  columns.slice(-width).forEach((column, x) => {
    column.forEach((value, pitch) => {
      const start = 4 * (x + width * (canvas.height - 1 - pitch));
      strip.data.set(COLOURS[Math.round(255 * Math.max(0, Math.min(1, value)))], start);
    });
  });
  context.putImageData(strip, canvas.width - width, 0);
}

function colour(part) {
  const place = part * (STOPS.length - 1);
  const below = Math.min(Math.floor(place), STOPS.length - 2);
  const mix = place - below;
  return [...STOPS[below].map((dark, index) => dark + mix * (STOPS[below + 1][index] - dark)), 255];
}
