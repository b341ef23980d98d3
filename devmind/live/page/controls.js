// Record, pause, age and the large view; the red lamp is on while anything is written.

import { showAskable, showQuestions } from "./dialogue.js";
import { at, tell, write } from "./dom.js";

const LARGE = "#large";
const NOW = "now"; // the age at which this life began, where that is no milestone

/** Let the buttons work through `link`. */
export function startControls(link) {
  at("record").addEventListener("click", () => turn(link, "record", at("record")));
  at("pause").addEventListener("click", () => turn(link, "pause", at("pause")));
  at("large").addEventListener("click", () => (location.hash = location.hash === LARGE ? "" : LARGE));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && location.hash === LARGE) location.hash = "";
  });
  addEventListener("hashchange", showLarge);
  showLarge();
  at("age").addEventListener("change", () => changeAge(link));
  at("age").addEventListener("input", () => ages[at("age").value] && sayAge(ages[at("age").value]));
}

let ages = [];

/** Show the controls that this life has. */
export function setControls({ mode, can_record: canRecord, ages: given = [], age, questions, paused }) {
  at("record").hidden = !canRecord;
  document.body.classList.toggle("watch", mode === "watch");
  ages = given;
  at("ages").hidden = ages.length < 2;
  at("age").max = Math.max(0, ages.length - 1);
  showAge(age);
  showQuestions(questions, age);
  showPaused(paused);
}

/** Show a tick's state of recording, pausing and age. */
export function showControls(view) {
  press(at("record"), view.recording, view.recording ? "Stop recording" : "Record");
  showPaused(view.paused);
  at("lamp").classList.toggle("lit", Boolean(view.writing));
  const calm = view.private ? "private: nothing is kept" : "not recording";
  write(at("lamp-says"), view.recording ? "recording" : view.writing ? "keeping what it senses" : calm);
  showAskable(view.age);
  if (view.age !== undefined && document.activeElement !== at("age")) showAge(view.age);
}

function showPaused(isPaused) {
  press(at("pause"), isPaused, isPaused ? "Go on" : "Pause");
  at("paused").hidden = !isPaused;
}

function press(button, isOn, words) {
  if (isOn === undefined) return;
  button.setAttribute("aria-pressed", String(isOn));
  write(button, words);
}

function showAge(id) {
  const index = ages.findIndex((age) => age.id === id);
  if (index < 0) return;
  at("age").value = index;
  sayAge(ages[index]);
}

/** Name the age that the slider stands at, also for who hears it, and say what is new at it. */
function sayAge({ label, new: news }) {
  at("age").setAttribute("aria-valuetext", label);
  write(at("age-says"), label);
  at("age-new").hidden = !news || ages.length < 2;
  write(at("age-new"), news ? `New at this age. ${news}` : "");
}

async function turn(link, command, button) {
  const isOn = button.getAttribute("aria-pressed") !== "true";
  try {
    const answer = await link.do(command, { on: isOn });
    if (command === "record") tell(isOn ? `Recording to ${answer.file}.` : `The recording is in ${answer.file}.`);
  } catch (error) {
    tell(error.message, { bad: true });
  }
}

async function changeAge(link) {
  const { id, label } = ages[at("age").value];
  try {
    showQuestions((await link.do("age", { id })).questions, id);
    tell(`Now it is as it ${id === NOW ? "is" : "was"} ${label}.`);
  } catch (error) {
    tell(error.message, { bad: true });
  }
}

function showLarge() {
  const isLarge = location.hash === LARGE;
  document.body.classList.toggle("large", isLarge);
  at("large").setAttribute("aria-pressed", String(isLarge));
  write(at("large"), isLarge ? "All of it" : "Large view");
}
