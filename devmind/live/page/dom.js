// Small helpers around the document.

export const at = (id) => document.getElementById(id);

/** A new element with properties and children; `data-` and `aria-` names are set as attributes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Set a text only when it changed: screen readers and the layout are left alone otherwise. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const percent = (part) => `${Math.round(100 * part)} %`;

export const times = (count) => (count === 1 ? "once" : `${count} times`);

/** A time from unix seconds: for today the time, otherwise also the day. */
export function when(timeS) {
  const then = new Date(1000 * timeS);
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday ? time : `${then.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/** A sentence for the user; it stays until the next one, or for `seconds`. */
export function tell(sentence, { bad = false, seconds = 8 } = {}) {
  const told = at("told");
  clearTimeout(tell.timer);
  told.className = bad ? "bad" : "";
  told.hidden = !sentence;
  write(told, sentence);
  if (sentence && seconds) tell.timer = setTimeout(() => tell(""), 1000 * seconds);
}
