// The whole page: each message of the link goes to the part that shows it.

import { showBeliefs } from "./beliefs.js";
import { sendFrames } from "./camera.js";
import { setControls, showControls, startControls } from "./controls.js";
import { askFor } from "./devices.js";
import { showAsked, showSaid, showSpoken, showWanted, startDialogue } from "./dialogue.js";
import { setWorld, showDoing, showWorld } from "./doing.js";
import { at, tell, write } from "./dom.js";
import { showHealth } from "./health.js";
import { showHeard, showSound } from "./hearing.js";
import { keep, kept } from "./kept.js";
import { showLearning, showSurprise } from "./learning.js";
import { Link } from "./link.js";
import { refresh, showPointed, showRecalled } from "./memories.js";
import { sendSound } from "./microphone.js";
import { showExamples, showHeld, showNames, startNaming } from "./naming.js";
import { drawWide, isSeeing, mirror, shape, showPicture } from "./picture.js";
import { showPlan } from "./plan.js";
import { showRun } from "./run.js";
import { OVER, STATES } from "./states.js";
import { offerSteps, showSteps, startSteps, taughtStep } from "./steps.js";

const RETRY_MS = 3000;
const GONE_MS = 1500; // a camera that stumbles is no reason to cover the picture
let command = "devmind live"; // what starts such a life, from the welcome
let camera = "none"; // whose: "browser", "here" or "none"
let areDevicesAsked = false;
let isTaken = true; // false while another page gives its camera and microphone
const letGo = []; // what ends the use of camera and microphone

const link = new Link({ welcome, tick, told, wide: drawWide, state: showState });
const changed = async () => taughtStep(await refresh(link));
startNaming(link, changed);
startDialogue(link, changed);
startControls(link);
startSteps();
at("try-again").addEventListener("click", () => startDevices(at("try-again").wanted));
at("engineers").open = kept("engineers") === "open";
at("engineers").addEventListener("toggle", () => {
  if (!document.body.classList.contains("watch")) keep("engineers", at("engineers").open ? "open" : "shut");
});

function welcome(words) {
  ({ command = command, camera } = words);
  setControls(words);
  setWorld(words);
  at("engineers").open ||= words.mode === "watch"; // nothing else tells when a run was last saved
  showState(words.paused ? "paused" : "connected");
  offerSteps(words);
  showExamples(link, words.examples, changed);
  changed();
  const keeps = words.private ? " Private: nothing is kept." : "";
  write(at("about"), `devmind ${words.version}. Everything stays on the machine it runs on.${keeps}`);
  if (camera === "none") noPicture("It has no camera here.");
  if (words.microphone === "none") write(at("level-says"), "It has no microphone here.");
  if (camera === "here") noPicture("Waiting for the camera …");
  const wanted = [camera === "browser" && "video", words.microphone === "browser" && "audio"].filter(Boolean);
  if (wanted.length && !areDevicesAsked) startDevices(wanted);
}

/** Faults stay on the page until they are mended. */
function showFaults(sentences) {
  if (!sentences) return;
  write(at("faults"), sentences.join(" "));
  at("faults").hidden = !sentences.length;
}

/** Too many Moments are left out: that is why it is slow, and not what people do. */
function showBusy(sentence = "") {
  write(at("busy"), sentence);
  at("busy").hidden = !sentence;
}

/** The text that the world shows it, such as an instruction; a world without one has no such line. */
function showInstruction(page) {
  at("instruction").hidden = !page;
  if (page) write(at("instruction"), `Its instruction: “${page}”.`);
}

/** The goals of its procedures; without procedures there is no such line. */
function showDoings(doing) {
  at("intends").hidden = !doing;
  if (doing) write(at("intends"), doing.length ? `It intends ${doing.join("; ")}.` : "It has procedures, but intends nothing now.");
}

function tick(view) {
  link.expect(!view.paused);
  showFaults(view.faults);
  if (!view.paused) showBusy(view.busy);
  if (view.paused !== undefined) showState(view.paused ? "paused" : "connected");
  showPicture(view);
  if (!view.paused) showInstruction(view.page);
  showBeliefs(view.beliefs);
  if (!view.paused) showPlan(view.plan);
  if (!view.paused) showDoings(view.doing);
  showSaid(view.says, view.aloud);
  showAsked(link, view, changed);
  showWanted(link, view.wants, changed);
  if (!view.paused) showDeviceFaults(view);
  showSteps(view);
  showHeld(view.held);
  showNames(view.names);
  showSound(view.sound);
  showHeard(view.heard);
  showSpoken(view.spoken);
  showRecalled(link, view.recalled);
  showPointed(view.points);
  showDoing(view);
  showWorld(view.world);
  showSurprise(view.surprise, view.learning);
  showLearning(view.learning);
  showRun(view.run);
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

/** If a device of the machine gives nothing, the reason stands in place of its picture or sound. */
function showDeviceFaults({ health = {}, sound, own_voice: isSpeaking }) {
  const faultOf = (wanted) => Object.values(health).find(({ sense }) => sense === wanted)?.fault;
  if (camera === "here" && !isSeeing(GONE_MS) && faultOf("sight")) noPicture(faultOf("sight"));
  if (!sound && isSpeaking) write(at("level-says"), "It is speaking and does not listen meanwhile.");
  else if (!sound && faultOf("sound")) write(at("level-says"), faultOf("sound"));
}

function showState(state) {
  write(at("state"), STATES[state](command));
  at("state").className = state;
  if (!OVER.includes(state)) return;
  endDevices();
  showBusy();
  noPicture(`${STATES[state](command)}.`);
  at("paused").hidden = true;
}

/** No agent is there to see or hear: camera and microphone are off, and their lights too. */
function endDevices() {
  for (const end of letGo.splice(0)) end();
  at("own").hidden = at("fovea").hidden = true;
  at("own").srcObject = null;
  areDevicesAsked = false;
}

const stop = (stream) => stream?.getTracks().forEach((track) => track.stop());

async function startDevices(wanted) {
  areDevicesAsked = true;
  if (wanted.includes("video")) noPicture("Your browser asks whether this page may see and hear you. Nothing leaves the machine devmind runs on.");
  const { video, audio, faults } = await askFor(wanted);
  const left = wanted.filter((kind) => !{ video, audio }[kind]);
  if (!areDevicesAsked) return [video, audio].forEach(stop); // it ended while the browser asked
  if (video) showOwn(video);
  if (audio) {
    const silent = (isSilent) => isSilent ? tell("Click anywhere, so that the browser lets it hear.", { seconds: 0 }) : tell("");
    letGo.push(() => stop(audio));
    try {
      const end = await sendSound(audio, link, { isTaken: () => isTaken, silent, ended: lostMicrophone });
      if (!areDevicesAsked) return end(); // it ended meanwhile
      letGo.push(end);
    } catch (error) {
      faults.push(`The microphone cannot be used (${error.name}). Another browser may help.`);
    }
  }
  at("try-again").wanted = left;
  if (left.includes("video")) noPicture(faults.join(" "), true);
  else if (faults.length) tell(`${faults.join(" ")} To try again, reload this page.`, { bad: true, seconds: 0 });
}

function showOwn(stream) {
  const own = at("own");
  own.onresize = () => shape(own.videoWidth, own.videoHeight);
  own.hidden = false;
  at("no-picture").hidden = true;
  // A phone's rear camera points away from its user: a mirror would surprise there.
  mirror(stream.getVideoTracks()[0].getSettings().facingMode !== "environment");
  letGo.push(() => stop(stream));
  sendFrames(stream, own, link, { isTaken: () => isTaken, ended: lostCamera });
}

function lostCamera() {
  at("own").hidden = true;
  at("try-again").wanted = ["video"];
  noPicture("The camera is gone. Plug it in again, or allow it again, and try again.", true);
}

function lostMicrophone() {
  tell("The microphone is gone. Plug it in or allow it, and reload this page.", { bad: true, seconds: 0 });
}

function noPicture(sentence, canTry = false) {
  at("no-picture").hidden = false;
  at("try-again").hidden = !canTry;
  write(at("no-picture-says"), sentence);
}
