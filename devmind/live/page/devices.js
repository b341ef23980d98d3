// Asks the browser for the camera and the microphone, and says what to do when it refuses.

const WANTED = {
  video: { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 30 } },
  // The settings of calls are off: they would remove every sound that is not speech.
  audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 },
};
const NAMES = { video: "camera", audio: "microphone" };

/** The streams that the browser gave, and a sentence for each that it refused: {video, audio, faults}. */
export async function askFor(kinds) {
  const given = { faults: [] };
  if (!kinds.length) return given;
  if (!navigator.mediaDevices) {
    given.faults.push(
      "Browsers give camera and microphone only to pages of this machine, or with TLS. " +
        "Open this page at 127.0.0.1 (from afar by ssh -L), or start devmind with a certificate.",
    );
    return given;
  }
  try {
    const both = await ask(kinds); // one question instead of two
    for (const kind of kinds) given[kind] = part(both, kind);
  } catch {
    for (const kind of kinds) {
      try {
        given[kind] = part(await ask([kind]), kind);
      } catch (error) {
        given.faults.push(sentence(error, NAMES[kind]));
      }
    }
  }
  return given;
}

function ask(kinds) {
  return navigator.mediaDevices.getUserMedia(Object.fromEntries(kinds.map((kind) => [kind, WANTED[kind]])));
}

function part(stream, kind) {
  return new MediaStream(kind === "video" ? stream.getVideoTracks() : stream.getAudioTracks());
}

function sentence(error, device) {
  switch (error.name) {
    case "NotAllowedError":
      return `The browser keeps the ${device} from this page. Click the sign beside the address, and allow the ${device}.`;
    case "NotFoundError":
      return `No ${device} was found. Plug one in.`;
    case "NotReadableError":
      return `The ${device} cannot be opened; another program may be using it. Close that.`;
    default:
      return `The ${device} cannot be used (${error.name}). Another browser may help.`;
  }
}
