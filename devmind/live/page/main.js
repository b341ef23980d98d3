// The page as a whole: what comes through the link goes to the part that shows it.

import { sendFrames } from "./camera.js";
import { setControls, showControls, startControls } from "./controls.js";
import { askFor } from "./devices.js";
import { showDoing } from "./doing.js";
import { at, tell, write } from "./dom.js";
import { showHealth } from "./health.js";
import { showSound } from "./hearing.js";
import { showLearning, showSurprise } from "./learning.js";
import { Link } from "./link.js";
import { refresh, showRecalled } from "./memories.js";
import { sendSound } from "./microphone.js";
import { showExamples, showNames, startNaming } from "./naming.js";
import { drawWide, shape, showPicture } from "./picture.js";

const RETRY_MS = 3000;
const STATES = {
  connected: "awake",
  lost: "connection lost, trying again …",
  stranger: "devmind was started again: open the new address it printed",
};
let areDevicesAsked = false;
let isTaken = true; // false while another page gives its camera and microphone

const link = new Link({ welcome, tick, told, wide: drawWide, state: showState });
const changed = () => refresh(link);
startNaming(link, changed);
startControls(link);
at("try-again").addEventListener("click", () => startDevices(at("try-again").wanted));

function welcome(words) {
  setControls(words);
  showExamples(link, words.examples, changed);
  refresh(link);
  const keeps = words.private ? " Private: nothing is kept." : "";
  write(at("about"), `devmind ${words.version}. Everything stays on the machine it runs on.${keeps}`);
  if (words.camera === "none") noPicture("It has no camera here.");
  if (words.microphone === "none") write(at("level-says"), "It has no microphone here.");
  if (words.camera === "here") noPicture("Waiting for the camera …");
  const wanted = [words.camera === "browser" && "video", words.microphone === "browser" && "audio"].filter(Boolean);
  if (wanted.length && !areDevicesAsked) startDevices(wanted);
}

/** What is wrong stands there until it is mended. */
function showFaults(sentences) {
  if (!sentences) return;
  write(at("faults"), sentences.join(" "));
  at("faults").hidden = !sentences.length;
}

function tick(view) {
  showFaults(view.faults);
  showPicture(view);
  showNames(view.names);
  showSound(view.sound);
  showRecalled(link, view.recalled);
  showDoing(view);
  showSurprise(view.surprise);
  showLearning(view.learning);
  showHealth(view);
  showControls(view);
}

function told({ about, sentence }) {
  tell(sentence, { bad: true });
  if (about === "devices") {
    isTaken = false;
    setTimeout(() => (isTaken = true), RETRY_MS);
  }
}

function showState(state) {
  write(at("state"), STATES[state]);
  at("state").className = state;
  if (state === "stranger") tell(`${STATES.stranger}.`, { bad: true, seconds: 0 });
}

async function startDevices(wanted) {
  areDevicesAsked = true;
  if (wanted.includes("video")) noPicture("Your browser asks whether this page may see and hear you. Nothing leaves the machine devmind runs on.");
  const { video, audio, faults } = await askFor(wanted);
  const left = wanted.filter((kind) => !{ video, audio }[kind]);
  if (video) showOwn(video);
  if (audio) {
    const silent = (isSilent) => isSilent ? tell("Click anywhere, so that the browser lets it hear.", { seconds: 0 }) : tell("");
    await sendSound(audio, link, { isTaken: () => isTaken, silent, ended: lostMicrophone });
  }
  at("try-again").wanted = left;
  if (left.includes("video")) noPicture(faults.join(" "), true);
  else if (faults.length) tell(`${faults.join(" ")} To try again, load this page anew.`, { bad: true, seconds: 0 });
}

function showOwn(stream) {
  const own = at("own");
  own.onresize = () => shape(own.videoWidth, own.videoHeight);
  own.hidden = false;
  at("no-picture").hidden = true;
  sendFrames(stream, own, link, { isTaken: () => isTaken, ended: lostCamera });
}

function lostCamera() {
  at("own").hidden = true;
  at("try-again").wanted = ["video"];
  noPicture("The camera is gone. Plug it in again, or allow it again, and try again.", true);
}

function lostMicrophone() {
  tell("The microphone is gone. Plug it in or allow it, and load this page again.", { bad: true, seconds: 0 });
}

function noPicture(sentence, canTry = false) {
  at("no-picture").hidden = false;
  at("try-again").hidden = !canTry;
  write(at("no-picture-says"), sentence);
}
