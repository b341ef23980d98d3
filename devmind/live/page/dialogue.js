// The dialogue: typed text, its answers, words and questions, each with its probability; the last lines stay.

import { at, make, percent, tell } from "./dom.js";
import { PERHAPS, showTaught, undo } from "./naming.js";
import { point } from "./picture.js";

const THIRD = 1 / 3;
const KEPT = 12; // lines
const WAITING = "…";
let asked; // the number of its last question, and where that stands
let answered; // the number of what was spoken to it last
let question;
let wanted; // the number of what it asked about its instruction last
let wanting; // and the form of its answer

/** Let the form talk through `link`; `changed` is called after each name that was taught or undone. */
export function startDialogue(link, changed) {
  at("say").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = at("words").value.trim();
    if (!text || at("say").classList.contains("busy")) return;
    at("words").value = "";
    converse(link, changed, at("say"), text, "say", { text });
  });
  at("taught-questions").addEventListener("click", ({ target }) => {
    const text = target.closest("button")?.textContent;
    if (text && !at("say").classList.contains("busy")) converse(link, changed, at("say"), text, "say", { text });
  });
  at("may-ask").addEventListener("change", ({ target }) => {
    link.do("asks", { on: target.checked }).catch((error) => tell(error.message, { bad: true }));
  });
}

let askable; // the age whose questions are shown

/** Offer questions that its lessons taught it to answer at this age; none if it cannot write. */
export function showQuestions(questions = [], age = askable) {
  askable = age;
  at("taught-questions").hidden = !questions.length;
  at("taught-questions").replaceChildren(...questions.map((text) => make("button", { type: "button", textContent: text })));
}

/** Another page may have changed its age: the questions of the age before are not offered any more. */
export function showAskable(age) {
  if (age !== undefined && age !== askable) showQuestions([], age);
}

/** Send the text typed in a form as a command, and show the answer. */
async function converse(link, changed, form, text, command, words) {
  form.classList.add("busy");
  add("you", text);
  const line = add("it", WAITING);
  try {
    const done = await link.do(command, words);
    const taught = done.taught ?? (command === "teach" && done);
    if (taught) showTaught(link, taught, changed);
    if (done.questions?.length) showQuestions(done.questions);
    const own = [[done.learned, ", by what it was shown"], [done.own, ""]].filter(([words]) => words);
    const said = own.flatMap(([words, by]) => [`“${words.text}” `, sure(aside(words) + by), make("br")]);
    const pointing = [done.learned, done.own].find((words) => words?.points);
    if (pointing) point(pointing.points);
    line.replaceChildren(...said, done.answer, ...(taught ? [" ", undoButton(link, changed, taught.id)] : []));
  } catch (error) {
    line.classList.add("bad");
    line.replaceChildren(error.message);
  } finally {
    form.classList.remove("busy");
    at("talk").scrollTop = at("talk").scrollHeight;
  }
}

/** A new last line of the dialogue, by "you" or "it"; gives the place of its words. */
function add(who, ...words) {
  const line = make("p", {}, ...words);
  at("talk").append(make("li", { className: who }, make("b", { textContent: who }), line));
  while (at("talk").children.length > KEPT) at("talk").firstChild.remove();
  at("talk").hidden = false;
  at("talk-none").hidden = true;
  at("talk").scrollTop = at("talk").scrollHeight;
  return line;
}

/** The probability of its own words, and the place they point to: -1 to 1 from its left to its right, from top to bottom. */
function aside({ sure: share, points }) {
  const said = `${percent(share)} sure`;
  if (!points) return said;
  const side = ([less, more], at) => (Math.abs(at) < THIRD ? "" : at < 0 ? less : more);
  const place = [side(["to its left", "to its right"], points[0]), side(["above", "below"], points[1])].filter(Boolean);
  return `${said}; it points ${place.join(" and ") || "straight ahead"}`;
}

const sure = (words) => make("small", { textContent: words });

function undoButton(link, changed, id) {
  const button = make("button", { type: "button", className: "undo", textContent: "Undo" });
  button.addEventListener("click", () => undo(link, changed, id));
  return button;
}

/** Show its open question with the picture that it is about; and whether it may ask. */
export function showAsked(link, { asks, may_ask: mayAsk }, changed) {
  if (mayAsk !== undefined) at("may-ask").hidden = false;
  if (mayAsk !== undefined && document.activeElement !== at("may-ask").firstElementChild) {
    at("may-ask").firstElementChild.checked = mayAsk;
  }
  if (asks?.number !== asked || !asks) endQuestion();
  if (!asks || asks.number === asked) return;
  asked = asks.number;
  const guess = asks.confidence >= PERHAPS ? `perhaps ${asks.nearest}, ${percent(asks.confidence)}` : "nothing like what it knows";
  const known = asks.nearest ? guess : "it knows no name yet";
  const doubts = asks.doubt === undefined ? "" : `${percent(asks.doubt)} sure that it has no word for it; `;
  const words = make("span", {}, `${asks.text} `, sure(doubts + known));
  const named = ["teach", (name) => ({ name, of: "asked" })];
  question = answerForm(link, changed, "What it is", "a cup", 64, ...named);
  add("it", make("img", { src: asks.picture, alt: "What it asks about" }), words, question).classList.add("asks");
}

/** Show its question about its instruction as long as it lacks the answer: a word, or where a thing is. */
export function showWanted(link, wants, changed) {
  if (wants?.number === wanted) return;
  wanted = wants?.number;
  wanting = gone(wanting);
  if (!wants) return;
  const told = ["answer", (text) => ({ text })];
  wanting = answerForm(link, changed, "What it needs to know", "a ball, or: open the red door", 200, ...told);
  add("it", make("span", {}, wants.text), wanting).classList.add("asks");
}

function answerForm(link, changed, label, example, maxLength, command, words) {
  const field = make("input", { maxLength, autocomplete: "off", required: true, placeholder: example, autocapitalize: "off" });
  field.setAttribute("aria-label", label);
  const form = make("form", { className: "row" }, field, make("button", { type: "submit", textContent: "Tell it" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (text && !form.classList.contains("busy")) converse(link, changed, form, text, command, words(text));
  });
  return form;
}

/** The question was answered, or is no longer asked. */
function endQuestion() {
  question = gone(question);
}

/** Remove a form without losing the focus of the keyboard. */
function gone(form) {
  if (form?.contains(document.activeElement)) at("words").focus({ preventScroll: true });
  form?.remove();
  return undefined;
}

/** Show one tick's words, and speak them unless its own speaker does; without words the last ones stay. */
export function showSaid(text, isAloud) {
  if (!text || at("talk").lastChild?.lastChild.textContent === text) return;
  add("it", text);
  if (!isAloud) speak(text);
}

/** Show what was spoken to it and what it answered aloud, once. */
export function showSpoken(spoken) {
  if (!spoken || spoken.number === answered) return;
  answered = spoken.number;
  add("you", spoken.text, sure(" (heard)"));
  add("it", spoken.answer, ...(spoken.sure === undefined ? [] : [sure(` (by ear, ${percent(spoken.sure)} sure)`)]));
}

/** Only voices of this machine: others send the text to a server. */
function speak(text) {
  const voice = globalThis.speechSynthesis?.getVoices().find((one) => one.localService);
  if (!voice) return;
  const words = new SpeechSynthesisUtterance(text);
  words.voice = voice;
  speechSynthesis.speak(words);
}
