// For engineers: the state of each device, the time that a moment takes, and what was left out for lack of time.

import { at, make, percent, times, write } from "./dom.js";

const rows = new Map();
const vitals = new Map();
let toldMs = -Infinity;

/** Show the counters, at most twice a second: numbers that change faster cannot be read. */
export function showHealth(view) {
  const nowMs = performance.now();
  if (nowMs - toldMs < 500) return;
  toldMs = nowMs;
  for (const [name, sensor] of Object.entries(view.health ?? {})) showSensor(name, sensor, view.missing ?? {});
  if (view.work_ms !== undefined) vital("thinking, a moment", `${view.work_ms.toFixed(1)} ms`);
  if (view.skipped !== undefined && view.tick) vital("moments left out", share(view.skipped, view.tick));
  if (view.checkpoint_age_s !== undefined) vital("last saved", ago(view.checkpoint_age_s));
  if (view.recorder) {
    const { dropped_ticks: ticks, dropped_frames: frames } = view.recorder;
    vital("not recorded", `${ticks} moments, ${frames} pictures`, ticks > 0);
  }
  if (view.viewers_dropped !== undefined) vital("not shown on a page", `${view.viewers_dropped} moments`);
}

function showSensor(name, { sense, rate_hz: rate, samples_hz: samples, drops = 0, reconnects, fault }, missing) {
  if (!rows.has(name)) {
    const cells = Array.from({ length: 4 }, () => make("td"));
    const says = make("td", { colSpan: 5, className: "fault" });
    const faultRow = make("tr", { hidden: true }, says);
    at("sensors").append(make("tr", {}, make("th", { scope: "row", textContent: name }), ...cells), faultRow);
    rows.set(name, { cells, says, faultRow });
  }
  const { cells, says, faultRow } = rows.get(name);
  const values = [sense, rateWords(rate, samples), lostWords(drops, samples), missing[sense] ?? 0];
  cells.forEach((cell, index) => write(cell, String(values[index])));
  const again = reconnects ? ` Connected again ${times(reconnects)}.` : "";
  write(says, fault ? fault + again : "");
  faultRow.hidden = !fault;
}

/** Frames a second; a sound comes in blocks of samples. */
function rateWords(rateHz, samplesHz) {
  if (!Number.isFinite(rateHz)) return "";
  return `${rateHz.toFixed(1)}${samplesHz ? " blocks" : ""}/s`;
}

/** Frames as their number; samples as the time that they would have lasted. */
const lostWords = (drops, samplesHz) => (samplesHz ? `${(drops / samplesHz).toFixed(1)} s` : String(drops));

/** "1029 of 8000 (13 %)": a number alone says nothing after an hour. */
const share = (part, whole) => (part ? `${part} of ${whole} (${percent(part / whole)})` : "none");

function vital(name, value, isBad = false) {
  if (!vitals.has(name)) {
    const place = make("dd");
    at("vitals").append(make("div", {}, make("dt", { textContent: name }), place));
    vitals.set(name, place);
  }
  write(vitals.get(name), String(value));
  vitals.get(name).classList.toggle("bad", isBad);
}

function ago(seconds) {
  if (seconds === null) return "never";
  return seconds < 90 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`;
}
