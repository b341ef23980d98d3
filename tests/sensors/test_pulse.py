"""Microphone and speaker with the real PyAudio, on a PulseAudio whose null sink is the default input.

Sound servers start slowly and lose samples while they do (2 s were observed), so a test first waits for a whole
second of sound, and compares what it hears window by window. Needs `make test-system` and the extra `live`.
"""

from __future__ import annotations

import subprocess
import threading
import time

import numpy as np
import pytest

from devmind.errors import StaleReading
from devmind.worlds.probe import Probed, skew_s
from sensors.frames import Health, NewestFrame
from sensors.microphone import Microphone
from sensors.speaker import Speaker
from sensors.webcam import Webcam

pytestmark = pytest.mark.slow

RATE_HZ = 16_000


def settled(ear, seconds=1.0):
    """Wait until the last `seconds` of sound are complete."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.1)
        try:
            end_s = time.monotonic() - 0.3
            return ear.read_window(end_s - seconds, end_s)
        except StaleReading as error:
            why = error
    raise AssertionError(f"the microphone did not settle within 30 s: {why}")


def babble(seconds):
    """Noise whose loudness changes ten times a second, so that every window differs from every other."""
    rng = np.random.default_rng(0)
    noise = np.convolve(rng.normal(0, 1, int(seconds * RATE_HZ)), np.ones(8) / 8, "same")
    return np.clip(0.25 * noise * np.repeat(rng.uniform(0.2, 1, int(seconds * 10)), RATE_HZ // 10), -1, 1)


def matches(heard, played):
    """The best normalised cross-correlation of a window with any stretch of `played`, and its position in samples."""
    power = np.sqrt(np.convolve(played**2, np.ones(len(heard)), "valid") * (heard**2).sum()) + 1e-9
    likeness = np.correlate(played, heard, "valid") / power
    return likeness.max(), int(likeness.argmax())


def windows_heard(ear, played, begun, seconds):
    """(likeness, lag in seconds) of each window of half a second; a lost window has likeness 0."""
    found = []
    for start in np.arange(0.5, seconds - 0.6, 0.5):
        first = int((start - 0.5) * RATE_HZ)
        try:
            heard = ear.read_window(begun + start, begun + start + 0.5)[0]
        except StaleReading:
            found.append((0.0, np.nan))
            continue
        likeness, at = matches(heard, played[first : first + int(1.3 * RATE_HZ)])
        found.append((likeness, start - (first + at) / RATE_HZ))
    return np.array(found).T


def test_the_microphone_hears_what_paplay_plays(server):
    import soundfile

    played = babble(6)
    soundfile.write(server / "babble.wav", played, RATE_HZ)
    for _ in range(3):  # a sound server that waits for a core plays gaps
        with Microphone() as ear:
            settled(ear)
            begun = time.monotonic()
            subprocess.run(["paplay", "--latency-msec=20", str(server / "babble.wav")], check=True, timeout=60)
            time.sleep(0.6)
            likeness, lags = windows_heard(ear, played, begun, 6)
        good = likeness >= 0.9
        if good.mean() >= 0.8 and np.ptp(lags[good]) < 0.05:
            break
    print(f"\n{good.mean():.0%} of {len(good)} windows, lag {np.median(lags[good]) * 1e3:.0f} ms")
    assert good.mean() >= 0.8
    assert np.ptp(lags[good]) < 0.05


def share_heard(said):
    """The share of windows of the speaker's output that the microphone hears."""
    with Microphone() as ear, Speaker() as mouth:
        settled(ear)
        begun = time.monotonic()
        for part in np.split(said, 40):
            mouth.act(part[None])
        assert time.monotonic() - begun < 0.5, "acting does not wait for the sound"
        until = time.monotonic() + 20
        while mouth.pending_s and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1.0)
        likeness, _ = windows_heard(ear, np.concatenate([np.zeros(RATE_HZ // 4), said]), begun, 4)
    assert mouth.drops == 0
    return (likeness >= 0.9).mean()


def test_the_microphone_hears_the_speaker(server):
    """Once in three tries: a sound server that waits for a core plays gaps, whatever the speaker does."""
    said = babble(4).astype(np.float32)
    shares = []
    while len(shares) < 3 and max(shares, default=0) < 0.8:
        shares.append(share_heard(said))
    assert max(shares) >= 0.8, f"shares of windows heard in three tries: {shares}"


def test_a_simultaneous_flash_and_click_are_sensed_together(server, camera):
    """The median skew of five is within 250 ms; the sound server's own latency is uncertain by 60 ms."""
    click = np.zeros((1, 1600), np.float32)
    click[0, :160] = 0.9 * np.sin(np.arange(160))
    with Microphone() as ear, Webcam(camera.url) as eye, Speaker() as mouth:
        settled(ear)
        seen = Probed("eye", "sight")
        begun, slot = time.monotonic(), NewestFrame("last", Health())
        flashes = [threading.Timer(0.8 + 0.9 * k, lambda: (camera.flash(), mouth.act(click))) for k in range(5)]
        for flash in flashes:
            flash.start()
        while time.monotonic() < begun + 6:
            frame, at_s = eye.read_latest(2.0)
            if not seen.times or at_s > seen.times[-1]:
                change = (
                    np.abs(frame[80:].astype(float) - slot.read_latest(99)[0][80:]).mean() / 255 if seen.times else 0
                )
                slot.put(frame, at_s)
                seen.times.append(at_s)
                seen.changes.append(change)
            time.sleep(0.005)
        heard = Probed("ear", "sound")
        for start_s in np.arange(begun, begun + 5.5, 0.1):
            try:
                heard.windows.append((start_s, ear.read_window(start_s, start_s + 0.1)))
            except StaleReading:
                continue
    skew, events = skew_s(seen, heard, RATE_HZ)
    print(f"\nskew {skew * 1e3:+.0f} ms, median of {events}")
    assert events >= 4
    assert abs(skew) <= 0.25


def test_the_command_tests_speaker_and_microphone(server):
    from typer.testing import CliRunner

    from devmind.cli import app

    tested = CliRunner().invoke(app, ["sensors", "speaker", "microphone", "--seconds", "2"])
    print(tested.output)
    assert tested.exit_code == 0, tested.output
    assert "speaker: played a tone of half a second" in tested.output
    assert "16 kHz" in tested.output
