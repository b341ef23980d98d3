// Frames of the page's camera: JPEG, up to 15 a second, each with the time at which it was captured.

const LARGEST_HZ = 15;
const LARGEST_WIDTH = 640;
const QUALITY = 0.8;

/** Show a stream in `video` and give its frames to `link` until it ends; then `ended` is called. */
export function sendFrames(stream, video, link, { isTaken, ended }) {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { alpha: false });
  let lastS = -Infinity;
  let isEncoding = false;

  const encoded = (timeS) => async (jpeg) => {
    isEncoding = false;
    if (jpeg) link.give("image/jpeg", timeS, await jpeg.arrayBuffer());
  };

  const [track] = stream.getVideoTracks();
  const frame = (timeS) => {
    // A camera's 30 frames a second come unevenly: one that is 6 ms early still counts as the next.
    const isDue = timeS - lastS >= 1 / LARGEST_HZ - 0.006 || timeS < lastS;
    // A muted track (a closed lid, a switch of the system) gives black frames: what is not seen is absent.
    if (!isDue || isEncoding || track.muted || !isTaken() || !link.isFree() || !video.videoWidth) return;
    lastS = timeS;
    canvas.width = Math.min(LARGEST_WIDTH, video.videoWidth);
    canvas.height = Math.round((canvas.width * video.videoHeight) / video.videoWidth);
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    isEncoding = true;
    canvas.toBlob(encoded(timeS), "image/jpeg", QUALITY);
  };

  track.addEventListener("ended", ended);
  video.srcObject = stream;
  video.play().catch(() => {}); // muted video may play; if not, no frame comes and the sense is missing
  everyFrame(video, () => video.srcObject === stream, frame);
}

function everyFrame(video, isOn, frame) {
  if (!video.requestVideoFrameCallback) {
    const timer = setInterval(() => (isOn() ? frame(performance.now() / 1000) : clearInterval(timer)), 1000 / 30);
    return;
  }
  const next = (nowMs, about) => {
    if (!isOn()) return;
    video.requestVideoFrameCallback(next);
    frame((about.captureTime ?? nowMs) / 1000);
  };
  video.requestVideoFrameCallback(next);
}
