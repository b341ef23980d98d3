// Sound of the page's microphone: blocks of 20 ms of 16-bit samples, each with the time of its first sample.

/** Give a stream's sound to `link`. Browsers may keep it silent until the page is touched: then `silent(true)` is called. Resolves to a function that ends it. */
export async function sendSound(stream, link, { isTaken, silent, ended }) {
  const context = new AudioContext({ latencyHint: "interactive" });
  try {
    await context.audioWorklet.addModule("worklet.js");
  } catch (error) {
    context.close();
    throw error;
  }
  const blocks = new AudioWorkletNode(context, "blocks", {
    numberOfOutputs: 0,
    channelCount: 1,
    channelCountMode: "explicit",
  });
  const kind = `audio/s16;rate=${context.sampleRate}`;
  const [track] = stream.getAudioTracks();
  // A muted track (a key of the system, a closed lid) gives zeros: what is not heard is absent, and no silence.
  blocks.port.onmessage = ({ data }) => isTaken() && !track.muted && link.give(kind, data.timeS, data.samples.buffer);
  context.createMediaStreamSource(stream).connect(blocks);
  track.addEventListener("ended", () => {
    context.close();
    ended();
  });
  const wake = () => context.state === "suspended" && context.resume();
  for (const touch of ["pointerdown", "keydown"]) addEventListener(touch, wake);
  context.onstatechange = () => silent(context.state === "suspended");
  silent(context.state === "suspended");
  return () => {
    context.onstatechange = null;
    if (context.state !== "closed") context.close();
  };
}
