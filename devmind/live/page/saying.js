// What it says: shown, and spoken by a voice of this machine where there is one.

import { at, write } from "./dom.js";

const SHOWN_MS = 8000;
let timer;

/** Show and speak one tick's words; none leave what was said last standing for a while. */
export function showSaid(text) {
  if (!text) return;
  at("says").hidden = false;
  write(at("says"), `It says: “${text}”`);
  clearTimeout(timer);
  timer = setTimeout(() => (at("says").hidden = true), SHOWN_MS);
  speak(text);
}

/** Voices that are not of this machine send what they speak away, so they are never used. */
function speak(text) {
  const voice = globalThis.speechSynthesis?.getVoices().find((one) => one.localService);
  if (!voice) return;
  const words = new SpeechSynthesisUtterance(text);
  words.voice = voice;
  speechSynthesis.speak(words);
}
