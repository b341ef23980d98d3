// The page's one WebSocket: views in, commands and device messages out, opened again when it breaks.

import { forgetKey, ownKey } from "./key.js";

const LONGEST_WAIT_MS = 8000;
const GOES_AWAY = 1001; // by this code the server says that it ends
const NO_KEY = 4403; // and by this one that this tab has no key, or that of an earlier life
const SILENT_AFTER = 4; // tries nobody answered, about eight seconds
const TRIES = 80; // about ten minutes, while it may come back
const TRIES_OF_ENDED = 10; // most of a minute after it said that it ends: it may be started again at the same port
const DEAD_MS = 15_000; // a broken tunnel tells nothing, not even that it broke
const FULL_BYTES = 300_000; // what waits in the socket above this is old already

/** on: {welcome, tick, told, wide, state}, called with the message; states: lost, silent, ended, stranger, keyless. */
export class Link {
  #on;
  #socket = null;
  #waiting = new Map();
  #next = 1;
  #failures = 0;
  #hasEnded = false;
  #isWatch = false;
  #key = "";
  #dead = 0;

  constructor(on) {
    this.#on = on;
    ownKey().then((key) => {
      this.#key = key;
      this.#open();
    });
  }

  /** Do a command; resolves to its answer, rejects with an Error whose message is a sentence. */
  do(command, words = {}) {
    if (this.#socket?.readyState !== WebSocket.OPEN) {
      return Promise.reject(new Error("There is no connection to it just now."));
    }
    const id = this.#next++;
    this.#socket.send(JSON.stringify({ id, do: command, with: words }));
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** Say whether something is told every second or more often from now on: when that stops, the connection is opened anew. */
  expect(isTold) {
    clearTimeout(this.#dead);
    this.#dead = isTold ? setTimeout(() => this.#giveUp(), DEAD_MS) : 0;
  }

  /** Send data of a device, made at `timeS` of the device's clock; false when it was dropped. */
  give(kind, timeS, data) {
    if (!this.isFree()) return false;
    const name = new TextEncoder().encode(kind);
    const message = new Uint8Array(1 + name.length + 8 + data.byteLength);
    message[0] = name.length;
    message.set(name, 1);
    new DataView(message.buffer).setFloat64(1 + name.length, timeS, true);
    message.set(new Uint8Array(data), 9 + name.length);
    this.#socket.send(message);
    return true;
  }

  /** Whether device data would be sent, and not wait behind older data. */
  isFree() {
    return this.#socket?.readyState === WebSocket.OPEN && this.#socket.bufferedAmount < FULL_BYTES;
  }

  #open() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(JSON.stringify({ key: this.#key }));
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#take(JSON.parse(data)) : this.#takeBytes(data));
    socket.onclose = ({ code }) => (code === NO_KEY ? this.#refused() : this.#closed(code === GOES_AWAY));
    this.#socket = socket;
  }

  #take(message) {
    if (message.type === "answer") {
      const asked = this.#waiting.get(message.id);
      this.#waiting.delete(message.id);
      if (message.ok) asked?.resolve(message.answer);
      else asked?.reject(new Error(message.sentence));
      return;
    }
    if (message.type === "welcome") {
      this.#failures = 0;
      this.#hasEnded = false;
      this.#isWatch = message.mode === "watch";
    }
    this.#on[message.type]?.(message);
  }

  #takeBytes(data) {
    if (new Uint8Array(data, 0, 1)[0] === 1) this.#on.wide(new Blob([data.slice(1)], { type: "image/jpeg" }));
  }

  #refused() {
    for (const { reject } of this.#waiting.values()) reject(new Error("This page may not ask."));
    this.#waiting.clear();
    forgetKey();
    this.#on.state("keyless");
  }

  /** Without a word from the other side: closing in form would wait for an answer for a minute. */
  #giveUp() {
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket.close();
    this.#closed(false);
  }

  /** So often it asks whether devmind is there again; then the state stands, and a reload asks anew. */
  #tries() {
    return !this.#hasEnded ? TRIES : this.#isWatch ? 0 : TRIES_OF_ENDED;
  }

  async #closed(isEnd) {
    this.expect(false);
    for (const { reject } of this.#waiting.values()) reject(new Error("The connection broke before the answer came."));
    this.#waiting.clear();
    this.#hasEnded ||= isEnd;
    this.#on.state(this.#hasEnded ? "ended" : "lost");
    // A refused WebSocket gives no reason; a request does.
    for (let status = 0; status === 0; ) {
      if (this.#failures >= this.#tries()) return this.#hasEnded && forgetKey();
      await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_WAIT_MS, 500 * 2 ** this.#failures++)));
      status = await fetch("/", { method: "HEAD" }).then((answer) => answer.status, () => 0);
      if (status === 403 || status === 421) {
        forgetKey();
        return this.#on.state("stranger");
      }
      if (status === 0 && !this.#hasEnded && this.#failures >= SILENT_AFTER) this.#on.state("silent");
    }
    this.#open();
  }
}
