// A game on a page: the board, what the agent says and thought, and what can be asked of it.

import { at, make, percent, tell, write } from "./dom.js";
import { Link } from "./link.js";
import { OVER, STATES } from "./states.js";

const NAMES = { tictactoe: "Tic-tac-toe", connect4: "Connect 4", othello: "Othello" };
const HOW = {
  tictactoe: "Three in a row win.",
  connect4: "Four in a row win; a mark falls to the lowest free place of its column.",
  othello: "Close in the other's marks and they turn; who has more in the end wins.",
};
const WHOSE = { you: "yours", agent: "its", "": "free" };
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
let view = null; // how the table stands
let command = "devmind play";
let budgets = [];
let cells = [];
let heads = []; // buttons of columns, where marks fall

const link = new Link({ welcome, tick: show, told: ({ sentence }) => tell(sentence, { bad: true }), wide() {}, state: showState });
const ask = (what, words) => link.do(what, words).then(() => tell(""), (error) => tell(error.message, { bad: true }));

at("new").addEventListener("submit", (event) => {
  event.preventDefault();
  ask("new", { begins: event.submitter?.value ?? "you" });
});
at("hint").addEventListener("click", () => ask("hint"));
at("draw").addEventListener("change", () => showVisits());
at("budget").addEventListener("input", () => sayBudget(budgets[at("budget").value]));
at("budget").addEventListener("change", () => ask("simulations", { n: budgets[at("budget").value] }));
at("board").addEventListener("keydown", walk);
at("heads").addEventListener("keydown", walk);

function welcome(words) {
  ({ command, budgets } = words);
  at("budget").max = budgets.length - 1;
  write(at("about"), `devmind ${words.version}. Everything stays on the machine it runs on.`);
  show(words);
}

function show(words) {
  if (!view || view.game !== words.game) build(words);
  view = words;
  showBoard();
  showState("connected");
  showWords();
  showThought();
  at("budget").value = budgets.indexOf(view.simulations);
  sayBudget(view.simulations);
  at("hint").disabled = view.over || view.thinks;
}

function showState(state) {
  for (const button of document.querySelectorAll("button, input")) button.disabled = OVER.includes(state);
  if (state !== "connected") {
    write(at("state"), STATES[state](command));
    at("state").className = state;
    return;
  }
  const says = view.thinks ? "It thinks …" : view.over ? view.says.at(-1) : "Your move.";
  write(at("state"), says);
  at("state").className = view.thinks ? "thinking" : view.over ? "over" : "turn";
}

/** Cells once; later only what stands in them changes, so that the focus stays where it is. */
function build({ game, rows, columns, falling, counts }) {
  document.title = `devmind: ${NAMES[game] ?? game}`;
  write(at("game"), NAMES[game] ?? game);
  const board = at("board");
  board.style.setProperty("--columns", columns);
  at("heads").style.setProperty("--columns", columns);
  document.documentElement.style.setProperty("--shape", columns / rows);
  board.className = falling ? "falling" : counts ? "counts" : "";
  cells = Array.from({ length: rows * columns }, (_, at) => {
    const cell = make(falling ? "div" : "button", { className: "cell" });
    if (falling) cell.setAttribute("role", "img");
    else cell.type = "button";
    cell.addEventListener("click", () => place(falling ? at % columns : at));
    if (falling) aim(cell, at % columns);
    return cell;
  });
  board.replaceChildren(...cells);
  heads = falling ? Array.from({ length: columns }, (_, column) => headOf(column)) : [];
  at("heads").replaceChildren(...heads);
  at("heads").hidden = !falling;
  for (const [number, button] of (falling ? heads : cells).entries()) button.tabIndex = number ? -1 : 0;
}

function headOf(column) {
  const head = make("button", { type: "button", textContent: column + 1 });
  head.addEventListener("click", () => place(column));
  aim(head, column);
  return head;
}

/** Where a mark would come to lie, while the pointer or the focus is on its column. */
function aim(element, column) {
  const show = (isAimed) => cells[view?.able[column]]?.classList.toggle("aimed", isAimed);
  for (const [event, isAimed] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) {
    element.addEventListener(event, () => show(isAimed));
  }
}

function place(move) {
  if (view.thinks) return tell("It thinks; wait for its move.");
  ask("place", { move });
}

/** Arrows walk over the board, as one stop of the Tab key; a digit is the number of a place or a column. */
function walk(event) {
  const buttons = view.falling ? heads : cells;
  const here = buttons.indexOf(event.target);
  const digit = Number(event.key);
  if (digit >= 1 && digit <= buttons.length && buttons.length <= 9) return place(digit - 1);
  if (here < 0 || !STEPS[event.key]) return;
  event.preventDefault();
  const [down, right] = STEPS[event.key];
  const columns = view.columns;
  const [row, column] = [Math.floor(here / columns) + (view.falling ? 0 : down), (here % columns) + right];
  const next = column >= 0 && column < columns ? buttons[row * columns + column] : null;
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function showBoard() {
  const free = new Set(Object.values(view.able));
  for (const [number, cell] of cells.entries()) {
    const whose = view.cells[number];
    const [row, column] = [Math.floor(number / view.columns) + 1, (number % view.columns) + 1];
    const isAble = free.has(number);
    const classes = ["cell", whose, isAble && "able", view.last === number && "last", view.line.includes(number) && "won"];
    cell.className = classes.filter(Boolean).join(" ");
    const where = view.falling ? `row ${row}, column ${column}` : `place ${number + 1}, row ${row}, column ${column}`;
    cell.setAttribute("aria-label", `${where}: ${WHOSE[whose]}${view.last === number ? ", the last move" : ""}${view.line.includes(number) ? ", it won" : ""}`);
    if (!view.falling) {
      cell.setAttribute("aria-disabled", String(!isAble));
      if (whose) delete cell.dataset.number;
      else cell.dataset.number = number + 1;
    }
    cell.replaceChildren(...(whose ? [make("span", { className: "mark" })] : []));
  }
  for (const [column, head] of heads.entries()) {
    const able = column in view.able;
    const left = view.cells.filter((whose, number) => number % view.columns === column && !whose).length;
    head.classList.toggle("able", able);
    head.setAttribute("aria-disabled", String(!able));
    head.setAttribute("aria-label", `column ${column + 1}, ${left} free`);
  }
  at("marks").replaceChildren(HOW[view.game] ?? "", make("i", { className: "you" }), "yours", make("i", { className: "agent" }), "its");
  const count = (whose) => view.cells.filter((cell) => cell === whose).length;
  at("count").hidden = !view.counts;
  write(at("count"), `you ${count("you")} · it ${count("agent")}`);
  showVisits();
}

function showWords() {
  const begins = view.began === "you" ? "You begin: take a place." : "It begins.";
  const says = view.says.length ? view.says : [view.thinks ? "It thinks …" : begins];
  if ([...at("says").children].map((item) => item.textContent).join("\n") === says.join("\n")) return;
  at("says").replaceChildren(...says.map((sentence) => make("li", { textContent: sentence })));
}

const share = (one, of) => one / Math.max(1, ...of);
const signed = (value) => (Math.abs(value) < 0.005 ? "0.00" : (value > 0 ? "+" : "−") + Math.abs(value).toFixed(2));
const outcome = (value) => (value > 0 ? "it wins" : value < 0 ? "you win" : "a draw");

function showThought() {
  const { thought } = view;
  at("worth").hidden = at("thought").hidden = !thought;
  if (!thought) return;
  const { value, proven, simulations, candidates } = thought;
  at("needle").style.left = `${50 + 50 * value}%`;
  at("needle").className = proven ? "proven" : "";
  const says = proven ? `Proven: ${outcome(value)}, if both play on perfectly.` : `${signed(value)}, not proven.`;
  at("needle").parentElement.setAttribute("aria-valuenow", value.toFixed(2));
  at("needle").parentElement.setAttribute("aria-valuetext", says);
  write(at("worth-says"), says);
  write(at("thought-title"), thought.of === "you" ? "What it looked at for you" : "What it looked at before its move");
  write(at("share-title"), simulations ? "visits" : "no search");
  const visits = candidates.map((one) => one.visits);
  at("candidates").replaceChildren(...candidates.filter((one) => !simulations || one.visits).slice(0, 9).map((one) => {
    const bar = make("span", { className: "bar" });
    bar.style.setProperty("--full", percent(share(one.visits, visits)).replace(" ", ""));
    const searched = simulations ? [bar, String(one.visits)] : ["–"];
    const expects = one.value === null ? "–" : one.known ? `proven: ${outcome(one.value)}` : signed(one.value);
    const row = make("tr", { className: one.move === thought.move ? "best" : "" });
    row.append(make("td", { textContent: one.move + 1 }), make("td", {}, ...searched), make("td", { textContent: expects }), make("td", { textContent: percent(one.prior) }));
    return row;
  }));
}

/** On each place that was looked at how often; without a search what the network gives it. */
function showVisits() {
  for (const badge of at("board").querySelectorAll(".visits")) badge.remove();
  const { thought } = view;
  if (!thought || !at("draw").checked) return;
  const visits = thought.candidates.map((one) => one.visits);
  for (const one of thought.candidates) {
    const says = thought.simulations ? one.visits : Math.round(100 * one.prior);
    if (!says || one.cell === null) continue;
    const part = thought.simulations ? share(one.visits, visits) : one.prior;
    const kind = ["visits", one.known && "known", one.move === thought.move && "best"].filter(Boolean).join(" ");
    const badge = make("span", { className: kind, textContent: thought.simulations ? says : `${says} %`, "aria-hidden": "true" });
    badge.style.setProperty("--share", (0.12 + 0.78 * part).toFixed(2));
    if (one.known) badge.textContent += { 1: " W", "-1": " L", 0: " =" }[Math.sign(one.value)];
    cells[one.cell].append(badge);
  }
}

function sayBudget(n) {
  write(at("budget-says"), n === undefined ? "" : n ? `${n}` : "0: its network alone");
}
