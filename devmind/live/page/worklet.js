// In the browser's sound thread: gathers 20 ms of samples as 16-bit numbers, with the time of the first.

const BLOCK_S = 0.02;

class Blocks extends AudioWorkletProcessor {
  #samples = new Int16Array(Math.round(BLOCK_S * sampleRate));
  #filled = 0;
  #timeS = 0;

  process([input]) {
    const channel = input[0];
    if (!channel) {
      this.#filled = 0; // nothing is connected: what comes later is no continuation
      return true;
    }
    for (let index = 0; index < channel.length; index++) {
      if (this.#filled === 0) this.#timeS = (currentFrame + index) / sampleRate;
      this.#samples[this.#filled++] = Math.round(32767 * Math.max(-1, Math.min(1, channel[index])));
      if (this.#filled === this.#samples.length) this.#send();
    }
    return true;
  }

  #send() {
    this.port.postMessage({ timeS: this.#timeS, samples: this.#samples }, [this.#samples.buffer]);
    this.#samples = new Int16Array(Math.round(BLOCK_S * sampleRate));
    this.#filled = 0;
  }
}

registerProcessor("blocks", Blocks);
